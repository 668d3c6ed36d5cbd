"""Listens to a network while it runs and keeps, of each step, only plain data.

A step is what happens up to an optimizer's update. Without an optimizer (a first
lesson's `w -= lr * w.grad`) it ends when new ops are recorded after a backward.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from ..core.autograd import LEAF, clock
from ..core.tensor import Tensor
from ..events import (
    BackwardEnded,
    GradientAccumulated,
    GradientFlowed,
    ModuleEntered,
    ModuleLeft,
    OpApplied,
    Stepped,
    TensorAliased,
    TensorWritten,
    ViewRebased,
    WorkEnded,
    WorkStarted,
)
from .call_scopes import CallScopes
from .glance import Glance
from .graph import Arranged, Graph, Snapshot, Tab, Vertex, ancestors, arranged
from .names import Names
from .packing import Glimpse
from .part import Part
from .rest import Rest
from .script import Aside, Call, Constant, Script
from .summaries import summarize
from .tensor_keys import TensorKeys, has_node
from .trace import applied_vertex, argument_names, flow_of, leaf_vertex, name_variables
from .trace import number_vertex

if TYPE_CHECKING:
    from .looks import Watch

MOST_ASIDE = 2000
"""With more ops that have no gradient (an evaluation inside the loop), those that lead to no loss
are left out."""


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
        self.scopes = CallScopes()
        self._handlers: dict[type, Callable[[Any], None]] = {
            OpApplied: self._op_applied,
            ViewRebased: self._view_rebased,
            TensorAliased: self._tensor_aliased,
            TensorWritten: self._tensor_written,
            WorkStarted: self._work_started,
            WorkEnded: self._work_ended,
            GradientFlowed: self._gradient_flowed,
            GradientAccumulated: self._gradient_accumulated,
            ModuleEntered: self._module_entered,
            ModuleLeft: self._module_left,
            Stepped: self._stepped,
        }
        self._keys = TensorKeys()
        self._passes: list[Pass] = []  # backward passes that run, the innermost last
        self._forget()

    def _forget(self) -> None:
        self._before = self._keys, getattr(self, "_vertices", {}), getattr(self, "_tail", 0)
        self._keys = TensorKeys()
        self._vertices: dict[int, Vertex] = {}
        self._adopted: dict[int, int] = {}  # vertices of the step before that this one goes on with
        self._latent: set[int] = set()  # vertices that are drawn only if something uses them
        self._again: dict[int, int] = {}  # a later version of a tensor from outside -> an earlier
        self._calls: list[Call] = []
        self._aside: list[Aside] = []
        self._received: set[int] = set()
        self._roots: list[int | None] = []  # one for each backward pass
        self._added_up: list[bool] = []  # for each: it was `backward`, not `grad`
        self._sums: dict[tuple[int, str], Any] = {}  # gradients that a later pass is added to
        self._tail = 0  # the first vertex that was made after the last backward
        self._elsewhere = 0  # we are inside a data loader, an optimizer or a `Function`
        self._drawn: tuple[Any, Any] = None, None  # of which vertices and roots, and their graph
        self._flowed: tuple[Any, Any] = None, None  # what left a node last, and its numbers
        self._accumulated = False
        self._scalar: weakref.ref[Tensor] | None = None
        self._spent = 0.0
        self._youngest = 0  # no node was younger when the last backward ended
        self.sampled_whole = True
        self.scopes.begin_step()

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
    def scalar(self) -> Tensor | None:
        """The last recorded result of one element, while it lives: probably the loss."""
        return None if self._scalar is None else self._scalar()

    @property
    def has_optimizer(self) -> bool:
        """Whether steps end with an optimizer's, where no graph waits for its backward."""
        return self._optimizer_seen

    @property
    def pending(self) -> bool:
        """Whether something was recorded that belongs to no step yet."""
        return bool(self._vertices)

    def key_of(self, tensor: Tensor) -> int | None:
        """Return the vertex whose elements a tensor shows, by number; None if it has none."""
        return self._keys.find(tensor)

    def _add(self, vertex: Vertex) -> int:
        """Gather a vertex, and decide whether its numbers are wanted."""
        key = len(self._vertices)
        if self.watch is not None:
            vertex.watched = key in self.watch.nodes
            vertex.tracked = key in self.watch.flows
        self._vertices[key] = vertex
        return key

    # Forward ----------------------------------------------------------------------------

    def _module_entered(self, event: ModuleEntered) -> None:
        if id(event.module) not in self.names.modules:
            self.names.learn(event.module)
        self.scopes.enter_module(event.module, self.names.modules.get(id(event.module), ""))

    def _module_left(self, event: ModuleLeft) -> None:
        self.scopes.leave_module()

    def _work_started(self, event: WorkStarted) -> None:
        if is_elsewhere(event):
            self._elsewhere += 1
        elif event.kind == "backward":
            self._passes.append(Pass(event.subject.wanted is None, event.detail == "retain"))

    def _work_ended(self, event: WorkEnded) -> None:
        if is_elsewhere(event):
            self._elsewhere = max(0, self._elsewhere - 1)
        elif event.kind == "backward":
            del self._passes[-1:]
            self._tail = len(self._vertices)

    def _op_applied(self, event: OpApplied) -> None:
        node = event.node
        if node is None and not self.sampling:
            return
        if node is None and (self._elsewhere or self._passes):
            self._aside.append(Aside(event.op))
            return
        if node is not None and self._accumulated and not self._optimizer_seen:
            self.finish_step()
        outputs = event.output if isinstance(event.output, tuple) else (event.output,)
        if not outputs:
            return
        if node is not None:
            inside_vmap = hasattr(outputs[0]._array, "all_examples")
            if outputs[0]._array.size == 1 and not inside_vmap:
                self._scalar = weakref.ref(outputs[0])
            if not self.sampling:
                return
        self._record(event.op, event.inputs, outputs, node)

    def _view_rebased(self, event: ViewRebased) -> None:
        if self.sampling and event.node is not None:
            self._latent.add(self._record(event.op, (event.base,), (event.view,), event.node))

    def _record(
        self, op: Any, inputs: tuple[Any, ...], outputs: tuple[Tensor, ...], node: Any
    ) -> int:
        """Gather the vertex of an op that ran, and those of its operands that are new."""
        output, names = outputs[0], argument_names(op, len(inputs))
        keys = [self._source(value, name) for name, value in zip(names, inputs, strict=True)]
        vertex = applied_vertex(op, output, node)
        vertex.scopes, vertex.module = self.scopes.current(), self.scopes.module
        pairs = zip(names, keys, strict=True)
        vertex.sources = tuple((name, key) for name, key in pairs if key is not None)
        key = self._add(vertex)
        for each in outputs:
            if isinstance(each, Tensor):
                self._keys.note(each, key)
        vertex.version = self._keys.version(output)  # of a view's base that was written into
        if node is None:
            self._aside.append(Aside(op, key, tuple(keys)))
        else:
            self._keys.note_node(node, key)
            given = tuple(map(self._given, inputs, keys))
            edges = tuple(edge is not None for edge in node.edges)
            self._calls.append(Call(node.__class__, node.shape, key, given, edges, tuple(names),
                                    node.gathers, vertex.module))  # fmt: skip
        if vertex.watched:
            vertex.value = summarize(output._array, self.detailed)
        if vertex.watched and node is not None and not node.gathers:
            node.hang("gradient", lambda gradient: self._gradient_reached(key, gradient))
        return key

    def _source(self, value: Any, name: str) -> int | None:
        """Return the vertex of one operand, and make it if it is new."""
        if isinstance(value, Tensor):
            key = self._keys.find(value)
            if key is None:
                return self._leaf(value)
            self._refresh(value, key)
            return key
        if isinstance(value, int | float):
            return self._add(number_vertex(name, value))
        return None

    def _refresh(self, tensor: Tensor, key: int) -> None:
        """Show the elements of a recorded tensor that was overwritten behind the graph's back."""
        if not self._keys.is_stale(tensor):
            return
        vertex = self._vertices[key]
        self._keys.note(tensor, key)
        vertex.version = self._keys.version(tensor)
        if vertex.watched:
            vertex.value = summarize(tensor._array, self.detailed)

    def _given(self, value: Any, key: int | None) -> int | Constant | None:
        if key is None:
            return None
        return key if isinstance(value, Tensor) else Constant(key)

    def _leaf(self, tensor: Tensor) -> int:
        """Return the vertex of a tensor from outside the step, or of its newest version."""
        adopted = self._adopt(tensor)
        if adopted is not None:
            return adopted
        known, writer = self._keys.last(tensor), self._keys.writer(tensor)
        vertex = leaf_vertex(tensor, self.names)
        if vertex.kind == "leaf" and not vertex.differentiable:
            self._name_gradient(vertex, tensor)
        if writer is not None:
            vertex.sources = (("write", writer),)
        key = self._add(vertex)
        self._keys.note(tensor, key)
        vertex.version = self._keys.version(tensor)
        if known is not None:
            self._again[key] = known.key
        if vertex.watched:
            vertex.value = summarize(tensor._array, self.detailed)
        return key

    def _name_gradient(self, vertex: Vertex, tensor: Tensor) -> None:
        """Call the `.grad` of a tensor of this step or the last by the name of that tensor."""
        for keys, vertices in ((self._keys, self._vertices), self._before[:2]):
            owner = keys.owner_of_gradient(tensor)
            if owner is not None and owner in vertices:
                vertex.label = f"{vertices[owner].label}.grad"
                vertex.module = vertices[owner].module

    def _adopt(self, tensor: Tensor) -> int | None:
        """Take over what an unrecorded op made for this step when the last one was not over yet.

        Without an optimizer nobody says when a step ends: `x = images / 255` comes before the
        first recorded op of the next one.
        """
        keys, vertices, tail = self._before
        number = keys.find(tensor)
        if number is None or number not in vertices or number < tail or self._optimizer_seen:
            return None
        if vertices[number].differentiable:
            return None
        key = self._take_over(number, vertices, tail)
        self._keys.note(tensor, key)
        return key

    def _take_over(self, number: int, vertices: dict[int, Vertex], tail: int) -> int:
        """Gather a vertex of the step before, with all that it was made from since backward."""
        if number not in self._adopted:
            vertex = vertices[number]
            vertex.sources = tuple(
                (name, self._take_over(source, vertices, tail))
                for name, source in vertex.sources
                if source >= tail or vertices[source].kind != "op"
            )
            self._adopted[number] = self._add(vertex)
        return self._adopted[number]

    # Writes -----------------------------------------------------------------------------

    def _tensor_aliased(self, event: TensorAliased) -> None:
        """Follow a tensor to its second object; `detach` of one with a gradient is drawn."""
        if not self.sampling or self._elsewhere:
            return
        if not event.detached:
            if self._keys.last(event.tensor) is None and self._keys.find(event.tensor) is None:
                self._leaf(event.tensor)
            self._keys.alias(event.tensor, event.alias)
            return
        key = self._source(event.tensor, "input")
        if key is not None and event.tensor.requires_grad:
            source = self._vertices[key]
            vertex = Vertex("op", "detach", self.scopes.module, source.shape, source.dtype,
                            differentiable=False, device=source.device)  # fmt: skip
            vertex.sources, vertex.scopes = (("input", key),), self.scopes.current()
            if vertex.watched:
                vertex.value = summarize(event.alias._array, self.detailed)
            key = self._add(vertex)
            self._latent.add(key)
            self._keys.note(event.alias, key)
        else:
            self._keys.alias(event.tensor, event.alias)

    def _tensor_written(self, event: TensorWritten) -> None:
        """Follow a tensor to the result that was written into it: the same one, a new version."""
        if not self.sampling or self._elsewhere:
            return
        tensor, result = event.tensor, event.result
        key = None if result is None else self._keys.find(result)
        if key is not None and tensor._node is not LEAF and tensor._base is None:
            self._keys.note(tensor, key)
            self._vertices[key].version = self._keys.version(tensor)
        elif key is not None and has_node(tensor) and has_node(result):
            self._vertices[key].version = max(1, self._keys.version(tensor))
        self._keys.note_write(tensor, key)

    # Backward ---------------------------------------------------------------------------

    def _gradient_reached(self, key: int, gradient: Tensor) -> None:
        array, known = self._flowed  # mostly, as it is, what reaches the next node
        vertex = self._vertices.get(key)
        total = None if vertex is None else self._total(key, "", gradient._array)
        if vertex is None or total is None:
            return
        same = total is array and not self.detailed
        vertex.grad = known if same else summarize(total, self.detailed)

    def _gradient_flowed(self, event: GradientFlowed) -> None:
        node = event.node
        if self._passes and not self._passes[-1].began:
            self._passes[-1].began = True
            self._backward_began(node)
        key = self._keys.of_node(node) if self.sampling else None
        vertex = None if key is None else self._vertices[key]
        if key is None or vertex is None or not vertex.tracked:
            return
        name = argument_names(node.op, len(node.edges))[event.index]
        array = flow_of(event.gradient, node.edges[event.index])
        total = self._total(key, name, array)
        if total is not None:
            vertex.flows[name] = summarize(total)
            self._flowed = total, vertex.flows[name]

    def _total(self, key: int, name: str, array: Any) -> Any:
        """Return a gradient with those of the earlier passes of this step that went the same way.

        None: it belongs to a pass of `grad`, and what `backward` has accumulated is shown.
        """
        if not self._passes:
            return array
        place, running = (key, name), self._passes[-1]
        earlier = self._sums.get(place)
        if not running.accumulates:
            return array if earlier is None else None
        if earlier is not None:
            array = earlier + array
        if earlier is not None or running.retains:
            self._sums[place] = array if earlier is not None else array.copy()
        return array

    def _backward_began(self, node: Any) -> None:
        self._roots.append(self._keys.of_node(node) if self.sampling else None)
        self._added_up.append(not self._passes or self._passes[-1].accumulates)
        if self.sampling:  # later in the loop, the variables may hold other tensors
            name_variables(self._vertices, self.names, self._keys.find)
            self._mark_hooks()
        if self.sampling and self.sampled_whole and self.on_graph is not None:
            self.on_graph(self._arranged().graph)
        loss = self.scalar
        if loss is not None and loss._node is node:
            self._note_loss(loss)

    def _mark_hooks(self) -> None:
        """Mark the results on which a hook sits. One of each node that is watched is ours."""
        for node, key in self._keys.nodes():
            vertex, hooks = self._vertices[key], node.hooks
            if hooks is not None:
                ours = vertex.watched and not node.gathers
                count = len(hooks.gradient) - ours + len(hooks.before) + len(hooks.after)
                vertex.marks = ("hook",) if count > 0 else ()

    def _gradient_accumulated(self, event: GradientAccumulated) -> None:
        self._accumulated = True
        self.leaf_received(event.tensor, event.tensor._grad)

    def leaf_received(self, leaf: Tensor, gradient: Tensor | None) -> None:
        """Note the gradient of a leaf."""
        known = self._keys.last(leaf)
        if self.sampling and gradient is not None and known is not None:
            vertex = self._vertices[known.key]
            self._received.add(known.key)
            vertex.grad = summarize(gradient._array, self.detailed) if vertex.watched else None

    def gradient_norm(self, leaf: Tensor) -> float | None:
        """Return the norm of the gradient that a leaf received in this step, if it was taken."""
        known = self._keys.last(leaf)
        grad = None if known is None else self._vertices[known.key].grad
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
        roots = tuple(root for root in self._roots if root is not None)
        if not self._optimizer_seen or len(roots) < len(self._roots):
            return None
        if any(self._sums[place] is not None for place in self._sums):
            return None  # a glance does not add up passes
        results = (vertex for vertex in self._vertices.values() if vertex.kind == "op")
        nbytes = sum(4 * math.prod(vertex.shape) for vertex in results)
        return Script(tuple(self._calls), roots, frozenset(self._received), snapshot, nbytes,
                      dict(self._again), tuple(self._aside))  # fmt: skip

    def finish(self, results: Iterable[Tensor] | None = None) -> None:
        """Take what is there of a last step that nothing has ended.

        Args:
            results: of a function that was called: they are what is drawn as outputs.
        """
        for part in self.parts if self.rest.losses else ():
            part.rested(self.rest.losses)
        if results is not None:
            keys = [self._keys.find(result) for result in results]
            self._roots, self._added_up = list(dict.fromkeys(keys)), [True] * len(set(keys))
            self.snapshot = self._arrange() if self._vertices else None
        elif self._accumulated and not self._optimizer_seen:
            self.finish_step()
        elif self._vertices and self.snapshot is None:
            self.snapshot = self._arrange()

    # The graph --------------------------------------------------------------------------

    def _arrange(self) -> Snapshot:
        if not self._roots:
            name_variables(self._vertices, self.names, self._keys.find)
        return self._arranged().snapshot(self._vertices)

    def _arranged(self) -> Arranged:
        """Return the graph, which is known when backward begins, before most of its numbers are."""
        roots = self._results()
        of = len(self._vertices), tuple(roots)
        if self._drawn[0] != of:
            others = self._others(roots)
            tabs = self._tabs if len(roots) > 1 else None
            self._drawn = of, arranged(self._vertices, roots, self.names.classes, others, tabs)
        return self._drawn[1]

    def _results(self) -> list[int]:
        """Return what is drawn as outputs: that on which backward ran, else what nothing used."""
        ran = zip(self._roots, self._added_up, strict=True)
        roots = dict.fromkeys(root for root, added in ran if root is not None and added)
        if roots:
            return list(roots)
        ends = self._unused()
        with_gradient = [key for key in ends if self._vertices[key].differentiable]
        return with_gradient or ends

    def _unused(self) -> list[int]:
        """Return the ops whose results no op used."""
        used = {key for vertex in self._vertices.values() for _, key in vertex.sources}
        return [
            key
            for key, vertex in self._vertices.items()
            if vertex.kind == "op" and key not in used and key not in self._latent
        ]

    def _others(self, roots: list[int]) -> list[int]:
        """Return the further results of the step that are drawn, with what they were made from.

        What ran before the first recorded op, or after the last backward, and leads to no loss, is
        no part of the picture: an evaluation between two steps, or an update written by hand.
        """
        others = [key for key in self._unused() if key not in roots]
        if self._tail:
            first = self._calls[0].number if self._calls else 0
            others = [key for key in others if first <= key < self._tail]
        grey = sum(not vertex.differentiable for vertex in self._vertices.values())
        return others if grey <= MOST_ASIDE else [
            key for key in others if self._vertices[key].differentiable
        ]  # fmt: skip

    def _tabs(self, order: dict[int, str]) -> tuple[Tab, ...]:
        """Return, for each backward pass, the part of the graph behind its root."""
        tabs = []
        for number, root in enumerate(self._results(), start=1):
            behind = ancestors(self._vertices, [root])
            title = self._vertices[root].variable or f"backward {number}"
            tabs.append(Tab(title, tuple(at for at, key in enumerate(order) if key in behind)))
        return tuple(tabs)


def is_elsewhere(event: WorkStarted | WorkEnded) -> bool:
    """Return True for work whose ops are no part of the step's graph: loading data, updating
    parameters, and what the forward of an `autograd.Function` does unrecorded (it is one box).
    """
    return event.kind in ("data", "optimizer") or (
        event.kind == "op" and isinstance(event.subject, type)
    )


class Pass:
    """A backward pass that runs. `accumulates`: it is `backward`, not `grad`; `retains`: the graph
    is kept for another one; `began`: its first gradient has left a node."""

    __slots__ = ("accumulates", "began", "retains")

    def __init__(self, accumulates: bool, retains: bool) -> None:
        self.accumulates, self.retains, self.began = accumulates, retains, False
