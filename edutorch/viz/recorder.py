"""Listens to a network while it runs and keeps, of each step, only plain data.

A step is what happens up to an optimizer's update. Without an optimizer (a first
lesson's `w -= lr * w.grad`) it ends when new ops are recorded after a backward.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from ..core.autograd import LEAF, Node, clock
from ..core.tensor import Tensor
from ..events import (
    BackwardEnded,
    GradientAccumulated,
    GradientFlowed,
    ModuleEntered,
    ModuleLeft,
    OpApplied,
    Stepped,
)
from .glance import Glance
from .graph import Arranged, Graph, Key, Snapshot, Vertex, arranged, ends
from .names import Names
from .packing import Glimpse
from .part import Part
from .rest import Rest
from .script import Call, Constant, Script
from .summaries import summarize
from .trace import flow_of, input_names, leaf_vertex, name_variables, number_vertex, op_vertex

if TYPE_CHECKING:
    from .looks import Watch


class Recorder:
    """A listener (see `edutorch.events`) that turns events into a `Snapshot` per step.

        recorder = Recorder(Names([model]), lambda recorder: print(recorder.loss))
        with listening(recorder):
            ...train...

    With `sampling` off, only the loss of a step is noted. No tensor and no array is kept alive.

    Attributes:
        snapshot: the graph and numbers of the last step that was sampled.
        sampled: whether the last step was.
        cost: seconds spent on the last sampled step.
        detailed: count for histograms too.
        parts: what else hears the events (see `part.py`).
        watch: whose numbers are taken, where not all are to be seen.
        full: whether the last sampled step has the numbers of everything.
        sampled_whole: whether the step that runs has been listened to from its beginning.
        script: what the last sampled step did, for a glance at one like it.
        glance: what follows the step that runs, where only a glance is taken.
        glimpse: the numbers of the last step, if a glance at it was enough.
        eager: a glance has to take each result at once, for some is overwritten.
        rest: counts the steps between two looks; they are told of with the next step.
        on_graph: told of the graph of a step that is looked at as soon as its backward begins.
    """

    def __init__(
        self,
        names: Names,
        on_step: Callable[[Recorder], None] | None = None,
        detailed: bool = False,
        on_graph: Callable[[Graph], None] | None = None,
    ) -> None:
        self.names, self.detailed = names, detailed
        self.parts: list[Part] = []
        self._hearers: dict[type, list[Callable[[Any], None]]] = {}  # by the kind of event
        self.watch: Watch | None = None
        self.on_step, self.on_graph = on_step, on_graph
        self.rest = Rest()
        self._noted = self._known_parts = 0
        self.sampling = self.sampled = True
        self.snapshot: Snapshot | None = None
        self.script: Script | None = None
        self.glance: Glance | None = None
        self.glimpse: Glimpse | None = None
        self.full, self.eager = True, False
        self.cost = 0.0
        self._optimizer_seen = False
        self.aside = 0.0  # seconds ever spent in `finish_step`, where a loop may be paused
        self._path: list[str] = []  # the modules we are in, innermost last
        self._handlers: dict[type, Callable[[Any], None]] = {
            OpApplied: self._op_applied,
            GradientFlowed: self._gradient_flowed,
            GradientAccumulated: self._gradient_accumulated,
            ModuleEntered: self._module_entered,
            ModuleLeft: self._module_left,
            Stepped: self._stepped,
        }
        self._forget()

    def _forget(self) -> None:
        self._vertices: dict[Key, Vertex] = {}
        self._numbers: dict[Key, int] = {}
        self._calls: list[Call] = []
        self._received: set[int] = set()
        self._leaves: dict[int, tuple[weakref.ref[Tensor], Key]] = {}
        self._roots: list[int] = []
        self._last_flow = (0, 0)
        self._drawn: tuple[Any, Any] = None, None  # of which vertices and roots, and their graph
        self._flowed: tuple[Any, Any] = None, None  # what left a node last, and its numbers
        self._accumulated = False
        self._scalar: tuple[int, weakref.ref[Tensor]] | None = None
        self._spent = 0.0
        self._youngest = 0  # no node was younger when the last backward ended
        self.sampled_whole = True

    def __call__(self, event: Any) -> None:
        """Take one event."""
        kind = event.__class__
        handler = self._handlers.get(kind)
        if not self.sampling:
            if handler is not None:
                handler(event)
            return
        start, aside = perf_counter(), self.aside
        if len(self.parts) != self._known_parts:
            self._known_parts = len(self.parts)
            self._hearers.clear()
        takers = self._hearers.get(kind)
        if takers is None:
            takers = self._hearers[kind] = [part.take for part in self.parts if part.takes(kind)]
        for take in takers:
            take(event)
        if handler is not None:
            handler(event)
        self._spent += perf_counter() - start - (self.aside - aside)

    @property
    def step(self) -> int:
        """How many steps have ended."""
        return self._noted + self.rest.counted

    @property
    def loss(self) -> float | None:
        """The value of the scalar on which backward last ran, None if unknown."""
        return self.rest.loss

    @property
    def has_optimizer(self) -> bool:
        """Whether steps end with an optimizer's, where no graph waits for its backward."""
        return self._optimizer_seen

    @property
    def pending(self) -> bool:
        """Whether something was recorded that belongs to no step yet."""
        return bool(self._vertices)

    def _add(self, key: Key, vertex: Vertex) -> Vertex:
        """Gather a vertex, and decide whether its numbers are wanted."""
        number = self._numbers[key] = len(self._vertices)
        if self.watch is not None:
            vertex.watched = number in self.watch.nodes
            vertex.tracked = number in self.watch.flows
        self._vertices[key] = vertex
        return vertex

    # Forward ----------------------------------------------------------------------------

    def _module_entered(self, event: ModuleEntered) -> None:
        if id(event.module) not in self.names.modules:
            self.names.learn(event.module)
        self._path.append(self.names.modules[id(event.module)])

    def _module_left(self, event: ModuleLeft) -> None:
        if self._path:
            self._path.pop()

    def _op_applied(self, event: OpApplied) -> None:
        node = event.node
        if node is None:
            return
        if self._accumulated and not self._optimizer_seen:
            self.finish_step()
        output = event.output[0] if isinstance(event.output, tuple) else event.output
        inside_vmap = hasattr(output._array, "all_examples")
        if output._array.size == 1 and not inside_vmap:
            self._scalar = node._order, weakref.ref(output)
        if not self.sampling:
            return
        vertex = op_vertex(node)
        vertex.module = self._path[-1] if self._path else ""
        vertex.device = "cpu" if output._array.__class__ is ndarray else str(output.device)
        names, given = input_names(node), event.inputs
        keys = [self._source(each, node, name) for name, each in zip(names, given, strict=True)]
        pairs = zip(names, keys, strict=True)
        vertex.sources = tuple((name, key) for name, key in pairs if key is not None)
        self._add(node._order, vertex)
        self._calls.append(
            Call(
                node.__class__, node.shape, self._numbers[node._order],
                tuple(map(self._given, given, keys)),
                tuple(edge is not None for edge in node.edges),
                tuple(names), node.gathers, vertex.module,
            )
        )  # fmt: skip
        if vertex.watched:
            vertex.value = summarize(output._array, self.detailed)
        if vertex.watched and not node.gathers:
            node.hang("gradient", lambda gradient: self._gradient_reached(vertex, gradient))

    def _source(self, given: Any, node: Node, name: str) -> Key | None:
        """Return the key of one input of an op, and make its vertex if it is new."""
        if isinstance(given, Tensor):
            if given.grad_fn is not None and given._node._order in self._vertices:
                return given._node._order
            return self._leaf(given)
        if isinstance(given, int | float):
            key = ("number", node._order, name)
            self._add(key, number_vertex(name, given))
            return key
        return None

    def _given(self, given: Any, key: Key | None) -> int | Constant | None:
        if key is None:
            return None
        number = self._numbers[key]
        return number if isinstance(given, Tensor) else Constant(number)

    def _leaf(self, tensor: Tensor) -> Key:
        """Return the key of a tensor that came into this step from outside."""
        known = self._leaves.get(id(tensor))
        if known is not None and known[0]() is tensor:  # an id is reused once its owner is gone
            return known[1]
        key = ("leaf", len(self._vertices), id(tensor))
        self._leaves[id(tensor)] = weakref.ref(tensor), key
        vertex = self._add(key, leaf_vertex(tensor, self.names))
        if vertex.watched:
            vertex.value = summarize(tensor._array, self.detailed)
        return key

    # Backward ---------------------------------------------------------------------------

    def _gradient_reached(self, vertex: Vertex, gradient: Tensor) -> None:
        array, known = self._flowed  # mostly, as it is, what reaches the next node
        same = gradient._array is array and not self.detailed
        vertex.grad = known if same else summarize(gradient._array, self.detailed)

    def _gradient_flowed(self, event: GradientFlowed) -> None:
        node = event.node
        flow = -node._order, event.index
        if not self._roots or flow <= self._last_flow:
            # Within one backward the nodes run from the youngest to the oldest.
            self._backward_began(node._order)
        self._last_flow = flow
        vertex = self._vertices.get(node._order)
        if vertex is not None and vertex.tracked and self.sampling:
            name = input_names(node)[event.index]
            array = flow_of(event.gradient, node.edges[event.index])
            vertex.flows[name] = summarize(array)
            self._flowed = array, vertex.flows[name]

    def _backward_began(self, order: int) -> None:
        self._roots.append(order)
        if self.sampling:  # later in the loop, the variables may hold other tensors
            name_variables(self._vertices, self.names)
        if self.sampling and self.sampled_whole and self.on_graph is not None:
            self.on_graph(self._arranged().graph)
        loss = self._scalar[1]() if self._scalar and self._scalar[0] == order else None
        if loss is not None:
            self._note_loss(loss)

    def _gradient_accumulated(self, event: GradientAccumulated) -> None:
        self._accumulated = True
        self.leaf_received(event.tensor, event.tensor._grad)

    def leaf_received(self, leaf: Tensor, gradient: Tensor | None) -> None:
        """Note the gradient of a leaf."""
        known = self._leaves.get(id(leaf))
        if self.sampling and gradient is not None and known is not None and known[0]() is leaf:
            vertex = self._vertices[known[1]]
            self._received.add(self._numbers[known[1]])
            vertex.grad = summarize(gradient._array, self.detailed) if vertex.watched else None

    def gradient_norm(self, leaf: Tensor) -> float | None:
        """Return the norm of the gradient that a leaf received in this step, if it was taken."""
        known = self._leaves.get(id(leaf))
        grad = self._vertices[known[1]].grad if known and known[0]() is leaf else None
        return None if grad is None else grad.norm

    # Steps ------------------------------------------------------------------------------

    def milestone(self, event: Any) -> None:
        """Follow a loop of which nothing else is heard (see `hearing.py`)."""
        if isinstance(event, Stepped):
            self._stepped(event)
            return
        self._backward_ended(event)

    def _backward_ended(self, event: BackwardEnded) -> None:
        roots = [root for root in event.roots if root._node is not None]
        if event.accumulated and self._accumulated and not self._optimizer_seen:
            orders = (root._node._order for root in roots if root._node not in (None, LEAF))
            if max(orders, default=0) > self._youngest:  # by ops that ran after the last backward
                self.finish_step()
        self._accumulated |= event.accumulated
        self._youngest = clock()
        if len(roots) == 1:
            self._note_loss(roots[0])
        if self.glance is not None:
            self.glance.backward_ended(event)

    def _note_loss(self, loss: Tensor) -> None:
        array = loss._array
        # All examples of a vmap have no one loss, and to ask a GPU is to wait for it.
        unasked = array.__class__ is not ndarray and (
            hasattr(array, "all_examples") or (loss.is_cuda and not self.sampling)
        )
        if array.size == 1 and not unasked:
            value = array.item()
            self.rest.loss = float(abs(value) if value.__class__ is complex else value)

    def _stepped(self, event: Stepped) -> None:
        if not self._optimizer_seen and self._noted:
            self._noted = 0  # what we took for steps were parts of the first one
        self._optimizer_seen = True
        if self.glance is not None and self.glance.gauges is not None:
            self.glance.gauges.stepped(event.optimizer)
        self.finish_step()

    def finish_step(self) -> None:
        """End the step: make its snapshot, count it, tell the owner, begin the next one."""
        start = perf_counter()
        self.sampled = self.sampling and self.sampled_whole
        if self.sampled:
            if self._vertices:
                self.snapshot = self._arrange()
                self.full = self.watch is None
                self.script = self._script(self.snapshot)
            self.cost = self._spent + perf_counter() - start
        self.glimpse = None if self.glance is None else self.glance.finish()
        if self.glance is not None:
            self.cost = perf_counter() - start
            if self.glimpse is None:
                self.script = None  # the loop does something else now
                self.eager |= self.glance.written
        self._noted += 1
        for part in self.parts:
            if self.rest.losses:
                part.rested(self.rest.losses)
            part.step_ended(self)
        self._forget()
        if self.on_step is not None:
            self.on_step(self)
        self.rest.told()
        self.aside += perf_counter() - start

    def _script(self, snapshot: Snapshot) -> Script | None:
        """Return what the step did; None where a glance could not tell when the next one ends."""
        if not self._optimizer_seen or not all(root in self._numbers for root in self._roots):
            return None
        roots = tuple(self._numbers[root] for root in self._roots)
        results = (vertex for vertex in self._vertices.values() if vertex.kind == "op")
        nbytes = sum(4 * math.prod(vertex.shape) for vertex in results)
        return Script(tuple(self._calls), roots, frozenset(self._received), snapshot, nbytes)

    def finish(self) -> None:
        """Take what is there of a last step that nothing has ended."""
        for part in self.parts if self.rest.losses else ():
            part.rested(self.rest.losses)
        if self._accumulated and not self._optimizer_seen:
            self.finish_step()
        elif self._vertices and self.snapshot is None:
            self.snapshot = self._arrange()

    def _arrange(self) -> Snapshot:
        if not self._roots:
            name_variables(self._vertices, self.names)
        return self._arranged().snapshot(self._vertices)

    def _arranged(self) -> Arranged:
        """Return the graph, which is known when backward begins, before most of its numbers are."""
        of = len(self._vertices), tuple(self._roots)
        if self._drawn[0] != of:
            roots = ends(self._vertices, self._roots)
            self._drawn = of, arranged(self._vertices, roots, self.names.classes)
        return self._drawn[1]
