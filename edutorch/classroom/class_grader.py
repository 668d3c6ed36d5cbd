"""Grades the hand-ins of a whole class: one student after the other, each exercise by itself.

What goes wrong with one file or cell costs that exercise its points, with one sentence that names
the student, the file, the cell and the cause; the run goes on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from .answer_cells import Cell, answer_cell, read_cells, source_of_answer
from .assignment import Assignment
from .attempt import Attempt
from .exercise import EXERCISES, Exercise
from .grading import grade
from .own_values import CourseValues, sentence_for
from .results import ExerciseResult, StudentResult
from .submissions import Submission, SubmissionError

WITHOUT_EXERCISES = ("00_five_minute_tour", "09_data_loading")
"""Lessons of the course that have nothing to grade."""


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
        assignment: points, what late costs, and which of several hand-ins counts.
        own_values: of each student; None grades all with those of the course's notebook.
    """

    exercises: Mapping[str, type[Exercise]]
    seed: int
    seconds: float = 10.0
    assignment: Assignment = Assignment()
    own_values: CourseValues | None = None

    def maximum(self, exercise: type[Exercise]) -> float:
        """Return the points that an exercise gives in this assignment."""
        return self.assignment.points.get(exercise.id, exercise.points)


class HandIn(NamedTuple):
    """A notebook that a student has handed in, perhaps one of several."""

    file: Submission
    cells: list[Cell]
    days_late: int


def seed_of(run_seed: int, id: str) -> int:
    """Return the seed of an exercise's cases: another one for each exercise of a run."""
    digest = hashlib.sha256(f"{run_seed}:{id}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def grade_class(
    students: Mapping[str, Sequence[Submission]],
    open_jail: OpenJail,
    settings: ClassSettings,
    workers: int = 1,
) -> Iterator[StudentResult]:
    """Yield the result of each student, as soon as it is known."""
    with ThreadPoolExecutor(workers) as pool:
        futures = [
            pool.submit(grade_student, name, files, open_jail, settings)
            for name, files in students.items()
        ]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def grade_student(
    name: str, files: Sequence[Submission], open_jail: OpenJail, settings: ClassSettings
) -> StudentResult:
    """Grade all exercises of one student."""
    problems: list[str] = []
    hand_ins: dict[str, list[HandIn]] = {}
    sorted_files, errors = sort_files(in_order_of_time(files, settings.assignment), settings)
    problems += map(str, errors)
    for notebook, own in sorted_files.items():
        for file in own:
            days = int(file.late)
            try:
                days = settings.assignment.days_late(file)
            except SubmissionError as error:
                problems.append(str(error))
            try:
                hand_ins.setdefault(notebook, []).append(HandIn(file, read_cells(file), days))
            except SubmissionError as error:
                problems.append(str(error))
    results = [
        grade_exercise(exercise, hand_ins.get(exercise.notebook, []), open_jail, settings, name)
        for exercise in settings.exercises.values()
    ]
    first = files[0]
    late = any(file.late for file in files) or any(result.days_late for result in results)
    paths = tuple(file.file for file in files)
    return StudentResult(name, first.number, late, paths, tuple(results), tuple(problems))


def in_order_of_time(files: Sequence[Submission], assignment: Assignment) -> list[Submission]:
    """Return hand-ins in the order of their times, and before them, by name, those without one."""

    def key(file: Submission) -> tuple[float, list[Any]]:
        try:
            time = assignment.time_of(file)
        except SubmissionError:
            time = None
        stem = file.file.rpartition(".")[0]  # "a" comes before "a-1", and "a-2" before "a-10"
        return time.timestamp() if time else 0.0, natural_key(stem)

    return sorted(files, key=key)


def natural_key(text: str) -> list[Any]:
    """Return what sorts text with numbers in it as people do.

    >>> from edutorch.classroom.class_grader import natural_key
    >>> sorted(["a10", "a9"], key=natural_key)
    ['a9', 'a10']
    """
    parts = re.split(r"([0-9]+)", text)  # text and digits in turn
    parts[1::2] = [part.lstrip("0") for part in parts[1::2]]
    return [(len(part), part) if index % 2 else part for index, part in enumerate(parts)]


