"""The part of a tensor that one rank holds: where it begins in the whole, and how large it is.

A tensor in parts is recognized by what it offers, as PyTorch's `DTensor` does: `to_local()`,
`device_mesh` and `placements`. Everything else is whole, and the same on all ranks.

    w of shape (4, 6), Shard(1) on 2 ranks:   rank 0: offsets (0, 0), sizes (4, 3)
                                              rank 1: offsets (0, 3), sizes (4, 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.tensor import Tensor
from ...serialization import CheckpointError

__all__ = ["Chunk", "is_sharded", "local_chunk", "local_tensor", "overlap"]


class Chunk(NamedTuple):
    """A box within a tensor.

    >>> from edutorch.distributed.checkpoint.chunks import Chunk
    >>> Chunk((0, 3), (4, 3)).slices()
    (slice(0, 4, None), slice(3, 6, None))
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    def numel(self) -> int:
        """Return how many elements are in it."""
        count = 1
        for size in self.sizes:
            count *= size
        return count

    def slices(self, origin: Sequence[int] | None = None) -> tuple[slice, ...]:
        """Return the index of this box in a larger one that begins at `origin`."""
        start = origin or [0] * len(self.offsets)
        boxes = zip(self.offsets, self.sizes, start, strict=True)
        return tuple(slice(offset - first, offset - first + size) for offset, size, first in boxes)


def is_sharded(value: object) -> bool:
    """Whether a value is a tensor of which each rank holds a part."""
    return all(hasattr(value, name) for name in ("to_local", "device_mesh", "placements"))


def local_tensor(value: Any) -> Tensor:
    """Return the memory of this rank, without its history: writes into it are writes to `value`."""
    return (value.to_local() if is_sharded(value) else value).detach()


def local_chunk(value: Any, name: str) -> Chunk | None:
    """Return which part of a tensor this rank holds; None: none of it.

    Args:
        value: a tensor, or one in parts.
        name: its key, for errors.

    Raises: CheckpointError: its elements are sums that are not added up yet (`Partial`).
    """
    sizes = [int(size) for size in value.shape]
    offsets = [0] * len(sizes)
    if not is_sharded(value):
        return Chunk(tuple(offsets), tuple(sizes))
    place = value.device_mesh.get_coordinate()
    if place is None:
        return None
    for axis, placement in enumerate(value.placements):
        if placement.is_partial():
            raise CheckpointError(
                "save", f"{name} is Partial on axis {axis} of its mesh: a sum in parts",
                hint="call redistribute with Replicate() or Shard(0) first",
            )  # fmt: skip
        if placement.is_shard():
            parts, dim = int(value.device_mesh.size(axis)), placement.dim % len(sizes)
            part = -(-sizes[dim] // parts)  # as torch.chunk: the last ones are smaller, or empty
            begin = min(part * int(place[axis]), sizes[dim])
            offsets[dim] += begin
            sizes[dim] = min(part, sizes[dim] - begin)
    local = tuple(int(size) for size in value.to_local().shape)
    if local != tuple(sizes):
        raise CheckpointError(
            "save", f"{name}: its part has another shape than its placements say",
            {"here": local, "expected": tuple(sizes), "placements": value.placements},
        )  # fmt: skip
    chunk = Chunk(tuple(offsets), tuple(sizes))
    return chunk if chunk.numel() else None


def overlap(one: Chunk, other: Chunk) -> Chunk | None:
    """Return the box that two boxes share, or None.

    >>> from edutorch.distributed.checkpoint.chunks import Chunk, overlap
    >>> overlap(Chunk((0,), (4,)), Chunk((3,), (4,)))
    Chunk(offsets=(3,), sizes=(1,))
    """
    starts = [max(a, b) for a, b in zip(one.offsets, other.offsets, strict=True)]
    boxes = zip(one.offsets, one.sizes, other.offsets, other.sizes, starts, strict=True)
    sizes = [min(a + m, b + n) - start for a, m, b, n, start in boxes]
    if any(size <= 0 for size in sizes):
        return None
    return Chunk(tuple(starts), tuple(sizes))
