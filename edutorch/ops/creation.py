"""Creation of tensors from constants and ranges.

Each block computes an array with the device's `xp`; the decorator adds the options that
all of them share: `dtype`, `device`, `requires_grad`, and a shape given as several
integers or as one tuple.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..backends.device import DeviceLike, backend_for
from ..backends.numpy import Array, Namespace, Number, make_full, prepare_cast
from ..core.autograd.versions import InferenceVersionCounter
from ..core.composed import as_method, write_into
from ..core.error_messages import check_memory, is_too_large, memory_error
from ..core.storage import (
    layout,
    make_in_order,
    memory_format,
    memory_order,
    preserve_format,
    strided,
)
from ..core.subclasses import cast_to_class, result_class
from ..core.tensor import PLAIN_TENSORS, Tensor, wrap
from ..dtypes import DTypeLike
from ..errors import (
    ArgumentError,
    DTypeError,
    InvalidValueError,
    NotForTypesError,
    ShapeError,
    ShapeValueError,
    ValueRangeError,
    refuse_complex,
)  # fmt: skip
from ..events import TensorMade, emit
from ..modes import current

__all__ = [
    "arange", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "full", "full_like",
    "linspace", "logspace", "ones", "ones_like", "range", "scalar_tensor", "zeros", "zeros_like",
]  # fmt: skip

LARGE = 2**27
"""The number of elements above which the available memory is checked first."""

CREATIONS: dict[str, Callable[..., Tensor]] = {}
"""The creation functions by name."""


def wrap_new(array: Array, requires_grad: bool = False) -> Tensor:
    """Wrap a new array as a tensor; in inference mode it is an inference tensor."""
    output, modes = wrap(array), current()
    if modes.inference:
        output._writes = InferenceVersionCounter()
    if modes.listeners:
        emit(TensorMade(output))
    return output.requires_grad_() if requires_grad else output


def recorded(name: str, args: Sequence[Any], settings: dict[str, Any], output: Tensor) -> Tensor:
    """Return a new tensor. A capture that keeps creations as nodes replaces this function."""
    return output


def parse_size(op: str, size: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape given as several integers or as one sequence.

    Raises: ShapeError: a size is negative. TypeError: a size is not an integer.
    """
    if len(size) == 1 and not isinstance(size[0], int):
        size = size[0] if isinstance(size[0], Sequence) else (size[0],)
    for count in size:
        if count.__class__ is not int or count < 0:
            break
    else:
        return tuple(size)
    try:
        shape = tuple(map(operator.index, size))
    except TypeError:
        type_names = ", ".join(type(element).__name__ for element in size)
        hint = "a / b gives a float: use a // b" if "float" in type_names else None
        raise ArgumentError(
            op, f"argument `size` must be ints, got {type_names}", hint=hint
        ) from None
    if shape and min(shape) < 0:
        raise ShapeError(op, "a size cannot be negative", {"size": shape})
    return shape


def require_strided(op: str, layout: layout | None) -> None:
    """Raise ValueError for a `layout` other than `strided`."""
    if layout is not None and layout is not strided:
        raise InvalidValueError(op, f"tensors here are strided ones, got layout={layout!r}")


def refuse_storage_dtype(op: str, dtype: Any) -> None:
    """Raise NotForTypesError for a dtype for storage: no values are computed in it."""
    if dtype in dtypes.STORED:
        name = dtypes.of(dtype).name
        raise NotForTypesError(
            op, f"not implemented for {name}, which is for storage", {"dtype": name},
            f"make it of another dtype, and convert it: .to(torch.{name})",
        )  # fmt: skip


COMPUTED = ("arange", "linspace", "logspace", "range")
"""Creation functions that compute values, and so have no dtypes for storage."""

OPTIONS = {
    "out": None, "dtype": None, "layout": None, "device": None, "requires_grad": False,
    "pin_memory": False,
}  # fmt: skip
"""The keyword arguments that every creation function accepts."""


