"""The rows of a profile: single calls, averages over all calls with one name, and their table.

Times are in microseconds, memory in bytes, as in PyTorch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..errors import EdutorchError
from ..utils.atomic_files import name_file_in_errors
from .tree import Span, bytes_text, time_text, walk


class Interval(NamedTuple):
    """A time interval, in microseconds since the profile began."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return its length."""
        return self.end - self.start


class _Row:
    """The base class of single calls and averages."""

    key: str
    count: int
    cpu_time_total: float
    device_time_total: float
    is_async = is_legacy = is_remote = False
    node_id = -1

    @property
    def cpu_time(self) -> float:
        """Microseconds per call on the host."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Microseconds per call on the GPU."""
        return self.device_time_total / self.count if self.count else 0.0

    @property
    def cuda_time(self) -> float:
        """The same as `device_time`."""
        return self.device_time

    @property
    def cuda_time_total(self) -> float:
        """The same as `device_time_total`."""
        return self.device_time_total


class FunctionEvent(_Row):
    """One call: of an op, a module, a node of backward, …

    Attributes:
        name, kind: the name and kind of the span; every step is "ProfilerStep*".
        trace_name: the name, with the number of the step.
        cpu_time_total, self_cpu_time_total: microseconds, with and without its children.
        device_time_total, self_device_time_total: the same on the GPU.
        cpu_memory_usage, self_cpu_memory_usage: bytes allocated minus bytes freed.
        saved_memory_usage: bytes saved for backward.
        time_range: by the wall clock, including the profiler's own time.
        input_shapes, stack, flops, module, thread, sequence_nr: if they were recorded.
    """

    def __init__(self, span: Span, number: int, origin: int) -> None:
        self.id = number
        self.trace_name = span.name
        self.name = self.key = "ProfilerStep*" if span.kind == "step" else span.name
        self.kind, self.thread, self.count = span.kind, span.thread, 1
        self.module, self.stack, self.flops = span.module, span.stack, span.flops
        self.input_shapes = str([as_list(shape) for shape in span.shapes]) if span.shapes else ""
        self.sequence_nr = -1 if span.sequence is None else span.sequence
        self.cpu_time_total = span.duration / 1000
        self.self_cpu_time_total = span.own / 1000
        self.device_time_total = span.device_ns / 1000
        children = sum(child.device_ns for child in span.children)
        self.self_device_time_total = max(span.device_ns - children, 0) / 1000
        self.cpu_memory_usage = span.net_memory
        self.self_cpu_memory_usage = span.made - span.freed
        self.saved_memory_usage = span.kept
        self.time_range = Interval((span.start - origin) / 1000, (span.end - origin) / 1000)
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_total:.3f}us "
            f"start_us={self.time_range.start:.3f} end_us={self.time_range.end:.3f} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


SUMMED_FIELDS = (
    "cpu_time_total",
    "self_cpu_time_total",
    "device_time_total",
    "self_device_time_total",
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "saved_memory_usage",
    "flops",
    "count",
)


class FunctionEventAvg(_Row):
    """All calls with one name: sums, and averages per call.

    The time of a call inside another one with the same name counts only once in the total.
    """

    def __init__(self, key: str = "", span_kind: str = "") -> None:
        self.key, self.kind = key, span_kind
        self.input_shapes = ""
        self.stack: list[str] = []
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.device_time_total = self.self_device_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = self.saved_memory_usage = 0
        self.flops = self.count = 0

    def add(self, other: Any) -> FunctionEventAvg:
        """Add a call, or an average."""
        inside = isinstance(other, FunctionEvent) and has_ancestor(other)
        for name in SUMMED_FIELDS:
            total = name in ("cpu_time_total", "device_time_total", "cpu_memory_usage")
            if not (total and inside):
                setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total:.3f}us "
            f"cpu_time={self.cpu_time:.3f}us self_cuda_time={self.self_device_time_total:.3f}us "
            f"cuda_time={self.device_time:.3f}us input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


def has_ancestor(event: FunctionEvent) -> bool:
    """Return True if a call runs inside another one with the same name."""
    above = event.cpu_parent
    while above is not None:
        if above.name == event.name:
            return True
        above = above.cpu_parent
    return False


class UnknownMetricError(EdutorchError, AttributeError, ValueError):
    """An unknown metric for sorting rows or weighing stacks."""


METRICS = tuple(
    f"{own}{what}" for what in ("cpu_time_total", "device_time_total", "cpu_memory_usage")
    for own in ("", "self_")
) + ("cpu_time", "device_time", "cuda_time", "cuda_time_total", "count", "flops",
     "saved_memory_usage")  # fmt: skip
