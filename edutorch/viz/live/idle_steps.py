"""What a watched loop pays for a step that nobody looks at: as little as can be.

Between two looks only milestones are heard (see `events.milestone`), and of those only what each
loss was and when each step ended. A step of a small network is over in 400 microseconds, of which
a hundredth is four: that is some ten lines of Python.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from numpy import ndarray

from ...events import BackwardEnded


class IdleSteps:
    """Hears the milestones of a loop first, and hands on those that matter to anybody else.

    Attributes:
        until: of `time.perf_counter`: the steps that end sooner are only counted. 0: none is.
        let_pass: so many more steps after it are.
        on_due: called at the end of the step then; True: a glance at the next one was prepared.
        follow: called if one was, to follow it.
        awake: takes, with the same arguments, each milestone that is not dealt with here.
        ends: when each of the steps ended that were only counted, since the last that was not.
        losses: theirs. Before the first backward, there is none.
        loss: the value of the scalar on which backward last ran, None if unknown.
        ender: the optimizer whose updates each end a step; None: everybody's do.
        worked: a backward has run since the last step that was counted here.
        several: a step has several losses, and all are wanted.
        passes: those of the step that runs. rounds: those of each step in `ends`.
    """

    __slots__ = (
        "_before", "awake", "ender", "ends", "follow", "let_pass", "loss", "losses", "on_due",
        "passes", "rounds", "several", "until", "worked",
    )  # fmt: skip

    def __init__(self) -> None:
        self.until, self.let_pass = 0.0, 0
        self.on_due: Callable[[], bool] = lambda: False
        self.follow: Callable[[], None] = lambda: None
        self.awake: Callable[[type, Any, bool], None] = lambda kind, subject, accumulated: None
        self.ends, self.losses = list[float](), list[float]()
        self.loss: float | None = None
        self.ender: Any = None
        self.worked = self.several = False
        self.passes, self.rounds = list[float](), list[list[float]]()
        self._before = 0  # steps that are in `ends` no more

    @property
    def counted(self) -> int:
        """How many steps were ever only counted."""
        return self._before + len(self.ends)

    def milestone(self, kind: type, subject: Any, accumulated: bool = True) -> None:
        """Take one. What is written here at length would otherwise be calls: they take time."""
        if self.until:
            if kind is BackwardEnded:
                self.worked = True
                array = subject[0]._array
                if array.__class__ is ndarray and array.size == 1:  # to ask a GPU is to wait for it
                    loss = self.loss = array.item()
                    if loss.__class__ is float:
                        if self.several and accumulated:
                            self.passes.append(loss)
                        return
            elif subject is self.ender or self.ender is None:
                now = perf_counter()
                if now < self.until or self._passes():
                    self.ends.append(now)
                    if self.loss is not None:
                        self.losses.append(self.loss)
                    self.worked = False
                    if self.several:
                        self.rounds.append(self.passes)
                        self.passes = []
                    return
        self.awake(kind, subject, accumulated)

    def _passes(self) -> bool:
        """Say whether a step that ended when the next look was due is only counted all the same."""
        if self.let_pass:
            self.let_pass -= 1
            return True
        glances = self.on_due()
        if glances:
            self.follow()
        return glances

    def told(self, several: bool = False) -> None:
        """Forget the steps that were counted: all who wanted to know have been told of them.

        Args:
            several: from now on, a step has several losses.
        """
        self.several, self.worked = several, False
        self.passes, self.rounds = [], []
        self._before, self.ends, self.losses = self.counted, [], []
