"""Tensors of PyTorch's files: storages, and the rebuild functions that its pickles call."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..core.tensor import Tensor, share_version, wrap
from ..nn.parameter import Buffer, Parameter
from ..ops import empty_strided
from .allowed_globals import ALLOWED_GLOBALS, AllowedGlobal, RefusedGlobal, check_size, refuse_call
from .decode import MapLocation, move_to_location
from .safe_classes import CheckpointError

MAX_ELEMENTS = 2**40  # of a view with stride 0, which needs hardly any memory


class StorageClass:
    """A storage class of PyTorch: of elements of one dtype, or of bytes (None)."""

    def __init__(self, dtype: dtypes.dtype | None) -> None:
        self.dtype = dtype


class Storage:
    """The memory that one or more tensors share.

    Args:
        memory: its bytes.
        dtype: the dtype of its elements if the storage has one.
        location: the device that it was saved from.
        where: `map_location`.
    """

    def __init__(
        self, memory: np.ndarray, dtype: dtypes.dtype | None, location: str, where: MapLocation
    ) -> None:
        self.memory, self.dtype, self.location, self.where = memory, dtype, location, where
        self.first: Tensor | None = None
        self._device_array: Any = None

    def device_array(self, dtype: dtypes.dtype) -> Any:
        """Return all elements as a flat array on the target device."""
        if self._device_array is None:
            size = (self.dtype or dtype).itemsize
            values = self.memory[: self.memory.nbytes // size * size].view(
                (self.dtype or dtype).numpy
            )
            self._device_array = move_to_location(wrap(values), self.location, self.where)._array
        array = self._device_array
        return array if array.dtype == dtype.numpy else array.view(dtype.numpy)

    def tensor(
        self, dtype: dtypes.dtype, offset: object, size: Sequence[object], stride: Sequence[object]
    ) -> Tensor:
        """Return a tensor in this memory.

        Raises: ValueError: it would reach outside.
        """
        sizes = [check_size(length, "a size") for length in size]
        steps = [check_size(step, "a stride") for step in stride]
        count = math.prod(sizes)
        if len(sizes) != len(steps) or len(sizes) > 64 or count > MAX_ELEMENTS:
            raise ValueError(
                f"a tensor of {len(sizes)} sizes, {len(steps)} strides, {count} numbers"
            )
        extent = sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
        start = check_size(offset, "an offset")
        end = start + extent + 1
        if count and end * dtype.itemsize > self.memory.nbytes:
            raise ValueError(f"a tensor that ends behind its storage of {self.memory.nbytes} bytes")
        if dtype is dtypes.bool and self.memory.max(initial=0) > 1:
            raise ValueError("bytes that are neither true nor false")
        base = self.device_array(dtype)
        if not count:
            return wrap(base[:0].reshape(sizes))
        byte_strides = [step * dtype.itemsize for step in steps]
        array = backends.of(base).as_strided(base, sizes, byte_strides, start * dtype.itemsize)
        result = wrap(array)
        if self.first is None:
            self.first = result
        return share_version(result, self.first)


# Functions that pickles call ---------------------------------------------------------------


def rebuild_tensor(
    storage: object, storage_offset: object, size: object, stride: object,
    requires_grad: object = False, backward_hooks: object = None, metadata: object = None,
    dtype: object = None,
) -> Tensor:  # fmt: skip
    """Return a tensor in a storage."""
    dtype = dtype or getattr(storage, "dtype", None)
    if not isinstance(storage, Storage) or not isinstance(dtype, dtypes.dtype):
        raise TypeError("a tensor without a storage, or without a type")
    if not isinstance(size, tuple | list) or not isinstance(stride, tuple | list):
        raise TypeError("a tensor without sizes or strides")
    tensor = storage.tensor(dtype, storage_offset, size, stride)
    flags = metadata if type(metadata) is dict else {}
    if flags.get("conj"):  # PyTorch stores both as flags instead of computing them
        tensor = tensor.conj().resolve_conj()
    if flags.get("neg"):
        tensor = -tensor
    return tensor.requires_grad_() if requires_grad is True else tensor


def rebuild_tensor_v3(
    storage: object, storage_offset: object, size: object, stride: object, requires_grad: object,
    backward_hooks: object, dtype: object, metadata: object = None,
) -> Tensor:  # fmt: skip
    return rebuild_tensor(
        storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata, dtype
    )


def rebuild_meta(
    dtype: object, size: object, stride: object, requires_grad: object = False
) -> Tensor:
    """Return a tensor without elements, on the device `meta`."""
    if not isinstance(dtype, dtypes.dtype) or not type(size) is type(stride) is tuple:
        raise TypeError("a meta tensor without a type, sizes or strides")
    sizes = [check_size(length, "a size") for length in size]
    steps = [check_size(step, "a stride") for step in stride]
    if len(sizes) > 64 or math.prod(sizes) > MAX_ELEMENTS:
        raise ValueError(f"a meta tensor of {len(sizes)} sizes")
    tensor = empty_strided(sizes, steps, dtype=dtype, device="meta")
    return tensor.requires_grad_() if requires_grad is True else tensor


def make_parameter(
    data: object = None, requires_grad: object = True, hooks: object = None, state: object = None
) -> Any:
    if not isinstance(data, Tensor):
        raise TypeError("a parameter that is not a tensor")
    return Parameter(data.detach(), requires_grad is True)


def make_buffer(data: object, requires_grad: object = False, persistent: object = True) -> Any:
    if not isinstance(data, Tensor):
        raise TypeError("a buffer that is not a tensor")
    return Buffer(data.detach(), persistent=persistent is True)


def rebuild_sparse(layout: object, data: object) -> Tensor:
    """Return a sparse tensor from its indices and values."""
    if type(data) is not tuple or len(data) not in (3, 4):
        raise TypeError("a sparse tensor without indices, values or a size")
    from ..ops.sparse.public import from_torch_file

    name = str(layout).removeprefix("torch.")
    if name not in ("sparse_coo", "sparse_csr", "sparse_csc"):
        raise CheckpointError(
            "load", f"the file holds a tensor of the layout {name}, which edutorch has not",
            hint="in PyTorch: save x.to_sparse() instead",
        )  # fmt: skip
    return from_torch_file(name, data)


def rebuild_from_type(function: object, cls: object, args: Any, state: object) -> Any:
    """Return a tensor that was saved with Python attributes, without them."""
    if isinstance(function, RefusedGlobal) or isinstance(cls, RefusedGlobal):
        return function if isinstance(function, RefusedGlobal) else cls
    if not isinstance(function, AllowedGlobal) or function.make not in REBUILDERS:
        raise TypeError("a tensor made by something else")
    tensor = function.make(*args)
    own = state[0] if type(state) is tuple and state else state
    if type(own) is dict and own.get("_is_buffer") is True and not isinstance(tensor, Parameter):
        return make_buffer(tensor, persistent=own.get("persistent", True))
    return tensor


def unsupported(what: str, hint: str) -> AllowedGlobal:
    def refuse(*args: Any) -> Any:
        raise CheckpointError("load", f"the file holds {what}, which edutorch has not", hint=hint)

    return AllowedGlobal(refuse)


REBUILDERS = (rebuild_tensor, rebuild_tensor_v3, rebuild_meta, make_parameter, make_buffer)

STORAGES = {
    name: StorageClass(dtype)
    for name, dtype in {
        "Double": dtypes.float64, "Float": dtypes.float32, "Half": dtypes.float16,
        "BFloat16": dtypes.bfloat16, "Long": dtypes.int64, "Int": dtypes.int32,
        "Short": dtypes.int16, "Char": dtypes.int8, "Byte": dtypes.uint8, "Bool": dtypes.bool,
        "ComplexFloat": dtypes.complex64, "ComplexDouble": dtypes.complex128,
    }.items()
}  # fmt: skip
for _home in ("torch", "torch.cuda"):
    ALLOWED_GLOBALS.update(
        {f"{_home}.{name}Storage": storage_class for name, storage_class in STORAGES.items()}
    )
QUANTIZED = unsupported("a quantized tensor", "in PyTorch: save x.dequantize() instead")
SUBCLASS = unsupported(
    "a tensor of a class of its own", "in PyTorch: save an ordinary tensor instead"
)
ALLOWED_GLOBALS |= {
    "torch.storage.UntypedStorage": StorageClass(None),
    "torch.UntypedStorage": StorageClass(None),
    "torch._utils._rebuild_tensor": AllowedGlobal(rebuild_tensor),
    "torch._utils._rebuild_tensor_v2": AllowedGlobal(rebuild_tensor),
    "torch._utils._rebuild_tensor_v3": AllowedGlobal(rebuild_tensor_v3),
    "torch._utils._rebuild_parameter": AllowedGlobal(make_parameter),
    "torch._utils._rebuild_parameter_with_state": AllowedGlobal(make_parameter),
    "torch.nn.parameter.Parameter": AllowedGlobal(make_parameter),
    "torch.nn.parameter.Buffer": AllowedGlobal(make_buffer),
    "torch._tensor._rebuild_from_type_v2": AllowedGlobal(rebuild_from_type),
    "torch.Tensor": AllowedGlobal(refuse_call),
    "torch._tensor.Tensor": AllowedGlobal(refuse_call),
    "torch._utils._rebuild_qtensor": QUANTIZED,
    "torch._utils._rebuild_sparse_tensor": AllowedGlobal(rebuild_sparse),
    "torch._utils._rebuild_sparse_csr_tensor": AllowedGlobal(rebuild_sparse),
    "torch._utils._rebuild_meta_tensor_no_storage": AllowedGlobal(rebuild_meta),
    "torch._utils._rebuild_wrapper_subclass": SUBCLASS,
    "torch._utils._rebuild_nested_tensor": unsupported(
        "a nested tensor", "save x.to_padded_tensor(0)"
    ),
    "torch.serialization._get_layout": AllowedGlobal(lambda name: str(name)),
}
ALLOWED_GLOBALS["collections.OrderedDict"].type = OrderedDict
