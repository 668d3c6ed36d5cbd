"""The regularized incomplete gamma functions P and Q.

    P(a, x) = 1/Γ(a) ∫₀ˣ tᵃ⁻¹ e⁻ᵗ dt        Q(a, x) = 1 - P(a, x)

Three formulas, each where it converges fast without losing digits:

    x up to a + 1            a power series for P
    x beyond                 a continued fraction for Q
    a above 20, x within     Temme's uniform expansion for both: a Gaussian in η,
    a/2 … 2a                 where η²/2 = λ - 1 - ln λ and λ = x / a, and corrections
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

from ..backends.numpy import Array, Namespace
from ..core.op import elementwise
from .gamma import log_gamma, log_gamma_series, stirling_correction
from .special_common import in_float64, power_series, refuse_derivative

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


def gamma_density(input: Any, other: Any) -> Any:
    """xᵃ⁻¹ e⁻ˣ / Γ(a): the derivative of P with respect to x."""
    input = cast_to_dtype_of(input, other)
    return exp(xlogy(input - 1, other) - other - lgamma(input))


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


from .conversion import cast_to_dtype_of  # noqa: E402  (rules may use any op)
from .elementwise import exp  # noqa: E402
from .gamma import lgamma  # noqa: E402
from .special import erfc, xlogy  # noqa: E402
