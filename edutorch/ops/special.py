"""The error function, the normal distribution, and helpers of all special functions.

The values of `erf` come from the C library's `erfc` at a few Chebyshev nodes; a polynomial
interpolates between them, of a smooth function: erfc(x) · exp(x²) over
t = (x - 2) / (x + 2), which maps 0 … ∞ to -1 … 1.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from numbers import Rational
from typing import Any

import numpy as np

from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core.op import elementwise
from ..errors import GradientError
from .comparison import where
from .complex import abs
from .creation import ones_like, zeros_like
from .elementwise import exp, log, log1p
from .trigonometry import cos

__all__ = ["erf", "erfc", "erfinv", "sinc", "xlogy"]


# Helpers: float64 evaluation, power series, coefficients -------------------------------------
#
# Array libraries have no gamma, Bessel or polygamma functions, so these are computed
# here from their definition: a power series near 0, an asymptotic series or an integral far
# away. Coefficients are computed in exact fractions when first needed, instead of tables.


def in_float64(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Make a forward compute in float64, and round its result to the dtype of its input.

    Formulas accurate to 16 digits need no second version for 7 or 3 digits, and
    intermediate values do not overflow float16 where the result does not.
    """
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    names = [parameter.name for parameter in parameters]
    arrays = [parameter.name for parameter in parameters if "Array" in str(parameter.annotation)]

    @functools.wraps(forward)
    def wide(xp: Namespace, *arguments: Any, **named: Any) -> Any:
        bound = {**dict(zip(names, arguments, strict=False)), **named}
        dtype = next(bound[name].dtype for name in arrays if hasattr(bound[name], "dtype"))
        for name in arrays:
            bound[name] = xp.asarray(bound[name]).astype("float64")
        return forward(xp, **bound).astype(dtype)

    return wide


def refuse_derivative(name: str, input: str, hint: str) -> Callable[[Any], Any]:
    """Make the rule of an input without a derivative: it raises GradientError."""

    def refuse(g: ArrayOrTensor) -> Any:
        raise GradientError(
            name, f"the derivative for '{name}: {input}' is not implemented", hint=hint
        )

    refuse.refuses = True  # type: ignore[attr-defined]
    return refuse


def power_series(x: Array, coefficients: Sequence[float]) -> Array:
    """Σ cₖ xᵏ, from the highest power to the lowest (Horner)."""
    total = 0 * x + coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total *= x
        total += coefficient
    return total


def exp_of_minus_square(xp: Namespace, x: Array) -> Array:
    """exp(-x²), accurate also for large x, where the rounding of x² would cost digits.

    x is split into a coarse part, whose square is exact, and a small rest.
    """
    coarse = xp.trunc(x * 16) / 16
    product = xp.exp(-coarse * coarse) * xp.exp((coarse - x) * (coarse + x))
    return xp.where(xp.abs(x) > 40, xp.where(xp.isnan(x), x, 0.0), product)


@functools.cache
def bernoulli_numbers(count: int) -> list[Rational]:
    """Return B₂, B₄, …: from Σ (n+1 over k) Bₖ = 0 for k = 0 … n."""
    from fractions import Fraction  # with `decimal`, it takes 5 ms to import

    values = [Fraction(1)]
    for n in range(1, 2 * count + 1):
        total = sum(math.comb(n + 1, k) * value for k, value in enumerate(values))
        values.append(Fraction(-total, n + 1) if isinstance(total, int) else -total / (n + 1))
    return values[2::2]


@functools.cache
def zeta_minus_1(k: int) -> float:
    """Return 2⁻ᵏ + 3⁻ᵏ + 4⁻ᵏ + …: twenty terms, and the rest by the Euler-Maclaurin formula."""
    end = 22
    first = math.fsum(n**-k for n in range(2, end))
    terms = [end ** (1 - k) / (k - 1), 0.5 * end**-k]
    rising = k * float(end) ** (-k - 1)
    for order, coefficient in enumerate(bernoulli_numbers(6), 1):
        terms.append(float(coefficient) / math.factorial(2 * order) * rising)
        rising *= (k + 2 * order - 1) * (k + 2 * order) / end**2
    return math.fsum([first, *terms])


# The error function --------------------------------------------------------------------------


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


@elementwise(dtypes="bif", reference=math.erf)
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


@elementwise(dtypes="bif", reference=math.erfc)
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


