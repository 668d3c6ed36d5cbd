"""Tensors from existing data: Python lists, NumPy arrays, buffers, files, other tensors."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..backends.aliased_array import as_plain_array, mark_shared
from ..backends.device import backend_for
from ..core.tensor import Tensor
from ..errors import ArgumentError, InvalidValueError, ShapeError
from .creation import require_strided, wrap_new
from .nested_lists import array_from_lists


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
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


def host_array(data: Any, dtype: Any = None) -> np.ndarray:
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
    return as_plain_array(array if array.dtype == array_dtype else array.astype(array_dtype))


def wrap_shared(array: np.ndarray, requires_grad: bool = False) -> Tensor:
    """Make a tensor of memory that is shared with its owner (see `core/numpy_aliasing.py`)."""
    return wrap_new(mark_shared(array), requires_grad)


def check_layout(op: str, array: np.ndarray) -> np.ndarray:
    """Return an array whose memory a tensor can use.

    Raises: ValueError: it has a negative stride, or another byte order.
    """
    if any(step < 0 for step in array.strides):
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


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
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


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
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
    device_type = ext_tensor.__dlpack_device__()[0]
    backend = backends.get("cuda" if device_type == 2 else "cpu")
    array = backend.xp.from_dlpack(ext_tensor)
    tensor = (
        wrap_shared(check_layout("from_dlpack", array)) if device_type != 2 else wrap_new(array)
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
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
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


def is_buffer(obj: Any) -> bool:
    """Return True for an object with the buffer protocol, such as bytes."""
    return isinstance(obj, bytes | bytearray | memoryview)


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
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
    filename: Any, shared: bool | None = None, size: int = 0, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False,
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
