"""An assignment for nbgrader: notebooks with its cell metadata, schema 3.

    source/<assignment>/<notebook>.ipynb     with solutions, for `nbgrader generate_assignment`
    release/<assignment>/<notebook>.ipynb    with the starters of the course, for students

An exercise becomes an answer that nbgrader grades by the test below it, which it restores before
it grades. The text above the answer can't be edited either.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..exercise import Exercise
from .files import check_empty, check_name, write_folder
from .lessons import Cell, Lesson, Part, slug, with_source
from .solution_markers import marked_solution

SCHEMA = 3

TEST = """\
# The test of this exercise: its inputs are drawn anew each time.
from edutorch.classroom.interop import assert_right

assert_right({id!r})"""
"""It prints nothing: nbgrader takes a printed number for points, and red text for a failure."""


def export_nbgrader(lessons: Sequence[Lesson], assignment: str, out: Path) -> list[Path]:
    """Write the source and the release version of an assignment.

    Returns: the two folders.
    """
    check_name(assignment)
    folders = {version: out / version / assignment for version in ("source", "release")}
    contents = {
        version: {
            f"{lesson.name}.ipynb": lesson.rewritten(functools.partial(cells_of, version=version))
            for lesson in lessons
        }
        for version in folders
    }
    for folder in folders.values():
        check_empty(folder)
    for version, folder in folders.items():
        write_folder(folder, contents[version])
    return list(folders.values())


def cells_of(part: Part, version: str) -> Iterator[Cell]:
    """Yield the cell that nbgrader gets for a part of a lesson."""
    exercise = part.exercise
    if exercise is None:
        yield part.cell
    elif part.role == "task":
        about = metadata(f"task-{slug(exercise)}", locked=True)
        yield with_source(part.cell, source_of(part.cell), **about)
    elif part.role == "answer":
        source = exercise.starter if version == "release" else marked_solution(exercise)
        yield with_source(part.cell, source, **metadata(exercise.cell, solution=True))
    else:
        yield check_cell(part, exercise)


def check_cell(part: Part, exercise: type[Exercise]) -> Cell:
    """Return the test of an exercise."""
    about = metadata(f"test-{slug(exercise)}", locked=True, points=exercise.points)
    id = part.cell["id"] or f"test-{slug(exercise)}"
    return {**with_source(part.cell, TEST.format(id=exercise.id), **about), "id": id}


def metadata(
    id: str, *, solution: bool = False, locked: bool = False, points: float | None = None
) -> Cell:
    """Return a cell's metadata for nbgrader.

    Args:
        points: what the cell is worth; None if it is not graded.
    """
    about = {
        "schema_version": SCHEMA, "grade_id": id, "grade": points is not None,
        "solution": solution, "locked": locked, "task": False,
    }  # fmt: skip
    if points is not None:
        about["points"] = points
    return {"nbgrader": about, "deletable": False, **({"editable": False} if locked else {})}


def source_of(cell: Cell) -> str:
    return "".join(cell["source"])
