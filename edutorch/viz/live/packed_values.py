"""All numbers of one step as a few arrays: what is kept of it, and what a page is sent.

A row for each node's value, then one for each gradient, then one for each edge.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...backends.reference_mode import slot
from ..graph.fold import SEVERAL, Plan, gradient_node
from ..graph.model import Defect, Graph, Snapshot, find_alarming
from ..render.dot import FAINT
from ..tensors.summaries import Stats, elements_text
from ..tensors.thumbnails import Thumbnail
from .messages import few_fit, few_count, is_real

STEP_BYTES, DRAWN_BYTES = 800, 500
"""What the Python objects around the numbers take, and those around a histogram, about."""

UNKNOWN, BAD, LISTED, FEW = -1, 8, 16, 7
"""The mark of a row: unknown, or how many numbers are kept one by one, with two flags."""

MIN_EXACT_NORM = 1e-145
"""A norm below this has lost digits."""

SHORT_ROW = 32
"""Up to so many numbers, a row is short."""

SIZE, MEAN, NORM = 0, 1, 4  # columns

FAST = slot("tensor_stats.row_statistics_kernel", least=512)


@dataclass(frozen=True, slots=True)
class PackedValues:
    """The numbers of one step: a row for each node's value, each gradient, each edge.

    A row of `numbers` is [size, mean, min, max, norm] in float32 (min and max are NaN where only
    what is on screen was taken, for nobody sees them there); `marks` says what is known;
    `few` holds, row after row, the numbers of tiny tensors; `texts` what floats cannot say;
    `broken`: there is a NaN or an infinity somewhere; `drawn`: by row, the histogram and the small
    picture of a value, where they were taken.
    """

    numbers: Any
    marks: Any
    few: Any
    texts: dict[int, str]
    broken: bool
    drawn: dict[int, tuple[tuple[int, ...], Thumbnail | None]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, about."""
        texts = sum(len(text) + 90 for text in self.texts.values())
        texts += sum(len(pixels.pixels) if pixels else 0 for _, pixels in self.drawn.values())
        texts += DRAWN_BYTES * len(self.drawn)
        return self.numbers.nbytes + self.marks.nbytes + self.few.nbytes + texts + STEP_BYTES

    @property
    def packed(self) -> PackedValues:
        """This (see `Glimpse`)."""
        return self


FewValues = dict[int, tuple[Sequence[float], bool]]
"""By row, the numbers of a tiny tensor, one by one; and whether they are written as a list."""


class StepValues:
    """What a glance has brought: the numbers at once, all else when somebody asks for it.

    Args:
        numbers: as in `Packed`. Where none were taken, they are those of `older`.
        texts: the same.
        few: returns the numbers of tiny tensors.
        broken: the same.
        older: an earlier step; None: nothing is known but what was taken.
    """

    def __init__(
        self,
        numbers: Any,
        texts: dict[int, str],
        few: Callable[[], FewValues],
        broken: bool,
        older: PackedValues | StepValues | None = None,
    ) -> None:
        self.numbers, self.texts, self._few, self.broken = numbers, texts, few, broken
        self._older = None if older is None else older.packed
        if self._older is not None:
            self.texts, self.broken = self._older.texts | texts, self._older.broken or broken

    @cached_property
    def packed(self) -> PackedValues:
        """All of it."""
        numbers = self.numbers
        marks = np.isnan(numbers[:, NORM]).view("i1") * BAD
        marks[np.isnan(numbers[:, SIZE])] = UNKNOWN
        few = self._few() if self._older is None else few_by_row(self._older) | self._few()
        for row, (some, listed) in few.items():
            marks[row] |= len(some) | (LISTED if listed else 0)
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes an infinity
            exact = np.array([number for row in sorted(few) for number in few[row][0]], "f4")
        return PackedValues(numbers, marks, exact, self.texts, self.broken)