def sort_files(
    files: Sequence[Submission], settings: ClassSettings
) -> tuple[dict[str, list[Submission]], list[SubmissionError]]:
    """Return the files of each notebook of the assignment, and what is wrong with others.

    They are told by their names, if need be by their numbers. Other lessons of the course are left
    out: who hands in a whole folder has done nothing wrong.
    """
    notebooks = sorted({exercise.notebook for exercise in settings.exercises.values()})
    lessons = {exercise.notebook for exercise in EXERCISES.values()}.union(WITHOUT_EXERCISES)
    sorted_files: dict[str, list[Submission]] = {}
    others: list[Submission] = []
    for file in files:
        stem = file.name.rpartition(".")[0]
        own = [name for name in notebooks if name in stem or stem[:2] == name[:2]]
        if own:
            sorted_files.setdefault(own[0], []).append(file)
        elif not any(lesson in stem for lesson in lessons):
            others.append(file)
    if len(notebooks) == 1 and not sorted_files:
        return {notebooks[0]: others}, []
    return sorted_files, [
        SubmissionError(
            "grade", f"{file.file}: is none of the notebooks {', '.join(notebooks)}",
            hint="the name of the file begins with the number of the notebook",
        )
        for file in others
    ]  # fmt: skip


def grade_exercise(
    exercise: type[Exercise],
    hand_ins: Sequence[HandIn],
    open_jail: OpenJail,
    settings: ClassSettings,
    student: str,
) -> ExerciseResult:
    """Grade one exercise. Of several hand-ins of its notebook, the last or the best one counts.

    The best one is that with the most points after the late rule; the later one of two equal ones.
    """
    if not hand_ins:
        return lost(exercise, f"{exercise.notebook} was not handed in", settings)
    accepted = [
        hand_in for hand_in in hand_ins
        if not (hand_in.days_late and settings.assignment.late.refuse)
    ]  # fmt: skip
    if not accepted:
        last = hand_ins[-1]
        sentence = f"{last.file.file}: was handed in late, and late hand-ins do not count"
        return lost(exercise, sentence, settings)._replace(days_late=last.days_late)
    if settings.assignment.hand_ins == "last":
        accepted = accepted[-1:]
    best = None
    for hand_in in accepted:
        result = grade_hand_in(exercise, hand_in, open_jail, settings, student)
        counted = settings.assignment.points_after(result.points, hand_in.days_late)
        result = result._replace(counted=counted, days_late=hand_in.days_late)
        if best is None or counted >= (best.counted or 0.0):
            best = result
    assert best is not None
    return best


def lost(exercise: type[Exercise], sentence: str, settings: ClassSettings) -> ExerciseResult:
    """Return the result of what could not be graded."""
    maximum = settings.maximum(exercise)
    return ExerciseResult(exercise.id, 0.0, maximum, 0, 0, sentence, counted=0.0)


def grade_hand_in(
    exercise: type[Exercise],
    hand_in: HandIn,
    open_jail: OpenJail,
    settings: ClassSettings,
    student: str,
) -> ExerciseResult:
    """Grade one exercise of one hand-in."""
    file, cells, _ = hand_in
    cell = answer_cell(cells, exercise)
    if cell is None:
        names = ", ".join(exercise.names)
        sentence = f"{file.file}: no cell {exercise.cell!r}, and none that defines {names}"
        return lost(exercise, sentence, settings)
    try:
        sources = [exercise.before, *source_of_answer(cells, cell)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        sentence = f"{file.file}, cell {cell.id!r}: is no Python ({error})"
        return lost(exercise, sentence, settings)
    seed = seed_of(settings.seed, exercise.id)
    source, course = exercise.answer_source(), settings.own_values
    answers: list[Attempt] = []

    def ask(case: Mapping[str, Any]) -> Attempt:
        answers.append(jail.ask(source, case, exercise.forbid, settings.seconds))
        return answers[-1]

    with open_jail(sources) as jail:
        outcome = grade(exercise, ask, seed, course and course.of(student, exercise))
    advice = outcome.advice[0] if outcome.advice else None
    maximum = settings.maximum(exercise)
    result = ExerciseResult(
        exercise.id, float(maximum) if outcome.is_right else 0.0, maximum, outcome.passed,
        outcome.total, advice.text if advice else "", advice.index if advice else None,
    )  # fmt: skip
    if course is None or outcome.is_right:
        return result
    owners = course.owners(exercise, seed, answers, student)
    if not owners:
        return result
    others = tuple(filter(None, owners))
    return result._replace(sentence=sentence_for(owners), hint=None, right_for=others)