@elementwise(dtypes="bif", sample=(-0.9, 0.9))
def erfinv(xp: Namespace, input: Array) -> Array:
    """The inverse of `erf`: ∞ at 1, NaN beyond.

    Winitzki's formula is accurate to almost three digits; each of Halley's steps triples them.

    >>> erfinv(tensor([0.0, 0.5]))
    tensor([0.0000, 0.4769])
    """
    x = input.astype("float64")  # near ±1 every digit counts
    inside = xp.abs(x) < 1
    target = xp.where(inside, x, xp.zeros_like(x))
    half = 2 / (math.pi * 0.147) + xp.log1p(-target * target) / 2
    root = xp.sqrt(half * half - xp.log1p(-target * target) / 0.147) - half
    y = xp.copysign(xp.sqrt(xp.maximum(root, 0)), target)
    for _ in range(2):
        error = (erf.op.forward(xp, y) - target) * (math.sqrt(math.pi) / 2) * xp.exp(y * y)
        y = y - error / (1 + y * error)
    edge = xp.where(xp.abs(x) == 1, xp.copysign(xp.full_like(x, math.inf), x), math.nan * x)
    return xp.where(inside, y, edge).astype(input.dtype)


erfinv.vjp(
    input=lambda g, y: g * ((math.sqrt(math.pi) / 2) * exp(y * y)),
    latex=r"\tfrac{\sqrt\pi}{2}\,g\,e^{y^2}",
)


@elementwise(dtypes="bif", reference=lambda a, b: a * math.log(b))
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


ROOT_HALF = math.sqrt(0.5)


ROOT_2_BY_PI = math.sqrt(2 / math.pi)


ROOT_TWO_PI = math.sqrt(2 * math.pi)


@elementwise(reference=lambda x: math.sin(math.pi * x) / (math.pi * x))
def sinc(xp: Namespace, input: Array) -> Array:
    """y = sin(πx) / (πx), and 1 at 0.

    >>> sinc(tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """
    dtype = input.dtype
    if dtype.itemsize == 2:  # π x needs more digits, and may overflow
        input = input.astype("float32")
    angle = math.pi * xp.where(input == 0, input + 1, input)
    return xp.where(input == 0, xp.ones_like(input), xp.sin(angle) / angle).astype(dtype)


def sinc_derivative(input: ArrayOrTensor, y: ArrayOrTensor) -> Any:
    """(cos πx - y) / x, and its power series near 0, where the difference cancels."""
    near = abs(input) < SINC_SMALL
    small, away = where(near, input, 0.0), where(near, 1.0, input)
    square = math.pi**2 * (small * small)
    series = square * 0 + SINC_SERIES[-1]
    for coefficient in SINC_SERIES[-2::-1]:
        series = series * square + coefficient
    return where(near, small * series, (cos(math.pi * away) - where(near, 0.0, y)) / away)


SINC_SMALL = 0.15
SINC_SERIES = [
    (-1) ** k * math.pi**2 * 2 * k / math.factorial(2 * k + 1) for k in range(1, 8)
]  # fmt: skip
"""The coefficients of y' / x in powers of (πx)²."""

sinc.vjp(
    input=lambda g, y, input: g * sinc_derivative(input, y),
    latex=r"g\,\frac{\cos(\pi x) - y}{x}",
)


# The normal distribution, entropies ----------------------------------------------------------
#
# Everything here is based on erfcx(x) = eˣ² erfc(x), which stays between 0 and 1 for
# positive x, however small erfc itself becomes.


@elementwise(method=False, dtypes="bif", node="SpecialErfcxBackward0")
@in_float64
def erfcx(xp: Namespace, input: Array) -> Array:
    """The scaled complementary error function: y = eˣ² erfc(x), about 1 / (x √π) for large x.

    Below 0: y = 2 eˣ² - erfcx(-x).

    >>> edutorch.special.erfcx(tensor([0.0, 1.0, 100.0]))
    tensor([1.0000, 0.4276, 0.0056])
    """
    tail = scaled_erfc(xp, xp.abs(input))
    return xp.where(input < 0, 2 * xp.exp(input * input) - tail, tail)


erfcx.vjp(
    input=lambda g, input, y: g * (2 * input * y - 2 / math.sqrt(math.pi)),
    latex=r"g\left(2 x y - \tfrac{2}{\sqrt\pi}\right)",
)


@elementwise(method=False, dtypes="bif")
@in_float64
def ndtr(xp: Namespace, input: Array) -> Array:
    """The standard normal distribution function: y = Φ(x) = ½ erfc(-x / √2).

    >>> edutorch.special.ndtr(tensor([-1.0, 0.0, 1.0]))
    tensor([0.1587, 0.5000, 0.8413])
    """
    return erfc.op.forward(xp, -input * ROOT_HALF) / 2


ndtr.vjp(
    input=lambda g, input: g * (exp(input * input * -0.5) / ROOT_TWO_PI),
    latex=r"\frac{g\,e^{-x^2/2}}{\sqrt{2\pi}}",
)


