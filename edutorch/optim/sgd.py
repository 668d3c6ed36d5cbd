"""Stochastic gradient descent, with or without momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..backends.numpy import Array, Namespace
from ..core.tensor import Tensor, wrap
from .differentiable import FastDifferentiableOptimizer, apply_weight_decay, learning_rate
from .fused import FusedKernel
from .optimizer import check

__all__ = ["SGD"]


def settings(group: dict[str, Any], steps: float, states: Any) -> tuple[float, ...]:
    """Return the settings of one step for the fused kernel."""
    return (
        group["weight_decay"], group["momentum"], 1 - group["dampening"], float(group["nesterov"]),
        float(group["lr"]),
    )  # fmt: skip


class SGD(FastDifferentiableOptimizer):
    r"""Gradient descent: θ ← θ - lr · g.

    With momentum μ the gradients accumulate: b ← μ · b + (1 - dampening) · g,
    θ ← θ - lr · b. Nesterov's momentum uses g + μ · b instead of b.

    Args:
        params: the parameters to train, or groups of them.
        lr: the learning rate.
        momentum: the momentum factor μ.
        dampening: the part of the gradient that is left out of the momentum.
        weight_decay: L2 penalty: g ← g + weight_decay · θ.
        nesterov: whether to use Nesterov's momentum.
        maximize: whether to maximize the objective instead of minimizing it.
        differentiable: whether to record the steps, so that gradients flow through them.

    Raises: ValueError: a setting is invalid.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optim.SGD([x], lr=0.1).step()
    >>> x
    tensor(0.8000, requires_grad=True)
    """

    fused_kernel = FusedKernel(settings, counted=False, momentum_buffer="momentum")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3, momentum: float = 0,
        dampening: float = 0, weight_decay: float = 0, nesterov: bool = False, *,
        maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        check(float(lr) >= 0, f"Invalid learning rate: {lr}")
        check(momentum >= 0, f"Invalid momentum value: {momentum}")
        check(weight_decay >= 0, f"Invalid weight_decay value: {weight_decay}")
        is_valid = not nesterov or (momentum > 0 and dampening == 0)
        check(is_valid, "Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        })  # fmt: skip

    def init_state(self, group: dict[str, Any], param: Tensor) -> dict[str, Any]:
        """Return None for the momentum buffer, if there is one."""
        return {"momentum_buffer": None} if group["momentum"] else {}

    def update(
        self, xp: Namespace, group: dict[str, Any], param: Array, grad: Array, state: dict[str, Any]
    ) -> None:
        momentum = group["momentum"]
        buffer = state["momentum_buffer"] if momentum else None
        if group["weight_decay"]:
            grad = grad + group["weight_decay"] * param
        if momentum:
            if buffer is None:  # the first step
                state["momentum_buffer"] = buffer = wrap(xp.array(grad))
            else:
                buffer._array *= momentum
                buffer._array += grad * (1 - group["dampening"])
            grad = grad + momentum * buffer._array if group["nesterov"] else buffer._array
        step = self.scratch(xp, param)
        xp.multiply(grad, float(group["lr"]), out=step)
        xp.subtract(param, step, out=param)

    def update_differentiable(
        self,
        xp: Namespace,
        group: dict[str, Any],
        param: Tensor,
        grad: Tensor,
        state: dict[str, Any],
    ) -> None:
        """Update one parameter with recorded ops."""
        momentum, lr = group["momentum"], learning_rate(group)
        grad = apply_weight_decay(group, lr, param, grad)
        if momentum:
            buffer = state["momentum_buffer"]
            buffer *= momentum
            buffer += grad if state["is_first_step"] else (1 - group["dampening"]) * grad
            grad = grad + momentum * buffer if group["nesterov"] else buffer
        param -= lr * grad
