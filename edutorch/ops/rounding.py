"""Rounding and sign.

These functions are piecewise constant, so their gradient is 0.
"""

from __future__ import annotations

import math

from ..backends.numpy import Array, Namespace
from ..core.op import elementwise
from ..dtypes import finfo, of


@elementwise(promotion="none", dtypes="bif")
def sign(xp: Namespace, input: Array) -> Array:
    """The sign: -1, 0 or 1 (0 for NaN). Its gradient is 0.

    >>> sign(tensor([3.0, 0.0, -0.1]))
    tensor([ 1.,  0., -1.])
    """
    if input.dtype.kind == "b":
        return input.copy()
    return xp.greater(input, 0).astype(input.dtype) - xp.less(input, 0).astype(input.dtype)


sign.vjp(input=lambda g: zeros_like(g), latex=r"0")


@elementwise(promotion="none", dtypes="if")
def floor(xp: Namespace, input: Array) -> Array:
    """The largest integer not above. Its gradient is 0.

    >>> floor(tensor([1.7, -1.2]))
    tensor([ 1., -2.])
    """
    return xp.floor(input) if input.dtype.kind not in "iub" else +input


floor.vjp(input=lambda g: zeros_like(g), latex=r"0")


@elementwise(promotion="none", dtypes="if")
def ceil(xp: Namespace, input: Array) -> Array:
    """The smallest integer not below. Its gradient is 0.

    >>> ceil(tensor([1.2, -1.7]))
    tensor([ 2., -1.])
    """
    return xp.ceil(input) if input.dtype.kind not in "iub" else +input


ceil.vjp(input=lambda g: zeros_like(g), latex=r"0")


@elementwise(promotion="none", dtypes="if", node="RoundBackward1 if decimals else RoundBackward0")
def round(xp: Namespace, input: Array, *, decimals: int = 0) -> Array:
    """The nearest integer, halves to even. Its gradient is 0.

    >>> round(tensor([0.5, 1.5, 2.4]))
    tensor([0., 2., 2.])
    """
    if decimals and input.dtype == "float16":  # x · 10ⁿ may overflow float16
        return xp.around(input.astype("float32"), decimals).astype("float16")
    return xp.around(input, decimals)


round.vjp(input=lambda g: zeros_like(g), latex=r"0")


@elementwise(promotion="none", dtypes="if")
def trunc(xp: Namespace, input: Array) -> Array:
    """The integer part. Its gradient is 0.

    >>> trunc(tensor([1.7, -1.7]))
    tensor([ 1., -1.])
    """
    return xp.trunc(input) if input.dtype.kind not in "iub" else +input


trunc.vjp(input=lambda g: zeros_like(g), latex=r"0")


@elementwise(promotion="none", dtypes="f")
def frac(xp: Namespace, input: Array) -> Array:
    """The fractional part: y = x - trunc(x).

    >>> frac(tensor([1.5, -1.25]))
    tensor([ 0.5000, -0.2500])
    """
    return input - xp.trunc(input)


frac.vjp(input=lambda g: g, latex=r"g")


@elementwise(promotion="none")
def nan_to_num(
    xp: Namespace,
    input: Array,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Array:
    """Replace NaN by `nan`, and infinities by finite values (by default the dtype's limits).

    >>> nan_to_num(tensor([math.nan, 1.0]))
    tensor([0., 1.])
    """
    if input.dtype.kind in "iub":
        return input.copy()
    limits = finfo(of(input.dtype))
    y = xp.where(xp.isnan(input), xp.asarray(nan).astype(input.dtype), input)
    for infinity, finite, limit in (
        (math.inf, posinf, limits.max),
        (-math.inf, neginf, limits.min),
    ):
        finite = xp.asarray(limit if finite is None else finite).astype(input.dtype)
        y = xp.where(xp.equal(input, infinity), finite, y)
    return y


nan_to_num.vjp(input=lambda g, input: where(isfinite(input), g, 0.0), latex=r"g\,[x\ finite]")


from .comparison import isfinite, where  # noqa: E402  (rules may use any op)
from .like import zeros_like  # noqa: E402