"""The metrics that rows can be sorted by."""


def metric(function: str, name: str) -> str:
    """Return the attribute for a metric's name; PyTorch uses "cuda" for any device.

    Raises: AttributeError (a ValueError too): no row has it.
    """
    known = name.replace("self_cuda", "self_device").replace("cuda_memory", "cpu_memory")
    if known not in METRICS:
        raise UnknownMetricError(
            function, "rows do not have that", {"asked for": repr(name)},
            f"one of {', '.join(METRICS)}",
        )  # fmt: skip
    return known


class EventList(list[Any]):
    """Calls, or their averages, that can print themselves as a table.

    Attributes:
        with_memory, with_flops, with_stack, with_device: which columns to show.
        total_us: the time of the whole profile, in microseconds: the sum of all self times.
    """

    def __init__(
        self, rows: Iterable[Any] = (), *, with_memory: bool = False, with_flops: bool = False,
        with_stack: bool = False, with_device: bool = False, total_us: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(rows)
        self.with_memory, self.with_flops = with_memory, with_flops
        self.with_stack, self.with_device, self.total_us = with_stack, with_device, total_us

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of all self times, in microseconds."""
        return sum(row.self_cpu_time_total for row in self)

    def like(self, rows: Iterable[Any]) -> EventList:
        """Return other rows with the same columns."""
        return EventList(
            rows, with_memory=self.with_memory, with_flops=self.with_flops,
            with_stack=self.with_stack, with_device=self.with_device, total_us=self.total_us,
        )  # fmt: skip

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Return one row per name (and per input shapes, and per last n lines of the stack)."""
        groups: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shapes else ""
            stack: tuple[str, ...] = tuple(event.stack[: max(group_by_stack_n, 0)])
            key = (event.key, event.kind, shapes, stack)
            row = groups.get(key)
            if row is None:
                row = groups[key] = FunctionEventAvg(event.key, event.kind)
                row.input_shapes, row.stack = shapes, list(stack)
            row.add(event)
        return self.like(groups.values())

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all rows, with the name 'Total'."""
        total = FunctionEventAvg("Total")
        for row in self:
            total.add(row)
        return total

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int = 55, max_shapes_column_width: int = 80,
        header: str | None = None, top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """Return the rows as a text table.

        Args:
            sort_by: a metric, largest first: "self_cpu_time_total", "cpu_memory_usage", …
            row_limit: the maximal number of rows; -1 for all.
            header: a line above the table.
            top_level_events_only: omit calls inside other calls.
            time_unit: "s", "ms" or "us" for all times; None chooses one for each.

        Raises: AttributeError: an unknown metric.
        """

        rows = list(self)
        if sort_by is not None:
            name = metric("table", sort_by)
            rows.sort(key=lambda row: getattr(row, name), reverse=True)
        if top_level_events_only:
            rows = [row for row in rows if getattr(row, "cpu_parent", None) is None]
        widths = (max_name_column_width, max_shapes_column_width, max_src_column_width)
        limited = rows[:row_limit] if row_limit >= 0 else rows
        return table(self, limited, widths, header, time_unit)

    def export_stacks(self, path: str | os.PathLike[str], metric_name: str) -> None:
        """Write one line per call, "outermost;…;innermost microseconds", for flame tools."""
        name = metric("export_stacks", metric_name)
        clean = str.maketrans(" ;\t\n", "____")
        with name_file_in_errors(path), open(path, "w", encoding="utf-8") as file:
            for event in self:
                value = int(getattr(event, name))
                if event.stack and value > 0:
                    lines = [entry.translate(clean) for entry in reversed(event.stack)]
                    file.write(f"{';'.join(lines)} {value}\n")

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the calls as a timeline for chrome://tracing (`profile` writes a fuller one)."""
        from .chrome_trace import events_trace, write_trace

        write_trace(path, events_trace(self))

    def __str__(self) -> str:
        return self.table()


def events(roots: list[Span], origin: int) -> list[FunctionEvent]:
    """Return all spans as events, with their parents and children."""
    by_span: dict[int, FunctionEvent] = {}
    for number, span in enumerate(walk(sorted(roots, key=span_start))):
        event = by_span[id(span)] = FunctionEvent(span, number, origin)
        parent = by_span.get(id(span.parent))
        if parent is not None:
            event.cpu_parent = parent
            parent.cpu_children.append(event)
    return list(by_span.values())


span_start: Callable[[Span], int] = lambda span: span.start  # noqa: E731


def as_list(shape: Any) -> Any:
    return [as_list(size) for size in shape] if isinstance(shape, tuple | list) else shape


WIDTH = 12


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
