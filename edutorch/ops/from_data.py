"""Tensors from numbers that are there already: Python's, NumPy's, another tensor's."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..backends.aliased_array import plain, shared
from ..backends.device import backend_for
from ..core.tensor import Tensor
from ..errors import ArgumentError, InvalidValueError, ShapeError
from .creation import wrap_new, require_strided
from .nested_lists import array_from_lists


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor from a number, nested lists or an array; the numbers are copied.

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
    """Read numbers of any kind into a NumPy array of the type PyTorch would choose."""
    if isinstance(data, Tensor):
        array = backends.of(data._array).to_numpy(data._array)
    elif isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
    elif hasattr(data, "__array__"):
        array = data.__array__()
    else:
        return array_from_lists(data, dtype)
    kind = array.dtype if dtype is None else dtypes.array_type(dtype)
    if dtype is None:
        dtypes.of(kind)
    return plain(array if array.dtype == kind else array.astype(kind))


def wrap_shared(array: np.ndarray, requires_grad: bool = False) -> Tensor:
    """Make a tensor of memory that somebody else holds as well (see `core/numpy_aliasing.py`)."""
    return wrap_new(shared(array), requires_grad)


def check_layout(op: str, array: np.ndarray) -> np.ndarray:
    """Raise ValueError for an array whose memory a tensor cannot show.

    Raises: ValueError: it is read backwards, or in another byte order.
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

    As long as somebody else holds the array, values saved of the tensor for backward are
    copied: a write from NumPy's side then makes no gradient wrong.

    Raises: TypeError: no array, or of a type that tensors do not have. ValueError: its
        memory is read backwards, or in another byte order.

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
    """Make a tensor of the memory of another library's array or tensor, without a copy.

    Args:
        ext_tensor: anything with `__dlpack__`, or the capsule that this returns.
        copy: True for a copy in any case.

    Raises: TypeError: it offers no memory. BufferError: it has a type that NumPy has not.

    >>> import numpy
    >>> from_dlpack(numpy.ones(2))
    tensor([1., 1.], dtype=torch.float64)
    """
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = Capsule(ext_tensor)
    if not hasattr(ext_tensor, "__dlpack__"):
        raise ArgumentError("from_dlpack", f"{type(ext_tensor).__name__} has no __dlpack__")
    kind = ext_tensor.__dlpack_device__()[0]
    backend = backends.get("cuda" if kind == 2 else "cpu")
    made = backend.xp.from_dlpack(ext_tensor)
    tensor = wrap_shared(check_layout("from_dlpack", made)) if kind != 2 else wrap_new(made)
    tensor = tensor.to(device) if device is not None else tensor
    return tensor.clone() if copy else tensor


class Capsule:
    """Memory on the CPU as `to_dlpack` hands it over: to be taken once."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **asked: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor from anything: of its memory, or of a copy.

    Args:
        copy: True to copy in any case, False to refuse where a copy would be needed.

    Raises: ValueError: a copy is needed, but not allowed.

    >>> asarray([1.0, 2.0])
    tensor([1., 2.])
    """
    if isinstance(obj, np.generic):  # 0-d, and not to be shared
        obj = np.asarray(obj)
    if not isinstance(obj, Tensor) and not isinstance(obj, np.ndarray) and is_buffer(obj):
        obj = np.frombuffer(obj, (dtype or dtypes.get_default_dtype()).numpy)
    y = as_tensor(obj, dtype=dtype, device=device)
    source = obj._array if isinstance(obj, Tensor) else obj
    same = y is obj or y._array is source or getattr(y._array, "base", None) is source
    if copy is False and not same:
        raise InvalidValueError("asarray", "a copy is needed here, but copy=False")
    if copy and same:
        y = y.clone()
    return y.requires_grad_() if requires_grad else y


def is_buffer(obj: Any) -> bool:
    """Say whether it is plain memory, such as bytes."""
    return isinstance(obj, bytes | bytearray | memoryview)


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Make a CPU tensor of the memory of another object, such as a `bytearray`.

    Args:
        count: how many numbers; -1 for all.
        offset: how many bytes to leave out at the beginning.

    Raises: ValueError: the memory ends before, or not behind a whole number.

    >>> frombuffer(bytearray([1, 2, 3]), dtype=uint8, offset=1)
    tensor([2, 3], dtype=torch.uint8)
    """
    array = np.frombuffer(buffer, dtypes.array_type(dtype), count, offset)
    return wrap_shared(array, requires_grad)


def from_file(
    filename: Any, shared: bool | None = None, size: int = 0, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a CPU tensor of the numbers in a file, which is read as they are needed.

    Args:
        shared: write what is written to the tensor into the file, too, which is made
            large enough first.
        size: how many numbers.

    Raises: ShapeError: the file has fewer numbers.

    >>> from_file("/dev/null", size=0).shape
    torch.Size([0])
    """
    require_strided("from_file", layout)
    kind = dtypes.array_type(dtype or dtypes.get_default_dtype())
    if not size:
        return wrap_new(np.zeros(0, kind))
    needed = size * kind.itemsize
    if shared:
        with open(filename, "ab") as file:
            if file.tell() < needed:
                file.truncate(needed)
    elif os.path.getsize(filename) < needed:
        raise ShapeError(
            "from_file", f"{size} numbers need {needed} bytes",
            {"file": f"{os.path.getsize(filename)} bytes"},
        )  # fmt: skip
    memory = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(needed,))
    return wrap_shared(np.frombuffer(memory, kind))
