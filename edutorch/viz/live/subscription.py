"""Listens to every op of a step that is looked at, and between such steps only to milestones.
At a glance (see `fast_sampler.py`) it follows the ops instead, which costs them little.

An op that somebody listens to takes many times as long as one that nobody does. So a recorder
that wants no numbers leaves the list of listeners, and comes back when the next look is due.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from ...events import BackwardEnded, Stepped, listen_steps
from ...modes import current, set_op_recorder, listening, switch
from .recorder import Recorder
from .step_boundary import functions_around

SWITCH_INTERVAL = 0.0005
"""Seconds after which a watched loop gives Python's lock to a thread that waits for it.

Numbers and pictures pass through several threads on their way to the page, and each waits so long,
at each step of its own: by default for five milliseconds.
"""

_active: list[Subscription] = []  # loops that are watched now, perhaps in several threads
_default_interval: list[float] = []  # Python's interval when none is


class Subscription:
    """A block in which a recorder hears a loop: `with Hearing(recorder): ...`."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._given = tuple(recorder.names.models)
        self._listening = listening(self.event)
        recorder.rest.awake, recorder.rest.follow = self.milestone, self.follow
        self._milestones = listen_steps(recorder.rest.milestone)
        self._paused = False  # the garbage collector, by us

    def __enter__(self) -> Subscription:
        if not _active:
            _default_interval[:] = [sys.getswitchinterval()]
            sys.setswitchinterval(min(SWITCH_INTERVAL, *_default_interval))
        _active.append(self)
        for hearing in _active if len(_active) > 1 else ():
            hearing.recorder.names.keep_to(hearing._given)
        self.recorder.around = functions_around(sys._getframe(1))
        self._milestones.__enter__()
        self._listening.__enter__()
        self._collect(False)
        return self

    def __exit__(self, *exception: object) -> None:
        self._collect(True)
        self._listening.__exit__(*exception)
        self._milestones.__exit__(*exception)
        _active.remove(self)
        if not _active:
            sys.setswitchinterval(*_default_interval)

    def event(self, event: Any) -> None:
        """Take one event of many. A step that is not looked at ends this at its first."""
        self.recorder(event)
        if self.recorder.sampling:
            return
        if isinstance(event, Stepped):  # that comes twice: the milestone of it has to get through
            self.recorder.rest.until = 0.0
        else:
            self._leave()

    def milestone(self, kind: type, subject: Any, accumulated: bool) -> None:
        """Hear how far the loop is, when nothing else is heard; perhaps listen again."""
        event = Stepped(subject) if kind is Stepped else BackwardEnded(subject, accumulated)
        modes = current()
        if self.event in modes.listeners:
            if not self.recorder.sampling:
                self._leave()
            elif isinstance(event, BackwardEnded):
                self.recorder.name_loss(event)
        else:
            self.recorder.milestone(event)
            if self.recorder.sampling:
                if not isinstance(event, Stepped):
                    self.recorder.sampled_whole = False  # its forward is over already
                switch(modes, listeners=(*modes.listeners, self.event))
                self._collect(False)
        self.follow()

    def follow(self) -> None:
        """Follow the ops of the step that begins, or none, as the recorder wants."""
        modes = current()
        glance = self.recorder.glance
        if modes.op_recorder is not glance:
            set_op_recorder(modes, glance)
            self._collect(glance is None and not self.recorder.sampling)

    def _collect(self, garbage: bool) -> None:
        """Let the garbage collector run, or not: a third of a look at a large graph would be its.

        What a look makes lives on, and it makes so much that all of it would be searched again
        and again.
        """
        if garbage and self._paused:
            gc.enable()
            self._paused = False
        elif not garbage and gc.isenabled():
            gc.disable()
            self._paused = True

    def _leave(self) -> None:
        self._collect(True)
        self.recorder.scopes.clear()  # a step may end inside a module, whose end is not heard then
        # A mode of the user's that is left later may bring the listener back: then, once more.
        modes = current()
        others = tuple(listener for listener in modes.listeners if listener != self.event)
        switch(modes, listeners=others)
