"""Numbers of a card's memory: in use, reserved, their peaks, and what is held when it is full."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import OutOfMemory

__all__ = ["Amount", "MemoryCounts", "format_bytes", "out_of_memory", "physical_memory"]

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
HINT = (
    "smaller batches, autocast or torch.utils.checkpoint need less; "
    "del and torch.cuda.empty_cache() release what is no longer needed"
)


def physical_memory() -> int:
    """Return the bytes of physical memory, 2**62 where the system does not report them.

    Linux grants more than that, and kills the process once it is used.
    """
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        size = 0
    return size if size > 0 else 2**62  # WebAssembly knows the name and no size


def format_bytes(size: int) -> str:
    """Format a number of bytes, as "7.3 TiB"."""
    if size < 1024:
        return f"{size} bytes"
    power = min((size.bit_length() - 1) // 10, len(UNITS) - 1)
    number = size / 1024**power
    return f"{number:.1f} {UNITS[power]}" if number < 1024 else f"{number:.3g} {UNITS[power]}"


@dataclass
class Amount:
    """Bytes that come and go.

    Attributes:
        current, peak: now, and at most since `reset_peak`.
        allocated, freed: in total, since `reset_total`.
    """

    current: int = 0
    peak: int = 0
    allocated: int = 0
    freed: int = 0

    def move_to(self, current: int) -> None:
        """Count the change from `current` to a new value as allocated, or as freed."""
        change = current - self.current
        if change > 0:
            self.allocated += change
        else:
            self.freed -= change
        self.current = current
        if current > self.peak:
            self.peak = current

    def reset_peak(self) -> None:
        """Let the peak begin at what is in use now."""
        self.peak = self.current

    def reset_total(self) -> None:
        """Let the totals begin at 0."""
        self.allocated = self.freed = 0


class MemoryCounts:
    """The memory of one card: `used` by arrays, and `reserved` for them by the pool."""

    def __init__(self) -> None:
        self.used, self.reserved = Amount(), Amount()
        self.out_of_memory_count = 0

    def move_to(self, used: int, reserved: int) -> None:
        """Count a change of both."""
        self.used.move_to(used)
        self.reserved.move_to(reserved)


describe_held: Callable[[int], dict[str, str]] = lambda index: {}  # noqa: E731
"""Returns the largest tensors on a card as rows of an error; `edutorch.cuda` puts it here."""


def out_of_memory(
    index: int, size: int, counts: MemoryCounts, free: int, total: int
) -> OutOfMemory:
    """Make the error for memory that a card does not have, with a table of what is held there.

    Args:
        index: the card.
        size: the bytes that were asked for.
        counts: its numbers.
        free, total: the bytes of the card itself.
    """
    counts.out_of_memory_count += 1
    rows = {
        "device": f"cuda:{index}", "total": format_bytes(total), "free": format_bytes(free),
        "allocated": format_bytes(counts.used.current),
        "reserved": format_bytes(counts.reserved.current),
    }  # fmt: skip
    message = f"CUDA out of memory: tried to allocate {format_bytes(size)}"
    return OutOfMemory(None, message, rows | describe_held(index), HINT)
