"""How each step of a watched loop is sampled: one machine with three states.

| state | what listens | cost of a step | what is known afterwards |
|---|---|---|---|
| IDLE | `IdleSteps`, to two events per step | some ten lines of Python | the loss, when it ended |
| LIGHT | `LightSampler`, to recorded ops | a tenth of a full sample | the values on the screen |
| FULL | `Recorder`, to every op | several times the step | graph, values, gradients |

A step is sampled when the `Throttle` says that it is time. A light sample needs the trace of a full
one, and is enough as long as the loop repeats that step; else the next step is sampled in full:

               it is time, the trace is known
          IDLE ────────────────────────────▶ LIGHT
           ▲ │ ◀──────────────────────────── │ it was another step, a value is not finite,
           │ │          not yet time         │ or a second has passed
           │ └────────▶ FULL ◀───────────────┘
           └───────────── it is time, no trace; the page wants another picture; a pause

`Sampler.enter` is the only place where the state changes, and the sampler the only owner of what
samples have brought.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from enum import Enum
from time import perf_counter
from typing import Any

from numpy import ndarray

from ...events import BackwardEnded, Stepped, listen_steps
from ...modes import current, listening, set_op_recorder, switch
from ..graph.fold import Plan, VisibleSet
from ..graph.model import Graph, Snapshot, overlay
from ..graph.names import Names
from .interpreter import CollectorPause, switch_interval
from .layer_health import Gauges
from .light_sampler import LightSampler
from .messages import Message, StepValues, unpack
from .page import PageState, has_thumbnails
from .recorder import Recorder, StepCounts
from .step_boundary import functions_around
from .step_trace import RowMap
from .throttle import UNSEEN_SHARE, OverheadMeter, Throttle

STABLE_AFTER, ALL_VALUES_EVERY = 3, 10
"""After this many full samples of one structure, only its open groups are sampled; every
`ALL_VALUES_EVERY` full samples, all values are."""

FIRST_STEPS = 30
"""So many steps get a light sample where nothing is shown: most mistakes of a loop show by then."""

IDLE_SECONDS, IDLE_SECONDS_POLLING = 1.0, 0.02
"""Seconds after which a loop asks what to do next, at the end of a step; the second one where no
thread reports a click in the page, so that the loop has to poll for it."""

FULL_SHARE = 0.001
"""The share of the time that full samples may take, where light samples do."""

FULL_AT_LEAST = 1.0
"""Seconds between two full samples then."""

DETAIL_EVERY = 1.0
"""Seconds between full samples that also take thumbnails of the tensors."""

WHOLE_SHARE, WHOLE_AT_LEAST = 0.0025, 0.5
"""The same for light samples of everything, where a page has reported what is on screen."""


class State(Enum):
    """How the running step is sampled."""

    IDLE = "idle"
    LIGHT = "light"
    FULL = "full"


class IdleSteps(StepCounts):
    """Handles the step events of a loop first, and passes on those that matter to others.

    Between two samples only step events come (see `events.step_event`), and of those only the value
    of each loss and when each step ended are kept. A step of a small network takes 400
    microseconds, of which a hundredth is four: that is some ten lines of Python.

    Attributes:
        skip: when `until` is over, this many more steps are only counted.
        on_due: called at the end of that step; True: a light sample of the next one is prepared.
        awake: called, with the same arguments, for each step event that is not handled here.
    """

    __slots__ = ("awake", "on_due", "skip")

    def __init__(
        self, on_due: Callable[[], bool], awake: Callable[[type, Any, bool], None]
    ) -> None:
        super().__init__()
        self.skip = 0
        self.on_due, self.awake = on_due, awake

    def step_event(self, event_type: type, subject: Any, accumulated: bool = True) -> None:
        """Handle one event. What is inlined here would otherwise be calls, which take time."""
        if self.until:
            if event_type is BackwardEnded:
                self.worked = True
                array = subject[0]._array
                # Reading from a GPU waits for it, and the examples of a vmap are no scalar.
                if array.__class__ is ndarray and array.size == 1:
                    loss = self.loss = array.item()
                    if loss.__class__ is float:
                        if self.several and accumulated:
                            self.passes.append(loss)
                        return
            elif subject is self.ender or self.ender is None:
                now = perf_counter()
                if now < self.until or self._is_only_counted():
                    self.ends.append(now)
                    if self.loss is not None:
                        self.losses.append(self.loss)
                    self.worked = False
                    if self.several:
                        self.rounds.append(self.passes)
                        self.passes = []
                    return
        self.awake(event_type, subject, accumulated)

    def _is_only_counted(self) -> bool:
        """Return True if a step that ended when the next sample was due is still only counted."""
        if self.skip:
            self.skip -= 1
            return True
        return self.on_due()


class Sampler:
    """The machine: `with sampler:` around a loop samples its steps.

    Attributes:
        state: how the running step is sampled.
        recorder: takes the full samples, and knows when a step is over.
        idle: what is counted between two samples.
        throttle: says when a sample may be taken. meter: what samples have cost.
        gauges: the panel that light samples are passed on to as well, now and then.
        whole: the last full sample that took all values, and its step.
        step_values: the values of the last light sample of everything, if no full one came since.
        seen: whether the last step was sampled. cost: the seconds that it took.
        charged: those that are to be made up for by waiting.
    """

    def __init__(
        self,
        names: Names,
        page_state: PageState,
        on_step: Callable[[Recorder], None],
        on_graph: Callable[[Graph], None],
    ) -> None:
        self.page_state = page_state
        self.idle = IdleSteps(self._on_due, self.step_event)
        self.recorder = Recorder(names, on_step, detailed=True, on_graph=on_graph, idle=self.idle)
        self.throttle, self.meter = Throttle(), OverheadMeter()
        self.gauges: Gauges | None = None
        self.state = State.FULL
        self._models = tuple(names.models)
        self._listening, self._step_events = (
            listening(self.event),
            listen_steps(self.idle.step_event),
        )
        self._pause_collector = CollectorPause()
        self.whole: tuple[Snapshot, int] | None = None
        self.step_values: StepValues | None = None
        self.seen = False
        self.cost = self.charged = 0.0
        self._message: Message | None = None
        self._row_map: RowMap | None = None
        self._window: tuple[frozenset[int], RowMap] | None = None  # what is on screen
        self._on_screen: StepValues | None = None  # all values, if those on screen are newer
        self._whole_step, self._whole_due = 0, 0.0
        self._preparation = 0.0  # seconds, for the next light sample
        self._structure = ""
        self._unchanged = 0  # for how many full samples the graph has been the same
        self._changes = False  # whether it has ever changed
        self._narrow: Plan | None = None
        self._full_due = self._detail_due = 0.0
        self._was_bad = False
        self._full_in_a_row = 0  # how many of the next steps are sampled in full

    # Listening --------------------------------------------------------------------------

    def begin_loop(self) -> None:
        """Start the clocks. Where nothing is shown, samples take a smaller share of the time."""
        self.throttle = Throttle() if self.page_state.page else Throttle(share=UNSEEN_SHARE)
        self.meter.begin()

    def __enter__(self) -> Sampler:
        switch_interval.shorten()
        _watching.append(self)
        # Beside another watched loop, a step of foreign models must not end one of ours.
        for sampler in _watching if len(_watching) > 1 else ():
            sampler.recorder.names.restrict_to(sampler._models)
        self.recorder.callers = functions_around(sys._getframe(1))
        self._step_events.__enter__()
        self._listening.__enter__()
        self._pause_collector(True)
        return self

    def __exit__(self, *exception: object) -> None:
        self._pause_collector(False)
        self._listening.__exit__(*exception)
        self._step_events.__exit__(*exception)
        _watching.remove(self)
        switch_interval.restore()

    def event(self, event: Any) -> None:
        """Handle one event. In a step that is not sampled in full, the first one unsubscribes.

        An op with a listener takes many times as long as one without.
        """
        self.recorder(event)
        if self.recorder.sampling:
            return
        if isinstance(event, Stepped):  # it comes twice: the step event has to get through
            self.idle.until = 0.0
        else:
            self._leave()

    def step_event(self, event_type: type, subject: Any, accumulated: bool) -> None:
        """Handle a step event that `IdleSteps` has passed on; perhaps listen again."""
        event = Stepped(subject) if event_type is Stepped else BackwardEnded(subject, accumulated)
        modes, recorder = current(), self.recorder
        if self.event in modes.listeners:
            if not recorder.sampling:
                self._leave()
            elif isinstance(event, BackwardEnded):
                recorder.name_loss(event)
        else:
            recorder.step_event(event)
            if recorder.sampling:
                if not isinstance(event, Stepped):
                    recorder.sampled_whole = False  # its forward is over already
                switch(modes, listeners=(*modes.listeners, self.event))
                self._pause_collector(True)
        self.follow()

    def _leave(self) -> None:
        self._pause_collector(False)
        self.recorder.scopes.clear()  # a step may end inside a module, whose end is missed then
        # A mode of the user's that is left later may bring the listener back: then it leaves again.
        modes = current()
        others = tuple(listener for listener in modes.listeners if listener != self.event)
        switch(modes, listeners=others)

    def follow(self) -> None:
        """Install the light sampler of the step that begins, or remove that of the last one."""
        modes, light = current(), self.recorder.light
        if modes.op_recorder is not light:
            set_op_recorder(modes, light)
            self._pause_collector(light is not None or self.recorder.sampling)

    # The state of the next step ---------------------------------------------------------

    def enter(self, state: State, light: LightSampler | None = None) -> None:
        """Sample the step that begins now in this way.

        The listener itself comes and goes with the next event: while one is being handled, the list
        of listeners is in use.
        """
        self.state = state
        self.recorder.sampling, self.recorder.light = state is State.FULL, light

    def choose(self, look: bool, full: bool, early: bool = False, standing: bool = False) -> None:
        """Choose the state of the step that begins now.

        Args:
            look: whether it is to be sampled at all.
            full: sample everything of it in full, now.
            early: the loop has just begun: a few full samples first, to find mistakes.
            standing: the loop will pause after it; also take thumbnails of its tensors.
        """
        recorder, again = self.recorder, self._full_in_a_row > 0
        self._full_in_a_row -= again
        light = None
        if not full and (look or again):
            if not again and (not early or self._unchanged >= STABLE_AFTER):
                light = self._light_sampler()
            full = light is None
            if full:
                self._narrow_down()
        elif full:
            recorder.visible = None
        self.enter(State.FULL if full else State.LIGHT if light else State.IDLE, light)
        now = time.perf_counter() if full else 0.0
        recorder.detailed = standing or now > self._detail_due
        if recorder.detailed:
            self._detail_due = now + DETAIL_EVERY

    def choose_unseen(self, keep: bool, find_mistakes: bool) -> None:
        """Choose the state of the step that begins now, of a loop that has no page.

        Args:
            keep: the step is to be kept, so it is sampled in full.
            find_mistakes: its first steps may have light samples, to find mistakes.
        """
        if self.recorder.sampled:
            self.throttle.record_message(self.cost)
        full = self.throttle.should_sample() or keep
        known = self._is_stable and self.recorder.trace is not None
        light = find_mistakes and known and self.recorder.step < FIRST_STEPS
        self.choose(full or light, full)

    def _on_due(self) -> bool:
        """Take a light sample of the step that begins now, if that is enough; return whether."""
        page_state = self.page_state
        if page_state.page is None or not self.throttle.should_sample():
            return False
        light = None if self._full_in_a_row or page_state.needs_update else self._light_sampler()
        if light is None:
            return False
        self.enter(State.LIGHT, light)
        self.idle.until = 0.0
        self._preparation = 0.0  # the step has begun, so its own time includes this
        self.follow()
        return True

    def begin_step(self, held: bool, polls: bool) -> None:
        """Record that a step begins, and until when the steps after it are only counted.

        Args:
            held: the loop may be held at the end of each step.
            polls: the page's commands must be fetched by the loop.
        """
        self.meter.begin()
        idle, due = self.idle, self.throttle.next
        is_free = not held and self.state is State.IDLE and not self.page_state.needs_update
        if is_free and self.recorder.has_optimizer:
            seconds = IDLE_SECONDS_POLLING if polls else IDLE_SECONDS
            idle.until = min(due, time.perf_counter() + seconds)
        else:
            idle.until = 0.0
        idle.skip = self.throttle.skip() if 0 < idle.until == due else 0

    def _light_sampler(self) -> LightSampler | None:
        """Return the sampler of the next step, None where a full sample is needed."""
        trace = self.recorder.trace
        if trace is None or not self._is_stable or time.perf_counter() > self._full_due:
            return None
        start = time.perf_counter()
        plan = self.page_state.plan(trace.snapshot.graph)
        known = self._row_map
        if known is None or known.trace is not trace or known.plan is not plan:
            known = self._row_map = RowMap(trace, plan)
            self._message = Message(plan, trace.snapshot.graph)
            self._on_screen = self._window = None
            self._whole_due = 0.0
        gauges = self.gauges if self.gauges is not None and self.gauges.is_due() else None
        row_map = self._part_of(known) if start < self._whole_due else known
        self._preparation = time.perf_counter() - start
        older = None if row_map.whole else self.step_values
        return LightSampler(row_map, gauges, self.recorder.eager, older)

    def _part_of(self, row_map: RowMap) -> RowMap:
        """Restrict the rows to what is on screen, if that is known and not most of it."""
        window = self.page_state.window(row_map.plan)
        if window is None or self.step_values is None or 2 * len(window) > len(row_map.plan.nodes):
            return row_map
        if self._window is None or self._window[0] != window:
            self._window = window, row_map.within(window)
        return self._window[1]

    def _narrow_down(self) -> None:
        """Take the values of a large graph only in open groups, once the graph has stayed the same.

        Now and then all of them are taken, for a reader who opens a group when the loop is over.
        """
        recorder, snapshot = self.recorder, self.recorder.snapshot
        if snapshot is None:
            recorder.visible = None
            return
        plan = self.page_state.plan(snapshot.graph)
        small = len(snapshot.graph.nodes) < 2 * len(plan.nodes)
        if small or self._unchanged < STABLE_AFTER or self._unchanged % ALL_VALUES_EVERY == 0:
            recorder.visible = None
        elif recorder.visible is None or self._narrow is not plan:
            recorder.visible, self._narrow = VisibleSet.from_plan(plan, snapshot), plan

    # What a step has brought ------------------------------------------------------------

    @property
    def _is_stable(self) -> bool:
        """Whether the graph is the one before, or the only one so far."""
        return self._unchanged > 0 or not self._changes

    @property
    def measured(self) -> bool:
        """Whether the gauges have measured the last step, in a light sample."""
        light = self.recorder.light
        return light is not None and light.gauges is not None

    def end_step(self) -> None:
        """Keep what was sampled of the step that has just ended, and what that has cost."""
        recorder, light = self.recorder, self.recorder.light
        cost_class = None if light is None else light.cost_class
        self.cost = self.meter.end(recorder.sampled, recorder.cost, cost_class)
        self.charged = self._keep_sample(self.cost)
        if self.seen:
            self.throttle.record_look(self.cost)

    def _keep_sample(self, cost: float) -> float:
        """Keep the last sample; return the part of its cost to be made up for by waiting.

        A full sample of an unchanged graph is paid for by the time to the next one, and so is the
        first: else the picture of a large graph would stand still for seconds right after it has
        appeared.
        """
        recorder = self.recorder
        cost += self._preparation
        self._preparation = 0.0
        self.seen = recorder.sampled or recorder.step_values is not None
        if recorder.recounted:
            self._full_in_a_row = 1  # this one was not sampled as a whole
        if recorder.sampled and recorder.snapshot is not None:
            self.step_values = self._on_screen = None
            same = recorder.snapshot.graph.structure == self._structure
            self._changes |= not same and self._structure != ""
            self._structure = recorder.snapshot.graph.structure
            self._unchanged = self._unchanged + 1 if same else 0
            if recorder.full:
                self.whole = recorder.snapshot, recorder.step
            if has_thumbnails(recorder.snapshot):
                self.page_state.keep_thumbnails(recorder.snapshot, recorder.step)
            self._full_due = time.perf_counter() + max(FULL_AT_LEAST, cost / FULL_SHARE)
            return 0.0 if self._is_stable and recorder.trace is not None else cost
        if recorder.step_values is not None:
            self._keep_light_sample(recorder.step_values, cost)
        elif recorder.light is not None:
            # The loop does different things. Of two that alternate, both are sampled.
            self._unchanged, self._full_in_a_row, self._changes = 0, 2, True
        return cost

    def _keep_light_sample(self, step_values: StepValues, cost: float) -> None:
        """Keep the values of a light sample: of everything, or of what is on screen."""
        light = self.recorder.light
        whole = light is None or light.row_map.whole
        if whole:
            self.step_values, self._on_screen = step_values, None
            self._whole_step = self.recorder.step
            self._whole_due = time.perf_counter() + max(WHOLE_AT_LEAST, cost / WHOLE_SHARE)
        else:
            self._on_screen = step_values
        if step_values.broken and not self._was_bad:
            self._full_due = 0.0  # find out where it came from
        self._was_bad = step_values.broken or (self._was_bad and not whole)

    def message(self) -> tuple[dict[str, Any], bytes] | None:
        """Return texts and values of the last light sample, if the page has its picture."""
        if self.step_values is None or self._message is None:
            return None
        if self._message.plan.graph.structure != self.page_state.shown:
            return None
        step_values = self._on_screen or self.step_values
        return self._message.texts(step_values), self._message.values(step_values)

    def latest(self) -> Snapshot | None:
        """Return the last sampled values; those on screen may be of a later step than others."""
        if self.step_values is None or self._row_map is None:
            return self.recorder.snapshot
        return unpack((self._on_screen or self.step_values).packed, self._row_map.graph)

    def latest_whole(self) -> tuple[Snapshot | None, int]:
        """Return the last step of which everything is known, and its number."""
        recorder, row_map = self.recorder, self._row_map
        if self.step_values is not None and row_map is not None:
            newest = unpack(self.step_values.packed, row_map.graph)
            if len(row_map.plan.nodes) == len(row_map.graph.nodes):
                return newest, self._whole_step
            if self.whole is not None and self.whole[0].graph.structure == newest.graph.structure:
                return overlay(self.whole[0], newest), self._whole_step
        elif recorder.full and (self.whole is None or self.whole[0] is not recorder.snapshot):
            return recorder.snapshot, recorder.step
        return self.whole or (self.latest(), recorder.step)

    def show(self, snapshot: Snapshot) -> None:
        """Make a snapshot the last sampled step: an exception has ended the loop."""
        self.recorder.snapshot, self.recorder.full, self.step_values = snapshot, True, None


_watching: list[Sampler] = []  # of the loops that are watched now, perhaps in several threads
