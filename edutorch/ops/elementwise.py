"""Functions of one number, applied to each number of a tensor.

Each block is the whole story: what is computed, and how the gradient g of the
result becomes the gradient of the input: g times the derivative.
"""

from __future__ import annotations

import math
from typing import Any

from ..backends.numpy import Array
from ..core.op import elementwise


@elementwise(promotion="none")
def neg(xp: Any, input: Array) -> Array:
    """The opposite: y = -x.

    >>> neg(tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """
    return -input


neg.vjp(input=lambda g: -g, latex=r"-g")


@elementwise(promotion="none")
def positive(xp: Any, input: Array) -> Array:
    """The number itself: y = +x.

    >>> positive(tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """
    return +input


positive.vjp(input=lambda g: g, latex=r"g")


@elementwise(promotion="none")
def abs(xp: Any, input: Array) -> Array:
    """The distance from zero: y = |x|. At 0 the derivative is taken as 0.

    >>> abs(tensor([1.5, -2.0]))
    tensor([1.5000, 2.0000])
    """
    return xp.abs(input)


abs.vjp(input=lambda g, input: g * sign(input), latex=r"g \cdot \mathrm{sign}(x)")


@elementwise(promotion="none")
def sign(xp: Any, input: Array) -> Array:
    """-1, 0 or 1. Flat, so its gradient is 0 everywhere.

    >>> sign(tensor([3.0, 0.0, -0.1]))
    tensor([ 1.,  0., -1.])
    """
    return xp.sign(input)


sign.vjp(input=lambda g: g * 0, latex=r"0")


@elementwise
def reciprocal(xp: Any, input: Array) -> Array:
    """One over it: y = 1 / x.

    >>> reciprocal(tensor([2.0, 4.0]))
    tensor([0.5000, 0.2500])
    """
    return 1 / input


reciprocal.vjp(input=lambda g, y: -g * y * y, latex=r"-g\,y^2")


@elementwise(promotion="none")
def square(xp: Any, input: Array) -> Array:
    """y = x².

    >>> square(tensor([1.0, -3.0]))
    tensor([1., 9.])
    """
    return input * input


square.vjp(input=lambda g, input: g * (2 * input), latex=r"2\,g\,x")


@elementwise
def sqrt(xp: Any, input: Array) -> Array:
    """The square root: y = √x, NaN below zero.

    >>> sqrt(tensor([4.0, 9.0]))
    tensor([2., 3.])
    """
    return xp.sqrt(input)


sqrt.vjp(input=lambda g, y: g / (2 * y), latex=r"\frac{g}{2y}")


@elementwise
def rsqrt(xp: Any, input: Array) -> Array:
    """One over the square root: y = 1 / √x.

    >>> rsqrt(tensor([4.0, 16.0]))
    tensor([0.5000, 0.2500])
    """
    return 1 / xp.sqrt(input)


rsqrt.vjp(input=lambda g, y: -0.5 * g * y * y * y, latex=r"-\frac{g\,y^3}{2}")


@elementwise
def exp(xp: Any, input: Array) -> Array:
    """The exponential: y = eˣ, its own derivative.

    >>> exp(tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """
    return xp.exp(input)


exp.vjp(input=lambda g, y: g * y, latex=r"g \cdot y")


@elementwise
def expm1(xp: Any, input: Array) -> Array:
    """y = eˣ - 1, exact also for tiny x.

    >>> expm1(tensor([0.0, 1.0]))
    tensor([0.0000, 1.7183])
    """
    return xp.expm1(input)


expm1.vjp(input=lambda g, y: g * (y + 1), latex=r"g\,(y+1)")


@elementwise
def log(xp: Any, input: Array) -> Array:
    """The natural logarithm: y = ln x, NaN below zero.

    >>> log(tensor([1.0, 10.0]))
    tensor([0.0000, 2.3026])
    """
    return xp.log(input)


log.vjp(input=lambda g, input: g / input, latex=r"\frac{g}{x}")


@elementwise
def log2(xp: Any, input: Array) -> Array:
    """The logarithm to base 2.

    >>> log2(tensor([1.0, 8.0]))
    tensor([0., 3.])
    """
    return xp.log2(input)


log2.vjp(input=lambda g, input: g / (input * math.log(2)), latex=r"\frac{g}{x \ln 2}")


@elementwise
def log10(xp: Any, input: Array) -> Array:
    """The logarithm to base 10.

    >>> log10(tensor([1.0, 100.0]))
    tensor([0., 2.])
    """
    return xp.log10(input)


log10.vjp(input=lambda g, input: g / (input * math.log(10)), latex=r"\frac{g}{x \ln 10}")


@elementwise
def log1p(xp: Any, input: Array) -> Array:
    """y = ln(1 + x), exact also for tiny x.

    >>> log1p(tensor([0.0, 1.0]))
    tensor([0.0000, 0.6931])
    """
    return xp.log1p(input)


log1p.vjp(input=lambda g, input: g / (1 + input), latex=r"\frac{g}{1+x}")


@elementwise
def sin(xp: Any, input: Array) -> Array:
    """The sine of an angle in radians.

    >>> sin(tensor([0.0, 1.0]))
    tensor([0.0000, 0.8415])
    """
    return xp.sin(input)


sin.vjp(input=lambda g, input: g * cos(input), latex=r"g \cos x")


@elementwise
def cos(xp: Any, input: Array) -> Array:
    """The cosine of an angle in radians.

    >>> cos(tensor([0.0, 1.0]))
    tensor([1.0000, 0.5403])
    """
    return xp.cos(input)


