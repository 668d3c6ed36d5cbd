"""Conversion of dtype, device, memory format and level of vmap; copying and filling."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import backends, dtypes
from ..backends.batching import batched_generator
from ..backends.batching_rules import VmapError
from ..backends.device import Device, DeviceLike, backend_for
from ..backends.numpy import Array, ArrayOrTensor, Namespace, Number, prepare_cast
from ..core.composed import as_method, ask_overrides, recorded_as
from ..core.dispatch import apply
from ..core.op import op
from ..core.storage import (
    contiguous_format,
    make_in_order,
    memory_format,
    memory_order,
    preserve_format,
)
from ..core.tensor import Tensor, array_of, writes_of
from ..core.tensor_methods import (
    alias_with_history,
    copied_directly,
    is_plain_write,
    overwrite,
    refuse_leaf,
    write,
)
from ..errors import ArgumentError, DTypeError, ShapeError
from ..modes import current, override_modes
from .creation import zeros_like

__all__ = ["clone", "fill", "fill_", "zero_"]


def copy_in_format(xp: Namespace, input: Array, format: memory_format | None) -> Array:
    """A copy of an array in the given memory format; None preserves its memory order."""
    if format is None or format is preserve_format:
        order = memory_order(input)
    else:
        order = format.order_of("clone", input.ndim)
    if order is None:
        return input.copy()
    y = make_in_order(lambda shape: xp.empty(shape, input.dtype), input.shape, order)
    y[...] = input
    return y


@op(linear=True)
def clone(xp: Namespace, input: Array, *, memory_format: memory_format | None = None) -> Array:
    """A differentiable copy; it preserves the memory order unless `memory_format` is given.

    >>> x = tensor([1.0]); y = clone(x); y[0] = 5; x
    tensor([1.])
    """
    return copy_in_format(xp, input, memory_format)


clone.vjp(input=lambda g: g, latex=r"g")


@op(linear=True, method=False, public="to", node="ToCopyBackward0")
def convert_dtype(xp: Namespace, input: Array, dtype: dtypes.dtype) -> Array:
    """The elements converted to another dtype (`x.to(dtype)`).

    >>> convert_dtype(tensor([1.7]), int64)
    tensor([1])
    """
    array_type = dtype.numpy if dtype.__class__ is dtypes.dtype else dtypes.array_type(dtype)
    if array_type.itemsize == 1:  # float8, perhaps
        input = prepare_cast(input, array_type)
    return input.astype(array_type)


# The engine converts each gradient to the dtype of its tensor.
convert_dtype.vjp(input=lambda g: g, latex=r"g")


def cast_to_dtype_of(value: ArrayOrTensor, other: ArrayOrTensor) -> Any:
    """Return an operand of a rule in the dtype of another one: operands are saved unpromoted.

    Otherwise a rule would compute with an integer or float32 operand in float32, not float64.
    """
    dtype = array_of(other).dtype
    if getattr(array_of(value), "dtype", dtype) == dtype:
        return value
    return convert_dtype(value, dtypes.of(dtype))


@op(linear=True, fast=False, method=False, public="to", node="ToCopyBackward0")
def to_device(
    xp: Namespace, input: Array, device: Device, source: Device, non_blocking: bool = False
) -> Array:
    """A copy on another device (`x.to(device)`); the gradient goes back to `source`.

    >>> to_device(tensor([1.0]), device("cpu"), device("cpu")).device
    device(type='cpu')
    """
    backend = device.backend
    move = backend.upload if non_blocking else backend.from_numpy
    return move(backends.of(input).to_numpy(input))


to_device.vjp(input=lambda g, device, source: to_device(g, source, device), latex=r"g")


@as_method
def to(
    input: Tensor, *target: Any, dtype: dtypes.dtype | None = None, device: DeviceLike = None,
    copy: bool = False, non_blocking: bool = False, memory_format: memory_format = preserve_format,
) -> Tensor:  # fmt: skip
    """The tensor with another dtype or on another device; itself if nothing changes.

    >>> to(tensor([1, 2]), float32)
    tensor([1., 2.])
    """
    for argument in target:
        if isinstance(argument, dtypes.dtype):
            dtype = argument
        elif isinstance(argument, type):
            dtype = dtypes.as_dtype(argument)
        elif isinstance(argument, Tensor):
            dtype, device = argument.dtype, argument.device
        elif isinstance(argument, str | Device) or argument.__class__ is int:
            device = argument
        elif argument is not None and not isinstance(argument, bool):
            raise ArgumentError("to", f"expected a dtype, a device or a tensor, got {argument!r}")
    output = input
    dtype = None if dtype is None else dtypes.as_dtype(dtype)
    if dtype is not None and dtype is not output.dtype:
        if dtype.is_storage:  # by the general path, whose result is marked as `Stored`
            output = apply(convert_dtype.op, (output,), {"dtype": dtype})
        else:
            output = convert_dtype(output, dtype)
    if device is not None:
        there, here = backend_for(device), backends.of(output._array)
        if there is not here and there.device_name != here.device_name:
            output = to_device(output, Device(there.device_name), output.device, non_blocking)
    in_order = memory_format is preserve_format or output.is_contiguous(memory_format)
    if (copy and output is input) or not in_order:
        return copy_to(output, memory_format)
    return output


setattr(Tensor, "to", ask_overrides(Tensor.to))  # noqa: B010


@recorded_as("ToCopyBackward0")
def copy_to(input: Tensor, memory_format: memory_format) -> Tensor:
    """Copy a tensor for `to`."""
    return clone(input, memory_format=memory_format)


def _add_conversion_method(name: str, dtype: dtypes.dtype) -> None:
    def method(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
        return to(self, dtype, memory_format=memory_format)

    def direct(self: Tensor) -> Tensor:
        return self if self._array.dtype == dtype.numpy else convert_dtype(self, dtype)

    method.__name__ = name
    method.__doc__ = f"The elements as {dtype.name}."
    setattr(Tensor, name, ask_overrides(method, direct))


for _name, _kind in {
    "bool": dtypes.bool, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16,
    "int": dtypes.int32, "long": dtypes.int64, "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16, "float": dtypes.float32, "double": dtypes.float64,
    "cfloat": dtypes.complex64, "cdouble": dtypes.complex128,
}.items():  # fmt: skip
    _add_conversion_method(_name, _kind)


@as_method
def cpu(input: Tensor) -> Tensor:
    """The tensor in CPU memory.

    >>> tensor([1]).cpu().device
    device(type='cpu')
    """
    return input.to(device="cpu")  # the method: a sparse tensor has its own


@as_method
def cuda(input: Tensor, device: DeviceLike = None, non_blocking: bool = False) -> Tensor:
    """The tensor on the GPU. Raises: DeviceError: there is none."""
    target = backends.ACCELERATOR if device is None else device
    return input.to(device=target, non_blocking=non_blocking)


TYPE_NAMES = {
    "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "float16": "Half", "float32": "Float", "float64": "Double",
}  # fmt: skip


def _type(self: Tensor, dtype: dtypes.dtype | type | str | None = None) -> Any:
    """The tensor with another dtype; without one, the name of its dtype as "torch.FloatTensor"."""
    names = {
        f"torch.{TYPE_NAMES.get(candidate.name, candidate.name.capitalize())}Tensor": candidate
        for candidate in dtypes.ALL
    }
    if dtype is None:
        name = next(name for name, candidate in names.items() if candidate is self.dtype)
        backend = backends.of(self._array)
        home = "torch." if backend is backends.CPU else f"torch.{backend.name}."
        return name.replace("torch.", home)
    if isinstance(dtype, type):  # torch.LongTensor
        dtype = getattr(dtype, "dtype", dtype)
    return to(self, names.get(dtype, dtype) if isinstance(dtype, str) else dtype)


Tensor.type = _type  # type: ignore[attr-defined]


@as_method
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """The elements in the dtype of another tensor.

    >>> type_as(tensor([1]), tensor([0.5]))
    tensor([1.])
    """
    return to(input, other.dtype)


@as_method
def contiguous(input: Tensor, memory_format: memory_format = contiguous_format) -> Tensor:
    """The tensor in row-major memory (itself, if it is already).

    With channels_last the channel axis varies fastest in memory; the shape stays.

    >>> contiguous(tensor([[1, 2], [3, 4]]).T).stride()
    (2, 1)
    """
    if input.is_contiguous(memory_format):
        return input
    return clone(input, memory_format=memory_format)


# Whole tensors overwritten -----------------------------------------------------------------


@op(method=False, public="copy_", node="CopyBackwards")
def copy(xp: Namespace, input: Array, src: Array) -> Array:
    """The elements of `src` instead of those of `input`, whose gradient is 0.

    >>> copy(zeros(2), tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    return src.copy()


copy.vjp(input=lambda g: zeros_like(g), src=lambda g: g, latex={"input": "0", "src": "g"})


@as_method
def copy_(input: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy the elements of `src` (broadcast, converted) into the tensor.

    >>> copy_(zeros(2), tensor([1, 2]))
    tensor([1., 2.])
    """
    return replace_values(input, src, "copy_", non_blocking)


def with_direct_copy(general: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `copy_` with a fast path for tensors of one shape and dtype."""

    @functools.wraps(general)
    def copy_(input: Tensor, *args: Any, **named: Any) -> Tensor:
        if named or len(args) != 1 or not copied_directly(input, *args):
            return general(input, *args, **named)
        part = None if input._array.base is None else input._array
        (input._writes or writes_of(input)).bump(None, part)
        return input

    return copy_


Tensor.copy_ = with_direct_copy(Tensor.copy_)  # type: ignore[attr-defined]


def replace_values(input: Tensor, src: Tensor, name: str, non_blocking: bool = False) -> Tensor:
    """Write the elements of `src` into `input`, recorded as an in-place op.

    Raises: GradientError: a leaf that requires grad.
    """
    if copied_directly(input, src):
        input._bump()
        return input
    refuse_leaf(input, name)
    before = alias_with_history(input)
    moved = to(src, dtype=input.dtype, device=input.device, non_blocking=non_blocking)
    source = moved.expand(input.shape)
    overwrite(input, copy(before, source), before, name)
    return input


@op(method=False)  # as in PyTorch
def fill(xp: Namespace, input: Array, value: Array | float) -> Array:
    """A copy with every element equal to `value`. The gradient of `input` is 0.

    >>> fill(zeros(2), 7)
    tensor([7., 7.])
    """
    hint = "x.copy_(value) writes a number of its own at each place"
    return xp.full_like(input, scalar_array(xp, "fill", input, value, hint))


def scalar_array(xp: Namespace, name: str, input: Array, value: Any, hint: str) -> Array:
    """Return `value` as a 0-d array with the dtype of `input`.

    Raises: ShapeError: it is not 0-d. DTypeError: it is complex and `input` is real.
    """
    if getattr(value, "ndim", 0):
        rows = {"value": tuple(value.shape)}
        raise ShapeError(name, "only supports a 0-dimensional value", rows, hint)
    value = xp.asarray(value)
    if input.dtype.kind != "c" and value.dtype.kind == "c":
        raise DTypeError(
            name, "a complex value cannot be written among real numbers",
            {"input": input.dtype, "value": value.dtype},
        )  # fmt: skip
    return prepare_cast(value, input.dtype).astype(input.dtype)


fill.vjp(
    input=lambda g: zeros_like(g),
    value=lambda g: g,
    latex={"input": "0", "value": r"\sum g"},
)


@as_method
def fill_(input: Tensor, value: Tensor | Number) -> Tensor:
    """Set every element to `value`.

    >>> fill_(zeros(2), 7)
    tensor([7., 7.])
    """
    return _fill(input, value, "fill_")


def _fill(input: Tensor, value: Tensor | Number, name: str) -> Tensor:
    if not isinstance(value, Tensor) and is_plain_write(input, (value,)):
        write(input, name, input._array.dtype.type(value))
        return input
    refuse_leaf(input, name)
    before = alias_with_history(input)
    overwrite(input, fill(before, before if value is input else value), before, name)
    return input


@as_method
def zero_(input: Tensor) -> Tensor:
    """Set every element to 0.

    >>> zero_(ones(2))
    tensor([0., 0.])
    """
    return _fill(input, 0, "zero_")


# Into a level of `vmap`, and out of it -------------------------------------------------------
#
# Both are ordinary ops, so gradients flow through them: each is the other's gradient. A tensor
# from outside that all examples use (a weight, say) enters unbatched, and its gradient is summed
# over the examples.


@op(linear=True, fast=False, method=False)
def batched(xp: Namespace, input: Array, level: Any, place: int | None) -> Array:
    """The tensor inside a level of vmap: each example gets its slice of dimension `place`.

    With place=None all examples share the tensor.

    >>> vmap(lambda x: x.sum())(tensor([[1.0, 2.0], [3.0, 4.0]]))  # enters by dim 0
    tensor([3., 7.])
    """
    return level.enter(input, place)


@op(linear=True, fast=False, method=False)
def unbatched(xp: Namespace, input: Array, level: Any, place: int | None) -> Array:
    """The tensor outside a level of vmap: the examples are stacked along dimension `place`.

    With place=None they are summed.

    >>> vmap(lambda x: 2 * x, out_dims=1)(tensor([[1.0, 2.0], [3.0, 4.0]]))  # leaves by dim 1
    tensor([[2., 6.],
            [4., 8.]])
    """
    return level.leave(input, place)


batched.vjp(
    input=lambda g, level, place: unbatched(g, level, place),
    latex=r"g\ \text{of all examples}",
)


unbatched.vjp(
    input=lambda g, level, place: batched(g, level, place),
    latex=r"g\ \text{of each example}",
)


def lift_to_level(tensor: Tensor, level: Any) -> Tensor:
    """Return a tensor inside a level: unchanged if it is there, else shared by all examples."""
    inside = backends.of(tensor._array) is level
    return tensor if inside else batched(tensor, level, None)


def lift_to_innermost(tensor: Tensor) -> Tensor:
    """Return a tensor lifted to the innermost active level of vmap.

    With respect to such a tensor each example can be differentiated separately.
    """
    levels = current().batches
    return lift_to_level(tensor, levels[-1]) if levels else tensor


def draw_rows_outside(draw: Callable[[Tensor], Tensor], input: Tensor) -> Tensor:
    """Call `draw`, which samples per row of a matrix, once for the rows of all examples.

    Raises: VmapError: the level has randomness="same".
    """
    level: Any = backends.of(input._array)
    if level.randomness == "same":
        raise VmapError(
            "random",
            "vmap: Vmap does not currently support same randomness with a batched tensor input. "
            "Please use different randomness with vmap",
        )
    batched_generator(None, [level])
    rows = unbatched(input.detach(), level, 0)
    outer = tuple(batch for batch in current().batches if batch.level < level.level)
    with override_modes(batches=outer):
        samples = draw(rows.reshape(-1, rows.shape[-1]))
    return batched(samples.reshape(*rows.shape[:-1], -1), level, 0)
