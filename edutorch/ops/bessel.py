"""Bessel functions of order 0 and 1, and the Airy function.

All are solutions of x² y'' + x y' + (x² ∓ n²) y = 0 for n = 0 and 1: J and Y with +x², which
oscillate; I and K with -x², which grow and decay. Two formulas serve all of them.

Up to 2 their power series in t = x² / 4, here with all signs positive (-t turns I, K into J, Y):

    Iₙ(x) = (x/2)ⁿ Σ tᵏ / (k! (k+n)!)
    Kₙ(x) = ±ln(x/2) Iₙ(x) ± (x/2)ⁿ Σ ½ (ψ(k+1) + ψ(k+n+1)) tᵏ / (k! (k+n)!)  (+ 1/x for n = 1)

Beyond, the integral Kₙ(x) = ∫₀^∞ exp(-x cosh u) cosh(nu) du. Its integrand decays so fast
that 24 steps of the trapezoidal rule give 16 digits. For J and Y, which are K of an imaginary
argument, the contour is deformed to the path of steepest descent, u - i·arctan(sinh u), on
which the integrand does not oscillate: with the damping d = exp(-x sinh u tanh u),

    J₀ = 2/π (a sin x + b cos x)     a = ∫ d du           b = ∫ d / cosh u du
    Y₀ = 2/π (b sin x - a cos x)
    J₁ = 2/π (q sin x - p cos x)     p = ∫ d / cosh² u du    q = ∫ d cosh u du
    Y₁ = -2/π (p sin x + q cos x)

Paper: NIST Digital Library of Mathematical Functions, 10.8, 10.31, 10.32.9, 10.27.8, 3.5(i).
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core.op import elementwise
from .comparison import where
from .complex import abs
from .elementwise import exp, sign
from .special import in_float64, power_series
from .trigonometry import cos

__all__ = ["i0"]

SERIES_LIMIT, LOG_2 = 2.0, math.log(2.0)
STEPS = 24

# Near 0 --------------------------------------------------------------------------------------


@functools.cache
def power_coefficients(n: int, terms: int = 14) -> list[float]:
    """1 / (k! (k+n)!)"""
    return [1 / (math.factorial(k) * math.factorial(k + n)) for k in range(terms)]


@functools.cache
def log_coefficients(n: int) -> list[float]:
    """½ (ψ(k+1) + ψ(k+n+1)) / (k! (k+n)!), where ψ(m+1) = 1 + 1/2 + … + 1/m - γ."""

    def psi(m: int) -> float:
        return math.fsum(1 / i for i in range(1, m + 1)) - float(np.euler_gamma)

    return [
        (psi(k) + psi(k + n)) / 2 * coefficient
        for k, coefficient in enumerate(power_coefficients(n))
    ]


# Far from 0 ----------------------------------------------------------------------------------


def quadrature_points(xp: Namespace, x: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the points u of the trapezoidal rule and their weights, up to where
    exp(-x (cosh u - 1)) is below e⁻⁴⁰: the larger x, the smaller the step."""
    step = 2 * xp.arcsinh(xp.sqrt(20 / x)) / STEPS
    yield xp.zeros_like(x), step / 2
    for k in range(1, STEPS + 1):
        yield k * step, step


def scaled_bessel_k(xp: Namespace, x: Array, order: float) -> Array:
    """eˣ K(x) of any order, for x above SERIES_LIMIT."""
    total = xp.zeros_like(x)
    for u, weight in quadrature_points(xp, x):
        half = xp.sinh(u / 2)
        total = total + weight * xp.exp(-2 * (x * half * half)) * xp.cosh(order * u)
    return total


def bessel_j_and_y(xp: Namespace, x: Array, n: int) -> tuple[Array, Array]:
    """J and Y of order n (0 or 1), for x above SERIES_LIMIT."""
    first, second = xp.zeros_like(x), xp.zeros_like(x)
    for u, weight in quadrature_points(xp, x):
        cosh = xp.cosh(u)
        damped = weight * xp.exp(-x * xp.sinh(u) * xp.tanh(u))
        first = first + (damped if n == 0 else damped / (cosh * cosh))
        second = second + (damped / cosh if n == 0 else damped * cosh)
    sin, cos = xp.sin(x) * (2 / math.pi), xp.cos(x) * (2 / math.pi)
    if n == 0:
        return first * sin + second * cos, second * sin - first * cos
    return second * sin - first * cos, -(first * sin + second * cos)


# J and Y -------------------------------------------------------------------------------------


def bessel_j(xp: Namespace, input: Array, n: int) -> Array:
    """J of order n: the power series near 0, the integral beyond."""
    x = xp.abs(input)
    near, far = (
        xp.minimum(x, SERIES_LIMIT),
        xp.where((x > SERIES_LIMIT) & ~xp.isinf(x), x, SERIES_LIMIT),
    )
    series_value = (near / 2) ** n * power_series(near * near * -0.25, power_coefficients(n))
    y = xp.where(x > SERIES_LIMIT, bessel_j_and_y(xp, far, n)[0], series_value)
    y = xp.where(xp.isinf(x), 0.0, y)
    return xp.where(input < 0, -y, y) if n else y


