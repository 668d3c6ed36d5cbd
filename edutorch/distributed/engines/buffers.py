"""The memory of tensors as MPI and NCCL take it: contiguous arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ... import backends
from ...backends.kernel_registry import as_ndarray
from ...core.error_messages import no_tensor
from ...core.tensor import Tensor
from ...core.tensor_methods import write
from ...errors import ShapeError
from ..errors import DistBackendError
from ..process_group import ProcessGroup

__all__ = ["Buffer", "Joined", "check_same"]


class Buffer:
    """The elements of a tensor in contiguous memory: its own, where that is possible.

    With NCCL they stay on the GPU, otherwise they are on the host.

    Args:
        name: the function that is called, for errors.
        group: who takes part.

    Attributes:
        elements: the array, of one axis.
    """

    __slots__ = ("elements", "is_shared", "name", "tensor")

    def __init__(self, tensor: Tensor, name: str, group: ProcessGroup) -> None:
        if not isinstance(tensor, Tensor):
            raise no_tensor(name, "tensor", tensor)
        self.tensor, self.name = tensor, name
        array = tensor._array
        backend = backends.of(array)
        check_device(name, tensor, group)
        if group.engine.takes(array):
            direct = backend.xp.ascontiguousarray(array)
            self.is_shared = bool(array.flags.c_contiguous)
            self.elements: Any = direct.reshape(-1)
            return
        host = as_ndarray(array if backend is backends.CPU else backend.to_numpy(array))
        is_direct = host.flags.c_contiguous and host.flags.writeable
        self.is_shared = is_direct and backend is backends.CPU
        self.elements = (host if is_direct else host.copy("C")).reshape(-1)

    def finish(self) -> None:
        """Write the elements into the tensor, where they have other memory; record the write."""
        if self.is_shared:
            self.tensor._bump()
            return
        write_part(self.tensor, self.name, self.elements)


class Joined:
    """The elements of several tensors, one after the other: what a list argument is for MPI."""

    __slots__ = ("elements", "name", "tensors")

    def __init__(
        self, tensors: Sequence[Tensor], name: str, group: ProcessGroup, filled: bool
    ) -> None:
        self.tensors, self.name = list(tensors), name
        first = self.tensors[0]._array
        check_device(name, self.tensors[0], group)
        xp = backends.of(first).xp if group.engine.takes(first) else np
        if filled:
            self.elements = xp.concatenate([Buffer(t, name, group).elements for t in self.tensors])
        else:
            self.elements = xp.empty(sum(tensor.numel() for tensor in self.tensors), first.dtype)

    def finish(self) -> None:
        """Write the elements into the tensors."""
        start = 0
        for tensor in self.tensors:
            part = self.elements[start : start + tensor.numel()]
            start += tensor.numel()
            write_part(tensor, self.name, part)


def write_part(tensor: Tensor, name: str, elements: Any) -> None:
    """Write elements, of the host or of the tensor's own device, into a tensor."""
    values = elements.reshape(tensor.shape)
    if isinstance(values, np.ndarray):
        values = backends.of(tensor._array).from_numpy(values)
    write(tensor, name, values)


def check_device(name: str, tensor: Tensor, group: ProcessGroup) -> None:
    """Raise DistBackendError for a tensor of the CPU in a group of GPUs."""
    if group.backend in ("nccl", "cuda:nccl") and tensor.device.type == "cpu":
        raise DistBackendError(
            name, "No backend type associated with device type cpu: the group is for GPUs ('nccl')",
            {"tensor": f"{tuple(tensor.shape)} on cpu"},
            "move the tensor with .to('cuda'), or begin with "
            "init_process_group('cpu:gloo,cuda:nccl'), which takes both",
        )  # fmt: skip


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