cos.vjp(input=lambda g, input: -g * sin(input), latex=r"-g \sin x")


@elementwise
def tan(xp: Any, input: Array) -> Array:
    """The tangent of an angle in radians.

    >>> tan(tensor([0.0, 1.0]))
    tensor([0.0000, 1.5574])
    """
    return xp.tan(input)


tan.vjp(input=lambda g, y: g * (1 + y * y), latex=r"g\,(1+y^2)")


@elementwise
def asin(xp: Any, input: Array) -> Array:
    """The angle whose sine it is, from -π/2 to π/2.

    >>> asin(tensor([0.0, 1.0]))
    tensor([0.0000, 1.5708])
    """
    return xp.arcsin(input)


asin.vjp(input=lambda g, input: g * rsqrt(1 - input * input), latex=r"\frac{g}{\sqrt{1-x^2}}")


@elementwise
def acos(xp: Any, input: Array) -> Array:
    """The angle whose cosine it is, from 0 to π.

    >>> acos(tensor([1.0, 0.0]))
    tensor([0.0000, 1.5708])
    """
    return xp.arccos(input)


acos.vjp(input=lambda g, input: -g * rsqrt(1 - input * input), latex=r"-\frac{g}{\sqrt{1-x^2}}")


@elementwise
def atan(xp: Any, input: Array) -> Array:
    """The angle whose tangent it is, from -π/2 to π/2.

    >>> atan(tensor([0.0, 1.0]))
    tensor([0.0000, 0.7854])
    """
    return xp.arctan(input)


atan.vjp(input=lambda g, input: g / (1 + input * input), latex=r"\frac{g}{1+x^2}")


@elementwise
def tanh(xp: Any, input: Array) -> Array:
    """An S-shaped curve from -1 to 1: y = (eˣ - e⁻ˣ) / (eˣ + e⁻ˣ).

    >>> tanh(tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """
    return xp.tanh(input)


tanh.vjp(input=lambda g, y: g * (1 - y * y), latex=r"g\,(1-y^2)")


@elementwise
def sigmoid(xp: Any, input: Array) -> Array:
    """An S-shaped curve from 0 to 1: y = 1 / (1 + e⁻ˣ).

    Written with tanh, which stays finite at both ends.

    >>> sigmoid(tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """
    return 0.5 * xp.tanh(0.5 * input) + 0.5


sigmoid.vjp(input=lambda g, y: g * y * (1 - y), latex=r"g\,y\,(1-y)")


@elementwise(promotion="none")
def relu(xp: Any, input: Array) -> Array:
    """The positive part: y = max(x, 0), with derivative 0 at 0.

    >>> relu(tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return xp.maximum(input, 0)


relu.vjp(input=lambda g, y: g * (y > 0), latex=r"g\,[y > 0]")


@elementwise
def softplus(xp: Any, input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """A smooth ramp: y = log(1 + exp(beta · x)) / beta.

    Near zero for very negative x, near x for very positive x. `logaddexp`
    keeps both ends finite where the formula above would overflow, so the
    `threshold` beyond which PyTorch switches to y = x is not needed.

    >>> softplus(tensor([-2.0, 0.0, 2.0]))
    tensor([0.1269, 0.6931, 2.1269])
    """
    return xp.logaddexp(xp.zeros_like(input), beta * input) / beta


softplus.vjp(input=lambda g, input, beta: g * sigmoid(beta * input), latex=r"g\,\sigma(\beta x)")


@elementwise(promotion="none")
def floor(xp: Any, input: Array) -> Array:
    """The next integer below. Flat, so its gradient is 0.

    >>> floor(tensor([1.7, -1.2]))
    tensor([ 1., -2.])
    """
    return xp.floor(input) if input.dtype.kind not in "iub" else +input


floor.vjp(input=lambda g: g * 0, latex=r"0")


@elementwise(promotion="none")
def ceil(xp: Any, input: Array) -> Array:
    """The next integer above. Flat, so its gradient is 0.

    >>> ceil(tensor([1.2, -1.7]))
    tensor([ 2., -1.])
    """
    return xp.ceil(input) if input.dtype.kind not in "iub" else +input


ceil.vjp(input=lambda g: g * 0, latex=r"0")


@elementwise(promotion="none")
def round(xp: Any, input: Array, *, decimals: int = 0) -> Array:
    """The nearest integer, halves to the even one. Flat, so its gradient is 0.

    >>> round(tensor([0.5, 1.5, 2.4]))
    tensor([0., 2., 2.])
    """
    return xp.around(input, decimals)


round.vjp(input=lambda g: g * 0, latex=r"0")


@elementwise(promotion="none")
def trunc(xp: Any, input: Array) -> Array:
    """The integer part. Flat, so its gradient is 0.

    >>> trunc(tensor([1.7, -1.7]))
    tensor([ 1., -1.])
    """
    return xp.trunc(input) if input.dtype.kind not in "iub" else +input


trunc.vjp(input=lambda g: g * 0, latex=r"0")


@elementwise(promotion="none")
def nan_to_num(
    xp: Any,
    input: Array,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Array:
    """Replace NaN and infinities by finite numbers (by default the type's limits).

    >>> nan_to_num(tensor([float("nan"), 1.0]))
    tensor([0., 1.])
    """
    return xp.nan_to_num(input, nan=nan, posinf=posinf, neginf=neginf)


nan_to_num.vjp(input=lambda g, input: where(isfinite(input), g, 0.0), latex=r"g\,[x\ finite]")


from .comparison import isfinite, where  # noqa: E402  (rules may use any op)
