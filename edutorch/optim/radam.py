"""RAdam: Adam with a rectification of the variance of its step sizes."""

from __future__ import annotations

import math
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

__all__ = ["RAdam"]


def rectified_scale(beta2: float, steps: float) -> float:
    """Return the rectification r times √(1 - β₂ᵗ), or 0 while the variance of v is too large."""
    correction = 1 - beta2**steps
    rho_inf = 2 / (1 - beta2) - 1
    rho = rho_inf - 2 * steps * beta2**steps / correction
    if rho <= 5:
        return 0.0
    rectification = (rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)
    return math.sqrt(correction * rectification)


class RAdam(Optimizer):
    r"""Rectified Adam: a warm-up derived from the variance of v.

    v̂ averages about ρₜ = ρ∞ - 2t · β₂ᵗ / (1 - β₂ᵗ) gradients, with ρ∞ = 2 / (1 - β₂) - 1.
    With m̂ and v̂ as in `Adam`, once ρₜ > 5:

    r = √((ρₜ - 4)(ρₜ - 2) ρ∞ / ((ρ∞ - 4)(ρ∞ - 2) ρₜ)), θ ← θ - lr · r · m̂ / √v̂

    and before that, plain momentum: θ ← θ - lr · m̂.

    Args:
        params: the parameters to train, or groups of them.
        lr: the learning rate, about the largest change of an element per step.
        betas: the decay rates of the two averages.
        eps: added to the denominator, for a finite division.
        weight_decay: L2 penalty: g ← g + weight_decay · θ.
        decoupled_weight_decay: decay θ itself, not through the gradient, as AdamW does.
        maximize: whether to maximize the objective instead of minimizing it.
        differentiable: whether to record the steps, so that gradients flow through them.

    Paper: Liu et al., On the variance of the adaptive learning rate and beyond, 2020.

    Raises: ValueError: a setting is invalid.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optim.RAdam([x], lr=0.1).step()
    >>> x
    tensor(0.8000, requires_grad=True)
    """

    fused_kernel = FusedKernel()

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(epsilon=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        })  # fmt: skip

    def init_state(self, group: Group, param: Tensor) -> State:
        """Return zeros for both averages."""
        return {
            "step": host_scalar(0), "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)
        }  # fmt: skip

    def update(
        self, xp: Namespace, group: Group, param: Values, grad: Values, state: State
    ) -> None:
        step, lr, (beta1, beta2) = state["step"], learning_rate(group), group["betas"]
        m, v = state["exp_avg"], state["exp_avg_sq"]
        grad = apply_weight_decay(group, lr, param, grad)

        m += (1 - beta1) * (grad - m)
        v *= beta2
        v += (1 - beta2) * grad * grad
        change = lr * m / (1 - beta1**step)

        scale = rectified_scale(beta2, step)
        # The ρ of the first steps is too small: v̂ has no finite variance, and m̂ is not divided.
        if scale:
            change = change * (scale / (xp.sqrt(v) + group["eps"]))
        param -= change
