"""Adam: adaptive step sizes from the first and second moments of the gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..backends.numpy import Namespace
from ..core.tensor import Tensor
from ..ops import zeros_like
from .device_number import square_root
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

__all__ = ["Adam"]


class Adam(Optimizer):
    r"""Divide the average gradient by the root of its average square.

    m ← β₁ · m + (1 - β₁) · g is the average of the gradient, v ← β₂ · v + (1 - β₂) · g²
    that of its square. Both start at 0, which is corrected by m̂ = m / (1 - β₁ᵗ) and
    v̂ = v / (1 - β₂ᵗ). The update is θ ← θ - lr · m̂ / (√v̂ + ε).

    Args:
        params: the parameters to train, or groups of them.
        lr: the learning rate, about the largest change of an element per step.
        betas: the decay rates of the two averages.
        eps: added to the denominator, for a finite division.
        weight_decay: L2 penalty: g ← g + weight_decay · θ.
        amsgrad: whether to use the largest v̂ so far.
        maximize: whether to maximize the objective instead of minimizing it.
        decoupled_weight_decay: decay θ itself, not through the gradient, as AdamW does.
        differentiable: whether to record the steps, so that gradients flow through them.

    A gradient of 0 makes a step of 0 also in float16, where ε is 0 (PyTorch makes NaN).

    Paper: Kingma and Ba, Adam: a method for stochastic optimization, 2015.

    Raises: ValueError: a setting is invalid.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optim.Adam([x], lr=0.1).step()
    >>> x
    tensor(0.9000, requires_grad=True)
    """

    fused_kernel = FusedKernel()
    _step_supports_amp_scaling = True

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(epsilon=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        })  # fmt: skip

    def init_state(self, group: Group, param: Tensor) -> State:
        """Return zeros for both averages."""
        state = {
            "step": host_scalar(0), "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)
        }  # fmt: skip
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(param)
        return state

    def update(
        self, xp: Namespace, group: Group, param: Values, grad: Values, state: State
    ) -> None:
        lr, (beta1, beta2), step = learning_rate(group), group["betas"], state["step"]
        m, v = state["exp_avg"], state["exp_avg_sq"]
        grad = apply_weight_decay(group, lr, param, grad)
        m += (1 - beta1) * (grad - m)
        v *= beta2
        v += (1 - beta2) * (grad * grad)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = v = xp.maximum(state["max_exp_avg_sq"], v)
        # lr · m̂ / (√v̂ + ε), with both bias corrections moved into two scalars.
        correction = square_root(1 - beta2**step)
        change = m / (xp.sqrt(v) + group["eps"] * correction)
        param -= lr * correction / (1 - beta1**step) * change
