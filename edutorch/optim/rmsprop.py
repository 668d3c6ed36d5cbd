"""RMSprop: divide the gradient by its root mean square."""

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
    check_lr,
    check_not_negative,
    host_scalar,
    learning_rate,
)

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    r"""Divide the gradient by the root of its average square.

    v ← α · v + (1 - α) · g², θ ← θ - lr · g / (√v + ε). Centered, √v is
    replaced by the standard deviation √(v - ḡ²) with ḡ ← α · ḡ + (1 - α) · g. With
    momentum μ the steps accumulate: b ← μ · b + g / (√v + ε), θ ← θ - lr · b.

    Args:
        params: the parameters to train, or groups of them.
        lr: the learning rate, about the change of an element per step.
        alpha: the decay rate of the averages.
        eps: added to the denominator, for a finite division.
        weight_decay: L2 penalty: g ← g + weight_decay · θ.
        momentum: the momentum factor μ.
        centered: whether to divide by the standard deviation of the gradient.
        maximize: whether to maximize the objective instead of minimizing it.
        differentiable: whether to record the steps, so that gradients flow through them.

    Paper: Hinton, Neural networks for machine learning, lecture 6, 2012; centered: Graves,
    Generating sequences with recurrent neural networks, 2013.

    Raises: ValueError: a setting is invalid.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optim.RMSprop([x], lr=0.1, alpha=0.5).step()
    >>> x
    tensor(0.8586, requires_grad=True)
    """

    fused_kernel = FusedKernel()
    _step_supports_amp_scaling = True

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, alpha: float = 0.99,
        eps: float = 1e-8, weight_decay: float = 0, momentum: float = 0, centered: bool = False,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable,
        })  # fmt: skip

    def init_state(self, group: Group, param: Tensor) -> State:
        """Return zeros for the averages and the momentum buffer."""
        state = {"step": host_scalar(0), "square_avg": zeros_like(param)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = zeros_like(param)
        return state

    def update(
        self, xp: Namespace, group: Group, param: Values, grad: Values, state: State
    ) -> None:
        lr, alpha, v = learning_rate(group), group["alpha"], state["square_avg"]
        grad = apply_weight_decay(group, lr, param, grad)
        v *= alpha
        v += (1 - alpha) * grad * grad
        variance = v
        if group["centered"]:
            average = state["grad_avg"]
            # ḡ + (1 - α)(g - ḡ): one product less than α · ḡ + (1 - α) · g, and PyTorch's rounding.
            average += (1 - alpha) * (grad - average)
            variance = v - average * average
        change = grad / (xp.sqrt(variance) + group["eps"])
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"]
            buffer *= group["momentum"]
            buffer += change
            change = buffer
        param -= lr * change