def creation(forward: Callable[..., Array]) -> Callable[..., Tensor]:
    """Make a public creation function from `forward(xp, …, dtype)`."""
    name = forward.__name__
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    takes_sizes = parameters[0].kind is inspect.Parameter.VAR_POSITIONAL
    is_computed = name in COMPUTED

    @functools.wraps(forward)
    def function(
        *args: Any, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False,
        out: Any = None, layout: layout | None = None, pin_memory: bool = False, **named: Any,
    ) -> Tensor:  # fmt: skip
        if takes_sizes:
            args = parse_size(name, (named.pop("size"),) if "size" in named else args)
        if layout is not None:
            require_strided(name, layout)
        if out is not None:
            dtype, device = out.dtype if dtype is None else dtype, out.device
        array_dtype = None if dtype is None else dtypes.array_type(dtype)
        if is_computed and array_dtype is not None:
            refuse_storage_dtype(name, array_dtype)
        backend = backend_for(device)
        if takes_sizes and math.prod(args) > LARGE:
            check_memory(name, args, array_dtype or _dtype_or_default(None), backend.xp)
        try:
            if backend.cards is None:
                made = forward(backend.xp, *args, dtype=array_dtype, **named)
            else:
                made = backend.on_card(forward, backend.xp, *args, dtype=array_dtype, **named)
            is_array = backend is backends.CPU and made.__class__ is np.ndarray
            array = made if is_array else backend.asarray(made)
        except (MemoryError, ValueError) as error:
            raise memory_error(name, error) if is_too_large(error) else error from None
        if out is not None:
            return write_into(name, out, wrap(array))
        return recorded(name, args, named, wrap_new(array, requires_grad))

    keyword = inspect.Parameter.KEYWORD_ONLY
    extra = [inspect.Parameter(option, keyword, default=value) for option, value in OPTIONS.items()]
    own_parameters = [parameter for parameter in parameters if parameter.name != "dtype"]
    function.__signature__ = inspect.Signature([*own_parameters, *extra])  # type: ignore[attr-defined]
    CREATIONS[name] = function
    return function


def scalar_of(op: str, value: Number) -> Any:
    """Return the value of a 0-d tensor; a Python scalar is returned unchanged.

    Raises: ArgumentError: the tensor requires grad, and the scalar would detach it.
    """
    if not isinstance(value, Tensor):
        return value
    if value.requires_grad and current().grad:
        raise ArgumentError(
            op, "expected a number, not a tensor that requires grad: no gradient would reach it",
            {"value": tuple(value.shape)},
            "value.expand(size) keeps the graph; value.item() does not",
        )  # fmt: skip
    return value.item()


def fit_scalar(value: Any, dtype: Any) -> Any:
    """Return a scalar within the range of a dtype for storage, as PyTorch converts it."""
    return prepare_cast(np.asarray(value), dtype).item() if dtype in dtypes.STORED else value


def _dtype_or_default(dtype: DTypeLike) -> Any:
    return dtypes.get_default_dtype().numpy if dtype is None else dtype


