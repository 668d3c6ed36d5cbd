"""The memory of tensors as MPI takes it: contiguous NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .. import backends
from ..backends.kernel_registry import as_ndarray
from ..core.error_messages import no_tensor
from ..core.tensor import Tensor
from ..core.tensor_methods import write
from ..errors import ShapeError

__all__ = ["Buffer", "Joined", "check_same"]


class Buffer:
    """The elements of a tensor in contiguous memory of the host: its own, where that is possible.

    Attributes:
        elements: the array, of one axis.
    """

    __slots__ = ("elements", "is_shared", "name", "tensor")

    def __init__(self, tensor: Tensor, name: str) -> None:
        if not isinstance(tensor, Tensor):
            raise no_tensor(name, "tensor", tensor)
        self.tensor, self.name = tensor, name
        array = tensor._array
        backend = backends.of(array)
        host = as_ndarray(array if backend is backends.CPU else backend.to_numpy(array))
        is_direct = host.flags.c_contiguous and host.flags.writeable
        self.is_shared = is_direct and backend is backends.CPU
        self.elements = (host if is_direct else host.copy("C")).reshape(-1)

    def finish(self) -> None:
        """Write the elements into the tensor, where they have other memory; record the write."""
        if self.is_shared:
            self.tensor._bump()
            return
        backend = backends.of(self.tensor._array)
        values = self.elements.reshape(self.tensor.shape)
        write(self.tensor, self.name, backend.from_numpy(values))


class Joined:
    """The elements of several tensors, one after the other: what a list argument is for MPI."""

    __slots__ = ("elements", "name", "tensors")

    def __init__(self, tensors: Sequence[Tensor], name: str, filled: bool) -> None:
        self.tensors, self.name = list(tensors), name
        parts = [Buffer(tensor, name).elements for tensor in self.tensors] if filled else []
        size = sum(tensor.numel() for tensor in self.tensors)
        dtype = self.tensors[0]._array.dtype
        self.elements = np.concatenate(parts) if filled else np.empty(size, dtype)

    def finish(self) -> None:
        """Write the elements into the tensors."""
        start = 0
        for tensor in self.tensors:
            part = self.elements[start : start + tensor.numel()]
            start += tensor.numel()
            backend = backends.of(tensor._array)
            write(tensor, self.name, backend.from_numpy(part.reshape(tensor.shape)))


def check_same(name: str, tensors: Iterable[Tensor], sizes: bool = True) -> None:
    """Raise ShapeError if tensors differ in dtype or device, or in their numbers of elements."""
    listed = list(tensors)
    for tensor in listed:
        if not isinstance(tensor, Tensor):
            raise no_tensor(name, "tensor", tensor)
    facts = [(t.dtype, t.device, t.numel() if sizes else 0) for t in listed]
    if len(set(facts)) > 1:
        raise ShapeError(
            name, "the tensors of one collective have the same dtype, device and size",
            {f"tensor {i}": f"{tuple(x.shape)} {x.dtype} on {x.device}"
             for i, x in enumerate(listed)},
            "convert or pad them first",
        )  # fmt: skip
