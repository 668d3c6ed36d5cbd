"""Grades one exercise of one student: finds the answer, asks it in a jail, and judges it.

What goes wrong with a file or a cell costs this exercise its points, with one sentence that says
why; nothing is raised.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from .answer_cells import Cell, answer_cell, source_of_answer
from .assignment import Assignment
from .attempt import Attempt
from .exercise import Exercise
from .feedback import ExerciseFeedback, all_examples, feedback_on, first_example
from .grading import Ask, Outcome, RightCase, grade_cases, right_cases
from .own_values import CourseValues, sentence_for
from .results import ExerciseResult
from .submissions import Submission


class Jail(Protocol):
    """A process with one student's code, which answers questions."""

    def ask(
        self, answer_source: str, case: Mapping[str, Any], forbid: frozenset[str], seconds: float
    ) -> Attempt: ...


OpenJail = Callable[[list[str]], AbstractContextManager[Jail]]
"""Opens a jail with the student's source; inside, `ask` runs it. `jail.JailFactory` has one."""


class ClassSettings(NamedTuple):
    """How a class is graded.

    Attributes:
        exercises: those of the assignment, by id.
        seed: draws the cases: the same ones for all students.
        seconds: for all cases of an exercise; then the answer counts as wrong.
        submission_seconds: for all exercises of a student.
        assignment: points, what late costs, and which of several hand-ins counts.
        own_values: of each student; None grades all with those of the course's notebook.
        feedback: the form of the students' feedback: "html", "notebook" or "none".
    """

    exercises: Mapping[str, type[Exercise]]
    seed: int
    seconds: float = 10.0
    submission_seconds: float = 120.0
    assignment: Assignment = Assignment()
    own_values: CourseValues | None = None
    feedback: str = "none"

    def maximum(self, exercise: type[Exercise]) -> float:
        """Return the points that an exercise gives in this assignment."""
        return self.assignment.points.get(exercise.id, exercise.points)

    def values_of(self, student: str, exercise: type[Exercise]) -> dict[str, Any] | None:
        """Return the student's own values; None where all have the same exercise."""
        return None if self.own_values is None else self.own_values.of(student, exercise)


class HandIn(NamedTuple):
    """A notebook that a student has handed in, perhaps one of several."""

    file: Submission
    cells: list[Cell]
    days_late: int


class Graded(NamedTuple):
    """The result of an exercise for the teacher, and what the student is told."""

    result: ExerciseResult
    feedback: ExerciseFeedback


