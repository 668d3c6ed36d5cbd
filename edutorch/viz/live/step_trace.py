"""What a step did, op by op, and where the numbers of each op go on a picture of it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, compress
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..graph.fold import Plan
from ..graph.model import Snapshot
from ..tensors.summaries import TINY
from .messages import is_real

MAX_JOINT_SIZE = 2048
"""Arrays of at most so many numbers are summed all together…"""

MAX_SEPARATE, MAX_SEPARATE_TINY = 3, 10
"""…unless there are no more of one shape than this: to sum so many one by one costs less."""

MOST_ORDERS = 256  # one for each stretch between two writes
"""In so many orders the rows of a step may come before they are forgotten."""

shape_of, origin_of = attrgetter("shape"), attrgetter("origin")


class Constant(NamedTuple):
    """The vertex of a Python number: its number may be another one in each step."""

    number: int


class Call(NamedTuple):
    """One recorded op of a step.

    `given` says for each operand which vertex it was, `recorded` whether it has a past, or is a
    leaf that wants a gradient: then it is known by the node's edge.
    """

    kind: type
    shape: tuple[int, ...]
    number: int
    given: tuple[int | Constant | None, ...]
    recorded: tuple[bool, ...]
    names: tuple[str, ...]
    gathers: bool
    module: str


class UnrecordedOp(NamedTuple):
    """An op of a step that was not recorded: its vertex and those of its operands.

    Without a vertex it ran elsewhere: in a data loader, or in an optimizer.
    """

    op: Any
    key: int | None = None
    given: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class StepTrace:
    """What a step did that was looked at in full.

    `roots` are the ops on which backward ran, `received` the leaves that got a gradient; both by
    the number of their vertex. `again` maps a later version of a tensor from outside, which was
    written to within the step, to the vertex of an earlier one. `aside` are the ops that were not
    recorded, `choosing` the vertices of indices and masks, of which a glance does not hear.
    """

    calls: tuple[Call, ...]
    roots: tuple[int, ...]
    received: frozenset[int]
    snapshot: Snapshot
    nbytes: int = 0  # of all results
    again: Mapping[int, int] = field(default_factory=dict)
    aside: tuple[UnrecordedOp, ...] = ()
    choosing: frozenset[int] = frozenset()


class SparseItems:
    """Some of many places, with something known of each: found for a stretch of places at once.

    >>> vowels = Some(5, {1: "the first", 4: "the second"})
    >>> vowels.of("ell", begin=2), vowels.of("hello")
    ((['l'], ['the second']), (['e', 'o'], ['the first', 'the second']))
    """

    def __init__(self, count: int, known: dict[int, Any]) -> None:
        self._is_one = bytearray(count)
        for place in known:
            self._is_one[place] = 1
        self._known = [known[place] for place in sorted(known)]
        self._before = [0, *accumulate(self._is_one)]

    def of(self, items: Sequence[Any], begin: int = 0) -> tuple[list[Any], list[Any]]:
        """Return which of the items are at such places, and what is known of these.

        Args:
            items: what is at the places from `begin` on.
        """
        end = begin + len(items)
        chosen = list(compress(items, self._is_one[begin:end]))
        return chosen, self._known[self._before[begin] : self._before[end]]


def operands_without_edge(call: Call) -> list[tuple[int, int | Constant]]:
    """Return the operands of an op that have no edge, with their positions: data and numbers."""
    rows = enumerate(zip(call.given, call.recorded, strict=True))
    return [(at, each) for at, (each, recorded) in rows if not recorded and each is not None]


def has_implied_shape(call: Call) -> bool:
    """Say whether the shape of a result follows from those of the operands, all of them known."""
    op = getattr(call.kind, "op", None)
    return getattr(op, "family", "") == "elementwise" and None not in call.given


class ExpectedOps:
    """The ops of a script in columns, so that a whole step is compared in a few comparisons."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.kinds = [call.kind for call in calls]
        shapes = {at: call.shape for at, call in enumerate(calls) if not has_implied_shape(call)}
        self.shapes = SparseItems(len(calls), shapes)
        self.numbers = [call.number for call in calls]
        self.counts = [len(call.given) for call in calls]
        self.starts = [0, *accumulate(self.counts)]  # where each op's operands begin
        made = {number: place for place, number in enumerate(self.numbers)}
        given = list(chain.from_iterable(call.given for call in calls))
        edges = compress(enumerate(given), chain.from_iterable(call.recorded for call in calls))
        known = {at: each for at, each in edges if isinstance(each, int)}
        results = {at: made[each] for at, each in known.items() if each in made}
        leaves = {at: each for at, each in known.items() if each not in made}
        self.results, self.leaves = SparseItems(len(given), results), SparseItems(len(given), leaves)
        others = {place: operands_without_edge(call) for place, call in enumerate(calls)}
        self.outside = SparseItems(len(calls), {place: other for place, other in others.items() if other})

    def are(self, nodes: Sequence[Any], begin: int) -> bool:
        """Say whether these are the nodes of the calls from `begin` on."""
        if list(map(origin_of, nodes)) != self.kinds[begin : begin + len(nodes)]:
            return False
        some, shapes = self.shapes.of(nodes, begin)
        return list(map(shape_of, some)) == shapes


