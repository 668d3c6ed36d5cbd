"""The formula of a number, found from its values at several sizes."""

from __future__ import annotations

import pytest

from edutorch.export.formulas import Size, evaluate, solve, text_of

A, B = Size("a"), Size("b")
VALUES = {A: [3, 5, 7, 11], B: [13, 17, 19, 23]}

FORMULAS = [
    ("a", lambda a, b: a),
    ("a*8", lambda a, b: 8 * a),
    ("a*b", lambda a, b: a * b),
    ("a*b*4", lambda a, b: 4 * a * b),
    ("a*a", lambda a, b: a * a),
    ("a+b", lambda a, b: a + b),
    ("b-a", lambda a, b: b - a),
    ("(a*2)+1", lambda a, b: 2 * a + 1),
    ("a-1", lambda a, b: a - 1),
    ("(a*b)+3", lambda a, b: a * b + 3),
    ("b//2", lambda a, b: b // 2),
    ("(b//2)+1", lambda a, b: b // 2 + 1),
    ("7", lambda a, b: 7),
]


@pytest.mark.parametrize(("text", "function"), FORMULAS)
def test_a_formula_is_found(text, function):
    values = [function(a, b) for a, b in zip(VALUES[A], VALUES[B], strict=True)]
    formula = solve(values, VALUES)
    assert evaluate(formula, {A: 29, B: 31}) == function(29, 31), text_of(formula)


def test_scales_are_found():
    formula = solve([1 / a**0.5 for a in VALUES[A]], VALUES)
    assert evaluate(formula, {A: 16, B: 2}) == pytest.approx(0.25)


def test_what_no_formula_gives_is_not_explained():
    assert solve([1, 100, 7, 35000], VALUES) is None
