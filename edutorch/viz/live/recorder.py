"""Listens to a network while it runs and keeps, of each step, only plain data.

A step is what happens up to an optimizer's update. Without an optimizer (a first
lesson's `w -= lr * w.grad`) it ends when new ops are recorded after a backward.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Iterable
from time import perf_counter
from types import CodeType
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from ...core.autograd.graph import LEAF, clock
from ...core.tensor import Tensor
from ...events import (
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
from ..graph.call_scopes import CallScopes
from ..graph.loss_names import LossNames
from ..graph.model import Graph, Snapshot, Vertex
from ..graph.names import Names
from .fast_sampler import FastSampler
from .idle_steps import IdleSteps
from .last_step import LivingLeaves
from .packed_values import StepValues
from .panel import Panel
from .step_boundary import SAME_END, StepBoundary, path_to
from .step_graph import Pass, StepGraph
from .step_trace import UnrecordedOp, StepTrace

if TYPE_CHECKING:
    from .sampling_policy import VisibleSet


NO_OPTIMIZER = object()
"""No optimizer's update ends a step each time."""


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
        parts: what else hears the events (see `panel.py`).
        watch: whose numbers are taken, where not all are to be seen.
        full: whether the last sampled step has the numbers of everything.
        sampled_whole: whether the step that runs has been listened to from its beginning.
        script: what the last sampled step did, for a glance at one like it.
        glance: what follows the step that runs, where only a glance is taken.
        glimpse: the numbers of the last step, if a glance at it was enough.
        eager: a glance has to take each result at once, for some is overwritten.
        rest: counts the steps between two looks; they are told of with the next step.
        boundary: says when a step with several updates is over.
        recounted: the beginning of the step was taken for another: nobody has seen a whole one.
        leaves: the parameters of the steps that were looked at, for when the loop is over.
        loss_names: what the losses are called.
        step_losses: those of the last step, by name.
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
        self.parts: list[Panel] = []
        self._hearers: dict[type, list[Callable[[Any], None]]] = {}  # by the kind of event
        self._watch: VisibleSet | None = None
        self.on_step, self.on_graph = on_step, on_graph
        self.rest = IdleSteps()
        self.boundary, self.loss_names = StepBoundary(), LossNames()
        self.around: frozenset[CodeType] = frozenset()  # functions that called the watched one
        self.leaves, self.recounted = LivingLeaves(), False
        self.step_losses: dict[str, float] = {}
        self._noted = self._known_parts = 0
        self._own_loss: float | None = None  # that of the last step
        self.sampling = self.sampled = True
        self.snapshot: Snapshot | None = None
        self.script: StepTrace | None = None
        self.glance: FastSampler | None = None
        self.glimpse: StepValues | None = None
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
        self._running: list[Pass] = []  # backward passes, the innermost last
        self._waiting = 0  # so many of them have not sent a gradient yet
        self._elsewhere = 0  # we are inside a data loader, an optimizer or a `Function`
        self.graph = StepGraph(names, self.scopes, None, detailed)
        self._forget()

    def _forget(self) -> None:
        self.scopes.begin_step()
        before = None if self._optimizer_seen else self.graph
        if before is not None or self.graph.touched:
            self.graph = StepGraph(self.names, self.scopes, self.watch, self.detailed, before)
        self._accumulated = False
        self._scalar: weakref.ref[Tensor] | None = None
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
        return bool(self.graph.vertices)

    def key_of(self, tensor: Tensor) -> int | None:
        """Return the vertex whose elements a tensor shows, by number; None if it has none."""
        return self.graph.keys.find(tensor)

    @property
    def watch(self) -> VisibleSet | None:
        """Whose numbers are taken; None: everybody's. Set before a step begins."""
        return self._watch

    @watch.setter
    def watch(self, value: VisibleSet | None) -> None:
        self._watch = self.graph.watch = value

    @property
    def vertices(self) -> dict[int, Vertex]:
        """What was gathered of the step that runs, by number."""
        return self.graph.vertices

    # What happens -----------------------------------------------------------------------

    def _module_entered(self, event: ModuleEntered) -> None:
        self.scopes.enter_module(event.module, self.names.path_of(event.module))

    def _module_left(self, event: ModuleLeft) -> None:
        self.scopes.leave_module()

    def _work_started(self, event: WorkStarted) -> None:
        if is_outside_step(event):
            self._elsewhere += 1
        elif event.kind == "backward":
            self._running.append(Pass(event.subject.wanted is None, event.detail == "retain"))
            self._waiting += 1

    def _work_ended(self, event: WorkEnded) -> None:
        if is_outside_step(event):
            self._elsewhere = max(0, self._elsewhere - 1)
        elif event.kind == "backward":
            del self._running[-1:]
            self._waiting = min(self._waiting, len(self._running))
            self.graph.tail = len(self.graph.vertices)

    def _op_applied(self, event: OpApplied) -> None:
        node = event.node
        outputs = event.output if isinstance(event.output, tuple) else (event.output,)
        if not outputs:
            return
        if self.boundary.open is not None and not self._elsewhere:
            self._end_if_turned()
        if node is not None:
            if self._accumulated and not self._optimizer_seen:
                self.finish_step()
            if outputs[0]._array.size == 1 and not hasattr(outputs[0]._array, "all_examples"):
                self._scalar = weakref.ref(outputs[0])
        if not self.sampling:
            return
        if node is None and (self._elsewhere or self._running):
            self.graph.aside.append(UnrecordedOp(event.op))
        else:
            self.graph.record(event.op, event.inputs, outputs, node, event.settings)

    def _view_rebased(self, event: ViewRebased) -> None:
        if self.sampling and event.node is not None:
            key = self.graph.record(event.op, (event.base,), (event.view,), event.node)
            self.graph.note_latent(key)

    def _tensor_aliased(self, event: TensorAliased) -> None:
        if self.sampling and not self._elsewhere:
            self.graph.follow_alias(event)

    def _tensor_written(self, event: TensorWritten) -> None:
        if self.sampling and not self._elsewhere:
            self.graph.follow_write(event)

    def _gradient_flowed(self, event: GradientFlowed) -> None:
        if self._waiting and self._running:
            self._waiting = 0
            self._backward_began(event.node)
        if self.sampling:
            self.graph.gradient_flowed(event)

    def _backward_began(self, node: Any) -> None:
        if self.sampling:
            self.graph.begin_backward(self._running[-1], node)
            if self.sampled_whole and self.on_graph is not None:
                self.on_graph(self.graph.arranged().graph)
        loss = self.scalar
        if loss is not None and loss._node is node:
            self._note_loss(loss)

    def _gradient_accumulated(self, event: GradientAccumulated) -> None:
        self._accumulated = True
        self.leaf_received(event.tensor, event.tensor._grad)

    def leaf_received(self, leaf: Tensor, gradient: Tensor | None) -> None:
        """Note the gradient of a leaf."""
        if self.sampling:
            self.graph.leaf_received(leaf, gradient)

    def gradient_norm(self, leaf: Tensor) -> float | None:
        """Return the norm of the gradient that a leaf received in this step, if it was taken."""
        return self.graph.gradient_norm(leaf)

    # Steps ------------------------------------------------------------------------------

    def milestone(self, event: Any) -> None:
        """Follow a loop of which nothing else is heard (see `subscription.py`)."""
        if isinstance(event, Stepped):
            self._stepped(event)
            return
        self._backward_ended(event)

    def _backward_ended(self, event: BackwardEnded) -> None:
        roots = [root for root in event.roots if root._node is not None]
        if self.boundary.open is not None:
            self._end_if_turned()
        if event.accumulated and self._accumulated and not self._optimizer_seen:
            orders = (root._node._order for root in roots if root._node not in (None, LEAF))
            if max(orders, default=0) > self._youngest:  # by ops that ran after the last backward
                self.finish_step()
        self._accumulated |= event.accumulated
        self._youngest = clock()
        if len(roots) == 1:
            self._note_loss(roots[0])
            self.name_loss(event)
        if self.glance is not None:
            self.glance.backward_ended(event)

    def _note_loss(self, loss: Tensor) -> None:
        value = self._value_of(loss)
        if value is not None:
            self.rest.loss = value

    def _value_of(self, loss: Tensor) -> float | None:
        array = loss._array
        # All examples of a vmap have no one loss, and to ask a GPU is to wait for it.
        unasked = array.__class__ is not ndarray and (
            hasattr(array, "all_examples") or (loss.is_cuda and not self.sampling)
        )
        if array.size != 1 or unasked:
            return None
        value = array.item()
        return float(abs(value) if value.__class__ is complex else value)

    def _is_others(self, optimizer: Any) -> bool:
        """Whether an optimizer has nothing of the models of this view, inside another one."""
        own = self.names.own
        parameters = (each for group in optimizer.param_groups for each in group["params"])
        return bool(own) and not any(id(parameter) in own for parameter in parameters)

    def _others_stepped(self) -> None:
        """Forget the losses since the last update: they were those of another view."""
        rest = self.rest
        self.loss_names.drop_passes()
        rest.loss = rest.losses[-1] if rest.losses else self._own_loss
        rest.passes, rest.worked, self._accumulated = [], False, False

    def _stepped(self, event: Stepped) -> None:
        if self._is_others(event.optimizer):
            self._others_stepped()
            return
        if not self._optimizer_seen and self._noted:
            self._recount(0)  # what we took for steps were parts of the first one
        self._optimizer_seen = True
        optimizer = event.optimizer
        if self.glance is not None and self.glance.gauges is not None:
            self.glance.gauges.stepped(optimizer)
        path = path_to(sys._getframe(1), self.names.frame, self.around)
        worked = self._accumulated or self.rest.worked
        verdict = self.boundary.update(path, id(optimizer), self.step, worked)
        if verdict.recount is not None:
            self._recount(verdict.recount)
        for _ in range(verdict.late + verdict.over):
            self.finish_step()
        if verdict is not SAME_END:
            # Once known, a loop like others is counted without a look at where it is.
            self.rest.ender = optimizer if self.boundary.always_ends(id(optimizer)) else NO_OPTIMIZER

    def _recount(self, steps: int) -> None:
        """Let so many steps have ended: what came after them is a part of the one that runs."""
        self.loss_names.join(self.step - steps)
        self._noted = steps - self.rest.counted
        self.recounted = True

    def _end_if_turned(self) -> None:
        """End a step whose last update was left out this time, now that its loop has turned."""
        if self.boundary.has_turned(path_to(sys._getframe(1), self.names.frame, self.around)):
            self.boundary.ended_late()
            self.finish_step()

    def name_loss(self, event: BackwardEnded) -> None:
        """Note a loss on which backward has run: its value, and that by its name."""
        if event.accumulated and len(event.roots) == 1 and event.roots[0]._array.size == 1:
            value = self._value_of(event.roots[0])
            if value is not None:
                self.rest.loss = value
                self.loss_names.note(event.roots[0], value, sys._getframe(1))

    def finish_step(self) -> None:
        """End the step: make its snapshot, count it, tell the owner, begin the next one."""
        start = perf_counter()
        self.sampled = self.sampling and self.sampled_whole
        if self.sampled:
            if self.graph.vertices and not (self.graph.is_others and self.snapshot is not None):
                self.snapshot = self.arrange()
                self.full = self.watch is None
                self.leaves.note(self.graph, self.snapshot)
                self.script = self._script(self.snapshot)
            self.cost = self._spent + perf_counter() - start
        self.glimpse = None if self.glance is None else self.glance.finish()
        if self.glance is not None:
            self.cost = perf_counter() - start
            if self.glimpse is None:
                self.script = None  # the loop does something else now
                self.eager |= self.glance.written
        self._noted += 1
        self._own_loss = self.rest.loss
        self.step_losses = self.loss_names.end_step(self.rest.passes)
        for part in self.parts:
            if self.rest.losses:
                part.rested(self.rest.losses)
            part.step_ended(self)
        self._forget()
        if self.on_step is not None:
            self.on_step(self)
        self.recounted = False
        self.rest.told(self.loss_names.several)
        self.aside += perf_counter() - start

    def _script(self, snapshot: Snapshot) -> StepTrace | None:
        """Return what the step did; None where a glance could not tell when the next one ends."""
        graph = self.graph
        roots = tuple(pass_.root for pass_ in graph.passes if pass_.root is not None)
        if not self._optimizer_seen or len(roots) < len(graph.passes) or graph.passes_met:
            return None
        results = (vertex for vertex in graph.vertices.values() if vertex.kind == "op")
        nbytes = sum(4 * math.prod(vertex.shape) for vertex in results)
        return StepTrace(tuple(graph.calls), roots, frozenset(graph.received), snapshot, nbytes,
                      dict(graph.again), tuple(graph.aside), frozenset(graph.choosing))  # fmt: skip

    def finish(self, results: Iterable[Tensor] | None = None) -> None:
        """Take what is there of a last step that nothing has ended.

        Args:
            results: of a function that was called: they are what is drawn as outputs.
        """
        for part in self.parts if self.rest.losses else ():
            part.rested(self.rest.losses)
        if results is not None:
            self.graph.results = self.graph.keys_of_results(results)
            self.snapshot = self.arrange() if self.graph.vertices else None
        elif self.boundary.is_over_at_end or (self._accumulated and not self._optimizer_seen):
            self.finish_step()
        elif self.graph.vertices and self.snapshot is None:
            self.snapshot = self.arrange()

    def arrange(self) -> Snapshot:
        """Return the graph of the step that runs, with the numbers that are known by now."""
        return self.graph.arranged().snapshot(self.graph.vertices)


def is_outside_step(event: WorkStarted | WorkEnded) -> bool:
    """Return True for work whose ops are no part of the step's graph: loading data, updating
    parameters, and what the forward of an `autograd.Function` does unrecorded (it is one box).
    """
    return event.kind in ("data", "optimizer") or (
        event.kind == "op" and isinstance(event.subject, type)
    )
