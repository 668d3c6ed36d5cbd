"""`with live(model):` around a training loop shows its graph while it runs."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from ...errors import EdutorchError, missing_extra, warn
from ...nn import Module
from ..diagnostics.checks import Trouble
from ..diagnostics.saved_values import find_bad_values
from ..explore.tensor_editor import ParameterEditor
from ..graph.model import Graph, Snapshot
from ..graph.names import Names
from ..graph.tensor_keys import with_losses
from ..history.difference import Comparison
from ..history.export import export
from ..history.recording import History, step_caption
from ..render.graphviz import engines, warm_up
from ..render.static import Drawing
from .fallback_picture import FallbackPicture
from .interpreter import comm_queue_of, display_in_cell, in_notebook
from .layer_health import Gauges
from .light_sampler import LightSampler
from .messages import Curve, State, patch_of
from .page import LIMIT, PATIENCE, PageState
from .panel import Panel
from .recorder import Recorder
from .sampler import Sampler
from .step_trace import Call
from .throttle import Gate, check_pace

CURVES_EVERY, PARTS_EVERY = 2.0, 0.2
"""Seconds after which whole curves are sent again (in between, each grows by its latest point), and
the data of the panels."""


PANELS: tuple[type[Panel], ...] = (Gauges, History, Trouble, ParameterEditor)
"""The panels of every view, in the order in which events reach them."""


class NothingRecordedError(EdutorchError, RuntimeError):
    """A picture was requested before anything was computed with gradients."""


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
        models: where the names come from; without one, the models that run are used.
        steps_per_second: limit the loop to this pace, so that a class can follow; by
            default it runs as fast as it can. Outside a notebook it is never limited.
        keep: leave the widget in the page at the end, above the static picture.
        rankdir: "LR" draws from left to right, "TB" from top to bottom; by default the direction
            that suits the graph, in several rows if necessary.

    >>> w = tensor([1.0, 2.0], requires_grad=True)
    >>> with edutorch.viz.live() as view:
    ...     for _ in range(3):
    ...         (w * w).sum().backward()
    >>> view.step, view.loss
    (3, 5.0)
    """
    return View(models, sys._getframe(1), steps_per_second, keep, rankdir)


