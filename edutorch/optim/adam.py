"""Adam: adaptive step sizes from the first and second moments of the gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..backends.numpy import Array, Namespace
from ..core.tensor import Tensor
from ..ops import tensor, view_as_real, zeros_like
from .differentiable import FastDifferentiableOptimizer, apply_weight_decay, learning_rate
from .fused import FusedKernel
from .optimizer import check

__all__ = ["Adam"]


def settings(group: dict[str, Any], steps: float, states: Any) -> tuple[float, ...]:
    """Return the settings of one step for the fused kernel."""
    (beta1, beta2), lr, weight_decay = group["betas"], float(group["lr"]), group["weight_decay"]
    decoupled = group["decoupled_weight_decay"]
    correction = math.sqrt(1 - beta2**steps)
    return (
        1 - lr * weight_decay if decoupled else 1.0, 0.0 if decoupled else weight_decay,
        1 - beta1, beta2, 1 - beta2, group["eps"] * correction,
        lr * correction / (1 - beta1**steps), float(group["amsgrad"]),
    )  # fmt: skip


class Adam(FastDifferentiableOptimizer):
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

    fused_kernel = FusedKernel(
        settings, exp_avg=None, exp_avg_sq=None, max_exp_avg_sq="amsgrad",
    )  # fmt: skip

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        check(float(lr) >= 0, f"Invalid learning rate: {lr}")
        check(eps >= 0, f"Invalid epsilon value: {eps}")
        for index, beta in enumerate(betas):
            check(0 <= beta < 1, f"Invalid beta parameter at index {index}: {beta}")
        check(weight_decay >= 0, f"Invalid weight_decay value: {weight_decay}")
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        })  # fmt: skip

    def init_state(self, group: dict[str, Any], param: Tensor) -> dict[str, Any]:
        """Return zeros for both averages."""
        state = {
            "step": tensor(0.0, device="cpu"),
            "exp_avg": zeros_like(param),
            "exp_avg_sq": zeros_like(param),
        }
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(param)
        return state

    def update(
        self, xp: Namespace, group: dict[str, Any], param: Array, grad: Array, state: dict[str, Any]
    ) -> None:
        """Update one parameter. All intermediate results share one buffer: allocation is slow."""
        beta1, beta2 = group["betas"]
        lr = float(group["lr"])
        m, v = state["exp_avg"]._array, state["exp_avg_sq"]._array
        max_v = state["max_exp_avg_sq"]._array if group["amsgrad"] else v
        if param.dtype.kind == "c":  # real and imaginary parts are independent
            param, grad, m, v, max_v = map(view_as_real, (param, grad, m, v, max_v))
        state["step"]._array += 1
        steps = state["step"]._array.item()
        buffer = self.scratch(xp, param)
        if group["weight_decay"]:
            if group["decoupled_weight_decay"]:
                param *= 1 - lr * group["weight_decay"]
            else:
                grad = grad + group["weight_decay"] * param

        xp.subtract(grad, m, out=buffer)  # m += (1 - β₁)(g - m)
        buffer *= 1 - beta1
        m += buffer
        xp.multiply(grad, grad, out=buffer)  # v = β₂ v + (1 - β₂) g²
        buffer *= 1 - beta2
        v *= beta2
        v += buffer

        if group["amsgrad"]:
            xp.maximum(max_v, v, out=max_v)
            v = max_v
        # lr · m̂ / (√v̂ + ε), with both bias corrections moved into two scalars.
        correction = math.sqrt(1 - beta2**steps)
        xp.sqrt(v, out=buffer)
        buffer += group["eps"] * correction
        xp.divide(m, buffer, out=buffer)
        buffer *= lr * correction / (1 - beta1**steps)
        xp.subtract(param, buffer, out=param)

    def update_differentiable(
        self,
        xp: Namespace,
        group: dict[str, Any],
        param: Tensor,
        grad: Tensor,
        state: dict[str, Any],
    ) -> None:
        """Update one parameter with recorded ops."""
        lr, (beta1, beta2), steps = learning_rate(group), group["betas"], state["step"]
        m, v = state["exp_avg"], state["exp_avg_sq"]
        grad = apply_weight_decay(group, lr, param, grad)
        m += (1 - beta1) * (grad - m)
        v *= beta2
        v += (1 - beta2) * grad * grad
        if group["amsgrad"]:
            max_v = state["max_exp_avg_sq"]
            max_v[...] = xp.maximum(max_v.clone(), v)
            v = max_v
        denominator = xp.sqrt(v / (1 - beta2**steps)) + group["eps"]
        param -= lr / (1 - beta1**steps) * m / denominator
