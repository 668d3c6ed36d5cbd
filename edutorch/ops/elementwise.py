"""Elementwise functions of one tensor.

Each block is complete: what is computed, and how the gradient g of the result becomes
the gradient of the input: g times the derivative.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backends.numpy import Array, Namespace
from ..core.op import elementwise
from ..core.tensor import Tensor
from ..core.tensor_methods import as_method
from ..dtypes import FLOATING
from ..errors import DTypeError

# NumPy is twice as fast with a 0-d array as with a Python scalar.
ZERO = {dtype: np.zeros((), dtype) for dtype in FLOATING}
ONE = {dtype: np.ones((), dtype) for dtype in FLOATING}


@elementwise(promotion="none")
def neg(xp: Namespace, input: Array) -> Array:
    """The negation: y = -x.

    >>> neg(tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """
    return -input


neg.vjp(input=lambda g: -g, latex=r"-g")


@elementwise(promotion="none")
def positive(xp: Namespace, input: Array) -> Array:
    """The elements unchanged: y = +x.

    >>> positive(tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """
    return +input


positive.vjp(input=lambda g: g, latex=r"g")


@elementwise(promotion="none", dtypes="ifc")
def abs(xp: Namespace, input: Array) -> Array:
    """The absolute value: y = |x|. At 0 the derivative is taken as 0.

    >>> abs(tensor([1.5, -2.0]))
    tensor([1.5000, 2.0000])
    """
    return xp.abs(input)


def _abs_rule(g: Any, input: Any, node: Any) -> Any:
    if not has_complex_dtype(input):
        return add_curvature(g * sign(input), g, input, node, input, 0.0)
    direction, conjugate = conj_physical(sgn(input)), conj_physical(input)
    return add_curvature(g * direction, g, input, node, conjugate, math.nan)


abs.vjp(input=_abs_rule, latex=r"g \cdot \mathrm{sign}(x)")
_write_abs = Tensor.abs_  # type: ignore[attr-defined]


@as_method
def abs_(input: Tensor) -> Tensor:
    """The in-place form of `abs`. Complex tensors are refused: the result is real.

    Raises: DTypeError: the tensor is complex.
    """
    if input.is_complex():
        raise DTypeError(
            "abs_", "in-place abs is not supported for complex tensors",
            {"input": str(input.dtype)}, "the distances are real: x = x.abs()",
        )  # fmt: skip
    return _write_abs(input)


abs.in_place = abs_  # type: ignore[attr-defined]


@elementwise
def reciprocal(xp: Namespace, input: Array) -> Array:
    """The reciprocal: y = 1 / x.

    >>> reciprocal(tensor([2.0, 4.0]))
    tensor([0.5000, 0.2500])
    """
    return 1 / input


reciprocal.vjp(input=lambda g, y: -g * y * y, latex=r"-g\,y^2")


@elementwise(promotion="none", out="cast", node="PowBackward0")
def square(xp: Namespace, input: Array) -> Array:
    """y = x².

    >>> square(tensor([1.0, -3.0]))
    tensor([1., 9.])
    """
    return input * input if input.dtype.kind != "b" else input.astype("int64")


square.vjp(input=lambda g, input: g * (2 * input), latex=r"2\,g\,x")


@elementwise
def sqrt(xp: Namespace, input: Array) -> Array:
    """The square root: y = √x, NaN below zero.

    >>> sqrt(tensor([4.0, 9.0]))
    tensor([2., 3.])
    """
    return xp.sqrt(input)


sqrt.vjp(input=lambda g, y: g / (2 * y), latex=r"\frac{g}{2y}")


@elementwise
def rsqrt(xp: Namespace, input: Array) -> Array:
    """The reciprocal of the square root: y = 1 / √x.

    >>> rsqrt(tensor([4.0, 16.0]))
    tensor([0.5000, 0.2500])
    """
    return 1 / xp.sqrt(input)


rsqrt.vjp(input=lambda g, y: -0.5 * g * y * y * y, latex=r"-\frac{g\,y^3}{2}")


@elementwise
def exp(xp: Namespace, input: Array) -> Array:
    """The exponential: y = eˣ, its own derivative.

    >>> exp(tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """
    return xp.exp(input)


exp.vjp(input=lambda g, y: g * y, latex=r"g \cdot y")


@elementwise
def exp2(xp: Namespace, input: Array) -> Array:
    """The power of two: y = 2ˣ.

    >>> exp2(tensor([0.0, 3.0]))
    tensor([1., 8.])
    """
    return xp.exp2(input)


exp2.vjp(input=lambda g, y: g * y * math.log(2), latex=r"g\,y \ln 2")


@elementwise
def expm1(xp: Namespace, input: Array) -> Array:
    """y = eˣ - 1, accurate also for tiny x.

    >>> expm1(tensor([0.0, 1.0]))
    tensor([0.0000, 1.7183])
    """
    return xp.expm1(input)


# y + 1 equals eˣ too, but loses digits where y is close to -1.
expm1.vjp(input=lambda g, input: g * exp(input), latex=r"g\,e^x")


@elementwise
def log(xp: Namespace, input: Array) -> Array:
    """The natural logarithm: y = ln x, NaN below zero.

    >>> log(tensor([1.0, 10.0]))
    tensor([0.0000, 2.3026])
    """
    return xp.log(input)


log.vjp(input=lambda g, input: g / input, latex=r"\frac{g}{x}")


@elementwise
def log2(xp: Namespace, input: Array) -> Array:
    """The logarithm to base 2.

    >>> log2(tensor([1.0, 8.0]))
    tensor([0., 3.])
    """
    return xp.log2(input)


log2.vjp(input=lambda g, input: g / (input * math.log(2)), latex=r"\frac{g}{x \ln 2}")


@elementwise
def log10(xp: Namespace, input: Array) -> Array:
    """The logarithm to base 10.

    >>> log10(tensor([1.0, 50.0]))
    tensor([0.0000, 1.6990])
    """
    return xp.log10(input)


log10.vjp(input=lambda g, input: g / (input * math.log(10)), latex=r"\frac{g}{x \ln 10}")


@elementwise(node="Log1PBackward0")
def log1p(xp: Namespace, input: Array) -> Array:
    """y = ln(1 + x), accurate also for tiny x.

    >>> log1p(tensor([0.0, 1.0]))
    tensor([0.0000, 0.6931])
    """
    return xp.log1p(input)


log1p.vjp(input=lambda g, input: g / (1 + input), latex=r"\frac{g}{1+x}")


@elementwise
def sigmoid(xp: Namespace, input: Array) -> Array:
    """The logistic function, from 0 to 1: y = 1 / (1 + e⁻ˣ).

    >>> sigmoid(tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """
    return xp.reciprocal(xp.exp(-input) + (ONE.get(input.dtype, 1) if xp is np else 1))


sigmoid.vjp(input=lambda g, y: g * (y - y * y), latex=r"g\,y\,(1-y)")


@elementwise(promotion="none", dtypes="bif")
def relu(xp: Namespace, input: Array) -> Array:
    """The positive part: y = max(x, 0), with derivative 0 at 0.

    >>> relu(tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return xp.maximum(input, ZERO.get(input.dtype, 0) if xp is np else 0)


relu.vjp(input=lambda g, y: pass_gradient(g, y), latex=r"g\,[y > 0]")


@elementwise(dtypes="f")
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


def softplus_gradient(g: Any, input: Any, beta: float, threshold: float) -> Any:
    """g · σ(beta · x), and g above a lowered threshold."""
    slope = g * sigmoid(beta * input)
    return slope if threshold >= 20 else where(beta * input > threshold, g, slope)


softplus.vjp(input=softplus_gradient, latex=r"g\,\sigma(\beta x)")


@elementwise(dtypes="bif")
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


from .comparison import where  # noqa: E402  (rules may use any op)
from .complex import conj_physical, has_complex_dtype, sgn  # noqa: E402
from .lengths import add_curvature  # noqa: E402
from .masking import pass_gradient  # noqa: E402
from .rounding import sign  # noqa: E402
