"""exp, log, tanh, erf and related functions as polynomials, for use inside kernels.

numba calls the C library once per element, and a loop with a call in it is not vectorized. These
functions are branch-free arithmetic: LLVM computes 4 to 16 elements at a time. All of them use
range reduction: map x into a small range by an identity, evaluate a short power series there, and
reconstruct the result.

Each is written once for float32 and float64; NaN, infinities and values near 0 are handled as
usual. Results are within 2 units in the last place (tests/kernels/test_vector_math.py).

Kernels contain copies of these functions, and numba checks only the kernel's own file to decide
whether its cached copy is up to date: after a change here, delete the files in `__pycache__`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from ...backends.numpy import Array

__all__ = [
    "FloatFormat", "erf", "exp", "exp_nonpositive", "expm1_nonpositive", "log", "log1p_small",
    "vector_function", "vector_function_of_pair", "erfcx", "tanh",
]  # fmt: skip

CONTRACTED: dict[str, Any] = {"forceinline": True, "fastmath": {"contract"}}
"""A product and a sum may be fused into one rounding (FMA); nothing else may be reordered."""


def power_series(coefficients: Sequence[Any]) -> Any:
    """Return x ↦ Σ cₖ xᵏ, by Horner's scheme.

    It is unrolled as `c0 + x * (c1 + x * (…))`: LLVM would unroll a loop inside the kernel's loop
    only if it were short.
    """
    names = [f"c{k}" for k in range(len(coefficients))]
    text = " + x * (".join(names) + ")" * (len(names) - 1)
    scope = dict(zip(names, coefficients, strict=True))
    exec(f"def series(x): return {text}", scope)
    return njit(**CONTRACTED)(scope["series"])


class FloatFormat:
    """The properties of float32 or float64: bit layout, limits, and lengths of power series."""

    def __init__(
        self, scalar: Any, integer: Any, erfcx: tuple[float, float, int], **terms: int
    ) -> None:
        self.scalar, self.integer, self.erfcx, self.terms = scalar, integer, erfcx, terms
        limits = np.finfo(scalar)
        self.mantissa, self.bias = limits.nmant, 1 - int(limits.minexp)
        self.log_max, self.log_min = math.log(float(limits.max)), limits.minexp * math.log(2)
        self.tiny, self.epsilon = limits.tiny, limits.eps

    def constants(self, values: Iterable[float]) -> tuple[Any, ...]:
        """Return values as scalars of this dtype."""
        return tuple(map(self.scalar, values))

    def series(self, coefficients: Iterable[float]) -> Any:
        """Return the polynomial with these coefficients."""
        return power_series(self.constants(coefficients))

    def exp_series(self) -> Any:
        """Return the polynomial that approximates eʳ for |r| ≤ ½ ln 2.

        The Taylor polynomial is exact at 0 and worst at the ends. Interpolation at the Chebyshev
        nodes spreads the error evenly, and needs one power less. (For float64, its coefficients
        would have to be computed with more digits than float64 has.)
        """
        count = self.terms["exp"]
        if self.scalar is not np.float32:
            return self.series(1 / math.factorial(k) for k in range(count))
        points = math.log(2) / 2 * np.cos(np.pi * (np.arange(count - 1) + 0.5) / (count - 1))
        return self.series(np.polynomial.polynomial.polyfit(points, np.exp(points), count - 2))

    def ln2(self) -> tuple[Any, Any]:
        """Return ln 2 in two parts; an integer times the first part is exact (Cody-Waite)."""
        scale = 2 ** (self.mantissa - 11)
        high = math.floor(math.log(2) * scale) / scale
        return self.constants((high, float(LN2 - Decimal(high))))


LN2 = Decimal("0.69314718055994530941723212145817656807550013436")

FORMATS = {
    types.float32: FloatFormat(np.float32, np.int32, (3, 4.2, 8), exp=8, log=4, log1p=8, erf=11),
    types.float64: FloatFormat(
        np.float64, np.int64, (4, 6.2, 18), exp=14, log=10, log1p=16, erf=19
    ),
}


def vector_function(formula: Callable[[FloatFormat], Callable[..., Any]]) -> Callable[..., Any]:
    """Make `formula(format)`, which returns a function of a scalar or row, callable in kernels."""

    def select_formula(x: Array) -> Any:
        return formula_for(formula, x)

    return overloaded(formula, select_formula)


def vector_function_of_pair(
    formula: Callable[[FloatFormat], Callable[..., Any]],
) -> Callable[..., Any]:
    """Make `formula(format)`, which returns a function of two scalars, callable in kernels."""

    def select_formula(a: float, b: float) -> Any:
        return formula_for(formula, a)

    return overloaded(formula, select_formula)


def formula_for(formula: Callable[[FloatFormat], Callable[..., Any]], x: Any) -> Any:
    """Return a formula's function for the dtype of a scalar or array type."""
    format = FORMATS.get(getattr(x, "dtype", x))  # an array's dtype
    return None if format is None else formula(format)


