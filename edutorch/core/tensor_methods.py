"""Tensor methods, operators and in-place forms made from ops."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy
from numpy import ndarray

from .. import backends, dtypes
from ..backends.numpy import COPY_INTO, Array, put_at
from ..errors import DTypeError, GradientError, ShapeError
from ..modes import DEFAULT, NO_GRAD, Modes, current, override_modes
from .autograd.forward_mode import update_tangents
from .autograd.graph import LEAF
from .autograd.multi_output import refuse_write_into_view
from .autograd.versions import region_index, write_stretched, written_view
from .autograd.view_tracking import alias_with_history, notify_write, set_history
from .error_messages import has_overlap, no_tensor, overlap_error
from .precision import SCALING, is_half
from .promotion import is_operand
from .registry import op_function
from .shapes import Index
from .subclasses import call_override, find_overrides
from .tensor import PLAIN_TENSORS, Tensor, fill, wrap, writes_of

if TYPE_CHECKING:
    from .op import Op

# The operators of each op: plain, reflected, in-place.
OPERATORS = {
    "add": ("__add__", "__radd__", "__iadd__"),
    "sub": ("__sub__", "__rsub__", "__isub__"),
    "mul": ("__mul__", "__rmul__", "__imul__"),
    "div": ("__truediv__", "__rtruediv__", "__itruediv__"),
    "floor_divide": ("__floordiv__", "__rfloordiv__", "__ifloordiv__"),
    "remainder": ("__mod__", "__rmod__", "__imod__"),
    "pow": ("__pow__", "__rpow__", "__ipow__"),
    "matmul": ("__matmul__", "__rmatmul__", None),
    "bitwise_and": ("__and__", "__rand__", "__iand__"),
    "bitwise_or": ("__or__", "__ror__", "__ior__"),
    "bitwise_xor": ("__xor__", "__rxor__", "__ixor__"),
    "bitwise_left_shift": ("__lshift__", "__rlshift__", "__ilshift__"),
    "bitwise_right_shift": ("__rshift__", "__rrshift__", "__irshift__"),
    "eq": ("__eq__", None, None),
    "ne": ("__ne__", None, None),
    "lt": ("__lt__", None, None),
    "le": ("__le__", None, None),
    "gt": ("__gt__", None, None),
    "ge": ("__ge__", None, None),
    "neg": ("__neg__", None, None),
    "positive": ("__pos__", None, None),
    "abs": ("__abs__", None, None),
    "bitwise_not": ("__invert__", None, None),
}

COMMUTATIVE = {"add", "mul"}

# Ops beyond the elementwise ones whose result can replace their input.
IN_PLACE = {
    "masked_fill", "masked_scatter", "scatter", "scatter_add", "index_add", "index_copy",
    "index_fill", "index_put", "scatter_reduce", "tril", "triu", "cumsum", "cumprod",
}  # fmt: skip

# Methods that take their sizes as separate arguments: x.permute(2, 0, 1), x.permute((2, 0, 1)).
VARARG_METHODS = {"reshape", "view", "permute", "expand", "repeat", "tile", "flip"}


REFLECTED = {"sub": "RsubBackward1", "pow": "PowBackward2"}
"""PyTorch's names for the nodes of `2 - x` and `2 ** x`."""


def attach(op: Op) -> None:
    """Add the method, the operators and the in-place twin of `op` to Tensor."""
    function = op.function
    if not op.is_method or not op.inputs or op.variadic or op.no_promotion:
        return
    setattr(Tensor, op.name, accept_varargs(function) if op.name in VARARG_METHODS else function)
    plain, reflected, augmented = OPERATORS.get(op.name, (None, None, None))
    if plain:
        setattr(Tensor, plain, op.operator)
    if reflected:
        setattr(Tensor, reflected, reflect(op))
    if op.family.broadcasts or op.name in IN_PLACE:
        twin = in_place(op)
        setattr(Tensor, f"{op.name}_", twin)
        function.in_place = twin
        if augmented:
            setattr(Tensor, augmented, twin)


