"""Copies of tensors: `copy.copy`, `copy.deepcopy`, pickle.

Tensors that share memory still share it among their copies, if they are copied or
pickled together. Its graph and its hooks are not copied.
"""

from __future__ import annotations

import copy
from typing import Any, SupportsIndex

import numpy as np

from .. import backends
from ..backends.device import Device
from ..backends.numpy import Array, Backend, Exported, Shared, as_plain_array, owner
from ..errors import GradientError, warn
from .autograd.graph import LEAF
from .tensor import Tensor, fill, share_version


def copy_tensor(self: Tensor) -> Any:
    """Return a second tensor of the same memory, with the same attributes: a leaf."""
    copied = share_version(fill(object.__new__(type(self)), self._array), self)
    # A second object cannot share a node: its gradient would arrive twice.
    copied._node = None if self._node is None else LEAF
    copied.__dict__.update(attributes(self))
    return copied


def deepcopy_tensor(self: Tensor, memo: dict[int, Any]) -> Any:
    """Return a tensor with its own copy of the elements and attributes.

    Raises: GradientError: it was computed, and its history cannot be copied.
    """
    # `deepcopy` of a list with one tensor twice returns one copy, twice.
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise GradientError(
            "deepcopy",
            "Only Tensors created explicitly by the user (graph leaves) support the "
            "deepcopy protocol at the moment",
            hint="use x.clone(), which stays in the graph, or x.detach().clone()",
        )
    array = copy_with_storage(self, memo)
    copied = memo[id(self)] = rebuild(type(self), array, self._node is LEAF, None)
    # With the same memo: a gradient may be a view of another tensor.
    copied._grad = copy.deepcopy(self._grad, memo)
    copied.__dict__.update(copy.deepcopy(attributes(self), memo))
    return copied


def reduce_tensor(self: Tensor, protocol: SupportsIndex) -> Any:
    """Return how to rebuild the tensor: as a leaf, without hooks."""
    if self._hooks is not None and any(
        getattr(self._hooks, slot) for slot in self._hooks.__slots__
    ):
        warn("a hook on a tensor is not pickled with it")
    wanted, state = self._node is not None, attributes(self) or None
    backend = backends.of(self._array)
    if not backend.has_elements:
        return rebuild, (type(self), self._array, wanted, backend.device_name), state
    if backend is not backends.CPU:
        # Through the host: another process may have no GPU.
        array = np.asarray(backend.to_numpy(self._array), order="C")
        return rebuild, (type(self), array, wanted, backend.device_name), state
    # pickle writes each object once: views that are saved together share their whole again.
    whole, array = storage_of(self), as_plain_array(self._array)
    if whole is not self._array and whole.flags.c_contiguous and lies_within(array, whole):
        region = array.shape, array.strides, array.ctypes.data - whole.ctypes.data
        return rebuild_part, (type(self), whole, array.dtype, region, wanted), state
    return rebuild, (type(self), np.asarray(array, order="C"), wanted, "cpu"), state


def attributes(tensor: Tensor) -> dict[str, Any]:
    """Return what users have set on a tensor."""
    # Tangents belong to an open level of forward mode, which does not outlive the call.
    return {name: value for name, value in tensor.__dict__.items() if name != "_tangents"}


def storage_of(tensor: Tensor) -> np.ndarray:
    """Return the array that represents the memory which tensors share.

    Of memory from outside it is the part that was passed in, not the whole allocation.
    """
    array = tensor._array
    if array.__class__ is Shared:
        root = array if tensor._base is None else tensor._base._array
        return as_plain_array(root) if root.base is None else root.base
    return owner(array.base if array.__class__ is Exported else array)


def lies_within(array: np.ndarray, whole: np.ndarray) -> bool:
    """Return True if the memory of an array is part of that of another one."""
    low, high = np.lib.array_utils.byte_bounds(array)
    start, end = np.lib.array_utils.byte_bounds(whole)
    return start <= low and high <= end


def copy_with_storage(tensor: Tensor, memo: dict[int, Any]) -> Any:
    """Copy a tensor's array; tensors that share memory share it in the copy, too."""
    array = tensor._array
    backend = backends.of(array)
    if backend is not backends.CPU:
        return copy_device_array(backend, array, memo)
    whole, array = storage_of(tensor), as_plain_array(array)
    copied = copy.deepcopy(whole, memo)
    # `deepcopy` of an array may choose other strides; then the region is copied by itself.
    if copied.strides != whole.strides or not lies_within(array, whole):
        return array.copy("K")
    # As bytes: a view may start within an element of the whole, after `view(dtype)`.
    flat = np.ndarray(copied.nbytes, np.uint8, bytes_of(copied))
    place = array.ctypes.data - whole.ctypes.data
    return np.ndarray(array.shape, array.dtype, flat, place, array.strides)


def bytes_of(array: np.ndarray) -> np.ndarray:
    """View an array without gaps as bytes in the order of memory."""
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    return array.transpose(order).reshape(-1).view(np.uint8)


def copy_device_array(backend: Backend, array: Array, memo: dict[int, Any]) -> Any:
    """Copy an array of another device."""
    whole = array.base
    if type(whole) is not type(array):
        return copy.deepcopy(array, memo)
    copied = copy.deepcopy(whole, memo)
    if whole.dtype != array.dtype:
        return array.copy()
    offset = backend.address(array) - backend.address(whole)
    return backend.as_strided(copied, array.shape, array.strides, offset)


def rebuild_part(
    cls: type, whole: np.ndarray, dtype: np.dtype[Any], region: Any, requires_grad: bool
) -> Any:
    """Rebuild a tensor that is a view of an array, which other tensors may share."""
    shape, strides, offset = region
    flat = whole.reshape(-1).view(np.uint8)
    return rebuild(cls, np.ndarray(shape, dtype, flat, offset, strides), requires_grad, None)


def rebuild(cls: type, array: Array, requires_grad: bool, device: str | None) -> Any:
    """Rebuild a tensor of class `cls` from what `copy` and `pickle` keep of it."""
    if device is not None:
        array = Device(device).backend.from_numpy(array)
    # Not by calling the class: a subclass may want other arguments.
    tensor = fill(object.__new__(cls), array)
    tensor._node = LEAF if requires_grad else None
    return tensor


Tensor.__copy__ = copy_tensor  # type: ignore[attr-defined]
Tensor.__deepcopy__ = deepcopy_tensor  # type: ignore[attr-defined]
Tensor.__reduce_ex__ = reduce_tensor  # type: ignore[method-assign,assignment]
