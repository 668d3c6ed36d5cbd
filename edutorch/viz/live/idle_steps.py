"""What a watched loop pays for a step that is not sampled: as little as possible.

Between two samples only step events are handled (see `events.step_event`), and of those only the
value of each loss and when each step ended. A step of a small network takes 400 microseconds, of
which a hundredth is four: that is some ten lines of Python.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from numpy import ndarray

from ...events import BackwardEnded


class IdleSteps:
    """Handles the step events of a loop first, and passes on those that matter to others.

    Attributes:
        until: on `time.perf_counter`: the steps that end sooner are only counted. 0: none is.
        skip: this many more steps after it are.
        on_due: called at the end of that step; True: a fast sample of the next one is prepared.
        follow: called if one was, to install its sampler.
        awake: called, with the same arguments, for each step event that is not handled here.
        ends: when each of the steps ended that were only counted, since the last that was not.
        losses: their losses. Before the first backward, there is none.
        loss: the value of the scalar on which backward last ran, None if unknown.
        ender: the optimizer whose updates each end a step; None: those of every optimizer do.
        worked: a backward has run since the last step that was counted here.
        several: a step has several losses, and all are wanted.
        passes: those of the running step. rounds: those of each step in `ends`.
    """

    __slots__ = (
        "_cleared",
        "awake",
        "ender",
        "ends",
        "follow",
        "loss",
        "losses",
        "on_due",
        "passes",
        "rounds",
        "several",
        "skip",
        "until",
        "worked",
    )  # fmt: skip

    def __init__(self) -> None:
        self.until, self.skip = 0.0, 0
        self.on_due: Callable[[], bool] = lambda: False
        self.follow: Callable[[], None] = lambda: None
        self.awake: Callable[[type, Any, bool], None] = lambda event_type, subject, accumulated: (
            None
        )
        self.ends, self.losses = list[float](), list[float]()
        self.loss: float | None = None
        self.ender: Any = None
        self.worked = self.several = False
        self.passes, self.rounds = list[float](), list[list[float]]()
        self._cleared = 0  # counted steps that are no longer in `ends`

    @property
    def counted(self) -> int:
        """How many steps were ever only counted."""
        return self._cleared + len(self.ends)

    def step_event(self, event_type: type, subject: Any, accumulated: bool = True) -> None:
        """Handle one event. What is inlined here would otherwise be calls, which take time."""
        if self.until:
            if event_type is BackwardEnded:
                self.worked = True
                array = subject[0]._array
                if (
                    array.__class__ is ndarray and array.size == 1
                ):  # reading from a GPU waits for it
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
        is_sampled = self.on_due()
        if is_sampled:
            self.follow()
        return is_sampled

    def clear(self, several: bool = False) -> None:
        """Forget the steps that were counted: they have been reported.

        Args:
            several: from now on, a step has several losses.
        """
        self.several, self.worked = several, False
        self.passes, self.rounds = [], []
        self._cleared, self.ends, self.losses = self.counted, [], []