@creation
def zeros(xp: Namespace, *size: int, dtype: DTypeLike = None) -> Array:
    """A tensor full of zeros.

    >>> zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return make_full(xp, size, 0, _dtype_or_default(dtype))


@creation
def ones(xp: Namespace, *size: int, dtype: DTypeLike = None) -> Array:
    """A tensor full of ones.

    >>> ones(3)
    tensor([1., 1., 1.])
    """
    return make_full(xp, size, 1, _dtype_or_default(dtype))


@creation
def empty(
    xp: Namespace, *size: int, dtype: DTypeLike = None, memory_format: memory_format | None = None
) -> Array:
    """A tensor with uninitialized elements.

    >>> empty(2, 0).shape
    torch.Size([2, 0])
    """
    array_dtype = _dtype_or_default(dtype)
    order = None if memory_format is None else memory_format.order_of("empty", len(size))
    return make_in_order(lambda shape: xp.empty(shape, array_dtype), size, order)


@creation
def full(
    xp: Namespace, size: Sequence[int], fill_value: Number, *, dtype: DTypeLike = None
) -> Array:
    """A tensor filled with `fill_value`, by default with its dtype.

    >>> full((2,), 7)
    tensor([7, 7])
    """
    fill_value = scalar_of("full", fill_value)
    array_dtype = dtypes.scalar_type(fill_value).numpy if dtype is None else dtype
    fill_value = fit_scalar(fill_value, array_dtype)
    shape = parse_size("full", (size,))
    check_memory("full", shape, array_dtype, xp)
    return make_full(xp, shape, fill_value, array_dtype)


@creation
def eye(xp: Namespace, n: int, m: int | None = None, *, dtype: DTypeLike = None) -> Array:
    """The identity matrix: ones on the diagonal.

    >>> eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    parse_size("eye", (n, n if m is None else m))
    check_memory("eye", (n, n if m is None else m), _dtype_or_default(dtype), xp)
    return xp.eye(n, m, dtype=_dtype_or_default(dtype))


@creation
def arange(
    xp: Namespace, start: Number = 0, end: Number = None, step: Number = 1, *, dtype: Any = None
) -> Array:
    """The values start, start + step, … up to but excluding end.

    Raises: ShapeError: `end` cannot be reached in such steps.

    >>> arange(3), arange(1, 2, 0.5)
    (tensor([0, 1, 2]), tensor([1.0000, 1.5000]))
    """
    refuse_complex("arange", dtype=dtype)
    start, end, step = parse_range("arange", start, end, step, dtype)
    if dtype is None:
        is_integer = isinstance(start, int) and isinstance(end, int) and isinstance(step, int)
        dtype = np.dtype(np.int64) if is_integer else _dtype_or_default(None)
    count = math.ceil((end - start) / step)
    check_memory("arange", (count,), dtype, xp)
    if is_integer_dtype(dtype):
        start, step = integer_steps("arange", start, step)
        values = xp.arange(start, start + count * step, step)
        return values if values.dtype == dtype else values.astype(dtype)
    return xp.arange(start, end, step).astype(dtype)


@creation
def range(
    xp: Namespace, start: Number = 0, end: Number = None, step: Number = 1, *, dtype: Any = None
) -> Array:
    """The values start, start + step, … up to and including `end`. Prefer `arange`.

    >>> edutorch.range(1, 4)
    tensor([1., 2., 3., 4.])
    """
    refuse_complex("range", dtype=dtype)
    start, end, step = parse_range(
        "range", start, end, step, np.int64 if is_integer_dtype(dtype) else None
    )
    count = math.floor((end - start) / step) + 1
    check_memory("range", (count,), _dtype_or_default(dtype), xp)
    return (start + xp.arange(count) * step).astype(_dtype_or_default(dtype))


def parse_range(
    op: str, start: Number, end: Number, step: Number, dtype: DTypeLike
) -> tuple[Any, Any, Any]:
    """Return start, end and step of a range; a single bound is its end."""
    if not start.__class__ is step.__class__ is int or (
        end is not None and end.__class__ is not int
    ):
        start, end, step = (scalar_of(op, bound) for bound in (start, end, step))
        if any(isinstance(bound, complex) for bound in (start, end, step)):
            raise DTypeError(op, "complex numbers have no order")
    if end is None:
        start, end = 0, start
    if not math.isfinite(start) or not math.isfinite(end):
        raise ShapeError(op, f"the range from {start} to {end} is not finite")
    if dtype == np.int64:  # as in PyTorch, smaller integer dtypes are not truncated here
        end = int(end)
        start, step = integer_steps(op, start, step)
    if step == 0 or (end - start) * step < 0:
        raise ShapeError(op, f"from {start} to {end} cannot be reached in steps of {step}")
    return start, end, step


