"""The gradebook of Canvas, filled in: `python -m edutorch grade export --canvas gradebook.csv`.

Canvas reads the columns Student, ID, SIS User ID, SIS Login ID and Section, and those of
assignments, "Lesson 2 (4711)", whose points stand in a line "Points Possible". Only the column of
this assignment is written, so that an upload changes nothing else; an empty cell changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..results import StudentResult
from .gradebooks import (
    OP,
    Keys,
    Table,
    check_maximum,
    match,
    maximum_points,
    name_set,
    read_table,
)
from .lessons import ExportError

STUDENT, ID, POINTS = "Student", "ID", "Points Possible"
NAMES = ("SIS User ID", "SIS Login ID", "Section")


def canvas_gradebook(
    path: Path, students: Sequence[StudentResult], assignment: str, skip_unknown: bool = False
) -> tuple[Table, list[str]]:
    """Return a gradebook with the points of one assignment.

    Args:
        path: the gradebook as Canvas exports it.
        assignment: the column, with or without Canvas's number: "Lesson 2 (4711)" or "Lesson 2".
            If there is none, Canvas asks whether to create the assignment.
        skip_unknown: leave out who is not in the gradebook.

    Returns: the table, and a sentence for everyone who is on one side only.

    Raises: ExportError: the file is no such gradebook, or does not fit the results.
    """
    table = read_table(path, (STUDENT, ID))
    column, notes = assignment_column(table, assignment)
    # Lines such as "Manual Posting" stand above that of the points; none of them has an id.
    people = [line for line in table.lines if table.cell(line, ID)]
    check_lines(table)
    for line in table.lines:
        if table.cell(line, STUDENT) == POINTS and column in table.header:
            check_maximum(table.cell(line, column), f"{POINTS} of {column}", path, students)
    keys = [
        Keys(
            table.cell(line, ID), name_set(table.cell(line, name) for name in NAMES[:2]),
            table.cell(line, STUDENT),
        )
        for line in people
    ]  # fmt: skip
    matches = match(path, keys, students, skip_unknown)
    kept = [name for name in (STUDENT, ID, *NAMES) if name in table.header]
    blank = [""] * (len(kept) - 1)
    lines = [[f"    {POINTS}", *blank, f"{maximum_points(students):g}"]]
    for line, result in zip(people, matches.results, strict=True):
        points = f"{result.counted:g}" if result else ""
        lines.append([*(table.cell(line, name) for name in kept), points])
    return Table(path, [*kept, column], lines, table.delimiter), [*notes, *matches.notes]


def check_lines(table: Table) -> None:
    """Refuse a student without an id: only the lines before that of the points have none."""
    students = [table.cell(line, STUDENT) for line in table.lines]
    start = students.index(POINTS) + 1 if POINTS in students else 0
    for line in table.lines[start:]:
        if not table.cell(line, ID):
            raise ExportError(OP, f"{table.path}: {table.cell(line, STUDENT)!r} has no ID")


def assignment_column(table: Table, assignment: str) -> tuple[str, list[str]]:
    """Return the column of an assignment, and a note if there is none.

    Raises: ExportError: there are several.
    """
    title = re.compile(rf"{re.escape(assignment.strip())}( \(\d+\))?")
    fitting = [name for name in table.header if title.fullmatch(name)]
    if len(fitting) > 1:
        raise ExportError(
            OP, f"{table.path}: {' and '.join(fitting)} are columns of {assignment!r}",
            hint="give --assignment with its number",
        )  # fmt: skip
    if fitting:
        return fitting[0], []
    note = f"{table.path} has no column {assignment!r}: Canvas will ask whether to create it"
    return assignment.strip(), [note]
