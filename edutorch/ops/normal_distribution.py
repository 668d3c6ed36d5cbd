"""The normal distribution function, its logarithm and inverse, and entropy terms.

Everything here is based on erfcx(x) = eˣ² erfc(x), which stays between 0 and 1 for
positive x, however small erfc itself becomes.
"""

from __future__ import annotations

import math

from ..backends.numpy import Array, Namespace
from ..core.op import elementwise
from .special import scaled_erfc
from .special_common import in_float64

ROOT_HALF = math.sqrt(0.5)
ROOT_2_BY_PI = math.sqrt(2 / math.pi)
ROOT_TWO_PI = math.sqrt(2 * math.pi)


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


@elementwise(method=False, dtypes="bif", node="SpecialNdtriBackward0")
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


@elementwise(method=False, dtypes="bif", node="SpecialEntrBackward0")
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


from .comparison import where  # noqa: E402  (rules may use any op)
from .elementwise import exp, log, log1p  # noqa: E402
from .like import zeros_like  # noqa: E402
from .special import erfc  # noqa: E402
