"""Elementwise maximum, minimum and clamp, and `heaviside`."""

from __future__ import annotations

from typing import Any

from ..backends.numpy import Array, ArrayOrTensor, Namespace, Number
from ..core.composed import as_method, recorded_as, takes_out, with_twin
from ..core.op import elementwise
from ..core.tensor import Tensor
from .comparison import logical_not, logical_or, where
from .creation import zeros_like

__all__ = ["clamp", "clamp_max", "clamp_min", "fmax", "fmin", "heaviside", "maximum", "minimum"]


def split_tie_gradient(g: ArrayOrTensor, loses: ArrayOrTensor, ties: ArrayOrTensor) -> Any:
    """0 where `loses`, ½ g where `ties`, else g. Comparisons with NaN are false, so it gets g."""
    return where(loses, 0.0, where(ties, g * 0.5, g))


def is_within(input: ArrayOrTensor, min: ArrayOrTensor, max: ArrayOrTensor) -> Any:
    """Return a mask of the elements within their limits."""
    if max is None:
        return input >= min
    return input <= max if min is None else (input >= min) & (input <= max)


@elementwise(promotion="promote", dtypes="bif", scalars="", reference=max)
def maximum(xp: Namespace, input: Array, other: Array) -> Array:
    """The elementwise maximum; where the operands are equal, each gets half of the gradient.

    >>> maximum(tensor([1.0, 5.0]), tensor([3.0, 2.0]))
    tensor([3., 5.])
    """
    return xp.maximum(input, other)


maximum.vjp(
    input=lambda g, input, other: split_tie_gradient(g, input < other, input == other),
    other=lambda g, input, other: split_tie_gradient(g, other < input, input == other),
    latex={"input": r"g\,[a > b]", "other": r"g\,[b > a]"},
)


@elementwise(promotion="promote", dtypes="bif", scalars="", reference=min)
def minimum(xp: Namespace, input: Array, other: Array) -> Array:
    """The elementwise minimum; where the operands are equal, each gets half of the gradient.

    >>> minimum(tensor([1.0, 5.0]), tensor([3.0, 2.0]))
    tensor([1., 2.])
    """
    return xp.minimum(input, other)


minimum.vjp(
    input=lambda g, input, other: split_tie_gradient(g, input > other, input == other),
    other=lambda g, input, other: split_tie_gradient(g, other > input, input == other),
    latex={"input": r"g\,[a < b]", "other": r"g\,[b < a]"},
)


@elementwise(
    promotion="promote", dtypes="bif", scalars="min max",
    node="ClampBackward0 if Tensor in (min.__class__, max.__class__) else ClampBackward1",
)  # fmt: skip
def clamp(xp: Namespace, input: Array, min: Array | None = None, max: Array | None = None) -> Array:
    """Clamp elements to [min, max]; those outside become the limit, and their gradient is 0.

    >>> clamp(tensor([-2.0, 0.5, 3.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise ValueError("at least one of 'min' or 'max' must not be None")
    # One pass instead of two: for large arrays it saves more than the extra checks cost.
    if min is not None and max is not None and input.dtype.kind == "f" and input.size > 1024:
        return xp.clip(input, min, max)
    y = input if min is None else xp.maximum(input, min)
    return y if max is None else xp.minimum(y, max)


clamp.vjp(
    input=lambda g, input, min, max: where(is_within(input, min, max), g, 0.0),
    min=lambda g, input, min, max: where(
        input < min if max is None else (input < min) & (min < max), g, 0.0
    ),
    max=lambda g, input, min, max: where(
        input > max if min is None else (input > max) | (max < min), g, 0.0
    ),
    latex={
        "input": r"g\,[min \le x \le max]",
        "min": r"g\,[x < min]",
        "max": r"g\,[x > max]",
    },
)


@as_method
@with_twin
@takes_out
@recorded_as(lambda input, min: f"ClampMinBackward{int(isinstance(min, Tensor))}")
def clamp_min(input: Tensor, min: Tensor | Number) -> Tensor:
    """Clamp elements to at least `min`.

    >>> clamp_min(tensor([-1.0, 2.0]), 0)
    tensor([0., 2.])
    """
    return clamp(input, min=min)


@as_method
@with_twin
@takes_out
@recorded_as(lambda input, max: f"ClampMaxBackward{int(isinstance(max, Tensor))}")
def clamp_max(input: Tensor, max: Tensor | Number) -> Tensor:
    """Clamp elements to at most `max`.

    >>> clamp_max(tensor([-1.0, 2.0]), 1)
    tensor([-1.,  1.])
    """
    return clamp(input, max=max)


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


def is_first_chosen(wins: ArrayOrTensor, other: ArrayOrTensor) -> Any:
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
