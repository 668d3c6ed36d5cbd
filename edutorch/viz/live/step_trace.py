"""What a step did, op by op, and the rows that its values have in a picture of it."""

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
"""Arrays of at most this many elements are summed all together…"""

MAX_SEPARATE, MAX_SEPARATE_TINY = 3, 10
"""…unless there are no more of one shape than this: then summing them one by one costs less."""

MOST_ORDERS = 256  # one for each stretch between two writes
"""How many orders of the rows of a step are remembered."""

shape_of, origin_of = attrgetter("shape"), attrgetter("origin")


class Constant(NamedTuple):
    """The vertex of a Python number, which may be another number in each step."""

    key: int


class Call(NamedTuple):
    """One recorded op of a step.

    `operands` are the vertices of its operands, `recorded` whether each has a history or is a leaf
    that requires a gradient: then it is known by the node's edge.
    """

    node_type: type
    shape: tuple[int, ...]
    key: int
    operands: tuple[int | Constant | None, ...]
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
    operands: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class StepTrace:
    """What a step did that was sampled in full.

    `roots` are the ops on which backward ran, `received` the leaves that got a gradient, both by
    the key of their vertex. `again` maps a later version of a tensor from outside, which was
    written to within the step, to the vertex of an earlier one. `unrecorded` are the ops that were
    not recorded, `index_keys` the vertices of indices and masks: a light sampler sees neither.
    """

    calls: tuple[Call, ...]
    roots: tuple[int, ...]
    received: frozenset[int]
    snapshot: Snapshot
    nbytes: int = 0  # of all results
    again: Mapping[int, int] = field(default_factory=dict)
    unrecorded: tuple[UnrecordedOp, ...] = ()
    index_keys: frozenset[int] = frozenset()


class SparseItems:
    """Items at some of many positions, selected for a whole range of positions at once.

    >>> vowels = SparseItems(5, {1: "the first", 4: "the second"})
    >>> vowels.select("ell", begin=2), vowels.select("hello")
    ((['l'], ['the second']), (['e', 'o'], ['the first', 'the second']))
    """

    def __init__(self, count: int, known: dict[int, Any]) -> None:
        self._is_known = bytearray(count)
        for position in known:
            self._is_known[position] = 1
        self._known = [known[position] for position in sorted(known)]
        # Running counts, so that a range of positions is a slice of `_known`.
        self._before = [0, *accumulate(self._is_known)]

    def select(self, items: Sequence[Any], begin: int = 0) -> tuple[list[Any], list[Any]]:
        """Return which of the items are at known positions, and what is known of these.

        Args:
            items: those at the positions from `begin` on.
        """
        end = begin + len(items)
        chosen = list(compress(items, self._is_known[begin:end]))
        return chosen, self._known[self._before[begin] : self._before[end]]


def operands_without_edge(call: Call) -> list[tuple[int, int | Constant]]:
    """Return the operands of an op that have no edge, with their positions: data and numbers."""
    rows = enumerate(zip(call.operands, call.recorded, strict=True))
    return [
        (position, operand)
        for position, (operand, recorded) in rows
        if not recorded and operand is not None
    ]


def has_implied_shape(call: Call) -> bool:
    """Return True if the shape of a result follows from those of the operands."""
    op = getattr(call.node_type, "op", None)
    return getattr(op, "family", "") == "elementwise" and None not in call.operands


