"""SparseAdam: Adam for gradients that are mostly empty."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from .differentiable import check_betas
from .optimizer import Optimizer, check

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    r"""Adam that updates only the rows a sparse gradient has: the others keep their averages.

    The settings are checked and kept as PyTorch does. Gradients here are dense, however,
    and like PyTorch's this optimizer refuses those: `Adam` is the one to use.

    Args:
        params: what to train: parameters, or groups of them.
        lr: how far each number moves at most, about.
        betas: how much of the two averages stays in each step.
        eps: keeps the division finite.
        maximize: walk uphill.

    Raises: ValueError: a setting makes no sense, or a parameter is complex.
        RuntimeError: on `step()`, where a gradient is dense.

    >>> x = tensor(1.0, requires_grad=True)
    >>> optim.SparseAdam([x]).defaults["lr"]
    0.001
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, maximize: bool = False,
    ) -> None:  # fmt: skip
        check(not isinstance(lr, Tensor) or lr.numel() == 1, "Tensor lr must be 1-element")
        check(float(lr) > 0, f"Invalid learning rate: {lr}")
        check(eps > 0, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        wrong = [
            [index, number]
            for index, group in enumerate(self.param_groups)
            for number, param in enumerate(group["params"])
            if param.is_complex()
        ]
        check(
            not wrong,
            f"Complex params at indices {wrong}: SparseAdam does not support complex parameters",
        )

    def init_state(self, group: dict[str, Any], param: Tensor) -> dict[str, Any]:
        """Refuse: whoever asks has a dense gradient."""
        raise RuntimeError(
            "SparseAdam does not support dense gradients, please consider Adam instead"
        )
