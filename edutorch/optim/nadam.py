"""NAdam: Adam with Nesterov's momentum."""

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
    check_betas,
    check_lr,
    check_not_negative,
    host_scalar,
    learning_rate,
)

__all__ = ["NAdam"]


def momentum_at(group: dict[str, Any], step: float) -> float:
    """Return the momentum μ of a step, which grows to β₁."""
    return group["betas"][0] * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"]))


class NAdam(Optimizer):
    r"""Adam with Nesterov momentum: the update looks one step ahead.

    With m and v as in `Adam`, v̂ = v / (1 - β₂ᵗ) and a momentum that grows,
    μₜ = β₁ · (1 - 0.96^(t · momentum_decay) / 2):

    θ ← θ - lr · ((1 - μₜ) / (1 - Πᵢ₌₁ᵗ μᵢ) · g + μₜ₊₁ / (1 - Πᵢ₌₁ᵗ⁺¹ μᵢ) · m) / (√v̂ + ε)

    Args:
        params: the parameters to train, or groups of them.
        lr: the learning rate, about the largest change of an element per step.
        betas: the decay rates of the two averages.
        eps: added to the denominator, for a finite division.
        weight_decay: L2 penalty: g ← g + weight_decay · θ.
        momentum_decay: the rate at which the momentum grows.
        decoupled_weight_decay: decay θ itself, not through the gradient, as AdamW does.
        maximize: whether to maximize the objective instead of minimizing it.
        differentiable: whether to record the steps, so that gradients flow through them.

    Paper: Dozat, Incorporating Nesterov momentum into Adam, 2016.

    Raises: ValueError: a setting is invalid.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optim.NAdam([x], lr=0.1).step()
    >>> x
    tensor(0.8944, requires_grad=True)
    """

    fused_kernel = FusedKernel(scalars=("mu_product",))

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(epsilon=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable,
        })  # fmt: skip

    def init_state(self, group: Group, param: Tensor) -> State:
        """Return zeros for both averages, and 1 for the product of the momenta."""
        return {
            "step": host_scalar(0), "mu_product": host_scalar(1),
            "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param),
        }  # fmt: skip

    def update(
        self, xp: Namespace, group: Group, param: Values, grad: Values, state: State
    ) -> None:
        step, lr, (beta1, beta2) = state["step"], learning_rate(group), group["betas"]
        m, v, product = state["exp_avg"], state["exp_avg_sq"], state["mu_product"]
        grad = apply_weight_decay(group, lr, param, grad)

        mu, mu_next = momentum_at(group, step), momentum_at(group, step + 1)
        product *= mu
        mu_product = product.item()

        m += (1 - beta1) * (grad - m)
        v *= beta2
        v += (1 - beta2) * grad * grad
        denominator = xp.sqrt(v / (1 - beta2**step)) + group["eps"]
        # Divided separately: ∞ in the sum over ∞ in the denominator would be NaN.
        param -= lr * (1 - mu) / (1 - mu_product) * (grad / denominator)
        param -= lr * mu_next / (1 - mu_product * mu_next) * (m / denominator)