class ShapeGroup(NamedTuple):
    """Arrays of one shape: what picks them out of a list, and their rows.

    `scattered` are the places of those that were no single stretch of memory the last time;
    `alone` says whether each is better summed by itself.
    """

    shape: tuple[int, ...]
    pick: Callable[[list[Any]], Sequence[Any]]
    rows: Any
    scattered: list[int]
    is_summed_separately: bool = False

    def joined(self, arrays: Sequence[Any]) -> bytearray:
        """Return the numbers of such arrays in a row: `np.concatenate` takes longer."""
        arrays = list(arrays)
        for place in self.scattered:
            arrays[place] = np.ascontiguousarray(arrays[place])
        try:
            return bytearray().join(arrays)
        except TypeError:
            places = (place for place, array in enumerate(arrays) if not array.flags.c_contiguous)
            self.scattered[:] = places
            return self.joined(arrays)


def is_summed_separately(count: int, shape: tuple[int, ...]) -> bool:
    """Say whether so many arrays are better summed one by one."""
    size = math.prod(shape)
    return size > MAX_JOINT_SIZE or count <= (MAX_SEPARATE_TINY if size <= TINY else MAX_SEPARATE)


def picker(places: list[int], count: int) -> Callable[[list[Any]], Sequence[Any]]:
    """Return a function that picks what is at `places` out of a list of so many items."""
    if len(places) == count:
        return list
    return itemgetter(*places) if len(places) > 1 else lambda items: [items[places[0]]]


class BackwardOrder:
    """The order in which backward ran through the ops of a script: mostly the same in each step."""

    def __init__(self, watched: RowMap, numbers: Sequence[int | None], kinds: list[type]) -> None:
        calls = watched.script.calls
        places = {call.number: place for place, call in enumerate(calls)}
        known = {at: number for at, number in enumerate(numbers) if number is not None}
        rows = {at: watched.gradients.get(number) for at, number in known.items()}
        self.kinds = kinds
        at_calls = {at: places[number] for at, number in known.items()}
        self.nodes = SparseItems(len(kinds), at_calls)
        self.least = 1 + max(at_calls.values(), default=-1)
        self.shown = SparseItems(len(kinds), {at: row for at, row in rows.items() if row is not None})
        self.flows = [
            (at, index, row)
            for at, number in known.items()
            for index, row in watched.flows.get(number, ())
        ]

    def is_that_of(self, ran: Sequence[Any], nodes: Sequence[Any]) -> bool:
        """Say whether backward `ran` in this order; `nodes` are those of the calls."""
        if len(nodes) < self.least or list(map(origin_of, ran)) != self.kinds:
            return False
        known, places = self.nodes.of(ran)
        return known == list(map(nodes.__getitem__, places))


