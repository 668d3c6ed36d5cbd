"""Backward, one node at a time: it runs on a thread of its own, and waits before each node.

Nothing of the engine is imitated. A listener (see `edutorch.events`) simply does not return
until somebody lets it.
"""

from __future__ import annotations

import contextvars
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from ...core.autograd.engine import OutputGradients, conjugate, unbroadcast
from ...core.autograd.graph import Node
from ...core.tensor import Tensor
from ...events import GradientAccumulated, WorkEnded, WorkStarted, listening
from ..graph.graph_reader import input_names, leaf_key
from ..graph.model import GraphNode, Key, Snapshot, Vertex, qualified_name
from ..graph.rules import rule_of
from .backward_steps import GradientSummary, EdgeGradient, Contribution, BackwardStep


class WalkAbandoned(BaseException):
    """Raised inside of the engine to end a backward pass that nobody waits for any more."""


class Stepper:
    """Runs `work` on a thread of its own; it stops at each `hold` until it may go on.

    Attributes:
        stations: what has been done so far.
        over: whether the work has ended.
        error: what it raised.
    """

    def __init__(self) -> None:
        self.stations: list[BackwardStep] = []
        self.over = False
        self.error: BaseException | None = None
        self._allowed = 0
        self._gone = self._resting = False
        self._changed = threading.Condition()
        self.thread: threading.Thread | None = None

    def start(self, work: Callable[[], None], listener: Callable[[Any], None]) -> None:
        """Begin, with the modes that are in force here, and wait until it first rests."""
        context = contextvars.copy_context()
        self.thread = threading.Thread(
            target=context.run, args=(self._run, work, listener), name="edutorch-walk", daemon=True
        )
        self.thread.start()
        self.advance(0)

    def _run(self, work: Callable[[], None], listener: Callable[[Any], None]) -> None:
        try:
            with listening(listener):
                work()
        except WalkAbandoned:
            pass
        except BaseException as error:  # noqa: BLE001  (handed to whoever asked)
            self.error = error
        finally:
            with self._changed:
                self.over = True
                self._changed.notify_all()

    # On the thread of backward --------------------------------------------------------------

    def publish(self, station: BackwardStep) -> None:
        """Note what has been done."""
        with self._changed:
            self.stations.append(station)

    def hold(self, leave: bool = True) -> None:
        """Wait until more stations are allowed than there are.

        Args:
            leave: whether the work may be given up here; otherwise it goes on if nobody waits.
        """
        with self._changed:
            self._resting = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._gone or self._allowed > len(self.stations))
            self._resting = False
            if self._gone and leave:
                raise WalkAbandoned

    # On any other ---------------------------------------------------------------------------

    def advance(self, count: int) -> None:
        """Let it go on until there are `count` stations, and wait for that.

        Raises: whatever the work raised.
        """
        with self._changed:
            self._allowed = max(self._allowed, count)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self.over or (self._resting and len(self.stations) >= self._allowed)
            )
        if self.error is not None:
            raise self.error

    def let_go(self) -> None:
        """Give it up: nothing more is computed, unless `.grad` is already being written."""
        with self._changed:
            self._gone = True
            self._changed.notify_all()


@dataclass(frozen=True)
class PictureIndex:
    """Where the engine's nodes are in the picture. It keeps names and numbers only."""

    numbers: dict[Key, int]  # of a vertex: its box in the whole graph
    edges: dict[tuple[int, str], int]  # of a box and its argument's name: the arrow
    names: tuple[str, ...]
    ops: tuple[str, ...]  # where the name is a variable's
    modules: tuple[str, ...]
    lines: tuple[str, ...]

    @classmethod
    def of(cls, vertices: dict[Key, Vertex], whole: Snapshot) -> PictureIndex:
        """Find the vertices in the graph that was made of them."""
        keys = list(vertices)
        nodes = whole.graph.nodes
        at = {node.id: number for number, node in enumerate(nodes)}
        plain = [short_name(node) for node in nodes]
        often, edges = Counter(plain), enumerate(whole.graph.edges)
        names = tuple(
            name if often[name] == 1 else f"{name} ({node.id})"
            for node, name in zip(nodes, plain, strict=True)
        )
        return cls(
            {keys[vertex]: number for number, vertex in enumerate(whole.order)},
            {(at[edge.target], edge.input): number for number, edge in edges},
            names,
            tuple(node.label if node.variable else "" for node in nodes),
            tuple(node.module for node in nodes),
            tuple(node.line for node in nodes),
        )


def short_name(node: GraphNode) -> str:
    """Return a short name: the variable's, the parameter's with its module, or the op's."""
    if node.kind in ("parameter", "buffer") and node.module:
        return qualified_name(node.module, node.label)
    return node.variable or node.label


def key_of(edge: Any) -> Key:
    """Return what a node or leaf is known by in the chart."""
    return leaf_key(edge) if isinstance(edge, Tensor) else edge._order


def array_of(gradient: Any) -> Any:
    return gradient._array if isinstance(gradient, Tensor) else gradient


