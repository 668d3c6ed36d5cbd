"""Spans: pieces of work with start, end and measured memory."""

from __future__ import annotations

from typing import Any


class Span:
    """A piece of work as plain data, without references to tensors.

    Attributes:
        kind: "op", "node", "backward", "optimizer", "module", "data", "range" or "step".
        start, end: on the clock of `time.perf_counter_ns`, in nanoseconds.
        aside: nanoseconds between them that the profiler itself took.
        module: the modules around it, the outermost first. A node of backward has those of
            the op that recorded it.
        made, freed: bytes of arrays, without children (see `memory.py`).
        kept: bytes of arrays that the op saved for backward.
        sequence: the number that an op and its node of backward share, or None.
        marks: the GPU events at start and end, until `device_ns` is known.
    """

    __slots__ = (
        "aside", "children", "device_ns", "dtypes", "end", "failed", "flops", "freed", "kept",
        "kind", "made", "marks", "module", "name", "parent", "sequence", "shapes", "stack", "start",
        "thread",
    )  # fmt: skip

    def __init__(self, kind: str, name: str, thread: int, parent: Span | None) -> None:
        self.kind, self.name, self.thread, self.parent = kind, name, thread, parent
        self.start = self.end = self.aside = self.device_ns = 0
        self.made = self.freed = self.kept = self.flops = 0
        self.children: list[Span] = []
        self.module: tuple[str, ...] = ()
        self.shapes: list[Any] = []
        self.dtypes: list[str] = []
        self.stack: list[str] = []
        self.sequence: int | None = None
        self.marks: tuple[Any, Any] | None = None
        self.failed = False

    @property
    def duration(self) -> int:
        """Nanoseconds from start to end, without the profiler's own time."""
        return self.end - self.start - self.aside

    @property
    def own(self) -> int:
        """Nanoseconds without those of the children."""
        return self.duration - sum(child.duration for child in self.children)

    @property
    def net_memory(self) -> int:
        """Bytes made minus bytes freed, children included."""
        return self.made - self.freed + sum(child.net_memory for child in self.children)

    def __repr__(self) -> str:
        return f"<Span {self.kind} {self.name} {self.duration / 1000:.1f}us>"


def walk(roots: list[Span]) -> list[Span]:
    """Return all spans in the order in which they began, parents before their children."""
    spans, waiting = [], list(reversed(roots))
    while waiting:
        span = waiting.pop()
        spans.append(span)
        waiting.extend(reversed(span.children))
    return spans
