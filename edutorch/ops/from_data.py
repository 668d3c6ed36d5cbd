"""Tensors from existing data: Python lists, NumPy arrays, buffers, files, other tensors."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..backends.device import DeviceLike, backend_for
from ..backends.numpy import as_plain_array, mark_shared, prepare_cast
from ..core.composed import as_method
from ..core.storage import UntypedStorage, layout
from ..core.tensor import Tensor
from ..dtypes import DTypeLike
from ..errors import (
    ArgumentError,
    DTypeError,
    InvalidValueError,
    RaggedError,
    ShapeError,
    ValueRangeError,
)
from .creation import require_strided, wrap_new

__all__ = ["as_tensor", "asarray", "from_dlpack", "from_file", "from_numpy", "frombuffer", "tensor"]

# Nested lists: shape, dtype and errors -------------------------------------------------------


SCALAR_TYPES = frozenset((bool, int, float, complex))


SEQUENCES = frozenset((list, tuple))


def is_sequence(data: object) -> bool:
    """Return True if `data` is a list or a sequence-like object."""
    if data.__class__ in SEQUENCES or isinstance(data, list | tuple | range):
        return True
    if isinstance(data, str | bytes | dict | Tensor | np.ndarray | np.generic):
        return False
    return hasattr(data, "__len__") and hasattr(data, "__getitem__")


def array_from_lists(data: Any, dtype: DTypeLike = None) -> np.ndarray:
    """Convert nested lists of numbers, NumPy scalars, arrays and single-element tensors.

    Without `dtype` it is inferred: the default dtype for Python floats, and else the
    promotion of the dtypes of all elements.

    Raises: RaggedError: lists of one depth differ in length. DTypeError, TypeError: not
        numbers. ValueRangeError: a value that the dtype cannot represent.
    """
    element_types: set[Any] = set()
    shape = shape_of(data)
    data_read = read_list(data, shape, 0, "data", element_types)
    result_dtype = (
        common_dtype(element_types) if dtype is None else dtypes.of(dtypes.array_type(dtype))
    )
    if not result_dtype.is_complex and complex in element_types:
        raise ArgumentError("tensor", f"must be real numbers for {result_dtype}, not complex ones")
    try:
        array = np.array(data_read, object if is_too_large(data_read, shape) else None)
        if array.dtype.kind in "Ouif" and not (
            result_dtype.is_floating_point or result_dtype.is_complex
        ):
            check_range(array, result_dtype)
        if result_dtype.is_storage:
            array = prepare_cast(array, result_dtype.numpy)
        array = array.astype(result_dtype.numpy, copy=False)
        return array if array.shape == shape else array.reshape(shape)
    except OverflowError:
        raise overflow_error(result_dtype) from None


def scalar_like(op: str, number: Any, array: Any) -> Any:
    """Return a Python scalar as an array of the dtype and on the device of another one.

    uint8 wraps negative values as in PyTorch: -1 is 255.

    Raises: ValueRangeError: the integer dtype cannot represent it.
    """
    backend, dtype = backends.of(array), array.dtype
    try:
        return backend.asarray(number, dtype)
    except (OverflowError, ValueError):
        if not isinstance(number, int | float):
            raise
        if dtype.kind == "u" and isinstance(number, int) and -256 < number < 0:
            return backend.asarray(number % 256, dtype)
        raise ValueRangeError(
            op,
            f"value cannot be converted to {dtypes.of(dtype)} without overflow",
            {"value": number},
        ) from None


def is_too_large(data: Any, shape: tuple[int, ...]) -> bool:
    """Return True for a single integer that exceeds NumPy's integer dtypes."""
    return not shape and isinstance(data, int) and not -(2**63) <= data < 2**64


def shape_of(data: Any) -> tuple[int, ...]:
    """Return the shape, read from the first element of each list."""
    shape: list[int] = []
    while is_sequence(data):
        shape.append(len(data))
        if not shape[-1]:
            return tuple(shape)
        data = data[0]
    if isinstance(data, Tensor) and shape and data.numel() == 1:
        return tuple(shape)  # in a list a single-element tensor counts as a scalar, as in PyTorch
    if isinstance(data, Tensor | np.ndarray):
        shape += data.shape
    return tuple(shape)