class Reporter:
    """Listens to backward, makes the stations, and holds it up before each node."""

    def __init__(self, stepper: Stepper, chart: PictureIndex, root: Any, held: dict[Key, GradientSummary]) -> None:
        self.stepper, self.chart = stepper, chart
        self.held = held  # what `.grad` of the leaves was before
        self.paths: dict[Hashable, list[Contribution]] = {}
        self.nodes: set[int] = set()  # those where a gradient waits, by their time
        self.leaves: dict[Key, None] = {}  # the same
        self.root = key_of(root)
        self.engine: Any = None
        self.depth = 0

    def __call__(self, event: Any) -> None:
        """Take an event. Those of a backward pass inside of this one are none of ours."""
        kind = getattr(event, "kind", "")
        if kind == "backward":
            self._backward(event)
        elif self.depth == 1 and kind == "node":
            if isinstance(event, WorkStarted):
                self.stepper.hold()
                self.incoming = event.inputs[0]
            elif isinstance(event, WorkEnded) and not event.failed:
                self._ran(event.subject, event.result)
        elif self.depth == 1 and isinstance(event, GradientAccumulated):
            self._accumulated(event.tensor, event.gradient)

    def _backward(self, event: Any) -> None:
        if not isinstance(event, WorkStarted):
            self.depth -= 1
            return
        self.depth += 1
        if self.depth == 1:
            self.engine = event.subject
            self._arrived(self.root, "the start", GradientSummary.of(array_of(event.inputs[0])))
            self.stepper.hold()

    def _arrived(self, key: Key, source: str, amount: GradientSummary) -> None:
        self.paths.setdefault(key, []).append((source, amount))
        if isinstance(key, int):
            self.nodes.add(key)
        else:
            self.leaves[key] = None

    def _ran(self, node: Node, results: Any) -> None:
        """Make the station of a node that has just run."""
        engine, hooks = self.engine, node.hooks
        key = node._order
        self.nodes.discard(key)
        touched = bool(hooks and (hooks.gradient or hooks.before or hooks.after))
        flows: list[EdgeGradient] = []
        sums: dict[Key, Any] = {}
        pairs = itertools.zip_longest(node.edges, input_names(node))
        for position, ((edge, name), raw) in enumerate(zip(pairs, results, strict=False)):
            if edge is not None and raw is not None:
                flows.append(self._flow(node, position, name, raw, sums, not touched))
        incoming = GradientSummary.of(array_of(conjugate(self.incoming, engine.recording)))
        self._publish(
            key,
            incoming,
            kind="node",
            flows=tuple(flows),
            note="a hook may have changed these gradients" if touched else "",
        )
        self.incoming = None
        if not self.nodes:  # the next thing that happens is that a .grad is written
            self.stepper.hold()

    def _flow(
        self, node: Node, position: int, name: str, raw: Any, sums: dict[Key, Any], exact: bool
    ) -> EdgeGradient:
        """Describe what left along one edge, and add it to what has arrived there."""
        edge: Any = node.edges[position]
        engine, key = self.engine, key_of(edge)
        several = raw.__class__ is OutputGradients  # on their way to a node of several outputs
        if several:
            (raw,) = raw.by_output.values()
        g = array_of(self.incoming)
        sent = array_of(conjugate(raw, engine.recording))
        fitted, note, total = sent, "", None
        if not several:
            shape = tuple(edge.shape)
            if tuple(sent.shape) != shape:
                fitted = unbroadcast(sent, shape)
                shapes = f"{tuple(sent.shape)} → {tuple(fitted.shape)}"
                note = f"broadcasting copied it, so the copies add up: {shapes}"
            waits = engine.waiting.get(edge)
            if key not in sums and waits is not None:
                sums[key] = array_of(conjugate(waits, engine.recording))
            sums[key] = total = sums[key] + fitted if key in sums else fitted
        amount = GradientSummary.of(fitted)
        real = g.__class__ is OutputGradients or g.dtype.kind != "c"
        rule = rule_of(node, position, g, array_of(raw), exact and real and not several)
        number, box = self.chart.numbers[node._order], self.chart.numbers[key]
        self._arrived(key, self.chart.names[number], amount)
        return EdgeGradient(
            name,
            self.chart.names[box],
            isinstance(edge, Tensor),
            rule,
            amount,
            note,
            tuple(self.paths[key]),
            None if total is None else GradientSummary.of(total),
            self.chart.edges.get((number, name), -1),
            box,
        )

    def _accumulated(self, leaf: Tensor, gradient: Any) -> None:
        """Make the station of a leaf whose `.grad` has just been written."""
        key = leaf_key(leaf)
        self.leaves.pop(key, None)
        after = leaf._grad
        self._publish(
            key,
            GradientSummary.of(array_of(gradient)),
            kind="leaf",
            before=self.held.get(key),
            after=None if after is None else GradientSummary.of(after._array),
        )
        if self.leaves:
            self.stepper.hold(leave=False)

    def _publish(self, key: Key, incoming: GradientSummary, **rest: Any) -> None:
        numbers = self.chart.numbers
        box = numbers[key]
        waiting = [numbers[node] for node in (*self.nodes, *self.leaves)]
        comes = max(self.nodes) if self.nodes else next(iter(self.leaves), None)
        station = BackwardStep(
            number=len(self.stepper.stations) + 1,
            name=self.chart.names[box],
            op=self.chart.ops[box],
            module=self.chart.modules[box],
            line=self.chart.lines[box],
            incoming=incoming,
            paths=tuple(self.paths.pop(key, ())),
            node=box,
            waiting=tuple(waiting),
            upcoming=None if comes is None else numbers[comes],
            **rest,
        )
        self.stepper.publish(station)
