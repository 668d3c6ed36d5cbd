"""Wrong answers made of the solutions' syntax trees: does the grader refuse them?

    python -m tests.classroom.solution_mutants             # ten of each exercise: a table
    python -m tests.classroom.solution_mutants 02.softmax  # and the lines that change no answer

A mutant that changes an answer on one of 50 random cases must be refused with every seed. One that
is accepted with some seed has survived: the cases of the exercise are too weak, or the mutant stays
within the tolerance that the exercise grants.
"""

from __future__ import annotations

import ast
import contextvars
import copy
import difflib
import functools
import itertools
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import edutorch
from edutorch.classroom.attempt import Attempt, namespace, run_answer
from edutorch.classroom.comparison import compare
from edutorch.classroom.exercise import Exercise, load_exercises
from edutorch.classroom.grading import grade_cases, right_cases

PER_EXERCISE = 10
CASES = 50
SECONDS = 3.0  # of processor time, for the cases of one seed: some mutants never end
EXACT = {"float64": 1e-9, "float32": 1e-5, "float16": 1e-3, "bfloat16": 1e-2}
"""Differences that are no more than rounding: an answer that is so close has not changed."""

SWAPS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div, ast.Add), ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Div, ast.Mult), ast.Pow: (ast.Mult,), ast.MatMult: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,), ast.And: (ast.Or,), ast.Or: (ast.And,), ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,),
}  # fmt: skip

REDUCTIONS = {"mean", "sum", "var", "std", "max", "min", "softmax", "argmax", "cumsum"}


class Change(NamedTuple):
    """A change of a syntax tree: of what sort it is, and the new program."""

    sort: str
    code: str


class Verdict(NamedTuple):
    """What came of a mutant.

    Attributes:
        changed: whether an answer differs from the solution's.
        accepted: the seeds with which it got the points.
    """

    change: Change
    changed: bool
    accepted: tuple[int, ...]

    @property
    def survives(self) -> bool:
        return self.changed and bool(self.accepted)


# Making mutants ---------------------------------------------------------------------------------


def changes_of(source: str) -> list[Change]:
    """Return all changes of a program, each once."""
    tree = ast.parse(source)
    changes: dict[str, Change] = {}
    for index, node in enumerate(ast.walk(tree)):
        for sort, replacement in replacements(node):
            code = with_replacement(tree, index, replacement)
            if code not in changes and code != ast.unparse(tree):
                changes[code] = Change(sort, code)
    return list(changes.values())


def with_replacement(tree: ast.Module, index: int, replacement: ast.AST | None) -> str:
    """Return the program with another node (or none) at an index of `ast.walk`."""
    program = copy.deepcopy(tree)
    target = next(itertools.islice(ast.walk(program), index, None))
    for parent in ast.walk(program):
        for field, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, field, replacement)
            elif isinstance(value, list) and any(item is target for item in value):
                position = next(i for i, item in enumerate(value) if item is target)
                value[position : position + 1] = [] if replacement is None else [replacement]
                if field == "body" and not value:
                    value.append(ast.Pass())
    return ast.unparse(ast.fix_missing_locations(program))


def replacements(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """Yield what may stand instead of a node."""
    if isinstance(node, ast.BinOp):
        yield from replacements_of_operation(node)
    elif isinstance(node, ast.BoolOp | ast.Compare | ast.AugAssign):
        yield from replacements_of_operator(node)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        steps = (1, -1) if isinstance(node.value, int) else (node.value, -2 * node.value)
        for step in steps:
            yield "off by one", ast.Constant(node.value + step)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield "sign", node.operand
    elif isinstance(node, ast.Call):
        yield from replacements_of_call(node)
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield "axis", node.value
    elif isinstance(node, ast.Return | ast.Assign) and node.value is not None:
        yield from replacements_of_value(node)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        yield "off by one", ast.Constant(node.value[:-1])
        yield "off by one", ast.Constant(node.value[1:])
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield "dropped condition", replace(node, ifs=[])
        yield "sign", replace(node, ifs=[ast.UnaryOp(ast.Not(), node.ifs[0])])
    if isinstance(node, ast.AugAssign | ast.Expr):
        yield "dropped line", None
    if isinstance(node, ast.FunctionDef) and node.decorator_list and node.body:
        yield "dropped decorator", replace(node, decorator_list=[])


def replace(node: ast.AST, **fields: Any) -> Any:
    """Return a copy of a node with other fields."""
    copied = copy.copy(node)
    vars(copied).update(fields)
    return copied


def replacements_of_operation(node: ast.BinOp) -> Iterator[tuple[str, ast.AST]]:
    for operator in SWAPS.get(type(node.op), ()):
        yield "operator", replace(node, op=operator())
    yield "dropped term", node.left
    yield "dropped term", node.right
    yield "swapped", replace(node, left=node.right, right=node.left)


def replacements_of_operator(
    node: ast.BoolOp | ast.Compare | ast.AugAssign,
) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Compare):
        for operator in SWAPS.get(type(node.ops[0]), ()):
            yield "operator", replace(node, ops=[operator(), *node.ops[1:]])
    else:
        for operator in SWAPS.get(type(node.op), ()):
            yield "operator", replace(node, op=operator())


def replacements_of_call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if method and not node.args and not node.keywords:
        yield f"missing .{method}()", node.func.value  # type: ignore[attr-defined]
    for position in range(len(node.keywords)):
        rest = [keyword for i, keyword in enumerate(node.keywords) if i != position]
        yield "dropped argument", replace(node, keywords=rest)
    if method in REDUCTIONS and node.args:
        for axis in (ast.Constant(-1), None):
            yield "axis", replace(node, args=[axis] if axis else [])


