"""Hand-ins of a class for two notebooks: all right, untouched, and some of each."""

from __future__ import annotations

import json
from pathlib import Path

from edutorch.classroom import load_exercises

ROOT = Path(__file__).parents[2]
NAMES = ("02_backprop_by_hand", "05_reading_graphs")
NOTEBOOKS = tuple(ROOT / "notebooks" / f"{name}.ipynb" for name in NAMES)
EXERCISES = {
    exercise.id: exercise
    for exercise in sorted(load_exercises().values(), key=lambda exercise: exercise.id)
    if exercise.notebook in NAMES
}
WRONG = {id: exercise.mutants[0].code for id, exercise in EXERCISES.items()}
SOLVED = {id: exercise.solution for id, exercise in EXERCISES.items()}
MIXED = {**SOLVED, "02.softmax": WRONG["02.softmax"], "05.carry": WRONG["05.carry"]}

CLASS = {"ada": SOLVED, "bob": {}, "cleo": MIXED}
"""By student, the answers by exercise; all others are left as they were handed out."""

TOTAL = sum(exercise.points for exercise in EXERCISES.values())
POINTS = {
    student: sum(
        exercise.points for id, exercise in EXERCISES.items() if answers.get(id) == SOLVED[id]
    )
    for student, answers in CLASS.items()
}


def answered(notebook: Path, answers: dict[str, str]) -> bytes:
    """Return a notebook with answers in the cells of their exercises."""
    document = json.loads(notebook.read_text("utf-8"))
    by_cell = {
        EXERCISES[id].cell: code
        for id, code in answers.items()
        if EXERCISES[id].notebook == notebook.stem
    }
    for cell in document["cells"]:
        cell["source"] = by_cell.get(cell["id"], cell["source"])
    return json.dumps(document).encode()


def write_class(folder: Path, notebooks: list[Path], inner: str = "") -> Path:
    """Write the hand-ins of the class, a folder for each student."""
    for student, answers in CLASS.items():
        own = folder / student / inner
        own.mkdir(parents=True)
        for notebook in notebooks:
            (own / notebook.name).write_bytes(answered(notebook, answers))
    return folder
