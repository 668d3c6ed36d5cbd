"""The logarithm of the gamma function, and its derivatives.

Γ(x) = ∫₀^∞ tˣ⁻¹ e⁻ᵗ dt extends the factorial: Γ(n + 1) = n!. All of these functions satisfy
a recurrence from x to x + 1 and a reflection formula between x and 1 - x. So an accurate
formula in one range is enough for all x.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..backends.numpy import Array, Namespace
from ..core.op import elementwise
from ..core.tensor import Tensor
from ..errors import ValueRangeError
from .special_common import bernoulli_numbers, in_float64, power_series, zeta_minus_1

STIRLING_LIMIT = 10.0
"""The x from which Stirling's series has 16 digits after a few terms."""


def distance_to_integer(xp: Namespace, x: Array) -> Array:
    """x minus the nearest integer, which keeps |sin(πx)| and all digits."""
    return x - xp.around(x)


# The logarithm of Γ --------------------------------------------------------------------------


@functools.cache
def log_gamma_series(terms: int = 30) -> list[float]:
    """ln Γ(2 + z) = (1 - γ) z + Σ (-1)ᵏ (ζ(k) - 1) zᵏ / k, as coefficients of z¹, z², …"""
    return [
        1 - float(np.euler_gamma),
        *((-1) ** k * zeta_minus_1(k) / k for k in range(2, terms)),
    ]


@functools.cache
def stirling_coefficients(terms: int = 8) -> list[float]:
    """The coefficients of Stirling's correction: B₂ₖ / (2k (2k-1)), for x¹⁻²ᵏ."""
    return [float(b / (2 * k * (2 * k - 1))) for k, b in enumerate(bernoulli_numbers(terms), 1)]


def stirling_correction(x: Array) -> Array:
    """ln Γ(x) - ((x - ½) ln x - x + ½ ln 2π), for x from 10 on."""
    return power_series(1 / (x * x), stirling_coefficients()) / x


def log_gamma(xp: Namespace, x: Array) -> Array:
    """ln Γ(x) for x > 0, accurate also around its zeros 1 and 2."""
    below_half, below_3_halves = x < 0.5, x < 1.5
    near = xp.where(x < STIRLING_LIMIT, x, 2.0)
    product = xp.ones_like(x)
    for _ in range(int(STIRLING_LIMIT) - 2):
        above = near > 2.5
        near = xp.where(above, near - 1, near)
        product = xp.where(above, product * near, product)
    z = near - xp.where(below_half, 0.0, xp.where(below_3_halves, 1.0, 2.0))
    series_value = z * power_series(z, log_gamma_series()) + xp.log(product)
    series_value = series_value - xp.where(below_3_halves, xp.log1p(z), 0.0)
    series_value = series_value - xp.where(below_half, xp.log(near), 0.0)
    big = xp.maximum(x, STIRLING_LIMIT)
    asymptotic = (big - 0.5) * (xp.log(big) - 1) + (math.log(2 * math.pi) - 1) / 2
    return xp.where(x < STIRLING_LIMIT, series_value, asymptotic + stirling_correction(big))


@elementwise(dtypes="bif")
@in_float64
def lgamma(xp: Namespace, input: Array) -> Array:
    """The logarithm of |Γ(x)|; ∞ at 0 and the negative integers.

    Below 10, the recurrence Γ(x + 1) = x Γ(x) leads to 1.5 … 2.5, where a power series around 2
    is accurate; above, Stirling: (x - ½) ln x - x + ½ ln 2π + 1/(12x) - …; below 0, the
    reflection Γ(x) Γ(1 - x) = π / sin(πx).

    Paper: Abramowitz and Stegun, Handbook of Mathematical Functions, 6.1.17, 6.1.33, 6.1.41.

    >>> lgamma(tensor([0.5, 1.0, 5.0]))
    tensor([0.5724, 0.0000, 3.1781])
    """
    x = xp.abs(input)
    negative = input < 0
    y = log_gamma(xp, xp.where(negative, 1 + x, xp.where(x > 0, x, 1.0)))
    mirror = xp.abs(xp.sin(math.pi * distance_to_integer(xp, input))) / math.pi
    y = xp.where(negative, -xp.log(xp.where(mirror > 0, mirror, 1.0)) - y, y)
    pole = xp.logical_or(xp.isinf(input), xp.logical_and(input <= 0, input == xp.floor(input)))
    return xp.where(pole, math.inf, xp.where(xp.isnan(input), input, y))


