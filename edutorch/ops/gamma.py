"""The gamma function: its logarithm, derivatives and integrals, and the zeta function.

Γ(x) = ∫₀^∞ tˣ⁻¹ e⁻ᵗ dt extends the factorial: Γ(n + 1) = n!. All of these functions satisfy
a recurrence from x to x + 1 and a reflection formula between x and 1 - x. So an accurate
formula in one range is enough for all x.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core.op import elementwise
from ..core.tensor import Tensor
from ..errors import ValueRangeError
from .comparison import where
from .conversion import cast_to_dtype_of
from .elementwise import exp
from .special import (
    bernoulli_numbers,
    erfc,
    in_float64,
    power_series,
    refuse_derivative,
    xlogy,
    zeta_minus_1,
)

__all__ = ["digamma", "igamma", "igammac", "lgamma", "mvlgamma", "polygamma"]


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


@elementwise(dtypes="bif", sample=(0.2, 4.0))
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


def _sum_of_digammas(input: ArrayOrTensor, p: int) -> Any:
    total = digamma(input)
    for i in range(1, p):
        total = total + digamma(input - i / 2)
    return total


mvlgamma.vjp(
    input=lambda g, input, p: g * _sum_of_digammas(input, p),
    latex=r"g \textstyle\sum_{i<p} \psi(x - \tfrac{i}{2})",
)


# Its derivatives -----------------------------------------------------------------------------


@elementwise(dtypes="bif", sample=(0.2, 4.0))
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


digamma.vjp(input=lambda g, input: g * polygamma_of_order(input, 1), latex=r"g\,\psi'(x)")


# Zeta and polygamma --------------------------------------------------------------------------


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
    below = xp.logical_and(q < 0, xp.logical_not(is_integer))
    t = xp.where(below, q - xp.floor(q), q)
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


@elementwise(name="polygamma", dtypes="bif")
@in_float64
def polygamma_of_order(xp: Namespace, input: Array, n: int) -> Array:
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


polygamma_of_order.vjp(
    input=lambda g, input, n: g * polygamma_of_order(input, n + 1), latex=r"g\,\psi^{(n+1)}(x)"
)


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma (n = 0 is digamma itself).

    Raises: ValueRangeError: n is negative.

    >>> polygamma(1, tensor([1.0, 2.0]))
    tensor([1.6449, 0.6449])
    """
    return polygamma_of_order(input, n, out=out)


# The incomplete gamma functions --------------------------------------------------------------
#
# The regularized incomplete gamma functions P and Q:
#
#     P(a, x) = 1/Γ(a) ∫₀ˣ tᵃ⁻¹ e⁻ᵗ dt        Q(a, x) = 1 - P(a, x)
#
# Three formulas, each where it converges fast without losing digits:
#
#     x up to a + 1            a power series for P
#     x beyond                 a continued fraction for Q
#     a above 20, x within     Temme's uniform expansion for both: a Gaussian in η,
#     a/2 … 2a                 where η²/2 = λ - 1 - ln λ and λ = x / a, and corrections


LARGE = 20.0
"""The a from which Temme's expansion has 16 digits."""


@functools.cache
def temme_coefficients(orders: int = 13, terms: int = 22) -> list[list[float]]:
    """Return the power series in η of C₀, C₁, …, computed in exact fractions.

    With μ = λ - 1: C₀ = 1/μ - 1/η, and Cₖ = (C'ₖ₋₁ - C'ₖ₋₁(0) η/μ) / η. The term
    C'ₖ₋₁(0) makes the quotient finite at η = 0. From η dη = μ/(1+μ) dμ follow the
    coefficients of μ = η + η²/3 + η³/36 - …

    Paper: N. M. Temme, The asymptotic expansion of the incomplete gamma functions (1979);
    NIST Digital Library of Mathematical Functions, 8.12.
    """
    from fractions import Fraction

    length = terms + 2 * orders
    mu = [Fraction(0), Fraction(1)]
    for m in range(2, length + 2):
        products = sum(mu[i] * mu[m + 1 - i] for i in range(2, m))
        mu.append((mu[m - 1] - Fraction(m + 1, 2) * products) / (m + 1))
    inverse = [Fraction(1)]  # of μ / η
    for m in range(1, length):
        inverse.append(-sum((mu[i + 1] * inverse[m - i] for i in range(1, m + 1)), Fraction(0)))
    series = inverse[1:]
    coefficients = []
    for order in range(orders):
        coefficients.append([float(coefficient) for coefficient in series[: terms - order]])
        slope = [k * coefficient for k, coefficient in enumerate(series)][1:]
        constant = slope[0]
        series = [s - constant * v for s, v in zip(slope, inverse[: len(slope)], strict=True)][1:]
    return coefficients