def bessel_y(xp: Namespace, input: Array, n: int) -> Array:
    """Y of order n: the power series near 0, the integral beyond."""
    positive = input > 0
    x = xp.where(positive, input, 1.0)
    near, far = (
        xp.minimum(x, SERIES_LIMIT),
        xp.where((x > SERIES_LIMIT) & ~xp.isinf(x), x, SERIES_LIMIT),
    )
    t, half = near * near * -0.25, near / 2
    log_half = xp.log(near) - LOG_2
    terms = log_half * power_series(t, power_coefficients(n)) - power_series(t, log_coefficients(n))
    series_value = terms * half**n * (2 / math.pi) - n * (2 / math.pi) / near
    y = xp.where(x > SERIES_LIMIT, bessel_j_and_y(xp, far, n)[1], series_value)
    y = xp.where(xp.isinf(x), 0.0, y)
    return xp.where(positive, y, xp.where(input == 0, -math.inf, math.nan))


@elementwise(method=False, dtypes="bif", sample=(-3.0, 3.0))
@in_float64
def bessel_j0(xp: Namespace, input: Array) -> Array:
    """The Bessel function J₀: an oscillation that starts at 1 and decays like √(2 / πx).

    >>> edutorch.special.bessel_j0(tensor([0.0, 1.0]))
    tensor([1.0000, 0.7652])
    """
    return bessel_j(xp, input, 0)


bessel_j0.vjp(input=lambda g, input: -g * bessel_j1(input), latex=r"-g\,J_1(x)")


@elementwise(method=False, dtypes="bif", sample=(-3.0, 3.0))
@in_float64
def bessel_j1(xp: Namespace, input: Array) -> Array:
    """The Bessel function J₁: an oscillation that starts at 0.

    >>> edutorch.special.bessel_j1(tensor([0.0, 1.0]))
    tensor([0.0000, 0.4401])
    """
    return bessel_j(xp, input, 1)


bessel_j1.vjp(
    input=lambda g, input, y: g * (bessel_j0(input) - divide_by_x(y, input)),
    latex=r"g\,(J_0(x) - \tfrac{y}{x})",
)


@elementwise(method=False, dtypes="bif", sample=(0.3, 3.0))
@in_float64
def bessel_y0(xp: Namespace, input: Array) -> Array:
    """The Bessel function Y₀: an oscillation that rises from -∞ at 0; NaN below 0.

    >>> edutorch.special.bessel_y0(tensor([1.0, 2.0]))
    tensor([0.0883, 0.5104])
    """
    return bessel_y(xp, input, 0)


bessel_y0.vjp(input=lambda g, input: -g * bessel_y1(input), latex=r"-g\,Y_1(x)")


@elementwise(method=False, dtypes="bif", sample=(0.3, 3.0))
@in_float64
def bessel_y1(xp: Namespace, input: Array) -> Array:
    """The Bessel function Y₁: an oscillation that rises from -∞ at 0; NaN below 0.

    >>> edutorch.special.bessel_y1(tensor([1.0, 2.0]))
    tensor([-0.7812, -0.1070])
    """
    return bessel_y(xp, input, 1)


bessel_y1.vjp(
    input=lambda g, input, y: g * (bessel_y0(input) - y / input),
    latex=r"g\,(Y_0(x) - \tfrac{y}{x})",
)


@elementwise(method=False, dtypes="bif", sample=(-3.0, 3.0))
@in_float64
def spherical_bessel_j0(xp: Namespace, x: Array) -> Array:
    """The spherical Bessel function: y = sin(x) / x, and 1 at 0.

    >>> edutorch.special.spherical_bessel_j0(tensor([0.0, 1.0]))
    tensor([1.0000, 0.8415])
    """
    is_regular = (x != 0) & ~xp.isinf(x)
    safe = xp.where(is_regular, x, 1.0)
    return xp.where(is_regular, xp.sin(safe) / safe, xp.where(x == 0, 1.0, 0.0))


spherical_bessel_j0.vjp(
    x=lambda g, x, y: g * where(
        x == 0, 0.0, (cos(x) - y) / where(x == 0, 1.0, x)
    ),
    latex=r"g\,\frac{\cos x - y}{x}",
)  # fmt: skip


def divide_by_x(y: ArrayOrTensor, x: ArrayOrTensor, limit: ArrayOrTensor = 0.5) -> Any:
    """y / x for J₁ or I₁, whose limit at 0 is ½, or `limit` where it is scaled."""
    tiny = 1 + x * x == 1
    return where(tiny, limit, y / where(tiny, 1.0, x))


# Airy ----------------------------------------------------------------------------------------

THIRD = 1 / 3


