"""The steps of a run, kept as packed values, and how a page requests one of them.

    with live(model) as view:
        ...train...
    view.history[120]              # the picture of step 120
    view.compare(1, 120)           # what changed between them

A step takes 21 bytes for each value, gradient and arrow. When all steps together take more than
`limit` bytes, every second one is dropped and from then on only every second one is kept: so
the whole run can be seen, from its first step to the latest, always in equal strides.
"""

from __future__ import annotations

import bisect
import math
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...errors import EdutorchError
from ..graph.model import Graph, Snapshot
from ..live.messages import PackedValues, pack, unpack
from ..live.page import PageState
from ..live.panel import Panel
from ..render.static import Drawing
from .difference import Comparison, find_changes

if TYPE_CHECKING:
    from ..live.recorder import Recorder
    from ..live.view import View

LIMIT = 32_000_000
"""Bytes that all kept steps may take."""

NODE_BYTES, EDGE_BYTES = 1000, 300
"""Approximate bytes of the Python objects around the values."""

ROWS = 12
"""How many changes are listed in the page; all of them are in `view.compare`."""


class StepError(EdutorchError, IndexError):
    """The requested step is not kept."""


# A step -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moment:
    """One kept step."""

    step: int
    graph: Graph
    packed: PackedValues
    loss: float | None
    activations: int | None = None  # the step they belong to, if an earlier one

    @property
    def caption(self) -> str:
        """The caption of its picture."""
        return step_caption(self.step, self.loss, self.activations)

    @property
    def snapshot(self) -> Snapshot:
        """The graph with the values of this step."""
        return unpack(self.packed, self.graph)


