"""Memory statistics of a card: how much is in use and reserved, its peak, and what holds it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .. import backends
from ..backends.device import DeviceLike
from ..backends.memory_counts import Amount, format_bytes
from ..errors import InvalidValueError
from .devices import card_index
from .driver import driver

__all__ = [
    "get_allocator_backend", "get_per_process_memory_fraction", "max_memory_allocated",
    "max_memory_cached", "max_memory_reserved", "memory_cached", "memory_snapshot", "memory_stats",
    "memory_stats_as_nested_dict", "memory_summary", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]  # fmt: skip


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """Return the statistics of a card's memory as nested dictionaries; empty without a card."""
    if backends.is_unavailable(backends.ACCELERATOR):
        return {}
    counts = driver().memory_counts(card_index(device))
    used, reserved = {"all": vars(counts.used)}, {"all": vars(counts.reserved)}
    unused = {
        name: reserved["all"][name] - used["all"][name] if name == "current" else 0
        for name in vars(counts.used)
    }
    # All memory in use is active: nothing waits here to be freed. Numbers of blocks are not kept.
    return {
        "active_bytes": used, "allocated_bytes": used, "reserved_bytes": reserved,
        "inactive_split_bytes": {"all": unused},
        "num_alloc_retries": 0, "num_ooms": counts.out_of_memory_count,
    }  # fmt: skip


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Return the statistics of a card's memory: "allocated_bytes.all.peak", …; empty without one.

    Keys end in "current", "peak", "allocated" and "freed", in bytes. There are no pools for small
    and large blocks, so "all" is the only one.
    """
    flat: list[tuple[str, Any]] = []

    def add(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                add(f"{prefix}.{name}" if prefix else name, inner)
        else:
            flat.append((prefix, value))

    add("", memory_stats_as_nested_dict(device))
    return OrderedDict(sorted(flat))


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Return the most bytes that tensors have used on a card at once; 0 without a card.

    >>> cuda.max_memory_allocated() >= cuda.memory_allocated()
    True
    """
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Return the most bytes that were in use or cached on a card at once; 0 without a card."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Let the peaks begin at what is in use now. Raises: DeviceError: there is no card."""
    counts = driver().memory_counts(card_index(device))
    counts.used.reset_peak()
    counts.reserved.reset_peak()


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Let the totals begin at 0. Raises: DeviceError: there is no card."""
    counts = driver().memory_counts(card_index(device))
    counts.used.reset_total()
    counts.reserved.reset_total()
    counts.out_of_memory_count = 0


def memory_cached(device: DeviceLike = None) -> int:
    """The old name of `memory_reserved`."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


max_memory_cached = max_memory_reserved
"""The old name of `max_memory_reserved`."""

reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
"""The old names of `reset_peak_memory_stats`."""


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Limit this process to a fraction of the memory of a card.

    Raises: ValueError: the fraction is not from 0 to 1.
    """
    if not 0 <= fraction <= 1:
        raise InvalidValueError(
            "set_per_process_memory_fraction",
            f"Invalid fraction value: {fraction}. Allowed range: 0~1",
        )
    driver().set_memory_fraction(card_index(device), float(fraction))


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    """Return the fraction of the memory of a card that this process may use."""
    index = card_index(device)
    return driver().memory_limit(index) / driver().memory_info(index)[1]


def get_allocator_backend() -> str:
    """Return the name of the allocator: CuPy's pool, PyTorch's "native"."""
    return "native"


COLUMNS = ("Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed")


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """Return a table of a card's memory, and of its largest tensors unless `abbreviated`."""
    index = card_index(device)
    counts = driver().memory_counts(index)
    line = "|" + "=" * 75 + "|"
    rows = [
        line,
        f"|{f'edutorch CUDA memory summary, device ID {index}':^75}|",
        line,
        f"|{f'CUDA OOMs: {counts.out_of_memory_count}':^75}|",
        line,
        "|".join(["", f"{'Metric':^23}", *(f"{name:^12}" for name in COLUMNS), ""]),
        line,
        summary_row("Allocated memory", counts.used),
        summary_row("Active memory", counts.used),
        summary_row("GPU reserved memory", counts.reserved),
        line,
    ]
    if not abbreviated:
        from .held import describe_held

        rows += [f"  {name}  {text}" for name, text in describe_held(index).items()]
    return "\n".join(rows)


def summary_row(name: str, amount: Amount) -> str:
    """Return a row of the summary."""
    sizes = (amount.current, amount.peak, amount.allocated, amount.freed)
    return "|".join(["", f" {name:<22}", *(f"{format_bytes(size):>11} " for size in sizes), ""])


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> list[dict[str, Any]]:
    """Return a segment for each block of memory that tensors hold, on all cards.

    Each has an address, a size, and one block in the state "active_allocated", with the name of
    its tensor. CuPy does not show the blocks that its pool keeps for later.
    """
    from .held import held_blocks

    cards = backends.cards_of()
    return [
        {
            "device": index, "address": block.address, "total_size": block.size,
            "allocated_size": block.size, "active_size": block.size, "requested_size": block.size,
            "stream": 0, "segment_type": "large" if block.size > 2**20 else "small",
            "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
            "blocks": [
                {
                    "address": block.address, "size": block.size, "requested_size": block.size,
                    "state": "active_allocated", "frames": [], "user_metadata": block.name,
                }
            ],
        }
        for index in range(cards.count)
        for block in held_blocks(index)
    ]  # fmt: skip
