"""Adagrad: learning rates that decrease with the sum of squared gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..backends.numpy import Namespace
from ..core.tensor import Tensor
from ..ops import full_like
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
    update_rows,
)

__all__ = ["Adagrad"]


class Adagrad(Optimizer):
    r"""Divide by the root of all squared gradients so far: s ← s + g², θ ← θ - lrₜ · g / (√s + ε).

    An element whose gradient is mostly zero, such as that of a rare word, keeps large steps.
    The rate decreases as s grows, and with lrₜ = lr / (1 + (t - 1) · lr_decay).

    Args:
        params: the parameters to train, or groups of them.
        lr: the learning rate.
        lr_decay: the decay of the learning rate.
        weight_decay: L2 penalty: g ← g + weight_decay · θ.
        initial_accumulator_value: the initial value of s.
        eps: added to the denominator, for a finite division.
        maximize: whether to maximize the objective instead of minimizing it.
        differentiable: whether to record the steps, so that gradients flow through them.

    Paper: Duchi et al., Adaptive subgradient methods for online learning, 2011.

    Raises: ValueError: a setting is invalid. RuntimeError: settings that exclude each other.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optim.Adagrad([x], lr=0.1).step()
    >>> x
    tensor(0.9000, requires_grad=True)
    """

    fused_kernel = FusedKernel()
    _step_supports_amp_scaling = True

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
        """Move the sums to shared memory: see `Tensor.share_memory_`."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    def init_state(self, group: Group, param: Tensor) -> State:
        """Return the initial sum of squares."""
        start: Any = self.defaults["initial_accumulator_value"]
        if param.is_complex():
            start = complex(start, start)
        return {"step": host_scalar(0), "sum": full_like(param.detach(), start)}

    def update(
        self, xp: Namespace, group: Group, param: Values, grad: Values, state: State
    ) -> None:
        lr, total = learning_rate(group), state["sum"]
        grad = apply_weight_decay(group, lr, param, grad)
        total += grad * grad
        # The first step has t = 1, and is not decayed.
        current_lr = lr / (1 + (state["step"] - 1) * group["lr_decay"])
        param -= current_lr * grad / (xp.sqrt(total) + group["eps"])

    def update_sparse(self, group: Group, param: Tensor, grad: Any) -> None:
        """Apply the same formula to the rows of a sparse gradient alone.

        Raises: RuntimeError: weight decay, which would change every row.
        """
        if group["weight_decay"] or group["differentiable"]:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        state = self.state[param] = self.state.get(param) or self.init_state(group, param)
        update_rows(self.update, group, param, grad, state)
