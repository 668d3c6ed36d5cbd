"""The memory behind tensors: its formats, storages, and the members of Tensor that show it.

A memory format is the order in which elements are stored. The axes of an image are (n, c, h, w) in
every case; the format says only which axis has the smallest stride: the last one, or with
`channels_last` the channels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..backends.device import Device
from ..backends.numpy import Array
from ..errors import EdutorchError
from .error_messages import no_tensor
from .shapes import missing_dim

# Memory formats -----------------------------------------------------------------------


class memory_format:
    """An order of the axes in memory; `order` lists them, the largest stride first.

    >>> zeros(1, 3, 4, 5).to(memory_format=channels_last).stride()
    (60, 1, 15, 3)
    """

    def __init__(self, name: str, order: tuple[int, ...] | None = None) -> None:
        self.name, self.order = name, order

    def order_of(self, op: str, ndim: int) -> tuple[int, ...] | None:
        """Return the order of the axes of a tensor with `ndim` of them; None: as they are.

        Raises: ValueError: the format is for another number of axes.
        """
        if self.order is not None and len(self.order) != ndim:
            raise ValueError(
                f"{op}: required rank {len(self.order)} tensor to use {self.name} format, "
                f"got one with {ndim} dimensions"
            )
        return self.order

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    # pickle writes a name of this module, so that loading returns the same object.
    def __reduce__(self) -> str:
        return self.name


contiguous_format = memory_format("contiguous_format")
"""Row-major: the last axis has the smallest stride."""


preserve_format = memory_format("preserve_format")
"""As the tensor that is copied, if its elements are stored without gaps."""


channels_last = memory_format("channels_last", (0, 2, 3, 1))
"""Images (n, c, h, w) with the channels of one pixel next to each other."""


channels_last_3d = memory_format("channels_last_3d", (0, 2, 3, 4, 1))
"""The same for volumes (n, c, d, h, w)."""


class layout:
    """How the elements of a tensor are stored.

    >>> zeros(2).layout
    torch.strided
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    # pickle writes a name of this module, so that loading returns the same object.
    def __reduce__(self) -> str:
        return self.name


strided = layout("strided")
"""Elements at regular steps in memory."""


sparse_coo = layout("sparse_coo")
"""The elements that are not 0, with their coordinates (`ops/sparse`)."""


sparse_csr = layout("sparse_csr")
"""The same of a matrix, row by row, with the number at which each row begins."""


sparse_csc = layout("sparse_csc")
"""The same, column by column."""


sparse_bsr, sparse_bsc = layout("sparse_bsr"), layout("sparse_bsc")
"""Of blocks in place of elements; named for scripts that ask, and not available."""


def memory_order(array: Array) -> tuple[int, ...] | None:
    """Return the order of the axes in memory that a copy keeps; None: row-major."""
    if array.flags.c_contiguous:
        return None
    sizes, steps = array.shape, array.strides
    if any(step == 0 and size > 1 for size, step in zip(sizes, steps, strict=True)):
        return None
    # An axis of size 1 has no place of its own in memory: it goes to the end.
    order = sorted(range(array.ndim), key=lambda axis: -steps[axis] if sizes[axis] > 1 else -1e30)
    return None if order == sorted(order) else tuple(order)


def make_in_order(
    make: Callable[[tuple[int, ...]], Any], shape: Sequence[int], order: tuple[int, ...] | None
) -> Any:
    """Return `make(shape)` with its axes in this order in memory."""
    if order is None:
        return make(tuple(shape))
    # Made with the axes as they lie in memory, then turned: no copy.
    inverse = [order.index(axis) for axis in range(len(order))]
    return make(tuple(shape[axis] for axis in order)).transpose(inverse)


class StorageFileError(EdutorchError, RuntimeError):
    """A file cannot be the memory of a storage."""


# Storages -----------------------------------------------------------------------------


def is_page_locked(array: Array) -> bool:
    """Return True if an array is on the host, in memory that a card can copy from by itself."""
    if backends.of(array) is not backends.CPU or not backends.is_loaded(backends.ACCELERATOR):
        return False
    return backends.get(backends.ACCELERATOR).is_pinned(array)