def read_list(
    data: Any, shape: tuple[int, ...], depth: int, path: str, element_types: set[Any]
) -> Any:
    """Return `data` with Python scalars and arrays only; add their types to `element_types`."""
    if not is_sequence(data):
        return read_element(data, shape, depth, path, element_types)
    if depth == len(shape):
        raise RaggedError(
            "tensor", "a list stands where a number was expected", {path: short_repr(data)}, HINT
        )
    if len(data) != shape[depth]:
        raise RaggedError(
            "tensor",
            f"expected sequence of length {shape[depth]} at dim {depth} (got {len(data)})",
            {f"len({path})": len(data), f"len({first_path(path)})": shape[depth]},
            HINT,
        )
    if depth == len(shape) - 1:
        types = set(map(type, data))
        if types <= SCALAR_TYPES:  # a row of plain numbers, the usual case
            element_types |= types
            return data
    return [
        read_list(item, shape, depth + 1, f"{path}[{i}]", element_types)
        for i, item in enumerate(data)
    ]


HINT = "pad the shorter ones (nn.utils.rnn.pad_sequence), or keep a list of tensors"


def first_path(path: str) -> str:
    """Return the path of the first list of the same depth: "data[0][0]" for "data[1][2]"."""
    return "data" + "[0]" * path.count("[")


def short_repr(data: object) -> str:
    """Return `repr(data)`, at most 60 characters long."""
    text = repr(data)
    return text if len(text) < 60 else text[:57] + "..."


def read_element(
    data: Any, shape: tuple[int, ...], depth: int, path: str, element_types: set[Any]
) -> Any:
    """Return a scalar, an array or a tensor as Python scalar or array."""
    if data.__class__ in SCALAR_TYPES:
        element_types.add(data.__class__)
    elif isinstance(data, Tensor):
        if depth and data.numel() != 1:
            raise RaggedError(
                "tensor", "only one element tensors can be converted to Python scalars",
                {path: f"a tensor of shape {tuple(data.shape)}"},
                "torch.stack(list) puts tensors of one shape together, torch.cat joins them",
            )  # fmt: skip
        element_types.add(data.dtype)
        data = backends.of(data._array).to_numpy(data._array)
        data = data.reshape(()) if depth and depth == len(shape) else data
    elif isinstance(data, np.generic | np.ndarray):
        element_types.add(dtypes.of(data.dtype))
        data = np.asarray(data)
    elif isinstance(data, bool | int | float | complex):
        element_types.add(
            next(
                number_type
                for number_type in (bool, int, float, complex)
                if isinstance(data, number_type)
            )
        )
    else:
        raise not_numbers_error(data, path)
    shape_here = data.shape if isinstance(data, np.ndarray) else ()
    if tuple(shape_here) != shape[depth:]:
        raise RaggedError(
            "tensor", f"a sequence was expected at dim {depth}: not a sequence",
            {path: short_repr(data), "shape expected": shape[depth:]}, HINT,
        )  # fmt: skip
    return data.tolist() if isinstance(data, np.ndarray) and data.dtype.kind == "V" else data


def not_numbers_error(data: Any, path: str) -> Exception:
    """Make the error for something that is neither a number nor a list."""
    type_name = type(data).__name__
    if isinstance(data, str | bytes):
        return TypeError(
            f"tensor: invalid data type '{type_name}': {path} is {short_repr(data)}\n"
            "  hint: give each word a number first, for example its place in a list of all words"
        )
    hints = {"generator": "list(...) of it", "dict": "list(x.values())", "set": "sorted(x)"}
    hint = hints.get(type_name)
    return DTypeError(
        "tensor", f"Could not infer dtype of {type_name}", {path: short_repr(data)},
        f"a tensor is made of numbers: {hint}" if hint else None,
    )  # fmt: skip


def common_dtype(element_types: set[Any]) -> dtypes.dtype:
    """Return the dtype to which these types are promoted in PyTorch."""
    default = dtypes.get_default_dtype()
    dtype_of_type = {
        bool: dtypes.bool,
        int: dtypes.int64,
        float: default,
        complex: default.to_complex(),
    }
    result = None
    for element_type in element_types:
        element_type = dtype_of_type.get(element_type, element_type)
        result = element_type if result is None else dtypes.promote_types(result, element_type)
    return default if result is None else result


def check_range(array: np.ndarray, dtype: dtypes.dtype) -> None:
    """Raise ValueRangeError if an integer dtype cannot represent one of the values.

    Negative values wrap around in unsigned dtypes, as in PyTorch.
    """
    if dtype.numpy.kind == "b" or not array.size:
        return
    limits = np.iinfo(dtype.numpy)
    low = limits.min if limits.min else -limits.max
    least, most = array.min(), array.max()
    if not (low <= least and most <= limits.max):  # also if it is NaN
        raise overflow_error(dtype)


