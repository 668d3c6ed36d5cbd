"""The messages to the page: see `widgets/protocol.d.ts`."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ...backends.numpy import ROW_STATISTICS, Array
from ..graph.fold import SEVERAL, Plan, gradient_node
from ..graph.model import Defect, Graph, GraphNode, Snapshot, find_alarming
from ..render import legend
from ..render.dot import FAINT
from ..tensors.summaries import TINY, Stats, elements_text
from ..tensors.thumbnails import Thumbnail, page_thumbnail
from .panel import Panel

State = Literal["running", "paused", "finished", "interrupted", "failed", "still"]

MOST_POINTS = 120

MOST_BYTES = 600, 16
"""The values of one update have at most this many bytes, and this many for each node."""


class Curve:
    """All values of one scalar, thinned so that a message stays small.

    When it grows too long, neighbours are averaged in pairs: a point then stands for twice as
    many steps.
    """

    def __init__(self) -> None:
        self._points: list[tuple[int, float, int]] = []  # last step, sum of values, count
        self._per_point = 1

    def add(self, step: int, value: float) -> None:
        """Add the value at `step`."""
        self.extend(step, [value])

    def extend(self, first: int, values: Sequence[float]) -> None:
        """Add the values of all steps from `first` on."""
        at = 0
        while at < len(values):
            total, count = 0.0, 0
            if self._points and self._points[-1][2] < self._per_point:
                _, total, count = self._points.pop()
            # Pairs, not every second one: a mean keeps spikes visible.
            elif len(self._points) == MOST_POINTS:
                pairs = zip(self._points[::2], self._points[1::2], strict=True)
                self._points = [(b[0], a[1] + b[1], a[2] + b[2]) for a, b in pairs]
                self._per_point *= 2
            some = values[at : at + self._per_point - count]
            at += len(some)
            self._points.append((first + at - 1, total + sum(some), count + len(some)))

    def cut(self, step: int) -> None:
        """Remove the values from `step` on: what was counted as steps were parts of one."""
        self._points = [point for point in self._points if point[0] < step]

    @property
    def latest(self) -> tuple[int, float | None]:
        """The last point, as in `points`."""
        step, total, count = self._points[-1]
        return step, total / count if math.isfinite(total) else None

    def points(self) -> list[tuple[int, float | None]]:
        """Return [step, mean value] pairs; None for NaN and infinity, which JSON lacks."""
        means = ((step, total / count) for step, total, count in self._points)
        return [(step, mean if math.isfinite(mean) else None) for step, mean in means]


def patch_of(
    step: int,
    state: State,
    curves: Mapping[str, Curve],
    parts: Iterable[Panel] = (),
    speed: float | None = None,
) -> dict[str, Any]:
    """Return the part of a `Patch` that does not depend on a graph."""
    data_of_parts = ((part.name, part.patch()) for part in parts)
    note = legend.with_note("")
    return {
        "type": "patch",
        "step": step,
        "latest": {name: curve.latest for name, curve in curves.items()},
        "state": state,
        "speed": speed,
        "parts": {name: data for name, data in data_of_parts if data is not None},
        **({"note": note} if note else {}),
    }


def texts_of(snapshot: Snapshot | None) -> dict[str, Any]:
    """Return the part of a `Patch` that float32 values cannot say."""
    nodes = snapshot.graph.nodes if snapshot else ()
    values = snapshot.values if snapshot else ()
    grads = snapshot.grads if snapshot else ()
    return {
        "structure": snapshot.graph.structure if snapshot else "",
        "tiny": _texts(zip(nodes, values, strict=True)),
        "tinyGrad": _texts(zip(nodes, grads, strict=True)),
        "bad": list(snapshot.bad) if snapshot else [],
    }


def thumbs_of(snapshot: Snapshot, step: int) -> dict[str, Any]:
    """Return the part of a `Patch` that shows tensors as thumbnails, where these are known."""
    rows = zip(snapshot.graph.nodes, snapshot.values, strict=True)
    thumbnails = ((node.id, page_thumbnail(node, stats)) for node, stats in rows
             if stats is not None and stats.bars)  # fmt: skip
    thumbs = {id: thumbnail for id, thumbnail in thumbnails if thumbnail is not None}
    return {"thumbs": thumbs, "thumbsStep": step}


def _texts(rows: Iterable[tuple[GraphNode, Stats | None]]) -> dict[str, str]:
    return {
        node.id: stats.text
        for node, stats in rows
        if stats is not None and stats.text and not is_real(node)
    }


def is_real(node: GraphNode) -> bool:
    """Return True if the elements of a node are floats, which the page writes itself."""
    return "float" in node.dtype


def few_count(node: GraphNode) -> int:
    """Return how many elements of a node are sent one by one: a scalar is its own mean."""
    count = math.prod(node.shape)
    return count if is_real(node) and 1 < count <= TINY else 0


def few_fit(graph: Graph) -> bool:
    """Return True if a stream of updates has room for the elements of tiny tensors, one by one.

    Else the page writes their means while the loop runs, and all elements when it is paused.
    """
    few = sum(map(few_count, graph.nodes))
    # A node is two floats and a sign, an edge one float and a sign.
    others = 9 * len(graph.nodes) + 5 * len(graph.edges)
    return others + 8 * few <= MOST_BYTES[0] + MOST_BYTES[1] * len(graph.nodes)


def pack_values(snapshot: Snapshot | None, running: bool = False) -> bytes:
    """Pack the values of all nodes and edges, in the protocol's order: float32, then signs.

    Args:
        running: many updates come, and none may be large (see `few_fit`).
    """
    if snapshot is None:
        return b""
    values: list[float] = []
    rows = list(zip(snapshot.graph.nodes, snapshot.values, snapshot.grads, strict=True))
    for _, value, grad in rows:
        values += (value.mean if value else math.nan, norm_of(grad))
    values += map(norm_of, snapshot.flows)
    listed = not running or few_fit(snapshot.graph)
    for node, value, grad in rows:
        count = few_count(node)
        if count and listed:
            values += listed_values(value, count) + listed_values(grad, count)
    with np.errstate(over="ignore"):  # float32 overflow becomes an infinity
        packed = np.asarray(values, "<f4").tobytes()
    signs = [sign_of(grad) for grad in (*snapshot.grads, *snapshot.flows)]
    return packed + np.asarray(signs, "i1").tobytes()


def norm_of(stats: Stats | None) -> float:
    return stats.norm if stats else math.nan


def sign_of(stats: Stats | None) -> int:
    """Return -1, 0 or 1: the sign of the mean, unless that is rounding noise around zero."""
    # `not >=` is also True for NaN, which has no sign.
    if stats is None or not abs(stats.mean) >= FAINT:
        return 0
    return -1 if stats.mean < 0 else 1


def listed_values(stats: Stats | None, count: int) -> tuple[float, ...]:
    """Return `count` values: the elements of a tiny tensor, or NaN where they are unknown."""
    return stats.few if stats and len(stats.few) == count else (math.nan,) * count


STEP_BYTES, DRAWN_BYTES = 800, 500
"""Approximate bytes of the Python objects around the values, and of those around a histogram."""


UNKNOWN, BAD, LISTED, FEW = -1, 8, 16, 7
"""The mark of a row: unknown, or how many elements are kept one by one, with two flags."""


MIN_EXACT_NORM = 1e-145
"""A norm below this has lost digits."""


SHORT_ROW = 32
"""Up to this many elements, a row is short."""


SIZE, MEAN, NORM = 0, 1, 4  # columns


@dataclass(frozen=True, slots=True)
class PackedValues:
    """The values of one step: a row for each node's value, each gradient, each edge.

    A row of `statistics` is [size, mean, min, max, norm] in float32 (min and max are NaN where only
    what is on screen was taken, because they are not shown there); `marks` says what is known;
    `few` holds, row after row, the elements of tiny tensors; `texts` what floats cannot say;
    `broken`: there is a NaN or an infinity somewhere; `drawn`: by row, the histogram and the
    thumbnail of a value, where they were taken.
    """

    statistics: Any
    marks: Any
    few: Any
    texts: dict[int, str]
    broken: bool
    drawn: dict[int, tuple[tuple[int, ...], Thumbnail | None]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Approximate bytes in memory."""
        texts = sum(len(text) + 90 for text in self.texts.values())
        texts += sum(len(pixels.pixels) if pixels else 0 for _, pixels in self.drawn.values())
        texts += DRAWN_BYTES * len(self.drawn)
        return self.statistics.nbytes + self.marks.nbytes + self.few.nbytes + texts + STEP_BYTES

    @property
    def packed(self) -> PackedValues:
        """This object (see `StepValues`)."""
        return self