class UntypedStorage:
    """The bytes that one or several tensors share.

    Two storages are equal if they are the same memory.

    >>> x = zeros(6, dtype=float32)
    >>> x[2:].untyped_storage().nbytes(), x[2:].untyped_storage() == x.untyped_storage()
    (24, True)
    """

    def __init__(self, array: Array) -> None:
        self._array = array
        self._backend = backends.of(array)

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._backend.storage(self._array)[1]

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return self._backend.storage(self._array)[0]

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return 1

    def size(self) -> int:
        """Return the number of elements."""
        return self.nbytes() // self.element_size()

    def tolist(self) -> list[Any]:
        """Return the elements as Python numbers."""
        return self._backend.to_numpy(self.elements()).tolist()

    def elements(self) -> Any:
        """Return the elements as an array of the device."""
        return self._backend.memory(self._array)

    def is_pinned(self, device: Any = None) -> bool:
        """Return True if the memory is page-locked."""
        return is_page_locked(self._array)

    def is_shared(self) -> bool:
        """Return True if other processes can access the memory."""
        return self.is_cuda

    @property
    def device(self) -> Device:
        """The device of the memory."""
        return Device(self._backend.device_name)

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a GPU."""
        return self._backend.is_accelerator

    def untyped(self) -> UntypedStorage:
        """Return the same memory as bytes."""
        return UntypedStorage(self._array)

    def __len__(self) -> int:
        return self.size()

    @classmethod
    def from_file(
        cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0
    ) -> UntypedStorage:
        """Map a file into memory.

        Args:
            shared: whether what is written goes to the file; else it stays in this process.
            nbytes: the number of bytes, from the first one.

        Raises: StorageFileError (a RuntimeError): the file has fewer bytes.
        """
        there = os.path.getsize(filename)
        if not 0 <= nbytes <= there:
            raise StorageFileError(
                "UntypedStorage.from_file", f"{str(filename)!r} cannot give so many bytes",
                {"nbytes": nbytes, "size": there},
            )  # fmt: skip
        if not nbytes:
            return cls(np.empty(0, np.uint8))
        import mmap  # which Python in WebAssembly may lack

        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        with open(filename, "r+b" if shared else "rb") as file:
            return cls(np.frombuffer(mmap.mmap(file.fileno(), nbytes, access=access), np.uint8))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return StoragePart(self.elements()[index])
        return self.elements()[index].item()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage) or type(self) is not type(other):
            return NotImplemented
        return (self.data_ptr(), self.nbytes()) == (other.data_ptr(), other.nbytes())

    def __hash__(self) -> int:
        return hash((self.data_ptr(), self.nbytes()))

    def __repr__(self) -> str:
        name = f"torch.storage.{type(self).__name__}"
        return f"[{name}(device={self._backend.device_name}) of size {self.size()}]"


class StoragePart(UntypedStorage):
    """Some of the bytes of a storage: what `storage[2:6]` returns."""

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._array.nbytes

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return self._backend.address(self._array)

    def elements(self) -> Any:
        """Return the bytes as an array of the device."""
        return self._array


class TypedStorage(UntypedStorage):
    """The same memory as elements of a tensor's dtype.

    >>> tensor([1.0, 2.0]).storage().tolist()
    [1.0, 2.0]
    """

    @property
    def dtype(self) -> dtypes.dtype:
        """The dtype of the elements."""
        return dtypes.of(self._array.dtype)

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return self._array.dtype.itemsize

    def elements(self) -> Any:
        """Return the elements as an array of the device."""
        # The storage may end within an element, as after `view(dtype)`.
        memory = self._backend.memory(self._array)
        return memory[: self.size() * self.element_size()].view(self._array.dtype)


class MemoryMembers:
    """The members of `Tensor` about its memory."""

    __slots__ = ()

    _array: Any
    _node: Any

    def stride(self, dim: int | None = None) -> Any:
        """Return the stride, in elements, of each dimension (or of one)."""
        array = self._array
        size = array.dtype.itemsize
        steps = [step // size for step in array.strides]
        # PyTorch gives it the step that a row-major tensor has there.
        if 1 in array.shape and 0 in steps:  # NumPy gives an axis of size 1 no step
            for axis in reversed(range(array.ndim)):
                if array.shape[axis] == 1 and not steps[axis]:
                    last = axis == array.ndim - 1
                    steps[axis] = 1 if last else steps[axis + 1] * array.shape[axis + 1]
        if dim is None:
            return tuple(steps)
        try:
            return steps[dim]
        except (IndexError, TypeError):
            raise missing_dim("stride", dim, array.ndim) from None

    def storage_offset(self) -> int:
        """Return the index of the first element in the storage."""
        array = self._array
        backend = backends.of(array)
        # Bytes between two addresses: NumPy's `base` alone does not say where a view begins.
        return (backend.address(array) - backend.storage(array)[0]) // array.dtype.itemsize

    def data_ptr(self) -> int:
        """Return the address of the first element, 0 if there is none."""
        backend = backends.of(self._array)
        return backend.address(self._array) if self._array.size and backend.has_elements else 0

    const_data_ptr = data_ptr

    def is_contiguous(self, memory_format: memory_format = contiguous_format) -> bool:
        """Return True if the elements are stored without gaps, in this order of the axes."""
        order = memory_format.order
        if memory_format is preserve_format:
            raise RuntimeError("is_contiguous: preserve_format is no order of its own")
        if order is None:
            return bool(self._array.flags.c_contiguous)
        if len(order) != self._array.ndim:
            return False
        # In that order it is row-major: the same question.
        return bool(self._array.transpose(order).flags.c_contiguous)

    def dim_order(self, *, ambiguity_check: Any = False) -> tuple[int, ...]:
        """Return the dimensions by their strides, the largest first."""
        steps = self.stride()
        return tuple(sorted(range(len(steps)), key=lambda axis: -steps[axis]))

    def untyped_storage(self) -> UntypedStorage:
        """Return the storage of the tensor, as bytes."""
        return UntypedStorage(self._array)

    def storage(self) -> TypedStorage:
        """Return the storage of the tensor, as elements of its dtype."""
        return TypedStorage(self._array)

    def storage_type(self) -> type:
        """Return the class of `storage()`."""
        return TypedStorage

    def is_set_to(self, tensor: Any) -> bool:
        """Return True if another tensor is the same view of the same memory."""
        if not hasattr(tensor, "_array"):
            raise no_tensor("is_set_to", "tensor", tensor)
        return (
            self.untyped_storage() == tensor.untyped_storage()
            and self.storage_offset() == tensor.storage_offset()
            and self._array.shape == tensor._array.shape
            and self.stride() == tensor.stride()
        )

    def is_same_size(self, other: Any) -> bool:
        """Return True if another tensor has the same shape."""
        try:
            return self._array.shape == other._array.shape
        except AttributeError:
            raise no_tensor("is_same_size", "other", other) from None

    def nelement(self) -> int:
        """Return the number of elements."""
        return self._array.size

    def ndimension(self) -> int:
        """Return the number of dimensions."""
        return self._array.ndim

    def dense_dim(self) -> int:
        """Return the number of dense dimensions: all of them."""
        return self._array.ndim

    def sparse_dim(self) -> int:
        """Return the number of sparse dimensions: none."""
        return 0

    def get_device(self) -> int:
        """Return the index of the GPU, -1 for the CPU."""
        name = backends.of(self._array).device_name
        return int(name.partition(":")[2] or -1)

    @property
    def layout(self) -> Any:
        """How the elements are stored: at regular steps in memory."""
        return strided

    @property
    def is_meta(self) -> bool:
        """Whether the tensor has a shape and a dtype, but no elements."""
        return not backends.of(self._array).has_elements

    @property
    def is_cpu(self) -> bool:
        """Whether the tensor is on the CPU."""
        return backends.of(self._array).name == "cpu"

    def is_pinned(self, device: Any = None) -> bool:
        """Return True if the memory is page-locked."""
        return is_page_locked(self._array)

    def is_shared(self) -> bool:
        """Return True if other processes can access the memory: for tensors on a GPU."""
        return backends.of(self._array).is_accelerator

    def is_distributed(self) -> bool:
        """Return True if the tensor is distributed over processes: never."""
        return False

    def is_coalesced(self) -> bool:
        """Defined for sparse tensors only. Raises: RuntimeError: always."""
        raise RuntimeError("is_coalesced expected sparse coordinate tensor layout but got strided")

    def is_signed(self) -> bool:
        """Return True if the dtype has negative values."""
        return self._array.dtype.kind not in "ub"

    # Autograd, by PyTorch's names ------------------------------------------------

    @property
    def output_nr(self) -> int:
        """The index of this tensor among the outputs of its node."""
        face = getattr(self._node, "public_node", None)
        return 0 if face is None else face()[1]

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called on a tensor that is not a leaf."""
        hooks = getattr(self._node, "hooks", None)
        return bool(hooks and hooks.retain)

    @property
    def name(self) -> None:
        """A name from PyTorch's first years: None."""

    @property
    def volatile(self) -> bool:
        """A mode from PyTorch's first years: False."""
        return False

    def reinforce(self, reward: Any = None) -> None:
        """Was removed from PyTorch. Raises: RuntimeError: always."""
        raise RuntimeError(
            "reinforce() was removed: multiply the log probability of the chosen action by the "
            "reward, and call backward() on the negative of it"
        )


ABSENT = "mps xpu xla hpu ipu maia mtia mkldnn vulkan nested quantized sparse sparse_csr".split()
"""Kinds of tensors that PyTorch has and this library has not: `x.is_<kind>` is False."""


def _absent_flag(name: str) -> property:
    def flag(self: MemoryMembers) -> bool:
        return False

    flag.__doc__ = f"Whether it is a {name} tensor: never."
    return property(flag)


# Scripts ask for them before they choose a branch.
for _kind in ABSENT:
    setattr(MemoryMembers, f"is_{_kind}", _absent_flag(_kind))