def reflect(op: Op) -> Callable[..., Any]:
    """Make `2 - x` from sub by swapping the operands."""
    if op.name in COMMUTATIVE:
        return op.operator
    node_type = op.node_type_named(REFLECTED[op.name]) if op.name in REFLECTED else None

    @functools.wraps(op.function)
    def reflected(self: Tensor, other: Any) -> Any:
        if not is_operand(other):
            return NotImplemented
        if not isinstance(self, Tensor):
            raise no_tensor(op.title, "self", self)
        if op.name == "div" and current().autocast is not None:  # as PyTorch's 2 / x does
            return op_function("reciprocal")(self) * other
        number = None
        if not isinstance(other, Tensor):
            array, number = self._array, other
            if other.__class__ in (int, float) and array.dtype in dtypes.FLOATING:
                scales = op.name in SCALING and array.ndim and is_half(array.dtype)
                dtype = numpy.float32 if scales else array.dtype  # as for a Python number
                other = backends.of(array).asarray(other, dtype)
            if hasattr(other, "dtype"):
                other = fill(object.__new__(Tensor), backends.of(array).asarray(other))
        if number.__class__ not in (int, float) or not isinstance(other, Tensor):
            return op.function(other, self)
        if current().listeners:
            other._number = number  # the number itself, for pictures
        result = op.function(other, self)
        if isinstance(result, Tensor) and result._node is not None:
            if node_type is not None:
                result._node.__class__ = node_type
            result._node.scalars = ((op.inputs[0], number),)
        return result

    return reflected


