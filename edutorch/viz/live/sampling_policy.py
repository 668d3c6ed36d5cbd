"""Decides how the next step is sampled: in full, fast, or not at all."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from ..graph.fold import Plan
from ..graph.model import Snapshot
from .fast_sampler import FastSampler
from .layer_health import Gauges
from .packed_values import Message, StepValues, unpack
from .page import PageState, has_thumbnails
from .recorder import Recorder
from .step_trace import RowMap

STABLE_AFTER, ALL_VALUES_EVERY = 3, 10
"""After this many full samples of one structure, only its open groups are sampled; every
`ALL_VALUES_EVERY` full samples, all values are."""

FIRST_STEPS = 30
"""This many steps are sampled fast where nothing is shown: most mistakes of a loop show by then."""

IDLE_SECONDS, IDLE_SECONDS_POLLING = 1.0, 0.02
"""Seconds after which a loop asks what to do next, at the end of a step; the second one where no
thread reports a click in the page, so that the loop has to poll for it."""

FULL_SHARE = 0.001
"""The share of the time that full samples may take, where fast samples do."""

FULL_AT_LEAST = 1.0
"""Seconds between two full samples then."""

DETAIL_EVERY = 1.0
"""Seconds between full samples that also take thumbnails of the tensors."""

WHOLE_SHARE, WHOLE_AT_LEAST = 0.0025, 0.5
"""The same for fast samples of everything, where a page has reported what is on screen."""


@dataclass(frozen=True)
class VisibleSet:
    """The vertices whose values are wanted, and those whose outgoing gradients are."""

    nodes: frozenset[int]
    flows: frozenset[int]

    @classmethod
    def from_plan(cls, plan: Plan, whole: Snapshot) -> VisibleSet:
        """Return what a plan shows of a graph."""
        keys = {node.id: key for node, key in zip(whole.graph.nodes, whole.order, strict=True)}
        shown = (whole.graph.edges[edge].target for edge in plan.edges if edge >= 0)
        return cls(
            frozenset(whole.order[node] for node in plan.nodes),
            frozenset(keys[target] for target in shown),
        )


def overlay(older: Snapshot, newer: Snapshot) -> Snapshot:
    """Return an older step's values, replaced by a newer one's where those were taken."""
    pairs = ((older.values, newer.values), (older.grads, newer.grads), (older.flows, newer.flows))
    values, grads, flows = (
        tuple(old if new is None else new for old, new in zip(*both, strict=True)) for both in pairs
    )
    return replace(older, values=values, grads=grads, flows=flows)


class SamplingPolicy:
    """Chooses how each step is sampled, and keeps the last samples.

    Attributes:
        whole: the last full sample that took all values, and its step.
        seen: whether the last step was sampled.
        step_values: the values of the last step that was sampled fast as a whole, if there was no
            full sample since.
    """

    def __init__(self, recorder: Recorder, page_state: PageState, gauges: Gauges) -> None:
        self.recorder, self.page_state, self.gauges = recorder, page_state, gauges
        self.whole: tuple[Snapshot, int] | None = None
        self.step_values: StepValues | None = None
        self.seen = False
        self._message: Message | None = None
        self._row_map: RowMap | None = None
        self._window: tuple[frozenset[int], RowMap] | None = None  # what is on screen
        self._on_screen: StepValues | None = None  # all values, if those on screen are newer
        self._whole_step, self._whole_due = 0, 0.0
        self._preparation = 0.0  # seconds, for the next fast sample
        self._structure = ""
        self._unchanged = 0  # for how many full samples the graph has been the same
        self._changes = False  # whether it has ever changed
        self._narrow: Plan | None = None
        self._full_due = self._detail_due = 0.0
        self._was_bad = False
        self._full_in_a_row = 0  # how many of the next steps are sampled in full

    @property
    def _is_stable(self) -> bool:
        """Whether the graph is the one before, or the only one so far."""
        return self._unchanged > 0 or not self._changes

    @property
    def measured(self) -> bool:
        """Whether a fast sampler passed the last step on to the gauges."""
        return self.recorder.sampler is not None and self.recorder.sampler.gauges is not None

    def record_cost(self, cost: float) -> float:
        """Record what was sampled of the step that has just ended, and what that has cost.

        Returns: the cost to be made up for by waiting. A full sample of an unchanged graph is paid
            for by the time to the next one, and so is the first: else the picture of a large graph
            would stand still for seconds right after it has appeared.
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
            self._keep_fast_sample(recorder.step_values, cost)
        elif recorder.sampler is not None:
            # The loop does different things. Of two that alternate, both are sampled.
            self._unchanged, self._full_in_a_row, self._changes = 0, 2, True
        return cost

    def _keep_fast_sample(self, step_values: StepValues, cost: float) -> None:
        """Keep the values of a fast sample: of everything, or of what is on screen."""
        sampler = self.recorder.sampler
        whole = sampler is None or sampler.row_map.whole
        if whole:
            self.step_values, self._on_screen, self._whole_step = (
                step_values,
                None,
                self.recorder.step,
            )
            self._whole_due = time.perf_counter() + max(WHOLE_AT_LEAST, cost / WHOLE_SHARE)
        else:
            self._on_screen = step_values
        if step_values.broken and not self._was_bad:
            self._full_due = 0.0  # find out where it came from
        self._was_bad = step_values.broken or (self._was_bad and not whole)

    def choose(self, look: bool, full: bool, early: bool = False, standing: bool = False) -> None:
        """Choose for the step that begins now.

        Args:
            look: whether it is to be sampled at all.
            full: sample everything of it in full, now.
            early: the loop has just begun: a few full samples first, to find mistakes.
            standing: the loop will pause after it; also take thumbnails of its tensors.
        """
        recorder = self.recorder
        recorder.sampling, recorder.sampler = full, None
        again = self._full_in_a_row > 0
        self._full_in_a_row -= again
        look |= again
        if full:
            recorder.visible = None
        elif look:
            if not again and (not early or self._unchanged >= STABLE_AFTER):
                recorder.sampler = self._fast_sampler()
            if recorder.sampler is None:
                recorder.sampling = True
                self._narrow_down()
        now = time.perf_counter() if recorder.sampling else 0.0
        recorder.detailed = standing or now > self._detail_due
        if recorder.detailed:
            self._detail_due = now + DETAIL_EVERY

    def samples_start(self, step: int) -> bool:
        """Return True if a loop without a page is sampled fast, to find mistakes at its start."""
        return step < FIRST_STEPS and self._is_stable and self.recorder.trace is not None

    def sample_next_fast(self) -> bool:
        """Sample the step that begins now fast, if that is enough; return whether it is."""
        sampler = (
            None if self._full_in_a_row or self.page_state.needs_update else self._fast_sampler()
        )
        if sampler is None:
            return False
        self.recorder.sampler, self.recorder.idle.until = sampler, 0.0
        self._preparation = 0.0  # the step has begun, so its own time includes this
        return True

    def _fast_sampler(self) -> FastSampler | None:
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
        gauges = self.gauges if self.gauges.is_due() else None
        row_map = self._part_of(known) if start < self._whole_due else known
        self._preparation = time.perf_counter() - start
        older = None if row_map.whole else self.step_values
        return FastSampler(row_map, gauges, self.recorder.eager, older)

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

    def idle_until(self, until: float, fetches: bool = False) -> float:
        """Return the time until which nothing has to be done at the end of a step; 0: at each.

        Args:
            until: when the next sample is due.
            fetches: the page's commands must be polled.
        """
        recorder = self.recorder
        sampled = recorder.sampling or recorder.sampler is not None
        if sampled or self.page_state.needs_update or not recorder.has_optimizer:
            return 0.0
        return min(until, time.perf_counter() + (IDLE_SECONDS_POLLING if fetches else IDLE_SECONDS))

    def message(self) -> tuple[dict[str, Any], bytes] | None:
        """Return texts and values of the last fast sample, if the page has its picture."""
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
