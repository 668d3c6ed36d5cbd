"""A notebook of the course, cut into what belongs to its exercises and the rest.

    lesson = read_lesson(Path("notebooks/02_backprop_by_hand.ipynb"))
    for part in lesson.parts():
        part.role, part.exercise, part.cell

An exercise has three cells: the answer, the check and the solution. The other graders have cells of
their own for the check, and show no solution.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import EdutorchError
from ..exercise import Exercise, find_exercise, load_exercises

Cell = dict[str, Any]


class ExportError(EdutorchError, ValueError):
    """Something cannot be exported, or not into what is there."""


class Part(NamedTuple):
    """One cell of a lesson.

    Attributes:
        role: "answer" or "check" of an exercise; "task" is the text above the answer; "" any other.
        exercise: None for any other cell.
    """

    role: str
    cell: Cell
    exercise: type[Exercise] | None = None


class Lesson(NamedTuple):
    """A notebook, and those of its exercises that are exported, in its order."""

    path: Path
    document: dict[str, Any]
    exercises: tuple[type[Exercise], ...]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def points(self) -> float:
        return sum(exercise.points for exercise in self.exercises)

    def parts(self) -> Iterator[Part]:
        """Yield the cells without outputs and without the solutions of the exported exercises.

        An exercise without a check gets an empty one below its answer.
        """
        cells = [without_outputs(cell) for cell in self.document["cells"]]
        roles = self._roles(cells)
        for index, cell in enumerate(cells):
            role, exercise = roles.get(index, ("", None))
            if role != "solution":
                yield Part(role, cell, exercise)
            if role == "answer" and ("check", exercise) not in roles.values():
                yield Part("check", new_code_cell(""), exercise)

    def _roles(self, cells: Sequence[Cell]) -> dict[int, tuple[str, type[Exercise] | None]]:
        """Return which cells belong to an exercise, by their index."""
        by_cell = {exercise.cell: exercise for exercise in self.exercises}
        roles: dict[int, tuple[str, type[Exercise] | None]] = {}
        exercise, wanted = None, []
        for index, cell in enumerate(cells):
            if cell.get("id") in by_cell:
                exercise, wanted = by_cell[cell["id"]], ["check", "solution"]
                roles[index] = "answer", exercise
                if index and cells[index - 1]["cell_type"] == "markdown" and index - 1 not in roles:
                    roles[index - 1] = "task", exercise
            elif has_tag(cell, "exercise"):  # one that is not exported keeps its cells
                wanted = []
            for tag in [tag for tag in wanted if has_tag(cell, tag)]:
                roles[index] = tag, exercise
                wanted.remove(tag)
        return roles

    def rewritten(self, rewrite: Callable[[Part], Iterable[Cell]], **metadata: Any) -> bytes:
        """Return a notebook with other cells.

        Args:
            rewrite: returns the cells that stand in a part's place.
            metadata: of the notebook, besides its own.
        """
        cells = [cell for part in self.parts() for cell in rewrite(part)]
        document = {**self.document, "cells": cells}
        document["metadata"] = {**self.document.get("metadata", {}), **metadata}
        # Cells have ids since 4.5.
        version = max(4, document["nbformat"]), max(5, document.get("nbformat_minor", 0))
        document["nbformat"], document["nbformat_minor"] = version
        return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def read_lesson(path: Path, only: Sequence[str] | None = None) -> Lesson:
    """Read a notebook of the course.

    Args:
        only: the ids of the exercises to export; by default all of the notebook.

    Raises: ExportError: there is no such notebook, or none of its exercises is to be exported.
    """
    if not path.is_file():
        raise ExportError(
            "export", f"there is no notebook {str(path)!r}",
            hint="give the path of a notebook, as notebooks/02_backprop_by_hand.ipynb",
        )  # fmt: skip
    try:
        document = json.loads(path.read_text("utf-8-sig"))
        ids = [cell.get("id") for cell in document["cells"] if cell["cell_type"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ExportError("export", f"{path}: is no notebook ({error})") from error
    exercises = [
        exercise for exercise in load_exercises().values()
        if exercise.notebook == path.stem and (not only or exercise.id in only)
    ]  # fmt: skip
    if not exercises:
        raise ExportError(
            "export", f"{path}: has no exercise{' of ' + ', '.join(only) if only else ''}",
            hint="an exercise names its notebook: the file keeps its name",
        )  # fmt: skip
    for exercise in exercises:
        if ids.count(exercise.cell) != 1:
            raise ExportError(
                "export", f"{path}: has {ids.count(exercise.cell)} cells {exercise.cell!r}, where "
                f"the answer to {exercise.id} stands", hint="it needs one",
            )  # fmt: skip
    in_order = sorted(exercises, key=lambda exercise: ids.index(exercise.cell))
    return Lesson(path, document, tuple(in_order))


def read_lessons(paths: Sequence[Path], only: Sequence[str] | None = None) -> list[Lesson]:
    """Read the notebooks of an assignment.

    Raises: ExportError: one cannot be read, is named twice, or has no exercise of `only`.
    """
    for id in only or ():
        if find_exercise(id).notebook not in [path.stem for path in paths]:
            raise ExportError("export", f"{id} is in none of the notebooks that were named")
    names = [path.name for path in paths]
    for name in names:
        if names.count(name) > 1:
            raise ExportError("export", f"the notebook {name} is named twice")
    return [read_lesson(path, only) for path in paths]


def has_tag(cell: Cell, tag: str) -> bool:
    return tag in cell.get("metadata", {}).get("tags", ())


def without_outputs(cell: Cell) -> Cell:
    cell = copy.deepcopy(cell)
    if cell["cell_type"] == "code":
        cell.update(outputs=[], execution_count=None)
    return cell


def new_code_cell(source: str, id: str = "", **metadata: Any) -> Cell:
    """Return a code cell without outputs."""
    return {
        "cell_type": "code", "id": id, "metadata": metadata, "source": lines_of(source),
        "outputs": [], "execution_count": None,
    }  # fmt: skip


def with_source(cell: Cell, source: str, **metadata: Any) -> Cell:
    """Return a cell with another source, and more metadata."""
    own = {**cell.get("metadata", {}), **metadata}
    return {**cell, "source": lines_of(source), "metadata": own}


def lines_of(source: str) -> list[str]:
    return source.rstrip("\n").splitlines(keepends=True)


def slug(exercise: type[Exercise]) -> str:
    """Return the id of an exercise, where only letters, digits, - and _ may stand."""
    return exercise.id.replace(".", "_")