def seed_of(run_seed: int, id: str) -> int:
    """Return the seed of an exercise's cases: another one for each exercise of a run."""
    digest = hashlib.sha256(f"{run_seed}:{id}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


shared_cases = functools.lru_cache(256)(right_cases)
"""The cases of an exercise and what is right: worked out once, and the same for all students."""


def grade_exercise(
    exercise: type[Exercise],
    hand_ins: Sequence[HandIn] | None,
    open_jail: OpenJail,
    settings: ClassSettings,
    student: str,
) -> Graded:
    """Grade one exercise. Of several hand-ins of its notebook, the last or the best one counts.

    The best one is that with the most points after the late rule; the later one of two equal ones.

    Args:
        hand_ins: None if the notebook was not handed in; empty if no file of it can be read.
    """
    if not hand_ins:
        why = "was not handed in" if hand_ins is None else "cannot be read"
        return lost(exercise, settings, f"{exercise.notebook} {why}")
    refuses_late = settings.assignment.late.refuse
    accepted = [hand_in for hand_in in hand_ins if not (hand_in.days_late and refuses_late)]
    if not accepted:
        last = hand_ins[-1]
        sentence = "was handed in late, and late hand-ins do not count"
        graded = lost(exercise, settings, sentence, last.file)
        return graded._replace(result=graded.result._replace(days_late=last.days_late))
    if settings.assignment.hand_ins == "last":
        accepted = accepted[-1:]
    best = None
    for hand_in in accepted:
        graded = grade_hand_in(exercise, hand_in, open_jail, settings, student)
        counted = settings.assignment.points_after(graded.result.points, hand_in.days_late)
        result = graded.result._replace(counted=counted, days_late=hand_in.days_late)
        if best is None or counted >= (best.result.counted or 0.0):
            best = graded._replace(result=result)
    assert best is not None
    return best


def lost(
    exercise: type[Exercise], settings: ClassSettings, sentence: str,
    file: Submission | None = None, cell: Cell | None = None,
) -> Graded:  # fmt: skip
    """Return the result of what could not be graded."""
    result = ExerciseResult(
        exercise.id, 0.0, settings.maximum(exercise), 0, 0, sentence, counted=0.0,
        file=file.file if file else "", cell=cell.id if cell else "",
    )  # fmt: skip
    own = result._replace(file=file.name) if file else result  # without the teacher's folders
    told = f"{own.location}: {sentence}" if own.location else sentence
    code = cell.source if cell else ""
    return Graded(result, ExerciseFeedback(exercise, 0.0, code=code, sentence=told))


def grade_hand_in(
    exercise: type[Exercise],
    hand_in: HandIn,
    open_jail: OpenJail,
    settings: ClassSettings,
    student: str,
) -> Graded:
    """Grade one exercise of one hand-in."""
    file, cells, _ = hand_in
    cell = answer_cell(cells, exercise)
    if cell is None:
        names = ", ".join(exercise.names)
        sentence = f"no cell {exercise.cell!r}, and none that defines {names}"
        return lost(exercise, settings, sentence, file)
    try:
        sources = [exercise.before, *source_of_answer(cells, cell)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return lost(exercise, settings, f"is no Python ({error})", file, cell)
    values = settings.values_of(student, exercise)
    answers: list[Attempt] = []
    with open_jail(sources) as jail:
        ask = asker(jail, exercise, settings)
        # Before the process sees a hidden case; also where nobody asks for feedback, on which no
        # result depends.
        example = first_example(exercise, ask, values)
        outcome = grade_cases(
            exercise, recorded(ask, answers), cases_of(exercise, settings, values)
        )
    result = result_of(outcome, settings)._replace(file=file.file, cell=cell.id)
    if settings.own_values is not None and not outcome.is_right:
        result = told_whose(result, exercise, settings, answers, student)
    if settings.feedback != "none" and example.is_right and not outcome.is_right:
        with open_jail(sources) as jail:  # one of the others may show what is wrong
            example = all_examples(exercise, asker(jail, exercise, settings), values)
    feedback = feedback_on(outcome, cell.source, example)
    if result.hint is None and not outcome.is_right and result.sentence != outcome.advice[0].text:
        feedback = feedback._replace(sentence=result.sentence)  # about somebody else's values
    return Graded(result, feedback)


def cases_of(
    exercise: type[Exercise], settings: ClassSettings, values: Mapping[str, Any] | None
) -> tuple[RightCase, ...]:
    """Return the hidden cases of an exercise, with the student's own values if it has some."""
    seed = seed_of(settings.seed, exercise.id)
    return shared_cases(exercise, seed) if values is None else right_cases(exercise, seed, values)


def asker(jail: Jail, exercise: type[Exercise], settings: ClassSettings) -> Ask:
    """Return the function that asks the code in a jail for its answers."""
    source = exercise.answer_source()
    return lambda case: jail.ask(source, case, exercise.forbid, settings.seconds)


def recorded(ask: Ask, answers: list[Attempt]) -> Ask:
    """Return a function that asks, and appends what it is answered to `answers`."""

    def ask_and_record(case: Mapping[str, Any]) -> Attempt:
        answers.append(ask(case))
        return answers[-1]

    return ask_and_record


def result_of(outcome: Outcome, settings: ClassSettings) -> ExerciseResult:
    """Return the result of a graded exercise for the teacher."""
    maximum = settings.maximum(outcome.exercise)
    advice = outcome.advice[0] if outcome.advice else None
    return ExerciseResult(
        outcome.exercise.id, float(maximum) if outcome.is_right else 0.0, maximum, outcome.passed,
        outcome.total, advice.text if advice else "", advice.index if advice else None,
    )  # fmt: skip


def told_whose(
    result: ExerciseResult,
    exercise: type[Exercise],
    settings: ClassSettings,
    answers: Sequence[Attempt],
    student: str,
) -> ExerciseResult:
    """Return a result that says whose values a wrong answer is right for, if anybody's."""
    assert settings.own_values is not None
    seed = seed_of(settings.seed, exercise.id)
    owners = settings.own_values.owners(exercise, seed, answers, student)
    if not owners:
        return result
    others = tuple(filter(None, owners))
    return result._replace(sentence=sentence_for(owners), hint=None, right_for=others)