class View:
    """What `live` returns. Use it in a `with` statement around the loop.

    `view.parts` are the panels beside the graph (see `panel.py`).
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
        self._page_state = PageState(rankdir, on_late_picture=self._on_late_picture)
        self._sampler = Sampler(self._names, self._page_state, self._on_step_end, self._on_graph)
        self._recorder = self._sampler.recorder
        self.parts = self._recorder.parts
        self._gate = Gate(check_pace(steps_per_second))
        self.spent = 0.0  # seconds that showing the loop has taken so far, by our own clock
        self._sampled_step = 0  # the last step that was sampled
        self._activations: int | None = None  # the step they belong to, when the loop is over
        self._awaits = False  # the loop is asynchronous and calls `tick`
        self._curves_due = self._parts_due = 0.0
        self._curves: dict[str, Curve] = {}
        self._logged: set[str] = set()
        for panel_class in PANELS:
            self.parts.append(panel_class.of(self))
        self._sampler.gauges = self.parts.find(Gauges)
        self.history, self.trouble = self.parts.find(History), self.parts.find(Trouble)
        self._state: State = "running"
        self._display: Any = None
        self._fallback: FallbackPicture | None = None

    # What a user calls ------------------------------------------------------------------

    @property
    def steps_per_second(self) -> float | None:
        """The pace that the loop is held to; None: as fast as it can. Can be set."""
        return self._gate.steps_per_second

    @steps_per_second.setter
    def steps_per_second(self, value: float | None) -> None:
        self._gate.steps_per_second = check_pace(value)
        self._recorder.idle.until = 0.0

    @property
    def layouts(self) -> int:
        """How often Graphviz was called: once per different structure of the graph."""
        return self._page_state.layouts.requests

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

        Without a page that has the button, the loop goes on after a few seconds.
        """
        self._gate.pause()
        self._recorder.idle.until = 0.0

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
        latest, looked = self._sampler.latest_whole()
        if latest is None:
            raise NothingRecordedError(
                "viz.live",
                "nothing has been recorded yet",
                hint="compute something from a tensor with requires_grad=True inside the block",
            )
        latest, drawn = self._page_state.with_thumbnails(latest)
        parts = [step_caption(self.step, self.loss, self._activations)]
        parts += [f"numbers of step {looked}"] if looked != self.step else []
        parts += [f"small pictures of step {drawn}"] if drawn not in (None, looked) else []
        rankdir, choice = self._page_state.layouts.rankdir, self._page_state.choice
        return Drawing(latest, rankdir, choice, curves=self._curves, caption="; ".join(parts))

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

    # The with block ---------------------------------------------------------------------

    def __enter__(self) -> View:
        if self._page_state.page is None and in_notebook():
            self._open_page()
        self._activations = None
        self._sampler.begin_loop()
        self._sampler.__enter__()
        self.trouble.__enter__()
        return self

    def __exit__(
        self, exception_type: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        self.trouble.__exit__(exception_type, error, trace)
        self._sampler.__exit__(exception_type, error, trace)
        self._gate.resume()  # a loop that is over is not held
        # Before `finish`: the graph of the step that failed is still there.
        failed = self.trouble.record_failure(error)
        self._recorder.finish()
        self._draw_idle(self.step)
        self._recorder.idle.clear()
        stopped = failed is not None and failed is not self._recorder.snapshot
        self._see_last_step()
        if failed is not None and stopped:  # inside a step, which is drawn as far as it got
            self._sampler.show(failed)
            self._activations = None
        self._names.frame = None
        interrupted = isinstance(error, KeyboardInterrupt)
        self._state = "finished" if error is None else "interrupted" if interrupted else "failed"
        self._send(patience=LIMIT)
        self._leave_picture()

    def _see_last_step(self) -> None:
        """Show the last step: its parameters still exist, its activations may not."""
        snapshot, seen = self._sampler.latest_whole()
        if snapshot is None or seen >= self.step:
            return
        losses = self.losses if len(self.losses) > 1 else {"loss": self.loss}
        snapshot = with_losses(self._recorder.leaves.refresh(snapshot), losses)
        self._activations = seen
        self._sampler.show(snapshot)
        self.history.add(self.step, snapshot, self.loss, seen)

    async def __aenter__(self) -> View:
        self._awaits = True
        return self.__enter__()

    async def __aexit__(self, *exception: Any) -> None:
        self.__exit__(*exception)
        self._awaits = False

    def _open_page(self) -> None:
        if not any(engine.available for engine in engines()):
            raise missing_extra("lab", "viz.live", "there is no Graphviz to draw with")
        try:
            from .widget import LiveWidget
        except ImportError as error:
            raise missing_extra("lab", "viz.live", f"{error.name} is not installed") from error
        # Graphviz starts in a process of its own, while the widget is made.
        warm_up()
        self._page_state.page = widget = LiveWidget(self._command)
        self._gate.fetch = comm_queue_of(widget)
        if widget.tab_channel is not None:
            widget.tab_channel.serve(self._gate)
        self._display = display_in_cell(widget, display_id=True)
        self._fallback = FallbackPicture(widget.key)

    def _leave_picture(self) -> None:
        """Put the static picture where the widget was (or below it, with `keep`)."""
        if self._display is None or self._fallback is None or self._recorder.snapshot is None:
            return
        # Also as text, for a screen reader and for a diff of the notebook.
        bundle, findings = self.drawing()._repr_mimebundle_(), self.trouble.text()
        summary = self._summary()
        bundle["text/plain"] = f"{summary}\n\n{findings}{bundle['text/plain']}"
        if not self._keep:
            self._display.update(bundle, raw=True)
            self._fallback.end({"text/plain": f"{summary}\n\n{findings}".strip()})
        elif not self._fallback.end(bundle):
            display_in_cell(bundle, raw=True)

    def _offer_fallback(self) -> None:
        """Have the last sampled step drawn for pages that will not find this view."""
        snapshot, step = self._sampler.latest_whole()
        if self._fallback is not None and snapshot is not None:
            choice = self._page_state.choice
            self._fallback.offer(
                lambda: Drawing(snapshot, self._page_state.layouts.rankdir, choice), step
            )

    def _summary(self) -> str:
        loss = "" if self.loss is None else f", loss {self.loss:.4g}"
        return f"step {self.step}{loss}, {self._state}"

    # While the loop runs ----------------------------------------------------------------------

    def _on_step_end(self, recorder: Recorder) -> None:
        """Record the loss, send what is due, wait if paused, and choose the next sample."""
        sampler, step = self._sampler, recorder.step
        self._draw_idle(step - 1)
        sampler.end_step()
        self._draw_losses(step)
        if recorder.sampled or sampler.measured:
            for name, value in self.parts.scalars().items():
                self._curve(name).add(step, value)
        if self._page_state.page is None:
            sampler.choose_unseen(self.history.wants(recorder), self.history.every is None)
        elif self._awaits:  # `tick` holds the loop
            self._show(recorder)
        else:
            self._show(recorder)
            self._gate.keep_pace()
            if recorder.sampled and self._gate.paused:
                with self._standing():
                    self._warn_if_released(self._gate.wait(meanwhile=self._answer))
            self._choose()
            self._gate.check_stop()
        held = self._awaits or self._gate.is_held or self.history.every is not None
        sampler.begin_step(held, self._gate.fetch is not None)

    def _draw_idle(self, last: int) -> None:
        """Add the losses of the idle steps up to `last` to the curves."""
        idle = self._recorder.idle
        if idle.ends:
            self._sampler.meter.record_idle(idle.ends)
        if idle.several:
            steps = [self._recorder.loss_names.name_values(values) for values in idle.rounds]
            for name in dict.fromkeys(self._recorder.loss_names.sequence):
                if name not in self._logged and all(name in step for step in steps) and steps:
                    values = [step[name] for step in steps]
                    self._curve(name).extend(last - len(values) + 1, values)
        elif idle.losses and "loss" not in self._logged:
            self._curve("loss").extend(last - len(idle.losses) + 1, idle.losses)

    def _draw_losses(self, ended: int) -> None:
        """Add the losses of the step that has ended, each to the curve of its name."""
        recorder, names = self._recorder, self._recorder.loss_names
        if not names.several:
            if recorder.loss is not None and "loss" not in self._logged:
                if recorder.recounted:
                    self._curve("loss").cut(ended)
                self._curve("loss").add(ended, recorder.loss)
            return
        if "loss" not in names.values and "loss" not in self._logged:
            self._curves.pop("loss", None)  # drawn before the second loss came
        for name, value in recorder.step_losses.items():
            if name not in self._logged:
                curve = self._curve(name)
                curve.cut(ended)
                curve.add(ended, value)

    async def tick(self) -> None:
        """Wait here while the loop is paused, or faster than wanted: `await view.tick()`.

        For a loop inside `async with viz.live(model) as view:`, once in each step. Meanwhile
        other tasks run; a plain `with` would stop them too.
        """
        await asyncio.sleep(0)
        await self._gate.keep_pace_async()
        recorder = self._recorder
        if self._page_state.page is not None:
            if recorder.sampled and self._gate.paused:
                with self._standing():
                    self._warn_if_released(await self._gate.wait_async(meanwhile=self._answer))
            self._choose()
            self._gate.check_stop()
        self._sampler.meter.begin()

    def _show(self, recorder: Recorder) -> None:
        if self._sampler.seen:
            self._sampled_step = recorder.step
        if self._gate.paused:
            return
        # A new picture is sent at once, whatever the throttle says.
        pending = self._page_state.needs_update and self._page_state.layouts.is_ready
        if pending or (self._sampler.seen and self._sampler.throttle.is_due()):
            self._send(since=self._sampler.meter.ended)
        elif recorder.light is not None and not self._sampler.seen:
            self._sampler.throttle.record_message(self._sampler.cost)  # the light sample failed

    def _choose(self) -> None:
        # Before a pause the page must get exactly the step at which the loop stops, in full.
        full = self._gate.paused or self.history.wants(self._recorder)
        self._sampler.choose(
            self._sampler.throttle.should_sample(),
            full,
            self._sampler.throttle.is_early,
            standing=self._gate.paused,
        )

    @contextmanager
    def _standing(self) -> Iterator[None]:
        """Send the state "paused" on entry and "running" on exit."""
        self._state = "paused"
        self._send()
        try:
            yield
        finally:
            self._state = "running"
        if not self._gate.paused:
            self._send()

    def _warn_if_released(self, answered: bool) -> None:
        if not answered:
            warn("no page answered, so the loop goes on")

    def _command(self, content: dict[str, Any]) -> None:
        """Handle a message of the page, while a loop runs on another thread than the loop's."""
        # The loop has to look up at the end of this step, not at its next sample.
        self._recorder.idle.until = 0.0
        self._gate.command(content)
        if self.parts.command(content):
            self._page_state.needs_update = True
        self._page_state.command(content)
        if self._page_state.needs_update and self._state in ("finished", "failed", "interrupted"):
            self._send(patience=LIMIT, again=True)
        elif content.get("type") in ("goto", "compare"):
            self._send_past()

    def _answer(self) -> None:
        """Send the current step again if the page requested it in another form."""
        if self._page_state.needs_update:
            self._send()

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

    def _send(
        self, patience: float | None = PATIENCE, again: bool = False, since: float | None = None
    ) -> None:
        """Send the last sampled step, with a new picture if the graph changed.

        Args:
            again: the loop is over and the page requests another part of it: show the last step
                of which all values are known.
            since: when the work for this message began; None: now.
        """
        if self._page_state.page is None:
            return
        now = time.perf_counter()
        step = self._sampled_step if self._state == "running" else self.step
        # A pause is read, not watched: nothing may be missing or older than the rest.
        in_full = self._state != "running" or self._page_state.needs_update
        parts = ()
        if in_full or self._sampler.measured or now > self._parts_due:
            self._parts_due, parts = now + PARTS_EVERY, self.parts
        patch = patch_of(step, self._state, self._curves, parts, self._gate.steps_per_second)
        curves = None
        if in_full or now > self._curves_due:
            self._curves_due = now + CURVES_EVERY
            curves = {name: curve.points() for name, curve in self._curves.items()}
        fast = None if in_full else self._sampler.message()
        if fast is not None and self.history.looking is None:
            waited = self._page_state.show_values(*fast, patch, curves)
        else:
            snapshot = self._sampler.latest()
            if again:
                snapshot, patch["step"] = self._sampler.latest_whole()
            waited = self._page_state.show(self._displayed(snapshot), patch, curves, patience)
        if self._fallback is not None and time.monotonic() > self._fallback.due:
            self._offer_fallback()
        cost = self._sampler.meter.record_message() + time.perf_counter() - (since or now) - waited
        self.spent += self._sampler.cost + cost
        self._sampler.throttle.record_message(self._sampler.charged + cost)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        shown: Any = self._page_state.page or self.drawing()
        return shown._repr_mimebundle_(**options)

    def __repr__(self) -> str:
        return f"<live view: {self._summary()}>"


# Their annotations name these, which `typing.get_type_hints` looks up in their globals.
for _user in (
    Trouble, find_bad_values, ParameterEditor, History, Gauges, LightSampler, Panel, export,
):  # fmt: skip
    sys.modules[_user.__module__].__dict__.update(
        View=View, Recorder=Recorder, PageState=PageState, Gauges=Gauges, Call=Call
    )
