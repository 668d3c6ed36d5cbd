"""The modified Bessel functions: I grows like eˣ, K decays like e⁻ˣ.

The formulas are those of `bessel.py`, which has K and the series near 0. I is computed by its
series up to 25 (all terms are positive), and beyond by Hankel's expansion

    Iₙ(x) = eˣ / √(2πx) · (1 - (4n²-1) / (8x) + (4n²-1)(4n²-9) / (2! (8x)²) - …)

`i0e` and its like omit the exponential, so they neither overflow nor underflow.

Paper: NIST Digital Library of Mathematical Functions, 10.25.2, 10.40.1.
"""

from __future__ import annotations

import functools
import math
import sys

from ..backends.numpy import Array, Namespace
from ..core.op import elementwise
from .bessel import (
    LOG_2,
    SERIES_LIMIT,
    divide_by_x,
    log_coefficients,
    power_coefficients,
    scaled_bessel_k,
)
from .special_common import in_float64, power_series

HANKEL_LIMIT, LARGEST = 25.0, sys.float_info.max


@functools.cache
def hankel_series(n: int, terms: int = 26) -> list[float]:
    """(-1)ᵏ (4n²-1) (4n²-9) … (4n²-(2k-1)²) / (k! 8ᵏ)"""
    coefficients = [1.0]
    for k in range(1, terms):
        coefficients.append(-coefficients[-1] * (4 * n * n - (2 * k - 1) ** 2) / (8 * k))
    return coefficients


def bessel_i(xp: Namespace, input: Array, n: int, scaled: bool) -> Array:
    """I of order n, times e⁻ˣ if `scaled`. eˣ is split into two factors, which overflow later."""
    x = xp.abs(input)
    near, far = xp.minimum(x, HANKEL_LIMIT), xp.clip(x, HANKEL_LIMIT, LARGEST)
    close = (near / 2) ** n * power_series(near * near * 0.25, power_coefficients(n, 50))
    away = power_series(1 / far, hankel_series(n)) / (math.sqrt(2 * math.pi) * xp.sqrt(far))
    if scaled:
        close = close * xp.exp(-near)
    else:
        half = xp.exp(far / 2)
        away = away * half * half
    away = xp.where(xp.isinf(x), 0.0 if scaled else math.inf, away)
    y = xp.where(x > HANKEL_LIMIT, away, close)
    return xp.where(input < 0, -y, y) if n else y


def bessel_k(xp: Namespace, input: Array, n: int, scaled: bool) -> Array:
    """K of order n, times eˣ if `scaled`."""
    positive = input > 0
    x = xp.where(positive, input, 1.0)
    near, far = xp.minimum(x, SERIES_LIMIT), xp.clip(x, SERIES_LIMIT, LARGEST)
    t, half = near * near * 0.25, near / 2
    log_half = xp.log(near) - LOG_2
    terms = power_series(t, log_coefficients(n)) - log_half * power_series(t, power_coefficients(n))
    close = terms * (-half) ** n + n / near
    away = scaled_bessel_k(xp, far, n)
    if scaled:
        close = close * xp.exp(near)
    else:
        away = away * xp.exp(-far)
    y = xp.where(x > SERIES_LIMIT, xp.where(xp.isinf(x), 0.0, away), close)
    return xp.where(positive, y, xp.where(input == 0, math.inf, math.nan))


@elementwise(dtypes="bif")
@in_float64
def i0(xp: Namespace, input: Array) -> Array:
    """The modified Bessel function I₀, which is 1 at 0 and grows like eˣ / √(2πx).

    >>> i0(tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """
    return bessel_i(xp, input, 0, False)


i0.vjp(input=lambda g, input: g * i1(input), latex=r"g\,I_1(x)")


@elementwise(method=False, dtypes="bif", node="SpecialI0EBackward0")
@in_float64
def i0e(xp: Namespace, input: Array) -> Array:
    """The exponentially scaled I₀: y = e^(-|x|) I₀(x).

    >>> edutorch.special.i0e(tensor([0.0, 1.0]))
    tensor([1.0000, 0.4658])
    """
    return bessel_i(xp, input, 0, True)