def temme_expansion(xp: Namespace, a: Array, x: Array) -> tuple[Array, Array]:
    """P and Q by Temme's expansion, for large a and x within a/2 … 2a."""
    mu = (x - a) / a
    r = mu / (2 + mu)  # ln(1 + μ) = 2 (r + r³/3 + r⁵/5 + …): no digit of μ - ln(1 + μ) is lost
    odd = [1 / (2 * k + 3) for k in range(18)]
    half_square = r * (mu - 2 * r * r * power_series(r * r, odd))
    eta = xp.copysign(xp.sqrt(2 * half_square), mu)
    total = xp.zeros_like(a)
    for temme_coefficient in reversed(temme_coefficients()):
        total = total / a + power_series(eta, temme_coefficient)
    correction = xp.exp(-a * half_square) / xp.sqrt(2 * math.pi * a) * total
    z = eta * xp.sqrt(a / 2)
    return erfc.op.forward(xp, -z) / 2 - correction, erfc.op.forward(xp, z) / 2 + correction


def prefactor(xp: Namespace, a: Array, x: Array) -> Array:
    """xᵃ e⁻ˣ / Γ(a + 1); for large a by Stirling, with the large terms cancelled analytically."""
    log_x = xp.log(x)
    direct = xp.exp(a * log_x - x - log_gamma(xp, a + 1))
    big = xp.maximum(a, LARGE)
    ratio = x / big
    asymptotic = -big * (ratio - 1 - xp.log(ratio)) - stirling_correction(big)
    return xp.where(a > LARGE, xp.exp(asymptotic) / xp.sqrt(2 * math.pi * big), direct)


def lower_series(xp: Namespace, a: Array, x: Array) -> Array:
    """Σ xⁿ / ((a+1) … (a+n)): P / prefactor."""
    term = total = xp.ones_like(x)
    for n in range(1, 65):
        term = term * (x / (a + n))
        total = total + term
    return total


def upper_fraction(a: Array, x: Array) -> Array:
    """a / (x+1-a - 1(1-a) / (x+3-a - 2(2-a) / (…))): Q / prefactor."""
    steps = 80
    f = x + (2 * steps + 1) - a
    for n in range(steps, 0, -1):
        f = x + (2 * n - 1) - a - n * (n - a) / f
    return a / f


def upper_series(xp: Namespace, a: Array, x: Array) -> Array:
    """Q for small a and x, where 1 - P would lose digits.

    Q = 1 - xᵃ/Γ(a+1) - a xᵃ/Γ(a+1) Σ (-x)ⁿ / ((a+n) n!) over n = 1, 2, …
    """
    term, total = xp.ones_like(x), xp.zeros_like(x)
    for n in range(1, 30):
        term = term * (-x / n)
        total = total + term / (a + n)
    tiny = xp.minimum(a, 0.5)  # 1 + a would lose the digits of a
    series_value = tiny * power_series(tiny, log_gamma_series()) - xp.log1p(tiny)
    exponent = a * xp.log(x) - xp.where(a < 0.5, series_value, log_gamma(xp, a + 1))
    return -xp.expm1(exponent) - a * xp.exp(exponent) * total


