"""exp, log, tanh, erf and their kin as polynomials, for use inside kernels.

numba calls the C library once for each number, and a loop with a call in it does not use the
wide registers of the processor. These are plain arithmetic without a branch: LLVM computes 4 to
16 numbers at a time. All of them follow one plan: bring x into a small range by an identity,
use a short power series there, and put the result together again.

Each is written once for float32 and float64; NaN, infinities and numbers next to 0 come out as
usual. The results are within 2 units in the last place (tests/kernels/test_mathematics.py).

Kernels contain copies of these functions, and numba only looks at the kernel's own file to see
whether its copy on the disk is still good: after a change here, delete the files in `__pycache__`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

__all__ = [
    "Kind",
    "erf",
    "exp",
    "exp_below",
    "expm1_below",
    "log",
    "log1p_small",
    "mathematical",
    "tail",
    "tanh",
]

CONTRACTED: dict[str, Any] = {"forceinline": True, "fastmath": {"contract"}}
"""A product and a sum may be rounded at once; nothing else may be reordered."""


def power_series(coefficients: Sequence[Any]) -> Any:
    """Return x ↦ Σ cₖ xᵏ, from the highest power to the lowest (Horner).

    It is written out, as `c0 + x * (c1 + x * (…))`: a loop within the kernel's loop would have to
    be unrolled by LLVM, which it only does for a short one.
    """
    names = [f"c{k}" for k in range(len(coefficients))]
    text = " + x * (".join(names) + ")" * (len(names) - 1)
    scope = dict(zip(names, coefficients, strict=True))
    exec(f"def series(x): return {text}", scope)
    return njit(**CONTRACTED)(scope["series"])


class Kind:
    """What differs between float32 and float64: the bits, and how long a series must be."""

    def __init__(
        self, number: Any, integer: Any, tail: tuple[float, float, int], **terms: int
    ) -> None:
        self.number, self.integer, self.tail, self.terms = number, integer, tail, terms
        information = np.finfo(number)
        self.mantissa, self.bias = information.nmant, 1 - int(information.minexp)
        self.most, self.least = math.log(float(information.max)), information.minexp * math.log(2)
        self.tiny, self.digit = information.tiny, information.eps

    def row(self, values: Iterable[float]) -> tuple[Any, ...]:
        """Return coefficients as numbers of this type."""
        return tuple(map(self.number, values))

    def series(self, coefficients: Iterable[float]) -> Any:
        """Return the sum of powers with these coefficients."""
        return power_series(self.row(coefficients))

    def exp_series(self) -> Any:
        """Return the sum of powers that eʳ is for |r| ≤ ½ ln 2.

        Taylor's is exact at 0 and least so at the ends. A polynomial that meets eʳ at Chebyshev's
        points shares its error out, and does with a power less. (For float64, its coefficients
        would have to be worked out with more digits than float64 has.)
        """
        count = self.terms["exp"]
        if self.number is not np.float32:
            return self.series(1 / math.factorial(k) for k in range(count))
        points = math.log(2) / 2 * np.cos(np.pi * (np.arange(count - 1) + 0.5) / (count - 1))
        return self.series(np.polynomial.polynomial.polyfit(points, np.exp(points), count - 2))

    def ln2(self) -> tuple[Any, Any]:
        """Return ln 2 in two parts, of which the first times a whole number is exact."""
        scale = 2 ** (self.mantissa - 11)
        high = math.floor(math.log(2) * scale) / scale
        return self.row((high, float(LN2 - Decimal(high))))


LN2 = Decimal("0.69314718055994530941723212145817656807550013436")

KINDS = {
    types.float32: Kind(np.float32, np.int32, (3, 4.2, 8), exp=8, log=4, log1p=8, erf=11),
    types.float64: Kind(np.float64, np.int64, (4, 6.2, 18), exp=14, log=10, log1p=16, erf=19),
}


def mathematical(formula: Callable[[Kind], Callable[..., Any]]) -> Callable[..., Any]:
    """Make `formula(kind)`, which returns a function of one number, or of a row of them, for one
    type, callable in kernels."""

    def function(x: Any) -> Any:
        raise TypeError(f"{formula.__name__} is for compiled kernels only: elsewhere use NumPy's")

    def chosen(x: Any) -> Any:
        kind = KINDS.get(getattr(x, "dtype", x))  # of an array's numbers
        return None if kind is None else formula(kind)

    function.__name__ = function.__qualname__ = formula.__name__
    function.__doc__, function.__module__ = formula.__doc__, formula.__module__
    options: Any = CONTRACTED
    overload(function, jit_options=options, strict=False)(chosen)
    return function


# exp ---------------------------------------------------------------------------------------


class Split:
    """What splits x into n · ln 2 + r, |r| ≤ ½ ln 2.

    A number added to `round` has no room for digits behind the point: the sum is `round` + n, and
    subtracting `round` gives n. The lowest bits of the sum are those of n, as an integer, too;
    with the bias added and moved to where the exponent is, they are the number 2ⁿ.
    """

    def __init__(self, kind: Kind) -> None:
        self.high, self.low = kind.ln2()
        self.per_ln2, self.round = kind.row((1 / math.log(2), 1.5 * 2.0**kind.mantissa))
        self.place, self.bias = kind.integer(kind.mantissa), kind.integer(kind.bias)


@mathematical
def exp(kind: Kind) -> Callable[..., Any]:
    """eˣ = 2ⁿ · eʳ with x = n · ln 2 + r and |r| ≤ ½ ln 2."""
    split, number, integer = Split(kind), kind.number, kind.integer
    high, low, per_ln2, round = split.high, split.low, split.per_ln2, split.round
    place, bias, half = split.place, split.bias, number(0.5)
    series = kind.exp_series()
    # Beyond these, the result is 0 or infinite, and n would not fit into the exponent.
    least, most = kind.row((kind.least - 0.7 * kind.mantissa - 1, kind.most + 0.3))

    def exp(x):
        within = least if x < least else x  # NaN stays
        within = most if within > most else within
        rounded = within * per_ln2 + round
        n = rounded - round
        y = series(within - n * high - n * low)
        # In two steps: 2ⁿ alone may be out of range where the result is not.
        first = integer(number(n * half + round).view(integer))
        second = integer(number(rounded).view(integer) - first)
        y = y * integer(integer(first + bias) << place).view(number)
        return y * integer(integer(second + bias) << place).view(number)

    return exp


@mathematical
def exp_below(kind: Kind) -> Callable[..., Any]:
    """eˣ for x ≤ 0, and 0 where that would be smaller than the usual numbers."""
    split, number, integer = Split(kind), kind.number, kind.integer
    high, low, per_ln2, round = split.high, split.low, split.per_ln2, split.round
    place, bias, zero = split.place, split.bias, number(0)
    series = kind.exp_series()
    least = number(kind.least)

    def exp_below(x):
        within = least if x < least else x
        rounded = within * per_ln2 + round
        n = rounded - round
        y = series(within - n * high - n * low)
        y = y * integer(integer(number(rounded).view(integer) + bias) << place).view(number)
        return zero if x < least else y

    return exp_below


@mathematical
def expm1_below(kind: Kind) -> Callable[..., Any]:
    """eˣ - 1 for x ≤ 0, exact also near 0: 2ⁿ · (eʳ - 1) + (2ⁿ - 1)."""
    split, number, integer = Split(kind), kind.number, kind.integer
    high, low, per_ln2, round = split.high, split.low, split.per_ln2, split.round
    place, bias, one = split.place, split.bias, number(1)
    series = kind.series(1 / math.factorial(k + 2) for k in range(kind.terms["exp"] - 2))
    least = number(-0.7 * kind.mantissa - 3)

    def expm1_below(x):
        within = least if x < least else x  # NaN stays
        rounded = within * per_ln2 + round
        n = rounded - round
        r = within - n * high - n * low
        scale = integer(integer(number(rounded).view(integer) + bias) << place).view(number)
        return scale * (r + r * r * series(r)) + (scale - one)

    return expm1_below


@mathematical
def tanh(kind: Kind) -> Callable[..., Any]:
    """tanh |x| = -t / (t + 2) with t = exp(-2|x|) - 1, which never overflows."""
    two, small = kind.number(2), kind.number(kind.digit**0.5 / 2)

    def tanh(x):
        t = expm1_below(-two * abs(x))
        y = -t / (t + two)
        y = -y if x < 0 else y
        return y if abs(x) > small else x  # also ±0 and NaN

    return tanh


# log ---------------------------------------------------------------------------------------


@mathematical
def log(kind: Kind) -> Callable[..., Any]:
    """ln x = k · ln 2 + ln(1 + f) with x = 2ᵏ · (1 + f) and 1 + f next to 1.

    With s = f / (2 + f), ln(1 + f) = 2 · artanh(s) = f - s · f + 2s³/3 + 2s⁵/5 + …, arranged so
    that the largest term, f, is exact.
    """
    high, low = kind.ln2()
    series = kind.series(2 / (2 * k + 3) for k in range(kind.terms["log"]))
    integer, number = kind.integer, kind.number
    mantissa, bias = integer(kind.mantissa), integer(kind.bias)
    lift, lifted = number(2.0 ** (kind.mantissa + 2)), integer(kind.mantissa + 2)
    root = number(0.5**0.5).view(integer)
    to_one = integer(number(1).view(integer) - root)
    fraction = integer((1 << kind.mantissa) - 1)
    half, two, tiny, zero = number(0.5), number(2), number(kind.tiny), number(0)

    def log(x):
        normal = x * lift if x < tiny else x
        bits = integer(number(normal).view(integer) + to_one)
        k = integer(integer(bits >> mantissa) - bias)
        k = integer(k - lifted) if x < tiny else k
        f = integer(integer(bits & fraction) + root).view(number) - number(1)
        s = f / (two + f)
        square = half * f * f
        rest = s * (square + s * s * series(s * s))
        n = number(np.int32(k))
        y = n * high - ((square - (rest + n * low)) - f)
        y = y if x < number(np.inf) else x  # also NaN
        y = y if x != zero else number(-np.inf)
        return number(np.nan) if x < zero else y

    return log


@mathematical
def log1p_small(kind: Kind) -> Callable[..., Any]:
    """ln(1 + u) = 2 · artanh(u / (2 + u)) for 0 ≤ u ≤ 1."""
    series = kind.series(2 / (2 * k + 1) for k in range(kind.terms["log1p"]))
    two = kind.number(2)

    def log1p_small(u):
        s = u / (two + u)
        return s * series(s * s)

    return log1p_small


# erf ---------------------------------------------------------------------------------------


@mathematical
def tail(kind: Kind) -> Callable[..., Any]:
    """erfcx(a) = exp(a²) · (1 - erf(a)) for a ≥ 0: smooth and flat, from 1 down to 0.

    Times a + m it is a polynomial in u, which goes from -1 to 1 as a goes from 0 to the end: as
    1 / (a + m) does, upside down. The polynomial meets the function at Chebyshev's points.
    """
    middle, end, degree = kind.tail
    slope = 2 / (1 / middle - 1 / (end + middle))
    shift = slope / middle - 1
    points = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    where = slope / (shift - points) - middle
    values = [math.erfc(a) * math.exp(a * a) * (a + middle) for a in where]
    fitted = np.polynomial.chebyshev.chebfit(points, values, degree)
    series = kind.series(np.polynomial.chebyshev.cheb2poly(fitted))
    middle, end, slope, shift, one = kind.row((middle, end, slope, shift, 1))

    def tail(a):
        a = a if a < end else end  # beyond, what it is multiplied by is less than rounding
        scale = one / (a + middle)
        return scale * series(shift - slope * scale)

    return tail


@mathematical
def erf(kind: Kind) -> Callable[..., Any]:
    """Taylor's series up to 1, and 1 - exp(-x²) · erfcx(x) beyond."""
    number = kind.number
    terms = range(kind.terms["erf"])
    per_root = 2 / math.sqrt(math.pi)
    series = kind.series(per_root * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in terms)
    one = number(1)

    def erf(x):
        a = abs(x)
        square = x * x
        near = x * series(square if a < one else one)
        far = one - exp_below(-square) * tail(a)
        far = -far if x < number(0) else far
        return far if a >= one else near  # NaN is near

    return erf
