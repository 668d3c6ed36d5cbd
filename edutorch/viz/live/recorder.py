"""Listens to a network while it runs and keeps only plain data of each step.

A step is what happens up to an optimizer's update. Without an optimizer (a first
lesson's `w -= lr * w.grad`) it ends when new ops are recorded after a backward.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from time import perf_counter
from types import CodeType
from typing import Any

from numpy import ndarray

from ...core.autograd.graph import LEAF, Node
from ...core.autograd.versions import clock
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
from ...optim import Optimizer
from ..graph.fold import VisibleSet
from ..graph.model import Graph, Snapshot, Vertex
from ..graph.names import CallScopes, LossNames, Names
from ..graph.tensor_keys import LivingLeaves
from .light_sampler import LightSampler
from .messages import StepValues
from .panel import Panels
from .step_boundary import SAME_END, StepBoundary, path_to
from .step_graph import Pass, StepGraph
from .step_trace import StepTrace, UnrecordedOp

NO_OPTIMIZER = object()
"""Stands for the optimizer whose every update ends a step, where there is none."""


class StepCounts:
    """The steps that were only counted since the last one that was not.

    Attributes:
        until: on `time.perf_counter`: the steps that end sooner are only counted. 0: none is.
        ends: when each of the steps ended. losses: their losses; none before the first backward.
        loss: the value of the scalar on which backward last ran, None if unknown.
        ender: the optimizer whose updates each end a step; None: those of every optimizer do.
        worked: a backward has run since the last step that was counted here.
        several: a step has several losses, and all are wanted.
        passes: those of the running step. rounds: those of each step in `ends`.
    """

    __slots__ = (
        "_cleared", "ender", "ends", "loss", "losses", "passes", "rounds", "several", "until",
        "worked",
    )  # fmt: skip

    def __init__(self) -> None:
        self.until = 0.0
        self.ends, self.losses = list[float](), list[float]()
        self.loss: float | None = None
        self.ender: object = None
        self.worked = self.several = False
        self.passes, self.rounds = list[float](), list[list[float]]()
        self._cleared = 0  # counted steps that are no longer in `ends`

    @property
    def counted(self) -> int:
        """How many steps were ever only counted."""
        return self._cleared + len(self.ends)

    def clear(self, several: bool = False) -> None:
        """Forget the steps that were counted: they have been reported.

        Args:
            several: from now on, a step has several losses.
        """
        self.several, self.worked = several, False
        self.passes, self.rounds = [], []
        self._cleared, self.ends, self.losses = self.counted, [], []


class Recorder:
    """A listener (see `edutorch.events`) that turns events into a `Snapshot` per step.

        recorder = Recorder(Names([model]), lambda recorder: print(recorder.loss))
        with listening(recorder):
            ...train...

    With `sampling` off, only the loss of a step is recorded. No tensor or array is kept alive.

    Attributes:
        snapshot: the graph and values of the last step that was sampled in full.
        sampled: whether the last step was sampled in full.
        cost: seconds spent on the last sampled step.
        detailed: also compute histograms.
        parts: the panels, which get the events too (see `panel.py`).
        visible: the vertices whose values are taken; None: all.
        full: whether the last sampled step has the values of everything.
        sampled_whole: whether the running step has been listened to from its beginning.
        trace: what the last full sample did, for a light sample of a step like it.
        light: what follows the running step where a light sample is enough.
        step_values: the values of the last step, if a light sample was enough.
        eager: a light sample must take each result at once, because some are overwritten.
        idle: counts the steps between two samples; they are reported with the next step.
        boundary: decides when a step with several updates is over.
        recounted: the start of the step was counted as a step of its own: no whole one was seen.
        leaves: the parameters of the sampled steps, for when the loop is over.
        loss_names: the names of the losses.
        step_losses: the losses of the last step, by name.
        on_graph: called with the graph of a step that is sampled in full when its backward begins.
    """

    def __init__(
        self,
        names: Names,
        on_step: Callable[[Recorder], None] | None = None,
        detailed: bool = False,
        on_graph: Callable[[Graph], None] | None = None,
        idle: StepCounts | None = None,
    ) -> None:
        self.names, self.detailed = names, detailed
        self.parts = Panels()
        self._visible: VisibleSet | None = None
        self.on_step, self.on_graph = on_step, on_graph
        self.idle = StepCounts() if idle is None else idle
        self.boundary, self.loss_names = StepBoundary(), LossNames()
        self.callers: frozenset[CodeType] = frozenset()  # functions that called the watched one
        self.leaves, self.recounted = LivingLeaves(), False
        self.step_losses: dict[str, float] = {}
        self._recorded_steps = 0
        self._own_loss: float | None = None  # of the last step
        self.sampling = self.sampled = True
        self.snapshot: Snapshot | None = None
        self.trace: StepTrace | None = None
        self.light: LightSampler | None = None
        self.step_values: StepValues | None = None
        self.full, self.eager = True, False
        self.cost = 0.0
        self._optimizer_seen = False
        self.end_seconds = 0.0  # seconds ever spent in `finish_step`, where a loop may be paused
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
        self._waiting = 0  # how many of them have not sent a gradient yet
        self._outside_depth = 0  # depth inside data loaders, optimizers and `Function`s
        self.graph = StepGraph(names, self.scopes, None, detailed)
        self._begin_step()

    def _begin_step(self) -> None:
        self.scopes.begin_step()
        before = None if self._optimizer_seen else self.graph
        if before is not None or self.graph.has_content:
            self.graph = StepGraph(self.names, self.scopes, self.visible, self.detailed, before)
        self._accumulated = False
        self._scalar: weakref.ref[Tensor] | None = None
        self._spent = 0.0
        self._youngest = 0  # the order of the newest node when the last backward ended
        self.sampled_whole = True

    def __call__(self, event: Any) -> None:
        """Handle one event."""
        event_type = event.__class__
        handler = self._handlers.get(event_type)
        if not self.sampling:
            if handler is not None:
                handler(event)
            return
        start, end_seconds = perf_counter(), self.end_seconds
        takers = self.parts.by_type.get(event_type)
        for take in self.parts.handlers(event_type) if takers is None else takers:
            take(event)
        if handler is not None:
            handler(event)
        self._spent += perf_counter() - start - (self.end_seconds - end_seconds)

    @property
    def step(self) -> int:
        """How many steps have ended."""
        return self._recorded_steps + self.idle.counted

    @property
    def loss(self) -> float | None:
        """The value of the scalar on which backward last ran, None if unknown."""
        return self.idle.loss

    @property
    def scalar(self) -> Tensor | None:
        """The last recorded result of one element, while it lives: probably the loss."""
        return None if self._scalar is None else self._scalar()

    @property
    def has_optimizer(self) -> bool:
        """Whether steps end with an optimizer's update, so that no graph waits for backward."""
        return self._optimizer_seen

    @property
    def pending(self) -> bool:
        """Whether something was recorded that belongs to no step yet."""
        return bool(self.graph.vertices)

    def key_of(self, tensor: Tensor) -> int | None:
        """Return the key of the vertex whose elements a tensor shows, or None if it has none."""
        return self.graph.keys.find(tensor)

    @property
    def visible(self) -> VisibleSet | None:
        """The vertices whose values are taken; None: all. Set before a step begins."""
        return self._visible

    @visible.setter
    def visible(self, value: VisibleSet | None) -> None:
        self._visible = self.graph.visible = value

    @property
    def vertices(self) -> dict[int, Vertex]:
        """The vertices of the running step, by key."""
        return self.graph.vertices

    # Events -----------------------------------------------------------------------------

    def _module_entered(self, event: ModuleEntered) -> None:
        self.scopes.enter_module(event.module, self.names.path_of(event.module))

    def _module_left(self, event: ModuleLeft) -> None:
        self.scopes.leave_module()

    def _work_started(self, event: WorkStarted) -> None:
        if is_outside_step(event):
            self._outside_depth += 1
        elif event.kind == "backward":
            self._running.append(Pass(event.subject.wanted is None, event.detail == "retain"))
            self._waiting += 1

    def _work_ended(self, event: WorkEnded) -> None:
        if is_outside_step(event):
            self._outside_depth = max(0, self._outside_depth - 1)
        elif event.kind == "backward":
            del self._running[-1:]
            self._waiting = min(self._waiting, len(self._running))
            self.graph.tail = len(self.graph.vertices)

    def _op_applied(self, event: OpApplied) -> None:
        node = event.node
        outputs = event.output if isinstance(event.output, tuple) else (event.output,)
        if not outputs:
            return
        if self.boundary.open is not None and not self._outside_depth:
            self._end_step_if_loop_turned()
        if node is not None:
            # Without an optimizer, the first op after a backward is the first sign of a new step.
            if self._accumulated and not self._optimizer_seen:
                self.finish_step()
            if outputs[0]._array.size == 1 and not hasattr(outputs[0]._array, "all_examples"):
                self._scalar = weakref.ref(outputs[0])
        if not self.sampling:
            return
        # An op inside backward or a data loader is no box, but a light sampler will see it again.
        if node is None and (self._outside_depth or self._running):
            self.graph.unrecorded.append(UnrecordedOp(event.op))
        else:
            self.graph.record(event.op, event.inputs, outputs, node, event.settings)

    def _view_rebased(self, event: ViewRebased) -> None:
        if self.sampling and event.node is not None:
            key = self.graph.record(event.op, (event.base,), (event.view,), event.node)
            self.graph.note_latent(key)

    def _tensor_aliased(self, event: TensorAliased) -> None:
        if self.sampling and not self._outside_depth:
            self.graph.follow_alias(event)

    def _tensor_written(self, event: TensorWritten) -> None:
        if self.sampling and not self._outside_depth:
            self.graph.follow_write(event)

    def _gradient_flowed(self, event: GradientFlowed) -> None:
        # Not at the start of backward: only the first gradient tells from which node it began.
        if self._waiting and self._running:
            self._waiting = 0
            self._backward_began(event.node)
        if self.sampling:
            self.graph.gradient_flowed(event)

    def _backward_began(self, node: Node) -> None:
        if self.sampling:
            self.graph.begin_backward(self._running[-1], node)
            if self.sampled_whole and self.on_graph is not None:
                self.on_graph(self.graph.arrange().graph)
        loss = self.scalar
        # The last scalar may also be a metric; the loss is where backward begins.
        if loss is not None and loss._node is node:
            self._note_loss(loss)

    def _gradient_accumulated(self, event: GradientAccumulated) -> None:
        self._accumulated = True
        self.record_leaf_gradient(event.tensor, event.tensor._grad)

    def record_leaf_gradient(self, leaf: Tensor, gradient: Tensor | None) -> None:
        """Record the gradient of a leaf."""
        if self.sampling:
            self.graph.record_leaf_gradient(leaf, gradient)

    def gradient_norm(self, leaf: Tensor) -> float | None:
        """Return the norm of the gradient that a leaf received in this step, if it was taken."""
        return self.graph.gradient_norm(leaf)

    # Steps ------------------------------------------------------------------------------

    def step_event(self, event: Stepped | BackwardEnded) -> None:
        """Handle a step event of a loop that is not listened to (see `sampler.py`)."""
        if isinstance(event, Stepped):
            self._stepped(event)
            return
        self._backward_ended(event)

    def _backward_ended(self, event: BackwardEnded) -> None:
        roots = [root for root in event.roots if root._node is not None]
        if self.boundary.open is not None:
            self._end_step_if_loop_turned()
        if event.accumulated and self._accumulated and not self._optimizer_seen:
            # Two losses of one step were both recorded before the first backward.
            orders = (root._node._order for root in roots if root._node not in (None, LEAF))
            if max(orders, default=0) > self._youngest:  # recorded after the last backward
                self.finish_step()
        self._accumulated |= event.accumulated
        self._youngest = clock()
        if len(roots) == 1:
            self._note_loss(roots[0])
            self.name_loss(event)
        if self.light is not None:
            self.light.backward_ended(event)

    def _note_loss(self, loss: Tensor) -> None:
        value = self._value_of(loss)
        if value is not None:
            self.idle.loss = value

    def _value_of(self, loss: Tensor) -> float | None:
        array = loss._array
        # The examples of a vmap have no single loss, and reading from a GPU waits for it.
        unasked = array.__class__ is not ndarray and (
            hasattr(array, "all_examples") or (loss.is_cuda and not self.sampling)
        )
        if array.size != 1 or unasked:
            return None
        value = array.item()
        # A curve is drawn in real numbers.
        return float(abs(value) if value.__class__ is complex else value)

    def _is_foreign(self, optimizer: Optimizer) -> bool:
        """Return True if an optimizer has only parameters of another view's models."""
        own = self.names.own
        parameters = (
            parameter for group in optimizer.param_groups for parameter in group["params"]
        )
        return bool(own) and not any(id(parameter) in own for parameter in parameters)

    def _discard_foreign_losses(self) -> None:
        """Drop the losses since the last update, which belong to another view."""
        idle = self.idle
        self.loss_names.drop_passes()
        # The value was overwritten by the other view's loss.
        idle.loss = idle.losses[-1] if idle.losses else self._own_loss
        idle.passes, idle.worked, self._accumulated = [], False, False

    def _stepped(self, event: Stepped) -> None:
        if self._is_foreign(event.optimizer):
            self._discard_foreign_losses()
            return
        if not self._optimizer_seen and self._recorded_steps:
            self._recount(0)  # what was counted as steps were parts of the first one
        self._optimizer_seen = True
        optimizer = event.optimizer
        if self.light is not None and self.light.gauges is not None:
            self.light.gauges.record_update(optimizer)
        path = path_to(sys._getframe(1), self.names.frame, self.callers)
        worked = self._accumulated or self.idle.worked
        verdict = self.boundary.update(path, id(optimizer), self.step, worked)
        if verdict.recount is not None:
            self._recount(verdict.recount)
        for _ in range(verdict.late + verdict.over):
            self.finish_step()
        if verdict is not SAME_END:
            # Once known, an ordinary loop is counted without looking at the call stack.
            self.idle.ender = (
                optimizer if self.boundary.always_ends(id(optimizer)) else NO_OPTIMIZER
            )

    def _recount(self, steps: int) -> None:
        """Set the number of steps that have ended; what came later is part of the running one."""
        self.loss_names.join(self.step - steps)
        self._recorded_steps = steps - self.idle.counted
        self.recounted = True

    def _end_step_if_loop_turned(self) -> None:
        """End a step whose last update was left out this time, if its loop has turned."""
        if self.boundary.has_turned(path_to(sys._getframe(1), self.names.frame, self.callers)):
            self.boundary.record_late_end()
            self.finish_step()

    def name_loss(self, event: BackwardEnded) -> None:
        """Record the value of a loss on which backward has run, under its name."""
        if event.accumulated and len(event.roots) == 1 and event.roots[0]._array.size == 1:
            value = self._value_of(event.roots[0])
            if value is not None:
                self.idle.loss = value
                self.loss_names.record(event.roots[0], value, sys._getframe(1))

    def finish_step(self) -> None:
        """End the step: make its snapshot, count it, call the owner, begin the next one."""
        start = perf_counter()
        self.sampled = self.sampling and self.sampled_whole
        if self.sampled:
            if self.graph.vertices and not (self.graph.is_foreign and self.snapshot is not None):
                self.snapshot = self.arrange()
                self.full = self.visible is None
                self.leaves.note(self.graph.keys, self.graph.vertices, self.snapshot)
                self.trace = self.graph.trace(self.snapshot) if self._optimizer_seen else None
            self.cost = self._spent + perf_counter() - start
        # Before the panels: they may ask for the values.
        self.step_values = None if self.light is None else self.light.finish()
        if self.light is not None:
            self.cost = perf_counter() - start
            if self.step_values is None:
                self.trace = None  # the loop does something else now
                self.eager |= self.light.overwritten
        self._recorded_steps += 1
        self._own_loss = self.idle.loss
        self.step_losses = self.loss_names.end_step(self.idle.passes)
        self.parts.step_ended(self)
        # The next step begins before `on_step`, which may pause here while other threads compute.
        self._begin_step()
        if self.on_step is not None:
            self.on_step(self)
        self.recounted = False
        self.idle.clear(self.loss_names.several)
        self.end_seconds += perf_counter() - start

    def finish(self, results: Iterable[Tensor] | None = None) -> None:
        """Take what there is of a last step that nothing has ended.

        Args:
            results: of a function that was called: they are drawn as outputs.
        """
        for part in self.parts if self.idle.losses else ():
            part.record_idle(self.idle.losses)
        if results is not None:
            self.graph.results = self.graph.keys_of_results(results)
            self.snapshot = self.arrange() if self.graph.vertices else None
        elif self.boundary.is_over_at_end or (self._accumulated and not self._optimizer_seen):
            self.finish_step()
        elif self.graph.vertices and self.snapshot is None:
            self.snapshot = self.arrange()

    def arrange(self) -> Snapshot:
        """Return the graph of the running step, with the values that are known by now."""
        return self.graph.arrange().snapshot(self.graph.vertices)


def is_outside_step(event: WorkStarted | WorkEnded) -> bool:
    """Return True for work whose ops are no part of the step's graph.

    That is loading data, updating parameters, and what the forward of an `autograd.Function`
    does unrecorded (it is drawn as one box).
    """
    return event.kind in ("data", "optimizer") or (
        event.kind == "op" and isinstance(event.subject, type)
    )