class History(Panel):
    """The steps that were sampled, oldest first. `history[step]` is a `Drawing`.

    `history[-1]` is the latest one. A large graph's values are only taken in open groups: what
    was closed at that step stays unknown. A step of which only the part on screen was taken is not
    kept, because a reader who looks back may look somewhere else.

    Args:
        page_state: knows which groups are open in a picture.
        limit: bytes that all steps together may take. It can be set later, too.

    Attributes:
        nbytes: the approximate bytes that they take now.
        every: sample every n-th step in full, whatever that costs. None, the default: as many as
            possible without slowing the loop down.
        looking: the step that the page looks back at; None: it shows the latest.
    """

    name = "history"

    def __init__(self, page_state: PageState | None = None, limit: int = LIMIT) -> None:
        self.page_state = page_state or PageState()
        self.limit = limit
        self.nbytes = 0
        self.every: int | None = None
        self.looking: Moment | None = None
        self._since: Moment | None = None  # what the page compares with
        self._compared: tuple[Any, dict[str, Any]] = (
            None,
            {},
        )  # the steps of the last comparison, and its data
        self._moments: list[Moment] = []
        self._graphs: dict[str, tuple[Graph, int]] = {}  # by structure, and how many use it
        self._stride = 0.0
        self._last: Snapshot | None = None
        self._lock = threading.RLock()  # the page's commands come on another thread than the loop's

    @classmethod
    def of(cls, view: View) -> History:
        return cls(view._page_state)

    # Public -----------------------------------------------------------------------------

    @property
    def steps(self) -> list[int]:
        """The numbers of all kept steps, in order."""
        return [moment.step for moment in self.moments]

    @property
    def moments(self) -> list[Moment]:
        """All kept steps, in order."""
        with self._lock:
            return list(self._moments)

    def __len__(self) -> int:
        return len(self._moments)

    def __iter__(self) -> Iterator[int]:
        return iter(self.steps)

    def __contains__(self, step: object) -> bool:
        return step in self.steps

    def __getitem__(self, step: int) -> Drawing:
        rankdir, choice = self.page_state.layouts.rankdir, self.page_state.choice
        moment = self.moment(step)
        return Drawing(moment.snapshot, rankdir, choice, caption=moment.caption)

    def __repr__(self) -> str:
        steps = self.steps
        span = f", {steps[0]} to {steps[-1]}" if steps else ""
        return f"<history of {len(steps)} steps{span}, {self.nbytes / 1e6:.1f} MB>"

    def moment(self, step: int) -> Moment:
        """Return one step with its packed values. Negative numbers count from the latest.

        Raises: StepError: it is not kept.
        """
        # A copy: the loop's thread may drop steps meanwhile.
        moments = self.moments
        if step < 0 and -step <= len(moments):
            return moments[step]
        near = self.near(step) if moments else None
        if near is None or near.step != step:
            raise StepError("viz.history", f"step {step} is not kept", hint=self._hint(step))
        return near

    def _hint(self, step: int) -> str:
        moments = self.moments
        if not moments:
            return "steps are kept while a loop runs inside `with viz.live(...)`"
        first, last = moments[0].step, moments[-1].step
        index = bisect.bisect(moments, step, key=lambda moment: moment.step)
        near = sorted({moment.step for moment in moments[max(0, index - 1) : index + 1]})
        around = " and ".join(map(str, near))
        return f"{len(moments)} steps from {first} to {last} are kept; near {step}: {around}"

    def near(self, step: float, by: int = 0) -> Moment:
        """Return the last kept step up to `step` (or the first), or one `by` steps further."""
        moments = self.moments
        index = bisect.bisect(moments, step, key=lambda moment: moment.step) - 1
        return moments[min(max(0, max(0, index) + by), len(moments) - 1)]

    def compare(self, before: int, after: int) -> Comparison:
        """Return what changed from one step to another. See `View.compare`."""
        one, other = self.moment(before), self.moment(after)
        steps, rankdir = (one.step, other.step), self.page_state.layouts.rankdir
        return Comparison(one.snapshot, other.snapshot, steps, rankdir)

    def wants(self, recorder: Recorder) -> bool:
        """Return True if the next step must be sampled, however little time there is.

        Without an optimizer a step's end is noticed when the next one's forward is over: so
        sampling begins a step earlier.
        """
        if self.every is None:
            return False
        early = 0 if recorder.has_optimizer else 1
        return any((recorder.step + 1 + ahead) % self.every == 0 for ahead in range(early + 1))

    # Keeping ----------------------------------------------------------------------------

    def step_ended(self, recorder: Recorder) -> None:
        """Keep the step, if it was sampled, and not only what was on screen."""
        if recorder.step_values is not None and recorder.trace is not None:
            # Only what was on screen: a reader who looks back may look somewhere else.
            if recorder.light is not None and not recorder.light.row_map.whole:
                return
            graph = recorder.trace.snapshot.graph
            self._keep(recorder.step, graph, recorder.step_values.packed, recorder.loss)
            return
        if not recorder.sampled or recorder.snapshot is None or recorder.snapshot is self._last:
            return
        start = time.perf_counter()
        self._last = recorder.snapshot
        self.add(recorder.step, recorder.snapshot, recorder.loss)
        recorder.cost += time.perf_counter() - start

    def add(
        self,
        step: int,
        snapshot: Snapshot,
        loss: float | None = None,
        activations: int | None = None,
    ) -> None:
        """Keep one more step; what was kept of it and of later ones is dropped.

        Args:
            activations: the step they belong to, if an earlier one.
        """
        self._keep(step, snapshot.graph, pack(snapshot), loss, activations)

    def _keep(
        self,
        step: int,
        graph: Graph,
        packed: PackedValues,
        loss: float | None,
        activations: int | None = None,
    ) -> None:
        with self._lock:
            while self._moments and self._moments[-1].step >= step:
                self._drop(self._moments.pop())
            close = len(self._moments) > 1 and self._gap() < self._stride
            if close:  # the latest is always kept, but stays only if it is a stride further
                self._drop(self._moments.pop())
            graph = self._count_bytes(graph, packed)
            self._moments.append(Moment(step, graph, packed, loss, activations))
            while self.nbytes > self.limit and len(self._moments) > 2:
                self._thin()

    def _gap(self) -> int:
        return self._moments[-1].step - self._moments[-2].step

    def _thin(self) -> None:
        last = self._moments.pop()
        kept, others = self._moments[::2], self._moments[1::2]
        self._moments = [*kept, last]
        for moment in others:
            self._drop(moment)
        # Steps that come sooner than this replace the latest one from now on.
        self._stride = (last.step - kept[0].step) / len(kept)

    def _count_bytes(self, graph: Graph, packed: PackedValues) -> Graph:
        """Count the bytes of a step; steps of one structure share a graph."""
        kept, users = self._graphs.get(graph.structure, (graph, 0))
        if users == 0:
            kept = replace(graph)  # without the caches of the recorder's graph
            self.nbytes += graph_bytes(kept)
        self._graphs[graph.structure] = kept, users + 1
        self.nbytes += packed.nbytes
        return kept

    def _drop(self, moment: Moment) -> None:
        graph, users = self._graphs.pop(moment.graph.structure)
        self.nbytes -= moment.packed.nbytes
        if users == 1:
            self.nbytes -= graph_bytes(graph)
        else:
            self._graphs[graph.structure] = graph, users - 1

    # The page ---------------------------------------------------------------------------

    def command(self, content: dict[str, Any]) -> bool:
        """Look back at a step, or compare with one; without a number, stop that."""
        message_type, step = content.get("type"), content.get("step")
        if message_type not in ("goto", "compare") or not self._moments:
            return False
        moment = None
        if isinstance(step, int | float) and math.isfinite(step):
            moment = self.near(step, int(content.get("by") or 0))
        if message_type == "goto":
            self.looking = moment
        else:
            self._since = moment
        return True

    def patch(self) -> dict[str, Any] | None:
        """Return the position among the kept steps, and the requested comparison."""
        moments = self.moments
        if not moments:
            return None
        now, since = self.looking or moments[-1], self._since
        return {
            "at": self.looking.step if self.looking else None,
            "first": moments[0].step,
            "last": moments[-1].step,
            "count": len(moments),
            "loss": finite_or_none(now.loss),
            "compare": self._changes(since, now) if since else None,
        }

    def _changes(self, since: Moment, now: Moment) -> dict[str, Any]:
        if self._compared[0] != (since.step, now.step):
            self._compared = (since.step, now.step), self._comparison_rows(since, now)
        return self._compared[1]

    def _comparison_rows(self, since: Moment, now: Moment) -> dict[str, Any]:
        changes = find_changes(since.snapshot, now.snapshot)
        rows = [
            {"name": change.name, "what": change.what, "before": change.before,
             "after": change.after, "percent": change.percent, "sign": change.sign,
             "label": change.label, "module": change.module}
            for change in changes[:ROWS]
        ]  # fmt: skip
        return {"step": since.step, "rows": rows, "more": len(changes) - len(rows)}


def finite_or_none(number: float | None) -> float | None:
    """Return a number, or None for NaN and infinity, which JSON lacks."""
    return number if number is not None and math.isfinite(number) else None


def step_caption(step: int, loss: float | None, activations: int | None) -> str:
    """Return the caption of a picture: its step, the loss, and the age of its activations."""
    text = f"step {step:,}" if loss is None else f"step {step:,}, loss {loss:.4g}"
    if activations is not None and activations != step:
        text += f"; activations of step {activations:,}"
    return text


def graph_bytes(graph: Graph) -> int:
    return NODE_BYTES * len(graph.nodes) + EDGE_BYTES * len(graph.edges)


def evenly_spaced(moments: Sequence[Moment], count: int) -> list[Moment]:
    """Return `count` of the steps at most, in equal strides, including the first and the last."""
    if len(moments) <= count:
        return list(moments)
    if count == 1:
        return [moments[-1]]
    indices = {round(index * (len(moments) - 1) / (count - 1)) for index in range(count)}
    return [moments[index] for index in sorted(indices)]
