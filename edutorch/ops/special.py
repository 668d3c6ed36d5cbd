"""The error function and its relatives, which array libraries lack.

The values of `erf` come from the C library's `erfc` at a few Chebyshev nodes; a polynomial
interpolates between them, of a smooth function: erfc(x) · exp(x²) over
t = (x - 2) / (x + 2), which maps 0 … ∞ to -1 … 1.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from ..backends.numpy import Array, Namespace
from ..core.op import elementwise
from .special_common import exp_of_minus_square, in_float64, power_series

SMALL = 0.5
LARGE = 6.0  # from here on the result is 1 in every dtype


@functools.cache
def tail_coefficients(degree: int) -> list[float]:
    """Return the polynomial in t, rescaled to -1 … 1, that is erfc(x) · exp(x²) up to x = 6."""

    def scaled(t: float) -> float:
        x = 2 * (1 + t) / (1 - t)
        return math.erfc(x) * math.exp(x * x)

    # t beyond this is x > 6, where erf is 1 anyway.
    end = (LARGE - 2) / (LARGE + 2)
    nodes = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    values = np.array([scaled((node * (end + 1) + end - 1) / 2) for node in nodes])
    fitted = np.polynomial.chebyshev.chebfit(nodes, values, degree)
    return [float(coefficient) for coefficient in np.polynomial.chebyshev.cheb2poly(fitted)]


def scale_argument(x: Array) -> Array:
    """Return t, rescaled so that x = 0 … 6 becomes -1 … 1."""
    end = (LARGE - 2) / (LARGE + 2)
    return (2 * (x - 2) / (x + 2) + 1 - end) / (end + 1)


@functools.cache
def series_coefficients(terms: int) -> list[float]:
    """Return the power series of erf(x) / x in x²: 2/√π · Σ (-1)ⁿ / (n! (2n+1))."""
    scale = 2 / math.sqrt(math.pi)
    return [scale * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(terms)]


@elementwise(dtypes="bif")
def erf(xp: Namespace, input: Array) -> Array:
    """The error function: y = 2/√π ∫₀ˣ exp(-t²) dt.

    >>> erf(tensor([0.0, 1.0]))
    tensor([0.0000, 0.8427])
    """
    exact = input.dtype.itemsize >= 8
    size = xp.minimum(xp.abs(input), LARGE)
    tail = power_series(scale_argument(size), tail_coefficients(26 if exact else 10)) * xp.exp(
        -size * size
    )
    square = size * size
    small = power_series(square, series_coefficients(12 if exact else 6))
    return xp.where(size < SMALL, input * small, xp.copysign(1 - tail, input))


erf.vjp(
    input=lambda g, input: g * ((2 / math.sqrt(math.pi)) * exp(-(input * input))),
    latex=r"\tfrac{2}{\sqrt\pi}\,g\,e^{-x^2}",
)


@functools.cache
def asymptotic_coefficients(terms: int = 36) -> list[float]:
    """Return (-1)ⁿ (2n-1)!! / 2ⁿ: erfc(x) eˣ² = 1/(x √π) Σ … / x²ⁿ, from x = 6 on."""
    coefficients = [1.0]
    for n in range(1, terms):
        coefficients.append(-coefficients[-1] * (2 * n - 1) / 2)
    return coefficients


def scaled_erfc(xp: Namespace, x: Array) -> Array:
    """erfc(x) eˣ² for x ≥ 0, in float64: interpolated up to 6, an asymptotic series beyond."""
    near, far = xp.minimum(x, LARGE), xp.maximum(x, LARGE)
    away = power_series(1 / (far * far), asymptotic_coefficients()) / (far * math.sqrt(math.pi))
    return xp.where(x < LARGE, power_series(scale_argument(near), tail_coefficients(26)), away)


@elementwise(dtypes="bif")
@in_float64
def erfc(xp: Namespace, input: Array) -> Array:
    """The complementary error function: y = 1 - erf(x), accurate also where it is tiny.

    >>> erfc(tensor([0.0, 1.0]))
    tensor([1.0000, 0.1573])
    """
    size = xp.abs(input)
    tail = scaled_erfc(xp, size) * exp_of_minus_square(xp, size)
    middle = 1 - erf.op.forward(xp, input)
    return xp.where(size < SMALL, middle, xp.where(input < 0, 2 - tail, tail))


erfc.vjp(
    input=lambda g, input: g * ((-2 / math.sqrt(math.pi)) * exp(-(input * input))),
    latex=r"-\tfrac{2}{\sqrt\pi}\,g\,e^{-x^2}",
)


@elementwise(dtypes="bif")
def erfinv(xp: Namespace, input: Array) -> Array:
    """The inverse of `erf`: ∞ at 1, NaN beyond.

    Winitzki's formula is accurate to two digits; each of Halley's steps triples them.

    >>> erfinv(tensor([0.0, 0.5]))
    tensor([0.0000, 0.4769])
    """
    x = input.astype("float64")  # near ±1 every digit counts
    inside = xp.abs(x) < 1
    target = xp.where(inside, x, xp.zeros_like(x))
    half = 2 / (math.pi * 0.147) + xp.log1p(-target * target) / 2
    root = xp.sqrt(half * half - xp.log1p(-target * target) / 0.147) - half
    y = xp.copysign(xp.sqrt(xp.maximum(root, 0)), target)
    for _ in range(3):
        error = (erf.op.forward(xp, y) - target) * (math.sqrt(math.pi) / 2) * xp.exp(y * y)
        y = y - error / (1 + y * error)
    edge = xp.where(xp.abs(x) == 1, xp.copysign(xp.full_like(x, math.inf), x), math.nan * x)
    return xp.where(inside, y, edge).astype(input.dtype)


erfinv.vjp(
    input=lambda g, y: g * ((math.sqrt(math.pi) / 2) * exp(y * y)),
    latex=r"\tfrac{\sqrt\pi}{2}\,g\,e^{y^2}",
)


@elementwise(dtypes="bif")
def xlogy(xp: Namespace, input: Array, other: Array) -> Array:
    """y = a · log(b), and 0 where a is 0, whatever b is.

    >>> xlogy(tensor([0.0, 1.0]), tensor([0.0, math.e]))
    tensor([0., 1.])
    """
    zero = (input == 0) & ~xp.isnan(other)
    return xp.where(zero, 0 * input, input * xp.log(xp.where(zero, 1 + 0 * input, other)))


xlogy.vjp(
    input=lambda g, input, other: (
        g * log(where((input == 0) & (other <= 0), ones_like(input), other))
    ),
    other=lambda g, input, other: g * input / other,
    latex={"input": r"g \ln b", "other": r"\frac{g\,a}{b}"},
)


from .comparison import where  # noqa: E402  (rules may use any op)
from .elementwise import exp, log  # noqa: E402
from .like import ones_like  # noqa: E402
