"""The part of a live view that looks back: its history, comparisons, and a run as a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..graph.model import Graph, Snapshot
from ..live.messages import Curve, State, patch_of
from ..live.page import PageState
from ..live.recorder import Recorder
from ..live.sampler import Sampler
from ..live.throttle import Gate
from ..render.static import Drawing
from .difference import Comparison
from .recording import History


class HistoryMixin:
    """The part of a `View` that handles earlier steps.

    Attributes:
        history: the steps that were sampled: `view.history[120]` is a `Drawing`.
    """

    history: History
    _page_state: PageState
    _recorder: Recorder
    _sampler: Sampler
    _gate: Gate
    _state: State
    _curves: dict[str, Curve]
    spent: float

    @property
    def curves(self) -> Mapping[str, Curve]:
        """The points of the loss and of each scalar that was logged."""
        return dict(self._curves)

    def compare(self, before: int, after: int) -> Comparison:
        """Return what changed between two steps, the largest relative change first.

        Args:
            before: the number of one step; -1 is the latest, -2 the one before it …
            after: that of another. `view.history.steps` lists the ones that are kept.

        Raises: StepError: one of them is not kept.

        >>> w = tensor(1.0, requires_grad=True)
        >>> with edutorch.viz.live() as view:
        ...     for factor in (1.0, 3.0):
        ...         (w * factor).backward()
        >>> print(view.compare(1, 2).table(1))
        change  what      node  step 1  step 2
        ▲ 75 %  gradient  w     1       4
        … and 2 more
        """
        return self.history.compare(before, after)

    def export(self, path: str | os.PathLike[str], frames: int | None = None) -> Path:
        """Write the run as one file that needs no kernel and no network; return its path.

        It contains steps that `view.history` has kept. Where a loop is fast these are few: with
        `view.history.every = 10`, set before it runs, every tenth is kept.

        Args:
            path: "run.html" is a page with a scrubber through the steps and with what is known
                of each node; "run.svg" a moving picture for a README. Groups are open and
                closed in it as they are now.
            frames: how many steps it may hold at most, chosen in equal strides; by default 400
                in a page and 60 in a picture.

        Raises: FormatError: the name ends otherwise. NothingRecordedError: nothing was recorded.
        """
        from .export import export

        return export(self, path, frames)

    @property
    def step(self) -> int:
        """How many steps have ended."""
        return self._recorder.step

    @property
    def loss(self) -> float | None:
        """The value of the scalar on which `backward` last ran."""
        return self._recorder.loss

    @property
    def losses(self) -> dict[str, float]:
        """The last value of each loss, by the name of the variable that holds it."""
        values = dict(self._recorder.loss_names.values)
        if len(values) > 1 or self.loss is None:
            return values
        return {next(iter(values), "loss"): self.loss}  # also of idle steps

    def drawing(self) -> Drawing:
        """Return the picture of the last recorded step."""
        raise NotImplementedError

    def _curve(self, name: str) -> Curve:
        return self._curves.setdefault(name, Curve())

    def _displayed(self, snapshot: Snapshot | None) -> Snapshot | None:
        """Return what the page shows: an earlier step, or else this one."""
        looking = self.history.looking
        return looking.snapshot if looking is not None else snapshot

    def _send_past(self) -> None:
        """Answer a page that looks back, at once: the loop's next step may be far."""
        self._sampler.throttle.delay_next()
        speed = self._gate.steps_per_second
        patch = patch_of(self._recorder.step, self._state, {}, [self.history], speed)
        self._page_state.show(self._displayed(self._recorder.snapshot), patch)

    def _on_graph(self, graph: Graph) -> None:
        """Have the first picture laid out, and sent, while backward still runs."""
        if self._page_state.page is not None and not self._page_state.layouts.requests:
            speed = self._gate.steps_per_second
            patch = patch_of(self._recorder.step, self._state, {}, (), speed)
            self._recorder.end_seconds += self._page_state.prepare(graph, patch)

    def _on_late_picture(self, seconds: float) -> None:
        """Record that a picture was sent beside the loop, and how long that took."""
        self.spent += seconds
        if self._recorder.step:
            self._sampler.throttle.delay_next()
        else:
            self._sampler.throttle.delay_after_next()
