"""Adadelta: step sizes from the averages of past steps, without a learning rate to choose."""

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
    check,
    check_lr,
    check_not_negative,
    host_scalar,
    learning_rate,
)

__all__ = ["Adadelta"]


class Adadelta(Optimizer):
    r"""Scale each gradient by the RMS of past steps over the RMS of past gradients.

    v ← ρ · v + (1 - ρ) · g², Δ = √(u + ε) / √(v + ε) · g, u ← ρ · u + (1 - ρ) · Δ²,
    θ ← θ - lr · Δ. A step then has the unit of the parameter, whatever the loss is measured in.

    Args:
        params: the parameters to train, or groups of them.
        lr: a factor of each step.
        rho: the decay rate of the two averages.
        eps: added to both averages; it also determines the first step.
        weight_decay: L2 penalty: g ← g + weight_decay · θ.
        maximize: whether to maximize the objective instead of minimizing it.
        differentiable: whether to record the steps, so that gradients flow through them.

    Paper: Zeiler, ADADELTA: an adaptive learning rate method, 2012.

    Raises: ValueError: a setting is invalid.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optim.Adadelta([x]).step()
    >>> x
    tensor(0.9968, requires_grad=True)
    """

    fused_kernel = FusedKernel()
    _step_supports_amp_scaling = True

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1.0, rho: float = 0.9,
        eps: float = 1e-6, weight_decay: float = 0, foreach: bool | None = None, *,
        capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check(0 <= rho <= 1, f"Invalid rho value: {rho}")
        check_not_negative(epsilon=eps, weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        })  # fmt: skip

    def init_state(self, group: Group, param: Tensor) -> State:
        """Return zeros for the average squares of gradients and steps."""
        return {
            "step": host_scalar(0), "square_avg": zeros_like(param), "acc_delta": zeros_like(param)
        }  # fmt: skip

    def update(
        self, xp: Namespace, group: Group, param: Values, grad: Values, state: State
    ) -> None:
        lr, rho, eps = learning_rate(group), group["rho"], group["eps"]
        v, u = state["square_avg"], state["acc_delta"]
        grad = apply_weight_decay(group, lr, param, grad)
        v *= rho
        v += (1 - rho) * grad * grad
        # u starts at 0: without ε in the numerator, no first step would ever be made.
        change = xp.sqrt(u + eps) / xp.sqrt(v + eps) * grad
        u *= rho
        u += (1 - rho) * change * change
        param -= lr * change