def accept_varargs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method accept a sequence or separate arguments."""

    @functools.wraps(function)
    def method(self: Tensor, *sizes: Any, **named: Any) -> Any:
        if not sizes:
            return function(self, **named)
        size = sizes[0] if len(sizes) == 1 and sizes[0].__class__ is not int else sizes
        return function(self, size, **named) if named else function(self, size)

    return method


# In-place writes -----------------------------------------------------------------------


def in_place(op: Op) -> Callable[..., Tensor]:
    """Make `x.mul_(y)` from mul: the same values, written into x's memory."""
    name = f"{op.name}_"
    ufunc = UFUNCS.get(op.name)

    def twin(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not kwargs and (
            (ufunc is not None and len(args) == 1 and wrote_small(ufunc, self, args[0]))
            or wrote_directly(op, ufunc, self, args)
        ):
            part = None if self._array.base is None else self._array
            (self._writes or writes_of(self)).bump(None, part)
            return self
        if is_plain_write(self, (*args, *kwargs.values()) if kwargs else args):
            result = op.function(self, *args, **kwargs)._array
            have = self._array
            if result.shape == have.shape and result.dtype is have.dtype:
                write(self, name, result)
                return self
            overwrite(self, wrap(result), self, name)
            return self
        if self.__class__ not in PLAIN_TENSORS:
            overrides = find_overrides((self, *args))
            if overrides:
                return call_override(twin, overrides, (self, *args), kwargs)
        if current().autocast is not None:  # the tensor that is written into has its dtype already
            with override_modes(autocast=None):
                return twin(self, *args, **kwargs)
        refuse_leaf(self, name)
        before = alias_with_history(self)
        args = tuple(before if argument is self else argument for argument in args)
        result = op.function(before, *args, **kwargs)
        overwrite(self, result, before, name)
        return self

    twin.__name__ = twin.__qualname__ = name
    twin.__doc__ = f"The in-place form of `{op.name}`: the result replaces the tensor's elements."
    return twin


UFUNCS = {
    "add": numpy.add, "sub": numpy.subtract, "mul": numpy.multiply, "div": numpy.true_divide,
}  # fmt: skip
"""The functions of NumPy that write an op's result where it belongs, without a copy."""

LARGE = 1e38
"""Below it, a number is one of float32, too."""

WRITTEN_DIRECTLY = {numpy.dtype(numpy.float32), numpy.dtype(numpy.float64)}


def wrote_small(ufunc: numpy.ufunc, target: Tensor, other: Any) -> bool:
    """Do what `wrote_directly` does with few elements of two tensors, in half its time."""
    if target.__class__ not in PLAIN_TENSORS or other.__class__ not in PLAIN_TENSORS:
        return False
    array, values, modes = target._array, other._array, current()
    if modes is DEFAULT:
        if target._node is not None or target._base is not None or other._node is not None:
            return False
    elif modes is not NO_GRAD:
        return False
    if array.__class__ is not ndarray or values.__class__ is not ndarray:
        return False
    if array.size > FEW or array.dtype is not values.dtype:
        return False
    if array.dtype not in WRITTEN_DIRECTLY or not array.flags.carray:
        return False
    try:
        ufunc(array, values, array)
    except ValueError:  # of another shape; nothing is written
        return False
    return True


FEW = 16_384
"""Up to so many elements, no kernel is faster than NumPy."""


def wrote_directly(
    op: Op, ufunc: numpy.ufunc | None, target: Tensor, args: tuple[Any, ...]
) -> bool:
    """Write `target = op(target, …)` in one pass, if that is a plain write and surely fits."""
    modes = current()
    if not is_plain_target(target, modes):
        return False
    array = target._array
    flags = array.flags
    # Elements of memory without gaps have a location each; those of other views may share one.
    if array.dtype not in WRITTEN_DIRECTLY or not flags.forc or not flags.writeable:
        return False
    others = []
    for other in args:
        if other.__class__ in PLAIN_TENSORS:
            if other._node is not None and modes is DEFAULT:
                return False
            other = other._array
            if other.__class__ is not ndarray or other.dtype is not array.dtype:
                return False
        elif other.__class__ not in NUMBER_TYPES or not abs(other) < LARGE:
            return False
        others.append(other)
    slot = op.slot
    if slot is not None and array.size >= slot.min_size and len(others) < len(op.inputs):
        if slot.run is None:
            slot.request()
        into = getattr(slot.run, "into", None)
        may_write = into is not None and all(fits_into(other, array) for other in others)
        if may_write and into(array, others):
            return True
    if ufunc is None or len(others) != 1 or not fits_into(others[0], array):
        return False
    ufunc(array, others[0], array)
    return True


def copied_directly(target: Tensor, source: Tensor) -> bool:
    """Write `target[...] = source` in one pass, if that is a plain write of equal dtypes."""
    modes = current()
    if not is_plain_target(target, modes) or source.__class__ not in PLAIN_TENSORS:
        return False
    array, values = target._array, source._array
    if values.__class__ is not ndarray or (source._node is not None and modes is DEFAULT):
        return False
    if values.dtype is not array.dtype or values.ndim > array.ndim:
        return False
    if array.size < COPY_INTO.min_size or not copied(array, values):
        try:
            array[...] = values
        except ValueError:  # of another shape, or read-only; nothing is written
            return False
    return True


def is_plain_target(target: Tensor, modes: Modes) -> bool:
    """Return True if a write into a tensor changes only its elements: it has no history."""
    if target.__class__ not in PLAIN_TENSORS or target._array.__class__ is not ndarray:
        return False
    if modes is DEFAULT:
        return target._node is None and target._base is None
    return modes is NO_GRAD


def fits_into(operand: Any, array: Array) -> bool:
    """Return True for a number, and for an array that can be expanded to the shape of another."""
    if operand.__class__ is not ndarray or operand.shape == array.shape:
        return True
    shape, target = operand.shape, array.shape
    sizes = target[len(target) - len(shape) :]
    return len(shape) <= len(target) and all(
        size in (1, wanted) for size, wanted in zip(shape, sizes, strict=True)
    )


NUMBER_TYPES = {int, float}
SIMPLE = {int, float, bool, str, type(None)}


def is_plain_write(target: Tensor, others: Iterable[Any]) -> bool:
    """Return True if a write changes only elements: the usual modes, and no recorded history."""
    modes = current()
    if not is_plain_target(target, modes):
        return False
    for other in others:
        if other.__class__ in PLAIN_TENSORS:
            if other._node is not None and modes is DEFAULT:
                return False
        elif other.__class__ not in SIMPLE:
            return False
    return True


def refuse_leaf(target: Tensor, name: str) -> None:
    """Raise GradientError for a write into a leaf that requires grad."""
    if not current().grad:
        return
    if target._base is not None:
        refuse_write_into_view(target, name)
    view = target._base is not None and target._base._node is LEAF
    if target._node is LEAF or view:
        raise GradientError(
            name,
            f"a {'view of a ' if view else ''}leaf Variable that requires grad "
            "is being used in an in-place operation.",
            {"input": tuple(target.shape)},
            "update parameters inside `with no_grad():`, or work on x.clone()",
        )


def overwrite(target: Tensor, result: Tensor, before: Tensor, name: str) -> None:
    """Write `result` into the memory of `target` and give it the result's history.

    Raises: ShapeError, DTypeError: the result does not fit into the target.
    """
    backend = backends.of(target._array)
    if backend.level and backends.of(result._array) is not backend:
        result = op_function("batched")(result, backend, None)
    if result._array.shape != target._array.shape:
        raise ShapeError(
            name,
            "the result does not have the shape of the tensor it is written into",
            {"input": tuple(target.shape), "result": tuple(result.shape)},
            f"use the form without the underscore: x = x.{name.rstrip('_')}(…)",
        )
    if not dtypes.can_cast(result.dtype, target.dtype):
        raise DTypeError(
            name,
            f"result type {result.dtype} can't be cast to the desired output type {target.dtype}",
            hint="convert the tensor first, for example with x.float()",
        )
    node = result._node
    saved = node.saved if node is not None and current().saving is None else ()
    if saved and any(value is before for value in saved):
        before._array = before._array.copy()  # backward needs the elements as they were
        before._writes = None
    write(target, name, result._array)
    modes = current()
    if modes.grad:
        set_history(target, result)
    if modes.levels:
        update_tangents(target, result)
    notify_write(target, result)


def write(target: Tensor, name: str, values: Array, index: Index = ..., part: Array = None) -> None:
    """Write into a tensor's memory (or a part of it), and record the write."""
    array = target._array if part is None else part
    on_host = array.__class__ is ndarray
    if not on_host and not backends.of(array).checks_access:
        refuse_overlap(target, name, array, index)
    try:
        if on_host and index is ... and copied(array, values):
            pass
        elif on_host and index.__class__ is ndarray and not numpy.may_share_memory(array, values):
            put_at(array, index, values)
        elif on_host or not backends.switched_cards:
            array[index] = values
        else:
            backends.of(array).on_card(operator.setitem, array, index, values)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        write_stretched(target, name, array, index, values)
    if index is ... or (not on_host and backends.of(array).level):
        target._bump()
    else:
        writes_of(target).bump(None, array, region_index(index))


def copied(array: Array, values: Array) -> bool:
    """Copy values into a large array by a kernel; return False where that cannot be."""
    if array.size < COPY_INTO.min_size or values.__class__ is not ndarray:
        return False
    if values.dtype is not array.dtype or values.shape != array.shape or not array.flags.writeable:
        return False
    return not numpy.may_share_memory(array, values) and COPY_INTO(array, values) is not None


def refuse_overlap(target: Tensor, name: str, array: Array, index: Index) -> None:
    """Raise ShapeError if written elements share a memory location, as after `expand`.

    NumPy's expanded arrays are read-only; those of a GPU do not object.
    """
    if has_overlap(array) and has_overlap(written_view(array, region_index(index))):
        raise overlap_error(name, target)


def write_out(op: Op, out: Any, output: Tensor) -> Tensor:
    """Write the result into `out=`, if that is given."""
    if out is None:
        return output
    if not isinstance(out, Tensor):
        raise no_tensor(op.title, "out", out)
    wanted = out._node is not None and current().grad  # in `no_grad` it keeps its history
    if output._node is not None or wanted or "_tangents" in output.__dict__:
        raise GradientError(
            op.title, "out=... arguments don't support automatic differentiation",
            hint="use the returned tensor, or wrap the call in no_grad()",
        )  # fmt: skip
    if not dtypes.can_cast(output.dtype, out.dtype):
        raise DTypeError(
            op.title, f"result type {output.dtype} can't be cast to the type of `out`, {out.dtype}"
        )
    if output.dtype is not out.dtype and not op.casts_out:
        raise DTypeError(
            op.title, f"expected `out` to have the dtype {output.dtype} of the result",
            {"out": f"{tuple(out.shape)} {out.dtype}"},
            "leave out= away and convert the result: y.to(out.dtype)",
        )  # fmt: skip
    if out._array.shape != output._array.shape:
        if out._array.size:
            raise ShapeError(
                op.title, "`out` does not have the shape of the result",
                {"out": tuple(out.shape), "result": tuple(output.shape)},
            )  # fmt: skip
        out._array = output._array.astype(out._array.dtype)
    else:
        if has_overlap(out._array):
            raise overlap_error(op.title, out)
        try:
            out._array[...] = output._array
        except ValueError:
            write_stretched(out, op.title, out._array, ..., output._array)
    out._bump()
    notify_write(out, output)
    return out
