"""The results of a class: kept after each student, written as CSV and JSON at the end.

`progress.jsonl` gets one line per student as soon as he or she is graded, so that a run that was
killed loses nothing; `--resume` reads it. `grades.csv` and `results.json` depend on the hand-ins
and the seed alone: two runs with one seed give equal files. When and where it ran is in `run.json`.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..utils.atomic_files import write_atomically

PROGRESS, GRADES, RESULTS, RUN = "progress.jsonl", "grades.csv", "results.json", "run.json"


class ExerciseResult(NamedTuple):
    """What one student got for one exercise.

    Attributes:
        passed, total: cases that were right, and all.
        sentence: why it is not right: the hint, or what could not be graded; "" if it is.
        hint: the index of the exercise's hint; None for a general sentence.
        counted: what the late rule leaves of the points; None: all.
        days_late: of the hand-in that counts.
        right_for: the other students for whose own values the answer is right. It is for the
            teacher alone: `sentence`, which the student gets, names nobody.
        file, cell: where the answer stands: the file, and the id of its cell; "" where it lacks.
    """

    exercise: str
    points: float
    maximum: float
    passed: int
    total: int
    sentence: str
    hint: int | None = None
    counted: float | None = None
    days_late: int = 0
    right_for: tuple[str, ...] = ()
    file: str = ""
    cell: str = ""

    @property
    def location(self) -> str:
        """File and cell, for messages."""
        return f"{self.file}, cell {self.cell!r}" if self.cell else self.file


class StudentResult(NamedTuple):
    """What one student got for all exercises.

    Attributes:
        number: the id in Canvas or Moodle; "" if unknown.
        problems: what was wrong with the files.
        feedback: the student's files, by name, until they are written; not part of the results.
    """

    student: str
    number: str
    late: bool
    files: tuple[str, ...]
    exercises: tuple[ExerciseResult, ...]
    problems: tuple[str, ...] = ()
    feedback: Mapping[str, bytes] | None = None

    @property
    def points(self) -> float:
        return sum(result.points for result in self.exercises)

    @property
    def counted(self) -> float:
        """The points after the late rule."""
        return round(sum(result.points if result.counted is None else result.counted
                         for result in self.exercises), 6)  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        exercises = [result._asdict() for result in self.exercises]
        points = {"points": self.points, "counted": self.counted}
        fields = {**self._asdict(), **points, "exercises": exercises}
        del fields["feedback"]
        return fields

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> StudentResult:
        return cls(
            fields["student"], fields["number"], fields["late"], tuple(fields["files"]),
            tuple(exercise_result(result) for result in fields["exercises"]),
            tuple(fields["problems"]),
        )  # fmt: skip


def exercise_result(fields: dict[str, Any]) -> ExerciseResult:
    return ExerciseResult(**{**fields, "right_for": tuple(fields.get("right_for", ()))})


class Progress:
    """The students that have been graded, one line each, on disk before the next one begins."""

    def __init__(self, folder: Path, resume: bool) -> None:
        self.path = folder / PROGRESS
        self.done: dict[str, StudentResult] = {}
        if resume and self.path.exists():
            whole = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
            # A run that was killed may have left half a line.
            lines = [line for line in whole if line.endswith("\n")]
            for line in lines:
                result = StudentResult.from_json(json.loads(line))
                self.done[result.student] = result
            write_atomically(self.path, "".join(lines).encode())
        else:
            self.path.unlink(missing_ok=True)
        self.stream = self.path.open("a", encoding="utf-8")

    def add(self, result: StudentResult) -> None:
        """Keep a result, on disk."""
        self.done[result.student] = result
        self.stream.write(json.dumps(result.to_json(), sort_keys=True) + "\n")
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def close(self) -> None:
        self.stream.close()


def write_results(
    folder: Path, results: Iterable[StudentResult], seed: int, about: dict[str, Any],
    assignment: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Write all files, each whole or not at all.

    Args:
        seed: drew the cases; with it the run can be repeated.
        about: when, where and how it ran.
        assignment: what its file says; with a date the table gets the points after the late rule.
    """
    in_order = sorted(results, key=lambda result: result.student)
    document = {"seed": seed, "students": [result.to_json() for result in in_order]}
    if assignment is not None:
        document["assignment"] = assignment
    late_rule = bool(assignment and assignment["due"])
    write_atomically(folder / GRADES, grades_csv(in_order, late_rule).encode())
    write_atomically(folder / RESULTS, json_bytes(document))
    write_atomically(folder / RUN, json_bytes({"seed": seed, **about}))


def json_bytes(document: Any) -> bytes:
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def grades_csv(results: Sequence[StudentResult], late_rule: bool = False) -> str:
    """Return a table with a row for each student and a column for each exercise.

    Args:
        late_rule: with a column "counted", the points after the late rule.
    """
    ids = sorted({result.exercise for student in results for result in student.exercises})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["student", "id", "late", *ids, "points", *["counted"] * late_rule, "maximum",
                     "problems"])  # fmt: skip
    for student in results:
        by_id = {result.exercise: result for result in student.exercises}
        points = [f"{by_id[id].points:g}" if id in by_id else "" for id in ids]
        maximum = sum(result.maximum for result in student.exercises)
        row = [student.student, student.number, "late" if student.late else "", *points,
               f"{student.points:g}", *[f"{student.counted:g}"] * late_rule, f"{maximum:g}",
               "; ".join(student.problems)]  # fmt: skip
        writer.writerow([as_text(cell) for cell in row])
    return text.getvalue()


def as_text(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else cell
