"""Cumulative sums, products and extremes along an axis, and `prod`, whose rule needs them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core import return_types
from ..core.composed import as_method, takes_out
from ..core.op import op, reduction
from ..core.precision import is_half, to_float32
from ..core.shapes import normal_dim
from ..core.tensor import Tensor
from ..dtypes import DTypeLike
from .arithmetic import logaddexp
from .comparison import where
from .creation import ones_like, zeros_like
from .elementwise import exp
from .joining import cat
from .rearrange import flip
from .reduction import Dims, replace_neg_inf, sum_dtype
from .sorting import scatter_gradient
from .views import narrow, reshape

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "logcumsumexp", "prod"]


@op(linear=True, out="cast")
def cumsum(xp: Namespace, input: Array, dim: int, *, dtype: DTypeLike = None) -> Array:
    """The cumulative sum along `dim`.

    >>> cumsum(tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    """
    result_dtype = sum_dtype(input, dtype)
    axis = normal_dim("cumsum", dim, input.ndim)
    y = xp.cumsum(
        to_float32(input),
        axis=axis,
        dtype=None if is_half(result_dtype) else accumulation_dtype(result_dtype),
    )
    return y.reshape(input.shape).astype(result_dtype, copy=False)


def accumulation_dtype(dtype: np.dtype[Any]) -> Any:
    """Return the dtype of the accumulator: a running sum in float32 would lose digits."""
    return {"f": np.dtype("float64"), "F": np.dtype("complex128")}.get(dtype.char, dtype)


# Each element is part of its own sum and of all later ones.
cumsum.vjp(
    input=lambda g, dim: flip(cumsum(flip(g, (dim,)), dim), (dim,)) if g.shape else g,
    latex=r"\sum_{j \ge i} g_j",
)


@op(out="cast")
def cumprod(xp: Namespace, input: Array, dim: int, *, dtype: DTypeLike = None) -> Array:
    """The cumulative product along `dim`.

    >>> cumprod(tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """
    result_dtype = sum_dtype(input, dtype)
    axis = normal_dim("cumprod", dim, input.ndim)
    if is_half(result_dtype):  # the imaginary part is dropped first
        y = xp.cumprod(to_float32(xp.real(input)), axis=axis)
    else:
        y = xp.cumprod(input, axis=axis, dtype=accumulation_dtype(result_dtype))
    return y.reshape(input.shape).astype(result_dtype, copy=False)


cumprod.vjp(
    input=lambda g, input, dim: cumprod_gradient(g, input, dim),
    latex=r"\sum_{j \ge i} g_j \prod_{k \le j, k \ne i} x_k",
)


def cumprod_gradient(g: ArrayOrTensor, input: ArrayOrTensor, dim: int) -> Any:
    """For each input i: Σ over j ≥ i of g_j times the product of the others up to j.

    That is the product of those before i, times g_i + x_{i+1} (g_{i+1} + x_{i+2} (g_{i+2} + …)).
    Nothing is divided, so zeros need no special case.
    """
    n = input.shape[dim] if input.shape else 0
    if not n:
        return g
    later = [narrow(g, dim, n - 1, 1)]
    for i in range(n - 1, 0, -1):
        later.append(narrow(g, dim, i - 1, 1) + narrow(input, dim, i, 1) * later[-1])
    before = cat([ones_like(later[0]), narrow(input, dim, 0, n - 1)], dim)
    return cumprod(before, dim) * cat(later[::-1], dim)


@reduction(node="ProdBackward0 if dim is None else ProdBackward1")
def prod(
    xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: DTypeLike = None
) -> Array:
    """The product over `dim`: y = Π x.

    >>> prod(tensor([2.0, 3.0, 4.0]))
    tensor(24.)
    """
    result_dtype = sum_dtype(input, dtype)
    if is_half(result_dtype):
        real = to_float32(xp.real(input))  # the imaginary part is dropped first
        return xp.prod(real, axis=dim, keepdims=keepdim).astype(result_dtype)
    multiply = np.multiply.reduce if input.__class__ is np.ndarray else xp.prod
    return multiply(input, axis=dim, keepdims=keepdim, dtype=result_dtype)


prod.vjp(
    input=lambda g, input, dim: g * product_of_others(input, dim), latex=r"g \prod_{j \ne i} x_j"
)


def product_of_others(input: ArrayOrTensor, dim: Dims) -> Any:
    """The product of all other elements along `dim`, for each element.

    Dividing the whole product by the element fails at 0, so the products of the elements
    before and after it are multiplied instead.
    """
    flat = reshape(input, (-1,)) if dim is None else input
    axis = 0 if dim is None else dim if isinstance(dim, int) else dim[0]
    n = flat.shape[axis] if input.ndim else 1
    if n < 2:
        return ones_like(input)
    before = cumprod(
        cat([ones_like(narrow(flat, axis, 0, 1)), narrow(flat, axis, 0, n - 1)], axis), axis
    )
    reversed_ = flip(flat, (axis,))
    after = cumprod(
        cat([ones_like(narrow(reversed_, axis, 0, 1)), narrow(reversed_, axis, 0, n - 1)], axis),
        axis,
    )
    return reshape(before * flip(after, (axis,)), input.shape)


@op(dtypes="fc", out=True, accumulates=True)
def logcumsumexp(xp: Namespace, input: Array, dim: int) -> Array:
    """The logarithm of the cumulative sum of exp(x) along `dim`, without overflow.

    As long as all x are -∞ it is -∞, with a gradient of 0. (PyTorch's is NaN.)

    >>> logcumsumexp(tensor([100.0, 100.0]), 0)
    tensor([100.0000, 100.6931])
    """
    dim = normal_dim("logcumsumexp", dim, input.ndim)
    if not input.size:
        return input.copy()
    dtype, input = input.dtype, input.astype(accumulation_dtype(input.dtype), copy=False)
    if not input.ndim:
        return input.astype(dtype)
    if is_long_and_narrow(input.shape, dim):
        return scan_by_doubling(xp, input, dim).astype(dtype)
    steps = [xp.take(input, [0], axis=dim)]
    for position in range(1, input.shape[dim]):
        steps.append(logaddexp(steps[-1], xp.take(input, [position], axis=dim)))
    return xp.concatenate(steps, axis=dim).astype(dtype)


def is_long_and_narrow(shape: tuple[int, ...], dim: int) -> bool:
    """Whether a loop along `dim` would take longer for its Python than for its arithmetic."""
    return math.prod(shape) <= 32 * shape[dim]


def scan_by_doubling(xp: Namespace, values: Array, dim: int) -> Array:
    """Add to each element those 1, 2, 4, … before it: log₂ n steps, and as few roundings each."""
    before, distance = (slice(None),) * dim, 1
    while distance < values.shape[dim]:
        head, rest = values[(*before, slice(distance))], values[(*before, slice(distance, None))]
        rest = logaddexp(values[(*before, slice(-distance))], rest)
        values = xp.concatenate([head, rest], axis=dim)
        distance *= 2
    return values


# exp(xᵢ - yⱼ) is the share of element i in the sum up to j.
logcumsumexp.vjp(
    input=lambda g, input, dim: logcumsumexp_gradient(g, input, dim) if input.shape else g,
    latex=r"\sum_{j \ge i} g_j\,e^{x_i-y_j}",
)


def logcumsumexp_gradient(g: ArrayOrTensor, input: ArrayOrTensor, dim: int) -> Any:
    """Σ over j ≥ i of g_j · exp(x_i - y_j), from the last one to the first.

    y is recomputed: rounded to 16 bits by the forward it would be too inaccurate.

    Terms after i are scaled by exp(y_i), which is never less than exp(x_i): with
    u_i = g_i + exp(y_i - y_{i+1}) u_{i+1} it is exp(x_i - y_i) u_i.
    """
    n = input.shape[dim]
    if not n:
        return g * input
    y = logcumsumexp(input, dim)
    current, following = narrow(y, dim, 0, n - 1), narrow(y, dim, 1, n - 1)
    # Where both are infinite their difference is 0, not ∞ - ∞.
    falls = exp(where(current == following, zeros_like(current), current - following))
    at_top = input == math.inf  # its share of an infinite sum is 1, not exp(∞ - ∞)
    return exp(where(at_top, 0.0, input - replace_neg_inf(y))) * sum_from_the_end(g, falls, dim)


def sum_from_the_end(g: ArrayOrTensor, falls: ArrayOrTensor, dim: int) -> Any:
    """u_i = g_i + falls_i · u_{i+1}; long and narrow tensors by doubling, as in the forward."""
    n = g.shape[dim]
    if not is_long_and_narrow(g.shape, dim):
        later = [narrow(g, dim, n - 1, 1)]
        for i in range(n - 1, 0, -1):
            later.append(narrow(g, dim, i - 1, 1) + narrow(falls, dim, i - 1, 1) * later[-1])
        return cat(later[::-1], dim)
    u, distance = g, 1
    while distance < n:  # u sums `distance` terms, and falls holds as many factors each
        rest = n - distance
        near = narrow(u, dim, 0, rest) + falls * narrow(u, dim, distance, rest)
        u = cat([near, narrow(u, dim, rest, distance)], dim)
        following = max(rest - distance, 0)
        falls = narrow(falls, dim, 0, following) * narrow(falls, dim, rest - following, following)
        distance *= 2
    return u


# Running extremes ----------------------------------------------------------------------------


@op(
    outputs=("values", "indices"), method=False, dtypes="bif", public="cummax cummin",
    node="CummaxBackward0 if largest else CumminBackward0",
)  # fmt: skip
def cum_minmax(xp: Namespace, input: Array, dim: int, largest: bool) -> tuple[Array, Array]:
    """The cumulative maximum or minimum along `dim`: see `cummax`, `cummin`."""
    dim = normal_dim("cummax" if largest else "cummin", dim, input.ndim)
    if not input.ndim or not input.size:
        return input.copy(), xp.zeros(input.shape, "int64")
    if input.size <= 32 * input.shape[dim]:  # long and narrow: Python's loop would take longest
        return scan_extremes_by_doubling(xp, input, dim, largest)
    best = xp.take(input, [0], axis=dim)
    best_index = xp.zeros(best.shape, "int64")
    values, indices = [best], [best_index]
    for position in range(1, input.shape[dim]):
        current = xp.take(input, [position], axis=dim)
        better = is_extreme(xp, current, best, largest)
        best = xp.where(better, current, best)
        best_index = xp.where(better, xp.asarray(position), best_index)
        values.append(best)
        indices.append(best_index)
    return xp.concatenate(values, axis=dim), xp.concatenate(indices, axis=dim)


def scan_extremes_by_doubling(
    xp: Namespace, values: Array, dim: int, largest: bool
) -> tuple[Array, Array]:
    """Compare each element with those 1, 2, 4, … before it: log₂ n steps instead of n.

    After the step over a distance d, each element is the extreme of the last 2d elements.
    """

    def part(array: Array, start: int | None, stop: int | None) -> Array:
        return array[(slice(None),) * dim + (slice(start, stop),)]

    length, distance = values.shape[dim], 1
    positions = xp.reshape(xp.arange(length), (length,) + (1,) * (values.ndim - dim - 1))
    indices = xp.broadcast_to(positions, values.shape)
    while distance < length:
        current, best = part(values, distance, None), part(values, None, -distance)
        better = is_extreme(xp, current, best, largest)
        values = xp.concatenate(
            [part(values, None, distance), xp.where(better, current, best)], axis=dim
        )
        index = xp.where(better, part(indices, distance, None), part(indices, None, -distance))
        indices = xp.concatenate([part(indices, None, distance), index], axis=dim)
        distance *= 2
    return values, indices


def is_extreme(xp: Namespace, current: Array, best: Array, largest: bool) -> Array:
    """Where an element replaces the extreme of those before it: of equal ones the last counts.

    The first NaN propagates, with the index of the last one.
    """
    better = current >= best if largest else current <= best
    if current.dtype.kind in "iub":
        return better
    return xp.logical_or(xp.logical_and(better, best == best), current != current)


cum_minmax.vjp(
    input=lambda g, input_shape, dim, indices: scatter_gradient(g, input_shape, dim, indices),
    latex=r"g\ \text{added where it was found}",
)


@as_method
@takes_out
def cummax(input: Tensor, dim: int) -> Any:
    """The cumulative maximum along `dim`, and its indices.

    >>> cummax(tensor([1, 3, 2]), 0).values
    tensor([1, 3, 3])
    """
    return return_types.cummax(*cum_minmax(input, dim, True))


@as_method
@takes_out
def cummin(input: Tensor, dim: int) -> Any:
    """The cumulative minimum along `dim`, and its indices.

    >>> cummin(tensor([2, 1, 3]), 0).values
    tensor([2, 1, 1])
    """
    return return_types.cummin(*cum_minmax(input, dim, False))
