"""The Hurwitz zeta function, and the polygamma functions."""

from __future__ import annotations

import math

from ..backends.numpy import Array, Namespace
from ..core.op import elementwise
from ..errors import ValueRangeError
from .special_common import bernoulli_numbers, in_float64, refuse_derivative


def hurwitz_zeta(xp: Namespace, s: Array, q: Array) -> Array:
    """Σ (q + k)⁻ˢ over k = 0, 1, …, for s > 1 and q > 0: ten terms, then Euler-Maclaurin.

    The rest is ∫ = a¹⁻ˢ / (s - 1), half a term, and Σ B₂ⱼ / (2j)! · s (s+1) … (s+2j-2) a¹⁻ˢ⁻²ʲ,
    where a is the first q + k left out.
    """
    first, count = q**-s, 10
    for k in range(1, count):
        first = first + (q + k) ** -s
    a = q + count
    power = a**-s
    rest, term = 0.5 * power, power * s / a
    for j, b in enumerate(bernoulli_numbers(12), 1):
        rest = rest + float(b / math.factorial(2 * j)) * term
        term = term * ((s + 2 * j - 1) / a) * ((s + 2 * j) / a)
    return first + a ** (1 - s) / (s - 1) + xp.where(power > 0, rest, 0.0)


@elementwise(method=False, dtypes="bif")
@in_float64
def zeta(xp: Namespace, input: Array, other: Array) -> Array:
    """Hurwitz's zeta function: y = Σ (q + k)⁻ˢ over k = 0, 1, …; Riemann's for q = 1.

    NaN for s < 1, ∞ for s = 1 and at q = 0, -1, -2, …; at other negative q only an integer s
    has a real value. There the terms below 0 are a difference of two such sums.

    Paper: NIST Digital Library of Mathematical Functions, 25.11.1, 25.11.5 (Euler, Maclaurin).

    >>> edutorch.special.zeta(tensor([2.0, 4.0]), 1)
    tensor([1.6449, 1.0823])
    """
    s, q = xp.broadcast_arrays(input, other)
    inside = s > 1
    order = xp.where(inside, s, 2.0)
    is_integer = q == xp.floor(q)
    t = xp.where(q > 0, q, xp.where(is_integer, 1.0, q - xp.floor(q)))
    below = xp.logical_and(q < 0, xp.logical_not(is_integer))
    sign = 1 - 2 * xp.remainder(order, 2)
    lower = xp.where(below, 1 - t, 1.0)
    upper = xp.where(below, 1 - q, 1.0)
    y = hurwitz_zeta(xp, order, t)
    y = y + xp.where(
        below, sign * (hurwitz_zeta(xp, order, lower) - hurwitz_zeta(xp, order, upper)), 0.0
    )
    y = xp.where(xp.logical_and(below, s != xp.floor(s)), math.nan, y)
    y = xp.where(xp.logical_and(q <= 0, is_integer), math.inf, y)
    y = xp.where(inside, y, xp.where(s == 1, math.inf, math.nan))
    return xp.where(xp.logical_or(xp.isnan(q), xp.isnan(s)), math.nan, y)


zeta.vjp(
    input=refuse_derivative("zeta", "input", "only `other` may require grad; detach `input`"),
    other=lambda g, input, other: (
        -g * input * zeta(input + 1, other)
    ),  # -input would wrap for uint8
    latex={"input": r"\text{none}", "other": r"-g\,s\,\zeta(s+1, q)"},
)


@elementwise(dtypes="bif")
@in_float64
def polygamma(xp: Namespace, input: Array, n: int) -> Array:
    """The n-th derivative of digamma: (-1)ⁿ⁺¹ n! ζ(n + 1, x).

    The public function has PyTorch's argument order: `polygamma(n, input)`, `input.polygamma(n)`.

    Raises: ValueRangeError: n is negative.

    >>> tensor([1.0, 2.0]).polygamma(1)
    tensor([1.6449, 0.6449])
    """
    if n < 0:
        raise ValueRangeError(
            "polygamma", "polygamma(n, x) does not support negative n", {"n": n},
            "n counts derivatives; it comes first: polygamma(1, x)",
        )  # fmt: skip
    if n == 0:
        return digamma.op.forward(xp, input)
    factorial = float(math.factorial(n)) if n <= 170 else math.inf
    return (-1) ** (n + 1) * factorial * zeta.op.forward(xp, xp.full_like(input, n + 1.0), input)


polygamma.vjp(input=lambda g, input, n: g * polygamma(input, n + 1), latex=r"g\,\psi^{(n+1)}(x)")


from .gamma import digamma  # noqa: E402  (rules may use any op)