class ExpectedOps:
    """The ops of a trace in columns, so that a whole step is compared in a few comparisons."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.node_types = [call.node_type for call in calls]
        # Where a shape follows from those of the operands, comparing it would say nothing new.
        shapes = {at: call.shape for at, call in enumerate(calls) if not has_implied_shape(call)}
        self.shapes = SparseItems(len(calls), shapes)
        self.keys = [call.key for call in calls]
        self.counts = [len(call.operands) for call in calls]
        self.starts = [0, *accumulate(self.counts)]  # where each op's operands begin
        producers = {key: position for position, key in enumerate(self.keys)}
        operands = list(chain.from_iterable(call.operands for call in calls))
        edges = compress(enumerate(operands), chain.from_iterable(call.recorded for call in calls))
        known = {at: key for at, key in edges if isinstance(key, int)}
        results = {at: producers[key] for at, key in known.items() if key in producers}
        leaves = {at: key for at, key in known.items() if key not in producers}
        self.results = SparseItems(len(operands), results)
        self.leaves = SparseItems(len(operands), leaves)
        others = {position: operands_without_edge(call) for position, call in enumerate(calls)}
        others = {position: other for position, other in others.items() if other}
        self.outside = SparseItems(len(calls), others)

    def matches(self, nodes: Sequence[Any], begin: int) -> bool:
        """Return True if these are the nodes of the calls from `begin` on."""
        if list(map(origin_of, nodes)) != self.node_types[begin : begin + len(nodes)]:
            return False
        some, shapes = self.shapes.select(nodes, begin)
        return list(map(shape_of, some)) == shapes


class ShapeGroup(NamedTuple):
    """Arrays of one shape: the function that picks them out of a list, and their rows.

    `scattered` are the positions of those that were not contiguous the last time; `alone` says
    whether each is better summed by itself.
    """

    shape: tuple[int, ...]
    pick: Callable[[list[Any]], Sequence[Any]]
    rows: Any
    scattered: list[int]
    alone: bool

    def join_bytes(self, arrays: Sequence[Any]) -> bytearray:
        """Return the bytes of such arrays in a row: `np.concatenate` takes longer."""
        arrays = list(arrays)
        for position in self.scattered:
            arrays[position] = np.ascontiguousarray(arrays[position])
        try:
            return bytearray().join(arrays)
        except TypeError:
            scattered = (
                position for position, array in enumerate(arrays) if not array.flags.c_contiguous
            )
            self.scattered[:] = scattered
            return self.join_bytes(arrays)


def is_summed_separately(count: int, shape: tuple[int, ...]) -> bool:
    """Return True if this many arrays are better summed one by one."""
    size = math.prod(shape)
    return size > MAX_JOINT_SIZE or count <= (MAX_SEPARATE_TINY if size <= TINY else MAX_SEPARATE)


def picker(positions: list[int], count: int) -> Callable[[list[Any]], Sequence[Any]]:
    """Return a function that picks the items at `positions` out of a list of `count` items."""
    if len(positions) == count:
        return list
    return itemgetter(*positions) if len(positions) > 1 else lambda items: [items[positions[0]]]


class BackwardOrder:
    """The order in which backward ran through the ops of a trace, mostly the same in each step."""

    def __init__(self, row_map: RowMap, keys: Sequence[int | None], node_types: list[type]) -> None:
        calls = row_map.trace.calls
        positions = {call.key: position for position, call in enumerate(calls)}
        known = {at: key for at, key in enumerate(keys) if key is not None}
        rows = {at: row_map.gradients.get(key) for at, key in known.items()}
        self.node_types = node_types
        at_calls = {at: positions[key] for at, key in known.items()}
        self.nodes = SparseItems(len(node_types), at_calls)
        # So many calls must have been read already for their nodes to be compared.
        self.least = 1 + max(at_calls.values(), default=-1)
        self.shown = SparseItems(
            len(node_types), {at: row for at, row in rows.items() if row is not None}
        )
        self.flows = [
            (at, index, row)
            for at, key in known.items()
            for index, row in row_map.flows.get(key, ())
        ]

    def matches(self, ran: Sequence[Any], nodes: Sequence[Any]) -> bool:
        """Return True if backward `ran` in this order; `nodes` are those of the calls."""
        if len(nodes) < self.least or list(map(origin_of, ran)) != self.node_types:
            return False
        known, positions = self.nodes.select(ran)
        return known == list(map(nodes.__getitem__, positions))


class RowMap:
    """The rows of the values of each vertex that a plan shows, as in `packed_values.py`.

    Args:
        window: which of the plan's nodes are wanted, and the edges at them; None: everything.
        expected: the ops of the trace in columns, where these exist already.

    Attributes:
        whole: whether everything is wanted.
        row_of: the row of each vertex's value.
        values: the rows of the results, by call; `results`: the vertices of all of them.
        gradients: by vertex, the row of the gradient of a result.
        flows: by vertex, (index, row) of what leaves it along its edges.
        initial: the statistics before anything is known.
        shared_rows: rows, and the rows whose values they share; `sources`: for all rows, these.
        shapes: of the arrays, by row.
        vertex_shapes: of all vertices that are drawn, to compare those from outside with.
        wanted: the ops whose gradients are wanted; `wants_most`: these are most of them.
        backward: the order of each backward pass of a step, as far as it was read at once.
    """

    def __init__(
        self,
        trace: StepTrace,
        plan: Plan,
        window: frozenset[int] | None = None,
        expected: ExpectedOps | None = None,
    ) -> None:
        graph, order = trace.snapshot.graph, trace.snapshot.order
        self.trace, self.plan, self.graph = trace, plan, graph
        self.whole = window is None
        self.expected = expected or ExpectedOps(trace.calls)
        nodes, edges = (plan.nodes, plan.edges) if window is None else self._inside(window)
        self.nodes = count = len(graph.nodes)
        self.rows = 2 * count + len(graph.edges)
        reals = [is_real(node) for node in graph.nodes]
        # Rows: all values, all gradients, all edges.
        self.is_float_row = reals + reals  # by row; a gradient along an edge is always float
        self.initial = self._initial_values()
        # A set: the roots of backward may also be in the window.
        self.row_of = {order[node]: node for node in set(nodes)}
        calls = enumerate(trace.calls)
        shown = {
            position: self.row_of[call.key] for position, call in calls if call.key in self.row_of
        }
        self.values = SparseItems(len(trace.calls), shown)
        self.results = {call.key for call in trace.calls}
        self.results.update(op.key for op in trace.unrecorded if op.key is not None)
        self.gradients = {
            call.key: count + self.row_of[call.key]
            for call in trace.calls
            if call.key in self.row_of and not call.gathers
        }
        shapes = [node.shape for node in graph.nodes]
        self.vertex_shapes = dict(zip(order, shapes, strict=True))
        by_id = {node.id: node.shape for node in graph.nodes}
        self.shapes = shapes + shapes + [by_id[edge.source] for edge in graph.edges]
        self._groups: dict[tuple[int, ...], list[ShapeGroup]] = {}
        self.flows: dict[int, list[tuple[int, int]]] = {}
        self.shared_rows = self._edges(edges)
        self.sources = np.arange(self.rows)
        for row, other in self.shared_rows:
            self.sources[row] = other
        with_flow = self.gradients.keys() | self.flows.keys()
        wanted = {at: None for at, call in enumerate(trace.calls) if call.key in with_flow}
        self.wanted = SparseItems(len(trace.calls), wanted)
        self.wants_most = 2 * len(wanted) > len(trace.calls)
        self.backward: dict[int, BackwardOrder] = {}

    def _initial_values(self) -> Any:
        """Return the statistics before anything is known.

        They are those of the last full sample for ops without a gradient and their operands, which
        a light sampler may miss.
        """
        statistics = np.full((self.rows, 5), np.nan, "f4")
        unrecorded = {key for op in self.trace.unrecorded for key in (op.key, *op.operands)}
        unrecorded |= self.trace.index_keys
        self.older_few: dict[int, tuple[tuple[float, ...], bool]] = {}
        self.older_texts: dict[int, str] = {}
        for row, vertex in enumerate(self.trace.snapshot.order):
            stats = self.trace.snapshot.values[row]
            if vertex in unrecorded and stats is not None:
                statistics[row] = stats[:5]
                self.older_few[row] = stats.few, stats.text.startswith("[")
                if stats.text and not (stats.few and self.is_float_row[row]):
                    self.older_texts[row] = stats.text
        return statistics

    def _inside(self, window: frozenset[int]) -> tuple[list[int], list[int]]:
        """Return the nodes of a window with the edges at them, and the roots of backward.

        A NaN that an op made is one at the roots too. (One that backward made waits for a fast
        sample of everything.)
        """
        plan, order = self.plan, self.trace.snapshot.order
        ids = {plan.graph.nodes[index].id for index in window}
        roots = [node for node in plan.nodes if order[node] in self.trace.roots]
        nodes = [plan.nodes[index] for index in sorted(window)] + roots
        pairs = zip(plan.edges, plan.graph.edges, strict=True)
        return nodes, [edge for edge, drawn in pairs if drawn.source in ids or drawn.target in ids]

    def within(self, window: frozenset[int]) -> RowMap:
        """Return the rows where only the values in a page's window are wanted."""
        return RowMap(self.trace, self.plan, window, self.expected)

    def group_by_shape(self, rows: Sequence[int]) -> list[ShapeGroup]:
        """Group rows by the shapes of their arrays: in each step they are the same ones."""
        key = tuple(rows)
        groups = self._groups.get(key)
        if groups is None:
            positions: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
            for position, row in enumerate(rows):
                positions[self.shapes[row]].append(position)
            every = np.array(rows, int)
            groups = [
                ShapeGroup(
                    shape,
                    picker(some, len(rows)),
                    every[some],
                    [],
                    is_summed_separately(len(some), shape),
                )
                for shape, some in positions.items()
            ]
            # Writes at ever other positions must not fill the memory.
            if len(self._groups) > MOST_ORDERS:
                self._groups.clear()
            self._groups[key] = groups
        return groups

    def _edges(self, shown: Iterable[int]) -> list[tuple[int, int]]:
        """Find where the values of edges come from; return those that share a gradient's row."""
        graph, calls = self.graph, self.trace.calls
        order = self.trace.snapshot.order
        keys = {node.id: key for node, key in zip(graph.nodes, order, strict=True)}
        uses = Counter(
            operand for call in calls for operand in call.operands if operand.__class__ is int
        )
        names = {call.key: call.names for call in calls}
        shared = []
        for edge in shown:
            if edge < 0 or graph.edges[edge].kind != "forward":
                continue
            drawn, row = graph.edges[edge], 2 * self.nodes + edge
            source, target = keys[drawn.source], keys[drawn.target]
            # Mostly so: then nothing has to be computed a second time.
            if uses[source] == 1 and source in self.gradients:
                # The only gradient that reaches a result is its gradient.
                shared.append((row, self.gradients[source]))
            elif drawn.input in names.get(target, ()):
                flow = names[target].index(drawn.input), row
                self.flows.setdefault(target, []).append(flow)
        return shared