@functools.cache
def airy_series(start: int, terms: int = 16) -> list[float]:
    """The solution of y'' = x y that begins with 1 (start 0) or x (start 1), in powers of x³."""
    coefficients = [1.0]
    for k in range(1, terms):
        n = 3 * k + start
        coefficients.append(coefficients[-1] / (n * (n - 1)))
    return coefficients


@elementwise(method=False, dtypes="bif", sample=(-2.0, 4.0))
@in_float64
def airy_ai(xp: Namespace, x: Array) -> Array:
    """The Airy function: it oscillates left of 0 and decays right of it; y'' = x y.

    Within ±1.5 two power series; beyond, it is a Bessel function of order ⅓ at ζ = ⅔ |x|^(3/2),
    and the same integrals hold: right √(x/3) / π · K(ζ), left ∝ a sin ζ + b cos ζ.
    No derivative is offered, as in PyTorch.

    Paper: NIST Digital Library of Mathematical Functions, 9.4.1, 9.6.2, 9.6.6.

    >>> edutorch.special.airy_ai(tensor([-1.0, 0.0, 1.0]))
    tensor([0.5356, 0.3550, 0.1353])
    """
    series_x = xp.clip(x, -1.5, 1.5)
    cube = series_x * series_x * series_x
    at_0, slope = 3 ** (-2 / 3) / math.gamma(2 / 3), 3 ** (-1 / 3) / math.gamma(1 / 3)
    y = at_0 * power_series(cube, airy_series(0))
    y = y - slope * series_x * power_series(cube, airy_series(1))
    size = xp.abs(x)
    far = xp.where((size > 1.5) & ~xp.isinf(size), size, 1.5)
    root = xp.sqrt(far)
    z = xp.minimum(2 / 3 * far * root, 1e300)
    right = root / (math.pi * math.sqrt(3)) * xp.exp(-z) * scaled_bessel_k(xp, z, THIRD)
    a, b = xp.zeros_like(z), xp.zeros_like(z)
    for u, weight in quadrature_points(xp, z):
        sinh, cosh = xp.sinh(u), xp.cosh(u)
        angle = xp.arctan(sinh) * THIRD
        damped = weight * xp.exp(-z * sinh * xp.tanh(u))
        real, imaginary = xp.cosh(THIRD * u) * xp.cos(angle), xp.sinh(THIRD * u) * xp.sin(angle)
        a = a + damped * (real - imaginary / cosh)
        b = b + damped * (imaginary + real / cosh)
    left = 2 * root / (math.pi * math.sqrt(3)) * (a * xp.sin(z) + b * xp.cos(z))
    y = xp.where(x > 1.5, right, xp.where(x < -1.5, left, y))
    return xp.where(xp.isinf(x), 0.0, y)


HANKEL_LIMIT, LARGEST = 25.0, sys.float_info.max


# I and K -------------------------------------------------------------------------------------
#
# K and the series near 0 are above. I grows like eˣ and is computed by its series up to 25 (all
# terms are positive), and beyond by Hankel's expansion
#
#     Iₙ(x) = eˣ / √(2πx) · (1 - (4n²-1) / (8x) + (4n²-1)(4n²-9) / (2! (8x)²) - …)
#
# `i0e` and its like omit the exponential, so they neither overflow nor underflow.
#
# Paper: NIST Digital Library of Mathematical Functions, 10.25.2, 10.40.1.


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


@elementwise(dtypes="bif", sample=(-3.0, 3.0))
@in_float64
def i0(xp: Namespace, input: Array) -> Array:
    """The modified Bessel function I₀, which is 1 at 0 and grows like eˣ / √(2πx).

    >>> i0(tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """
    return bessel_i(xp, input, 0, False)


i0.vjp(input=lambda g, input: g * i1(input), latex=r"g\,I_1(x)")


@elementwise(method=False, dtypes="bif", node="SpecialI0EBackward0", sample=(-3.0, 3.0))
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


@elementwise(method=False, dtypes="bif", node="SpecialI1Backward0", sample=(-3.0, 3.0))
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


@elementwise(method=False, dtypes="bif", node="SpecialI1EBackward0", sample=(-3.0, 3.0))
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


@elementwise(method=False, dtypes="bif", sample=(0.3, 3.0))
@in_float64
def modified_bessel_k0(xp: Namespace, input: Array) -> Array:
    """The modified Bessel function K₀, which decays from ∞ at 0 like e⁻ˣ √(π / 2x); NaN below 0.

    >>> edutorch.special.modified_bessel_k0(tensor([1.0, 2.0]))
    tensor([0.4210, 0.1139])
    """
    return bessel_k(xp, input, 0, False)


modified_bessel_k0.vjp(input=lambda g, input: -g * modified_bessel_k1(input), latex=r"-g\,K_1(x)")


@elementwise(method=False, dtypes="bif", sample=(0.3, 3.0))
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


@elementwise(method=False, dtypes="bif", sample=(0.3, 3.0))
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


@elementwise(method=False, dtypes="bif", sample=(0.3, 3.0))
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
