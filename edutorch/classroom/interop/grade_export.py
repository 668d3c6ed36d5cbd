"""`python -m edutorch grade export`: the results of a class for Canvas and Moodle."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ...errors import EdutorchError


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(
        prog="edutorch grade export", allow_abbrev=False,
        description="Write the results of a run into the tables of Canvas and Moodle.",
    )  # fmt: skip
    parser.add_argument("--results", type=Path, default=Path("grades"), metavar="FOLDER",
                        help="what `grade` wrote; by default ./grades")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FOLDER",
                        help="where the files go; by default that of the results")  # fmt: skip
    parser.add_argument("--canvas", type=Path, metavar="CSV",
                        help="the gradebook as Canvas exports it; writes canvas.csv")  # fmt: skip
    parser.add_argument("--assignment", metavar="TITLE",
                        help="the column of Canvas's gradebook, as 'Lesson 2'")  # fmt: skip
    parser.add_argument("--moodle", type=Path, metavar="CSV",
                        help="the grading worksheet of Moodle's assignment; writes moodle.csv, and "
                        "moodle_feedback.zip if there is feedback")  # fmt: skip
    parser.add_argument("--missing", choices=["refuse", "skip"], default="refuse",
                        help="skip: leave out who is not in the table")  # fmt: skip
    return parser


def export(argv: list[str]) -> int:
    """Write the tables; return 0 if they could be written."""
    parser = make_parser()
    options = parser.parse_args(argv)
    if not (options.canvas or options.moodle):
        parser.error("name a table: --canvas gradebook.csv or --moodle worksheet.csv")
    if bool(options.canvas) != bool(options.assignment):
        parser.error("--canvas and --assignment go together: --assignment is the column")
    try:
        files, notes = tables(options)
    except EdutorchError as error:
        print(error, file=sys.stderr)
        return 1
    out = options.out or options.results
    out.mkdir(parents=True, exist_ok=True)
    from ...utils.atomic_files import write_atomically

    for note in notes:
        print(note, file=sys.stderr)
    for name, content in files.items():
        write_atomically(out / name, content)
        print(out / name)
    return 0


def tables(options: argparse.Namespace) -> tuple[dict[str, bytes], list[str]]:
    """Return all files by their names, and sentences about students who are on one side only."""
    from . import canvas, gradebooks, moodle

    students = gradebooks.read_results(options.results)
    skip = options.missing == "skip"
    files: dict[str, bytes] = {}
    notes: list[str] = []
    if options.canvas:
        table, notes = canvas.canvas_gradebook(options.canvas, students, options.assignment, skip)
        files["canvas.csv"] = table.to_bytes()
    if options.moodle:
        table, folders, more = moodle.moodle_worksheet(options.moodle, students, skip)
        files["moodle.csv"] = table.to_bytes()
        notes += more
        if (options.results / "feedback").is_dir():
            files["moodle_feedback.zip"], more = moodle.feedback_zip(options.results, folders)
            notes += more
    return files, notes
