"""In-place views (`t_`, `squeeze_`, `resize_`, `set_`, …), `view(dtype)`, and legacy methods.

Methods with an underscore change the shape, strides or storage of the tensor itself. Its
elements stay where they are, and its former value becomes the input of the new node.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..backends.device import DeviceLike
from ..backends.numpy import Array, Namespace, Shared
from ..core.argument_checks import call_as
from ..core.autograd.tangents import with_tangents
from ..core.autograd.view_tracking import alias_with_history, notify_write
from ..core.composed import as_method
from ..core.dispatch import apply
from ..core.error_messages import need_tensor, no_tensor
from ..core.op import movement
from ..core.storage import (
    TypedStorage,
    UntypedStorage,
    contiguous_format,
    make_in_order,
    memory_format,
    preserve_format,
)
from ..core.tensor import Tensor, move_retain_hooks, share_version, wrap
from ..core.tensor_methods import accept_varargs, refuse_leaf
from ..dtypes import DTypeLike
from ..errors import ArgumentError, DeviceError, GradientError, ShapeError
from .conversion import to
from .creation import parse_size as sizes_of
from .from_data import tensor
from .indexing import getitem
from .shape import swapaxes
from .views import as_strided, squeeze, t, transpose, unsqueeze, view

__all__ = ["as_strided_", "resize_as_"]


def _add_in_place_view(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Add the in-place form of a view as a method."""

    @functools.wraps(function)
    def turned(self: Tensor, *args: Any, **named: Any) -> Tensor:
        refuse_leaf(self, name)
        past = self._node
        result = call_as(name, function, (alias_with_history(self), *args), named)
        self._array, self._node = result._array, result._node
        move_retain_hooks(self, past)
        with_tangents(self, result)
        self._bump()
        notify_write(self, result)
        return self

    turned.__name__ = turned.__qualname__ = name
    turned.__doc__ = f"The in-place form of `{name[:-1]}`."
    setattr(Tensor, name, turned)
    return turned


_as_strided_in_place = _add_in_place_view("as_strided_", as_strided)
_add_in_place_view("t_", t)
_add_in_place_view("squeeze_", squeeze)
_add_in_place_view("unsqueeze_", unsqueeze)
_add_in_place_view("swapaxes_", swapaxes)
for _name in ("transpose_", "swapdims_"):
    _add_in_place_view(_name, transpose)


