"""Adadelta: steps measured by the steps before, so that no learning rate has to be chosen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from ..ops import zeros_like
from .differentiable import (
    DifferentiableOptimizer,
    apply_weight_decay,
    check_lr,
    check_not_negative,
    host_scalar,
    learning_rate,
)
from .fused import FusedKernel
from .optimizer import check

__all__ = ["Adadelta"]


def settings(group: dict[str, Any], steps: float, states: Any) -> tuple[float, ...]:
    """Return the numbers that a step of the kernel needs."""
    rho = group["rho"]
    return group["weight_decay"], rho, 1 - rho, group["eps"], float(group["lr"])


class Adadelta(DifferentiableOptimizer):
    r"""Scale each gradient by the usual step over the usual gradient.

    v ← ρ · v + (1 - ρ) · g², Δ = √(u + ε) / √(v + ε) · g, u ← ρ · u + (1 - ρ) · Δ²,
    θ ← θ - lr · Δ. A step then has the unit of the parameter, whatever the loss is measured in.

    Args:
        params: what to train: parameters, or groups of them.
        lr: a factor of every step.
        rho: how much of the two averages stays in each step.
        eps: keeps the division finite, and begins the first step.
        weight_decay: pull towards zero: g ← g + weight_decay · θ.
        maximize: walk uphill.
        differentiable: record the steps, so that gradients flow through them.

    Paper: Zeiler, ADADELTA: an adaptive learning rate method, 2012.

    Raises: ValueError: a setting makes no sense.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optim.Adadelta([x]).step()
    >>> x
    tensor(0.9968, requires_grad=True)
    """

    fused_kernel = FusedKernel("adadelta", settings, square_avg=None, acc_delta=None)

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

    def init_state(self, group: dict[str, Any], param: Tensor) -> dict[str, Any]:
        """Return zeros for the average squares of gradients and of steps."""
        return {
            "step": host_scalar(0), "square_avg": zeros_like(param), "acc_delta": zeros_like(param)
        }  # fmt: skip

    def update(
        self, xp: Any, group: dict[str, Any], param: Any, grad: Any, state: dict[str, Any]
    ) -> None:
        """Take one step."""
        lr, rho, eps = learning_rate(group), group["rho"], group["eps"]
        v, u = state["square_avg"], state["acc_delta"]
        grad = apply_weight_decay(group, lr, param, grad)
        v *= rho
        v += (1 - rho) * grad * grad
        change = xp.sqrt(u + eps) / xp.sqrt(v + eps) * grad
        u *= rho
        u += (1 - rho) * change * change
        param -= lr * change