def overflow_error(dtype: dtypes.dtype) -> ValueRangeError:
    """Make the error for a value that a dtype cannot represent."""
    return ValueRangeError(
        "tensor", f"value cannot be converted to type {dtype.name} without overflow",
        hint="a type with more bits, or float64, holds larger numbers",
    )  # fmt: skip


# Public functions ----------------------------------------------------------------------------


def tensor(
    data: Any, *, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor from a scalar, nested lists or an array; the data is copied.

    Raises: ShapeError: the nested lists are not all of one length.

    >>> tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, Tensor) and device is None:
        device = data.device
    backend = backend_for(device)
    array = host_array(data, dtype)
    if array is data or array.base is not None or isinstance(data, Tensor):
        array = array.copy()
    return wrap_new(backend.from_numpy(array), requires_grad)


def host_array(data: Any, dtype: DTypeLike = None) -> np.ndarray:
    """Return any data as a NumPy array of the dtype that PyTorch would choose."""
    if isinstance(data, Tensor):
        array = backends.of(data._array).to_numpy(data._array)
    elif isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
    elif hasattr(data, "__array__"):
        array = data.__array__()
    else:
        return array_from_lists(data, dtype)
    array_dtype = array.dtype if dtype is None else dtypes.array_type(dtype)
    if dtype is None:
        dtypes.of(array_dtype)
    if array.dtype != array_dtype:
        array = prepare_cast(array, array_dtype).astype(array_dtype)
    return as_plain_array(array)


def wrap_shared(array: np.ndarray, requires_grad: bool = False) -> Tensor:
    """Make a tensor of memory that is shared with its owner (see `core/numpy_aliasing.py`)."""
    return wrap_new(mark_shared(array), requires_grad)


def check_layout(op: str, array: np.ndarray) -> np.ndarray:
    """Return an array whose memory a tensor can use.

    Raises: ValueError: it has a negative stride, or another byte order.
    """
    if array.strides and min(array.strides) < 0:
        raise InvalidValueError(
            op,
            "at least one stride in the given numpy array is negative, and tensors with "
            "negative strides are not supported",
            hint="array.copy() has none",
        )
    if not array.dtype.isnative:
        raise InvalidValueError(
            op, "the given numpy array has byte order different from the native byte order",
            hint="array.astype(array.dtype.newbyteorder('='))",
        )  # fmt: skip
    return array


def as_tensor(data: Any, dtype: DTypeLike = None, device: DeviceLike = None) -> Tensor:
    """Make a tensor from anything, sharing memory with a tensor or array where possible.

    >>> x = ones(2)
    >>> as_tensor(x) is x
    True
    """
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    backend = backend_for(device)
    array = host_array(data, dtype)
    if (
        backend is backends.CPU
        and isinstance(data, np.ndarray)
        and np.may_share_memory(array, data)
    ):
        return wrap_shared(check_layout("as_tensor", array))
    return wrap_new(backend.from_numpy(array))


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """Make a CPU tensor of the same memory as a NumPy array.

    As long as there are other references to the array, tensors saved for backward are copied,
    so that a write through NumPy cannot corrupt a gradient.

    Raises: TypeError: not an array, or of an unsupported dtype. ValueError: it has a negative
        stride, or another byte order.

    >>> import numpy
    >>> a = numpy.zeros(2); x = from_numpy(a); a[0] = 5; x
    tensor([5., 0.], dtype=torch.float64)
    """
    if not isinstance(ndarray, np.ndarray):
        raise ArgumentError("from_numpy", f"expected a NumPy array, got {type(ndarray).__name__}")
    check_layout("from_numpy", ndarray)
    dtypes.of(ndarray.dtype)
    return wrap_shared(ndarray)