class RowMap:
    """Where the numbers of each vertex go, if a plan shows it: rows as in `packed_values.py`.

    Args:
        window: which of the plan's nodes are wanted, and the edges at them; None: everything.
        expected: the ops of the script, where somebody has put them in columns already.

    Attributes:
        whole: nothing is left out.
        at: the row of each vertex's value.
        values: the rows of the results, by call; `results`: the vertices of all of them.
        gradients: by vertex, the row of the gradient of a result.
        flows: by vertex, (index, row) of what leaves it along its edges.
        nothing: the numbers before anything is known.
        same: rows, and the rows whose numbers they share; `sources`: of all rows, where those are.
        shapes: of the arrays, by row.
        came: the shapes of all vertices that are drawn, to compare those from outside with.
        wanted: the ops whose gradients are; `most`: these are most of them.
        backward: in which order each backward pass of a step ran, as far as it was read at once.
    """

    def __init__(
        self,
        script: StepTrace,
        plan: Plan,
        window: frozenset[int] | None = None,
        expected: ExpectedOps | None = None,
    ) -> None:
        graph, order = script.snapshot.graph, script.snapshot.order
        self.script, self.plan, self.graph = script, plan, graph
        self.whole = window is None
        self.expected = expected or ExpectedOps(script.calls)
        nodes, edges = (plan.nodes, plan.edges) if window is None else self._inside(window)
        self.nodes = count = len(graph.nodes)
        self.rows = 2 * count + len(graph.edges)
        reals = [is_real(node) for node in graph.nodes]
        self.reals = reals + reals  # by row; a gradient along an edge is always real
        self.nothing = self._unheard()
        self.at = {order[node]: node for node in set(nodes)}
        calls = enumerate(script.calls)
        shown = {place: self.at[call.number] for place, call in calls if call.number in self.at}
        self.values = SparseItems(len(script.calls), shown)
        self.results = {call.number for call in script.calls}
        self.results.update(each.key for each in script.aside if each.key is not None)
        self.gradients = {
            call.number: count + self.at[call.number]
            for call in script.calls
            if call.number in self.at and not call.gathers
        }
        shapes = [node.shape for node in graph.nodes]
        self.came = dict(zip(order, shapes, strict=True))
        by_id = {node.id: node.shape for node in graph.nodes}
        self.shapes = shapes + shapes + [by_id[edge.source] for edge in graph.edges]
        self._groups: dict[tuple[int, ...], list[ShapeGroup]] = {}
        self.flows: dict[int, list[tuple[int, int]]] = {}
        self.same = self._edges(edges)
        self.sources = np.arange(self.rows)
        for row, other in self.same:
            self.sources[row] = other
        numbers = self.gradients.keys() | self.flows.keys()
        wanted = {at: None for at, call in enumerate(script.calls) if call.number in numbers}
        self.wanted = SparseItems(len(script.calls), wanted)
        self.most = 2 * len(wanted) > len(script.calls)
        self.backward: dict[int, BackwardOrder] = {}

    def _unheard(self) -> Any:
        """Return the numbers before anything is known: those of the last full look at ops without
        a gradient and what they were made from, which a glance may miss.
        """
        numbers = np.full((self.rows, 5), np.nan, "f4")
        aside = {key for each in self.script.aside for key in (each.key, *each.given)}
        aside |= self.script.choosing
        self.older_few: dict[int, tuple[tuple[float, ...], bool]] = {}
        self.older_texts: dict[int, str] = {}
        for row, number in enumerate(self.script.snapshot.order):
            stats = self.script.snapshot.values[row]
            if number in aside and stats is not None:
                numbers[row] = stats[:5]
                self.older_few[row] = stats.few, stats.text.startswith("[")
                if stats.text and not (stats.few and self.reals[row]):
                    self.older_texts[row] = stats.text
        return numbers

    def _inside(self, window: frozenset[int]) -> tuple[list[int], list[int]]:
        """Return the nodes of a window and the edges at them; and what backward begins with: a NaN
        that an op made is one there too. (One that backward made waits for a glance at all.)
        """
        plan, order = self.plan, self.script.snapshot.order
        ids = {plan.graph.nodes[place].id for place in window}
        roots = [node for node in plan.nodes if order[node] in self.script.roots]
        nodes = [plan.nodes[place] for place in sorted(window)] + roots
        pairs = zip(plan.edges, plan.graph.edges, strict=True)
        return nodes, [edge for edge, drawn in pairs if drawn.source in ids or drawn.target in ids]

    def within(self, window: frozenset[int]) -> RowMap:
        """Return where the numbers go, if only those in a page's window are wanted."""
        return RowMap(self.script, self.plan, window, self.expected)

    def alike(self, rows: Sequence[int]) -> list[ShapeGroup]:
        """Group rows by the shapes of their arrays: in each step they are the same ones."""
        key = tuple(rows)
        found = self._groups.get(key)
        if found is None:
            places: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
            for place, row in enumerate(rows):
                places[self.shapes[row]].append(place)
            every = np.array(rows, int)
            found = [
                ShapeGroup(shape, picker(some, len(rows)), every[some], [], is_summed_separately(len(some), shape))
                for shape, some in places.items()
            ]
            if len(self._groups) > MOST_ORDERS:
                self._groups.clear()
            self._groups[key] = found
        return found

    def _edges(self, shown: Iterable[int]) -> list[tuple[int, int]]:
        """Find out from where the numbers of edges come; return those that share a gradient's."""
        graph, calls = self.graph, self.script.calls
        order = self.script.snapshot.order
        numbers = {node.id: number for node, number in zip(graph.nodes, order, strict=True)}
        uses = Counter(given for call in calls for given in call.given if given.__class__ is int)
        names = {call.number: call.names for call in calls}
        same = []
        for edge in shown:
            if edge < 0 or graph.edges[edge].kind != "forward":
                continue
            each, row = graph.edges[edge], 2 * self.nodes + edge
            source, target = numbers[each.source], numbers[each.target]
            if uses[source] == 1 and source in self.gradients:
                # The only gradient that reaches a result is its gradient.
                same.append((row, self.gradients[source]))
            elif each.input in names.get(target, ()):
                place = names[target].index(each.input), row
                self.flows.setdefault(target, []).append(place)
        return same
