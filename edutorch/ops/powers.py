"""Elementwise powers of two tensors, or of a tensor and a scalar."""

from __future__ import annotations

import cmath
import math
from typing import Any

from numpy import ndarray

from ..backends.numpy import Array, Namespace
from ..core.op import elementwise
from ..errors import DTypeError


@elementwise(
    promotion="promote",
    node="PowBackward0 if exponent.__class__ is not Tensor else "
    "PowBackward1 if input.__class__ is Tensor else PowBackward2",
)
def pow(xp: Namespace, input: Array, exponent: Array) -> Array:
    """The power: y = input ** exponent.

    Integers to the power of a tensor of integers stay integers, truncated towards 0.

    >>> pow(tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    simple = fast_power(xp, input, exponent)
    if simple is not None:
        return simple(input)
    try:
        y = input**exponent
    except (ValueError, OverflowError) as error:  # uint8 cannot represent -1
        if not hasattr(exponent, "shape") and exponent < 0:
            raise DTypeError(
                "pow", "Integers to negative integer powers are not allowed", hint="use x.float()"
            ) from None
        if "negative integer powers" not in str(error):
            raise
        y = truncated_power(xp, input, exponent)
    bools = y.dtype.kind == "i" and getattr(input, "dtype", y.dtype).kind == "b"
    return y.astype(bool) if bools else y


def truncated_power(xp: Namespace, input: Any, exponent: Array) -> Array:
    """Integer powers with exponents that may be negative: 2⁻¹ is truncated to 0, (-1)⁻³ is -1."""
    return input ** xp.abs(exponent) * ((exponent >= 0) | (xp.abs(input) == 1))


def fast_power(xp: Namespace, input: Any, exponent: Any) -> Any:
    """Return a ten times faster function for x³ or √x; None for other powers."""
    if exponent.__class__ is ndarray and not exponent.ndim:
        exponent = exponent.item()
    if exponent.__class__ not in (int, float) or getattr(input, "dtype", None) is None:
        return None
    if input.dtype.kind != "f":
        return None
    return cube if exponent == 3 else xp.sqrt if exponent == 0.5 else None


def cube(x: Array) -> Array:
    """x³."""
    return x * x * x


pow.vjp(
    input=lambda g, input, exponent: g * power_derivative(input, exponent),
    exponent=lambda g, y, input, exponent: g * exponent_derivative(input, exponent, y),
    latex={"input": r"g \cdot n\,x^{n-1}", "exponent": r"g \cdot y \ln x"},
)


def power_derivative(input: Any, exponent: Any) -> Any:
    """d(input ** exponent)/d(input), which is 0 (not 0 · ∞) where the exponent is 0."""
    if not hasattr(exponent, "shape"):
        return exponent * input ** (exponent - 1) if exponent else zeros_like(input)
    return where(exponent != 0, exponent * input ** (exponent - 1), 0.0)


def exponent_derivative(input: Any, exponent: Any, y: Any) -> Any:
    """d(input ** exponent)/d(exponent) = y · log(input), and 0 where input is 0."""
    if not hasattr(input, "shape"):
        if not input:
            return zeros_like(y)
        if has_complex_dtype(y):
            return y * cmath.log(input)
        return y * (math.log(input) if input > 0 else math.nan)
    input = cast_to_dtype_of(input, y)
    is_regular = logical_or(input != 0, exponent.real < 0)
    return where(is_regular, y * log(where(is_regular, input, 1.0)), 0.0)


from .comparison import logical_or, where  # noqa: E402  (rules may use any op)
from .complex import has_complex_dtype  # noqa: E402
from .conversion import cast_to_dtype_of  # noqa: E402
from .elementwise import log  # noqa: E402
from .like import zeros_like  # noqa: E402
