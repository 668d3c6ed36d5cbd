"""Sizes as formulas: an integer that follows from the sizes of a program's inputs.

A program is captured at several sizes. A number that differs from capture to capture is written as
a formula of the sizes: `solve` tries the forms that sizes take in networks, the simplest first.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

__all__ = [
    "Call", "Formula", "Size", "evaluate", "invert", "solve", "symbols_of", "text_of",
]  # fmt: skip


@dataclass(frozen=True)
class Size:
    """A size with a name: a symbol of the program, or an axis of a value in it.

    Args:
        name: the symbol, such as "batch".
        node: for an axis of a value, the index of its node; -1 for a symbol.
        axis: the axis.
    """

    name: str
    node: int = -1
    axis: int = 0

    def __str__(self) -> str:
        return text_of(self)


@dataclass(frozen=True)
class Call:
    """An arithmetic step: `op` is one of `OPERATORS`."""

    op: str
    left: Formula
    right: Formula

    def __str__(self) -> str:
        return text_of(self)


Formula = int | float | Size | Call

OPERATORS: dict[str, Callable[[float, float], float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
    "truediv": operator.truediv, "pow": operator.pow,
}  # fmt: skip

SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "pow": "**"}


def evaluate(formula: Formula, sizes: Mapping[Size, int]) -> float:
    """Return the value of a formula.

    Args:
        sizes: the value of each size in it.

    >>> from edutorch.export.formulas import Call, Size, evaluate
    >>> evaluate(Call("mul", Size("batch"), 8), {Size("batch"): 3})
    24
    """
    if isinstance(formula, Size):
        return sizes[formula]
    if isinstance(formula, Call):
        return OPERATORS[formula.op](evaluate(formula.left, sizes), evaluate(formula.right, sizes))
    return formula


def text_of(formula: Formula) -> str:
    """Return a formula as text, such as `batch*8`."""
    if isinstance(formula, Size):
        return formula.name
    if isinstance(formula, Call):
        parts = [
            f"({text_of(side)})" if isinstance(side, Call) and side.op != "mul" else text_of(side)
            for side in (formula.left, formula.right)
        ]
        return f"{parts[0]}{SIGNS[formula.op]}{parts[1]}"
    return str(formula)


def invert(formula: Formula, value: int) -> int | None:
    """Return the size with which a formula of one size has this value, or None."""
    if isinstance(formula, Size):
        return value
    if not isinstance(formula, Call) or not isinstance(formula.right, int):
        return None
    if formula.op == "mul":
        return invert(formula.left, value // formula.right) if value % formula.right == 0 else None
    offset = {"add": -formula.right, "sub": formula.right}.get(formula.op)
    return None if offset is None else invert(formula.left, value + offset)


def symbols_of(formula: Formula) -> set[Size]:
    """Return the sizes that a formula names."""
    if isinstance(formula, Call):
        return symbols_of(formula.left) | symbols_of(formula.right)
    return {formula} if isinstance(formula, Size) else set()


# Finding a formula --------------------------------------------------------------------------------

Values = Sequence[float]
Bases = Mapping[Formula, Sequence[int]]

MOST_FACTORS = 4
MOST_BASES = 12
LARGEST_DIVISOR = 64


def solve(values: Values, bases: Bases) -> Formula | None:
    """Return a formula that gives each of the values at its sizes, or None.

    Args:
        values: what a number was in each capture.
        bases: what each size was in each capture.

    >>> from edutorch.export.formulas import Size, solve, text_of
    >>> text_of(solve([10, 14, 22], {Size("n"): [5, 7, 11]}))
    'n*2'
    """
    if all(value == values[0] and type(value) is type(values[0]) for value in values):
        return values[0]
    moving = {
        base: counts for base, counts in list(bases.items())[:MOST_BASES] if len(set(counts)) > 1
    }
    if any(isinstance(value, float) for value in values):
        return solve_float(values, moving)
    for form in (solve_multiple, solve_product, solve_affine, solve_sum, solve_division):
        formula = form(values, moving)
        if formula is not None:
            return formula
    return None


def scaled(formula: Formula, factor: int) -> Formula:
    return formula if factor == 1 else Call("mul", formula, factor)


def shifted(formula: Formula, offset: int) -> Formula:
    if offset == 0:
        return formula
    return Call("add", formula, offset) if offset > 0 else Call("sub", formula, -offset)


def solve_multiple(values: Values, bases: Bases) -> Formula | None:
    """Try size · factor."""
    for base, counts in bases.items():
        factor = common_ratio(values, counts)
        if factor is not None:
            return scaled(base, factor)
    return None


def common_ratio(values: Values, counts: Sequence[float]) -> int | None:
    """Return the integer that all values are of the counts, or None."""
    if not counts[0] or values[0] % counts[0]:
        return None
    factor = int(values[0] // counts[0])
    matches = all(v == factor * n for v, n in zip(values, counts, strict=True))
    return factor if matches else None


def products(bases: Bases) -> Iterator[tuple[Formula, list[int]]]:
    """Yield products of two and more sizes, with their values."""
    for count in range(2, MOST_FACTORS + 1):
        for chosen in itertools.combinations_with_replacement(bases, count):
            product: Formula = chosen[0]
            for base in chosen[1:]:
                product = Call("mul", product, base)
            columns = zip(*(bases[base] for base in chosen), strict=True)
            yield product, [math.prod(column) for column in columns]


def solve_product(values: Values, bases: Bases) -> Formula | None:
    """Try size · size · … · factor, and size · size // divisor."""
    for product, counts in products(bases):
        factor = common_ratio(values, counts)
        if factor is not None:
            return scaled(product, factor)
        divisor = common_ratio(counts, values) if all(values) else None
        if divisor is not None:
            return Call("floordiv", product, divisor)
    return None


