"""Tensors out of PyTorch's files: storages, and the functions that a pickle makes tensors with."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..core.tensor import Tensor, same_memory, wrap
from ..nn.parameter import Buffer, Parameter
from .allowed_globals import KNOWN, Known, Refused, refuse_call, whole
from .errors import CheckpointError
from .map_location import placed

MOST_NUMBERS = 2**40  # of a view that shows few numbers many times


class StorageKind:
    """A storage class of PyTorch's: of numbers of one type, or of bytes (None)."""

    def __init__(self, kind: dtypes.dtype | None) -> None:
        self.kind = kind


class Storage:
    """The memory of some tensors.

    Args:
        memory: its bytes.
        kind: the type of its numbers if the storage has one.
        location: the device that it was saved from.
        where: `map_location`.
    """

    def __init__(
        self, memory: np.ndarray, kind: dtypes.dtype | None, location: str, where: Any
    ) -> None:
        self.memory, self.kind, self.location, self.where = memory, kind, location, where
        self.first: Tensor | None = None
        self._placed: Any = None

    def placed(self, kind: dtypes.dtype) -> Any:
        """Return all numbers in a row, as an array of the device they are wanted on."""
        if self._placed is None:
            size = (self.kind or kind).itemsize
            numbers = self.memory[: self.memory.nbytes // size * size].view(
                (self.kind or kind).numpy
            )
            self._placed = placed(wrap(numbers), self.location, self.where)._array
        found = self._placed
        return found if found.dtype == kind.numpy else found.view(kind.numpy)

    def tensor(self, kind: dtypes.dtype, offset: int, size: Any, stride: Any) -> Tensor:
        """Return a tensor in this memory.

        Raises: ValueError: it would not lie inside.
        """
        sizes = [whole(each, "a size") for each in size]
        steps = [whole(each, "a stride") for each in stride]
        count = math.prod(sizes)
        if len(sizes) != len(steps) or len(sizes) > 64 or count > MOST_NUMBERS:
            raise ValueError(
                f"a tensor of {len(sizes)} sizes, {len(steps)} strides, {count} numbers"
            )
        reach = sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
        end = whole(offset, "an offset") + reach + 1
        if count and end * kind.itemsize > self.memory.nbytes:
            raise ValueError(f"a tensor that ends behind its storage of {self.memory.nbytes} bytes")
        if kind is dtypes.bool and self.memory.max(initial=0) > 1:
            raise ValueError("bytes that are neither true nor false")
        base = self.placed(kind)
        if not count:
            return wrap(base[:0].reshape(sizes))
        places = [step * kind.itemsize for step in steps]
        array = backends.of(base).as_strided(base, sizes, places, offset * kind.itemsize)
        made = wrap(array)
        if self.first is None:
            self.first = made
        return same_memory(made, self.first)


# What pickles call ------------------------------------------------------------------------


def rebuild(
    storage: Any, storage_offset: Any, size: Any, stride: Any, requires_grad: Any = False,
    backward_hooks: Any = None, metadata: Any = None, kind: Any = None,
) -> Tensor:  # fmt: skip
    """Return a tensor in a storage."""
    kind = kind or getattr(storage, "kind", None)
    if not isinstance(storage, Storage) or not isinstance(kind, dtypes.dtype):
        raise TypeError("a tensor without a storage, or without a type")
    if not isinstance(size, tuple | list) or not isinstance(stride, tuple | list):
        raise TypeError("a tensor without sizes or strides")
    made = storage.tensor(kind, storage_offset, size, stride)
    flags = metadata if type(metadata) is dict else {}
    if flags.get("conj"):  # PyTorch notes both instead of computing them
        made = made.conj().resolve_conj()
    if flags.get("neg"):
        made = -made
    return made.requires_grad_() if requires_grad is True else made


def rebuild_v3(
    storage: Any, storage_offset: Any, size: Any, stride: Any, requires_grad: Any,
    backward_hooks: Any, kind: Any, metadata: Any = None,
) -> Tensor:  # fmt: skip
    return rebuild(
        storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata, kind
    )


