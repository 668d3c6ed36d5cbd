"""Flattening, moving and adding axes: composed of the views in `views.py`."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core.composed import as_method
from ..core.error_messages import no_tensor
from ..core.shapes import distinct_dims, normal_dim
from ..core.tensor import Tensor
from ..errors import DimError, ShapeError, warn
from .views import expand, permute, reshape, transpose, unsqueeze, view

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "flatten", "movedim", "ravel",
    "swapaxes", "unflatten",
]  # fmt: skip


@as_method
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Two axes exchanged, as by `transpose`.

    >>> swapaxes(tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])
    """
    return transpose(input, axis0, axis1)


@as_method
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Flatten the axes from start_dim to end_dim into one.

    >>> flatten(zeros(2, 3, 4), 1).shape
    torch.Size([2, 12])
    """
    shape = tuple(input.shape) or (1,)
    start = normal_dim("flatten", start_dim, len(shape))
    end = normal_dim("flatten", end_dim, len(shape))
    if start > end:
        raise DimError("flatten", "start_dim cannot come after end_dim", {"input": shape})
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@as_method
def ravel(input: Tensor) -> Tensor:
    """All elements as a vector.

    >>> ravel(tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    return reshape(input, (-1,))


@as_method
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One axis split into several.

    >>> unflatten(zeros(2, 12), 1, (3, 4)).shape
    torch.Size([2, 3, 4])
    """
    dim = normal_dim("unflatten", dim, len(input.shape))
    if -1 in sizes:  # inferred from this axis: in an empty tensor reshape cannot infer it
        rest = -math.prod(sizes)
        if rest > 0 and input.shape[dim] % rest == 0:
            sizes = [input.shape[dim] // rest if size == -1 else size for size in sizes]
    return reshape(input, (*input.shape[:dim], *sizes, *input.shape[dim + 1 :]))


@as_method
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Some axes moved elsewhere; the others keep their order.

    >>> movedim(zeros(2, 3, 4), 0, 2).shape
    torch.Size([3, 4, 2])
    """
    ndim = len(input.shape)
    sources = distinct_dims("movedim", source, ndim)
    targets = distinct_dims("movedim", destination, ndim)
    if len(sources) != len(targets):
        raise ShapeError(
            "movedim", "`source` and `destination` must name as many dims",
            {"source": source, "destination": destination},
        )  # fmt: skip
    rest = iter(axis for axis in range(ndim) if axis not in sources)
    order = [
        sources[targets.index(axis)] if axis in targets else next(rest) for axis in range(ndim)
    ]
    return permute(input, tuple(order))


@as_method
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Expand to the shape of another tensor.

    >>> expand_as(tensor([1]), zeros(3))
    tensor([1, 1, 1])
    """
    return expand(input, other.shape)


@as_method
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """View in the shape of another tensor.

    >>> view_as(arange(4), zeros(2, 2)).shape
    torch.Size([2, 2])
    """
    return view(input, other.shape)


@as_method
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """Broadcast to a shape.

    >>> broadcast_to(tensor([1]), (3,))
    tensor([1, 1, 1])
    """
    return expand(input, size)


@as_method
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """Reshape to the shape of another tensor.

    >>> reshape_as(arange(4), zeros(2, 2)).shape
    torch.Size([2, 2])
    """
    return reshape(input, other.shape)


def map_tensors(function: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """Make a function of one tensor accept several, or a list of them, with a tuple of results."""
    name = function.__name__

    @functools.wraps(function)
    def of_tensors(*tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
            (tensors,), is_list = tensors, True
        else:
            is_list = len(tensors) != 1
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise no_tensor(name, "tensors", tensor)
        results = tuple(map(function, tensors))
        return results if is_list else results[0]

    of_tensors.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("tensors", inspect.Parameter.VAR_POSITIONAL, annotation="Tensor")],
        return_annotation="Any",
    )
    return of_tensors


@map_tensors
def atleast_1d(input: Tensor) -> Tensor:
    """Add an axis to a 0-d tensor; several tensors give a tuple.

    >>> atleast_1d(tensor(5))
    tensor([5])
    """
    return input if input.ndim else reshape(input, (1,))


@map_tensors
def atleast_2d(input: Tensor) -> Tensor:
    """Add leading axes up to two; several tensors give a tuple.

    >>> atleast_2d(tensor([5, 6]))
    tensor([[5, 6]])
    """
    return input if input.ndim > 1 else unsqueeze(atleast_1d(input), 0)


@map_tensors
def atleast_3d(input: Tensor) -> Tensor:
    """Add axes up to three, the last one trailing; several tensors give a tuple.

    >>> atleast_3d(tensor([5, 6])).shape
    torch.Size([1, 2, 1])
    """
    return input if input.ndim > 2 else unsqueeze(atleast_2d(input), -1)


# Properties that transpose -------------------------------------------------------------------


def _reverse_axes(self: Tensor) -> Tensor:
    """The tensor with its axes reversed: the transpose of a matrix."""
    if self.ndim not in (0, 2):
        warn(
            f"T: The use of `x.T` on tensors of dimension other than 2 is deprecated: it turns "
            f"{tuple(self.shape)} round. x.mT transposes each matrix of a batch."
        )
    return permute(self, tuple(reversed(range(self.ndim))))


def _transpose_matrices(self: Tensor) -> Tensor:
    """The transpose of each matrix in a batch."""
    if self.ndim < 2:
        raise ShapeError(
            "mT", "only supported on matrices or batches of matrices",
            {"input": tuple(self.shape)}, "make a matrix of a vector with x.unsqueeze(0)",
        )  # fmt: skip
    return transpose(self, -2, -1)


Tensor.T = property(_reverse_axes)  # type: ignore[attr-defined]
Tensor.mT = property(_transpose_matrices)  # type: ignore[attr-defined]