def solve_affine(values: Values, bases: Bases) -> Formula | None:
    """Try size · factor + offset, and the same of products."""
    for base, counts in itertools.chain(bases.items(), products(bases)):
        pairs = list(zip(values, counts, strict=True))
        other = next((pair for pair in pairs if pair[1] != pairs[0][1]), None)
        if other is None:
            continue
        (v0, n0), (v1, n1) = pairs[0], other
        factor, rest = divmod(v1 - v0, n1 - n0)
        offset = int(v0 - factor * n0)
        if rest == 0 and factor and all(v == factor * n + offset for v, n in pairs):
            if factor == -1:
                return Call("sub", offset, base)
            return shifted(scaled(base, int(factor)), offset)
    return None


def solve_sum(values: Values, bases: Bases) -> Formula | None:
    """Try size ± size + offset."""
    for first, second in itertools.permutations(bases, 2):
        for op, sign in (("add", 1), ("sub", -1)):
            columns = zip(values, bases[first], bases[second], strict=True)
            offsets = {int(value - (a + sign * b)) for value, a, b in columns}
            if len(offsets) == 1:
                return shifted(Call(op, first, second), offsets.pop())
    return None


def solve_division(values: Values, bases: Bases) -> Formula | None:
    """Try (size + shift) // divisor + offset, also of a product of two sizes."""
    for divisor in range(2, LARGEST_DIVISOR + 1):
        for base, counts in bases.items():
            for shift in range(divisor):
                offsets = {
                    int(value - (number + shift) // divisor)
                    for value, number in zip(values, counts, strict=True)
                }
                if len(offsets) == 1:
                    return shifted(Call("floordiv", shifted(base, shift), divisor), offsets.pop())
    return None


def solve_float(values: Values, bases: Bases) -> Formula | None:
    """Try factor · size to the power of 1, -1, 1/2 or -1/2, as scales of sums are."""
    for power in (1.0, -1.0, 0.5, -0.5):
        for base, counts in bases.items():
            factors = [v / n**power for v, n in zip(values, counts, strict=True)]
            if all(math.isclose(factor, factors[0], rel_tol=1e-12) for factor in factors):
                raised = base if power == 1.0 else Call("pow", base, power)
                return Call("mul", float(f"{factors[0]:.15g}"), raised)
    return solve_correction(values, bases)


def solve_correction(values: Values, bases: Bases) -> Formula | None:
    """Try n / (n - 1), where n is a multiple of a size: variances are corrected so."""
    if any(value <= 1 for value in values):
        return None
    quotients = [value / (value - 1) for value in values]
    rounded = [round(quotient) for quotient in quotients]
    if not all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(quotients, rounded, strict=True)):
        return None
    count = solve_multiple(rounded, bases) or solve_product(rounded, bases)
    return None if count is None else Call("truediv", count, shifted(count, -1))
