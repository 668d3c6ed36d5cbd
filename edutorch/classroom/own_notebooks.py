"""Writes the notebooks of a course for each student, with that student's seeds in them.

A notebook shows the values of an exercise with

    torch.classroom.values_of("01.by_hand")

and this is what changes: the student's name and seed are written into the call.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import EdutorchError
from .exercise import SpecError, find_exercise
from .new_folder import new_folder
from .own_values import read_key, seed_of_student
from .student_names import check_known, check_name, read_class_list

OP = "classroom notebooks"
CALL = re.compile(r'values_of\(\s*"(?P<id>\w+\.\w+)"[^()]*\)')


class NotebookError(EdutorchError, ValueError):
    """A folder of notebooks from which none can be made for students."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `classroom notebooks`."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="the notebooks of the course")
    parser.add_argument("--course-key", type=Path, required=True, metavar="FILE")
    parser.add_argument("--class-list", type=Path, required=True, metavar="FILE",
                        help="the name of one student a line")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER",
                        help="gets a folder for each student")  # fmt: skip
    parser.add_argument("--student", action="append", metavar="NAME", help="may be repeated")


def write_notebooks(options: argparse.Namespace) -> int:
    """Write the notebooks of all students of a class; return 0."""
    key = read_key(OP, options.course_key)
    students = read_class_list(OP, options.class_list)
    if options.student:
        chosen = [check_name(OP, name) for name in options.student]
        check_known(OP, chosen, students, str(options.class_list))
        students = sorted(set(chosen))
    notebooks = dict(read_notebooks(options.folder))
    with new_folder(OP, options.out) as folder:
        for student in students:
            (folder / student).mkdir()
            for name, notebook in notebooks.items():
                text = json.dumps(
                    notebook_for(notebook, student, key), indent=1, ensure_ascii=False
                )
                (folder / student / name).write_text(text + "\n", encoding="utf-8")
    print(f"{options.out}: {len(notebooks)} notebooks for {len(students)} students")
    return 0


def read_notebooks(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the notebooks of a folder by their names.

    Raises: NotebookError: there is none, one is damaged, or none has own values.
    """
    paths = sorted(folder.glob("*.ipynb")) if folder.is_dir() else []
    if not paths:
        raise NotebookError(OP, f"there is no notebook in {str(folder)!r}")
    ids: set[str] = set()
    for path in paths:
        try:
            notebook = json.loads(path.read_text(encoding="utf-8"))
            ids.update(match["id"] for source in sources(notebook)
                       for match in CALL.finditer(source))  # fmt: skip
        except (ValueError, KeyError, TypeError) as error:
            raise NotebookError(OP, f"{path}: is no notebook ({error})") from None
        yield path.name, notebook
    if not ids:
        raise NotebookError(
            OP, f"no notebook in {str(folder)!r} shows own values",
            hint='a cell with torch.classroom.values_of("01.by_hand") does',
        )  # fmt: skip
    for id in sorted(ids):
        if find_exercise(id).values is None:
            raise SpecError(id, "this exercise is the same for everybody: it has no own values")


def sources(notebook: dict[str, Any]) -> Iterator[str]:
    """Yield the source of each code cell."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def notebook_for(notebook: dict[str, Any], student: str, key: bytes) -> dict[str, Any]:
    """Return a notebook as a student gets it.

    Args:
        key: of the course; it is not in what is returned.
    """

    def call(match: re.Match[str]) -> str:
        id = match["id"]
        name = json.dumps(student, ensure_ascii=False)
        seed = seed_of_student(key, student, id)
        return f'values_of(\n    "{id}",\n    student={name},\n    seed="{seed}",\n)'

    cells = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and CALL.search(source):
            lines = CALL.sub(call, source).splitlines(keepends=True)
            cell = {**cell, "source": lines, "outputs": [], "execution_count": None}
        cells.append(cell)
    metadata = dict(notebook.get("metadata", {}))
    metadata["edutorch"] = {**metadata.get("edutorch", {}), "student": student}
    return {**notebook, "cells": cells, "metadata": metadata}
