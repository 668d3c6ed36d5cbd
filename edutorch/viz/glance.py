"""A glance at a step: its numbers are gathered while its ops run on their fast paths.

Listening to every op makes an op many times slower. But most steps of a loop have the graph of the
step before. So of such a step that is checked, op by op, and only the numbers of what is on the
screen are taken. If anything is different, the glance is worth nothing, and the next step is
looked at in full.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.engine import unbroadcast
from ..core.tensor import LEAF, Tensor
from .fold import Plan
from .graph import Snapshot
from .messages import is_real
from .packing import BAD, LISTED, UNKNOWN, Packed, numbers_of_rows
from .summaries import TINY, Stats, summarize

if TYPE_CHECKING:
    from .gauges import Gauges

SMALL = 2048
"""Arrays of at most so many numbers are summed all together."""

MOST_HELD = 1 << 23
"""Bytes of results that may be held until backward is over."""


class Constant(NamedTuple):
    """The vertex of a Python number: its number may be another one in each step."""

    number: int


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded op of a step. `given` says for each operand which vertex it was."""

    kind: type
    shape: tuple[int, ...]
    number: int
    given: tuple[int | Constant | None, ...]
    names: tuple[str, ...]
    gathers: bool
    module: str


@dataclass(frozen=True, slots=True)
class Script:
    """What a step did that was looked at in full.

    `roots` are the ops on which backward ran, `received` the leaves that got a gradient; both by
    the number of their vertex.
    """

    calls: tuple[Call, ...]
    roots: tuple[int, ...]
    received: frozenset[int]
    snapshot: Snapshot
    nbytes: int = 0  # of all results


class Watched:
    """Where the numbers of each vertex go, if a plan shows it: rows as in `packing.py`."""

    def __init__(self, script: Script, plan: Plan) -> None:
        graph, order = script.snapshot.graph, script.snapshot.order
        self.script, self.plan, self.graph = script, plan, graph
        self.nodes = count = len(graph.nodes)
        self.rows = 2 * count + len(graph.edges)
        reals = [is_real(node) for node in graph.nodes]
        self.reals = reals + reals  # by row; a gradient along an edge is always real
        self.at = {order[node]: node for node in set(plan.nodes)}
        numbers = {node.id: number for node, number in zip(graph.nodes, order, strict=True)}
        uses = Counter(
            given for call in script.calls for given in call.given if given.__class__ is int
        )
        gathers = {call.number: call.gathers for call in script.calls}
        flows: dict[int, list[tuple[int, int]]] = {}
        names = {call.number: call.names for call in script.calls}
        self.same: list[tuple[int, int]] = []  # rows that are those of other rows
        for edge in plan.edges:
            if edge < 0:
                continue
            each = graph.edges[edge]
            source, target = numbers[each.source], numbers[each.target]
            if uses[source] == 1 and source in self.at and gathers.get(source) is False:
                # The only gradient that reaches a result is its gradient.
                self.same.append((2 * count + edge, count + self.at[source]))
            elif target in names:
                place = names[target].index(each.input), 2 * count + edge
                flows.setdefault(target, []).append(place)
        self.backward = {  # by vertex: the row of its gradient, the rows of what leaves it
            number: (count + self.at[number] if number in self.at and not together else -1,
                     flows.get(number, ()))
            for number, together in gathers.items()
        }  # fmt: skip


class Noted(list[Any]):
    """What is noted where much memory would be held: it is read as soon as that is too much."""

    def __init__(self, read: Callable[[], None], limit: int) -> None:
        super().__init__()
        self.read, self.limit, self.held = read, limit, 0

    def append(self, item: Any) -> None:
        """Note one more."""
        super().append(item)
        self.held += getattr(getattr(item[1], "_array", item[1]), "nbytes", 0)
        self.held += getattr(getattr(item[0], "_array", None), "nbytes", 0)
        if self.held > self.limit:
            self.held = 0
            self.read()


