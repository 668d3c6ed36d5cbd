"""Grades the hand-ins of a whole class: one student after the other, each exercise by itself.

What goes wrong with one file or cell costs that exercise its points, with one sentence that names
the student, the file, the cell and the cause; the run goes on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from .answer_cells import read_cells
from .assignment import Assignment
from .exercise import EXERCISES
from .exercise_grader import ClassSettings, Graded, HandIn, OpenJail, grade_exercise
from .feedback import ExerciseFeedback
from .feedback_files import render_pages
from .feedback_page import StudentPage
from .results import StudentResult
from .submissions import Submission, SubmissionError

WITHOUT_EXERCISES = ("00_five_minute_tour",)
"""Lessons of the course that have nothing to grade."""

MOMENT = 0.001  # what is left when the time of a submission is up


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
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def grade_student(
    name: str, files: Sequence[Submission], open_jail: OpenJail, settings: ClassSettings
) -> StudentResult:
    """Grade all exercises of one student."""
    hand_ins, problems = read_hand_ins(files, settings)
    if settings.assignment.hand_ins == "last":
        problems += handed_in_twice(hand_ins)
    graded: list[Graded] = []
    left = settings.submission_seconds
    opened: list[Any] = []

    def open_and_remember(sources: list[str]) -> Any:
        opened.append(open_jail(sources))
        return opened[-1]

    for exercise in settings.exercises.values():
        start = time.monotonic()
        limits = settings._replace(seconds=min(settings.seconds, max(left, MOMENT)))
        own = hand_ins.get(exercise.notebook)
        graded.append(grade_exercise(exercise, own, open_and_remember, limits, name))
        left -= time.monotonic() - start
        left += sum(getattr(jail, "start_seconds", 0.0) for jail in opened)  # not the student's
        opened.clear()
    results = tuple(result for result, _ in graded)
    late = any(file.late for file in files) or any(result.days_late for result in results)
    told = [without_folders(problem, files) for problem in problems]
    pages = pages_of(name, [feedback for _, feedback in graded], list(hand_ins), told)
    documents = None if settings.feedback == "none" else render_pages(pages, settings.feedback)
    paths = tuple(file.file for file in files)
    return StudentResult(name, files[0].number, late, paths, results, tuple(problems), documents)


def read_hand_ins(
    files: Sequence[Submission], settings: ClassSettings
) -> tuple[dict[str, list[HandIn]], list[str]]:
    """Return the hand-ins of each notebook, in the order of time, and what is wrong with files.

    A notebook that cannot be read has been handed in, too: its page says why.
    """
    sorted_files, errors = sort_files(in_order_of_time(files, settings.assignment), settings)
    problems = list(map(str, errors))
    hand_ins: dict[str, list[HandIn]] = {}
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
    return hand_ins, problems


def handed_in_twice(hand_ins: Mapping[str, Sequence[HandIn]]) -> list[str]:
    """Return a sentence for each notebook that a student has handed in several times."""
    return [
        f"{some[-1].file.file}: counts; {notebook} was also handed in as "
        + ", ".join(hand_in.file.file for hand_in in some[:-1])
        for notebook, some in hand_ins.items()
        if len(some) > 1
    ]


def pages_of(
    student: str, feedback: Sequence[ExerciseFeedback], handed_in: list[str],
    problems: Sequence[str],
) -> list[StudentPage]:  # fmt: skip
    """Return a page for each notebook that was handed in; for all of them if none was."""
    pages: dict[str, list[ExerciseFeedback]] = {}
    for one in feedback:
        if one.exercise.notebook in handed_in or not handed_in:
            pages.setdefault(one.exercise.notebook, []).append(one)
    return [StudentPage(student, notebook, some, problems) for notebook, some in pages.items()]


def without_folders(sentence: str, files: Sequence[Submission]) -> str:
    """Return a sentence for a student: their files without the teacher's folders."""
    for file in files:
        sentence = sentence.replace(file.file, file.name)
    return sentence.removeprefix("grade: ")


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
