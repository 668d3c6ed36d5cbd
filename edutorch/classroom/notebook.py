"""`check`: is the answer in this notebook right? If not, one hint, and the student's own graph.

Each wrong attempt gets the first hint about it that has not been shown yet; when there is none,
the solution. How many attempts there were is kept in the metadata of the cell's output, and is
sent nowhere.
"""

from __future__ import annotations

import base64
import functools
import secrets
import sys
import time
from collections.abc import Mapping
from typing import Any

from ..errors import MissingExtraError
from ..viz.backward_walk.walk import Walk
from ..viz.diagnostics.messages import CODE, STYLE, escape_text
from ..viz.render.graphviz import LayoutError
from ..viz.render.static import Drawing
from .attempt import Attempt, run_answer
from .exercise import Exercise, find_exercise
from .grading import Advice, Ask, Outcome, grade
from .marked_graph import marked_drawing
from .own_values import values_in_notebook
from .time_limit import call_in_time
from .walk_to_mark import walk_to_mark

RIGHT, WRONG = "#1B7F4B", "#B00020"
WALK = "_.walk() in the next cell steps through backward, beginning at this box"


LIMIT = 8.0
"""Seconds that the student's code may take for all cases of an exercise."""

TOO_LONG = f"TimeoutError: it gave no answer in {LIMIT:.0f} s. Is there a loop that does not end?"


class Progress:
    """The wrong attempts at one exercise since it was last right, and the hints that were shown."""

    def __init__(self) -> None:
        self.attempts = 0
        self.shown: set[tuple[int | None, str]] = set()

    def next_advice(self, outcome: Outcome) -> Advice | None:
        """Count an attempt; return the hint to show, or None when all were shown."""
        self.attempts += 1
        for advice in outcome.advice:
            # General sentences hold other numbers each time: they count as one.
            key = advice.index, advice.mark
            if key not in self.shown:
                self.shown.add(key)
                return advice
        return None


progress: dict[str, Progress] = {}
"""By exercise, in this process."""


def check(id: str, names: Mapping[str, Any] | None = None, *, seed: int | None = None) -> Feedback:
    """Check the answer to an exercise, on inputs that are drawn anew each time.

    Args:
        id: the exercise, as "02.softmax".
        names: what the student has defined; by default the variables of the caller.
        seed: draws the same inputs again.

    Raises: SpecError: there is no such exercise; the error names the nearest.

    >>> def gradient_of_logits(z, right):
    ...     return z.softmax(0)
    >>> edutorch.check("02.softmax", {"gradient_of_logits": gradient_of_logits}).is_right
    False
    """
    exercise = find_exercise(id)
    names = sys._getframe(1).f_globals if names is None else names
    seed = secrets.randbits(32) if seed is None else seed
    outcome = grade(exercise, ask_in_time(exercise, names), seed, values_in_notebook.get(id))
    if outcome.is_right:
        progress.pop(id, None)
        return Feedback(outcome, names, 0, None, seed)
    so_far = progress.setdefault(id, Progress())
    advice = so_far.next_advice(outcome)
    return Feedback(outcome, names, so_far.attempts, advice, seed)


def ask_in_time(exercise: type[Exercise], names: Mapping[str, Any]) -> Ask:
    """Return what asks the student's code for one answer; all of them have `LIMIT` seconds."""
    end = time.monotonic() + LIMIT

    def ask(case: Mapping[str, Any]) -> Attempt:
        try:
            return call_in_time(
                end - time.monotonic(),
                lambda: run_answer(exercise.answer, names, case, forbid=exercise.forbid),
            )
        except TimeoutError:
            return Attempt(case, error=TOO_LONG)

    return ask