FewValues = dict[int, tuple[Sequence[float], bool]]
"""By row, the elements of a tiny tensor; and whether they are written as a list."""


class StepValues:
    """What a light sample has taken: the statistics at once, everything else on demand.

    Args:
        statistics: as in `PackedValues`. Where none were taken, they are those of `older`.
        texts: as in `PackedValues`.
        few: returns the elements of tiny tensors.
        broken: as in `PackedValues`.
        older: an earlier step; None: nothing is known but what was taken.
    """

    def __init__(
        self,
        statistics: Array,
        texts: dict[int, str],
        few: Callable[[], FewValues],
        broken: bool,
        older: PackedValues | StepValues | None = None,
    ) -> None:
        self.statistics, self.texts, self._few, self.broken = statistics, texts, few, broken
        self._older = None if older is None else older.packed
        if self._older is not None:
            self.texts, self.broken = self._older.texts | texts, self._older.broken or broken

    @cached_property
    def packed(self) -> PackedValues:
        """All of it, packed."""
        statistics = self.statistics
        marks = np.isnan(statistics[:, NORM]).view("i1") * BAD
        # After the line above: an unknown row has no norm either.
        marks[np.isnan(statistics[:, SIZE])] = UNKNOWN
        few = self._few() if self._older is None else few_by_row(self._older) | self._few()
        for row, (some, listed) in few.items():
            marks[row] |= len(some) | (LISTED if listed else 0)
        with np.errstate(over="ignore"):  # float32 overflow becomes an infinity
            exact = np.array([value for row in sorted(few) for value in few[row][0]], "f4")
        return PackedValues(statistics, marks, exact, self.texts, self.broken)