class Glance:
    """Follows one step (see `events.following`), and reads what was noted when backward is over.

    Attributes:
        wrong: the step is not the one that was expected, or it is over.
        written: a result was overwritten before it was read: read the next ones at once.
        gauges: what is told of the activations and parameters as well.
    """

    def __init__(self, watched: Watched, gauges: Gauges | None = None, eager: bool = False) -> None:
        self.watched, self.gauges = watched, gauges
        self.wrong = self.written = False
        self.recorded: list[Any] = []
        self.went_back: list[Any] = []
        self._soon = eager or watched.script.nbytes > MOST_HELD  # nothing is kept till the end
        if self._soon:
            self.recorded = Noted(self.read_forward, 0 if eager else MOST_HELD)
            self.went_back = Noted(self.read_backward, MOST_HELD)
        self._eager = eager
        self._count = 0
        self._numbers: dict[Any, int] = {}  # node -> number of its vertex
        self._leaves: dict[int, tuple[int, Tensor]] = {}  # by id: what came from outside
        self._bound: dict[int, Tensor] = {}
        self._ended: list[int] = []
        self._rows: list[int] = []  # whose numbers those of the arrays are
        self._arrays: list[Any] = []
        self._others: dict[int, Stats] = {}
        self._found = np.full((watched.rows, 5), np.nan)
        self._tiny: dict[int, tuple[list[float], int]] = {}  # row -> numbers, dimensions

    def unknown(self) -> None:
        """Give up: something was recorded that this cannot follow."""
        self.wrong = True

    # Reading ----------------------------------------------------------------------------

    def read_forward(self) -> None:
        """Check the ops that were recorded, and take their results."""
        noted, calls, begin = self.recorded, self.watched.script.calls, self._count
        self._count = begin + len(noted)
        if self._count > len(calls):
            self.wrong = True
        if not self.wrong:
            self._read(noted, calls[begin : self._count])
        noted.clear()
        if self._soon:
            self._sum()

    def _read(self, noted: list[Any], calls: Sequence[Call]) -> None:
        numbers, shown, told = self._numbers, self.watched.at, self.gauges
        row, keep = self._rows.append, self._arrays.append
        for (output, given), call in zip(noted, calls, strict=True):
            node, number = output._node, call.number
            if node.__class__ is not call.kind or node.shape != call.shape:
                self.wrong = True
                return
            for each, wanted in zip(given, call.given):  # noqa: B905 (strict has its price)
                if wanted.__class__ is int:
                    found = numbers.get(getattr(each, "_node", None))
                    if found is None:
                        found = self._leaf(each, wanted)
                    if found != wanted:
                        self.wrong = True
                elif wanted is not None:
                    self._constant(wanted, each)
            numbers[node] = number
            if number in shown:
                writes = output._writes
                if writes is not None and writes.time > node._order and not self._eager:
                    self.written = self.wrong = True
                row(shown[number])
                keep(output._array)
            if told is not None:
                told.told(call, output)

    def _constant(self, wanted: Any, given: Any) -> None:
        at = self.watched.at.get(wanted.number)
        if not isinstance(given, int | float):
            self.wrong = True
        elif at is not None:
            number = float(given)
            self._others[at] = Stats(
                1, number, number, number, abs(number), text=f"{given:.4g}", few=(number,)
            )

    def _leaf(self, tensor: Any, wanted: Any) -> int:
        """Return which vertex a tensor from outside is; on its first use, the one expected."""
        known = self._leaves.get(id(tensor))
        if known is not None:
            return known[0]
        if wanted in self._bound or not isinstance(tensor, Tensor):
            return -1
        self._leaves[id(tensor)] = wanted, tensor  # which keeps it: nobody else gets its id
        self._bound[wanted] = tensor
        at = self.watched.at.get(wanted)
        if at is not None:
            self._take(at, tensor._array)
        return wanted

    def read_backward(self) -> None:
        """Take the gradients at the nodes that backward ran through."""
        if self.recorded:
            self.read_forward()
        numbers, places = self._numbers, self.watched.backward
        keep_row, keep = self._rows.append, self._arrays.append
        if not self.wrong:
            for node, g, partials in self.went_back:
                number = numbers.get(node)
                if number is None:
                    continue
                row, flows = places[number]
                if row >= 0:
                    keep_row(row)
                    keep(g._array if g.__class__ is Tensor else g)
                for index, row in flows:
                    partial = partials[index]
                    if partial is not None:
                        self._flowed(row, partial, node.edges[index])
        self.went_back.clear()
        if self._soon:
            self._sum()

    def _take(self, row: int, array: Any) -> None:
        self._rows.append(row)
        self._arrays.append(array)

    def _flowed(self, row: int, partial: Any, edge: Any) -> None:
        """Take what an input received, before broadcasting made it larger."""
        array = partial._array if isinstance(partial, Tensor) else partial
        if hasattr(array, "by_output"):  # gradients of several outputs, of which this has one
            (array,) = array.by_output.values()
            self._take(row, getattr(array, "_array", array))
            return
        shape = edge.shape if edge._order else edge._array.shape
        self._take(row, array if array.shape == shape else unbroadcast(array, tuple(shape)))

    def backward_ended(self, event: Any) -> None:
        """Read what was noted, before anything is changed; take the gradients of the leaves."""
        self.read_backward()
        if self.wrong:
            return
        nodes = [root._node for root in event.roots if root._node not in (None, LEAF)]
        if nodes:
            youngest = max(nodes, key=lambda node: node._order)
            self._ended.append(self._numbers.get(youngest, -1))
        if not event.accumulated:
            self._sum()
            return
        for number in self.watched.script.received:
            leaf = self._bound.get(number)
            at = self.watched.at.get(number)
            if leaf is not None and leaf._grad is not None:
                if at is not None:
                    self._take(self.watched.nodes + at, leaf._grad._array)
                if self.gauges is not None:
                    self.gauges.received(leaf)
        self._sum()

    def _sum(self) -> None:
        """Summarize the arrays that were gathered, small ones of one size all together."""
        alike: defaultdict[int, tuple[list[int], list[Any]]] = defaultdict(lambda: ([], []))
        for row, array in zip(self._rows, self._arrays):  # noqa: B905 (strict has its price)
            if array.__class__ is np.ndarray and array.dtype.char in "fd":
                size = array.size
                if 0 < size <= SMALL:
                    rows, arrays = alike[size]
                    rows.append(row)
                    arrays.append(array)
                    if size <= TINY:
                        self._tiny[row] = array.ravel().tolist(), array.ndim
                    continue
            self._others[row] = summarize(array)
        for size, (rows, arrays) in alike.items():
            data = np.concatenate(arrays, None, dtype=np.float64).reshape(-1, size)
            self._found[rows] = numbers_of_rows(data)  # of a row twice, the later one
        self._rows.clear()
        self._arrays.clear()

    # At its end -------------------------------------------------------------------------

    def finish(self) -> Packed | None:
        """Return the numbers; None: it was another graph than the one expected."""
        self.read_backward()
        self._sum()
        script, found = self.watched.script, self._found
        wrong, self.wrong = self.wrong, True
        if wrong or self._count != len(script.calls) or tuple(self._ended) != script.roots:
            return None
        marks = np.where(np.isnan(found[:, 0]), UNKNOWN, np.where(np.isnan(found[:, 4]), BAD, 0))
        few: dict[int, list[float]] = {}
        for row, (numbers, dimensions) in self._tiny.items():
            marks[row] |= len(numbers) | (LISTED if dimensions else 0)
            few[row] = numbers
        texts = {}
        for row, each in self._others.items():
            found[row] = each.size, each.mean, each.min, each.max, each.norm
            listed = LISTED if each.text.startswith("[") else 0
            marks[row] = len(each.few) | (BAD if each.bad else 0) | listed
            few[row] = list(each.few)
            real = row >= len(self.watched.reals) or self.watched.reals[row]
            if each.text and not (real and each.few):
                texts[row] = each.text
        for row, other in self.watched.same:
            found[row], marks[row] = found[other], marks[other]
            if other in few:
                few[row] = few[other]
        listed = [value for row in sorted(few) for value in few[row]]
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes an infinity
            return Packed(found.astype("f4"), marks.astype("i1"), np.array(listed, "f4"), texts)
