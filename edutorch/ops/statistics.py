"""Variance, vector norms, and reductions that ignore NaN.

`var` and `vector_norm` are ops, because their derivatives are short; the others are composed.
The public signatures of `var` are in variance.py, medians in quantiles.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core import return_types
from ..core.autograd.graph import Node
from ..core.composed import as_method, recorded_as, takes_out
from ..core.op import reduction
from ..core.precision import add_up, widen
from ..core.tensor import Tensor
from ..dtypes import DTypeLike
from ..errors import DTypeError
from .comparison import isnan, where
from .complex import abs, conj, sgn
from .creation import zeros_like
from .elementwise import add_curvature
from .reduction import (
    Dims,
    amax,
    amin,
    check_inexact,
    mean,
    mean_of,
    reduced_count,
    share_evenly,
    sum,
)

__all__ = ["aminmax", "nanmean", "nansum"]


@reduction(method=False)
def var(
    xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False, *, correction: float = 1
) -> Array:
    """The variance: the mean squared distance from the mean, over n - correction.

    For complex elements it is real: the distance is |x - mean|.

    >>> var(tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    check_inexact("var", input)
    dtype = input.dtype
    input = input.astype("float32") if dtype.itemsize == 2 else input
    n = reduced_count(input.shape, dim)
    centre = mean_of(xp, input, dim, True)
    distance = input - centre
    squared = (distance * xp.conj(distance)).real if dtype.kind == "c" else distance**2
    squares = add_up(xp, squared, dim, keepdim) / max(n - correction, 0)
    return squares if dtype.kind == "c" else squares.astype(dtype)


var.vjp(
    input=lambda g, input, dim, correction: (
        g
        * divide_or_inf(2, max(reduced_count(input.shape, dim) - correction, 0))
        * conj(input - mean(input, dim, True))
    ),
    latex=r"g\,\frac{2\,\overline{(x-\bar x)}}{n-1}",
)


def divide_or_inf(a: float, b: float) -> float:
    """Return a / b; a / 0 is infinite, as in NumPy and PyTorch."""
    return a / b if b else math.inf


# Vector norms ----------------------------------------------------------------------------------


@reduction(promotion="float", method=False, node="LinalgVectorNormBackward0")
def vector_norm(
    xp: Namespace, input: Array, ord: float = 2, dim: Dims = None, keepdim: bool = False
) -> Array:
    """The p-norm: y = (Σ |x|ᵖ)^(1/p) with p = ord; ∞: the largest |x|, 0: the number of x ≠ 0.

    >>> vector_norm(tensor([3.0, -4.0])), vector_norm(tensor([3.0, -4.0]), math.inf)
    (tensor(5.), tensor(4.))
    """
    if input.dtype.itemsize == 2:
        result = vector_norm.op.forward(xp, input.astype("float32"), ord, dim, keepdim)
        return result.astype(input.dtype)
    if ord and reduced_count(input.shape, dim) == 1:  # without a power that leaves the range
        return xp.sum(xp.abs(input), axis=dim, keepdims=keepdim)
    if ord == 2 and input.dtype.kind == "f":
        # Not `xp.sum`, of which NumPy's takes a microsecond to call the same.
        return xp.sqrt(xp.add.reduce(input * input, axis=dim, keepdims=keepdim))
    size = xp.abs(input)
    if ord == math.inf:
        return xp.max(size, axis=dim, keepdims=keepdim)
    if ord == -math.inf:
        return xp.min(size, axis=dim, keepdims=keepdim)
    if ord == 0:
        return xp.sum((size != 0).astype(size.dtype), axis=dim, keepdims=keepdim)
    if ord == 1:
        return xp.sum(size, axis=dim, keepdims=keepdim)
    return xp.sum(size**ord, axis=dim, keepdims=keepdim) ** (1 / ord)


vector_norm.vjp(
    input=lambda g, y, input, ord, dim, node: norm_gradient(g, input, y, ord, dim, node),
    latex=r"g\,\overline{\mathrm{sgn}(x)}\,\left(\tfrac{|x|}{y}\right)^{p-1}",
)


def norm_gradient(
    g: ArrayOrTensor, input: ArrayOrTensor, y: ArrayOrTensor, ord: float, dim: Dims,
    node: Node | None,
) -> Any:  # fmt: skip
    """g · dy/dx; where the norm is 0 it still has a derivative (see `lengths.py`)."""
    if math.isinf(ord):
        return conj(sgn(input)) * share_evenly(g, y, abs(input), dim)
    gradient = g * norm_derivative(input, y, ord)
    return add_curvature(gradient, g, y, node, conj(input), math.nan) if ord == 2 else gradient


def norm_derivative(input: ArrayOrTensor, y: ArrayOrTensor, ord: float) -> Any:
    """dy/dx for a finite exponent; 0 where the norm is 0, a kink."""
    direction = conj(sgn(input))
    if ord == 0:
        return zeros_like(input)
    if ord == 1:
        return direction
    if ord == 2:
        return conj(input) / where(y != 0, y, math.inf)
    if ord < 0:  # one 0 makes the norm 0, and its slopes by all others
        direction = where(y != 0, direction, 0.0)
    length = where(y != 0, y, 1.0)
    size = abs(input) if ord > 1 else where(input != 0, abs(input), 1.0)
    return direction * (size / length) ** (ord - 1)


# Ignoring NaN ------------------------------------------------------------------------------------


@as_method
@takes_out
@recorded_as("NansumBackward0")
def nansum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DTypeLike = None
) -> Tensor:
    """The sum, ignoring NaN.

    >>> nansum(tensor([1.0, math.nan, 2.0]))
    tensor(3.)
    """
    if input.dtype.is_complex:
        raise DTypeError("nansum", "not implemented for complex numbers", {"input": input.dtype})
    total = sum(input, dim, keepdim, dtype=dtype)
    if isinstance(total._array, numpy.ndarray) and not numpy.isnan(total._array).any():
        return total  # there is no NaN among the elements
    return sum(where(isnan(input), 0, input), dim, keepdim, dtype=dtype)


@as_method
@takes_out
def nanmean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DTypeLike = None
) -> Tensor:
    """The mean, ignoring NaN.

    >>> nanmean(tensor([1.0, math.nan, 3.0]))
    tensor(2.)
    """
    check_inexact("nanmean", input._array)
    valid_count = sum(~isnan(input), dim, keepdim)
    result_dtype = dtype or input.dtype  # a sum of float16 may overflow where the mean does not
    return (nansum(widen(input.to(result_dtype)), dim, keepdim) / valid_count).to(result_dtype)


@as_method
@takes_out
@recorded_as("AminmaxBackward0")
def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False
) -> return_types.aminmax:
    """The minimum and the maximum.

    >>> aminmax(tensor([3, 1, 2])).max
    tensor(3)
    """
    dims = () if dim is None else dim
    return return_types.aminmax(amin(input, dims, keepdim), amax(input, dims, keepdim))