def pack(snapshot: Snapshot) -> PackedValues:
    """Pack the values of a snapshot."""
    rows: list[tuple[float, ...]] = []
    marks: list[int] = []
    few: list[float] = []
    texts: dict[int, str] = {}
    drawn = {
        row: (value.bars, value.thumbnail)
        for row, value in enumerate(snapshot.values) if value is not None and value.bars
    }  # fmt: skip
    reals = [is_real(node) for node in snapshot.graph.nodes]
    reals += reals + [True] * len(snapshot.flows)
    stats = (*snapshot.values, *snapshot.grads, *snapshot.flows)
    for row, (stat, real) in enumerate(zip(stats, reals, strict=True)):
        if stat is None:
            rows.append(NOTHING)
            marks.append(UNKNOWN)
            continue
        rows.append((stat.size, stat.mean, stat.min, stat.max, stat.norm))
        listed = stat.text.startswith("[")
        marks.append(len(stat.few) | (BAD if stat.bad else 0) | (LISTED if listed else 0))
        few += stat.few
        if stat.text and not (real and stat.few):
            texts[row] = stat.text
    with np.errstate(over="ignore"):  # float32 overflow becomes an infinity
        return PackedValues(
            np.array(rows, "f4").reshape(-1, 5), np.array(marks, "i1"), np.array(few, "f4"), texts,
            any(stat.bad for stat in stats if stat is not None), drawn,
        )  # fmt: skip


NOTHING = (math.nan,) * 5


