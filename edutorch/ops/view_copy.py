"""The copying forms of the views, and the `_scatter` functions.

`narrow_copy(x, …)` is a copy of `narrow(x, …)`; `select_scatter(x, src, …)` is a copy of x
in which the elements of `select(x, …)` are replaced by those of `src`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..core.composed import as_method, recorded_as, takes_out
from ..core.shapes import normal_dim
from ..core.storage import contiguous_format
from ..core.tensor import Tensor
from ..errors import ShapeError
from .complex import view_as_complex, view_as_real
from .conversion import clone
from .indexing import Index, getitem, setitem
from .joining import split, split_with_sizes, unbind
from .rearrange import unfold
from .views import (
    as_strided,
    diagonal,
    diagonal_index,
    expand,
    narrow,
    permute,
    select,
    squeeze,
    t,
    transpose,
    unsqueeze,
    view,
)  # fmt: skip

__all__ = [
    "alias_copy", "as_strided_copy", "detach", "detach_", "detach_copy", "diagonal_copy",
    "diagonal_scatter", "expand_copy", "narrow_copy", "permute_copy", "select_copy",
    "select_scatter", "slice_copy", "slice_inverse", "slice_scatter", "split_copy",
    "split_with_sizes_copy", "squeeze_copy", "t_copy", "transpose_copy", "unbind_copy",
    "unfold_copy", "unsqueeze_copy", "view_as_complex_copy", "view_as_real_copy", "view_copy",
]  # fmt: skip


def detach(input: Tensor) -> Tensor:
    """A tensor that shares the memory but is detached from the graph.

    >>> detach(tensor([1.0], requires_grad=True)).requires_grad
    False
    """
    return input.detach()


def detach_(input: Tensor) -> Tensor:
    """Detach the tensor from the graph in place: it becomes a leaf.

    >>> x = tensor([1.0], requires_grad=True) * 2; detach_(x).is_leaf
    True
    """
    return input.detach_()


def _slice_index(input: Tensor, dim: int, start: int | None, end: int | None, step: int) -> Any:
    """Return the index of a slice along one axis."""
    if step <= 0:
        raise ValueError("slice step must be positive; use x.flip(dim) to go backwards")
    return (slice(None),) * normal_dim("slice", dim, input.ndim) + (slice(start, end, step),)


def _slice(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    return getitem(input, _slice_index(input, dim, start, end, step))


def _alias(input: Tensor) -> Tensor:
    return getitem(input, ...)


def _make_copy_form(function: Callable[..., Any], example: str) -> Callable[..., Any]:
    """Make the copying form of a view; the example begins with its name."""
    name = example.partition("(")[0]
    base = "".join(part.capitalize() for part in name.removesuffix("_copy").split("_"))

    @recorded_as("NarrowCopyBackward0" if base == "Narrow" else f"{base}Backward0_copy")
    def copy(*args: Any, **named: Any) -> Any:
        result = function(*args, **named)
        if isinstance(result, Tensor):
            return clone(result, memory_format=contiguous_format)
        return tuple(clone(part, memory_format=contiguous_format) for part in result)

    copy.__name__ = copy.__qualname__ = name
    copy.__module__ = __name__
    copy.__doc__ = f"A copy of what `{name.removesuffix('_copy')}` returns.\n\n>>> {example}\n"
    copy.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return takes_out(copy)


alias_copy = _make_copy_form(_alias, "alias_copy(tensor([1, 2]))\ntensor([1, 2])")
as_strided_copy = _make_copy_form(
    as_strided, "as_strided_copy(arange(3), (2, 2), (1, 1))\ntensor([[0, 1],\n        [1, 2]])"
)
# As in PyTorch a gradient flows through it, in spite of the name.
detach_copy = _make_copy_form(_alias, "detach_copy(tensor([1, 2]))\ntensor([1, 2])")
diagonal_copy = _make_copy_form(diagonal, "diagonal_copy(tensor([[1, 2], [3, 4]]))\ntensor([1, 4])")
expand_copy = _make_copy_form(expand, "expand_copy(tensor([1]), (2,))\ntensor([1, 1])")
narrow_copy = as_method(
    _make_copy_form(narrow, "narrow_copy(tensor([1, 2, 3]), 0, 1, 2)\ntensor([2, 3])")
)
permute_copy = _make_copy_form(
    permute, "permute_copy(tensor([[1, 2]]), (1, 0))\ntensor([[1],\n        [2]])"
)
select_copy = _make_copy_form(select, "select_copy(tensor([[1, 2], [3, 4]]), 0, 1)\ntensor([3, 4])")
slice_copy = _make_copy_form(_slice, "slice_copy(tensor([1, 2, 3]), 0, 1)\ntensor([2, 3])")
split_copy = _make_copy_form(split, "split_copy(tensor([1, 2]), 1)\n(tensor([1]), tensor([2]))")
split_with_sizes_copy = _make_copy_form(
    split_with_sizes, "split_with_sizes_copy(tensor([1, 2]), [1, 1])\n(tensor([1]), tensor([2]))"
)
squeeze_copy = _make_copy_form(squeeze, "squeeze_copy(tensor([[1, 2]]))\ntensor([1, 2])")
t_copy = _make_copy_form(t, "t_copy(tensor([[1, 2]]))\ntensor([[1],\n        [2]])")
transpose_copy = _make_copy_form(
    transpose, "transpose_copy(tensor([[1, 2]]), 0, 1)\ntensor([[1],\n        [2]])"
)
unbind_copy = _make_copy_form(unbind, "unbind_copy(tensor([1, 2]))\n(tensor(1), tensor(2))")
unfold_copy = _make_copy_form(
    unfold, "unfold_copy(arange(3), 0, 2, 1)\ntensor([[0, 1],\n        [1, 2]])"
)
unsqueeze_copy = _make_copy_form(unsqueeze, "unsqueeze_copy(tensor([1, 2]), 0)\ntensor([[1, 2]])")
view_as_complex_copy = _make_copy_form(
    view_as_complex, "view_as_complex_copy(tensor([[1.0, 2.0]]))\ntensor([1.+2.j])"
)
view_as_real_copy = _make_copy_form(
    view_as_real, "view_as_real_copy(tensor([1 + 2j]))\ntensor([[1., 2.]])"
)
view_copy = _make_copy_form(view, "view_copy(tensor([[1, 2]]), (2,))\ntensor([1, 2])")


# Parts replaced -----------------------------------------------------------------------------


def _replace_part(name: str, input: Tensor, src: Tensor, index: Index, shape: Any) -> Tensor:
    if tuple(src.shape) != tuple(shape):
        raise ShapeError(
            name, "expected src to have a size equal to the part of input that it replaces",
            {"src": tuple(src.shape), "part": tuple(shape), "input": tuple(input.shape)},
        )  # fmt: skip
    return setitem(input, src, index)


@as_method
@recorded_as("SelectScatterBackward0")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` whose slice `index` along `dim` is `src`.

    Raises: ShapeError: src does not have the shape of the slice.

    >>> select_scatter(zeros(2, 2), ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    part = select(input.detach(), dim, index)
    where = (slice(None),) * normal_dim("select_scatter", dim, input.ndim) + (index,)
    return _replace_part("select_scatter", input, src, where, part.shape)


@as_method
@takes_out
@recorded_as("SliceScatterBackward0")
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Tensor:  # fmt: skip
    """A copy of `input` in which input[start:end:step] along `dim` is `src`.

    Raises: ShapeError: src does not have the shape of that slice.

    >>> slice_scatter(zeros(4), ones(2), start=1, end=3)
    tensor([0., 1., 1., 0.])
    """
    where = _slice_index(input, dim, start, end, step)
    return _replace_part("slice_scatter", input, src, where, input.detach()[where].shape)


@as_method
@recorded_as("DiagonalScatterBackward0")
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of `input` with `src` on its diagonal.

    Raises: ShapeError: src does not have the shape of the diagonal.

    >>> diagonal_scatter(zeros(2, 2), ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    part = diagonal(input.detach(), offset, dim1, dim2)
    where = diagonal_index(tuple(input.shape), offset, dim1, dim2)
    return _replace_part("diagonal_scatter", input, src, where, part.shape)


@as_method
def slice_inverse(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Tensor:  # fmt: skip
    """The view `src` of which `input` is a slice, rebuilt from the storage of `input`.

    >>> x = arange(4); slice_inverse(x[1:3], x, 0, 1, 3)
    tensor([0, 1, 2, 3])
    """
    return as_strided(input, src.shape, src.stride(), src.storage_offset())
