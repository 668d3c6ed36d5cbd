"""Tensors from numbers that are there already: Python's, NumPy's, another tensor's."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..core.tensor import Tensor
from ..device import backend_for
from ..errors import ShapeError
from .creation import created, strided_only


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
    array = array.copy() if array is data or array.base is not None else array
    return created(backend.from_numpy(array), requires_grad)


def host_array(data: Any, dtype: Any = None) -> np.ndarray:
    """Read numbers of any kind into a NumPy array of the type PyTorch would choose."""
    if isinstance(data, Tensor):
        array = backends.of(data._array).to_numpy(data._array)
    elif isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
    else:
        array = from_lists(data)
        if dtype is None:
            dtype = python_type(array)
    kind = array.dtype if dtype is None else dtypes.array_type(dtype)
    dtypes.of(kind)
    return array if array.dtype == kind else array.astype(kind)


def from_lists(data: Any) -> np.ndarray:
    """Read nested lists of numbers (or 0-d tensors), floats in full precision."""
    data = numbers_of(data)
    try:
        array = np.array(data)
    except ValueError:
        raise ragged(data) from None
    if array.dtype.kind in "OUS":
        raise TypeError(f"tensor: cannot make numbers of {type(data).__name__}: {str(data)[:60]}")
    return array


def python_type(array: np.ndarray) -> dtypes.dtype | None:
    """Return the default type for Python's floats and complex numbers, which carry none."""
    default = dtypes.get_default_dtype()
    return {"f": default, "c": default.to_complex()}.get(array.dtype.kind)


def numbers_of(data: Any) -> Any:
    if isinstance(data, list | tuple):
        return [numbers_of(each) for each in data]
    return data.tolist() if isinstance(data, Tensor | np.ndarray | np.generic) else data


def ragged(data: Any) -> ShapeError:
    """Say where nested lists differ in length."""
    path, level = "data", data
    while True:
        lengths = [len(each) if isinstance(each, list) else None for each in level]
        odd = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
        if odd is not None:
            return ShapeError(
                "tensor",
                "all lists at one depth must have the same length",
                {f"len({path}[0])": lengths[0], f"len({path}[{odd}])": lengths[odd]},
                "pad the shorter ones, or keep a list of tensors",
            )
        deeper = [i for i, each in enumerate(level) if isinstance(each, list) and each]
        first = next((i for i in deeper if _is_ragged(level[i])), None)
        if first is None:  # the lists agree within each branch, but not between them
            return ShapeError("tensor", "the nested lists differ in depth or length")
        path, level = f"{path}[{first}]", level[first]


def _is_ragged(data: Any) -> bool:
    try:
        np.array(data)
    except ValueError:
        return True
    return False


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Make a tensor from anything, sharing memory with a tensor or array where possible.

    >>> x = ones(2)
    >>> as_tensor(x) is x
    True
    """
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    backend = backend_for(device)
    return created(backend.from_numpy(host_array(data, dtype)))


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """Make a CPU tensor of the same memory as a NumPy array.

    >>> import numpy
    >>> a = numpy.zeros(2); x = from_numpy(a); a[0] = 5; x
    tensor([5., 0.], dtype=torch.float64)
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy: expected a NumPy array, got {type(ndarray).__name__}")
    dtypes.of(ndarray.dtype)
    return created(ndarray)


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
    shared = y is obj or y._array is source or getattr(y._array, "base", None) is source
    if copy is False and not shared:
        raise ValueError("asarray: a copy is needed here, but copy=False")
    if copy and shared:
        y = y.detach().clone()
    elif y is obj and y.requires_grad and not requires_grad:
        y = y.detach()
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
    return created(np.frombuffer(buffer, dtypes.array_type(dtype), count, offset), requires_grad)


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
    strided_only("from_file", layout)
    kind = dtypes.array_type(dtype or dtypes.get_default_dtype())
    if not size:
        return created(np.zeros(0, kind))
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
    return created(np.frombuffer(memory, kind))
