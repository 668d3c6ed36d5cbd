"""What a tensor says about its memory: where it lies, how, and who shares it."""

from __future__ import annotations

from typing import Any

from .. import backends
from .error_messages import no_tensor
from .memory_format import contiguous_format, memory_format, preserve_format, strided
from .shapes import missing_dim
from .storage import TypedStorage, UntypedStorage


class MemoryMembers:
    """The part of `Tensor` that is about its memory and not about its numbers."""

    __slots__ = ()

    _array: Any
    _node: Any

    def stride(self, dim: int | None = None) -> Any:
        """Return the step in memory, in elements, of each dimension (or of one)."""
        array = self._array
        size = array.dtype.itemsize
        steps = [step // size for step in array.strides]
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
        """Return how many elements after the start of the storage the first one lies."""
        array = self._array
        backend = backends.of(array)
        return (backend.address(array) - backend.storage(array)[0]) // array.dtype.itemsize

    def data_ptr(self) -> int:
        """Return the address of the first number, 0 if there is none."""
        return backends.of(self._array).address(self._array) if self._array.size else 0

    const_data_ptr = data_ptr

    def is_contiguous(self, memory_format: memory_format = contiguous_format) -> bool:
        """Say whether the numbers lie in memory without gaps, in this order of the axes."""
        order = memory_format.order
        if memory_format is preserve_format:
            raise RuntimeError("is_contiguous: preserve_format is no order of its own")
        if order is None:
            return bool(self._array.flags.c_contiguous)
        if len(order) != self._array.ndim:
            return False
        return bool(self._array.transpose(order).flags.c_contiguous)

    def dim_order(self, *, ambiguity_check: Any = False) -> tuple[int, ...]:
        """Return the dimensions in the order in which they lie in memory, outermost first."""
        steps = self.stride()
        return tuple(sorted(range(len(steps)), key=lambda axis: -steps[axis]))

    def untyped_storage(self) -> UntypedStorage:
        """Return the memory that the tensor lies in, as bytes."""
        return UntypedStorage(self._array)

    def storage(self) -> TypedStorage:
        """Return the memory that the tensor lies in, as numbers of its type."""
        return TypedStorage(self._array)

    def storage_type(self) -> type:
        """Return the class of `storage()`."""
        return TypedStorage

    def is_set_to(self, tensor: Any) -> bool:
        """Say whether another tensor shows the same memory in the same way."""
        if not hasattr(tensor, "_array"):
            raise no_tensor("is_set_to", "tensor", tensor)
        return (
            self.untyped_storage() == tensor.untyped_storage()
            and self.storage_offset() == tensor.storage_offset()
            and self._array.shape == tensor._array.shape
            and self.stride() == tensor.stride()
        )

    def is_same_size(self, other: Any) -> bool:
        """Say whether another tensor has the same shape."""
        try:
            return self._array.shape == other._array.shape
        except AttributeError:
            raise no_tensor("is_same_size", "other", other) from None

    def nelement(self) -> int:
        """Return how many numbers there are."""
        return self._array.size

    def ndimension(self) -> int:
        """Return how many dimensions there are."""
        return self._array.ndim

    def dense_dim(self) -> int:
        """Return how many dimensions are not sparse: all of them."""
        return self._array.ndim

    def sparse_dim(self) -> int:
        """Return how many dimensions are sparse: none."""
        return 0

    def get_device(self) -> int:
        """Return the number of the GPU, -1 for the CPU."""
        name = backends.of(self._array).device_name
        return int(name.partition(":")[2] or -1)

    @property
    def layout(self) -> Any:
        """How the numbers are kept: at regular steps in memory."""
        return strided

    @property
    def is_cpu(self) -> bool:
        """Say whether the numbers are in the computer's own memory."""
        return backends.of(self._array).name == "cpu"

    def is_pinned(self, device: Any = None) -> bool:
        """Say whether the memory is kept from being swapped out: never here."""
        return False

    def is_shared(self) -> bool:
        """Say whether other processes can see the memory: those of the GPU are counted so."""
        return backends.of(self._array).name == "cuda"

    def is_distributed(self) -> bool:
        """Say whether the numbers are spread over processes: never."""
        return False

    def is_coalesced(self) -> bool:
        """A question for sparse tensors only. Raises: RuntimeError: always."""
        raise RuntimeError("is_coalesced expected sparse coordinate tensor layout but got strided")

    def is_signed(self) -> bool:
        """Say whether the type of the numbers has negative ones."""
        return self._array.dtype.kind not in "ub"

    # What the graph knows, in PyTorch's words ------------------------------------------------

    @property
    def output_nr(self) -> int:
        """Which output of its node this tensor is."""
        face = getattr(self._node, "public_node", None)
        return 0 if face is None else face()[1]

    @property
    def retains_grad(self) -> bool:
        """Say whether `retain_grad` was called on a tensor that is not a leaf."""
        hooks = getattr(self._node, "hooks", None)
        return bool(hooks and hooks.kept)

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


ABSENT = (
    "mps xpu xla hpu ipu maia mtia mkldnn vulkan meta nested quantized sparse sparse_csr".split()
)
"""Kinds of tensors that PyTorch has and this library has not: `x.is_<kind>` is False."""


def _absent_flag(name: str) -> property:
    def flag(self: MemoryMembers) -> bool:
        return False

    flag.__doc__ = f"Say whether it is a {name} tensor: never."
    return property(flag)


for _kind in ABSENT:
    setattr(MemoryMembers, f"is_{_kind}", _absent_flag(_kind))
