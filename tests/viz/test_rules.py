"""Formulas with numbers in them: known symbols, and equations that are true."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edutorch as torch
import edutorch.nn.functional as F
from edutorch.core.registry import REGISTRY
from edutorch.events import WorkEnded, WorkStarted, listening
from edutorch.viz.graph.latex import (
    FUNCTIONS,
    FormulaNode,
    UnknownValueError,
    Value,
    parse,
    substitute,
    symbols,
    to_latex,
    to_text,
)
from edutorch.viz.graph.rules import (
    is_known,
    rule_of,
    saved_values,
    source_of,
    symbol_meaning,
    value_of,
)

FORMULAS = [
    (op, name, rule.latex)
    for op in REGISTRY.values()
    for name, rule in op.rules.items()
    if rule.latex
]
WIDGETS = Path(__file__).parents[2] / "widgets"


def test_each_symbol_of_each_formula_is_known():
    unknown = [
        (op.name, name, symbol)
        for op, name, latex in FORMULAS
        for symbol in symbols(parse(latex))
        if not is_known(op, symbol)
    ]
    assert unknown == []
    assert len(FORMULAS) > 200


def test_the_page_can_draw_each_formula():
    text = (WIDGETS / "formula.js").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", text))
    used = {name for _, _, latex in FORMULAS for name in re.findall(r"\\([a-zA-Z]+)", latex)}
    assert used - words == set()


@pytest.mark.parametrize("latex", sorted({latex for _, _, latex in FORMULAS}))
def test_a_formula_that_was_read_can_be_written(latex):
    tree = parse(latex)
    assert to_latex(parse(to_latex(tree))) == to_latex(tree)
    text = to_text(tree)
    assert text and "\\" not in text and "{" not in text


def number(value: float) -> Value:
    return Value(f"{value:g}", f"{value:g}")


@pytest.mark.parametrize(
    ("latex", "values", "text"),
    [
        (r"g \cdot b", {"g": 1, "b": 3}, "1·3"),
        (r"g \cdot b", {"g": -1, "b": -3}, "-1·(-3)"),
        (r"g \cdot n\,x^{n-1}", {"g": 2, "n": 3, "x": -4}, "2·3·(-4)³⁻¹"),
        (r"-\frac{g\,a}{b^2}", {"g": 2, "a": 6, "b": -3}, "-(2·6)/(-3)²"),
        (r"g\,(1-y^2)", {"g": 2, "y": 0.5}, "2·(1 - 0.5²)"),
        (r"g \cos x", {"g": 2, "x": 3}, "2·cos(3)"),
        (r"g\,[a > b]", {"g": 2, "a": 3, "b": 1}, "2·[3 > 1]"),
        (r"-g", {"g": -2}, "-(-2)"),
        (r"\frac{g}{2y}", {"g": 3, "y": 4}, "3/(2·4)"),
        (r"\frac{g}{n}\ \text{to each}", {"g": 3, "n": 4}, "3/4 to each"),
        (r"g\,\sigma(\beta x)", {"g": 1, r"\beta": 2, "x": 3}, "1·σ(2·3)"),
    ],
)
def test_numbers_are_put_in(latex, values, text):
    tree = substitute(parse(latex), {name: number(value) for name, value in values.items()})
    assert to_text(tree) == text


def test_what_is_not_known_is_not_put_in():
    for latex in (r"g \cdot b", r"g[index]", r"\sum_{j \ge i} g_j", r"\bar g"):
        with pytest.raises(UnknownValueError):
            substitute(parse(latex), {"g": number(1), "index": number(0)})


def test_matrices_and_rows():
    matrix = value_of(np.array([[1.0, 2.0], [3.0, -4.0]]))
    assert matrix.latex == r"\begin{pmatrix}1 & 2 \\ 3 & -4\end{pmatrix}"
    tree = parse(r"A^\top g")
    assert to_text(substitute(tree, {"A": matrix, "g": matrix}, matrices=True)) == (
        "[1, 2; 3, -4]ᵀ [1, 2; 3, -4]"
    )
    row = value_of(np.array([1.0, 2.0]))
    assert to_text(substitute(parse(r"g \cdot b"), {"g": row, "b": row})) == "[1, 2]⊙[1, 2]"
    assert value_of(np.zeros(9)) is None and value_of(np.zeros((5, 2))) is None
    assert value_of(np.zeros((2, 2, 2))) is None
    assert value_of(1.5e-7).latex == r"1.5 \cdot 10^{-7}"
    assert value_of(np.float32(-0.0)).plain == "0"
    assert value_of(float("inf")).latex == r"\infty"
    assert value_of(True).plain == "1"


def rules_of(result: torch.Tensor) -> dict[str, Any]:
    """Return the rule of each edge of each op behind `result`, as "op.input"."""
    rules, came = {}, {}

    def listener(event):
        if isinstance(event, WorkStarted) and event.kind == "node":
            came[event.subject] = event.inputs[0]
        if isinstance(event, WorkEnded) and event.kind == "node":
            node = event.subject
            for position, sent in enumerate(event.result):
                if sent is not None:
                    name = node.op.inputs[0 if node.op.variadic else position]
                    rules[f"{node.op.name}.{name}"] = rule_of(node, position, came[node], sent)

    with listening(listener):
        result.backward(torch.ones_like(result), retain_graph=True)
    return rules


def leaf(*values: Any) -> Any:
    made = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values]
    return made if len(made) > 1 else made[0]


def test_chains_of_equations():
    a, b = leaf(2.0, 3.0)
    rules = rules_of(a * b)
    assert rules["mul.input"].equation_text == "g·b = 1·3 = 3"
    assert rules["mul.other"].equation == r"g \cdot a = 1 \cdot 2 = 2"
    assert rules_of(a + b)["add.other"].equation_text == "g = 1"
    assert rules_of(a**2)["pow.input"].equation_text == "g·n xⁿ⁻¹ = 1·2·2²⁻¹ = 4"
    matrix = leaf([[1.0, 2.0], [3.0, 4.0]])
    assert rules_of(matrix.mean())["mean.input"].equation_text == (
        "g/n to each = 1/4 to each = [0.25, 0.25; 0.25, 0.25]"
    )
    assert rules_of((matrix @ matrix).sum())["matmul.other"].equation_text == (
        "Aᵀg = [1, 2; 3, 4]ᵀ [1, 1; 1, 1] = [4, 4; 6, 6]"
    )
    error = F.mse_loss(matrix, torch.zeros(2, 2, dtype=torch.float64), reduction="sum")
    assert "2/1·1·" in rules_of(error)["mse_loss.input"].equation_text
    large = leaf([0.0] * 20)
    assert rules_of(large * 2)["mul.input"].equation_text == ""


def test_a_rule_in_words_comes_with_its_source():
    matrix = leaf([[1.0, 2.0], [3.0, 4.0]])
    rule = rules_of(matrix.max(1).values.sum())["minmax_dim.input"]
    assert rule.text == "g to where it was found"
    assert rule.source.startswith("lambda g")
    assert rules_of(matrix[0].sum())["sum.input"].source == (
        "lambda g, input_shape: expand(g, input_shape)"
    )


def test_sources():
    assert source_of(len) == ""
    assert source_of(eval("lambda g: g")) == ""
    assert source_of(number).startswith("def number(")


# Are the equations true? -----------------------------------------------------------------------

KNOWN: dict[str, Any] = {name: getattr(math, name, None) for name in FUNCTIONS} | {
    "ln": math.log, "sign": lambda x: math.copysign(1.0, x) if x else 0.0,
    r"\sigma": lambda x: 1 / (1 + math.exp(-x)), "trunc": math.trunc,
    r"\Phi": lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2))),
    r"\varphi": lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    r"\lfloor": math.floor,
}  # fmt: skip
COMPARE = {"<": float.__lt__, ">": float.__gt__, r"\le": float.__le__, r"\ge": float.__ge__,
           "=": float.__eq__}  # fmt: skip


class Calculator:
    """Computes what a formula of numbers is. KeyError: it has something else in it."""

    def __init__(self, values: dict[str, float]) -> None:
        self.values = {**values, "e": math.e, r"\pi": math.pi}

    def value(self, piece: FormulaNode) -> float:
        if piece.kind == "number":
            return float(piece.text)
        if piece.kind == "symbol":
            return self.values[piece.text]
        if piece.kind == "fraction":
            return self.value(piece.parts[0]) / self.value(piece.parts[1])
        if piece.kind == "root":
            return math.sqrt(self.value(piece.parts[0]))
        if piece.kind == "power":
            return self.value(piece.parts[0]) ** self.value(piece.parts[1])
        if piece.kind == "row":
            self_parts = [part for part in piece.parts if part.kind != "space"]
            result, rest = self.sum(self_parts)
            if rest:
                raise KeyError(rest[0].text)
            return result
        raise KeyError(piece.kind)

    def sum(self, row: list[FormulaNode]) -> tuple[float, list[FormulaNode]]:
        total, sign = 0.0, 1.0
        while True:
            while row and row[0].text in ("-", "+"):
                sign, row = -sign if row[0].text == "-" else sign, row[1:]
            factor, row = self.product(row)
            total += sign * factor
            sign = 1.0
            if not row or row[0].text not in ("-", "+"):
                return total, row

    def product(self, row: list[FormulaNode]) -> tuple[float, list[FormulaNode]]:
        result = 1.0
        while row and (row[0].kind not in ("close", "sign") or row[0].text in (r"\cdot", "/")):
            if row[0].text == r"\cdot":
                row = row[1:]
                continue
            divide = row[0].text == "/"
            factor, row = self.factor(row[1:] if divide else row)
            result = result / factor if divide else result * factor
        return result, row

    def factor(self, row: list[FormulaNode]) -> tuple[float, list[FormulaNode]]:
        first, rest = row[0], row[1:]
        name = first.plain or first.text
        function = KNOWN.get(name) if rest and first.text not in self.values else None
        if first.kind == "open":
            inner, rest = self.sum(rest)
            if rest[0].text in COMPARE:
                other, after = self.sum(rest[1:])
                inner, rest = float(COMPARE[rest[0].text](inner, other)), after
            inner = KNOWN[first.text](inner) if first.text in KNOWN else inner
            return inner, rest[1:]
        if function is not None:
            argument, rest = self.factor(rest)
            return float(function(argument)), rest
        return self.value(first), rest


def test_the_formulas_of_single_numbers_are_true():
    """What the formula says equals what the rule computes: for every op that can be tried."""
    checked, wrong = set(), []
    for op, name, latex in FORMULAS:
        if not op.family.broadcasts or r"\text" in latex:
            continue
        for start in ((0.6, 0.7, 0.9), (1.7, 1.2, 1.4)):
            inputs = leaf(*start)[: len(op.inputs)]
            try:
                result = op.function(*inputs)
            except (TypeError, ValueError, RuntimeError):  # it wants something else
                continue
            if not result.requires_grad or result.is_complex() or not result.isfinite().all():
                continue
            node = result._node
            known = {**saved_values(node), "g": 1.3}
            tree = parse(latex)
            values = {
                symbol: float(known[symbol_meaning(op, symbol)])
                for symbol in symbols(tree)
                if known.get(symbol_meaning(op, symbol)) is not None
            }
            try:
                says = Calculator(values).value(tree)
            except (KeyError, ValueError):
                continue
            (gradient,) = torch.autograd.grad(
                result, inputs[op.inputs.index(name)], torch.tensor(1.3, dtype=torch.float64)
            )
            checked.add((op.name, name))
            if not math.isclose(says, gradient.item(), rel_tol=1e-6, abs_tol=1e-9):
                wrong.append((op.name, name, latex, says, gradient.item()))
    assert not wrong, wrong
    assert len(checked) >= 60, sorted(checked)
