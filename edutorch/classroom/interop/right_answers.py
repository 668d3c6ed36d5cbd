"""`assert_right`: checks an answer for graders that run tests beside the student's code."""

from __future__ import annotations

import functools
import secrets
import sys
from collections.abc import Mapping
from typing import Any

from ..attempt import run_answer
from ..exercise import find_exercise
from ..grading import grade


def assert_right(id: str, names: Mapping[str, Any] | None = None, seed: int | None = None) -> None:
    """Raise AssertionError with a hint, unless the answer to an exercise is right.

    Other than `edutorch.check`, it counts no attempts and never shows the solution.

    Args:
        id: the exercise, as "02.softmax".
        names: what the student has defined; by default the variables of the caller.
        seed: draws the same inputs again; by default they are drawn anew.

    Raises: AssertionError: the answer is wrong. SpecError: there is no such exercise.

    >>> from edutorch.classroom.interop import assert_right
    >>> assert_right("02.product", {"gradient_of_B": lambda A, B, C, G: A.T @ G})
    Traceback (most recent call last):
    AssertionError: 02.product: that is the gradient for the product B·C: the way back goes on ...
    """
    exercise = find_exercise(id)
    names = sys._getframe(1).f_globals if names is None else names
    ask = functools.partial(run_answer, exercise.answer, names, forbid=exercise.forbid)
    outcome = grade(exercise, ask, secrets.randbits(32) if seed is None else seed)
    if not outcome.is_right:
        text = outcome.advice[0].text if outcome.advice else "not right yet"
        raise AssertionError(f"{id}: {text}")
