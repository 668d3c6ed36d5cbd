"""Adagrad: numbers that have moved a lot move less and less."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from ..ops import full_like
from .differentiable import (
    DifferentiableOptimizer,
    apply_weight_decay,
    check_lr,
    check_not_negative,
    host_scalar,
    learning_rate,
)
from .fused import FusedKernel

__all__ = ["Adagrad"]


def settings(group: dict[str, Any], steps: float, states: Any) -> tuple[float, ...]:
    """Return the numbers that a step of the kernel needs."""
    current_lr = float(group["lr"]) / (1 + (steps - 1) * group["lr_decay"])
    return group["weight_decay"], group["eps"], current_lr


class Adagrad(DifferentiableOptimizer):
    r"""Divide by the root of all squared gradients so far: s ← s + g², θ ← θ - lrₜ · g / (√s + ε).

    A number whose gradient is seldom anything but zero, a rare word's say, keeps long steps.
    The rate falls on its own as s grows, and by lrₜ = lr / (1 + (t - 1) · lr_decay).

    Args:
        params: what to train: parameters, or groups of them.
        lr: how far to go.
        lr_decay: how fast the rate falls.
        weight_decay: pull towards zero: g ← g + weight_decay · θ.
        initial_accumulator_value: where s begins.
        eps: keeps the division finite.
        maximize: walk uphill.
        differentiable: record the steps, so that gradients flow through them.

    Paper: Duchi et al., Adaptive subgradient methods for online learning, 2011.

    Raises: ValueError: a setting makes no sense. RuntimeError: settings exclude each other.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optim.Adagrad([x], lr=0.1).step()
    >>> x
    tensor(0.9000, requires_grad=True)
    """

    fused_kernel = FusedKernel("adagrad", settings, sum=None)

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, lr_decay: float = 0,
        weight_decay: float = 0, initial_accumulator_value: float = 0, eps: float = 1e-10,
        foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(
            lr_decay=lr_decay, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, epsilon=eps,
        )  # fmt: skip
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "fused": fused,
        })  # fmt: skip
        if fused and differentiable:
            raise RuntimeError("`fused` does not support `differentiable`")
        if fused and foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        for group in self.param_groups:  # as PyTorch does: before the first step
            for param in group["params"]:
                self.state[param] = self.init_state(group, param)

    def share_memory(self) -> None:
        """Move the sums to memory that processes share : see `Tensor.share_memory_`."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    def init_state(self, group: dict[str, Any], param: Tensor) -> dict[str, Any]:
        """Return the beginning of the sum."""
        start: Any = self.defaults["initial_accumulator_value"]
        if param.is_complex():
            start = complex(start, start)
        return {"step": host_scalar(0), "sum": full_like(param.detach(), start)}

    def update(
        self, xp: Any, group: dict[str, Any], param: Any, grad: Any, state: dict[str, Any]
    ) -> None:
        """Take one step."""
        lr, total = learning_rate(group), state["sum"]
        grad = apply_weight_decay(group, lr, param, grad)
        total += grad * grad
        current_lr = lr / (1 + (state["step"] - 1) * group["lr_decay"])
        param -= current_lr * grad / (xp.sqrt(total) + group["eps"])
