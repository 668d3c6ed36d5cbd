"""Every exercise of the course: nothing gets no points, the solution all, each mistake its hint."""

from __future__ import annotations

import functools

import pytest

import edutorch
from edutorch.classroom import EXERCISES, Exercise, load_exercises
from edutorch.classroom.attempt import namespace, run_answer
from edutorch.classroom.grading import Outcome, grade

load_exercises()
MUTANTS = [(id, index) for id in EXERCISES for index in range(len(EXERCISES[id].mutants))]


def names_after(exercise: type[Exercise], code: str) -> dict[str, object]:
    """Return what a student has defined who wrote this code."""
    names: dict[str, object] = {**namespace(), "viz": edutorch.viz}
    exec(exercise.before, names)
    exec(code, names)
    return names


def outcome_of(
    exercise: type[Exercise], code: str, seed: int = 0, values: dict[str, object] | None = None
) -> Outcome:
    names = names_after(exercise, code)
    # As in another process: the source of `answer`, without the module that it stands in.
    scope: dict[str, object] = dict(namespace())
    exec(exercise.answer_source(), scope)
    ask = functools.partial(run_answer, scope["answer"], names, forbid=exercise.forbid)
    return grade(exercise, ask, seed, values)


@pytest.mark.parametrize("id", EXERCISES)
def test_a_solution_is_right_for_any_seed(id):
    exercise = EXERCISES[id]
    for seed in range(5):
        outcome = outcome_of(exercise, exercise.solution, seed)
        assert outcome.is_right, outcome
        assert outcome.points == exercise.points > 0


@pytest.mark.parametrize("id", EXERCISES)
def test_an_untouched_cell_gets_no_points_and_a_hint(id):
    exercise = EXERCISES[id]
    outcome = outcome_of(exercise, exercise.starter)
    assert outcome.points == 0
    assert outcome.advice


@pytest.mark.parametrize(("id", "index"), MUTANTS)
def test_a_mistake_is_noticed_and_gets_its_hint(id, index):
    exercise = EXERCISES[id]
    mutant = exercise.mutants[index]
    for seed in range(3):
        outcome = outcome_of(exercise, mutant.code, seed)
        assert not outcome.is_right
        advice = outcome.advice[0]
        assert advice.index == mutant.hint, outcome.advice
        assert not advice.mark or outcome.attempt.graph.find(advice.mark) is not None, advice


@pytest.mark.parametrize("id", EXERCISES)
def test_there_are_enough_mistakes(id):
    exercise = EXERCISES[id]
    assert len(exercise.mutants) >= 4
    assert sum(mutant.hint is not None for mutant in exercise.mutants) >= 2
    assert exercise.starter


@pytest.mark.parametrize("id", EXERCISES)
def test_cases_are_new_for_each_seed(id):
    exercise = EXERCISES[id]
    assert repr(exercise.draw_cases(1)) == repr(exercise.draw_cases(1))
    assert repr(exercise.draw_cases(1)) != repr(exercise.draw_cases(2))
