"""Writes the hand-ins of a class, honest and hostile, and says what each of them must get.

    expected = write_class(folder, ClassOf(students=60, hostile=20, seed=1), exercises)
    expected["ada017"]["02.softmax"]  # points

Honest students hand in the notebooks of the course with their answers: right ones, the mistakes of
the exercises' blocks, empty cells, syntax errors, missing cells, renamed cells, notebooks without
ids. A hostile one answers `HOSTILE_EXERCISE` with a row of `test_jail_submissions.py`, and all
others rightly: what that code does must cost its own exercise, and no other.
"""

from __future__ import annotations

import copy
import functools
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from edutorch.classroom.exercise import Exercise
from tests.classroom.test_jail_submissions import ROWS, submission

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
HOSTILE_EXERCISE = "02.softmax"

ANSWERS = {
    "right": 50, "mistake": 22, "untouched": 8, "empty": 5, "syntax error": 5, "missing": 4,
    "renamed": 3, "prints": 3,
}  # fmt: skip
"""What honest students hand in for one exercise, and how often."""

FULL_POINTS = {"right", "renamed", "prints"}
BROKEN = "def (:\n    return\n"


class ClassOf(NamedTuple):
    """What a class consists of.

    Attributes:
        students: all, the hostile ones too.
        seed: draws who answers what.
        threats: the hostile rows in turn; all by default.
        targets: what stands for the marks in them, as "@SECRET@".
        faults: whether honest students make mistakes; without, all their answers are right.
    """

    students: int
    hostile: int = 0
    seed: int = 0
    threats: Sequence[tuple[str, str]] = tuple(ROWS)
    targets: Mapping[str, str] = {}
    faults: bool = True


def write_class(
    folder: Path, settings: ClassOf, exercises: Mapping[str, type[Exercise]]
) -> dict[str, dict[str, float]]:
    """Write the hand-ins below a folder, in the layouts of nbgrader and of Canvas.

    Returns: the points by student and exercise.
    """
    rng = random.Random(settings.seed)
    threats = list(settings.threats)
    rng.shuffle(threats)
    hostile = set(rng.sample(range(settings.students), settings.hostile))
    expected = {}
    for number in range(settings.students):
        if number in hostile:
            threat, row = threats[len(expected) % len(threats)]
            student = f"eve{number:03}"
            answers = dict.fromkeys(exercises, "right")
            answers[HOSTILE_EXERCISE] = "hostile"
            code = submission(threat, row, settings.targets)
        else:
            student, code = f"ada{number:03}", ""
            answers = {id: choose_answer(rng, settings.faults) for id in exercises}
        files = notebooks_of(exercises, answers, rng, code)
        if settings.faults and not code and rng.random() < 0.05:
            files = {name: without_ids(notebook) for name, notebook in files.items()}
        write_files(folder, student, number, files)
        expected[student] = {
            id: exercises[id].points if answer in FULL_POINTS else 0.0
            for id, answer in answers.items()
        }
    return expected


def choose_answer(rng: random.Random, faults: bool) -> str:
    return rng.choices(list(ANSWERS), list(ANSWERS.values()))[0] if faults else "right"


@functools.cache
def course_notebook(name: str) -> dict[str, Any]:
    """Return a notebook of the course; not to be written into."""
    return json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))


def notebooks_of(
    exercises: Mapping[str, type[Exercise]], answers: Mapping[str, str], rng: random.Random,
    hostile: str,
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Return the notebooks of a student, by their file names."""
    files: dict[str, dict[str, Any]] = {}
    for id, answer in answers.items():
        name = exercises[id].notebook
        notebook = files.setdefault(f"{name}.ipynb", copy.deepcopy(course_notebook(name)))
        cells = notebook["cells"]
        (index,) = [i for i, cell in enumerate(cells) if cell.get("id") == exercises[id].cell]
        if answer == "missing":
            del cells[index]
            continue
        source = hostile if answer == "hostile" else code_of(exercises[id], answer, rng)
        cells[index]["source"] = source.splitlines(keepends=True)
        if answer == "renamed":
            cells[index]["id"] = f"renamed-{index}"
    return files


def code_of(exercise: type[Exercise], answer: str, rng: random.Random) -> str:
    """Return what a student writes into the cell of an exercise."""
    if answer == "mistake":
        return rng.choice(exercise.mutants).code
    return {
        "untouched": exercise.starter, "empty": "", "syntax error": BROKEN,
        "prints": f"print('here I am')\n{exercise.solution}",
    }.get(answer, exercise.solution)  # fmt: skip


def without_ids(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook as an old program saves it: without the ids of its cells."""
    for cell in notebook["cells"]:
        cell.pop("id", None)
    return notebook | {"nbformat_minor": 4}


def write_files(
    folder: Path, student: str, number: int, files: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write the notebooks of a student: one half of the class uses nbgrader, one Canvas."""
    for name, notebook in files.items():
        if number % 2:
            path = folder / "submitted" / student / "homework" / name
        else:
            path = folder / f"{student}_{1000 + number}_{2000 + number}_{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(notebook), encoding="utf-8")