def unpack(packed: PackedValues, graph: Graph) -> Snapshot:
    """Return the snapshot that was packed, in float32 precision."""
    few = packed.few.tolist()
    stats: list[Stats | None] = []
    at = 0
    rows = zip(packed.statistics.tolist(), packed.marks.tolist(), strict=True)
    for row, ((size, *measures), mark) in enumerate(rows):
        if mark == UNKNOWN:
            stats.append(None)
            continue
        own = tuple(few[at : at + (mark & FEW)])
        at += len(own)
        text = packed.texts.get(row) or (
            elements_text(own, 1 if mark & LISTED else 0) if own else ""
        )
        bars, pixels = packed.drawn.get(row, ((), None))
        known = Stats(int(size), *measures, bad=bool(mark & BAD), text=text, few=own)
        stats.append(known._replace(bars=bars, thumbnail=pixels) if bars else known)
    count = len(graph.nodes)
    return Snapshot(
        graph, tuple(stats[:count]), tuple(stats[count : 2 * count]), tuple(stats[2 * count :])
    )


def row_statistics(data: Array, extremes: bool = True) -> tuple[Any, bool]:
    """Return [size, mean, min, max, norm] of each row of a matrix, and whether all is finite.

    The norm of a row that is not finite is NaN. Call it where floating-point warnings are off.

    Args:
        extremes: whether min and max are wanted; else NaN may be there.
    """
    # Loading numba for this alone would hold the loop for longer than all light samples together.
    known = data.size >= ROW_STATISTICS.min_size and "numba" in sys.modules
    statistics = ROW_STATISTICS(data) if known else None
    if statistics is None:
        statistics = numpy_row_statistics(data, extremes)
    norms = statistics[:, NORM]
    ordinary = bool(np.add.reduce(norms) < math.inf)
    if ordinary and (data.dtype == np.float32 or np.minimum.reduce(norms) > MIN_EXACT_NORM):
        return statistics, True
    # Squares of very large or small float64 values overflow, and lose digits before.
    odd = (norms < MIN_EXACT_NORM) & data.any(1) | ~np.isfinite(norms)
    for row in np.flatnonzero(odd).tolist():
        norms[row] = scaled_norm(data[row].astype(np.float64))
    return statistics, not np.isnan(norms).any()


def numpy_row_statistics(data: Array, extremes: bool = True) -> Any:
    """Return the same with NumPy, for values of ordinary sizes."""
    statistics = np.empty((len(data), 5))
    statistics[:, SIZE] = size = data.shape[1]
    if extremes:
        # NumPy reduces many short rows slowly, but not few long columns.
        table, dim = (data, 1) if size > SHORT_ROW else (np.ascontiguousarray(data.T), 0)
        np.minimum.reduce(table, dim, out=statistics[:, 2])
        np.maximum.reduce(table, dim, out=statistics[:, 3])
    else:
        statistics[:, 2:4] = math.nan
    # In float32 the squares of 1e-30 would be 0, and a sum of many loses digits.
    data = data.astype(np.float64, copy=False)
    means, norms = statistics[:, MEAN], statistics[:, NORM]
    np.divide(np.add.reduce(data, 1), size, out=means)
    np.sqrt(np.vecdot(data, data), out=norms)
    return statistics


def scaled_norm(row: Array) -> float:
    """Return the norm of values of any size; NaN if one of them is not finite."""
    # Divided by the largest first, no square can overflow.
    peak = abs(row).max()
    if not np.isfinite(peak):
        return math.nan
    row = row / peak
    return float(np.sqrt(row @ row) * peak)


def flat_index(rows: Array, column: int) -> Any:
    """Return the indices of a column of these rows in the flattened statistics."""
    return 5 * rows + column


