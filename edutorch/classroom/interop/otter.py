"""An assignment for otter-grader 7: a folder for each notebook.

    <out>/<notebook>/<notebook>.ipynb     for students; the visible tests are in its metadata
    <out>/<notebook>/tests/02_product.py  visible and hidden test, points
    <out>/<notebook>/otter_config.json
    <out>/<notebook>/requirements.txt     what the autograder has to install
    <out>/<notebook>/autograder.zip       where otter is installed: for `otter grade`, Gradescope

The visible test draws its inputs anew each time. The hidden one has the points, and one seed for
the whole class.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import pprint
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..exercise import Exercise
from .files import check_empty, check_name, write_folder
from .lessons import Cell, ExportError, Lesson, Part, new_code_cell, slug, with_source

LOCKED = {"deletable": False, "editable": False}

INIT = """\
# Otter's tests
import otter

grader = otter.Notebook({file!r})"""

CODE = """\
>>> from edutorch.classroom.interop import assert_right
>>> assert_right({id!r}, globals(){seed})
"""


def export_otter(
    lessons: Sequence[Lesson], assignment: str, out: Path, install: str, seed: int
) -> tuple[list[Path], str]:
    """Write a folder for each notebook.

    Args:
        install: what pip installs in the autograder to have edutorch.
        seed: draws the inputs of the hidden tests.

    Returns: the folders, and what is left to do; "" if that is nothing.
    """
    check_name(assignment)
    folders = {out / assignment / lesson.name: lesson for lesson in lessons}
    contents = {
        folder: files_of(lesson, assignment, install, seed) for folder, lesson in folders.items()
    }
    for folder in folders:
        check_empty(folder)
    has_otter = importlib.util.find_spec("otter") is not None
    for folder, files in contents.items():
        write_folder(folder, {**files, **(autograder_zip(files) if has_otter else {})})
    left = "otter-grader is not installed, so there is no autograder.zip: run `otter generate` in"
    return list(folders), "" if has_otter else f"{left} {', '.join(map(str, folders))}"


def files_of(lesson: Lesson, assignment: str, install: str, seed: int) -> dict[str, bytes]:
    """Return the files of a notebook by their paths."""
    visible = {slug(exercise): test_of(exercise) for exercise in lesson.exercises}
    about = {"OK_FORMAT": True, "assignment_name": assignment, "tests": visible}
    cells = functools.partial(cells_of, first=first_code_cell(lesson), lesson=lesson)
    config = {"assignment_name": assignment, "points_possible": lesson.points}
    return {
        f"{lesson.name}.ipynb": lesson.rewritten(cells, otter=about),
        "otter_config.json": (json.dumps(config, indent=2) + "\n").encode(),
        "requirements.txt": f"{install}\n".encode(),
        **{
            f"tests/{slug(exercise)}.py": test_file(exercise, seed)
            for exercise in lesson.exercises
        },
    }  # fmt: skip


def first_code_cell(lesson: Lesson) -> str:
    return next(cell["id"] for cell in lesson.document["cells"] if cell["cell_type"] == "code")


def cells_of(part: Part, first: str, lesson: Lesson) -> Iterator[Cell]:
    """Yield the cells that stand in otter's notebook for a part of a lesson."""
    exercise = part.exercise
    if part.cell.get("id") == first:
        yield new_code_cell(INIT.format(file=f"{lesson.name}.ipynb"), "otter-init", **LOCKED)
    if exercise is None or part.role == "task":
        yield part.cell
    elif part.role == "answer":
        tags = [*part.cell["metadata"].get("tags", ()), "otter_answer_cell"]
        about = {"tags": tags, "otter": {"tests": [slug(exercise)]}}
        yield with_source(part.cell, exercise.starter, **about)
    else:
        yield new_code_cell(
            f'grader.check("{slug(exercise)}")', part.cell["id"] or f"check-{slug(exercise)}",
            **LOCKED,
        )  # fmt: skip


def test_of(exercise: type[Exercise], seed: int | None = None) -> dict[str, Any]:
    """Return the test of an exercise in otter's format: visible, or with a hidden part.

    Args:
        seed: of the hidden part, which has the points; None leaves it out.
    """
    about = {"name": f"{exercise.id}, with inputs of its own", "hidden": False, "locked": False}
    code = CODE.format(id=exercise.id, seed="")
    cases = [{**about, "code": code, "points": exercise.points if seed is None else 0}]
    if seed is not None:
        code = CODE.format(id=exercise.id, seed=f", seed={seed}")
        about = {"name": f"{exercise.id}, hidden", "hidden": True, "locked": False}
        cases.append({**about, "code": code, "points": exercise.points})
    suite = {"cases": cases, "scored": True, "setup": "", "teardown": "", "type": "doctest"}
    return {"name": slug(exercise), "points": None, "all_or_nothing": True, "suites": [suite]}


def test_file(exercise: type[Exercise], seed: int) -> bytes:
    """Return a test file, visible and hidden."""
    test = pprint.pformat(test_of(exercise, seed), sort_dicts=False)
    return f"OK_FORMAT = True\n\ntest = {test}\n".encode()


def autograder_zip(files: dict[str, bytes]) -> dict[str, bytes]:
    """Let otter make the zip file of an autograder.

    Raises: ExportError: it cannot.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        command = [sys.executable, "-m", "otter", "generate", "-o", "autograder.zip"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}
        )
        made = Path(folder, "autograder.zip")
        if done.returncode or not made.exists():
            raise ExportError("export", f"`otter generate` failed: {done.stderr.strip()[-300:]}")
        return {"autograder.zip": made.read_bytes()}
