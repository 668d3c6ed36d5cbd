"""Lessons that are smaller in a browser tab, here with the sizes that they have there."""

from __future__ import annotations

import pytest

from tests.lessons.metadata import NOTEBOOKS, read, source, stems
from tests.test_notebooks import execute, exercises_can_be_solved

SMALLER = [
    stem for stem in stems() if any("utils.small(" in source(c) for c in read(stem)["cells"])
]


def test_there_are_some():
    assert SMALLER


@pytest.mark.slow
@pytest.mark.parametrize("stem", SMALLER)
def test_a_smaller_lesson_runs(stem, monkeypatch):
    monkeypatch.setenv("EDUTORCH_SMALL", "1")
    notebook, _ = execute(NOTEBOOKS / f"{stem}.ipynb")  # it raises what a cell raises
    exercises_can_be_solved(notebook)
