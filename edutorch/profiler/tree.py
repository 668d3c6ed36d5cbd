"""The pieces of work in a profile, and its tree, in which calls with the same name are merged.

    profile ─ Net ─ features.0 (Conv2d) ─ conv2d
            ─ backward ─ Net ─ features.0 (Conv2d) ─ ConvolutionBackward0
            ─ Optimizer.step#Adam.step

A node of backward is placed below the modules of its op.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import EdutorchError


class Span:
    """A piece of work as plain data, without references to tensors.

    Attributes:
        kind: "op", "node", "backward", "optimizer", "module", "data", "range", "collective"
            or "step".
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


class Frame:
    """All calls of one op or module with the same parents.

    Attributes:
        within: the path of the module around it, with a dot.
        ns: the total nanoseconds of all calls, with their children.
        calls: the number of calls.
        children: by (kind, name), in the order of the first calls.
        shapes: the shapes of inputs that occurred, as text.
        made, kept, flops: sums of bytes allocated, of bytes saved for backward, of FLOPs.
    """

    __slots__ = (
        "calls", "children", "flops", "kept", "kind", "made", "name", "ns", "shapes", "within",
    )  # fmt: skip

    def __init__(self, kind: str, name: str, within: str = "") -> None:
        self.kind, self.name, self.within = kind, name, within
        self.ns = self.calls = self.made = self.kept = self.flops = 0
        self.children: dict[tuple[str, str], Frame] = {}
        self.shapes: dict[str, None] = {}

    def child(self, kind: str, name: str) -> Frame:
        """Return the child with this kind and name; it is created if it is new."""
        frame = self.children.get((kind, name))
        if frame is None:
            within = self.within
            if self.kind == "module" and "(" in self.name:
                within = self.name.partition(" (")[0] + "."
            frame = self.children[kind, name] = Frame(kind, name, within)
        return frame

    @property
    def label(self) -> str:
        """A short name: of a module, its path relative to the module around it."""
        if self.kind != "module":
            return self.name.removeprefix("Optimizer.").partition("#")[0] + self._class_suffix()
        return self.name.removeprefix(self.within)

    def _class_suffix(self) -> str:
        return f" {self.name.partition('#')[2].partition('.')[0]}" if "#" in self.name else ""

    @property
    def own(self) -> int:
        """Nanoseconds without those of the children."""
        return self.ns - sum(child.ns for child in self.children.values())

    def depth(self) -> int:
        """Return the height of the tree, this frame included."""
        return 1 + max((child.depth() for child in self.children.values()), default=0)

    def add(self, span: Span) -> None:
        """Add one call of this frame, with its children."""
        self.ns += span.duration
        self.calls += 1
        self.made, self.kept, self.flops = (
            self.made + span.made, self.kept + span.kept, self.flops + span.flops,
        )  # fmt: skip
        if span.shapes and len(self.shapes) < 4:
            self.shapes[shapes_text(span.shapes)] = None
        visited = set()  # modules that are already counted for this call
        for below in sorted(span.children, key=lambda child: child.start):
            frame = self
            if below.kind == "node":
                for module in below.module:
                    frame = frame.child("module", module)
                    frame.ns += below.duration
                    frame.calls += frame not in visited
                    visited.add(frame)
            frame.child(below.kind, plain_name(below)).add(below)


def plain_name(span: Span) -> str:
    """Return the name without the parts that differ from call to call."""
    if span.kind == "step":
        return span.name.partition("#")[0]
    return span.name.removeprefix("nn.Module: ")


def shapes_text(shapes: list[Any]) -> str:
    return ", ".join(
        "×".join(map(str, shape)) if shape and isinstance(shape, tuple) else "scalar"
        for shape in shapes
    )


def build_tree(roots: list[Span], name: str = "profile") -> Frame:
    """Return the tree of all spans."""
    top = Frame("profile", name)
    top.calls = 1
    for span in sorted(roots, key=lambda root: root.start):
        top.ns += span.duration
        top.child(span.kind, plain_name(span)).add(span)
    return top


def describe(frame: Frame, whole: int) -> list[str]:
    """Return a description of a frame as lines: for a tooltip, or a screen reader."""
    lines = [
        f"{KINDS[frame.kind]} {frame.name}",
        f"{time_text(frame.ns / 1000)}, {100 * frame.ns / max(whole, 1):.1f} % of all",
        f"{frame.calls} call{'s' * (frame.calls != 1)}, own time {time_text(frame.own / 1000)}",
    ]
    if frame.shapes:
        lines.append(f"inputs {'; '.join(frame.shapes)}")
    if frame.flops:
        lines.append(f"{frame.flops:.3g} operations")
    if frame.made:
        kept = f", {bytes_text(frame.kept)} kept for backward" if frame.kept else ""
        lines.append(f"{bytes_text(frame.made)} made{kept}")
    return lines


KINDS = {
    "profile": "all of", "module": "module", "op": "op", "node": "backward of op",
    "backward": "pass", "optimizer": "optimizer", "data": "data", "range": "range", "step": "steps",
    "collective": "collective",
}  # fmt: skip


# As text -----------------------------------------------------------------------------------


def format_tree(top: Frame, limit: int = 60, smallest: float = 0.005) -> str:
    """Return the tree as text, one line per frame: time, share of the total, calls, name.

    Args:
        limit: the maximal number of lines.
        smallest: omit frames below this share of the total, and print their number.
    """
    lines = [f"{'time':>10}  {'share':>6}  {'calls':>5}"]
    for prefix, frame, left_out in iter_lines(top, "", "", top.ns * smallest):
        if len(lines) > limit:
            lines.append("… (limit= shows more)")
            break
        if frame is None:
            lines.append(f"{'':>10}  {'':>6}  {'':>5}  {prefix}… {left_out} smaller")
            continue
        share = 100 * frame.ns / max(top.ns, 1)
        lines.append(
            f"{time_text(frame.ns / 1000):>10}  {share:5.1f}%  {frame.calls:>5}  "
            f"{prefix}{replace_unprintable(frame.label)}"
        )
    return "\n".join(lines)


def iter_lines(
    frame: Frame, prefix: str, child_prefix: str, smallest: float
) -> Iterator[tuple[str, Frame | None, int]]:
    """Yield the lines of a frame and of all its descendants that are large enough."""
    yield prefix, frame, 0
    large = [child for child in frame.children.values() if child.ns >= smallest]
    left_out = len(frame.children) - len(large)
    for number, child in enumerate(large):
        last = number == len(large) - 1 and not left_out
        mark, rest = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from iter_lines(child, child_prefix + mark, child_prefix + rest, smallest)
    if left_out:
        yield child_prefix + "└─ ", None, left_out


def replace_unprintable(name: str) -> str:
    """Replace unprintable characters, which could move the cursor of a terminal."""
    return "".join(character if character.isprintable() else "�" for character in name)


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
