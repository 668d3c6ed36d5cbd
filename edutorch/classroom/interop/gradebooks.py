"""The tables that Canvas and Moodle hand out, and whose row a student's result is.

A teacher downloads the table, a copy of it is filled in, and uploaded. Ids are text: they keep
their zeros. No cell is written that a spreadsheet takes for a formula.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..results import RESULTS, StudentResult, as_text
from .lessons import ExportError

OP = "grade export"


class Table(NamedTuple):
    """A CSV file.

    Attributes:
        header: the names of its columns.
        lines: all other lines, each as long as the header.
        delimiter: a comma, or the semicolon of countries with decimal commas.
    """

    path: Path
    header: list[str]
    lines: list[list[str]]
    delimiter: str = ","

    def cell(self, line: Sequence[str], column: str) -> str:
        """Return a cell without spaces around it; "" if there is no such column."""
        return line[self.header.index(column)].strip() if column in self.header else ""

    def to_bytes(self) -> bytes:
        """Return the file, without formulas."""
        text = io.StringIO()
        writer = csv.writer(text, delimiter=self.delimiter, lineterminator="\r\n")
        writer.writerows([as_text(cell) for cell in line] for line in [self.header, *self.lines])
        return text.getvalue().encode()


def read_table(path: Path, needed: Sequence[str]) -> Table:
    """Read a CSV file.

    Args:
        needed: the columns that it must have.

    Raises: ExportError: there is no such file, it is no CSV file, or lacks a column.
    """
    if not path.is_file():
        raise ExportError(OP, f"there is no file {str(path)!r}")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ExportError(OP, f"{path}: is no UTF-8 text ({error.reason})") from error
    first = text.partition("\n")[0]
    delimiter = ";" if first.count(";") > first.count(",") else ","
    try:
        lines = list(csv.reader(io.StringIO(text), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise ExportError(OP, f"{path}: is no CSV file ({error})") from error
    header = [name.strip() for name in lines[0]] if lines else []
    for column in needed:
        if header.count(column) != 1:
            raise ExportError(
                OP, f"{path}: has {header.count(column)} columns {column!r}, and needs one",
                hint="take the file as it was downloaded, in English",
            )  # fmt: skip
    whole = []
    for index, line in enumerate(lines[1:], 2):
        if len(line) > len(header):
            raise ExportError(OP, f"{path}: line {index} has more cells than the first line")
        if any(cell.strip() for cell in line):
            whole.append(line + [""] * (len(header) - len(line)))
    return Table(path, header, whole, delimiter)


def read_results(folder: Path) -> list[StudentResult]:
    """Read the results of a run of `python -m edutorch grade`.

    Raises: ExportError: there are none, or a student is there twice.
    """
    path = folder / RESULTS
    try:
        document = json.loads(path.read_text("utf-8"))
        students = [StudentResult.from_json(fields) for fields in document["students"]]
    except FileNotFoundError as error:
        raise ExportError(
            OP, f"there are no results {str(path)!r}",
            hint="--results is the folder that `grade` wrote, its --out",
        ) from error  # fmt: skip
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ExportError(OP, f"{path}: holds no results of `grade` ({error})") from error
    for names in ([s.student for s in students], [s.number for s in students if s.number]):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ExportError(OP, f"{path}: {', '.join(twice)} is there twice")
    return students


def maximum_points(students: Sequence[StudentResult]) -> float:
    """Return the points of the whole assignment."""
    return max((sum(one.maximum for one in s.exercises) for s in students), default=0.0)


def check_maximum(said: str, column: str, path: Path, students: Sequence[StudentResult]) -> None:
    """Refuse a table that gives other points for the assignment than the run.

    Raises: ExportError: it does.
    """
    own = maximum_points(students)
    try:
        theirs = float(said.replace(",", ".")) if said else own
    except ValueError as error:
        raise ExportError(OP, f"{path}: {column} is {said!r}, which is no number") from error
    if theirs != own:
        raise ExportError(
            OP, f"{path}: {column} is {theirs:g}, and the run has {own:g} points",
            hint=f"set the assignment to {own:g} points, and download the file again",
        )  # fmt: skip


class Keys(NamedTuple):
    """By what a line of a table is recognised: the id, or one of several names."""

    id: str
    names: frozenset[str]
    shown: str


class Matches(NamedTuple):
    """The results of a class in the order of a table.

    Attributes:
        results: for each line; None for who has handed in nothing.
        notes: a sentence for everyone who is on one side only.
    """

    results: list[StudentResult | None]
    notes: list[str]


def match(
    path: Path, keys: Sequence[Keys], students: Sequence[StudentResult], skip_unknown: bool
) -> Matches:
    """Return which result belongs to which line: by the id, or by a name where none is known.

    Args:
        skip_unknown: leave out results of students who are not in the table.

    Raises: ExportError: a student is in the table twice, or not at all.
    """
    refuse_twice(path, keys)
    by_id = {key.id: index for index, key in enumerate(keys)}
    results: list[StudentResult | None] = [None] * len(keys)
    unknown = []
    for student in students:
        index = by_id.get(student.number) if student.number else by_name(path, keys, student)
        if index is None:
            unknown.append(student.student)
            continue
        earlier = results[index]
        if earlier is not None:
            raise ExportError(
                OP, f"{path}: {earlier.student} and {student.student} are both "
                f"{keys[index].shown}",
            )  # fmt: skip
        results[index] = student
    if unknown and not skip_unknown:
        raise ExportError(
            OP, f"{path}: lacks {', '.join(unknown)}, who handed in; nothing was written",
            hint="download it again, or leave them out with --missing skip",
        )  # fmt: skip
    absent = [key.shown for key, result in zip(keys, results, strict=True) if result is None]
    notes = [f"{name} is not in {path}: left out" for name in unknown]
    return Matches(
        results, notes + [f"{name} has handed in nothing: left empty" for name in absent]
    )


def by_name(path: Path, keys: Sequence[Keys], student: StudentResult) -> int | None:
    """Return the line of a student whose id is not known.

    Raises: ExportError: there are several.
    """
    fitting = [index for index, key in enumerate(keys) if student.student in (key.id, *key.names)]
    if len(fitting) > 1:
        raise ExportError(OP, f"{path}: {student.student} may be any of {len(fitting)} lines")
    return fitting[0] if fitting else None


def refuse_twice(path: Path, keys: Sequence[Keys]) -> None:
    """Refuse lines without an id, and two with the same one."""
    shown: dict[str, str] = {}
    for key in keys:
        if not key.id:
            raise ExportError(OP, f"{path}: {key.shown} has no id")
        if key.id in shown:
            raise ExportError(OP, f"{path}: {key.shown} is there twice, with the id {key.id}")
        shown[key.id] = key.shown


def name_set(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name in names if name)


def sentences_of(student: StudentResult) -> Mapping[str, str]:
    """Return what is said of each exercise that is not right."""
    return {one.exercise: one.sentence for one in student.exercises if one.sentence}