lgamma.vjp(input=lambda g, input: g * digamma(input), latex=r"g\,\psi(x)")


@elementwise(dtypes="if")
@in_float64
def mvlgamma(xp: Namespace, input: Array, p: int) -> Array:
    """The logarithm of the multivariate gamma function of dimension p.

    y = p (p - 1) / 4 · ln π + Σ ln Γ(x - i / 2) over i = 0 … p - 1

    Raises: ValueRangeError: p is below 1.

    >>> mvlgamma(tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    if p < 1:
        raise ValueRangeError("mvlgamma", "p has to be greater than or equal to 1", {"p": p})
    y = xp.full_like(input, p * (p - 1) / 4 * math.log(math.pi))
    for i in range(p):
        y = y + lgamma.op.forward(xp, input - i / 2)
    return y


def _sum_of_digammas(input: Any, p: int) -> Any:
    total = digamma(input)
    for i in range(1, p):
        total = total + digamma(input - i / 2)
    return total


mvlgamma.vjp(
    input=lambda g, input, p: g * _sum_of_digammas(input, p),
    latex=r"g \textstyle\sum_{i<p} \psi(x - \tfrac{i}{2})",
)


# Its derivatives -----------------------------------------------------------------------------


@elementwise(dtypes="bif")
@in_float64
def digamma(xp: Namespace, input: Array) -> Array:
    """The derivative of ln Γ: y = ψ(x) = Γ'(x) / Γ(x).

    From 10 on ln x - 1/(2x) - Σ B₂ₖ / (2k x²ᵏ); smaller x are raised to there by
    ψ(x) = ψ(x + 1) - 1/x; below 0 the reflection ψ(x) = ψ(1 - x) - π / tan(πx).
    At 0 it is ∓∞, at the negative integers NaN.

    Paper: Abramowitz and Stegun, 6.3.5, 6.3.7, 6.3.18.

    >>> digamma(tensor([1.0, 2.0]))
    tensor([-0.5772,  0.4228])
    """
    negative = input < 0
    x = xp.where(negative, 1 - input, xp.where(input == 0, 1.0, input))
    steps = xp.zeros_like(x)
    for _ in range(int(STIRLING_LIMIT)):
        near = x < STIRLING_LIMIT
        steps = xp.where(near, steps + 1 / x, steps)
        x = xp.where(near, x + 1, x)
    square = 1 / (x * x)
    terms = [float(b / (2 * k)) for k, b in enumerate(bernoulli_numbers(9), 1)]
    y = xp.log(x) - 0.5 / x - square * power_series(square, terms) - steps
    angle = distance_to_integer(xp, input)
    reflected = y - math.pi / xp.tan(math.pi * xp.where(angle == 0, 0.25, angle))
    y = xp.where(negative, xp.where(input == xp.floor(input), math.nan, reflected), y)
    return xp.where(input == 0, -xp.copysign(xp.full_like(input, math.inf), input), y)


digamma.vjp(input=lambda g, input: g * of_order(input, 1), latex=r"g\,\psi'(x)")


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma (n = 0 is digamma itself).

    Raises: ValueRangeError: n is negative.

    >>> polygamma(1, tensor([1.0, 2.0]))
    tensor([1.6449, 0.6449])
    """
    return of_order(input, n, out=out)


from .zeta import polygamma as of_order  # noqa: E402  (rules may use any op)
