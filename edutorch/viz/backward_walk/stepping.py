"""Backward, one node at a time: it runs on a thread of its own, and waits before each node.

The engine is not reimplemented. A listener (see `edutorch.events`) simply does not return
until it is allowed to.
"""

from __future__ import annotations

import contextvars
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from ...backends.numpy import Array
from ...backends.platform import HAS_THREADS
from ...core.autograd.engine import OutputGradients, conjugate, unbroadcast
from ...core.autograd.graph import Node
from ...core.tensor import Tensor
from ...events import GradientAccumulated, WorkEnded, WorkStarted, listening
from ..graph.graph_reader import input_names, leaf_key
from ..graph.model import GraphNode, Key, Snapshot, Vertex, qualified_name
from ..graph.rules import rule_of
from .backward_steps import BackwardStep, Contribution, EdgeGradient, GradientSummary


class WalkAbandoned(BaseException):
    """Raised inside of the engine to end a backward pass that nobody waits for any more."""


class Stepper:
    """Runs `work` on a thread of its own; it stops at each `hold` until it may go on.

    Where there are no threads, all of it is done at the start, and the steps are shown afterwards.

    Attributes:
        stations: the steps that have been done so far.
        over: whether the work has ended.
        error: the exception it raised.
    """

    def __init__(self) -> None:
        self.stations: list[BackwardStep] = []
        self.over = False
        self.error: BaseException | None = None
        self._allowed = 0
        self._abandoned = self._resting = False
        self._changed = threading.Condition()
        self.thread: threading.Thread | None = None

    def start(self, work: Callable[[], None], listener: Callable[[Any], None]) -> None:
        """Begin, with the modes that are in force here, and wait for the first `hold`."""
        context = contextvars.copy_context()
        if not HAS_THREADS:
            context.run(self._run, work, listener)
            if not self.stations:
                self.advance(0)  # else an error is raised where the steps before it have been shown
            return
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
        except BaseException as error:  # noqa: BLE001  (raised again in `advance`)
            self.error = error
        finally:
            with self._changed:
                self.over = True
                self._changed.notify_all()

    # On the thread of backward --------------------------------------------------------------

    def publish(self, step: BackwardStep) -> None:
        """Add a step that has been done."""
        with self._changed:
            self.stations.append(step)

    def hold(self, leave: bool = True) -> None:
        """Wait until more steps are allowed than there are.

        Args:
            leave: whether the work may be abandoned here; otherwise it goes on if nobody waits.
        """
        if not HAS_THREADS:
            return
        with self._changed:
            self._resting = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._abandoned or self._allowed > len(self.stations))
            self._resting = False
            if self._abandoned and leave:
                raise WalkAbandoned

    # On other threads------------------------------------------------------------------------

    def advance(self, count: int) -> None:
        """Let the work go on until there are `count` steps, and wait for that.

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

    def abandon(self) -> None:
        """Abandon the work: nothing more is computed, unless `.grad` is already being written."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()