def integer_steps(op: str, start: Number, step: Number) -> tuple[int, int]:
    """Truncate the start and the step of an integer range to integers.

    Raises: ShapeError: the step becomes 0. (PyTorch repeats the start for small dtypes.)
    """
    if int(step) == 0:
        raise ShapeValueError(
            op, f"step must be nonzero, and as an integer {step} is 0",
            hint="leave the dtype out, and convert the result with .long()",
        )  # fmt: skip
    return int(start), int(step)


@creation
def linspace(xp: Namespace, start: Number, end: Number, steps: int, *, dtype: Any = None) -> Array:
    """`steps` evenly spaced values from start to end, both included.

    With an integer `dtype` start and end are truncated to integers first.

    >>> linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    values, array_dtype = evenly_spaced(xp, "linspace", start, end, steps, dtype)
    return values.astype(array_dtype)


@creation
def logspace(
    xp: Namespace, start: Number, end: Number, steps: int, base: float = 10.0, *, dtype: Any = None
) -> Array:
    """`steps` logarithmically spaced values from base^start to base^end, both included.

    With an integer `dtype` start and end are truncated to integers first, base^x afterwards.

    >>> logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    exponents, array_dtype = evenly_spaced(xp, "logspace", start, end, steps, dtype)
    return (base**exponents).astype(array_dtype)


def is_integer_dtype(dtype: np.dtype[Any] | None) -> bool:
    """Return True if a dtype is given and is an integer dtype."""
    return dtype is not None and dtype.kind in "iu"


def evenly_spaced(
    xp: Namespace, op: str, start: Number, end: Number, steps: int, dtype: Any
) -> tuple[Array, np.dtype]:
    """Return evenly spaced values in double precision, and the dtype of the result."""
    start, end = scalar_of(op, start), scalar_of(op, end)
    if is_integer_dtype(dtype):
        start, end = (truncate_bound(op, bound, dtype) for bound in (start, end))
    if steps < 0:
        raise ShapeError(op, f"steps cannot be negative, got {steps}")
    check_memory(op, (steps,), _dtype_or_default(dtype), xp)
    default = dtypes.get_default_dtype()
    if isinstance(start, complex) or isinstance(end, complex):
        return start + xp.linspace(0, 1, steps) * (end - start), dtype or default.to_complex().numpy
    return xp.linspace(start, end, steps), default.numpy if dtype is None else dtype


def truncate_bound(op: str, bound: Number, dtype: np.dtype) -> int:
    """Truncate a bound to an integer of this dtype.

    Raises: ValueRangeError: the dtype cannot represent it.
    """
    integer, limits = int(bound), np.iinfo(dtype)
    if not limits.min <= integer <= limits.max:
        raise ValueRangeError(
            op, f"value cannot be converted to type {dtype} without overflow", {"value": bound},
            f"{dtype} holds numbers from {limits.min} to {limits.max}",
        )  # fmt: skip
    return integer


