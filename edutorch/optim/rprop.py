"""Rprop: resilient backpropagation, which uses only the sign of the gradient."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..backends.numpy import Namespace
from ..core.tensor import Tensor
from ..ops import full_like, zeros_like
from .fused import FusedKernel
from .optimizer import Optimizer
from .update_rule import Group, State, Values, check, check_lr, host_scalar

__all__ = ["Rprop"]


class Rprop(Optimizer):
    r"""A step size η per element, which grows while the sign of g stays and shrinks otherwise.

    If g · g₋₁ > 0: η ← min(η · η₊, η_max); if it is < 0, the last step went too far:
    η ← max(η · η₋, η_min), and g ← 0, which skips one step. θ ← θ - sign(g) · η.
    It is for full batches: the sign of a noisy gradient is unreliable.

    Args:
        params: the parameters to train, or groups of them.
        lr: the initial step size.
        etas: the factors (η₋, η₊).
        step_sizes: the smallest and the largest step size.
        maximize: whether to maximize the objective instead of minimizing it.
        differentiable: whether to record the steps, so that gradients flow through them.

    Paper: Riedmiller and Braun, A direct adaptive method for faster backpropagation
    learning: the RPROP algorithm, 1993.

    Raises: ValueError: a setting is invalid.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optim.Rprop([x], lr=0.1).step()
    >>> x
    tensor(0.9000, requires_grad=True)
    """

    fused_kernel = FusedKernel()

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2), step_sizes: tuple[float, float] = (1e-6, 50), *,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check(0 < etas[0] < 1 < etas[1], f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def init_state(self, group: Group, param: Tensor) -> State:
        """Return zeros for the last gradient, and the initial step sizes."""
        start: Any = float(group["lr"])
        if param.is_complex():
            start = complex(start, start)
        return {
            "step": host_scalar(0), "prev": zeros_like(param),
            "step_size": full_like(param.detach(), start),
        }  # fmt: skip

    def update(
        self, xp: Namespace, group: Group, param: Values, grad: Values, state: State
    ) -> None:
        (shrink, grow), (min_size, max_size) = group["etas"], group["step_sizes"]
        size, previous = state["step_size"], state["prev"]
        product = grad * previous
        is_reversed = product < 0
        new_size = xp.where(product > 0, size * grow, xp.where(is_reversed, size * shrink, size))
        size[...] = xp.clip(new_size, min_size, max_size)
        # With this 0 as the last gradient, the next step keeps η and follows the new sign.
        grad = xp.where(is_reversed, grad * 0, grad)
        param -= xp.sign(grad) * size
        previous[...] = grad