def pack(snapshot: Snapshot) -> PackedValues:
    """Pack the numbers of a snapshot."""
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
    for row, (each, real) in enumerate(zip(stats, reals, strict=True)):
        if each is None:
            rows.append(NOTHING)
            marks.append(UNKNOWN)
            continue
        rows.append((each.size, each.mean, each.min, each.max, each.norm))
        listed = each.text.startswith("[")
        marks.append(len(each.few) | (BAD if each.bad else 0) | (LISTED if listed else 0))
        few += each.few
        if each.text and not (real and each.few):
            texts[row] = each.text
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes an infinity
        return PackedValues(
            np.array(rows, "f4").reshape(-1, 5), np.array(marks, "i1"), np.array(few, "f4"), texts,
            any(stat.bad for stat in stats if stat is not None), drawn,
        )  # fmt: skip


NOTHING = (math.nan,) * 5


def unpack(packed: PackedValues, graph: Graph) -> Snapshot:
    """Return the snapshot that was packed, with numbers as exact as float32 is."""
    few = packed.few.tolist()
    stats: list[Stats | None] = []
    at = 0
    rows = zip(packed.numbers.tolist(), packed.marks.tolist(), strict=True)
    for row, ((size, *numbers), mark) in enumerate(rows):
        if mark == UNKNOWN:
            stats.append(None)
            continue
        own = tuple(few[at : at + (mark & FEW)])
        at += len(own)
        text = packed.texts.get(row) or (elements_text(own, 1 if mark & LISTED else 0) if own else "")
        bars, pixels = packed.drawn.get(row, ((), None))
        known = Stats(int(size), *numbers, bad=bool(mark & BAD), text=text, few=own)
        stats.append(known._replace(bars=bars, thumbnail=pixels) if bars else known)
    count = len(graph.nodes)
    return Snapshot(
        graph, tuple(stats[:count]), tuple(stats[count : 2 * count]), tuple(stats[2 * count :])
    )


def row_statistics(data: Any, extremes: bool = True) -> tuple[Any, bool]:
    """Return [size, mean, min, max, norm] of each row of a matrix, and whether all is finite.

    The norm of what is not is NaN. Call it where floating-point warnings are off.

    Args:
        extremes: whether the least and the largest number are wanted; else NaN may be there.
    """
    # To load numba for this alone would hold the loop for longer than all glances together.
    known = data.size >= FAST.least and "numba" in sys.modules
    found = FAST(data) if known else None
    if found is None:
        found = numpy_row_statistics(data, extremes)
    norms = found[:, NORM]
    ordinary = bool(np.add.reduce(norms) < math.inf)
    if ordinary and (data.dtype == np.float32 or np.minimum.reduce(norms) > MIN_EXACT_NORM):
        return found, True
    # Squares of very large or small float64 numbers leave the range, and lose digits before.
    odd = (norms < MIN_EXACT_NORM) & data.any(1) | ~np.isfinite(norms)
    for row in np.flatnonzero(odd).tolist():
        norms[row] = scaled_norm(data[row].astype(np.float64))
    return found, not np.isnan(norms).any()


def numpy_row_statistics(data: Any, extremes: bool = True) -> Any:
    """Return the same, where the numbers have ordinary sizes."""
    found = np.empty((len(data), 5))
    found[:, SIZE] = size = data.shape[1]
    if extremes:
        # NumPy takes those of many short rows slowly, but not those of few long columns.
        table, dim = (data, 1) if size > SHORT_ROW else (np.ascontiguousarray(data.T), 0)
        np.minimum.reduce(table, dim, out=found[:, 2])
        np.maximum.reduce(table, dim, out=found[:, 3])
    else:
        found[:, 2:4] = math.nan
    data = data.astype(np.float64, copy=False)
    means, norms = found[:, MEAN], found[:, NORM]
    np.divide(np.add.reduce(data, 1), size, out=means)
    np.sqrt(np.vecdot(data, data), out=norms)
    return found


def scaled_norm(row: Any) -> float:
    """Return the norm of numbers of any size; NaN if one of them is not finite."""
    peak = abs(row).max()
    if not np.isfinite(peak):
        return math.nan
    row = row / peak
    return float(np.sqrt(row @ row) * peak)


def flat_index(rows: Any, column: int) -> Any:
    """Return where a column of these rows is in all numbers of a step, one after the other."""
    return 5 * rows + column


