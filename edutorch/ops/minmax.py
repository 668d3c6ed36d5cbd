"""Elementwise fmax, fmin, clamp_min, clamp_max and heaviside."""

from __future__ import annotations

from typing import Any

from ..backends.numpy import Array, Namespace
from ..core.autograd.node_names import recorded_as
from ..core.op import elementwise
from ..core.out_variants import takes_out, with_twin
from ..core.tensor import Tensor
from ..core.tensor_methods import as_method


@elementwise(promotion="promote", dtypes="bif", scalars="")
def fmax(xp: Namespace, input: Array, other: Array) -> Array:
    """The elementwise maximum, ignoring NaN. On a tie the first operand gets the gradient.

    >>> fmax(tensor([1.0, math.nan]), tensor([3.0, 2.0]))
    tensor([3., 2.])
    """
    return xp.fmax(input, other)


fmax.vjp(
    input=lambda g, input, other: where(is_first_chosen(input >= other, other), g, 0.0),
    other=lambda g, input, other: where(
        logical_not(is_first_chosen(input >= other, other)), g, 0.0
    ),
    latex={"input": r"g\,[a \ge b]", "other": r"g\,[a < b]"},
)


@elementwise(promotion="promote", dtypes="bif", scalars="")
def fmin(xp: Namespace, input: Array, other: Array) -> Array:
    """The elementwise minimum, ignoring NaN. On a tie the first operand gets the gradient.

    >>> fmin(tensor([1.0, math.nan]), tensor([3.0, 2.0]))
    tensor([1., 2.])
    """
    return xp.fmin(input, other)


fmin.vjp(
    input=lambda g, input, other: where(is_first_chosen(input <= other, other), g, 0.0),
    other=lambda g, input, other: where(
        logical_not(is_first_chosen(input <= other, other)), g, 0.0
    ),
    latex={"input": r"g\,[a \le b]", "other": r"g\,[a > b]"},
)


def is_first_chosen(wins: Any, other: Any) -> Any:
    """Return a mask of where the first operand is chosen: it wins, or the other one is NaN."""
    return logical_or(wins, other != other)


@elementwise(promotion="same", dtypes="bif", scalars="")
def heaviside(xp: Namespace, input: Array, values: Array) -> Array:
    """The Heaviside step function: 0 below 0, 1 above 0, and `values` at 0.

    >>> heaviside(tensor([-1.5, 0.0, 2.0]), tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    step = xp.greater(input, 0).astype(input.dtype)
    return xp.where(xp.equal(input, 0), values, step)


heaviside.vjp(
    input=lambda g: zeros_like(g),
    values=lambda g, input: where(input == 0, g, 0.0),
    latex={"input": r"0", "values": r"g\,[x = 0]"},
)


@as_method
@with_twin
@takes_out
@recorded_as(lambda input, min: f"ClampMinBackward{int(isinstance(min, Tensor))}")
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """Clamp elements to at least `min`.

    >>> clamp_min(tensor([-1.0, 2.0]), 0)
    tensor([0., 2.])
    """
    return clamp(input, min=min)


@as_method
@with_twin
@takes_out
@recorded_as(lambda input, max: f"ClampMaxBackward{int(isinstance(max, Tensor))}")
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """Clamp elements to at most `max`.

    >>> clamp_max(tensor([-1.0, 2.0]), 1)
    tensor([-1.,  1.])
    """
    return clamp(input, max=max)


from .arithmetic import clamp  # noqa: E402  (rules may use any op)
from .comparison import logical_not, logical_or, where  # noqa: E402
from .like import zeros_like  # noqa: E402
