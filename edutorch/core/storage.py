"""Storages: the memory behind tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import backends, dtypes
from ..backends.device import Device


class UntypedStorage:
    """The bytes that one or several tensors share.

    Two storages are equal if they are the same memory.

    >>> x = zeros(6, dtype=float32)
    >>> x[2:].untyped_storage().nbytes(), x[2:].untyped_storage() == x.untyped_storage()
    (24, True)
    """

    def __init__(self, array: Any) -> None:
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

    def is_pinned(self) -> bool:
        """Return True if the memory is page-locked: never here."""
        return False

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
        return self._backend.name == "cuda"

    def untyped(self) -> UntypedStorage:
        """Return the same memory as bytes."""
        return UntypedStorage(self._array)

    def __len__(self) -> int:
        return self.size()

    def __getitem__(self, index: int) -> Any:
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
        memory = self._backend.memory(self._array)
        return memory[: self.size() * self.element_size()].view(self._array.dtype)