def gamma_p_and_q(xp: Namespace, a: Array, x: Array) -> tuple[Array, Array]:
    """P(a, x) and Q(a, x), with their limits at 0 and infinity."""
    a, x = xp.broadcast_arrays(a, x)
    is_regular = (a > 0) & (x > 0) & xp.isfinite(a) & xp.isfinite(x)
    alpha, at = xp.where(is_regular, a, 1.0), xp.where(is_regular, x, 1.0)
    peak = (alpha > LARGE) & (at > alpha / 2) & (at < 2 * alpha)
    tail = ~peak & (at > 2) & (at > alpha + 1)
    small = ~peak & (at <= 2) & (alpha < xp.maximum(at, 1.0))
    factor = prefactor(xp, alpha, at)
    far, near = xp.where(tail, at, alpha + 4), xp.where(tail | peak, 0.5 * alpha, at)
    upper = xp.where(tail, factor * upper_fraction(alpha, far), 0.0)
    lower = xp.where(tail, 1 - upper, factor * lower_series(xp, alpha, near))
    small_upper = upper_series(xp, xp.where(small, alpha, 1.0), xp.where(small, at, 1.0))
    upper = xp.where(tail, upper, xp.where(small, small_upper, 1 - lower))
    big, near_peak = xp.where(peak, alpha, LARGE), xp.where(peak, at, LARGE)
    peak_lower, peak_upper = temme_expansion(xp, big, near_peak)
    lower, upper = xp.where(peak, peak_lower, lower), xp.where(peak, peak_upper, upper)
    is_one = ((a == 0) & (x > 0)) | (xp.isinf(x) & ~xp.isinf(a))
    is_zero = ((x == 0) & (a > 0)) | (xp.isinf(a) & ~xp.isinf(x))
    is_undefined = (
        xp.isnan(a) | xp.isnan(x) | ~((a >= 0) & (x >= 0)) | ~(is_regular | is_one | is_zero)
    )
    lower = xp.where(is_one, 1.0, xp.where(is_zero, 0.0, lower))
    upper = xp.where(is_one, 0.0, xp.where(is_zero, 1.0, upper))
    return xp.where(is_undefined, math.nan, lower), xp.where(is_undefined, math.nan, upper)


def gamma_density(input: ArrayOrTensor, other: ArrayOrTensor) -> Any:
    """xᵃ⁻¹ e⁻ˣ / Γ(a): the derivative of P with respect to x; NaN below 0, where P is."""
    input = cast_to_dtype_of(input, other)
    x = where(other < 0, math.nan, other)
    return exp(xlogy(input - 1, x) - x - lgamma(input))


ONLY_X = "only `other` may require grad; detach `input`"


@elementwise(dtypes="f", scalars="")
@in_float64
def igamma(xp: Namespace, input: Array, other: Array) -> Array:
    """The lower regularized incomplete gamma function: P(a, x) = 1/Γ(a) ∫₀ˣ tᵃ⁻¹ e⁻ᵗ dt.

    There is no derivative with respect to a (as in PyTorch); with respect to x it is the density
    xᵃ⁻¹ e⁻ˣ / Γ(a).

    >>> igamma(tensor([1.0, 2.0]), tensor([1.0, 1.0]))
    tensor([0.6321, 0.2642])
    """
    return gamma_p_and_q(xp, input, other)[0]


igamma.vjp(
    input=refuse_derivative("igamma", "input", ONLY_X),
    other=lambda g, input, other: g * gamma_density(input, other),
    latex={"input": r"\text{none}", "other": r"g\,\frac{x^{a-1} e^{-x}}{\Gamma(a)}"},
)


@elementwise(dtypes="f", scalars="")
@in_float64
def igammac(xp: Namespace, input: Array, other: Array) -> Array:
    """The upper regularized incomplete gamma function, 1 - P(a, x).

    Q(a, x) = 1/Γ(a) ∫ₓ^∞ tᵃ⁻¹ e⁻ᵗ dt

    >>> igammac(tensor([1.0, 2.0]), tensor([1.0, 1.0]))
    tensor([0.3679, 0.7358])
    """
    return gamma_p_and_q(xp, input, other)[1]


igammac.vjp(
    input=refuse_derivative("igammac", "input", ONLY_X),
    other=lambda g, input, other: -g * gamma_density(input, other),
    latex={"input": r"\text{none}", "other": r"-g\,\frac{x^{a-1} e^{-x}}{\Gamma(a)}"},
)