def from_dlpack(ext_tensor: Any, *, device: DeviceLike = None, copy: bool | None = None) -> Tensor:
    """Make a tensor that shares the memory of another library's array or tensor.

    Args:
        ext_tensor: an object with `__dlpack__`, or the capsule that it returns.
        copy: True to always copy.

    Raises: TypeError: no `__dlpack__`. BufferError: a dtype that NumPy does not have.

    >>> import numpy
    >>> from_dlpack(numpy.ones(2))
    tensor([1., 1.], dtype=torch.float64)
    """
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = Capsule(ext_tensor)
    if not hasattr(ext_tensor, "__dlpack__"):
        raise ArgumentError("from_dlpack", f"{type(ext_tensor).__name__} has no __dlpack__")
    if isinstance(ext_tensor, Tensor) and backends.of(ext_tensor._array).is_simulated:
        tensor = ext_tensor.detach()  # it stays on its card, which only this library knows
        return tensor.clone() if copy else tensor if device is None else tensor.to(device)
    backend = backends.from_dlpack_type(ext_tensor.__dlpack_device__()[0])
    array = backend.xp.from_dlpack(ext_tensor)
    tensor = (
        wrap_shared(check_layout("from_dlpack", array))
        if not backend.is_accelerator
        else wrap_new(array)
    )
    tensor = tensor.to(device) if device is not None else tensor
    return tensor.clone() if copy else tensor


class Capsule:
    """A DLPack capsule of CPU memory, with the methods of the DLPack protocol."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def asarray(
    obj: Any, *, dtype: DTypeLike = None, device: DeviceLike = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor from any data, sharing memory unless a copy is needed or requested.

    Args:
        copy: True to always copy, False to raise an error where a copy is needed.

    Raises: ValueError: a copy is needed, but copy=False.

    >>> asarray([1.0, 2.0])
    tensor([1., 2.])
    """
    if isinstance(obj, np.generic):  # 0-d, its memory cannot be shared
        obj = np.asarray(obj)
    if isinstance(obj, UntypedStorage):
        obj = obj.elements()
    if not isinstance(obj, Tensor) and not isinstance(obj, np.ndarray) and is_buffer(obj):
        obj = np.frombuffer(obj, (dtype or dtypes.get_default_dtype()).numpy)
    y = as_tensor(obj, dtype=dtype, device=device)
    source = obj._array if isinstance(obj, Tensor) else obj
    is_shared = y is obj or y._array is source or getattr(y._array, "base", None) is source
    if copy is False and not is_shared:
        raise InvalidValueError("asarray", "a copy is needed here, but copy=False")
    if copy and is_shared:
        y = y.clone()
    return y.requires_grad_() if requires_grad else y


def is_buffer(obj: object) -> bool:
    """Return True for an object with the buffer protocol, such as bytes."""
    return isinstance(obj, bytes | bytearray | memoryview)


def frombuffer(
    buffer: Any, *, dtype: DTypeLike, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Make a CPU tensor that shares the memory of a buffer, such as a `bytearray`.

    Args:
        count: the number of elements; -1 for all.
        offset: the number of bytes to skip.

    Raises: ValueError: the buffer is too small, or not a multiple of the element size.

    >>> frombuffer(bytearray([1, 2, 3]), dtype=uint8, offset=1)
    tensor([2, 3], dtype=torch.uint8)
    """
    array = np.frombuffer(buffer, dtypes.array_type(dtype), count, offset)
    return wrap_shared(array, requires_grad)


def from_file(
    filename: Any, shared: bool | None = None, size: int = 0, *, dtype: DTypeLike = None,
    layout: layout | None = None, device: DeviceLike = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a CPU tensor of a memory-mapped file.

    Args:
        shared: whether writes to the tensor go to the file too, which is extended if needed.
        size: the number of elements.

    Raises: ShapeError: the file has fewer elements.

    >>> from_file("/dev/null", size=0).shape
    torch.Size([0])
    """
    require_strided("from_file", layout)
    array_dtype = dtypes.array_type(dtype or dtypes.get_default_dtype())
    if not size:
        return wrap_new(np.zeros(0, array_dtype))
    byte_count = size * array_dtype.itemsize
    if shared:
        with open(filename, "ab") as file:
            if file.tell() < byte_count:
                file.truncate(byte_count)
    elif os.path.getsize(filename) < byte_count:
        raise ShapeError(
            "from_file", f"{size} numbers need {byte_count} bytes",
            {"file": f"{os.path.getsize(filename)} bytes"},
        )  # fmt: skip
    memory = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(byte_count,))
    return wrap_shared(np.frombuffer(memory, array_dtype))


@as_method
def new_tensor(
    input: Tensor, data: Any, *, dtype: DTypeLike = None, device: DeviceLike = None,
    requires_grad: bool = False, layout: layout | None = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of the given data, with the dtype and device of this one.

    >>> tensor([1.0]).new_tensor([2, 3])
    tensor([2., 3.])
    """
    require_strided("new_tensor", layout)
    return tensor(
        data, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad
    )
