"""Tests exercises with what stands in their blocks, before anybody is graded with them.

The teacher's own code runs here, in this process: the solution, the starter and the mutants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .attempt import Attempt, first_line, namespace, run_answer
from .exercise import Exercise, SpecError
from .grading import Ask, Outcome, grade
from .spec_files import file_of

SEEDS = (0, 1, 2)


class Report(NamedTuple):
    """What came of one exercise.

    Attributes:
        caught, hinted: mutants that are refused, and whose first hint is right.
        faults: a sentence for what is wrong.
    """

    exercise: type[Exercise]
    refuses_starter: bool
    accepts_solution: bool
    caught: int
    hinted: int
    faults: tuple[str, ...]


def check_solutions(exercises: Mapping[str, type[Exercise]], seeds: Mapping[str, int]) -> None:
    """Refuse an exercise whose solution is wrong for its cases.

    Args:
        seeds: by id, those of the run: its very cases are tried.

    Raises: SpecError: with the file and the field.
    """
    for id, exercise in exercises.items():
        for fault in faults_of_solution(exercise, (seeds[id],)):
            raise SpecError(
                "grade", f"{file_of(exercise)}: {fault}",
                hint="nobody was graded; `grade --check-specs` tries all exercises",
            )  # fmt: skip


def check_exercise(exercise: type[Exercise]) -> Report:
    """Try all of a block: starter, solution, mutants and their hints, with several seeds."""
    faults = faults_of_solution(exercise, SEEDS)
    if faults:  # so nothing can be said about the rest
        return Report(exercise, False, False, 0, 0, tuple(faults))
    refuses = all(not outcome_of(exercise, exercise.starter, seed).is_right for seed in SEEDS)
    if not refuses:
        faults.append(f"{exercise.id}: the untouched `starter` is accepted")
    caught = hinted = 0
    for index, mutant in enumerate(exercise.mutants):
        outcomes = [outcome_of(exercise, mutant.code, seed) for seed in SEEDS]
        if any(outcome.is_right for outcome in outcomes):
            faults.append(f"{exercise.id}: `mutants`[{index}] is accepted")
            continue
        caught += 1
        hints = {outcome.advice[0].index for outcome in outcomes}
        hinted += hints == {mutant.hint}
        if hints != {mutant.hint}:
            names = " or ".join(sorted(name_of(hint) for hint in hints))
            faults.append(f"{exercise.id}: `mutants`[{index}] gets {names} first, "
                          f"and should get {name_of(mutant.hint)}")  # fmt: skip
    return Report(exercise, refuses, True, caught, hinted, tuple(faults))


def name_of(hint: int | None) -> str:
    return "the general sentence" if hint is None else f"`hints`[{hint}]"


def faults_of_solution(exercise: type[Exercise], seeds: Iterable[int]) -> list[str]:
    """Return what is wrong with a solution, or with the block itself: a sentence at most."""
    for seed in seeds:
        if repr(draw(exercise, seed)) != repr(draw(exercise, seed)):
            return [f"{exercise.id}: `cases` draws other cases for the same seed: use `rng` alone"]
        field = "answer"
        try:
            ask = ask_here(exercise, exercise.solution)
            field = "right"  # what the solution raises is kept in the attempt
            outcome = grade(exercise, ask, seed)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever the block's code raises)
            return [f"{exercise.id}: `{field}` raised {first_line(error)}"]
        if not outcome.is_right:
            reason = outcome.advice[0].text if outcome.advice else "its answer is wrong"
            return [f"{exercise.id}: the `solution` fails its own check: {reason}"]
    return []


def draw(exercise: type[Exercise], seed: int) -> list[dict[str, Any]]:
    """Return cases.

    Raises: SpecError: `cases` raised something.
    """
    try:
        return exercise.draw_cases(seed)
    except SpecError as error:
        sentence = f"{exercise.id}: {error.message}"
    except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever the teacher's code raises)
        sentence = f"{exercise.id}: `cases` raised {first_line(error)}"
    raise SpecError("grade", f"{file_of(exercise)}: {sentence}")


def outcome_of(exercise: type[Exercise], code: str, seed: int) -> Outcome:
    """Grade code of the teacher's as if a student had handed it in."""
    return grade(exercise, ask_here(exercise, code), seed)


def ask_here(exercise: type[Exercise], code: str) -> Ask:
    """Return what asks code that is run in this process."""
    scope: dict[str, Any] = dict(namespace())
    exec(exercise.answer_source(), scope)
    names: dict[str, Any] = {**namespace(), "__name__": "__main__"}
    error = ""
    try:
        exec(exercise.before, names)
        exec(code, names)
    except (Exception, SystemExit) as raised:  # noqa: BLE001  (as a student's cell)
        error = first_line(raised)

    def ask(case: Mapping[str, Any]) -> Attempt:
        if error:
            return Attempt(case, error=error)
        return run_answer(scope["answer"], names, case, exercise.forbid)

    return ask


# The table --------------------------------------------------------------------------------------

ROW = "{:<16} {:<9} {:<9} {:<9} {:<9}"


def print_reports(exercises: Mapping[str, type[Exercise]]) -> int:
    """Check exercises, print a row for each, and return 0 if all is well."""
    print(ROW.format("exercise", "starter", "solution", "mutants", "hints"))
    failed = 0
    for exercise in exercises.values():
        try:
            report = check_exercise(exercise)
        except SpecError as error:
            report = Report(exercise, False, False, 0, 0, (error.message,))
        print(row_of(report), flush=True)
        for fault in report.faults:
            file = file_of(exercise)
            print(f"  {fault}" if fault.startswith(file) else f"  {file}: {fault}")
        failed += bool(report.faults)
    print(f"{len(exercises)} exercises, {failed} with faults")
    return int(failed > 0)


def row_of(report: Report) -> str:
    """Return the row of one exercise; in capitals what is wrong."""
    if not report.accepts_solution:
        return ROW.format(report.exercise.id, "-", "REFUSED", "-", "-").rstrip()
    mutants = len(report.exercise.mutants)
    starter = "refused" if report.refuses_starter else "ACCEPTED"
    return ROW.format(
        report.exercise.id, starter, "accepted", f"{report.caught} of {mutants}",
        f"{report.hinted} of {mutants}",
    ).rstrip()  # fmt: skip
