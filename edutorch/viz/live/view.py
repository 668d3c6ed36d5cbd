"""`with live(model):` around a training loop shows its graph while it runs."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Literal

from ...errors import EdutorchError, missing_extra, warn
from ...nn import Module
from ..diagnostics.checks import Trouble
from ..explore.tensor_editor import ParameterEditor
from ..graph.names import Names
from ..history.history_panel import HistoryMixin
from ..history.recording import History, step_caption
from ..render.graphviz import engines, warm_up
from ..render.static import Drawing
from .cell_output import display_in_cell
from .comm_queue import in_notebook, comm_queue_of
from .fallback_picture import FallbackPicture
from .last_step import with_losses
from .layer_health import Gauges
from .layout_queue import LIMIT, PATIENCE
from .messages import Curve, State, patch_of
from .overhead import OverheadMeter
from .page import PageState
from .recorder import Recorder
from .sampling_policy import SamplingPolicy
from .subscription import Subscription
from .throttle import UNSEEN_SHARE, Gate, Throttle, check_pace

CURVES_EVERY, PARTS_EVERY = 2.0, 0.2
"""Seconds after which whole curves are sent again (between, each grows by its latest point), and
what the parts beside the graph have to say."""


class NothingRecordedError(EdutorchError, RuntimeError):
    """A picture was asked for before anything was computed with gradients."""


def live(
    *models: Module,
    steps_per_second: float | None = None,
    keep: bool = False,
    rankdir: Literal["LR", "TB"] | None = None,
) -> View:
    """Watch the loop inside a `with` block; in a notebook, show it while it runs.

    The picture has a box for each tensor and op of a step, with shape, value and
    gradient, and can be paused and stepped. When the block ends, a static picture
    stays in the notebook. Elsewhere the view only records; see `View.drawing`.

    Args:
        models: where the names come from; without one, the models that run are found.
        steps_per_second: hold the loop to this pace, so that a class can follow; by
            default it runs as fast as it can. Outside a notebook it is never held.
        keep: leave the widget in the page at the end, above the static picture.
        rankdir: "LR" draws from left to right, "TB" from top to bottom; left out, what suits the
            graph, if need be in rows.

    >>> w = tensor([1.0, 2.0], requires_grad=True)
    >>> with edutorch.viz.live.view() as view:
    ...     for _ in range(3):
    ...         (w * w).sum().backward()
    >>> view.step, view.loss
    (3, 5.0)
    """
    return View(models, sys._getframe(1), steps_per_second, keep, rankdir)


class View(HistoryMixin):
    """What `live` returns. Use it in a `with` statement around the loop.

    `view.parts` are what is shown beside the graph (see `panel.py`).
    `view.log(accuracy=0.93)` adds a curve. `view.pause()`, `view.resume()` and
    `view.step_once()` do what the buttons do.
    """

    def __init__(
        self,
        models: tuple[Module, ...],
        frame: FrameType | None,
        steps_per_second: float | None,
        keep: bool,
        rankdir: Literal["LR", "TB"] | None,
    ) -> None:
        self._names = Names(models, frame)
        self._keep = keep
        self._recorder = Recorder(
            self._names, self._step_ended, on_graph=self._graph_known, detailed=True
        )
        self.parts = self._recorder.parts
        self._hearing = Subscription(self._recorder)
        self._throttle, self._meter = Throttle(), OverheadMeter()
        self._gate = Gate(check_pace(steps_per_second))
        self.spent = 0.0  # seconds that showing the loop has taken so far, by our own clock
        self._cost = self._charged = 0.0  # of the last step that was seen, in seconds
        self._looked = 0  # the last step that was looked at
        self._activations: int | None = None  # the step that they are of, when the loop is over
        self._awaits = False  # the loop is asynchronous and calls `tick`
        self._curves_due = self._parts_due = 0.0
        self._curves: dict[str, Curve] = {}
        self._logged: set[str] = set()
        self._stage = PageState(rankdir, sent_late=self._sent_late)
        gauges = Gauges(self._names, lambda: self._state != "running")
        self.parts.append(gauges)
        self._looks = SamplingPolicy(self._recorder, self._stage, gauges)
        self._recorder.rest.on_due = self._due
        self.history = History(self._stage)
        self.parts.append(self.history)
        self.trouble = Trouble(self._names, self._recorder, self._stage)
        self.parts.append(self.trouble)
        self.parts.append(ParameterEditor(self._names, lambda: self._gate.paused))
        self._state: State = "running"
        self._display: Any = None
        self._still: FallbackPicture | None = None

    # What a user calls ------------------------------------------------------------------

    @property
    def steps_per_second(self) -> float | None:
        """The pace that the loop is held to; None: as fast as it can. Can be set."""
        return self._gate.steps_per_second

    @steps_per_second.setter
    def steps_per_second(self, value: float | None) -> None:
        self._gate.steps_per_second = check_pace(value)
        self._recorder.rest.until = 0.0

    @property
    def layouts(self) -> int:
        """How often Graphviz was asked: once per different structure of the graph."""
        return self._stage.layouts.asked

    def log(self, **scalars: Any) -> None:
        """Add a point to the curve of each name. The loss is drawn without being logged.

        Args:
            scalars: a number, or a tensor that holds one, by name.
        """
        for name, value in scalars.items():
            self._logged.add(name)
            self._curve(name).add(self.step, float(value))

    def pause(self) -> None:
        """Hold the loop at the end of the step, until someone resumes it.

        With no page to press the button, the loop goes on after a few seconds.
        """
        self._gate.pause()
        self._recorder.rest.until = 0.0

    def resume(self) -> None:
        """Let a paused loop run."""
        self._gate.resume()

    def step_once(self) -> None:
        """Let a paused loop take one step."""
        self._gate.step_once()

    def drawing(self) -> Drawing:
        """Return the picture of the last recorded step.

        Raises: NothingRecordedError: no op with gradients has run.
        """
        latest, looked = self._looks.latest_whole()
        if latest is None:
            raise NothingRecordedError(
                "viz.live",
                "nothing has been recorded yet",
                hint="compute something from a tensor with requires_grad=True inside the block",
            )
        latest, drawn = self._stage.illustrated(latest)
        parts = [step_caption(self.step, self.loss, self._activations)]
        parts += [f"numbers of step {looked}"] if looked != self.step else []
        parts += [f"small pictures of step {drawn}"] if drawn not in (None, looked) else []
        rankdir, choice = self._stage.layouts.rankdir, self._stage.choice
        return Drawing(latest, rankdir, choice, curves=self._curves, caption="; ".join(parts))

    # The with block ---------------------------------------------------------------------

    def __enter__(self) -> View:
        if self._stage.page is None and in_notebook():
            self._open_page()
        self._throttle = Throttle() if self._stage.page else Throttle(share=UNSEEN_SHARE)
        self._activations = None
        self._meter.begin()
        self._hearing.__enter__()
        self.trouble.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.trouble.__exit__(kind, error, trace)
        self._hearing.__exit__(kind, error, trace)
        self._gate.resume()  # nothing holds what is over
        failed = self.trouble.failed(error)
        self._recorder.finish()
        self._rested(self.step)
        self._recorder.rest.told()
        stopped = failed is not None and failed is not self._recorder.snapshot
        self._see_last_step()
        if failed is not None and stopped:  # inside a step, which is drawn as far as it got
            self._looks.show(failed)
            self._activations = None
        self._names.frame = None
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        self._state = "interrupted" if interrupted else "finished" if kind is None else "failed"
        self._send(patience=LIMIT)
        self._leave_picture()

    def _see_last_step(self) -> None:
        """Let what is seen be the last step: its parameters live, its activations may not."""
        snapshot, seen = self._looks.latest_whole()
        if snapshot is None or seen >= self.step:
            return
        losses = self.losses if len(self.losses) > 1 else {"loss": self.loss}
        snapshot = with_losses(self._recorder.leaves.refresh(snapshot), losses)
        self._activations = seen
        self._looks.show(snapshot)
        self.history.add(self.step, snapshot, self.loss, seen)

    async def __aenter__(self) -> View:
        self._awaits = True
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)
        self._awaits = False

    def _open_page(self) -> None:
        if not any(engine.available for engine in engines()):
            raise missing_extra("lab", "viz.live", "there is no Graphviz to draw with")
        try:
            from .widget import LiveWidget
        except ImportError as error:
            raise missing_extra("lab", "viz.live", f"{error.name} is not installed") from error
        warm_up()
        self._stage.page = widget = LiveWidget(self._command)
        self._gate.fetch = comm_queue_of(widget)
        self._display = display_in_cell(widget, display_id=True)
        self._still = FallbackPicture(widget.key)

    def _leave_picture(self) -> None:
        """Put the static picture where the widget was (or below it, with `keep`)."""
        if self._display is None or self._still is None or self._recorder.snapshot is None:
            return
        bundle, said = self.drawing()._repr_mimebundle_(), self.trouble.text()
        summary = self._summary()
        bundle["text/plain"] = f"{summary}\n\n{said}{bundle['text/plain']}"
        if not self._keep:
            self._display.update(bundle, raw=True)
            self._still.end({"text/plain": f"{summary}\n\n{said}".strip()})
        elif not self._still.end(bundle):
            display_in_cell(bundle, raw=True)

    def _leave_still(self) -> None:
        """Have the step that was looked at drawn for pages that will not find this view."""
        snapshot, step = self._looks.latest_whole()
        if self._still is not None and snapshot is not None:
            choice = self._stage.choice
            self._still.offer(lambda: Drawing(snapshot, self._stage.layouts.rankdir, choice), step)

    def _summary(self) -> str:
        loss = "" if self.loss is None else f", loss {self.loss:.4g}"
        return f"step {self.step}{loss}, {self._state}"

    # While it runs ----------------------------------------------------------------------

    def _step_ended(self, recorder: Recorder) -> None:
        """Note the loss, send what is due, wait if paused, and choose the next sample."""
        self._rested(self.step - 1)
        glanced = recorder.glance and recorder.glance.kind
        self._cost = self._meter.end(recorder.sampled, recorder.cost, glanced)
        self._charged = self._looks.took(self._cost)
        self._draw_losses()
        if self._looks.seen:
            self._throttle.looked(self._cost)
        if recorder.sampled or self._looks.measured:
            for name, value in (pair for part in self.parts for pair in part.scalars().items()):
                self._curve(name).add(self.step, value)
        if self._stage.page is None:
            if recorder.sampled:
                self._throttle.spent(self._cost)
            looked = self._throttle.sample() or self.history.wants(recorder)
            first = self.history.every is None and self._looks.begins(self.step)
            self._looks.choose(looked or first, looked)
        elif self._awaits:  # `tick` holds it
            self._show(recorder)
        else:
            self._show(recorder)
            self._gate.keep_pace()
            if recorder.sampled and self._gate.paused:
                with self._standing():
                    self._gate_passed(self._gate.wait(meanwhile=self._answer))
            self._choose()
        self._meter.begin()
        held = self._awaits or self._gate.held or self.history.every is not None
        rest, due = recorder.rest, self._throttle.next
        rest.until = 0.0 if held else self._looks.rest(due, self._gate.fetch is not None)
        rest.let_pass = self._throttle.let_pass() if 0 < rest.until == due else 0

    def _due(self) -> bool:
        """Glance at the next step, if that will do: then the one that ends needs nothing else."""
        shown = self._stage.page is not None
        return shown and self._throttle.sample() and self._looks.glance_next()

    def _rested(self, last: int) -> None:
        """Note the steps up to `last` that have passed unseen."""
        rest = self._recorder.rest
        if rest.ends:
            self._meter.rested(rest.ends)
        if rest.several:
            steps = [self._recorder.loss_names.named(values) for values in rest.rounds]
            for name in dict.fromkeys(self._recorder.loss_names.sequence):
                if name not in self._logged and all(name in step for step in steps) and steps:
                    values = [step[name] for step in steps]
                    self._curve(name).extend(last - len(values) + 1, values)
        elif rest.losses and "loss" not in self._logged:
            self._curve("loss").extend(last - len(rest.losses) + 1, rest.losses)

    def _draw_losses(self) -> None:
        """Add the losses of the step that has ended: each to a curve of its name."""
        recorder, names = self._recorder, self._recorder.loss_names
        if not names.several:
            if recorder.loss is not None and "loss" not in self._logged:
                if recorder.recounted:
                    self._curve("loss").cut(self.step)
                self._curve("loss").add(self.step, recorder.loss)
            return
        if "loss" not in names.values and "loss" not in self._logged:
            self._curves.pop("loss", None)  # drawn before the second loss came
        for name, value in recorder.step_losses.items():
            if name not in self._logged:
                curve = self._curve(name)
                curve.cut(self.step)
                curve.add(self.step, value)

    async def tick(self) -> None:
        """Wait here while the loop is paused, or faster than wanted: `await view.tick()`.

        For a loop inside `async with viz.live(model) as view:`, once in each step. Meanwhile
        other tasks run; a plain `with` would stop them too.
        """
        await asyncio.sleep(0)
        await self._gate.keep_pace_async()
        recorder = self._recorder
        if self._stage.page is not None:
            if recorder.sampled and self._gate.paused:
                with self._standing():
                    self._gate_passed(await self._gate.wait_async(meanwhile=self._answer))
            self._choose()
        self._meter.begin()

    def _show(self, recorder: Recorder) -> None:
        if self._looks.seen:
            self._looked = recorder.step
        if self._gate.paused:
            return
        # A new picture waits for nothing.
        pending = self._stage.asked and self._stage.layouts.ready
        if pending or (self._looks.seen and self._throttle.due()):
            self._send(since=self._meter.ended)
        elif recorder.glance is not None and not self._looks.seen:
            self._throttle.spent(self._cost)  # in vain

    def _choose(self) -> None:
        # Before a pause the page must get the very step at which the loop stands, and all of it.
        full = self._gate.paused or self.history.wants(self._recorder)
        self._looks.choose(
            self._throttle.sample(), full, self._throttle.early, standing=self._gate.paused
        )

    @contextmanager
    def _standing(self) -> Iterator[None]:
        """Say "paused" as long as the block lasts, and then that it runs again."""
        self._state = "paused"
        self._send()
        try:
            yield
        finally:
            self._state = "running"
        if not self._gate.paused:
            self._send()

    def _gate_passed(self, answered: bool) -> None:
        if not answered:
            warn("no page answered, so the loop goes on")

    def _command(self, content: dict[str, Any]) -> None:
        """Take a message of the page. While a loop runs, this is another thread than the loop's."""
        self._recorder.rest.until = 0.0
        self._gate.command(content)
        if any(part.command(content) for part in self.parts):
            self._stage.asked = True
        self._stage.command(content)
        if self._stage.asked and self._state in ("finished", "failed", "interrupted"):
            self._send(patience=LIMIT, again=True)
        elif content.get("type") in ("goto", "compare"):
            self._send_past()

    def _answer(self) -> None:
        """Send again what stands still, if the page asked for it in another form."""
        if self._stage.asked:
            self._send()

    def _send(
        self, patience: float | None = PATIENCE, again: bool = False, since: float | None = None
    ) -> None:
        """Send the last sampled step, with a new picture if the graph changed.

        Args:
            again: it is over, and something else of it is looked at: show the last step of
                which all numbers are known.
            since: when the work for this message began; None: now.
        """
        if self._stage.page is None:
            return
        now = time.perf_counter()
        step = self._looked if self._state == "running" else self.step
        all_of_it = self._state != "running" or self._stage.asked
        parts = ()
        if all_of_it or self._looks.measured or now > self._parts_due:
            self._parts_due, parts = now + PARTS_EVERY, self.parts
        patch = patch_of(step, self._state, self._curves, parts, self._gate.steps_per_second)
        curves = None
        if all_of_it or now > self._curves_due:
            self._curves_due = now + CURVES_EVERY
            curves = {name: curve.points() for name, curve in self._curves.items()}
        quick = None if all_of_it else self._looks.message()
        if quick is not None and self.history.looking is None:
            waited = self._stage.show_numbers(*quick, patch, curves)
        else:
            snapshot = self._looks.latest()
            if again:
                snapshot, patch["step"] = self._looks.latest_whole()
            waited = self._stage.show(self._seen(snapshot), patch, curves, patience)
        if self._still is not None and time.monotonic() > self._still.due:
            self._leave_still()
        cost = self._meter.sent() + time.perf_counter() - (since or now) - waited
        self.spent += self._cost + cost
        self._throttle.spent(self._charged + cost)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        shown: Any = self._stage.page or self.drawing()
        return shown._repr_mimebundle_(**options)

    def __repr__(self) -> str:
        return f"<live view: {self._summary()}>"
