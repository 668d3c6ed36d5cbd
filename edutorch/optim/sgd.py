"""Stochastic gradient descent, with or without momentum."""

from __future__ import annotations

from collections.abc import Iterable

from ..backends.numpy import Namespace
from ..core.tensor import Tensor
from .fused import FusedKernel
from .optimizer import Optimizer
from .sparse_rows import update_rows_by_sgd
from .update_rule import Group, State, Values, apply_weight_decay, check, check_lr, learning_rate

__all__ = ["SGD"]


class SGD(Optimizer):
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

    fused_kernel = FusedKernel()
    _step_supports_amp_scaling = True

    def __init__(
        self, params: Iterable[object], lr: float | Tensor = 1e-3, momentum: float = 0,
        dampening: float = 0, weight_decay: float = 0, nesterov: bool = False, *,
        maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check(momentum >= 0, f"Invalid momentum value: {momentum}")
        check(weight_decay >= 0, f"Invalid weight_decay value: {weight_decay}")
        is_valid = not nesterov or (momentum > 0 and dampening == 0)
        check(is_valid, "Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        })  # fmt: skip

    def init_state(self, group: Group, param: Tensor) -> State:
        """Return None for the momentum buffer, if there is one."""
        return {"momentum_buffer": None} if group["momentum"] else {}

    def update(
        self, xp: Namespace, group: Group, param: Values, grad: Values, state: State
    ) -> None:
        lr, momentum = learning_rate(group), group["momentum"]
        grad = apply_weight_decay(group, lr, param, grad)
        if momentum:
            buffer = state["momentum_buffer"]
            if buffer is None:  # the first step: a copy, without the dampening
                state["momentum_buffer"] = buffer = grad * 1
            else:
                buffer *= momentum
                buffer += (1 - group["dampening"]) * grad
            # Nesterov: the gradient where the momentum is about to lead, to first order.
            grad = grad + momentum * buffer if group["nesterov"] else buffer
        param -= lr * grad

    update_sparse = update_rows_by_sgd
