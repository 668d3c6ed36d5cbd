"""Moodle's grading worksheet, filled in, and a zip file of feedback files.

The worksheet of an assignment has the columns Identifier ("Participant 1815"), Full name, Email
address, Status, Grade, Maximum Grade, Grade can be changed, dates, and Feedback comments. All of
them are written as they were, but for the grade and the comments of those who have handed in.

In the zip file the feedback lies in folders with the names that Moodle gives to hand-ins:
"Ada Lovelace_1815_assignsubmission_file_".
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..results import StudentResult
from .files import zip_bytes
from .gradebooks import Keys, Table, check_maximum, match, name_set, read_table, sentences_of

IDENTIFIER, NAME, EMAIL = "Identifier", "Full name", "Email address"
GRADE, MAXIMUM, OPEN, COMMENTS = (
    "Grade", "Maximum Grade", "Grade can be changed", "Feedback comments",
)  # fmt: skip


def moodle_worksheet(
    path: Path, students: Sequence[StudentResult], skip_unknown: bool = False
) -> tuple[Table, dict[str, StudentResult], list[str]]:
    """Return a grading worksheet with the points and comments of the results.

    Args:
        path: the worksheet as Moodle hands it out.
        skip_unknown: leave out who is not in it.

    Returns: the table, the results by the folder of the hand-in, and a sentence for everyone who
        is on one side only, or whose grade is locked.

    Raises: ExportError: the file is no such worksheet, or does not fit the results.
    """
    table = read_table(path, (IDENTIFIER, GRADE))
    keys = [keys_of(table, line) for line in table.lines]
    matches = match(path, keys, students, skip_unknown)
    notes, lines, folders = list(matches.notes), [], {}
    for line, key, result in zip(table.lines, keys, matches.results, strict=True):
        check_maximum(table.cell(line, MAXIMUM), MAXIMUM, path, students)
        changes = {}
        if result and table.cell(line, OPEN).lower() == "no":
            notes.append(f"{key.shown} has a grade that cannot be changed: left as it is")
        elif result:
            folders[folder_name(key)] = result
            changes = {GRADE: decimal(result.counted, table.delimiter), COMMENTS: comment(result)}
        lines.append(
            [changes.get(name, cell) for name, cell in zip(table.header, line, strict=True)]
        )
    return table._replace(lines=lines), folders, notes


def keys_of(table: Table, line: Sequence[str]) -> Keys:
    identifier, name = table.cell(line, IDENTIFIER), table.cell(line, NAME)
    digits = re.search(r"\d+$", identifier)
    names = name_set([name, table.cell(line, EMAIL)])
    return Keys(digits[0] if digits else "", names, name or identifier)


def decimal(points: float, delimiter: str) -> str:
    """Return points as Moodle reads them: with a comma where cells end with semicolons."""
    text = f"{points:g}"
    return text.replace(".", ",") if delimiter == ";" else text


def comment(student: StudentResult) -> str:
    """Return what is said of a hand-in. Moodle shows it as HTML, so markup in it is escaped."""
    said = [f"{id}: {sentence}" for id, sentence in sentences_of(student).items()]
    return html.escape(" | ".join([*said, *student.problems]) or "all right", quote=False)


def folder_name(key: Keys) -> str:
    """Return the name of the folder in which Moodle hands out a student's files.

    >>> from edutorch.classroom.interop.gradebooks import Keys
    >>> from edutorch.classroom.interop.moodle import folder_name
    >>> folder_name(Keys("1815", frozenset(), "Ada Lovelace"))
    'Ada Lovelace_1815_assignsubmission_file_'
    """
    name = re.sub(r'[_/\\:*?"<>|\x00-\x1f]', " ", key.shown).strip(" .") or "student"
    return f"{name}_{key.id}_assignsubmission_file_"


def feedback_zip(results: Path, folders: Mapping[str, StudentResult]) -> tuple[bytes, list[str]]:
    """Return a zip file with the feedback of a run, and a sentence for everyone without.

    Args:
        results: the folder of the run; the feedback lies in `feedback/<student>/`.
        folders: the results by the names of the folders in the zip file.
    """
    files, notes = {}, []
    for folder, result in folders.items():
        own = feedback_files(results / "feedback", result.student)
        files |= {f"{folder}/{name}": content for name, content in own.items()}
        if not own:
            notes.append(f"there is no feedback for {result.student}")
    return zip_bytes(files), notes


def feedback_files(feedback: Path, student: str) -> dict[str, bytes]:
    """Return the files of one student by their names; links are not followed."""
    folder = feedback / student
    leads_out = folder.parent != feedback or student == ".."
    if leads_out or folder.is_symlink() or not folder.is_dir():
        return {}
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
        and path.resolve().is_relative_to(folder.resolve())
    }  # fmt: skip
