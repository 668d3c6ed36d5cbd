"""Every exercise in the jail: solutions get all points, each mistake less, and its hint first."""

from __future__ import annotations

import sys

import pytest

from edutorch.classroom.exercise import load_exercises
from edutorch.classroom.grading import grade_cases, right_cases

if not sys.platform.startswith("linux"):
    pytest.skip("the jail is built of Linux's walls", allow_module_level=True)

from edutorch.classroom.jail.settings import Settings
from tests.classroom.jails import open_factory

pytestmark = [pytest.mark.slow, pytest.mark.classroom]

EXERCISES = dict(sorted(load_exercises().items()))
SECONDS = 60.0  # the machine may be busy; nothing here waits so long


@pytest.fixture(scope="module")
def factory():
    with open_factory(Settings(seconds=SECONDS)) as factory:
        yield factory


def outcome_in_jail(factory, exercise, code):
    source, forbid = exercise.answer_source(), exercise.forbid
    cases = right_cases(exercise, 29)
    with factory.jail([exercise.before, code]) as jail:
        return grade_cases(exercise, lambda case: jail.ask(source, case, forbid, SECONDS), cases)


def test_solutions_get_all_points_and_mistakes_their_hints(factory):
    hints = first = 0
    print(
        "\n| exercise | solution | mistakes | refused | first hint right |\n|:--|--:|--:|--:|--:|"
    )
    for id, exercise in EXERCISES.items():
        solved = outcome_in_jail(factory, exercise, exercise.solution)
        outcomes = [outcome_in_jail(factory, exercise, mutant.code) for mutant in exercise.mutants]
        refused = sum(outcome.points < exercise.points for outcome in outcomes)
        right = sum(
            outcome.advice[0].index == mutant.hint
            for outcome, mutant in zip(outcomes, exercise.mutants, strict=True)
        )
        count = len(outcomes)
        print(f"| {id} | {solved.points:g}/{exercise.points:g} | {count} | {refused} | {right} |")
        assert solved.points == exercise.points, solved
        assert refused == count
        hints, first = hints + count, first + right
    print(f"| all | | {hints} | {hints} | {first} ({first / hints:.0%}) |")
    assert first / hints >= 0.9


def test_an_untouched_notebook_gets_nothing(factory):
    for exercise in EXERCISES.values():
        outcome = outcome_in_jail(factory, exercise, exercise.starter)
        assert outcome.points == 0 and outcome.advice
