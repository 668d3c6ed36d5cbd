"""Lists the answers of a class that are similar: a table, and both codes side by side.

    python -m edutorch classroom similarity DIR --out FOLDER        (extra `classroom-report`)

`copydetect` compares fingerprints of the code: all passages of 20 characters, after names are
replaced and comments and spaces removed. What everybody got is removed before: the starter, the
cells of the notebook, the solution that it shows; and passages that a tenth of the class has. A
short answer has only one shape, so answers with little code of their own are not compared.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import itertools
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import missing_extra
from ..utils.course_folder import course_folder
from .answer_cells import Cell, answer_cell, read_cells, source_of_answer
from .class_grader import sort_files
from .exercise import Exercise, find_exercise, load_exercises
from .exercise_grader import ClassSettings
from .new_folder import new_folder
from .similarity_page import Pair, count_of, page, table
from .submissions import Submission, SubmissionError, by_student, find_submissions

OP = "classroom similarity"
TABLE, PAGE = "similar.csv", "similar.html"

GRAM = 20
"""Characters of a passage that is compared. With 10, honest answers share a third."""

LEAST = 60
"""Characters of own code that an answer must have to be compared."""

COMMON_SHARE, COMMON_STUDENTS = 0.1, 10
"""A passage is common if more than this share of the students has it, and more than so many."""


class Answer(NamedTuple):
    """One student's answer to one exercise, with copydetect's fingerprint of it."""

    student: str
    exercise: str
    code: str
    fingerprint: Any


def share(text: str) -> float:
    """Return a number above 0 and at most 1, for argparse."""
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1, got {value:g}")
    return value


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `classroom similarity`."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="the hand-ins, in any layout")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER",
                        help=f"gets {TABLE} and {PAGE}")  # fmt: skip
    parser.add_argument("--threshold", type=share, default=0.6, metavar="SHARE",
                        help="of the own code that is in common; by default 0.6")  # fmt: skip
    parser.add_argument("--only", action="append", metavar="EXERCISE", help="may be repeated")
    parser.add_argument("--notebooks", type=Path, metavar="FOLDER",
                        help="of the course: what is in them is not compared")  # fmt: skip


def report(options: argparse.Namespace) -> int:
    """Write the report; return 0 if everything could be read.

    Raises: MissingExtraError: copydetect is not installed.
    """
    if importlib.util.find_spec("copydetect") is None:
        raise missing_extra("classroom-report", OP, "copydetect is not installed")
    known = load_exercises()
    exercises = {id: find_exercise(id) for id in options.only or ()} or known
    students, errors = by_student(find_submissions(options.folder))
    sources, problems = read_answers(students, exercises)
    for problem in (*errors, *problems):
        print(problem, file=sys.stderr)
    template = template_cells(options.notebooks or course_folder(), exercises)
    pairs = sorted(
        similar_pairs(sources, exercises, template, options.threshold),
        key=lambda pair: (-pair.share, -pair.characters, pair.exercise, pair.students),
    )
    with new_folder(OP, options.out) as folder:
        (folder / TABLE).write_text(table(pairs), encoding="utf-8", newline="")
        text = page(pairs, len(students), options.threshold)
        (folder / PAGE).write_text(text, encoding="utf-8")
    print(f"{count_of(pairs)}: {options.out / PAGE} (similarity is no proof)")
    return int(bool(errors or problems))


def read_answers(
    students: Mapping[str, Sequence[Submission]], exercises: Mapping[str, type[Exercise]]
) -> tuple[dict[tuple[str, str], str], list[SubmissionError]]:
    """Return the code of the answers by (exercise, student), and what could not be read."""
    sources: dict[tuple[str, str], str] = {}
    problems: list[SubmissionError] = []
    settings = ClassSettings(exercises, 0)
    for student, files in students.items():
        sorted_files, errors = sort_files(files, settings)
        problems += errors
        for notebook, file in ((name, file) for name, own in sorted_files.items() for file in own):
            try:
                cells = read_cells(file)
            except SubmissionError as error:
                problems.append(error)
                continue
            for id, exercise in exercises.items():
                cell = answer_cell(cells, exercise) if exercise.notebook == notebook else None
                if cell is not None:
                    sources[id, student] = code_of(cells, cell)
    return sources, problems


def code_of(cells: Sequence[Cell], answer: Cell) -> str:
    """Return an answer with the definitions that it uses, as one text."""
    try:
        parts = source_of_answer(cells, answer)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        parts = [answer.source]  # no Python, and it may still be a copy
    # As copydetect's lexer reads it, so that its positions are those in this text.
    return "\n".join("\n\n".join(parts).splitlines()).strip("\n") + "\n"


def template_cells(
    folder: Path | None, exercises: Mapping[str, type[Exercise]]
) -> dict[str, list[str]]:
    """Return the code of the notebooks that everybody got, by notebook.

    Raises: SubmissionError: a notebook is damaged.
    """
    cells: dict[str, list[str]] = {}
    for notebook in {exercise.notebook for exercise in exercises.values()}:
        path = None if folder is None else folder / f"{notebook}.ipynb"
        if path is not None and path.exists():
            submission = Submission("", str(path), path.read_bytes)
            cells[notebook] = [cell.source for cell in read_cells(submission)]
    return cells


# Comparing ---------------------------------------------------------------------------------------


def fingerprint_of(code: str) -> Any:
    """Return copydetect's fingerprint of a code: all of its passages."""
    from copydetect import CodeFingerprint

    # With a window of 1 no passage is left out. Which are is decided by Python's hashes, which
    # differ from run to run: so would the report.
    return CodeFingerprint("answer.py", GRAM, 1, language="python", fp=io.StringIO(code))