def log_of_ndtr(xp: Namespace, x: Array) -> Array:
    """The logarithm of `ndtr` for arrays, see `log_ndtr`."""
    low = x < -1
    t = xp.where(low, -x, 1.0) * ROOT_HALF
    tail = xp.log(scaled_erfc(xp, t) / 2) - t * t
    body = xp.log1p(-erfc.op.forward(xp, xp.where(low, 1.0, x) * ROOT_HALF) / 2)
    return xp.where(xp.isinf(x) & low, -math.inf, xp.where(low, tail, body))


@elementwise(method=False, dtypes="bif", node="SpecialLogNdtrBackward0")
@in_float64
def log_ndtr(xp: Namespace, input: Array) -> Array:
    """The logarithm of `ndtr`, finite also where that underflows to 0.

    Below -1: ln(erfcx(-x / √2) / 2) - x² / 2; above: ln(1 - ½ erfc(x / √2)).

    >>> edutorch.special.log_ndtr(tensor([-100.0, 0.0]))
    tensor([-5.0055e+03, -6.9315e-01])
    """
    return log_of_ndtr(xp, input)


log_ndtr.vjp(
    input=lambda g, input: g * (ROOT_2_BY_PI / erfcx(input * -ROOT_HALF)),
    latex=r"\frac{g\,\sqrt{2/\pi}}{\mathrm{erfcx}(-x/\sqrt2)}",
)


@elementwise(method=False, dtypes="bif", node="SpecialNdtriBackward0", sample=(0.02, 0.98))
@in_float64
def ndtri(xp: Namespace, input: Array) -> Array:
    """The inverse of `ndtr`: -∞ at 0, ∞ at 1, NaN outside.

    A rational approximation is accurate to three digits (for p up to ½; above by symmetry).
    Newton's steps on ln Φ(z) = ln p, which is nearly a parabola, give the rest.

    Paper: Abramowitz and Stegun, 26.2.23, for the initial value.

    >>> edutorch.special.ndtri(tensor([0.1587, 0.5, 0.975]))
    tensor([-0.9998,  0.0000,  1.9600])
    """
    inside = (input > 0) & (input < 1)
    middle = xp.where(inside, input, 0.5)
    p = xp.where(middle > 0.5, 1 - middle, middle)
    goal = xp.log(p)
    t = xp.sqrt(-2 * goal)
    above, below = (
        2.515517 + t * (0.802853 + t * 0.010328),
        1.432788 + t * (0.189269 + t * 0.001308),
    )
    z = above / (1 + t * below) - t
    for _ in range(3):
        slope = ROOT_2_BY_PI / scaled_erfc(xp, xp.maximum(-z, 0.0) * ROOT_HALF)
        z = z - (log_of_ndtr(xp, z) - goal) / slope
    z = xp.where(middle == 0.5, 0.0, xp.where(middle > 0.5, -z, z))
    edge = xp.where(input == 0, -math.inf, xp.where(input == 1, math.inf, math.nan))
    return xp.where(inside, z, edge)


ndtri.vjp(
    input=lambda g, y: g * (ROOT_TWO_PI * exp(y * y * 0.5)), latex=r"g\,\sqrt{2\pi}\,e^{y^2/2}"
)


@elementwise(method=False, dtypes="bif", node="SpecialEntrBackward0", sample=(0.1, 3.0))
def entr(xp: Namespace, input: Array) -> Array:
    """The entropy term of a probability: y = -x ln x, 0 at 0, -∞ below.

    >>> edutorch.special.entr(tensor([0.0, 0.5, 1.0]))
    tensor([0.0000, 0.3466, 0.0000])
    """
    x = xp.where(input > 0, input, xp.ones_like(input))
    edge = xp.where(input < 0, xp.full_like(input, -math.inf), xp.where(input == 0, 0 * x, input))
    return xp.where(input > 0, 0 - x * xp.log(x), edge)


entr.vjp(input=lambda g, input: -g * (log(input) + 1), latex=r"-g\,(\ln x + 1)")


@elementwise(method=False, dtypes="bif", node="SpecialXlog1PyBackward0")
def xlog1py(xp: Namespace, input: Array, other: Array) -> Array:
    """y = a · ln(1 + b), and 0 where a is 0, whatever b is (unless it is NaN).

    >>> edutorch.special.xlog1py(tensor([0.0, 1.0]), tensor([-1.0, 1.0]))
    tensor([0.0000, 0.6931])
    """
    zero = (input == 0) & ~xp.isnan(other)
    return xp.where(zero, 0 * input, input * xp.log1p(xp.where(zero, 0 * input, other)))


xlog1py.vjp(
    input=lambda g, input, other: (
        g * log1p(where((input == 0) & (other <= -1), zeros_like(input), other))
    ),
    other=lambda g, input, other: g * input / (other + 1),
    latex={"input": r"g \ln(1 + b)", "other": r"\frac{g\,a}{1 + b}"},
)
