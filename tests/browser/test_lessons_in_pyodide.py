"""Each lesson that is marked as fit for a browser runs there, and so do examples in docstrings."""

from __future__ import annotations

import pytest

from edutorch.cli.lessons import read_lessons
from tests.browser.lessons_in_pyodide import missing, problems_of, run_in_pyodide, run_lesson

EXAMPLES = """
from tests.browser.examples import wrong_examples
print(*wrong_examples(), sep="\\n")
"""
in_pyodide = pytest.mark.skipif(bool(missing()), reason=missing())
LESSONS = [lesson.path for lesson in read_lessons() if lesson.in_browser]


@pytest.mark.slow
@in_pyodide
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_runs_in_pyodide(path, tmp_path):
    assert problems_of(run_lesson(path, tmp_path)) == []


@pytest.mark.slow
@in_pyodide
def test_examples_are_true_in_pyodide(tmp_path):
    (cell,) = run_in_pyodide([{"source": EXAMPLES, "tags": []}], tmp_path)
    assert (cell["error"], cell["printed"].strip()) == ("", "")


def test_problems_are_seen():
    good = {"source": "", "tags": [], "error": "", "shown": []}
    wrong, right = ([{"text/plain": text}] for text in ("✗ 02.softmax", "✓ 02.softmax: right"))
    unsolved, solved = good | {"tags": ["check"]}, good | {"tags": ["check-of-solution"]}
    assert problems_of([good, unsolved | {"shown": wrong}, solved | {"shown": right}]) == []
    assert len(problems_of([good | {"error": "NameError"}])) == 1
    assert len(problems_of([unsolved | {"shown": right}, solved | {"shown": wrong}])) == 2
    assert len(problems_of([unsolved, solved])) == 2, "nothing was said"