class Message:
    """Writes the packed values of a whole graph as the message about what a plan shows.

    The order is the protocol's (see `messages.pack_values`). Where each value comes from is worked
    out once for each plan.
    """

    def __init__(self, plan: Plan, graph: Graph) -> None:
        self.plan = plan
        self._count = count = len(graph.nodes)
        nodes, edges = np.array(plan.nodes, int), np.array(plan.edges, int)
        flows = np.where(edges >= 0, edges + 2 * count, count + gradient_node(edges))
        values = np.stack(
            [flat_index(nodes, MEAN), flat_index(nodes + count, NORM)], axis=1
        ).ravel()
        self._indices = np.concatenate([values, flat_index(flows, NORM)])
        # A gradient's arrow is coloured by its norm, but the sign is that of its mean.
        self._means = flat_index(np.concatenate([nodes + count, flows]), MEAN)  # what has a sign
        # Arrows that stand for several edges, counted from the end, where the arrows are.
        self._absent = np.flatnonzero(edges == SEVERAL) - len(edges)
        listed = few_fit(plan.graph)
        self._few = [
            (node + shift, few_count(shown))
            for node, shown in zip(plan.nodes, plan.graph.nodes, strict=True)
            if listed and few_count(shown) for shift in (0, count)
        ]  # fmt: skip

    def values(self, step_values: PackedValues | StepValues) -> bytes:
        """Return float32 values, then signs."""
        statistics = step_values.statistics.ravel()
        written, means = statistics.take(self._indices), statistics.take(self._means)
        # 1, 0 or -1; 0 for NaN (unknown), which compares False with everything.
        signs = (means >= FAINT).view("i1") - (means <= -FAINT).view("i1")
        if self._absent.size:
            written[self._absent], signs[self._absent] = np.nan, 0
        few = b"".join(self._few_bytes(step_values.packed)) if self._few else b""
        return written.astype("<f4", copy=False).tobytes() + few + signs.tobytes()

    def _few_bytes(self, packed: PackedValues) -> Iterator[bytes]:
        """Yield the elements of each tiny tensor."""
        lengths, starts = few_offsets(packed)
        for row, count in self._few:
            start = starts[row]
            some = packed.few[start : start + count]
            yield np.asarray(some if lengths[row] == count else [math.nan] * count, "<f4").tobytes()

    def texts(self, step_values: PackedValues | StepValues) -> dict[str, Any]:
        """Return what the values cannot say (see `messages.texts_of`)."""
        texts: list[dict[str, str]] = [{}, {}]
        bad: tuple[str, ...] = ()
        if step_values.texts or step_values.broken:
            marks = step_values.packed.marks
            broken = (marks != UNKNOWN) & (marks & BAD > 0)
            for node, shown in zip(self.plan.nodes, self.plan.graph.nodes, strict=True):
                for index, row in enumerate((node, node + self._count)):
                    if row in step_values.texts and not is_real(shown):
                        texts[index][shown.id] = step_values.texts[row]
            bad = self._alarming(step_values.packed.statistics, broken)
        structure = self.plan.graph.structure
        return {"structure": structure, "tiny": texts[0], "tinyGrad": texts[1], "bad": list(bad)}

    def _alarming(self, statistics: Array, broken: Array) -> tuple[str, ...]:
        """Return the ids of the nodes that are framed in red, given which rows are not finite."""
        nodes = self.plan.nodes
        means = (math.isnan(statistics[node, MEAN]) for node in nodes)
        defects: list[Defect] = [
            "" if not broken[node] else "NaN" if nan else "Inf"
            for node, nan in zip(nodes, means, strict=True)
        ]
        return find_alarming(
            self.plan.graph, defects, [broken[node + self._count] for node in nodes]
        )


def few_offsets(packed: PackedValues) -> tuple[Any, Any]:
    """Return, by row, how many elements are kept one by one, and where they begin."""
    lengths = np.where(packed.marks == UNKNOWN, 0, packed.marks & FEW)
    return lengths, np.cumsum(lengths) - lengths


def few_by_row(packed: PackedValues) -> FewValues:
    """Return the elements that are kept one by one, by row."""
    lengths, starts = few_offsets(packed)
    tiny = np.flatnonzero((packed.marks != UNKNOWN) & (packed.marks & (FEW | LISTED) > 0)).tolist()
    return {
        row: (packed.few[starts[row] :][: lengths[row]].tolist(), bool(packed.marks[row] & LISTED))
        for row in tiny
    }


# Its annotations name it: `typing.get_type_hints` looks it up in their globals.
legend.Curve = Curve  # type: ignore[attr-defined]