def scalar_tensor(
    s: Number, *, dtype: DTypeLike = None, layout: layout | None = None, device: DeviceLike = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A 0-d tensor with the value `s`, of the default dtype unless one is given.

    >>> scalar_tensor(3)
    tensor(3.)
    """
    require_strided("scalar_tensor", layout)
    tensor_dtype = dtypes.get_default_dtype() if dtype is None else dtype
    if isinstance(s, complex) and not tensor_dtype.is_complex:
        raise DTypeError(
            "scalar_tensor", f"a complex number is no {tensor_dtype}", hint="give a dtype"
        )
    return full((), s, dtype=tensor_dtype, device=device, requires_grad=requires_grad)


# Other memory orders -----------------------------------------------------------------------------


def empty_strided(
    size: Sequence[int], stride: Sequence[int], *, dtype: DTypeLike = None,
    layout: layout | None = None, device: DeviceLike = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialized tensor with the given strides (in elements).

    Raises: ShapeError: not one stride per axis, or a negative one.

    >>> empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    require_strided("empty_strided", layout)
    if len(size) != len(stride) or any(value < 0 for value in (*size, *stride)):
        rows = {"size": tuple(size), "stride": tuple(stride)}
        raise ShapeError("empty_strided", "needs one step per axis, none negative", rows)
    backend = backend_for(device)
    array_dtype = _dtype_or_default(None) if dtype is None else dtypes.array_type(dtype)
    reach = [(count - 1) * step for count, step in zip(size, stride, strict=True)]
    count = 0 if 0 in size else 1 + sum(reach)
    check_memory("empty_strided", (count,), array_dtype, backend.xp)
    memory = backend.xp.empty(count, array_dtype)
    steps = [step * array_dtype.itemsize for step in stride]
    return wrap_new(backend.as_strided(memory, tuple(size), steps, 0), requires_grad)


def empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], *, dtype: DTypeLike = None,
    layout: layout | None = None, device: DeviceLike = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialized, non-overlapping and dense tensor with the given physical layout.

    Args:
        physical_layout: the axes by decreasing stride.

    >>> empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    require_strided("empty_permuted", layout)
    if sorted(physical_layout) != list(builtins.range(len(size))):
        rows = {"size": tuple(size), "physical_layout": tuple(physical_layout)}
        raise ShapeError("empty_permuted", "physical_layout must name each axis once", rows)
    xp = backend_for(device).xp
    array_dtype = _dtype_or_default(None) if dtype is None else dtypes.array_type(dtype)
    check_memory("empty_permuted", tuple(size), array_dtype, xp)
    array = make_in_order(lambda shape: xp.empty(shape, array_dtype), size, tuple(physical_layout))
    return wrap_new(array, requires_grad)


# As another tensor ---------------------------------------------------------------------------


def make_like(
    input: Any, make: str, dtype: DTypeLike, device: DeviceLike, requires_grad: bool, *args: Any,
    layout: layout | None = None, memory_format: memory_format | None = None,
) -> Any:  # fmt: skip
    """Make a tensor of the shape, dtype and device of `input` (an array for an array).

    Its memory order is that of `input`, unless `memory_format` is given.
    """
    array = input._array if isinstance(input, Tensor) else input
    array = np.asarray(array) if isinstance(array, np.generic) else array
    is_plain = input.__class__ in PLAIN_TENSORS
    if not is_plain and make == "zeros" and hasattr(input, "make_empty"):  # a sparse tensor
        return input.make_empty(dtype, device, requires_grad)
    backend = backends.of(array) if device is None else backend_for(device)
    array_dtype = array.dtype if dtype is None else dtypes.array_type(dtype)
    build = getattr(backend.xp, make)
    if args:
        args = tuple(fit_scalar(value, array_dtype) for value in args)
    if not isinstance(input, Tensor):
        return build(array.shape, *args, dtype=array_dtype)
    require_strided(f"{make}_like", layout)
    if memory_format is None or memory_format is preserve_format:
        order = memory_order(array)
    else:
        order = memory_format.order_of(f"{make}_like", array.ndim)
    check_memory(f"{make}_like", array.shape, array_dtype, backend.xp)
    result_array = make_in_order(
        lambda shape: build(shape, *args, dtype=array_dtype), array.shape, order
    )
    output = recorded(make, (array.shape, *args), {}, wrap_new(result_array, requires_grad))
    if not is_plain:
        if hasattr(input, "same_layout"):  # a DTensor: `array` is its local part
            return input.same_layout(output)
        output = cast_to_class(result_class([input]) or Tensor, output)
    return output


def zeros_like(
    input: Tensor, *, dtype: DTypeLike = None, layout: layout | None = None,
    device: DeviceLike = None, requires_grad: bool = False,
    memory_format: memory_format | None = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Zeros in the shape of another tensor.

    >>> zeros_like(tensor([1, 2]))
    tensor([0, 0])
    """
    return make_like(
        input, "zeros", dtype, device, requires_grad, layout=layout, memory_format=memory_format
    )


def ones_like(
    input: Tensor, *, dtype: DTypeLike = None, layout: layout | None = None,
    device: DeviceLike = None, requires_grad: bool = False,
    memory_format: memory_format | None = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Ones in the shape of another tensor.

    >>> ones_like(tensor([3, 4]))
    tensor([1, 1])
    """
    return make_like(
        input, "ones", dtype, device, requires_grad, layout=layout, memory_format=memory_format
    )


def empty_like(
    input: Tensor, *, dtype: DTypeLike = None, layout: layout | None = None,
    device: DeviceLike = None, requires_grad: bool = False,
    memory_format: memory_format | None = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialized tensor in the shape of another.

    >>> empty_like(zeros(0)).shape
    torch.Size([0])
    """
    return make_like(
        input, "empty", dtype, device, requires_grad, layout=layout, memory_format=memory_format
    )


def full_like(
    input: Tensor, fill_value: Number, *, dtype: DTypeLike = None, layout: layout | None = None,
    device: DeviceLike = None, requires_grad: bool = False,
    memory_format: memory_format | None = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor filled with `fill_value` in the shape of another tensor.

    >>> full_like(tensor([1, 2]), 7)
    tensor([7, 7])
    """
    return make_like(
        input, "full", dtype, device, requires_grad, scalar_of("full_like", fill_value),
        layout=layout, memory_format=memory_format,
    )  # fmt: skip


def _make_new(input: Tensor, make: str, size: Any, named: dict[str, Any], *value: Any) -> Tensor:
    dtype, device = named.pop("dtype", None), named.pop("device", None)
    requires_grad = named.pop("requires_grad", False)
    require_strided(f"new_{make}", named.pop("layout", None))
    named.pop("pin_memory", None)
    if "size" in named:
        size = (named.pop("size"),)
    if named:
        raise TypeError(f"new_{make}: unexpected arguments {', '.join(named)}")
    backend = backends.of(input._array) if device is None else backend_for(device)
    array_dtype = input._array.dtype if dtype is None else dtypes.array_type(dtype)
    shape = parse_size(f"new_{make}", size)
    check_memory(f"new_{make}", shape, array_dtype, backend.xp)
    values = [fit_scalar(number, array_dtype) for number in value]
    array = getattr(backend.xp, make)(shape, *values, dtype=array_dtype)
    return recorded(make, (shape, *values), {}, wrap_new(array, requires_grad))


@as_method
def new_zeros(input: Tensor, *size: Any, **named: Any) -> Tensor:
    """Zeros of another shape, with the dtype and device of this tensor.

    >>> tensor([1]).new_zeros(2)
    tensor([0, 0])
    """
    return _make_new(input, "zeros", size, named)


@as_method
def new_ones(input: Tensor, *size: Any, **named: Any) -> Tensor:
    """Ones of another shape, with the dtype and device of this tensor.

    >>> tensor([1]).new_ones((2,))
    tensor([1, 1])
    """
    return _make_new(input, "ones", size, named)


@as_method
def new_empty(input: Tensor, *size: Any, **named: Any) -> Tensor:
    """An uninitialized tensor of another shape, with the dtype and device of this one.

    >>> tensor([1]).new_empty(0).dtype
    torch.int64
    """
    return _make_new(input, "empty", size, named)


@as_method
def new_full(input: Tensor, size: Any, fill_value: Number, **named: Any) -> Tensor:
    """A filled tensor of another shape, with the dtype and device of this tensor.

    >>> tensor([1.0]).new_full((2,), 7)
    tensor([7., 7.])
    """
    return _make_new(input, "full", (size,), named, scalar_of("new_full", fill_value))


@as_method
def new_empty_strided(
    input: Tensor, size: Any, stride: Any, dtype: DTypeLike = None, layout: layout | None = None,
    device: DeviceLike = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialized tensor with the given strides, with the dtype and device of this one.

    >>> tensor([1]).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    return empty_strided(
        size, stride, dtype=dtype or input.dtype, layout=layout, device=device or input.device,
        requires_grad=requires_grad,
    )  # fmt: skip
