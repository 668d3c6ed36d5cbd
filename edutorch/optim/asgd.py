"""ASGD: stochastic gradient descent that also averages the parameters."""

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
)

__all__ = ["ASGD"]


class ASGD(Optimizer):
    r"""Averaged SGD: θ ← (1 - λ · η) · θ - η · g, and after t₀ steps an average of the θ.

    ηₜ = lr / (1 + λ · lr · t)^α decreases slowly. The average is ax ← ax + μ · (θ - ax) with
    μₜ = 1 / max(1, t - t₀); averaging cancels the noise of single steps. It is stored in
    `state[param]["ax"]`.

    Args:
        params: the parameters to train, or groups of them.
        lr: the learning rate.
        lambd: the decay term λ.
        alpha: the exponent of the decay of η.
        t0: the step after which averaging begins.
        weight_decay: L2 penalty: g ← g + weight_decay · θ.
        maximize: whether to maximize the objective instead of minimizing it.
        differentiable: whether to record the steps, so that gradients flow through them.

    Paper: Polyak and Juditsky, Acceleration of stochastic approximation by averaging, 1992.

    Raises: ValueError: a setting is invalid.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optim.ASGD([x], lr=0.1).step()
    >>> x
    tensor(0.8000, requires_grad=True)
    """

    fused_kernel = FusedKernel(scalars=("eta", "mu"))

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, lambd: float = 1e-4,
        alpha: float = 0.75, t0: float = 1e6, weight_decay: float = 0,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        })  # fmt: skip

    def init_state(self, group: Group, param: Tensor) -> State:
        """Return the initial η and μ, and zeros for the average."""
        return {
            "step": host_scalar(0), "eta": host_scalar(group["lr"]), "mu": host_scalar(1),
            "ax": zeros_like(param),
        }  # fmt: skip

    def update(
        self, xp: Namespace, group: Group, param: Values, grad: Values, state: State
    ) -> None:
        step, average = state["step"], state["ax"]
        # Those of this step have been computed at the end of the last one, as in PyTorch.
        eta, mu = state["eta"].item(), state["mu"].item()
        grad = apply_weight_decay(group, eta, param, grad)
        param *= 1 - group["lambd"] * eta
        param -= eta * grad
        # ax + 1 · (θ - ax) would round, and is NaN where both are infinite.
        if mu == 1:
            average[...] = param
        else:
            average += mu * (param - average)
        lr = float(group["lr"])
        state["eta"][...] = lr / (1 + group["lambd"] * lr * step) ** group["alpha"]
        state["mu"][...] = 1 / max(1, step - group["t0"])