def similar_pairs(
    sources: Mapping[tuple[str, str], str],
    exercises: Mapping[str, type[Exercise]],
    template: Mapping[str, Sequence[str]],
    threshold: float,
) -> Iterator[Pair]:
    """Yield the pairs of answers that have at least this share in common."""
    for id, exercise in exercises.items():
        answers = [
            Answer(student, id, code, fingerprint_of(code))
            for (of, student), code in sources.items()
            if of == id
        ]
        shown = (
            exercise.starter, exercise.before, exercise.solution,
            *template.get(exercise.notebook, ()),
        )  # fmt: skip
        seen = set().union(*(fingerprint_of(code).hashes for code in shown if code.strip()))
        seen |= common_passages(answers)
        for answer in answers:
            remove_passages(answer.fingerprint, seen)
        own = [answer for answer in answers if answer.fingerprint.token_coverage >= LEAST]
        for one, other in itertools.combinations(own, 2):
            pair = compare_answers(one, other)
            if pair is not None and pair.share >= threshold:
                yield pair


def common_passages(answers: Sequence[Answer]) -> set[int]:
    """Return the passages that so many have that they say nothing about two of them."""
    most = max(COMMON_STUDENTS, COMMON_SHARE * len(answers))
    count = Counter(passage for answer in answers for passage in answer.fingerprint.hashes)
    return {passage for passage, students in count.items() if students > most}


def remove_passages(fingerprint: Any, passages: set[int]) -> None:
    """Take passages out of a fingerprint.

    copydetect's own `boilerplate` takes a passage out, too, that an answer holds twice.
    """
    from copydetect.utils import get_token_coverage

    fingerprint.hashes -= passages
    fingerprint.hash_idx = {
        passage: where
        for passage, where in fingerprint.hash_idx.items()
        if passage in fingerprint.hashes
    }
    length = len(fingerprint.filtered_code)
    fingerprint.token_coverage = get_token_coverage(fingerprint.hash_idx, GRAM, length)


def compare_answers(one: Answer, other: Answer) -> Pair | None:
    """Return two answers with what they have in common; None if that is nothing."""
    from copydetect import compare_files

    if one.fingerprint.hashes.isdisjoint(other.fingerprint.hashes):
        return None
    characters, shares, slices = compare_files(one.fingerprint, other.fingerprint)
    return Pair(
        one.exercise, (one.student, other.student), (one.code, other.code),
        (min(float(shares[0]), 1.0), min(float(shares[1]), 1.0)), int(characters),
        (passages_of(slices[0], len(one.code)), passages_of(slices[1], len(other.code))),
    )  # fmt: skip


def passages_of(slices: Iterable[Iterable[float]], length: int) -> list[tuple[int, int]]:
    """Return (start, end) of passages in order, joined where they overlap.

    >>> from edutorch.classroom.similarity import passages_of
    >>> passages_of([[5, 0, 8], [9, 2, 40]], 20)
    [(0, 2), (5, 20)]
    """
    starts, ends = slices
    merged: list[tuple[int, int]] = []
    for start, end in sorted(zip(map(int, starts), map(int, ends), strict=True)):
        start, end = max(start, 0), min(end, length)
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        elif start < end:
            merged.append((start, end))
    return merged
