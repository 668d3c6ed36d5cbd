"""Rows of a profile as a text table, with PyTorch's columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import EdutorchError

WIDTH = 12
UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


class UnitError(EdutorchError, ValueError):
    """An unknown unit of time."""


def time_text(us: float, unit: str | None = None) -> str:
    """Format microseconds in a suitable unit, or in the given one.

    >>> time_text(12.5), time_text(43112.0), time_text(43112.0, "s")
    ('12.500us', '43.112ms', '0.043s')
    """
    if unit is None:
        unit = "s" if us >= 1e6 else "ms" if us >= 1e3 else "us"
    if unit not in UNITS:
        raise UnitError("table", "unknown time unit", {"time_unit": repr(unit)}, "'s', 'ms', 'us'")
    return f"{us / UNITS[unit]:.3f}{unit}"


def bytes_text(count: float) -> str:
    """Format bytes in a suitable unit.

    >>> bytes_text(320), bytes_text(-1712), bytes_text(3 * 2**20)
    ('320 B', '-1.67 KB', '3.00 MB')
    """
    for unit, size in (("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{int(count)} B"


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole > 0 else "--"


def shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 3, 0)] + "..."


def flops_unit(rows: Sequence[Any]) -> tuple[str, float]:
    largest = max((row.flops for row in rows), default=0)
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if largest >= size:
            return f"Total {prefix}FLOPs", size
    return "Total FLOPs", 1.0


Column = tuple[str, Callable[[Any], str]]


def make_columns(
    events: Any, rows: Sequence[Any], unit: str | None, total: float, device: float
) -> list[Column]:
    """Return the title of each column, and a function from a row to its text."""
    table_columns: list[Column] = [
        ("Self CPU %", lambda row: share(row.self_cpu_time_total, total)),
        ("Self CPU", lambda row: time_text(row.self_cpu_time_total, unit)),
        ("CPU total %", lambda row: share(row.cpu_time_total, total)),
        ("CPU total", lambda row: time_text(row.cpu_time_total, unit)),
        ("CPU time avg", lambda row: time_text(row.cpu_time, unit)),
    ]
    if events.with_device:
        table_columns += [
            ("Self CUDA", lambda row: time_text(row.self_device_time_total, unit)),
            ("Self CUDA %", lambda row: share(row.self_device_time_total, device)),
            ("CUDA total", lambda row: time_text(row.device_time_total, unit)),
            ("CUDA time avg", lambda row: time_text(row.device_time, unit)),
        ]
    if events.with_memory:
        table_columns += [
            ("CPU Mem", lambda row: bytes_text(row.cpu_memory_usage)),
            ("Self CPU Mem", lambda row: bytes_text(row.self_cpu_memory_usage)),
            ("Saved Mem", lambda row: bytes_text(row.saved_memory_usage)),
        ]
    return [*table_columns, ("# of Calls", lambda row: str(row.count))]


def table(
    events: Any,
    rows: Sequence[Any],
    widths: tuple[int, int, int],
    header: str | None,
    unit: str | None,
) -> str:
    """Format rows as text (see `EventList.table`).

    Args:
        widths: the maximal widths of names, shapes and source lines.
    """
    if not events:
        return ""
    total = events.total_us or events.self_cpu_time_total
    device = sum(row.self_device_time_total for row in events)
    name_width = min(max(len(row.key) for row in events) + 4, max(widths[0], 4))
    layout: list[tuple[str, Callable[[Any], str], int]] = [
        ("Name", lambda row: shorten(row.key, name_width), name_width)
    ]
    for title, text in make_columns(events, rows, unit, total, device):
        layout.append((title, text, max(WIDTH, len(title))))
    shape_width = max(len(row.input_shapes) for row in events)
    if shape_width:
        width = min(shape_width + 4, max(widths[1], 12))
        layout.append(("Input Shapes", lambda row: shorten(row.input_shapes, width), width))
    source = max((len(row.stack[0]) for row in events if row.stack), default=0)
    if events.with_stack and source:
        source_width = min(source + 4, widths[2])
        source_of = lambda row: row.stack[0][-source_width:] if row.stack else ""  # noqa: E731
        layout.append(("Source Location", source_of, source_width))
    if events.with_flops:
        title, size = flops_unit(rows)
        count = lambda row: f"{row.flops / size:.3f}" if row.flops else "--"  # noqa: E731
        layout.append((title, count, max(WIDTH, len(title))))

    def line(cells: Sequence[str]) -> str:
        pairs = zip(cells, layout, strict=True)
        return "  ".join(cell.rjust(width) for cell, (_, _, width) in pairs)

    rule = "  ".join("-" * width for _, _, width in layout)
    head = ["=" * len(rule), header] if header else []
    lines = [*head, rule, line([title for title, _, _ in layout]), rule]
    lines += [line([text(row) for _, text, _ in layout]) for row in rows]
    lines += [rule, f"Self CPU time total: {time_text(total, unit)}"]
    if events.with_device:
        lines.append(f"Self CUDA time total: {time_text(device, unit)}")
    return "\n".join([*lines, ""])
