"""Mutants of the solutions: what they are, and that the grader refuses those that matter."""

from __future__ import annotations

import pytest

from edutorch.classroom.exercise import load_exercises
from tests.classroom.solution_mutants import Change, changes_of, judge, verdicts

EXERCISES = load_exercises()


def test_changes_of_a_syntax_tree():
    changes = {change.code.split("\n")[-1].strip(): change.sort for change in changes_of(
        "def f(x, y):\n    return -x.mean(0) + y.detach() * 2"
    )}  # fmt: skip
    for code, sort in (
        ("return -x.mean(0) - y.detach() * 2", "operator"),
        ("return x.mean(0) + y.detach() * 2", "sign"),
        ("return -x.mean(-1) + y.detach() * 2", "axis"),
        ("return -x.mean(0)", "dropped term"),
        ("return -x.mean(0) + y.detach() * 3", "off by one"),
        ("return -x.mean(0) + y * 2", "missing .detach()"),
    ):
        assert changes[code] == sort


def test_a_change_that_changes_nothing_is_no_survivor():
    exercise = EXERCISES["11.memory"]
    verdict = judge(exercise, Change("swapped", "def new_memory(i, f, g, c): return i*g + f*c"), 2)
    assert verdict.accepted == (0, 1) and not verdict.changed and not verdict.survives


@pytest.mark.slow
@pytest.mark.parametrize("id", EXERCISES)
def test_mutants_that_change_an_answer_are_refused(id):
    rows = verdicts(EXERCISES[id])
    assert len(rows) >= 5
    assert [row.change for row in rows if row.survives] == []
