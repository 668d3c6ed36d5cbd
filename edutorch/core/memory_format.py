"""Memory formats: the orders in which a tensor's elements are stored.

The axes of an image are (n, c, h, w) in every case; the format says only which axis has
the smallest stride: the last one, or with `channels_last` the channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "channels_last", "channels_last_3d", "contiguous_format", "layout", "memory_format",
    "preserve_format", "strided",
]  # fmt: skip


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
    """How the elements of a tensor are stored; here always `strided`.

    >>> zeros(2).layout
    torch.strided
    """

    def __repr__(self) -> str:
        return "torch.strided"

    def __reduce__(self) -> str:
        return "strided"


strided = layout()
"""Elements at regular steps in memory."""


def memory_order(array: Any) -> tuple[int, ...] | None:
    """Return the order of the axes in memory that a copy keeps; None: row-major."""
    if array.flags.c_contiguous:
        return None
    sizes, steps = array.shape, array.strides
    if any(step == 0 and size > 1 for size, step in zip(sizes, steps, strict=True)):
        return None
    order = sorted(range(array.ndim), key=lambda axis: -steps[axis] if sizes[axis] > 1 else -1e30)
    return None if order == sorted(order) else tuple(order)


def make_in_order(
    make: Callable[[tuple[int, ...]], Any], shape: Sequence[int], order: tuple[int, ...] | None
) -> Any:
    """Return `make(shape)` with its axes in this order in memory."""
    if order is None:
        return make(tuple(shape))
    inverse = [order.index(axis) for axis in range(len(order))]
    return make(tuple(shape[axis] for axis in order)).transpose(inverse)
