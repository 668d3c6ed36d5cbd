"""How the next step is looked at: in full, at a glance, or not at all."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from ..graph.fold import Plan
from ..graph.model import Snapshot
from .fast_sampler import FastSampler
from .layer_health import Gauges
from .packed_values import StepValues, Message, unpack
from .page import PageState, has_thumbnails
from .recorder import Recorder
from .step_trace import RowMap

STABLE_AFTER, ALL_VALUES_EVERY = 3, 10
"""Full looks at one structure before only what is open is looked at; each so many, all is."""

FIRST_STEPS = 30
"""So many steps are glanced at where nothing is shown: most mistakes of a loop show by then."""

IDLE_SECONDS, IDLE_SECONDS_POLLING = 1.0, 0.02
"""Seconds after which a loop asks what to do next, at the end of a step; the same where nobody
tells it of a click in the page, and it has to look for one."""

FULL_SHARE = 0.001
"""The part of the time that full looks may take, where glances do."""

FULL_AT_LEAST = 1.0
"""Seconds between two full looks then."""

DETAIL_EVERY = 1.0
"""Seconds between full looks that also take small pictures of the tensors."""

WHOLE_SHARE, WHOLE_AT_LEAST = 0.0025, 0.5
"""The same of glances at everything, where a page has said what is on screen."""


@dataclass(frozen=True)
class VisibleSet:
    """Of which vertices the numbers are wanted, and those of the gradients that leave them."""

    nodes: frozenset[int]
    flows: frozenset[int]

    @classmethod
    def of(cls, plan: Plan, whole: Snapshot) -> VisibleSet:
        """Watch what a plan shows of a graph."""
        numbers = {node.id: number for node, number in
                   zip(whole.graph.nodes, whole.order, strict=True)}  # fmt: skip
        shown = (whole.graph.edges[edge].target for edge in plan.edges if edge >= 0)
        return cls(
            frozenset(whole.order[node] for node in plan.nodes),
            frozenset(numbers[target] for target in shown),
        )


def overlay(older: Snapshot, newer: Snapshot) -> Snapshot:
    """Return a newer step's numbers where they were taken, at what is open, and else an older's."""
    pairs = ((older.values, newer.values), (older.grads, newer.grads), (older.flows, newer.flows))
    values, grads, flows = (
        tuple(old if new is None else new for old, new in zip(*both, strict=True)) for both in pairs
    )
    return replace(older, values=values, grads=grads, flows=flows)


class SamplingPolicy:
    """Chooses for each step, and remembers what was seen.

    Attributes:
        whole: the last full look that took all numbers, and its step.
        seen: whether something was seen of the last step.
        glimpse: the numbers of the step at which all was glanced last, if nothing was looked at
            since.
    """

    def __init__(self, recorder: Recorder, stage: PageState, gauges: Gauges) -> None:
        self.recorder, self.stage, self.gauges = recorder, stage, gauges
        self.whole: tuple[Snapshot, int] | None = None
        self.glimpse: StepValues | None = None
        self.seen = False
        self._wire: Message | None = None
        self._watched: RowMap | None = None
        self._window: tuple[frozenset[int], RowMap] | None = None  # what is on screen
        self._on_screen: StepValues | None = None  # all numbers, if those there are newer
        self._whole_step, self._whole_due = 0, 0.0
        self._preparing = 0.0  # seconds, for the glance that comes next
        self._structure = ""
        self._alike = 0  # for how many full looks the graph has been the same
        self._changes = False  # whether it has ever been another one than before
        self._narrow: Plan | None = None
        self._full_due = self._detail_due = 0.0
        self._was_bad = False
        self._in_a_row = 0  # full looks at the steps that come next

    @property
    def _settled(self) -> bool:
        """Whether the graph is the one before, or the only one so far."""
        return self._alike > 0 or not self._changes

    @property
    def measured(self) -> bool:
        """Whether the gauges were told of the last step by a glance."""
        return self.recorder.glance is not None and self.recorder.glance.gauges is not None

    def took(self, cost: float) -> float:
        """Note what has been seen of the step that has just ended, and what that has cost.

        Returns: what the next look has to wait for. A full look at a graph that stays the same
            is paid for by the time to the next such look, and so is the first one: a large graph
            would stand still for seconds right after it has appeared.
        """
        recorder = self.recorder
        cost += self._preparing
        self._preparing = 0.0
        self.seen = recorder.sampled or recorder.glimpse is not None
        if recorder.recounted:
            self._in_a_row = 1  # this one was seen in pieces
        if recorder.sampled and recorder.snapshot is not None:
            self.glimpse = self._on_screen = None
            same = recorder.snapshot.graph.structure == self._structure
            self._changes |= not same and self._structure != ""
            self._structure = recorder.snapshot.graph.structure
            self._alike = self._alike + 1 if same else 0
            if recorder.full:
                self.whole = recorder.snapshot, recorder.step
            if has_thumbnails(recorder.snapshot):
                self.stage.illustrate(recorder.snapshot, recorder.step)
            self._full_due = time.perf_counter() + max(FULL_AT_LEAST, cost / FULL_SHARE)
            return 0.0 if self._settled and recorder.script is not None else cost
        if recorder.glimpse is not None:
            self._glanced(recorder.glimpse, cost)
        elif recorder.glance is not None:
            # The loop does one thing and another. Of two that take turns, both are looked at.
            self._alike, self._in_a_row, self._changes = 0, 2, True
        return cost

    def _glanced(self, found: StepValues, cost: float) -> None:
        """Note the numbers of a glance: at everything, or at what is on screen."""
        glance = self.recorder.glance
        whole = glance is None or glance.watched.whole
        if whole:
            self.glimpse, self._on_screen, self._whole_step = found, None, self.recorder.step
            self._whole_due = time.perf_counter() + max(WHOLE_AT_LEAST, cost / WHOLE_SHARE)
        else:
            self._on_screen = found
        if found.broken and not self._was_bad:
            self._full_due = 0.0  # find out where it came from
        self._was_bad = found.broken or (self._was_bad and not whole)

    def choose(self, look: bool, full: bool, early: bool = False, standing: bool = False) -> None:
        """Choose for the step that begins now.

        Args:
            look: whether it is to be seen at all.
            full: and everything of it, now.
            early: the loop has just begun: a few full looks first, for what is wrong with it.
            standing: the loop will stand still behind it, with small pictures of its tensors.
        """
        recorder = self.recorder
        recorder.sampling, recorder.glance = full, None
        again = self._in_a_row > 0
        self._in_a_row -= again
        look |= again
        if full:
            recorder.watch = None
        elif look:
            if not again and (not early or self._alike >= STABLE_AFTER):
                recorder.glance = self._glance()
            if recorder.glance is None:
                recorder.sampling = True
                self._narrow_down()
        now = time.perf_counter() if recorder.sampling else 0.0
        recorder.detailed = standing or now > self._detail_due
        if recorder.detailed:
            self._detail_due = now + DETAIL_EVERY

    def begins(self, step: int) -> bool:
        """Return True if a loop that nobody sees shall be glanced at, for what is wrong with it."""
        return step < FIRST_STEPS and self._settled and self.recorder.script is not None

    def glance_next(self) -> bool:
        """Glance at the step that begins now, if that is enough; say whether it is."""
        glance = None if self._in_a_row or self.stage.asked else self._glance()
        if glance is None:
            return False
        self.recorder.glance, self.recorder.rest.until = glance, 0.0
        self._preparing = 0.0  # the step has begun: it is a part of what that takes
        return True

    def _glance(self) -> FastSampler | None:
        script = self.recorder.script
        if script is None or not self._settled or time.perf_counter() > self._full_due:
            return None
        start = time.perf_counter()
        plan = self.stage.plan(script.snapshot.graph)
        known = self._watched
        if known is None or known.script is not script or known.plan is not plan:
            known = self._watched = RowMap(script, plan)
            self._wire = Message(plan, script.snapshot.graph)
            self._on_screen = self._window = None
            self._whole_due = 0.0
        gauges = self.gauges if self.gauges.is_due() else None
        watched = self._part_of(known) if start < self._whole_due else known
        self._preparing = time.perf_counter() - start
        older = None if watched.whole else self.glimpse
        return FastSampler(watched, gauges, self.recorder.eager, older)

    def _part_of(self, watched: RowMap) -> RowMap:
        """Watch only what is on screen, if that is known, and not most of it all."""
        window = self.stage.window(watched.plan)
        if window is None or self.glimpse is None or 2 * len(window) > len(watched.plan.nodes):
            return watched
        if self._window is None or self._window[0] != window:
            self._window = window, watched.within(window)
        return self._window[1]

    def _narrow_down(self) -> None:
        """Take the numbers of a large graph only where it is open, once it has stayed the same.

        Now and then all of them are taken: for whoever opens a group when nothing runs any more.
        """
        recorder, snapshot = self.recorder, self.recorder.snapshot
        if snapshot is None:
            recorder.watch = None
            return
        plan = self.stage.plan(snapshot.graph)
        small = len(snapshot.graph.nodes) < 2 * len(plan.nodes)
        if small or self._alike < STABLE_AFTER or self._alike % ALL_VALUES_EVERY == 0:
            recorder.watch = None
        elif recorder.watch is None or self._narrow is not plan:
            recorder.watch, self._narrow = VisibleSet.of(plan, snapshot), plan

    def rest(self, until: float, fetches: bool = False) -> float:
        """Return until when nothing has to be done at the end of a step; 0: at each.

        Args:
            until: when the next look is due.
            fetches: the page's commands do not come by themselves.
        """
        recorder = self.recorder
        looked = recorder.sampling or recorder.glance is not None
        if looked or self.stage.asked or not recorder.has_optimizer:
            return 0.0
        return min(until, time.perf_counter() + (IDLE_SECONDS_POLLING if fetches else IDLE_SECONDS))

    def message(self) -> tuple[dict[str, Any], bytes] | None:
        """Return texts and numbers of the last glance, if the page has its picture."""
        if self.glimpse is None or self._wire is None:
            return None
        if self._wire.plan.graph.structure != self.stage.shown:
            return None
        found = self._on_screen or self.glimpse
        return self._wire.texts(found), self._wire.numbers(found)

    def latest(self) -> Snapshot | None:
        """Return the last numbers that were seen: on screen, of a later step than elsewhere."""
        if self.glimpse is None or self._watched is None:
            return self.recorder.snapshot
        return unpack((self._on_screen or self.glimpse).packed, self._watched.graph)

    def latest_whole(self) -> tuple[Snapshot | None, int]:
        """Return the last step of which everything is known, and its number."""
        recorder, watched = self.recorder, self._watched
        if self.glimpse is not None and watched is not None:
            newest = unpack(self.glimpse.packed, watched.graph)
            if len(watched.plan.nodes) == len(watched.graph.nodes):
                return newest, self._whole_step
            if self.whole is not None and self.whole[0].graph.structure == newest.graph.structure:
                return overlay(self.whole[0], newest), self._whole_step
        elif recorder.full and (self.whole is None or self.whole[0] is not recorder.snapshot):
            return recorder.snapshot, recorder.step
        return self.whole or (self.latest(), recorder.step)

    def show(self, snapshot: Snapshot) -> None:
        """Let this be what was seen last: an exception has ended the loop."""
        self.recorder.snapshot, self.recorder.full, self.glimpse = snapshot, True, None
