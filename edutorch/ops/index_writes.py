"""Writing elements by index or on the diagonal."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.numpy import Number
from ..core.argument_checks import call_as
from ..core.autograd.view_tracking import alias_with_history
from ..core.composed import as_method, recorded_as, takes_out
from ..core.shapes import normal_dim
from ..core.tensor import Tensor, wrap
from ..core.tensor_methods import overwrite, refuse_leaf
from ..errors import ArgumentError, DTypeError, InvalidValueError, ShapeError
from .conversion import clone
from .from_data import scalar_like
from .gather_scatter import check_slices, index_array, index_put
from .gather_scatter import scatter as _scatter
from .scatter_reduce import scatter_reduce
from .views import expand, reshape

__all__ = ["index_put_", "index_reduce", "put", "scatter"]


def with_inplace_form(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Make a composed function a Tensor method, and give it its in-place form."""
    name = f"{function.__name__}_"

    @functools.wraps(function)
    def inplace_form(input: Tensor, *args: Any, **named: Any) -> Tensor:
        refuse_leaf(input, name)
        before = alias_with_history(input)
        overwrite(input, call_as(name, function, (clone(before), *args), named), before, name)
        return input

    inplace_form.__name__ = inplace_form.__qualname__ = name
    inplace_form.__doc__ = f"The in-place form of `{function.__name__}`."
    setattr(Tensor, name, inplace_form)
    function.in_place = inplace_form  # type: ignore[attr-defined]
    return as_method(function)


@with_inplace_form
@recorded_as("PutBackward0")
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with `source` at indices into the flattened tensor; or added there.

    >>> put(zeros(2, 2), tensor([1, -1]), tensor([5.0, 6.0]))
    tensor([[0., 5.],
            [0., 6.]])
    """
    index_array("put", index)
    if index.numel() != source.numel():
        raise ShapeError(
            "put", "source must have as many numbers as index",
            {"index": tuple(index.shape), "source": tuple(source.shape)},
        )  # fmt: skip
    if source.dtype is not input.dtype:
        raise DTypeError(
            "put", "source must have the type of input",
            {"input": str(input.dtype), "source": str(source.dtype)},
        )  # fmt: skip
    row = reshape(input, (-1,))
    result = index_put(row, (reshape(index, (-1,)),), reshape(source, (-1,)), accumulate)
    return reshape(result, input.shape)


@with_inplace_form
@takes_out
@recorded_as("IndexReduceBackward0")
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *,
    include_self: bool = True,
) -> Tensor:  # fmt: skip
    """A copy of `input` with slices reduced at their indices: prod, mean, amax, amin.

    >>> index_reduce(ones(2), 0, tensor([1, 1]), tensor([5.0, 6.0]), "prod")
    tensor([ 1., 30.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise InvalidValueError(
            "index_reduce", f"reduce must be prod, mean, amax or amin, got {reduce!r}"
        )
    index_array("index_reduce", index)
    dim = normal_dim("index_reduce", dim, input.ndim)
    if index.ndim > 1 or (source.ndim and index.numel() != source.shape[dim]):
        raise ShapeError(
            "index_reduce", f"index needs one number for each slice of source along dim {dim}",
            {"index": tuple(index.shape), "source": tuple(source.shape)},
        )  # fmt: skip
    check_slices("index_reduce", input.shape, source.shape, dim)
    column = reshape(index, (-1,) + (1,) * (max(source.ndim, 1) - dim - 1))
    where = expand(column, source.shape) if source.ndim else reshape(index, ())
    return scatter_reduce(input, dim, where, source, reduce, include_self=include_self)


@as_method
def fill_diagonal_(input: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Fill the diagonal with a value; with `wrap` it restarts after each square block.

    Raises: ShapeError: fewer than two dimensions, or more of unequal sizes.

    >>> fill_diagonal_(zeros(2, 2), 5)
    tensor([[5., 0.],
            [0., 5.]])
    """
    shape = tuple(input.shape)
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise ShapeError(
            "fill_diagonal_", "expects a matrix, or more dimensions all of one size",
            {"input": shape},
        )  # fmt: skip
    if len(shape) > 2:
        steps = [np.arange(shape[0])] * len(shape)
    else:
        rows, columns = shape
        end = rows * columns if wrap else min(rows, columns) * (columns + 1)
        positions = np.arange(0, min(end, rows * columns), columns + 1)
        steps = [positions // max(columns, 1), positions % max(columns, 1)]
    input[tuple(steps)] = fill_value
    return input


def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Write `values` at `indices`, one tensor for each axis; or add them there.

    >>> index_put_(zeros(2), (tensor([1, 1]),), tensor([5.0, 6.0]), accumulate=True)
    tensor([ 0., 11.])
    """
    return index_put.in_place(input, indices, values, accumulate)


# Scatter with a reduction ---------------------------------------------------------------------

_scatter_in_place = _scatter.in_place  # type: ignore[attr-defined]
_REDUCTIONS = {"add": "sum", "multiply": "prod"}


def _scatter_with_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor | Number, value: Tensor | Number,
    reduce: str,
) -> Tensor:  # fmt: skip
    if reduce not in _REDUCTIONS:
        raise InvalidValueError("scatter", f"reduce must be 'add' or 'multiply', got {reduce!r}")
    source = value if src is None else src
    if source is None:
        raise ArgumentError("scatter", "give `src`, a tensor, or `value`, a number")
    if not isinstance(source, Tensor):
        source = expand(wrap(scalar_like("scatter", source, input._array)), index.shape)
    return scatter_reduce(input, dim, index, source, _REDUCTIONS[reduce])


@takes_out
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Tensor | Number = None, *,
    value: float | None = None, reduce: str | None = None,
) -> Tensor:  # fmt: skip
    """A copy of `input` with src scattered along `dim`: y[index[i, j], j] = src[i, j] for dim = 0.

    `src` may be a scalar, in PyTorch the argument `value`. With reduce="add" or "multiply" it
    is combined with the elements of `input`.

    >>> scatter(ones(2), 0, tensor([1]), tensor([5.0])), scatter(ones(2), 0, tensor([1]), 5.0)
    (tensor([1., 5.]), tensor([1., 5.]))
    >>> scatter(ones(2), 0, tensor([1]), 5.0, reduce="add")
    tensor([1., 6.])
    """
    if reduce is None:
        return _scatter(input, dim, index, src, value=value)
    return _scatter_with_reduce(input, dim, index, src, value, reduce)


def scatter_(
    input: Tensor, dim: int, index: Tensor, src: Tensor | Number = None, *,
    value: float | None = None, reduce: str | None = None,
) -> Tensor:  # fmt: skip
    """The in-place form of `scatter`.

    >>> scatter_(zeros(2), 0, tensor([1]), 5.0)
    tensor([0., 5.])
    """
    if reduce is None:
        return _scatter_in_place(input, dim, index, src, value=value)
    refuse_leaf(input, "scatter_")
    before = alias_with_history(input)
    result = _scatter_with_reduce(clone(before), dim, index, src, value, reduce)
    overwrite(input, result, before, "scatter_")
    return input


scatter.op = _scatter.op  # type: ignore[attr-defined]
scatter.in_place = _scatter.in_place = scatter_  # type: ignore[attr-defined]
Tensor.scatter, Tensor.scatter_ = scatter, scatter_  # type: ignore[attr-defined]