def make_parameter(
    data: Any = None, requires_grad: Any = True, hooks: Any = None, state: Any = None
) -> Any:
    if not isinstance(data, Tensor):
        raise TypeError("a parameter that is not a tensor")
    return Parameter(data.detach(), requires_grad is True)


def make_buffer(data: Any, requires_grad: Any = False, persistent: Any = True) -> Any:
    if not isinstance(data, Tensor):
        raise TypeError("a buffer that is not a tensor")
    return Buffer(data.detach(), persistent=persistent is True)


def from_type(function: Any, kind: Any, args: Any, state: Any) -> Any:
    """Return a tensor with attributes of its own; the attributes are left out."""
    if isinstance(function, Refused) or isinstance(kind, Refused):
        return function if isinstance(function, Refused) else kind
    if not isinstance(function, Known) or function.make not in REBUILDERS:
        raise TypeError("a tensor made by something else")
    made = function.make(*args)
    own = state[0] if type(state) is tuple and state else state
    if type(own) is dict and own.get("_is_buffer") is True and not isinstance(made, Parameter):
        return make_buffer(made, persistent=own.get("persistent", True))
    return made


def cannot(what: str, hint: str) -> Known:
    def refuse(*args: Any) -> Any:
        raise CheckpointError("load", f"the file holds {what}, which edutorch has not", hint=hint)

    return Known(refuse)


REBUILDERS = (rebuild, rebuild_v3, make_parameter, make_buffer)

STORAGES: dict[str, StorageKind] = {
    "Double": StorageKind(dtypes.float64), "Float": StorageKind(dtypes.float32),
    "Half": StorageKind(dtypes.float16), "BFloat16": StorageKind(dtypes.bfloat16),
    "Long": StorageKind(dtypes.int64), "Int": StorageKind(dtypes.int32),
    "Short": StorageKind(dtypes.int16), "Char": StorageKind(dtypes.int8),
    "Byte": StorageKind(dtypes.uint8), "Bool": StorageKind(dtypes.bool),
    "ComplexFloat": StorageKind(dtypes.complex64), "ComplexDouble": StorageKind(dtypes.complex128),
}  # fmt: skip
for _home in ("torch", "torch.cuda"):
    KNOWN.update({f"{_home}.{name}Storage": kind for name, kind in STORAGES.items()})
QUANTIZED = cannot("a quantized tensor", "in PyTorch: save x.dequantize() instead")
SPARSE = cannot("a sparse tensor", "in PyTorch: save x.to_dense() instead")
META = cannot("a tensor without numbers (device meta)", "in PyTorch: save the numbers as well")
SUBCLASS = cannot("a tensor of a class of its own", "in PyTorch: save an ordinary tensor instead")
KNOWN |= {
    "torch.storage.UntypedStorage": StorageKind(None), "torch.UntypedStorage": StorageKind(None),
    "torch._utils._rebuild_tensor": Known(rebuild),
    "torch._utils._rebuild_tensor_v2": Known(rebuild),
    "torch._utils._rebuild_tensor_v3": Known(rebuild_v3),
    "torch._utils._rebuild_parameter": Known(make_parameter),
    "torch._utils._rebuild_parameter_with_state": Known(make_parameter),
    "torch.nn.parameter.Parameter": Known(make_parameter),
    "torch.nn.parameter.Buffer": Known(make_buffer),
    "torch._tensor._rebuild_from_type_v2": Known(from_type),
    "torch.Tensor": Known(refuse_call), "torch._tensor.Tensor": Known(refuse_call),
    "torch._utils._rebuild_qtensor": QUANTIZED, "torch._utils._rebuild_sparse_tensor": SPARSE,
    "torch._utils._rebuild_sparse_csr_tensor": SPARSE,
    "torch._utils._rebuild_meta_tensor_no_storage": META,
    "torch._utils._rebuild_wrapper_subclass": SUBCLASS,
    "torch._utils._rebuild_nested_tensor": cannot("a nested tensor", "save x.to_padded_tensor(0)"),
    "torch.serialization._get_layout": Known(lambda name: str(name)),
}  # fmt: skip
KNOWN["collections.OrderedDict"].kind = OrderedDict