class Message:
    """Writes the packed numbers of a whole graph as a page wants those of what a plan shows.

    The order is the protocol's (see `messages.numbers_of`). Where each number is found is worked
    out once for each plan.
    """

    def __init__(self, plan: Plan, graph: Graph) -> None:
        self.plan = plan
        self._count = count = len(graph.nodes)
        nodes, edges = np.array(plan.nodes, int), np.array(plan.edges, int)
        flows = np.where(edges >= 0, edges + 2 * count, count + gradient_node(edges))
        values = np.stack([flat_index(nodes, MEAN), flat_index(nodes + count, NORM)], axis=1).ravel()
        self._places = np.concatenate([values, flat_index(flows, NORM)])
        self._means = flat_index(np.concatenate([nodes + count, flows]), MEAN)  # what has a sign
        # Arrows that stand for several. They are counted from the end: there, arrows come last.
        self._absent = np.flatnonzero(edges == SEVERAL) - len(edges)
        listed = few_fit(plan.graph)
        self._few = [
            (node + shift, few_count(shown))
            for node, shown in zip(plan.nodes, plan.graph.nodes, strict=True)
            if listed and few_count(shown) for shift in (0, count)
        ]  # fmt: skip

    def numbers(self, found: PackedValues | StepValues) -> bytes:
        """Return float32 numbers, then signs."""
        numbers = found.numbers.ravel()
        written, means = numbers.take(self._places), numbers.take(self._means)
        # 1, 0 or -1. What is unknown is NaN, which is neither more nor less than anything.
        signs = (means >= FAINT).view("i1") - (means <= -FAINT).view("i1")
        if self._absent.size:
            written[self._absent], signs[self._absent] = np.nan, 0
        few = b"".join(self._few_numbers(found.packed)) if self._few else b""
        return written.astype("<f4", copy=False).tobytes() + few + signs.tobytes()

    def _few_numbers(self, packed: PackedValues) -> Iterator[bytes]:
        """Yield the numbers of each tiny tensor."""
        lengths, starts = few_offsets(packed)
        for row, count in self._few:
            start = starts[row]
            some = packed.few[start : start + count]
            yield np.asarray(some if lengths[row] == count else [math.nan] * count, "<f4").tobytes()

    def texts(self, found: PackedValues | StepValues) -> dict[str, Any]:
        """Return what the numbers cannot say (see `messages.texts_of`)."""
        said: list[dict[str, str]] = [{}, {}]
        bad: tuple[str, ...] = ()
        if found.texts or found.broken:
            marks = found.packed.marks
            broken = (marks != UNKNOWN) & (marks & BAD > 0)
            for node, shown in zip(self.plan.nodes, self.plan.graph.nodes, strict=True):
                for kind, row in enumerate((node, node + self._count)):
                    if row in found.texts and not is_real(shown):
                        said[kind][shown.id] = found.texts[row]
            bad = self._alarming(found.packed.numbers, broken)
        structure = self.plan.graph.structure
        return {"structure": structure, "tiny": said[0], "tinyGrad": said[1], "bad": list(bad)}

    def _alarming(self, numbers: Any, broken: Any) -> tuple[str, ...]:
        """Return the ids of the nodes that are framed in red, given which rows are not finite."""
        nodes = self.plan.nodes
        means = (math.isnan(numbers[node, MEAN]) for node in nodes)
        defects: list[Defect] = [
            "" if not broken[node] else "NaN" if nan else "Inf"
            for node, nan in zip(nodes, means, strict=True)
        ]
        return find_alarming(self.plan.graph, defects, [broken[node + self._count] for node in nodes])


def few_offsets(packed: PackedValues) -> tuple[Any, Any]:
    """Return, by row, how many numbers are kept one by one, and where they begin."""
    lengths = np.where(packed.marks == UNKNOWN, 0, packed.marks & FEW)
    return lengths, np.cumsum(lengths) - lengths


def few_by_row(packed: PackedValues) -> FewValues:
    """Return the numbers that are kept one by one, by row."""
    lengths, starts = few_offsets(packed)
    tiny = np.flatnonzero((packed.marks != UNKNOWN) & (packed.marks & (FEW | LISTED) > 0)).tolist()
    return {
        row: (packed.few[starts[row] :][: lengths[row]].tolist(), bool(packed.marks[row] & LISTED))
        for row in tiny
    }
