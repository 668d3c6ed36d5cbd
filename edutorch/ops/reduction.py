"""Reductions along `dim` or over all elements: sums, means, extremes; and softmax.

In a rule, `g` and `y` have the reduced dims with size 1: they broadcast against the
input, so no rule has to handle `keepdim`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import isnan, ndarray

from .. import dtypes
from ..backends.kernel_registry import slot
from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core.fast.lazy_gradients import OneHotGradient
from ..core.op import op, reduction
from ..core.precision import LONG, add_up
from ..core.shapes import normal_dim
from ..core.tensor import array_of
from ..dtypes import DTypeLike
from ..errors import DTypeError
from .comparison import logical_and, logical_or, where
from .creation import ones_like, zeros_like
from .elementwise import exp, scale_gradient
from .views import expand

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "log_softmax", "logsumexp",
    "mean", "softmax", "sum",
]  # fmt: skip

Dims = int | tuple[int, ...] | None


def reduced_count(shape: tuple[int, ...], dim: Dims) -> int:
    """Return the number of elements reduced into each result."""
    dims = range(len(shape)) if dim is None else (dim,) if isinstance(dim, int) else dim
    total = 1
    for axis in dims:
        total *= shape[axis]
    return total


def check_inexact(name: str, input: Array) -> None:
    """Raise DTypeError for integers and bools."""
    if input.dtype.kind in "iub":
        raise DTypeError(
            name,
            f"expected a floating point or complex dtype, got {input.dtype}",
            hint="convert the numbers first: x.float()",
        )


def sum_dtype(input: Array, dtype: DTypeLike) -> Any:
    """Return the dtype of a sum: int64 for bools and integers, which could overflow."""
    if dtype is not None:
        return dtypes.array_type(dtype)
    return dtypes.int64.numpy if input.dtype.kind in "iub" else input.dtype


@reduction(node="SumBackward0 if dim is None else SumBackward1")
def sum(
    xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: DTypeLike = None
) -> Array:
    """The sum over `dim`: y = Σ x.

    >>> sum(tensor([[1.0, 2.0], [3.0, 4.0]]), 0)
    tensor([4., 6.])
    """
    if dtype is None and input.dtype.char in "fdFD":
        if dim is not None and input.size > LONG:
            return add_up(xp, input, dim, keepdim)
        return xp.add.reduce(input, axis=dim, keepdims=keepdim)
    if dtype is None:
        return accumulate_sum(xp, input, dim, keepdim)
    result_dtype = dtypes.array_type(dtype)
    return accumulate_sum(xp, input.astype(result_dtype), dim, keepdim).astype(result_dtype)


def accumulate_sum(xp: Namespace, input: Array, dim: Dims, keepdim: bool) -> Array:
    """Σ x: integers as int64, so that they do not overflow; 16-bit floats accumulated in
    float32, because a large partial sum would absorb further elements."""
    if input.dtype.itemsize == 2 and input.dtype.kind not in "iu":
        y = xp.sum(input, axis=dim, keepdims=keepdim, dtype="float32")
        return y.astype(input.dtype)
    if dim is None and input.__class__ is ndarray and input.dtype.char == "?":
        count = np.asarray(np.count_nonzero(input))  # which counts bytes with vectors
        return count.reshape((1,) * input.ndim) if keepdim else count
    add = xp.add.reduce if input.__class__ is ndarray else xp.sum  # which takes 2 µs more
    return add(input, axis=dim, keepdims=keepdim, dtype=sum_dtype(input, None))


sum.vjp(input=lambda g, input_shape: expand(g, input_shape), latex=r"g\ \text{to each}")


@reduction(node="MeanBackward0 if dim is None else MeanBackward1")
def mean(
    xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: DTypeLike = None
) -> Array:
    """The average over `dim`: y = Σ x / n.

    >>> mean(tensor([1.0, 2.0, 6.0]))
    tensor(3.)
    """
    if dtype is not None:
        input = input.astype(dtypes.array_type(dtype))
    check_inexact("mean", input)
    if input.dtype.itemsize == 2:
        return mean_of(xp, input.astype("float32"), dim, keepdim).astype(input.dtype)
    return mean_of(xp, input, dim, keepdim)


def mean_of(xp: Namespace, input: Array, dim: Dims, keepdim: bool) -> Array:
    return add_up(xp, input, dim, keepdim) / reduced_count(input.shape, dim)


mean.vjp(
    input=lambda g, input_shape, dim: expand(g / reduced_count(input_shape, dim), input_shape),
    latex=r"\frac{g}{n}\ \text{to each}",
)


@reduction(dtypes="bif", out="exact")
def amax(xp: Namespace, input: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    """The maximum over `dim`; equal elements share the gradient evenly.

    NaN propagates, and the NaN elements share the gradient. (PyTorch's gradient is all NaN.)

    >>> amax(tensor([[1.0, 5.0], [3.0, 2.0]]), 1)
    tensor([5., 3.])
    """
    reduce = np.maximum.reduce if input.__class__ is ndarray else xp.max  # see `all`
    return reduce(input, axis=dim, keepdims=keepdim)


amax.vjp(input=lambda g, y, input, dim: share_evenly(g, y, input, dim), latex=r"g\,[x = y]")


@reduction(dtypes="bif", out="exact")
def amin(xp: Namespace, input: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    """The minimum over `dim`; equal elements share the gradient evenly, as in `amax`.

    >>> amin(tensor([[1.0, 5.0], [3.0, 2.0]]), 1)
    tensor([1., 2.])
    """
    reduce = np.minimum.reduce if input.__class__ is ndarray else xp.min
    return reduce(input, axis=dim, keepdims=keepdim)


amin.vjp(input=lambda g, y, input, dim: share_evenly(g, y, input, dim), latex=r"g\,[x = y]")


def share_evenly(g: ArrayOrTensor, y: ArrayOrTensor, input: ArrayOrTensor, dim: Dims) -> Any:
    """g / k at each of the k elements along `dim` equal to y; where y is NaN, at the NaN ones."""
    is_equal, array = input == y, array_of(y)
    if array.__class__ is not ndarray or isnan(array).any():
        is_equal = logical_or(is_equal, logical_and(input != input, y != y))
    counts = sum(where(is_equal, ones_like(g), zeros_like(g)), dim, True)
    return scale_gradient(g / counts, is_equal)


@reduction(promotion="float")
def logsumexp(xp: Namespace, input: Array, dim: Dims, keepdim: bool = False) -> Array:
    """log Σ exp(x) over `dim`, without overflow: the maximum is subtracted first.

    Where all x are -∞ it is -∞, with a gradient of 0. (PyTorch's is NaN.)

    >>> logsumexp(tensor([100.0, 100.0]), 0)
    tensor(100.6931)
    """
    if input.itemsize == 2:
        y = logsumexp.op.forward(xp, input.astype("float32"), dim, keepdim)
        return y.astype(input.dtype)
    if not reduced_count(input.shape, dim):  # an empty sum is 0
        return xp.log(xp.sum(input, axis=dim, keepdims=keepdim))
    peak = xp.max(xp.real(input), axis=dim, keepdims=True)
    peak = xp.where(xp.isfinite(peak), peak, xp.zeros_like(peak))
    y = xp.log(xp.sum(xp.exp(input - peak), axis=dim, keepdims=True)) + peak
    return y if keepdim else xp.squeeze(y, axis=dim)


# exp(x - y) is the softmax of x: each input gets its share of the gradient.
logsumexp.vjp(input=lambda g, y, input: g * exp(input - replace_neg_inf(y)), latex=r"g\,e^{x-y}")


def replace_neg_inf(y: ArrayOrTensor) -> Any:
    """Replace -∞ by 0, so that exp(x - y) is 0 instead of NaN where all x are -∞."""
    return where(y == -math.inf, 0.0, y)


@reduction(out="exact")
def all(xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    """Whether all elements are true (nonzero).

    >>> all(tensor([True, False]))
    tensor(False)
    """
    # The ufunc itself: NumPy's functions around it take a microsecond more.
    reduce = np.logical_and.reduce if input.__class__ is ndarray else xp.all
    return as_truth_dtype(reduce(input, axis=dim, keepdims=keepdim), input)


def as_truth_dtype(result: Array, input: Array) -> Array:
    """Convert a bool result to uint8 for a uint8 input, as in PyTorch."""
    return result.astype("uint8") if input.dtype.char == "B" else result


@reduction(out="exact")
def any(xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    """Whether at least one element is true (nonzero).

    >>> any(tensor([True, False]))
    tensor(True)
    """
    reduce = np.logical_or.reduce if input.__class__ is ndarray else xp.any
    return as_truth_dtype(reduce(input, axis=dim, keepdims=keepdim), input)


@reduction(dtypes="if", out="exact")
def argmax(xp: Namespace, input: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """The index of the maximum along `dim`, or in the flattened tensor.

    >>> argmax(tensor([1.0, 5.0, 3.0]))
    tensor(1)
    """
    return xp.argmax(input, axis=dim, keepdims=keepdim)


@reduction(dtypes="if", out="exact")
def argmin(xp: Namespace, input: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """The index of the minimum along `dim`, or in the flattened tensor.

    >>> argmin(tensor([1.0, 5.0, 0.0]))
    tensor(2)
    """
    return xp.argmin(input, axis=dim, keepdims=keepdim)


@reduction
def count_nonzero(xp: Namespace, input: Array, dim: Dims = None) -> Array:
    """The number of nonzero elements.

    >>> count_nonzero(tensor([1, 0, 2]))
    tensor(2)
    """
    return xp.count_nonzero(input, axis=dim)


# Softmax -------------------------------------------------------------------------------------


LOG_SOFTMAX_KERNEL = slot("LOG_SOFTMAX_KERNEL")


@op(promotion="float", dtypes="f", out=True)
def softmax(xp: Namespace, input: Array, dim: int, dtype: DTypeLike = None) -> Array:
    """Softmax: positive values that sum to 1 along `dim`: y = exp(x) / Σ exp(x).

    The maximum is subtracted first, which keeps exp from overflowing.

    >>> softmax(tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    input = input if dtype is None else input.astype(dtypes.array_type(dtype))
    if input.itemsize == 2:  # accumulated in float32, rounded once
        return softmax.op.forward(xp, input.astype("float32"), dim).astype(input.dtype)
    dim = normal_dim("softmax", dim, input.ndim)
    if not input.size or not input.ndim:
        return xp.asarray(input - input + 1)  # NaN for non-finite elements
    y = xp.exp(input - xp.max(input, axis=dim, keepdims=True))
    y /= xp.sum(y, axis=dim, keepdims=True)
    return y


# The Jacobian is diag(y) - y yᵀ.
softmax.vjp(
    input=lambda g, y, dim: y * (g - sum(g * y, dim, True)),
    latex=r"y\,\left(g - \textstyle\sum g\,y\right)",
)


@op(promotion="float", dtypes="f", out=True)
def log_softmax(xp: Namespace, input: Array, dim: int, dtype: DTypeLike = None) -> Array:
    """The logarithm of softmax, accurate where softmax itself would round to 0.

    y = x - log Σ exp(x)

    >>> log_softmax(tensor([0.0, 0.0]), 0)
    tensor([-0.6931, -0.6931])
    """
    input = input if dtype is None else input.astype(dtypes.array_type(dtype))
    if input.itemsize == 2:  # accumulated in float32, rounded once
        return log_softmax.op.forward(xp, input.astype("float32"), dim).astype(input.dtype)
    dim = normal_dim("log_softmax", dim, input.ndim)
    if not input.size or not input.ndim:
        return xp.asarray(input - input)
    shifted = input - xp.max(input, axis=dim, keepdims=True)
    shifted -= xp.log(xp.sum(xp.exp(shifted), axis=dim, keepdims=True))
    return shifted


def log_softmax_gradient(g: ArrayOrTensor, y: ArrayOrTensor, dim: int) -> Any:
    """g - eʸ Σ g; for a one-hot gradient per row no sum is needed."""
    if g.__class__ is not OneHotGradient:
        return g - exp(y) * sum(g, dim, True)
    if dim not in (1, -1):
        return log_softmax_gradient(g.materialize(), y, dim)
    gradient = LOG_SOFTMAX_KERNEL(g, y) if y.size >= LOG_SOFTMAX_KERNEL.min_size else None
    if gradient is None:
        gradient = exp(y) * -g.values[:, None]
        g.add_to(gradient)
    return gradient


log_softmax.vjp(input=log_softmax_gradient, latex=r"g - e^{y} \textstyle\sum g")


log_softmax.op.takes_one_hot = True
