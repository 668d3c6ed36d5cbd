"""Batches of sequences of different lengths: padded to a rectangle, or packed.

Padded, short sequences are extended to the length of the longest. Packed, there is no padding:
the elements are stored time by time, the longest sequence first, and `batch_sizes` holds the
number of active sequences at each time.

    a b c        padded          a b c    packed    a d f b e c
    d e    →     (batch_first)   d e 0    →         batch_sizes 3 2 1
    f                            f 0 0

With a packed batch a recurrent network does not compute on padding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ...backends.device import Device, accelerator_device
from ...core.tensor import Tensor
from ...dtypes import int64
from ...errors import DeviceError, ShapeError, ValueRangeError
from ...ops import (
    arange,
    argsort,
    as_tensor,
    full,
    index_copy,
    index_select,
    nonzero,
    reshape,
    stack,
    sum,
    tensor,
    transpose,
    unbind,
)  # fmt: skip
from ..common_types import DeviceLike
from ..functional.op_decorators import SettingError
from ..functional.padding import pad

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedParts(NamedTuple):
    """The fields of a packed batch."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedParts):
    """A batch of sequences of different lengths without padding (see the module docstring).

    Args:
        data: the elements, time by time.
        batch_sizes: the number of active sequences at each time; int64, on the CPU.
        sorted_indices: the index of each sequence in the original batch; None: unchanged.
        unsorted_indices: the inverse permutation.

    Made by `pack_padded_sequence` and `pack_sequence`.

    >>> pack_sequence([tensor([1, 2]), tensor([3])])[:2]
    (tensor([1, 3, 2]), tensor([2, 1]))
    """

    def __new__(
        cls, data: Tensor, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:  # fmt: skip
        """Create the tuple. Raises: ValueError: `batch_sizes` is not on the CPU."""
        if batch_sizes is None:
            # PyTorch's older form: one pair instead of two arguments.
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like pack_sequence"
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return it with its data on another device or in another dtype."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        order, inverse = (
            indices if indices is None else indices.to(data.device)
            for indices in (self.sorted_indices, self.unsorted_indices)
        )
        return PackedSequence(data, self.batch_sizes, order, inverse)

    def cpu(self) -> PackedSequence:
        """Return it on the CPU."""
        return self.to("cpu")

    def cuda(self, device: DeviceLike = None) -> PackedSequence:
        """Return it on the GPU. Raises: DeviceError: there is none."""
        return self.to(accelerator_device(device))

    def double(self) -> PackedSequence:
        """Return it in float64."""
        return PackedSequence(self.data.double(), *self[1:])

    def float(self) -> PackedSequence:
        """Return it in float32."""
        return PackedSequence(self.data.float(), *self[1:])

    def half(self) -> PackedSequence:
        """Return it in float16."""
        return PackedSequence(self.data.half(), *self[1:])

    def long(self) -> PackedSequence:
        """Return it in int64."""
        return PackedSequence(self.data.long(), *self[1:])

    def int(self) -> PackedSequence:
        """Return it in int32."""
        return PackedSequence(self.data.int(), *self[1:])

    def short(self) -> PackedSequence:
        """Return it in int16."""
        return PackedSequence(self.data.short(), *self[1:])

    def char(self) -> PackedSequence:
        """Return it in int8."""
        return PackedSequence(self.data.char(), *self[1:])

    def byte(self) -> PackedSequence:
        """Return it in uint8."""
        return PackedSequence(self.data.byte(), *self[1:])

    def is_pinned(self) -> bool:
        """Return True if the data is in pinned memory."""
        return self.data.is_pinned()

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse of a permutation.

    >>> invert_permutation(tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else argsort(permutation)


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:  # fmt: skip
    """Pack a padded batch.

    Args:
        input: (time, n, …), or (n, time, …) with `batch_first`.
        lengths: the length of each sequence; a list, or a tensor on the CPU.
        enforce_sorted: require the sequences sorted by decreasing length; False sorts them.

    Raises: RuntimeError: the lengths do not fit the batch, are not positive, or not sorted.

    >>> pack_padded_sequence(tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True).data
    tensor([1, 3, 2])
    """
    rows = transpose(input, 0, 1) if batch_first else input
    sizes = check_lengths(lengths, rows)
    order = None
    if not enforce_sorted:
        # Stable, so that equally long sequences keep their order.
        order = argsort(sizes, descending=True, stable=True)
        sizes, order = sizes[order], order.to(input.device)
        rows = index_select(rows, 1, order)
    length_list = sizes.tolist()
    if any(after > before for before, after in pairwise(length_list)):
        raise ValueRangeError(
            "pack_padded_sequence",
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True",
            {"lengths": length_list}, "enforce_sorted=False sorts them",
        )  # fmt: skip
    # On the CPU: the loop over times reads the sizes as Python integers.
    is_active = arange(length_list[0], device="cpu")[:, None] < sizes
    # By positions: those of a mask are not known without waiting for a GPU.
    used = reshape(rows[: length_list[0]], (-1, *rows.shape[2:]))
    data = index_select(used, 0, positions_of(is_active, input.device))
    return PackedSequence(data, sum(is_active, 1), order, None)


def positions_of(mask: Tensor, device: Device) -> Tensor:
    """Return the positions of a mask on the CPU that are true, on a device."""
    return nonzero(reshape(mask, (-1,)))[:, 0].to(device)


def check_lengths(lengths: Tensor | Sequence[int], rows: Tensor) -> Tensor:
    """Return the lengths as int64, if they fit the batch (time, n, …)."""
    if isinstance(lengths, Tensor) and lengths.device.type != "cpu":
        raise DeviceError(
            "pack_padded_sequence", "'lengths' argument should be a 1D CPU int64 tensor",
            {"lengths": f"on {lengths.device}"}, "lengths.cpu()",
        )  # fmt: skip
    sizes = as_tensor(lengths, dtype=int64, device="cpu")
    times, batch = rows.shape[:2]
    arguments = {"input": tuple(rows.shape), "lengths": sizes.tolist()}
    if sizes.numel() != batch:
        raise ShapeError(
            "pack_padded_sequence", "Expected `len(lengths)` to be equal to batch_size, but got "
            f"{sizes.numel()} (batch_size={batch})", arguments,
            "is the batch the first axis? batch_first=True" if sizes.numel() == times else None,
        )  # fmt: skip
    if min(arguments["lengths"], default=0) <= 0:  # type: ignore[call-overload]
        raise ValueRangeError(
            "pack_padded_sequence", "Length of all samples has to be greater than 0, but found "
            "an element in 'lengths' that is <= 0", arguments,
        )  # fmt: skip
    if max(arguments["lengths"]) > times:  # type: ignore[call-overload]
        raise ShapeError("pack_padded_sequence", f"only {times} times are there", arguments)
    return sizes


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Unpack into a padded batch. Returns the batch and the lengths.

    Args:
        batch_first: (n, time, …) instead of (time, n, …).
        padding_value: the value of the padding.
        total_length: the padded length, by default that of the longest sequence.

    Raises: ValueError: `total_length` is shorter than that.

    >>> packed = pack_sequence([tensor([1, 2]), tensor([3])])
    >>> pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2],
            [3, 0]]), tensor([2, 1]))
    """
    data, sizes, _, inverse = sequence
    times, batch = sizes.shape[0], int(sizes[0])
    if total_length is not None and total_length < times:
        raise SettingError(
            "pad_packed_sequence", "Expected total_length to be at least the length of the longest "
            f"sequence in input, but got total_length={total_length} and max sequence length "
            f"being {times}",
        )  # fmt: skip
    is_active = arange(batch, device="cpu") < sizes[:, None]
    trailing = tuple(data.shape[1:])
    filled = full((times * batch, *trailing), padding_value, dtype=data.dtype, device=data.device)
    rows = index_copy(filled, 0, positions_of(is_active, data.device), data)
    rows = reshape(rows, (times, batch, *trailing))
    if total_length is not None:
        longer = (0, 0) * (rows.ndim - 1) + (0, total_length - times)
        rows = pad(rows, longer, "constant", padding_value)
    lengths = sum(is_active, 0)
    if inverse is not None:
        rows, lengths = index_select(rows, 1, inverse), lengths[inverse.cpu()]
    return (transpose(rows, 0, 1) if batch_first else rows), lengths


def pad_sequence(
    sequences: Tensor | Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:  # fmt: skip
    """Pad sequences (time, …) to the length of the longest, and stack them.

    Args:
        batch_first: (n, time, …) instead of (time, n, …).
        padding_value: the value of the padding.
        padding_side: "right", or "left" of each sequence.

    Raises: RuntimeError: no sequences, or their other axes differ.

    >>> pad_sequence([tensor([1, 2]), tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise ShapeError(
            "pad_sequence", "Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}",
        )  # fmt: skip
    sequence_list = list(sequences)
    if padding_side not in ("left", "right"):
        raise ValueRangeError(
            "pad_sequence", "Expected padding_side to be one of left or right, but got "
            f"{padding_side}.",
        )  # fmt: skip
    if not sequence_list:
        raise ShapeError("pad_sequence", "received an empty list of sequences")
    if any(sequence.shape[1:] != sequence_list[0].shape[1:] for sequence in sequence_list):
        shapes = [tuple(sequence.shape) for sequence in sequence_list]
        raise ShapeError(
            "pad_sequence", "all axes but the first must be the same", {"sequences": shapes}
        )
    longest = max(sequence.shape[0] for sequence in sequence_list)
    rows = []
    for sequence in sequence_list:
        missing = longest - sequence.shape[0]
        width = (missing, 0) if padding_side == "left" else (0, missing)
        rows.append(pad(sequence, (0, 0) * (sequence.ndim - 1) + width, "constant", padding_value))
    return stack(rows, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False
) -> list[Tensor]:
    """Split a padded batch into its sequences.

    >>> unpad_sequence(tensor([[1, 2], [3, 0]]), tensor([2, 1]), batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    rows = unbind(padded_sequences, 0 if batch_first else 1)
    sizes = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    return [row[:size] for row, size in zip(rows, sizes, strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (time, …) sorted by decreasing length (or any: `enforce_sorted=False`).

    >>> pack_sequence([tensor([1]), tensor([2, 3])], enforce_sorted=False).data
    tensor([2, 1, 3])
    """
    lengths = tensor([sequence.shape[0] for sequence in sequences], dtype=int64, device="cpu")
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences of a packed batch, in the original order.

    >>> unpack_sequence(pack_sequence([tensor([1]), tensor([2, 3])], enforce_sorted=False))
    [tensor([1]), tensor([2, 3])]
    """
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), True)