def overloaded(formula: Callable[..., Any], select: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that stands for what `select` returns for the types of the arguments."""

    def function(*arguments: Any) -> Any:
        raise TypeError(f"{formula.__name__} is for compiled kernels only: elsewhere use NumPy's")

    function.__name__ = function.__qualname__ = formula.__name__
    function.__doc__, function.__module__ = formula.__doc__, formula.__module__
    options: Any = CONTRACTED
    overload(function, jit_options=options, strict=False)(select)
    return function


# exp ---------------------------------------------------------------------------------------


class ExponentSplit:
    """The constants that split x into n · ln 2 + r with |r| ≤ ½ ln 2.

    The sum of a value and `round` has no bits left for a fraction: it is `round` + n, and
    subtracting `round` gives n. The lowest bits of the sum are also those of the integer n; with
    the bias added and shifted to the exponent's position, they are the float 2ⁿ.
    """

    def __init__(self, format: FloatFormat) -> None:
        self.high, self.low = format.ln2()
        self.per_ln2, self.round = format.constants((1 / math.log(2), 1.5 * 2.0**format.mantissa))
        self.shift, self.bias = format.integer(format.mantissa), format.integer(format.bias)


@vector_function
def exp(format: FloatFormat) -> Callable[..., Any]:
    """eˣ = 2ⁿ · eʳ with x = n · ln 2 + r and |r| ≤ ½ ln 2."""
    split, scalar, integer = ExponentSplit(format), format.scalar, format.integer
    high, low, per_ln2, round = split.high, split.low, split.per_ln2, split.round
    exponent_shift, bias, half = split.shift, split.bias, scalar(0.5)
    series = format.exp_series()
    # Beyond these bounds the result is 0 or infinite, and n would overflow the exponent.
    least, most = format.constants(
        (format.log_min - 0.7 * format.mantissa - 1, format.log_max + 0.3)
    )

    def exp(x):
        clipped = least if x < least else x  # NaN stays
        clipped = most if clipped > most else clipped
        rounded = clipped * per_ln2 + round
        n = rounded - round
        y = series(clipped - n * high - n * low)
        # Scale in two steps: 2ⁿ alone may overflow where the result does not.
        first = integer(scalar(n * half + round).view(integer))
        second = integer(scalar(rounded).view(integer) - first)
        y = y * integer(integer(first + bias) << exponent_shift).view(scalar)
        return y * integer(integer(second + bias) << exponent_shift).view(scalar)

    return exp


@vector_function
def exp_nonpositive(format: FloatFormat) -> Callable[..., Any]:
    """eˣ for x ≤ 0, and 0 where the result would be subnormal."""
    split, scalar, integer = ExponentSplit(format), format.scalar, format.integer
    high, low, per_ln2, round = split.high, split.low, split.per_ln2, split.round
    exponent_shift, bias, zero = split.shift, split.bias, scalar(0)
    series = format.exp_series()
    least = scalar(format.log_min)

    def exp_nonpositive(x):
        clipped = least if x < least else x
        rounded = clipped * per_ln2 + round
        n = rounded - round
        y = series(clipped - n * high - n * low)
        y = y * integer(integer(scalar(rounded).view(integer) + bias) << exponent_shift).view(
            scalar
        )
        return zero if x < least else y

    return exp_nonpositive


@vector_function
def expm1_nonpositive(format: FloatFormat) -> Callable[..., Any]:
    """eˣ - 1 for x ≤ 0, accurate also near 0: 2ⁿ · (eʳ - 1) + (2ⁿ - 1)."""
    split, scalar, integer = ExponentSplit(format), format.scalar, format.integer
    high, low, per_ln2, round = split.high, split.low, split.per_ln2, split.round
    exponent_shift, bias, one = split.shift, split.bias, scalar(1)
    series = format.series(1 / math.factorial(k + 2) for k in range(format.terms["exp"] - 2))
    least = scalar(-0.7 * format.mantissa - 3)

    def expm1_nonpositive(x):
        clipped = least if x < least else x  # NaN stays
        rounded = clipped * per_ln2 + round
        n = rounded - round
        r = clipped - n * high - n * low
        scale = integer(integer(scalar(rounded).view(integer) + bias) << exponent_shift).view(
            scalar
        )
        return scale * (r + r * r * series(r)) + (scale - one)

    return expm1_nonpositive


@vector_function
def tanh(format: FloatFormat) -> Callable[..., Any]:
    """tanh |x| = -t / (t + 2) with t = exp(-2|x|) - 1, which never overflows."""
    two, small = format.scalar(2), format.scalar(format.epsilon**0.5 / 2)

    def tanh(x):
        t = expm1_nonpositive(-two * abs(x))
        y = -t / (t + two)
        y = -y if x < 0 else y
        return y if abs(x) > small else x  # also ±0 and NaN

    return tanh


# log ---------------------------------------------------------------------------------------


@vector_function
def log(format: FloatFormat) -> Callable[..., Any]:
    """ln x = k · ln 2 + ln(1 + f) with x = 2ᵏ · (1 + f) and 1 + f close to 1.

    With s = f / (2 + f), ln(1 + f) = 2 · artanh(s) = f - s · f + 2s³/3 + 2s⁵/5 + …, arranged so
    that the largest term, f, is exact.
    """
    high, low = format.ln2()
    series = format.series(2 / (2 * k + 3) for k in range(format.terms["log"]))
    integer, scalar = format.integer, format.scalar
    mantissa, bias = integer(format.mantissa), integer(format.bias)
    lift, lifted = scalar(2.0 ** (format.mantissa + 2)), integer(format.mantissa + 2)
    root = scalar(0.5**0.5).view(integer)
    to_one = integer(scalar(1).view(integer) - root)
    fraction = integer((1 << format.mantissa) - 1)
    half, two, tiny, zero = scalar(0.5), scalar(2), scalar(format.tiny), scalar(0)

    def log(x):
        normal = x * lift if x < tiny else x  # a subnormal number has no exponent of its own
        bits = integer(scalar(normal).view(integer) + to_one)
        k = integer(integer(bits >> mantissa) - bias)
        k = integer(k - lifted) if x < tiny else k
        f = integer(integer(bits & fraction) + root).view(scalar) - scalar(1)
        s = f / (two + f)  # at most 0.17, so the series converges fast
        square = half * f * f
        rest = s * (square + s * s * series(s * s))
        n = scalar(np.int32(k))
        y = n * high - ((square - (rest + n * low)) - f)
        y = y if x < scalar(np.inf) else x  # also NaN
        y = y if x != zero else scalar(-np.inf)
        return scalar(np.nan) if x < zero else y

    return log


@vector_function
def log1p_small(format: FloatFormat) -> Callable[..., Any]:
    """ln(1 + u) = 2 · artanh(u / (2 + u)) for 0 ≤ u ≤ 1."""
    series = format.series(2 / (2 * k + 1) for k in range(format.terms["log1p"]))
    two = format.scalar(2)

    def log1p_small(u):
        s = u / (two + u)
        return s * series(s * s)

    return log1p_small


# erf ---------------------------------------------------------------------------------------


@vector_function
def erfcx(format: FloatFormat) -> Callable[..., Any]:
    """The scaled complementary error function exp(a²) · (1 - erf(a)) for a ≥ 0.

    It decreases smoothly from 1 to 0. Times a + m it is approximated by a polynomial in u, a linear
    function of 1 / (a + m) that runs from -1 to 1 as a runs from 0 to the end. The polynomial
    interpolates at the Chebyshev nodes.
    """
    middle, end, degree = format.erfcx
    slope = 2 / (1 / middle - 1 / (end + middle))
    shift = slope / middle - 1
    points = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    arguments = slope / (shift - points) - middle
    values = [math.erfc(a) * math.exp(a * a) * (a + middle) for a in arguments]
    coefficients = np.polynomial.chebyshev.chebfit(points, values, degree)
    series = format.series(np.polynomial.chebyshev.cheb2poly(coefficients))
    middle, end, slope, shift, one = format.constants((middle, end, slope, shift, 1))

    def erfcx(a):
        a = a if a < end else end  # beyond, the factor exp(-a²) is below rounding
        scale = one / (a + middle)
        return scale * series(shift - slope * scale)

    return erfcx


@vector_function
def erf(format: FloatFormat) -> Callable[..., Any]:
    """The Taylor series up to 1, and 1 - exp(-x²) · erfcx(x) beyond."""
    scalar = format.scalar
    terms = range(format.terms["erf"])
    per_root = 2 / math.sqrt(math.pi)
    series = format.series(per_root * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in terms)
    one = scalar(1)

    def erf(x):
        a = abs(x)
        square = x * x
        near = x * series(square if a < one else one)
        far = one - exp_nonpositive(-square) * erfcx(a)
        far = -far if x < scalar(0) else far
        return far if a >= one else near  # NaN is near

    return erf