def replacements_of_value(node: ast.Return | ast.Assign) -> Iterator[tuple[str, ast.AST]]:
    value: Any = node.value
    if not (isinstance(value, ast.Constant) and value.value == 0):
        yield "sign", replace(node, value=ast.UnaryOp(ast.USub(), value))
    yield "result", replace(node, value=ast.BinOp(ast.Constant(2), ast.Mult(), value))
    yield "result", replace(node, value=ast.BinOp(value, ast.Add(), ast.Constant(1)))
    yield "result", replace(node, value=ast.Constant(None))
    yield "result", replace(node, value=ast.BinOp(value, ast.Mult(), ast.Constant(0)))
    if isinstance(value, ast.Tuple):
        yield "swapped", replace(node, value=replace(value, elts=value.elts[::-1]))


def choose(changes: list[Change], count: int, seed: int) -> list[Change]:
    """Return some changes, of as many sorts as there are."""
    rng = random.Random(seed)
    by_sort: dict[str, list[Change]] = {}
    for change in rng.sample(changes, len(changes)):
        by_sort.setdefault(change.sort, []).append(change)
    rounds = itertools.zip_longest(*by_sort.values())
    return [change for turn in rounds for change in turn if change][:count]


# Grading them -----------------------------------------------------------------------------------


TOO_LONG = "the mutant does not end"


class TooLong(BaseException):
    """A mutant does not end: raised through all that catches its errors."""


def asker(exercise: type[Exercise], code: str) -> Callable[[Any], Attempt]:
    """Return what asks the student's code; an error or no end is an error of all answers."""
    names: dict[str, object] = {**namespace(), "viz": edutorch.viz}
    error = ""
    try:
        exec(exercise.before, names)
        exec(code, names)
    except Exception as raised:  # noqa: BLE001  (whatever a mutant raises)
        error = repr(raised)
    scope: dict[str, Any] = dict(namespace())
    exec(exercise.answer_source(), scope)

    def ask(case: Any) -> Attempt:
        if error:
            return Attempt(case, error=error)
        return run_answer(scope["answer"], names, case, exercise.forbid)

    return ask


def judge(exercise: type[Exercise], change: Change, seeds: int) -> Verdict:
    """Grade a mutant with several seeds."""
    changed, accepted = False, list[int]()
    for seed in range(seeds):
        values = values_of(exercise, change.code, seed)
        if values[0].error == TOO_LONG:
            return Verdict(change, True, tuple(accepted))
        right = values_of_solution(exercise, seed)
        cases = right_cases(exercise, seed)
        attempts = iter(values)
        outcome = grade_cases(exercise, lambda case, attempts=attempts: next(attempts), cases)
        changed |= any(map(differs, values, right))
        if outcome.is_right:
            accepted.append(seed)
    return Verdict(change, changed, tuple(accepted))


def values_of(exercise: type[Exercise], code: str, seed: int) -> list[Attempt]:
    """Return the attempts of some code for all cases of a seed."""
    cases = exercise.draw_cases(seed)
    edutorch.manual_seed(seed)
    previous = signal.signal(signal.SIGVTALRM, raise_too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        # In a context of its own: where it is stopped inside no_grad(), that ends with it.
        return contextvars.copy_context().run(answers_of, exercise, code, cases)
    except TooLong:
        return [Attempt(case, error=TOO_LONG) for case in cases]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


def answers_of(exercise: type[Exercise], code: str, cases: list[Any]) -> list[Attempt]:
    ask = asker(exercise, code)
    return [ask(case) for case in cases]


@functools.cache
def values_of_solution(exercise: type[Exercise], seed: int) -> list[Attempt]:
    return values_of(exercise, exercise.solution, seed)


def raise_too_long(*_: object) -> None:
    raise TooLong


def differs(attempt: Attempt, right: Attempt) -> bool:
    """Return whether an answer differs from the solution's by more than rounding."""
    if attempt.error or attempt.forbidden:
        return True
    return compare(attempt.value, right.value, EXACT) is not None


def verdicts(exercise: type[Exercise], count: int = PER_EXERCISE) -> list[Verdict]:
    """Return what comes of some mutants of an exercise, on `CASES` cases or more."""
    seeds = -(-CASES // len(exercise.draw_cases(0)))
    changes = choose(changes_of(exercise.solution), count, 29)
    return [judge(exercise, change, seeds) for change in changes]


def changed_lines(exercise: type[Exercise], change: Change) -> str:
    """Return what a change has removed from the solution, and added to it."""
    before = ast.unparse(ast.parse(exercise.solution)).splitlines()
    lines = difflib.ndiff(before, change.code.splitlines())
    return "\n".join(line for line in lines if line[0] in "-+")


def main(ids: list[str]) -> None:
    """Print a row for each exercise, and the mutants that survive."""
    warnings.simplefilter("ignore")
    print("| exercise | mutants | refused | answers as before | survive |\n|:--|--:|--:|--:|--:|")
    for id, exercise in load_exercises().items():
        if ids and id not in ids:
            continue
        rows = verdicts(exercise)
        survivors = [row for row in rows if row.survives]
        same = sum(not row.changed for row in rows)
        refused = len(rows) - same - len(survivors)
        print(f"| {id} | {len(rows)} | {refused} | {same} | {len(survivors)} |", flush=True)
        for row in rows:
            if row.survives or (ids and not row.changed):
                what = f"accepted with {len(row.accepted)} seeds" if row.changed else "as before"
                print(f"\n{row.change.sort}, {what}:\n{changed_lines(exercise, row.change)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
