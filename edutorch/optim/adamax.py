"""Adamax: Adam with the infinity norm of past gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..backends.numpy import Namespace
from ..core.tensor import Tensor
from ..ops import zeros_like
from .fused import FusedKernel
from .optimizer import Optimizer
from .update_rule import (
    Group,
    State,
    Values,
    apply_weight_decay,
    check_betas,
    check_lr,
    check_not_negative,
    host_scalar,
    learning_rate,
)

__all__ = ["Adamax"]


class Adamax(Optimizer):
    r"""Adam with an exponentially decayed maximum of |g| instead of the average of g².

    m ← β₁ · m + (1 - β₁) · g, u ← max(β₂ · u, |g| + ε), θ ← θ - lr / (1 - β₁ᵗ) · m / u.

    Args:
        params: the parameters to train, or groups of them.
        lr: the learning rate, the largest change of an element per step.
        betas: the decay rates of the average and of the maximum.
        eps: added to the denominator, for a finite division.
        weight_decay: L2 penalty: g ← g + weight_decay · θ.
        maximize: whether to maximize the objective instead of minimizing it.
        differentiable: whether to record the steps, so that gradients flow through them.

    Paper: Kingma and Ba, Adam: a method for stochastic optimization, 2015, section 7.

    Raises: ValueError: a setting is invalid.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optim.Adamax([x], lr=0.1).step()
    >>> x
    tensor(0.9000, requires_grad=True)
    """

    fused_kernel = FusedKernel()
    _step_supports_amp_scaling = True

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(epsilon=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        })  # fmt: skip

    def init_state(self, group: Group, param: Tensor) -> State:
        """Return zeros for the average and the maximum."""
        return {"step": host_scalar(0), "exp_avg": zeros_like(param), "exp_inf": zeros_like(param)}

    def update(
        self, xp: Namespace, group: Group, param: Values, grad: Values, state: State
    ) -> None:
        lr, (beta1, beta2) = learning_rate(group), group["betas"]
        m, largest = state["exp_avg"], state["exp_inf"]
        grad = apply_weight_decay(group, lr, param, grad)
        m += (1 - beta1) * (grad - m)
        # ε is added to |g|, not to the maximum, as in PyTorch: the maximum never becomes 0.
        largest[...] = xp.maximum(beta2 * largest, xp.abs(grad) + group["eps"])
        param -= lr / (1 - beta1 ** state["step"]) * m / largest
