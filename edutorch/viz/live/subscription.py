"""Subscribes a recorder to the events of a loop, only as long as a step is sampled.

In a full sample it listens to every op; in a fast sample (see `fast_sampler.py`) the ops are
recorded instead, which costs them little; between samples only step events are handled. An op
with a listener takes many times as long as one without. So a recorder that needs no values leaves
the list of listeners, and comes back when the next sample is due.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from ...events import BackwardEnded, Stepped, listen_steps
from ...modes import current, listening, set_op_recorder, switch
from .recorder import Recorder
from .step_boundary import functions_around

SWITCH_INTERVAL = 0.0005
"""Seconds after which a watched loop gives Python's lock to a thread that waits for it.

Values and pictures pass through several threads on their way to the page, and each waits this long
at each stage: by default five milliseconds."""

_active: list[Subscription] = []  # loops that are watched now, perhaps in several threads
_default_interval: list[float] = []  # Python's own interval, when none is watched


class Subscription:
    """A block in which a recorder follows a loop: `with Subscription(recorder): ...`."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._models = tuple(recorder.names.models)
        self._listening = listening(self.event)
        recorder.idle.awake, recorder.idle.follow = self.step_event, self.follow
        self._step_events = listen_steps(recorder.idle.step_event)
        self._paused = False  # the garbage collector, by us

    def __enter__(self) -> Subscription:
        if not _active:
            _default_interval[:] = [sys.getswitchinterval()]
            sys.setswitchinterval(min(SWITCH_INTERVAL, *_default_interval))
        _active.append(self)
        for subscription in _active if len(_active) > 1 else ():
            subscription.recorder.names.restrict_to(subscription._models)
        self.recorder.callers = functions_around(sys._getframe(1))
        self._step_events.__enter__()
        self._listening.__enter__()
        self._collect(False)
        return self

    def __exit__(self, *exception: object) -> None:
        self._collect(True)
        self._listening.__exit__(*exception)
        self._step_events.__exit__(*exception)
        _active.remove(self)
        if not _active:
            sys.setswitchinterval(*_default_interval)

    def event(self, event: Any) -> None:
        """Handle one event. In a step that is not sampled in full, the first one unsubscribes."""
        self.recorder(event)
        if self.recorder.sampling:
            return
        if isinstance(event, Stepped):  # it comes twice: the step event has to get through
            self.recorder.idle.until = 0.0
        else:
            self._leave()

    def step_event(self, event_type: type, subject: Any, accumulated: bool) -> None:
        """Handle a step event when nothing else is listened to; perhaps listen again."""
        event = Stepped(subject) if event_type is Stepped else BackwardEnded(subject, accumulated)
        modes = current()
        if self.event in modes.listeners:
            if not self.recorder.sampling:
                self._leave()
            elif isinstance(event, BackwardEnded):
                self.recorder.name_loss(event)
        else:
            self.recorder.step_event(event)
            if self.recorder.sampling:
                if not isinstance(event, Stepped):
                    self.recorder.sampled_whole = False  # its forward is over already
                switch(modes, listeners=(*modes.listeners, self.event))
                self._collect(False)
        self.follow()

    def follow(self) -> None:
        """Install the fast sampler of the step that begins, or none, as the recorder wants."""
        modes = current()
        sampler = self.recorder.sampler
        if modes.op_recorder is not sampler:
            set_op_recorder(modes, sampler)
            self._collect(sampler is None and not self.recorder.sampling)

    def _collect(self, enabled: bool) -> None:
        """Enable or pause the garbage collector: it would take a third of a large full sample.

        A sample creates so many objects that live on that all would be searched again and again.
        """
        if enabled and self._paused:
            gc.enable()
            self._paused = False
        elif not enabled and gc.isenabled():
            gc.disable()
            self._paused = True

    def _leave(self) -> None:
        self._collect(True)
        self.recorder.scopes.clear()  # a step may end inside a module, whose end is missed then
        # A mode of the user's that is left later may bring the listener back: then it leaves again.
        modes = current()
        others = tuple(listener for listener in modes.listeners if listener != self.event)
        switch(modes, listeners=others)