@dataclass(frozen=True)
class PictureIndex:
    """Where the engine's nodes are in the picture. It keeps names and indices only."""

    box_of: dict[Key, int]  # of a vertex: its box in the whole graph
    edges: dict[tuple[int, str], int]  # of a box and its argument's name: the arrow
    names: tuple[str, ...]
    ops: tuple[str, ...]  # where the name is a variable's
    modules: tuple[str, ...]
    lines: tuple[str, ...]

    @classmethod
    def from_vertices(cls, vertices: dict[Key, Vertex], whole: Snapshot) -> PictureIndex:
        """Find the vertices in the graph that was made of them."""
        keys = list(vertices)
        nodes = whole.graph.nodes
        at = {node.id: index for index, node in enumerate(nodes)}
        plain = [short_name(node) for node in nodes]
        often, edges = Counter(plain), enumerate(whole.graph.edges)
        names = tuple(
            name if often[name] == 1 else f"{name} ({node.id})"
            for node, name in zip(nodes, plain, strict=True)
        )
        return cls(
            {keys[vertex]: index for index, vertex in enumerate(whole.order)},
            {(at[edge.target], edge.input): index for index, edge in edges},
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
    """Return the key of a node or leaf in the index."""
    return leaf_key(edge) if isinstance(edge, Tensor) else edge._order


def array_of(gradient: Tensor | Array) -> Any:
    return gradient._array if isinstance(gradient, Tensor) else gradient


class Reporter:
    """Listens to backward, makes the steps, and holds it before each node."""

    def __init__(
        self, stepper: Stepper, chart: PictureIndex, root: Node, held: dict[Key, GradientSummary]
    ) -> None:
        self.stepper, self.chart = stepper, chart
        self.held = held  # `.grad` of the leaves before
        self.paths: dict[Hashable, list[Contribution]] = {}
        self.nodes: set[int] = set()  # those where a gradient waits, by their order
        self.leaves: dict[Key, None] = {}  # those where a gradient waits
        self.root = key_of(root)
        self.engine: Any = None
        self.depth = 0

    def __call__(self, event: Any) -> None:
        """Handle an event. Those of a backward pass inside of this one are ignored."""
        work_kind = getattr(event, "kind", "")
        if work_kind == "backward":
            self._backward(event)
        elif self.depth == 1 and work_kind == "node":
            if isinstance(event, WorkStarted):
                self.stepper.hold()
                self.incoming = event.inputs[0]
            elif isinstance(event, WorkEnded) and not event.failed:
                self._report_node(event.subject, event.result)
        elif self.depth == 1 and isinstance(event, GradientAccumulated):
            self._report_leaf(event.tensor, event.gradient)

    def _backward(self, event: Any) -> None:
        if not isinstance(event, WorkStarted):
            self.depth -= 1
            return
        self.depth += 1
        if self.depth == 1:
            self.engine = event.subject
            self._add_contribution(
                self.root, "the start", GradientSummary.from_array(array_of(event.inputs[0]))
            )
            self.stepper.hold()

    def _add_contribution(self, key: Key, source: str, summary: GradientSummary) -> None:
        self.paths.setdefault(key, []).append((source, summary))
        if isinstance(key, int):
            self.nodes.add(key)
        else:
            self.leaves[key] = None

    def _report_node(self, node: Node, results: Sequence[object]) -> None:
        """Make the step of a node that has just run."""
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
        incoming = GradientSummary.from_array(array_of(conjugate(self.incoming, engine.recording)))
        self._publish(
            key,
            incoming,
            kind="node",
            flows=tuple(flows),
            note="a hook may have changed these gradients" if touched else "",
        )
        self.incoming = None
        if not self.nodes:  # next, a .grad is written
            self.stepper.hold()

    def _flow(
        self,
        node: Node,
        position: int,
        name: str,
        raw: Tensor | Array,
        sums: dict[Key, Any],
        exact: bool,
    ) -> EdgeGradient:
        """Describe what left along one edge, and add it to what has arrived there."""
        edge: Any = node.edges[position]
        engine, key = self.engine, key_of(edge)
        several = raw.__class__ is OutputGradients  # on its way to a node of several outputs
        if several:
            (raw,) = raw.by_output.values()
        g = array_of(self.incoming)
        outgoing = array_of(conjugate(raw, engine.recording))
        gradient, note, total = outgoing, "", None
        if not several:
            shape = tuple(edge.shape)
            if tuple(outgoing.shape) != shape:
                gradient = unbroadcast(outgoing, shape)
                shapes = f"{tuple(outgoing.shape)} → {tuple(gradient.shape)}"
                note = f"broadcasting copied it, so the copies add up: {shapes}"
            pending = engine.pending.get(edge)
            if key not in sums and pending is not None:
                sums[key] = array_of(conjugate(pending, engine.recording))
            sums[key] = total = sums[key] + gradient if key in sums else gradient
        summary = GradientSummary.from_array(gradient)
        real = g.__class__ is OutputGradients or g.dtype.kind != "c"
        rule = rule_of(node, position, g, array_of(raw), exact and real and not several)
        source_box, box = self.chart.box_of[node._order], self.chart.box_of[key]
        self._add_contribution(key, self.chart.names[source_box], summary)
        return EdgeGradient(
            name,
            self.chart.names[box],
            isinstance(edge, Tensor),
            rule,
            summary,
            note,
            tuple(self.paths[key]),
            None if total is None else GradientSummary.from_array(total),
            self.chart.edges.get((source_box, name), -1),
            box,
        )

    def _report_leaf(self, leaf: Tensor, gradient: Tensor | Array) -> None:
        """Make the step of a leaf whose `.grad` has just been written."""
        key = leaf_key(leaf)
        self.leaves.pop(key, None)
        after = leaf._grad
        self._publish(
            key,
            GradientSummary.from_array(array_of(gradient)),
            kind="leaf",
            before=self.held.get(key),
            after=None if after is None else GradientSummary.from_array(after._array),
        )
        if self.leaves:
            self.stepper.hold(leave=False)

    def _publish(self, key: Key, incoming: GradientSummary, **rest: Any) -> None:
        box_of = self.chart.box_of
        box = box_of[key]
        waiting = [box_of[node] for node in (*self.nodes, *self.leaves)]
        next_key = max(self.nodes) if self.nodes else next(iter(self.leaves), None)
        step = BackwardStep(
            number=len(self.stepper.stations) + 1,
            name=self.chart.names[box],
            op=self.chart.ops[box],
            module=self.chart.modules[box],
            line=self.chart.lines[box],
            incoming=incoming,
            paths=tuple(self.paths.pop(key, ())),
            node=box,
            waiting=tuple(waiting),
            upcoming=None if next_key is None else box_of[next_key],
            **rest,
        )
        self.stepper.publish(step)