i0e.vjp(
    input=lambda g, input, y: g * (i1e(input) - sign(input) * y),
    latex=r"g\,(I_1(x)\,e^{-|x|} - \mathrm{sign}(x)\,y)",
)


@elementwise(method=False, dtypes="bif", node="SpecialI1Backward0")
@in_float64
def i1(xp: Namespace, input: Array) -> Array:
    """The modified Bessel function I₁, the derivative of I₀.

    >>> edutorch.special.i1(tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """
    return bessel_i(xp, input, 1, False)


i1.vjp(
    input=lambda g, input, y: g * (i0(input) - divide_by_x(y, input)),
    latex=r"g\,(I_0(x) - \tfrac{y}{x})",
)


@elementwise(method=False, dtypes="bif", node="SpecialI1EBackward0")
@in_float64
def i1e(xp: Namespace, input: Array) -> Array:
    """The exponentially scaled I₁: y = e^(-|x|) I₁(x).

    >>> edutorch.special.i1e(tensor([0.0, 1.0]))
    tensor([0.0000, 0.2079])
    """
    return bessel_i(xp, input, 1, True)


i1e.vjp(
    input=lambda g, input, y: (
        g * (i0e(input) - sign(input) * y - divide_by_x(y, input, 0.5 * exp(-abs(input))))
    ),
    latex=r"g\,(I_0(x)\,e^{-|x|} - \mathrm{sign}(x)\,y - \tfrac{y}{x})",
)


@elementwise(method=False, dtypes="bif")
@in_float64
def modified_bessel_k0(xp: Namespace, input: Array) -> Array:
    """The modified Bessel function K₀, which decays from ∞ at 0 like e⁻ˣ √(π / 2x); NaN below 0.

    >>> edutorch.special.modified_bessel_k0(tensor([1.0, 2.0]))
    tensor([0.4210, 0.1139])
    """
    return bessel_k(xp, input, 0, False)


modified_bessel_k0.vjp(input=lambda g, input: -g * modified_bessel_k1(input), latex=r"-g\,K_1(x)")


@elementwise(method=False, dtypes="bif")
@in_float64
def modified_bessel_k1(xp: Namespace, input: Array) -> Array:
    """The modified Bessel function K₁, minus the derivative of K₀.

    >>> edutorch.special.modified_bessel_k1(tensor([1.0, 2.0]))
    tensor([0.6019, 0.1399])
    """
    return bessel_k(xp, input, 1, False)


modified_bessel_k1.vjp(
    input=lambda g, input, y: -g * (modified_bessel_k0(input) + y / input),
    latex=r"-g\,(K_0(x) + \tfrac{y}{x})",
)


@elementwise(method=False, dtypes="bif")
@in_float64
def scaled_modified_bessel_k0(xp: Namespace, x: Array) -> Array:
    """The exponentially scaled K₀: y = eˣ K₀(x).

    >>> edutorch.special.scaled_modified_bessel_k0(tensor([1.0, 100.0]))
    tensor([1.1445, 0.1252])
    """
    return bessel_k(xp, x, 0, True)


scaled_modified_bessel_k0.vjp(
    x=lambda g, x, y: g * (y - scaled_modified_bessel_k1(x)), latex=r"g\,(y - e^x K_1(x))"
)


@elementwise(method=False, dtypes="bif")
@in_float64
def scaled_modified_bessel_k1(xp: Namespace, x: Array) -> Array:
    """The exponentially scaled K₁: y = eˣ K₁(x).

    >>> edutorch.special.scaled_modified_bessel_k1(tensor([1.0, 100.0]))
    tensor([1.6362, 0.1258])
    """
    return bessel_k(xp, x, 1, True)


scaled_modified_bessel_k1.vjp(
    x=lambda g, x, y: g * (y - scaled_modified_bessel_k0(x) - y / x),
    latex=r"g\,(y - e^x K_0(x) - \tfrac{y}{x})",
)


from .elementwise import abs, exp  # noqa: E402  (rules may use any op)
from .rounding import sign  # noqa: E402