class Feedback:
    """What `check` returns; a notebook shows it with the picture of the student's graph.

    Attributes:
        outcome: what came of all cases.
        attempt: the number of wrong attempts, with this one.
        advice: the hint; None if the answer is right, or the solution is shown.
        seed: draws the inputs of this attempt again: `check(id, seed=seed)`.
    """

    def __init__(
        self, outcome: Outcome, names: Mapping[str, Any], attempt: int, advice: Advice | None,
        seed: int,
    ) -> None:  # fmt: skip
        self.outcome, self.attempt, self.advice, self.seed = outcome, attempt, advice, seed
        used = (*outcome.exercise.names, *outcome.exercise.reads)
        self._names = {name: names[name] for name in used if name in names}

    @property
    def is_right(self) -> bool:
        return self.outcome.is_right

    @property
    def solution(self) -> str:
        """The solution, when there is no hint left; else ""."""
        exercise = self.outcome.exercise
        if self.is_right or self.advice:
            return ""
        if exercise.values is None:
            return exercise.solution
        case = self.outcome.attempt.case
        return exercise.solution_of(**{name: case[name] for name in exercise.shared_values})

    @functools.cached_property
    def drawing(self) -> Drawing | None:
        """The graph of the first wrong case, with the box that the hint is about."""
        advice = self.advice
        # A picture is made by running the answer again, which would not end either.
        if advice is None or self.outcome.attempt.error == TOO_LONG:
            return None
        exercise: type[Exercise] = self.outcome.exercise
        try:
            return call_in_time(
                LIMIT,
                lambda: marked_drawing(exercise, self._names, self.outcome.attempt, advice.mark),
            )
        except TimeoutError:  # the second run took another way
            return None

    @property
    def can_walk(self) -> bool:
        """Whether a gradient came to the marked box."""
        mark = self.advice.mark if self.advice else ""
        box = self.outcome.attempt.graph.box(mark)
        return box is not None and box.gradient_norm is not None

    def walk(self) -> Walk:
        """Step through backward in the first wrong case, beginning at the marked box.

        Raises: WalkError: nothing in the answer has a gradient.
        """
        mark = self.advice.mark if self.advice else ""
        return walk_to_mark(self.outcome.exercise, self._names, self.outcome.attempt.case, mark)

    def __str__(self) -> str:
        id = self.outcome.exercise.id
        if self.is_right:
            return f"✓ {id}: right, {self.outcome.total} of {self.outcome.total} cases"
        if self.advice:
            return f"✗ {id}, attempt {self.attempt}: {self.advice.text}"
        return f"✗ {id}, attempt {self.attempt}. A solution:\n\n{self.solution}"

    __repr__ = __str__

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        """Return the feedback for a notebook, and the number of attempts as metadata."""
        text = str(self)
        if self.drawing is not None:
            text += f"\n\n{self.drawing.table(40)}\n{self.drawing.caption}"
        if self.can_walk:
            text += f"\n{WALK}"
        about = {"exercise": self.outcome.exercise.id, "attempts": self.attempt,
                 "right": self.is_right}  # fmt: skip
        return {"text/html": self.html(), "text/plain": text}, {"edutorch": about}

    def html(self) -> str:
        """Return the sentence, and the picture as an image, as HTML."""
        head, _, rest = str(self).partition("\n\n")
        code = f'<div style="{CODE}">{escape_text(rest)}</div>' if rest else ""
        style = STYLE.format(colour=RIGHT if self.is_right else WRONG)
        sentence = f'<div style="{style}"><b>{escape_text(head)}</b>{code}</div>'
        walk = f'<div style="{CODE}">{escape_text(WALK)}</div>' if self.can_walk else ""
        return f'<div role="group" aria-label="check">{sentence}{self._image()}{walk}</div>'

    def _image(self) -> str:
        if self.drawing is None:
            return ""
        try:
            image = base64.b64encode(self.drawing.svg.encode()).decode()
        except (LayoutError, MissingExtraError):
            return ""
        alt = escape_text(f"The graph of your code. {self.drawing.caption}")
        return (f'<img style="max-width:100%;background:#ffffff" alt="{alt}" '
                f'src="data:image/svg+xml;base64,{image}">')  # fmt: skip