def as_strided_(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """The in-place form of `as_strided`.

    >>> as_strided_(arange(5), (2,), (3,))
    tensor([0, 3])
    """
    return _as_strided_in_place(input, size, stride, storage_offset)


# Other sizes, other storage -----------------------------------------------------------------


def _check_resizable(input: Tensor) -> None:
    if input.requires_grad:
        raise GradientError(
            "resize_", "cannot resize variables that require grad",
            hint="use reshape, which keeps the graph",
        )  # fmt: skip


def _resize_memory(input: Tensor, shape: tuple[int, ...], format: memory_format) -> Array:
    """Return the memory from the first element on in another shape, enlarged if needed."""
    array = input._array
    backend, size = backends.of(array), array.dtype.itemsize
    count = math.prod(shape)
    offset = input.storage_offset()
    available = backend.storage(array)[1] // size - offset
    if count > available:
        longer = backend.xp.empty((count,), array.dtype)
        longer[:available] = backend.as_strided(array, (available,), (size,), 0)
        array = longer
    flat = backend.as_strided(array, (count,), (size,), 0)
    order = None if format is preserve_format else format.order_of("resize_", len(shape))
    return make_in_order(lambda memory_shape: flat.reshape(memory_shape), shape, order)


def _resize_(input: Tensor, *size: Any, memory_format: memory_format = contiguous_format) -> Tensor:
    """Resize the tensor in place; new elements are uninitialized.

    Raises: GradientError: it requires grad.
    """
    _check_resizable(input)
    shape = sizes_of("resize_", size)
    if shape != input._array.shape:
        input._array = _resize_memory(input, shape, memory_format)
        input._bump()
        notify_write(input)
    return input


Tensor.resize_ = _resize_  # type: ignore[attr-defined]


@as_method
def resize_as_(
    input: Tensor, the_template: Tensor, *, memory_format: memory_format = contiguous_format
) -> Tensor:
    """Resize the tensor in place to the size of another one.

    >>> resize_as_(tensor([1, 2, 3]), zeros(2))
    tensor([1, 2])
    """
    return _resize_(input, tuple(the_template.shape), memory_format=memory_format)


def _resize(input: Tensor, *size: Any) -> Tensor:
    """The elements in another shape (PyTorch's old name for `reshape`)."""
    return input.reshape(*size)


def _resize_as(input: Tensor, tensor: Tensor) -> Tensor:
    """The elements in the shape of another tensor (PyTorch's old name for `reshape_as`)."""
    return input.reshape(tensor.shape)


def _set_(
    input: Tensor, source: Any = None, storage_offset: int = 0, size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """Make the tensor use the storage of another one, or a given storage.

    Raises: TypeError: the source has another dtype. GradientError: a leaf that requires grad.
    """
    refuse_leaf(input, "set_")
    if source is None:
        source = wrap(backends.of(input._array).xp.empty((0,), input._array.dtype))
    source_tensor = source
    if not isinstance(source, Tensor | UntypedStorage):
        raise no_tensor("set_", "source", source, "a Tensor or a storage")
    if isinstance(source, UntypedStorage):
        typed = isinstance(source, TypedStorage) and source.elements()
        array = typed if typed is not False else source.elements()
        if array.dtype != input._array.dtype:
            byte_count = array.size // input.itemsize * input.itemsize
            array = array[:byte_count].view(input._array.dtype)
        source_tensor = wrap(array.view(Shared) if isinstance(source._array, Shared) else array)
    if source_tensor.dtype is not input.dtype:
        raise ArgumentError("set_", f"expected memory of {input.dtype}, got {source_tensor.dtype}")
    if size is not None:
        steps = stride or [math.prod(size[axis + 1 :]) for axis in range(len(size))]
        source_tensor = as_strided(
            source_tensor.detach(), tuple(size), tuple(steps), storage_offset
        )
    input._array, input._node, input._base = source_tensor._array, None, None
    if isinstance(source, Tensor):
        share_version(input, source)
    input._bump()
    notify_write(input)
    return input


for _name, _method in {"resize": _resize, "resize_as": _resize_as, "set_": _set_}.items():
    setattr(Tensor, _name, _method)


# Another dtype ---------------------------------------------------------------------------------


@movement(method=False, public="view")
def view_dtype(xp: Namespace, input: Array, dtype: dtypes.dtype) -> Array:
    """The same bytes reinterpreted as another dtype (`x.view(dtype)`), without a gradient.

    >>> view_dtype(tensor([1.0]), int32)
    tensor([1065353216], dtype=torch.int32)
    """
    array_dtype = dtypes.array_type(dtype)
    if array_dtype.itemsize == input.itemsize:
        return input.view(array_dtype)
    if not input.ndim or (input.strides[-1] != input.itemsize and input.shape[-1] > 1):
        raise ShapeError(
            "view", "to read the bytes as numbers of another size, the last axis must be without "
            "gaps in memory", {"input": input.shape}, "call x.contiguous() first",
        )  # fmt: skip
    if input.shape[-1] * input.itemsize % array_dtype.itemsize:
        raise ShapeError(
            "view", f"the bytes of the last axis are no whole number of {dtype}",
            {"input": input.shape},
        )  # fmt: skip
    return input.view(array_dtype)


_view_shape = accept_varargs(view)


@functools.wraps(view)
def _view(self: Tensor, *shape: Any, **named: Any) -> Tensor:
    first = shape[0] if shape else named.get("dtype")
    if first.__class__ is type:
        first = dtypes.as_dtype(first)
    if first.__class__ is dtypes.dtype:
        if first is self.dtype:
            return getitem(self, ...)
        if first.is_storage:  # by the general path, whose result is marked as `Stored`
            return apply(view_dtype.op, (self,), {"dtype": first})
        return view_dtype(self, first)
    return _view_shape(self, *shape, **named)


Tensor.view = _view  # type: ignore[attr-defined]


# Further methods of PyTorch -------------------------------------------------------------------


@as_method
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Sum over axes down to a shape that broadcasts to that of the tensor.

    Raises: ShapeError: it does not.

    >>> sum_to_size(ones(2, 3), 1, 3)
    tensor([[2., 2., 2.]])
    """
    shape = sizes_of("sum_to_size", size)
    current = tuple(input.shape)
    added = len(current) - len(shape)
    fits = added >= 0 and all(
        target in (1, size) for target, size in zip(shape, current[added:], strict=True)
    )
    if not fits:
        raise ShapeError(
            "sum_to_size", f"size {shape} is not expandable to size {current}", {"input": current}
        )
    axes = [
        axis for axis in range(len(current))
        if axis < added or (shape[axis - added] == 1 != current[axis])
    ]  # fmt: skip
    return (input.sum(axes, keepdim=True) if axes or not shape else input).reshape(shape)


def _refuse_grad(self: Tensor, name: str) -> None:
    if self.requires_grad:
        raise GradientError(
            name, f"can't call {name}() on a tensor that requires grad",
            hint=f"use x.detach().{name}()",
        )  # fmt: skip


def _replace_elements(
    self: Tensor, name: str, function: Callable[..., Any], *others: Any
) -> Tensor:
    _refuse_grad(self, name)
    for argument, other in zip("xy" if len(others) > 1 else ("tensor",), others, strict=False):
        need_tensor(name, argument, other)
    rows = [self.reshape(-1).tolist()]
    rows += [other.expand_as(self).reshape(-1).tolist() for other in others]
    values = [function(*elements) for elements in zip(*rows, strict=True)]
    result = tensor(values, dtype=self.dtype, device=self.device).reshape(self.shape)
    return self.copy_(result)


def _apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element by the result of a Python function; slow."""
    return _replace_elements(self, "apply_", callable)


def _map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by a Python function of it and that of another tensor."""
    return _replace_elements(self, "map_", callable, tensor)


def _map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[..., Any]) -> Tensor:
    """Replace each element by a Python function of it and those of two tensors."""
    return _replace_elements(self, "map2_", callable, x, y)


def _new(self: Tensor, *args: Any, device: DeviceLike = None) -> Tensor:
    """A tensor of the same dtype with a size or with data (PyTorch's old constructor)."""
    is_data = len(args) == 1 and isinstance(args[0], list | tuple | Tensor | np.ndarray)
    if is_data and not hasattr(args[0], "numel"):
        return self.new_tensor(args[0], device=device)
    if is_data and isinstance(args[0], Tensor):
        return to(args[0].detach(), self.dtype)
    return self.new_empty(args[0] if is_data else (args or (0,)), device=device)


def _module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """Return what `load_state_dict` replaces this tensor by: `other`, or a copy into this one."""
    return other.detach() if assign else self.detach().copy_(other)


def _pin_memory(self: Tensor, device: DeviceLike = None) -> Tensor:
    """Return a copy in page-locked memory, from which a card copies beside its work.

    Without a card, and for what is pinned already, it is the tensor itself.

    Raises: DeviceError: it is not on the CPU.
    """
    if backends.is_unavailable(backends.ACCELERATOR) or self.is_pinned():
        return self
    if not self.is_cpu:
        raise DeviceError(
            "pin_memory", "cannot pin a tensor: only dense CPU tensors can be pinned",
            {"self": self.device}, "x.cpu().pin_memory()",
        )  # fmt: skip
    return wrap(backends.get(backends.ACCELERATOR).pin(self._array))


def _share_memory_(self: Tensor) -> Tensor:
    """Return the tensor itself: DataLoader workers do not need it."""
    return self


def _to_dense(self: Tensor, dtype: DTypeLike = None, *, masked_grad: bool = True) -> Tensor:
    """Return the tensor itself: it is dense."""
    return self if dtype is None else to(self, dtype)


for _name, _method in {
    "apply_": _apply_, "map_": _map_, "map2_": _map2_, "new": _new,
    "module_load": _module_load, "pin_memory": _pin_memory, "share_memory_": _share_memory_,
    "to_dense": _to_dense,
}.items():  # fmt: skip
    setattr(Tensor, _name, _method)
