"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from .adam import Adam
from .fused import FusedKernel

__all__ = ["AdamW"]


class AdamW(Adam):
    r"""Adam with θ ← θ - lr · weight_decay · θ before each step.

    In Adam the decay is added to the gradient, and divided by √v̂ like the rest of it. Here all
    elements decay at the same rate.

    Args: as for `Adam`.

    Paper: Loshchilov and Hutter, Decoupled weight decay regularization, 2019.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optim.AdamW([x], lr=0.1).step()
    >>> x
    tensor(0.8990, requires_grad=True)
    """

    fused_kernel = FusedKernel()

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
        amsgrad: bool = False, *,
        maximize: bool = False, foreach: bool | None = None, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )  # fmt: skip
