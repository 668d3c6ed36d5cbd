"""Grades the hand-ins of a whole class: one student after the other, each exercise by itself.

What goes wrong with one file or cell costs that exercise its points, with one sentence that names
the student, the file, the cell and the cause; the run goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from .answer_cells import Cell, answer_cell, read_cells, source_of_answer
from .attempt import Attempt
from .exercise import Exercise
from .grading import grade
from .results import ExerciseResult, StudentResult
from .submissions import Submission, SubmissionError


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
    """

    exercises: Mapping[str, type[Exercise]]
    seed: int
    seconds: float = 10.0


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
    cells_of: dict[str, list[tuple[Submission, list[Cell]]]] = {}
    for file in files:
        try:
            cells_of.setdefault(notebook_of(file, settings), []).append((file, read_cells(file)))
        except SubmissionError as error:
            problems.append(str(error))
    results = [
        grade_exercise(exercise, cells_of.get(exercise.notebook, []), open_jail, settings)
        for exercise in settings.exercises.values()
    ]
    first = files[0]
    late = any(file.late for file in files)
    paths = tuple(file.file for file in files)
    return StudentResult(name, first.number, late, paths, tuple(results), tuple(problems))


def notebook_of(file: Submission, settings: ClassSettings) -> str:
    """Return the notebook of the course that a file is: by its name, if need be by its number.

    Raises: SubmissionError: none of the assignment.
    """
    stem = file.name.rpartition(".")[0]
    notebooks = sorted({exercise.notebook for exercise in settings.exercises.values()})
    for notebook in notebooks:
        if notebook in stem or stem[:2] == notebook[:2]:
            return notebook
    if len(notebooks) == 1:
        return notebooks[0]
    raise SubmissionError(
        "grade", f"{file.file}: is none of the notebooks {', '.join(notebooks)}",
        hint="the name of the file begins with the number of the notebook",
    )  # fmt: skip


def grade_exercise(
    exercise: type[Exercise],
    notebooks: Sequence[tuple[Submission, list[Cell]]],
    open_jail: OpenJail,
    settings: ClassSettings,
) -> ExerciseResult:
    """Grade one exercise; of several hand-ins of its notebook, the last one counts."""

    def lost(sentence: str) -> ExerciseResult:
        return ExerciseResult(exercise.id, 0.0, exercise.points, 0, 0, sentence)

    if not notebooks:
        return lost(f"{exercise.notebook} was not handed in")
    file, cells = notebooks[-1]
    cell = answer_cell(cells, exercise)
    if cell is None:
        names = ", ".join(exercise.names)
        return lost(f"{file.file}: no cell {exercise.cell!r}, and none that defines {names}")
    try:
        sources = [exercise.before, *source_of_answer(cells, cell)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return lost(f"{file.file}, cell {cell.id!r}: is no Python ({error})")
    seed = seed_of(settings.seed, exercise.id)
    source = exercise.answer_source()
    with open_jail(sources) as jail:
        outcome = grade(
            exercise, lambda case: jail.ask(source, case, exercise.forbid, settings.seconds), seed
        )
    advice = outcome.advice[0] if outcome.advice else None
    return ExerciseResult(
        exercise.id, outcome.points, exercise.points, outcome.passed, outcome.total,
        advice.text if advice else "", advice.index if advice else None,
    )  # fmt: skip
