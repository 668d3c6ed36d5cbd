"""Shapes: contracts, dims, broadcasting, and errors that explain a mismatch.

A contract names the axes of each tensor argument and of the result:

    n c h w, o c/groups i j, o -> n o p q

An axis with the same name has the same size everywhere. `c/groups` is that size
divided by a setting; `...` stands for any number of leading axes; an optional
argument is checked only if it is present.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from ..errors import ArgumentError, DimError, ShapeError

if TYPE_CHECKING:
    from .op import Op


Index = Annotated[Any, "Index"]
"""What selects elements: an int, a slice, None, `...`, an array, a tensor, or a tuple of these."""


class Size(tuple[int, ...]):
    """A tensor's shape: a tuple that prints as PyTorch's does.

    >>> ones(2, 3).shape
    torch.Size([2, 3])
    """

    __slots__ = ()

    def numel(self) -> int:
        """Return the number of elements of a tensor of this shape."""
        count = 1
        for size in self:
            count *= size
        return count

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def __getitem__(self, index: Any) -> Any:
        result = tuple.__getitem__(self, index)
        return Size(result) if isinstance(index, slice) else result

    def __add__(self, other: Iterable[int]) -> Size:
        return Size(tuple.__add__(self, tuple(other)))


def shape_of(value: object) -> tuple[int, ...]:
    """Return the shape of an array or a number."""
    return tuple(getattr(value, "shape", ()))


class Contract:
    """The axes of an op's arguments by name; see the module's text."""

    def __init__(self, op: str, text: str) -> None:
        self.op, self.text = op, text
        inputs, _, self.output = text.partition("->")
        self.terms = [term.split() for term in inputs.split(",")]

    def check(self, names: Sequence[str], arrays: Sequence[Any], settings: dict[str, Any]) -> None:
        """Compare the arrays' shapes with the contract.

        Raises: ShapeError: a wrong number of axes, or two sizes for one name. ArgumentError: a
            setting that sizes are divided by is no integer.
        """
        sizes: dict[str, tuple[int, str]] = {}
        for name, term, array in zip(names, self.terms, arrays, strict=False):
            if array is None:
                continue
            shape = shape_of(array)
            # Only the last axes are compared.
            if term[:1] == ["..."]:
                term = term[1:]
                if len(shape) < len(term):
                    raise self.error(f"`{name}` needs at least {len(term)} axes", names, arrays)
                shape = shape[len(shape) - len(term) :]
            if len(shape) != len(term):
                raise self.error(
                    f"`{name}` has {len(shape)} axes, expected {len(term)} ({' '.join(term)})",
                    names,
                    arrays,
                )
            for axis, size in zip(term, shape, strict=True):
                # c/groups: the size times the setting is that of c.
                axis, _, divisor = axis.partition("/")
                full = size * as_int(self.op, settings[divisor], divisor) if divisor else size
                known = sizes.setdefault(axis, (full, name))
                if known[0] != full:
                    raise self.error(
                        f"axis {axis} is {known[0]} in `{known[1]}` but {full} in `{name}`",
                        names,
                        arrays,
                    )

    def error(self, message: str, names: Sequence[str], arrays: Sequence[Any]) -> ShapeError:
        rows = {
            f"{name} ({' '.join(term)})": shape_of(array)
            for name, term, array in zip(names, self.terms, arrays, strict=False)
            if array is not None
        }
        return ShapeError(self.op, message, rows, hint_for(names, self.terms, arrays))


def hint_for(
    names: Sequence[str], terms: Sequence[Sequence[str]], arrays: Sequence[Any]
) -> str | None:
    """Return a hint for the usual mistakes behind a mismatch."""
    first, second = (shape_of(array) for array in (*arrays, (), ())[:2])
    images = terms[0] == ["n", "c", "h", "w"]
    if images and len(first) == 4 and len(second) == 4 and first[3] == second[1]:
        return (
            f"the filters expect {second[1]} input channels; "
            f"permute a channels-last image with {names[0]}.permute(0, 3, 1, 2)"
        )
    if images and len(second) == 4:
        return f"the filters expect {second[1]} input channels"
    # The two ways to forget a transposition.
    if len(first) == len(second) == 2 and first[1] == second[1]:
        return f"did you mean {names[1]}.T?"
    if len(first) == len(second) == 2 and first[0] == second[0]:
        return f"did you mean {names[0]}.T?"
    return None


def broadcast_shapes(*shapes: Sequence[int]) -> Size:
    """Return the shape that tensors of these shapes broadcast to.

    From the last axis backwards, sizes must be equal or one of them 1.

    Raises: ShapeError: two sizes differ and neither is 1.

    >>> broadcast_shapes((3, 1), (4,))
    torch.Size([3, 4])
    """
    if len(shapes) == 2 and shapes[0].__class__ is Size and shapes[0] == shapes[1]:
        return shapes[0]
    result: list[int] = []
    for shape in shapes:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        # Missing axes are in front, and of size 1.
        result = [1] * (len(shape) - len(result)) + result
        for axis in range(-1, -len(shape) - 1, -1):
            if result[axis] != shape[axis] and 1 not in (result[axis], shape[axis]):
                raise ShapeError(
                    "broadcast_shapes",
                    f"axis {axis} is {result[axis]} and {shape[axis]}: neither is 1",
                    {f"shape {number}": tuple(shape) for number, shape in enumerate(shapes)},
                )
            if result[axis] == 1:
                result[axis] = shape[axis]
    return Size(result)


# Dims -----------------------------------------------------------------------------------


def normal_dim(op: str, dim: int, ndim: int) -> int:
    """Return a dim counted from the front: -1 is the last. A 0-d tensor counts as having one.

    Raises: DimError: there is no such dim. TypeError: not an integer.
    """
    if dim.__class__ is int and 0 <= dim < ndim:
        return dim
    dim = as_int(op, dim)
    # As in PyTorch, dims 0 and -1 are valid for a 0-d tensor.
    room = max(ndim, 1)
    if not -room <= dim < room:
        raise no_such_dim(op, dim, ndim)
    return dim % room


def as_int(op: str, value: Any, name: str = "dim") -> int:
    """Return a dim, or another setting, as a Python int; True and False are refused.

    Raises: ArgumentError: it is no integer.
    """
    try:
        # True is an int to Python: x.sum(True) is a mistake, not dim 1.
        if value.__class__ is not bool:
            return operator.index(value)
    except TypeError:
        pass
    class_name = type(value).__name__
    raise ArgumentError(op, f"argument `{name}` must be an int, not {class_name}")


def distinct_dims(op: str, dims: Any, ndim: int) -> tuple[int, ...]:
    """Return dims counted from the front, from an int or several.

    Raises: DimError: there is no such dim. RepeatedDimError: a dim is repeated.
    """
    several = dims if isinstance(dims, tuple | list | range) else (dims,)
    counted = tuple(normal_dim(op, dim, ndim) for dim in several)
    if len(set(counted)) != len(counted):
        raise RepeatedDimError(op, f"dim {tuple(several)} names the same dimension twice")
    return counted


def missing_dim(op: str, dim: Any, ndim: int) -> DimError:
    """Make the error for a missing dim of `size` or `stride`: a 0-d tensor has none.

    Raises: ArgumentError: it is no integer.
    """
    dim = as_int(op, dim)
    if ndim:
        return no_such_dim(op, dim, ndim)
    return DimError(op, f"Dimension specified as {dim} but tensor has no dimensions")


class RepeatedDimError(DimError, RuntimeError):
    """A dim is repeated. (PyTorch raises a RuntimeError here.)"""


def no_such_dim(op: str, dim: int, ndim: int) -> DimError:
    room = max(ndim, 1)
    return DimError(
        op,
        f"Dimension out of range: dim {dim} of a tensor with {ndim} dimensions",
        hint=f"dim must be between {-room} and {room - 1}",
    )


EMPTY_DIM_REDUCES_NOTHING = {"all", "any"}
"""Reductions that reduce nothing over `dim=()`, which for others means all dims: as in PyTorch."""


def reduced_dims(op: Op, dim: Any, ndim: int) -> int | tuple[int, ...] | None:
    """Normalize the `dim` of a reduction to None (all), an int, or a tuple."""
    if dim is None:
        return None
    if dim.__class__ is int:
        if -ndim <= dim < ndim:
            return dim % ndim
        return normal_dim(op.title, dim, ndim) if ndim else check_scalar_dim(op.title, dim)
    if dim.__class__ is tuple:
        if not dim and op.name not in EMPTY_DIM_REDUCES_NOTHING:
            return None
    elif not isinstance(dim, list | range | tuple):
        return reduced_dims(op, as_int(op.title, dim), ndim)
    # The usual case first, without a Python call for each dim: a list takes less than a generator.
    dims = tuple([axis % ndim for axis in dim]) if are_in_range(dim, ndim) else ()
    if len(dims) != len(dim) or len(set(dims)) != len(dims):  # computing the title takes time
        dims = distinct_dims(op.title, dim, ndim)
    if not dims and op.name in EMPTY_DIM_REDUCES_NOTHING:
        return ()
    if not dims or not ndim:
        return None
    # An int: NumPy is faster over one axis than over a tuple of one.
    return dims[0] if len(dims) == 1 else dims


def are_in_range(dims: Iterable[Any], ndim: int) -> bool:
    """Whether all dims are ints of a tensor with `ndim` dimensions."""
    for dim in dims:  # noqa: SIM110  (the generator of `all` takes longer)
        if dim.__class__ is not int or not -ndim <= dim < ndim:
            return False
    return True


def check_scalar_dim(op: str, dim: int) -> None:
    normal_dim(op, dim, 0)


def keepdim_shape(shape: tuple[int, ...], dim: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """Return `shape` with the reduced dims kept as size 1."""
    if dim is None:
        return (1,) * len(shape)
    if isinstance(dim, int):
        return (*shape[:dim], 1, *shape[dim + 1 :])
    return tuple(1 if axis in dim else size for axis, size in enumerate(shape))
