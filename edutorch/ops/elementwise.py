"""Elementwise functions of one tensor.

Each block is complete: what is computed, and how the gradient g of the result becomes
the gradient of the input: g times the derivative.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy import ndarray, vdot

from .. import backends
from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core.autograd.backward import grad
from ..core.autograd.graph import Node
from ..core.error_messages import is_any_true
from ..core.op import elementwise, op
from ..core.tensor import Tensor, array_of, wrap
from ..dtypes import FLOATING
from ..errors import GradientError
from ..modes import current, override_modes
from .comparison import where
from .comparison import where as choose
from .creation import full_like, ones_like, zeros_like

__all__ = [
    "ceil", "exp", "exp2", "expm1", "floor", "frac", "log", "log10", "log1p", "log2", "logit",
    "neg", "positive", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "softplus",
    "sqrt", "square", "trunc",
]  # fmt: skip

# NumPy is twice as fast with a 0-d array as with a Python scalar.
ZERO = {dtype: np.zeros((), dtype) for dtype in FLOATING}
ONE = {dtype: np.ones((), dtype) for dtype in FLOATING}


@elementwise(promotion="none", reference=operator.neg)
def neg(xp: Namespace, input: Array) -> Array:
    """The negation: y = -x.

    >>> neg(tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """
    return -input


neg.vjp(input=lambda g: -g, latex=r"-g")


@elementwise(promotion="none", reference=operator.pos)
def positive(xp: Namespace, input: Array) -> Array:
    """The elements unchanged: y = +x.

    >>> positive(tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """
    return +input


positive.vjp(input=lambda g: g, latex=r"g")


@elementwise(sample=(0.2, 3.0), reference=lambda x: 1 / x)
def reciprocal(xp: Namespace, input: Array) -> Array:
    """The reciprocal: y = 1 / x.

    >>> reciprocal(tensor([2.0, 4.0]))
    tensor([0.5000, 0.2500])
    """
    return 1 / input


reciprocal.vjp(input=lambda g, y: -g * y * y, latex=r"-g\,y^2")


@elementwise(promotion="none", out="cast", node="PowBackward0", reference=lambda x: x * x)
def square(xp: Namespace, input: Array) -> Array:
    """y = x².

    >>> square(tensor([1.0, -3.0]))
    tensor([1., 9.])
    """
    return input * input if input.dtype.kind != "b" else input.astype("int64")


square.vjp(input=lambda g, input: g * (2 * input), latex=r"2\,g\,x")


@elementwise(sample=(0.2, 3.0), reference=math.sqrt)
def sqrt(xp: Namespace, input: Array) -> Array:
    """The square root: y = √x, NaN below zero.

    >>> sqrt(tensor([4.0, 9.0]))
    tensor([2., 3.])
    """
    return xp.sqrt(input)


sqrt.vjp(input=lambda g, y: g / (2 * y), latex=r"\frac{g}{2y}")


@elementwise(sample=(0.2, 3.0), reference=lambda x: x**-0.5)
def rsqrt(xp: Namespace, input: Array) -> Array:
    """The reciprocal of the square root: y = 1 / √x.

    >>> rsqrt(tensor([4.0, 16.0]))
    tensor([0.5000, 0.2500])
    """
    return 1 / xp.sqrt(input)


rsqrt.vjp(input=lambda g, y: -0.5 * g * y * y * y, latex=r"-\frac{g\,y^3}{2}")


@elementwise(reference=math.exp)
def exp(xp: Namespace, input: Array) -> Array:
    """The exponential: y = eˣ, its own derivative.

    >>> exp(tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """
    return xp.exp(input)


exp.vjp(input=lambda g, y: g * y, latex=r"g \cdot y")


@elementwise(reference=lambda x: 2**x)
def exp2(xp: Namespace, input: Array) -> Array:
    """The power of two: y = 2ˣ.

    >>> exp2(tensor([0.0, 3.0]))
    tensor([1., 8.])
    """
    return xp.exp2(input)


exp2.vjp(input=lambda g, y: g * y * math.log(2), latex=r"g\,y \ln 2")


@elementwise(reference=math.expm1)
def expm1(xp: Namespace, input: Array) -> Array:
    """y = eˣ - 1, accurate also for tiny x.

    >>> expm1(tensor([0.0, 1.0]))
    tensor([0.0000, 1.7183])
    """
    return xp.expm1(input)


# y + 1 equals eˣ too, but loses digits where y is close to -1.
expm1.vjp(input=lambda g, input: g * exp(input), latex=r"g\,e^x")


@elementwise(sample=(0.2, 3.0), reference=math.log)
def log(xp: Namespace, input: Array) -> Array:
    """The natural logarithm: y = ln x, NaN below zero.

    >>> log(tensor([1.0, 10.0]))
    tensor([0.0000, 2.3026])
    """
    return xp.log(input)


log.vjp(input=lambda g, input: g / input, latex=r"\frac{g}{x}")


@elementwise(sample=(0.2, 3.0), reference=math.log2)
def log2(xp: Namespace, input: Array) -> Array:
    """The logarithm to base 2.

    >>> log2(tensor([1.0, 8.0]))
    tensor([0., 3.])
    """
    return xp.log2(input)


log2.vjp(input=lambda g, input: g / (input * math.log(2)), latex=r"\frac{g}{x \ln 2}")


@elementwise(sample=(0.2, 3.0), reference=math.log10)
def log10(xp: Namespace, input: Array) -> Array:
    """The logarithm to base 10.

    >>> log10(tensor([1.0, 50.0]))
    tensor([0.0000, 1.6990])
    """
    return xp.log10(input)


log10.vjp(input=lambda g, input: g / (input * math.log(10)), latex=r"\frac{g}{x \ln 10}")


@elementwise(node="Log1PBackward0", sample=(-0.8, 3.0), reference=math.log1p)
def log1p(xp: Namespace, input: Array) -> Array:
    """y = ln(1 + x), accurate also for tiny x.

    >>> log1p(tensor([0.0, 1.0]))
    tensor([0.0000, 0.6931])
    """
    return xp.log1p(input)


log1p.vjp(input=lambda g, input: g / (1 + input), latex=r"\frac{g}{1+x}")


@elementwise(reference=lambda x: 1 / (1 + math.exp(-x)))
def sigmoid(xp: Namespace, input: Array) -> Array:
    """The logistic function, from 0 to 1: y = 1 / (1 + e⁻ˣ).

    >>> sigmoid(tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """
    return xp.reciprocal(xp.exp(-input) + (ONE.get(input.dtype, 1) if xp is np else 1))


sigmoid.vjp(input=lambda g, y: g * (y - y * y), latex=r"g\,y\,(1-y)")


@elementwise(promotion="none", dtypes="bif", reference=lambda x: max(x, 0))
def relu(xp: Namespace, input: Array) -> Array:
    """The positive part: y = max(x, 0), with derivative 0 at 0.

    >>> relu(tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return xp.maximum(input, ZERO.get(input.dtype, 0) if xp is np else 0)


relu.vjp(input=lambda g, y: pass_gradient(g, y), latex=r"g\,[y > 0]")


@elementwise(dtypes="f", reference=lambda x: math.log(1 + math.exp(x)))
def softplus(xp: Namespace, input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """A smooth approximation of relu: y = log(1 + exp(beta · x)) / beta.

    Close to 0 for very negative x, close to x for very positive x. `logaddexp` avoids the
    overflow of the formula above, so the default `threshold` on beta · x, above which
    y = x, is not needed; a lower one is applied.

    >>> softplus(tensor([-2.0, 0.0, 2.0]))
    tensor([0.1269, 0.6931, 2.1269])
    """
    y = xp.logaddexp(xp.zeros_like(input), beta * input) / beta
    return y if threshold >= 20 else xp.where(beta * input > threshold, input, y)


def softplus_gradient(g: ArrayOrTensor, input: ArrayOrTensor, beta: float, threshold: float) -> Any:
    """g · σ(beta · x), and g above a lowered threshold."""
    slope = g * sigmoid(beta * input)
    return slope if threshold >= 20 else where(beta * input > threshold, g, slope)


softplus.vjp(input=softplus_gradient, latex=r"g\,\sigma(\beta x)")


@elementwise(dtypes="bif", sample=(0.1, 0.9), reference=lambda x: math.log(x / (1 - x)))
def logit(xp: Namespace, input: Array, eps: float | None = None) -> Array:
    """The inverse of `sigmoid`: y = ln(x / (1 - x)).

    With `eps`, x is first clamped to [eps, 1 - eps].

    >>> logit(tensor([0.5, 0.8808]))
    tensor([0.0000, 2.0000])
    """
    x = input if eps is None else xp.clip(input, eps, 1 - eps)
    return xp.log(x / (1 - x))


logit.vjp(
    input=lambda g, input, eps: where(
        (input >= (eps or 0)) & (input <= 1 - (eps or 0)),
        g / (input * (1 - input)), math.nan if eps is None else 0.0,
    ),
    latex=r"\frac{g}{x\,(1-x)}",
)  # fmt: skip


# Rounding and sign ---------------------------------------------------------------------------


@elementwise(promotion="none", dtypes="bif", reference=lambda x: math.copysign(1, x) if x else 0)
def sign(xp: Namespace, input: Array) -> Array:
    """The sign: -1, 0 or 1 (0 for NaN). Its gradient is 0.

    >>> sign(tensor([3.0, 0.0, -0.1]))
    tensor([ 1.,  0., -1.])
    """
    if input.dtype.kind == "b":
        return input.copy()
    return xp.greater(input, 0).astype(input.dtype) - xp.less(input, 0).astype(input.dtype)


sign.vjp(input=lambda g: zeros_like(g), latex=r"0")


@elementwise(promotion="none", dtypes="if", reference=math.floor)
def floor(xp: Namespace, input: Array) -> Array:
    """The largest integer not above. Its gradient is 0.

    >>> floor(tensor([1.7, -1.2]))
    tensor([ 1., -2.])
    """
    return xp.floor(input) if input.dtype.kind not in "iub" else +input


floor.vjp(input=lambda g: zeros_like(g), latex=r"0")


@elementwise(promotion="none", dtypes="if", reference=math.ceil)
def ceil(xp: Namespace, input: Array) -> Array:
    """The smallest integer not below. Its gradient is 0.

    >>> ceil(tensor([1.2, -1.7]))
    tensor([ 2., -1.])
    """
    return xp.ceil(input) if input.dtype.kind not in "iub" else +input


ceil.vjp(input=lambda g: zeros_like(g), latex=r"0")


@elementwise(promotion="none", dtypes="if", node="RoundBackward1 if decimals else RoundBackward0")
def round(xp: Namespace, input: Array, *, decimals: int = 0) -> Array:
    """The nearest integer, halves to even. Its gradient is 0.

    >>> round(tensor([0.5, 1.5, 2.4]))
    tensor([0., 2., 2.])
    """
    if decimals and input.dtype == "float16":  # x · 10ⁿ may overflow float16
        return xp.around(input.astype("float32"), decimals).astype("float16")
    return xp.around(input, decimals)


round.vjp(input=lambda g: zeros_like(g), latex=r"0")


@elementwise(promotion="none", dtypes="if", reference=math.trunc)
def trunc(xp: Namespace, input: Array) -> Array:
    """The integer part. Its gradient is 0.

    >>> trunc(tensor([1.7, -1.7]))
    tensor([ 1., -1.])
    """
    return xp.trunc(input) if input.dtype.kind not in "iub" else +input


trunc.vjp(input=lambda g: zeros_like(g), latex=r"0")


@elementwise(promotion="none", dtypes="f", reference=lambda x: math.fmod(x, 1))
def frac(xp: Namespace, input: Array) -> Array:
    """The fractional part: y = x - trunc(x).

    >>> frac(tensor([1.5, -1.25]))
    tensor([ 0.5000, -0.2500])
    """
    return input - xp.trunc(input)


frac.vjp(input=lambda g: g, latex=r"g")


# Kinks: second derivatives of norms at 0 -----------------------------------------------------
#
# The gradient of y = |x| is g · x / y, and at 0 it is taken as 0. A function of y may still be
# smooth there: y² = x·x has the second derivative 2. The second derivative of the composition is
# the limit of g / y, and by l'Hôpital's rule that is dg/dy where g is 0 with y. Where g is not 0
# the kink remains. So a rule that is itself recorded determines how its g depends on its own y.


def add_curvature(
    gradient: ArrayOrTensor, g: ArrayOrTensor, y: ArrayOrTensor, node: Node | None,
    input: ArrayOrTensor, corner: float,
) -> Any:  # fmt: skip
    """Return the gradient of a norm, with its own derivative where the norm is 0.

    Args:
        gradient: g · x / y, and 0 at y = 0.
        y: a tensor that is 0 where the norm is.
        node: the node that computed the norm.
        input: x (or its conjugate), with respect to which the gradient may be differentiated.
        corner: the second derivative at a kink that remains.
    """
    limit = limit_of_ratio(g, y, node, corner)
    return gradient if limit is None else gradient + zero_with_gradient(input, limit)


def limit_of_ratio(g: ArrayOrTensor, y: ArrayOrTensor, node: Node | None, corner: float) -> Any:
    """Return the limit of g / y where y is 0 (elsewhere 0); None where it is not needed."""
    if not isinstance(g, Tensor) or node is None or not current().grad:
        return None
    length = y._array if isinstance(y, Tensor) else y
    at_zero = length == 0
    if not backends.of(length).level and not is_any_true(at_zero):
        return None
    slope = derivative_by_result(g, node)
    with override_modes(grad=False):
        at_zero = wrap(at_zero)
        is_corner = at_zero & (g != 0)
    return where(is_corner, corner, 0.0 if slope is None else where(at_zero, slope, 0.0))


def derivative_by_result(g: Tensor, node: Node | None) -> Tensor | None:
    """Return dg/dy of the result of `node`, differentiable again; None where g does not vary."""
    if g._node is None:
        return None
    result = wrap(g._array)
    result._node = node
    try:
        with override_modes(grad=True, listeners=(), saving=None):
            (slope,) = grad(g, result, ones_like(g), create_graph=True, allow_unused=True)
    except GradientError:  # the graph between them was freed
        slope = full_like(g, math.nan)
    return None if slope is None else slope.reshape(g.shape)


@op(method=False, public="mul")
def zero_with_gradient(xp: Namespace, input: Array, slope: Array) -> Array:
    """Zeros whose derivative with respect to `input` is `slope`.

    >>> zero_with_gradient(tensor([0.0]), tensor([2.0]))
    tensor([0.])
    """
    return xp.zeros_like(input)


zero_with_gradient.vjp(input=lambda g, slope: g * slope, latex=r"g \cdot s")


@elementwise(method=False, public="sqrt", dtypes="bif", torch_name="sqrt", sample=(0.2, 3.0))
def safe_sqrt(xp: Namespace, input: Array) -> Array:
    """The square root of a sum of squares: the gradient at 0 is 0, not infinite.

    >>> safe_sqrt(tensor([4.0, 0.0]))
    tensor([2., 0.])
    """
    return xp.sqrt(xp.maximum(input, 0))


def _root_rule(g: ArrayOrTensor, y: ArrayOrTensor, node: Node | None) -> Any:
    limit = limit_of_ratio(g, y, node, 0.0)
    gradient = g / (2 * where(y != 0, y, math.inf))
    return gradient if limit is None else gradient + limit / 2


safe_sqrt.vjp(input=_root_rule, latex=r"\frac{g}{2y}")


# Gradients that are 0 where a mask is --------------------------------------------------------


def scale_gradient(g: ArrayOrTensor, factor: ArrayOrTensor) -> Any:
    """g · factor, and 0 where the factor (or mask) is 0, even for an infinite g.

    `where` is several times slower than a product, so it is used only if the product has NaN.
    """
    if g.__class__ is ndarray or array_of(g).__class__ is ndarray:
        product = g * factor
        array = product if g.__class__ is ndarray else array_of(product)
        length = vdot(array, array)  # the fastest test for NaN
        if length == length:
            return product
    return choose(factor == 0, 0.0, g * factor)


def pass_gradient(g: ArrayOrTensor, y: ArrayOrTensor) -> Any:
    """g where y is not 0, and 0 where it is: for functions that are x or 0."""
    if y.__class__ is ndarray:  # the cast takes a third of the time of the comparison
        return scale_gradient(g, y.astype(bool))  # NaN is true in both
    return scale_gradient(g, y != 0) if isinstance(y, Tensor) else choose(y != 0, g, 0.0)
