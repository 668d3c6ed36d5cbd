"""What a notebook shows of an exercise, and what its block says, are the same."""

from __future__ import annotations

import ast
import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from edutorch.classroom import EXERCISES, load_exercises
from edutorch.classroom.answer_cells import defined_names

load_exercises()
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
PARTS = ["exercise", "check", "solution"]


@functools.cache
def cells_of(notebook: str) -> tuple[dict[str, Any], ...]:
    """Return the cells of a notebook, each with its source as one text."""
    cells = json.loads((NOTEBOOKS / f"{notebook}.ipynb").read_text("utf-8"))["cells"]
    return tuple(cell | {"source": "".join(cell["source"])} for cell in cells)


def parts_of(notebook: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the cells of exercises, in order, each with its tag."""
    return [
        (tag, cell)
        for cell in cells_of(notebook)
        for tag in cell["metadata"].get("tags", [])
        if tag in PARTS
    ]


def cells_of_exercise(id: str) -> dict[str, dict[str, Any]]:
    """Return the three cells of an exercise by their tags."""
    parts = parts_of(EXERCISES[id].notebook)
    (start,) = [index for index, (_, cell) in enumerate(parts) if cell["id"] == EXERCISES[id].cell]
    return dict(parts[start : start + 3])


def names_defined_in(code: str) -> set[str]:
    """Return the names that a program defines at its top level."""
    names = set()
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            stored = (name for target in node.targets for name in ast.walk(target))
            names |= {name.id for name in stored if isinstance(name, ast.Name)}
    return names


@pytest.mark.parametrize("id", EXERCISES)
def test_a_notebook_shows_the_block(id):
    exercise, cells = EXERCISES[id], cells_of_exercise(id)
    assert list(cells) == PARTS
    assert cells["exercise"]["source"] + "\n" == exercise.starter
    code = re.search(r"```python\n(.*?)```", cells["solution"]["source"], re.DOTALL)
    assert code and code[1] == exercise.solution
    assert re.fullmatch(rf'(edu)?torch\.check\("{re.escape(id)}"\)', cells["check"]["source"]), (
        "the check is a cell of its own"
    )
    assert id.split(".")[0] == exercise.notebook.split("_")[0]


@pytest.mark.parametrize("id", EXERCISES)
def test_a_block_needs_nothing_but_itself(id):
    exercise = EXERCISES[id]
    for code in (exercise.starter, exercise.solution):
        assert set(exercise.names) <= names_defined_in(exercise.before + code)
    # What the cells above define, as far as it is needed here.
    above = [defined_names("".join(cell["source"])) for cell in cells_of(exercise.notebook)]
    assert names_defined_in(exercise.before) <= set().union(*above)


@pytest.mark.parametrize("notebook", sorted({block.notebook for block in EXERCISES.values()}))
def test_each_exercise_of_a_notebook_is_a_block(notebook):
    parts = parts_of(notebook)
    assert [tag for tag, _ in parts] == PARTS * (len(parts) // 3)
    blocks = [exercise.cell for exercise in EXERCISES.values() if exercise.notebook == notebook]
    assert sorted(blocks) == sorted(cell["id"] for tag, cell in parts if tag == "exercise")
