"""Grades one exercise: asks for the answers to its cases, and chooses the hints.

`ask` runs the student's code: here (`attempt.run_answer`), or in a process of its own. So this
half, which knows what is right, is the same for the notebook and for the grader of a class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .attempt import Attempt
from .comparison import compare
from .exercise import Exercise, Hint

Ask = Callable[[Mapping[str, Any]], Attempt]
RightCase = tuple[Mapping[str, Any], Any]


class Advice(NamedTuple):
    """A sentence for the student.

    Attributes:
        mark: the op or leaf in the student's graph that it is about; "" for none.
        index: of the exercise's hint; None for a general sentence.
    """

    text: str
    mark: str = ""
    index: int | None = None


class Outcome(NamedTuple):
    """What came of all cases of an exercise.

    Attributes:
        passed, total: cases that were right, and all.
        attempt: the first one that was not right; the last one if all were.
        advice: sentences for it, the most helpful first; empty if all were right.
    """

    exercise: type[Exercise]
    passed: int
    total: int
    attempt: Attempt
    advice: tuple[Advice, ...]

    @property
    def is_right(self) -> bool:
        return self.passed == self.total

    @property
    def points(self) -> float:
        """All points, or none: an answer that is right for some cases is wrong."""
        return self.exercise.points if self.is_right else 0.0


def grade(
    exercise: type[Exercise], ask: Ask, seed: int, values: Mapping[str, Any] | None = None
) -> Outcome:
    """Grade an exercise with the cases of a seed.

    Args:
        values: of this student, where each has values of his or her own.
    """
    return grade_cases(exercise, ask, right_cases(exercise, seed, values))


def right_cases(
    exercise: type[Exercise], seed: int, values: Mapping[str, Any] | None = None
) -> tuple[RightCase, ...]:
    """Return the cases of a seed, each with the right answer."""
    return tuple((case, exercise.right(**case)) for case in exercise.draw_cases(seed, values))


def grade_cases(exercise: type[Exercise], ask: Ask, cases: Sequence[RightCase]) -> Outcome:
    """Grade an exercise with some cases."""
    passed, failed, attempt = 0, None, Attempt({})
    for case, right in cases:
        attempt = judge(exercise, ask(case), right)
        passed += attempt.is_right
        failed = failed or (None if attempt.is_right else attempt)
    advice = () if failed is None else tuple(advise(exercise, failed))
    return Outcome(exercise, passed, len(cases), failed or attempt, advice)


def judge(exercise: type[Exercise], attempt: Attempt, right: Any) -> Attempt:
    """Compare an answer with what is right."""
    if attempt.error:
        return attempt
    difference = compare(attempt.value, right, exercise.tolerance)
    return attempt._replace(right=right, difference=difference)


def advise(exercise: type[Exercise], attempt: Attempt) -> list[Advice]:
    """Return the sentences for a wrong answer, the most helpful first."""
    advice = [
        Advice(f"write it without `{name}`: that is what this exercise is about", name)
        for name in attempt.forbidden
    ]
    if attempt.error:
        at = f" ({attempt.line})" if attempt.line else ""
        advice.append(Advice(f"your code raised {attempt.error}{at}"))
    advice += [
        Advice(hint.text, hint.mark, index)
        for index, hint in enumerate(exercise.hints)
        if holds(hint, attempt)
    ]
    if attempt.difference:
        advice.append(Advice(str(attempt.difference)))
    return advice


def holds(hint: Hint, attempt: Attempt) -> bool:
    """Return whether a hint is about an attempt; not where its condition cannot be computed."""
    try:
        return bool(hint.when(attempt))
    except Exception:  # noqa: BLE001  (such as an answer without elements)
        return False
