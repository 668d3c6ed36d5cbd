"""Integer ops: bit shifts, gcd and lcm. No gradients."""

from __future__ import annotations

from ..backends.numpy import Array, Namespace
from ..core.op import elementwise


@elementwise(promotion="promote", dtypes="i")
def bitwise_left_shift(xp: Namespace, input: Array, other: Array) -> Array:
    """The bits shifted left by `other`: y = input · 2^other.

    >>> bitwise_left_shift(tensor([1, 3]), tensor([4, 1]))
    tensor([16,  6])
    """
    return xp.left_shift(input, other)


@elementwise(promotion="promote", dtypes="i")
def bitwise_right_shift(xp: Namespace, input: Array, other: Array) -> Array:
    """The bits shifted right by `other`, with the sign extended: y = ⌊input / 2^other⌋.

    >>> bitwise_right_shift(tensor([16, -7]), 1)
    tensor([ 8, -4])
    """
    return xp.right_shift(input, other)


@elementwise(promotion="promote", dtypes="i", scalars="")
def gcd(xp: Namespace, input: Array, other: Array) -> Array:
    """The greatest common divisor, 0 for two zeros.

    >>> gcd(tensor([12, 5]), tensor([18, 0]))
    tensor([6, 5])
    """
    return xp.gcd(input, other)


@elementwise(promotion="promote", dtypes="i", scalars="")
def lcm(xp: Namespace, input: Array, other: Array) -> Array:
    """The least common multiple, 0 if one is 0.

    >>> lcm(tensor([4, 5]), tensor([6, 0]))
    tensor([12,  0])
    """
    return xp.lcm(input, other)
