r"""A node's derivative rule with its own values substituted: g·b = 1·3 = 3.

Formulas are stated by the ops. By convention, their symbols mean

    g, y            the gradient that comes in; the output
    x or a          the first input, b the second, in matrix rules A and B
    W, w, t, n      weight, target, exponent (or the number of elements of a mean)
    \alpha, \beta   the setting of that name

and the meanings in `SPECIAL` for some ops. Only values that the node has saved are substituted,
and only small ones: a scalar, a short vector, a small matrix.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import backends
from ...backends.numpy import Array
from ...core.autograd.graph import Node
from ...core.op import Op
from ...core.tensor import Tensor
from .latex import UnknownValueError, Value, parse, substitute, symbols, to_latex, to_text

LONGEST_ROW, MOST_ROWS, MOST_COLUMNS = 8, 4, 4
"""The largest vector and matrix whose elements are written out."""

LONGEST_SOURCE = 12  # lines

SPECIAL: dict[str, dict[str, str]] = {
    "addcdiv": {"a": "tensor1", "b": "tensor2", "v": "value"},
    "addcmul": {"a": "tensor1", "b": "tensor2", "v": "value"},
    "conv_weight_grad": {"y": "response"},
    "igamma": {"a": "input", "x": "other"},
    "igammac": {"a": "input", "x": "other"},
    "leaky_relu_forward": {"a": "negative_slope"},
    "lerp": {"b": "end"},
    "mv": {"v": "vec"},
    "polar": {"z": "y", r"\varphi": "angle"},
    "roll": {"s": "shifts"},
    "scatter_reduce": {"s": "src"},
    "zero_with_gradient": {"s": "slope"},
    "zeta": {"q": "other", "s": "input"},
}
"""Symbols with another meaning in the formulas of an op: the input or setting."""

FIRST, SECOND = {"x", "a", "z", "A"}, {"b", "B"}
OWN = {"weight": {"W", "w"}, "target": {"t"}, "y": {"y", "X"}, "g": {"g"}}
NEVER = {
    "F", "L", "M", "P", "Q", "R", "S", "U", "V", "c", "j", "k", "l", r"\sigma",
}  # fmt: skip
"""Symbols of matrix factors, indices and deviations, whose values no node saves."""

NEVER_OF = {
    "ctc_loss_forward": {r"\alpha", r"\beta", "p", "s", "t"},
    "eig_forward": {"w"},
    "eigh_forward": {"w"},
    "from_half_spectrum": {"w"},
    "index_put": {"index"},
    "svd_forward": {"s"},
}
"""The same, in the formulas of some ops."""

COUNTED = {"mean", "mse_loss", "l1_loss"}
MATRICES = {
    "addmm", "bmm", "det", "inv", "linear", "matmul", "mm", "mv", "outer", "solve_forward", "t",
    "transpose",
}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """The rule of a gradient that leaves a node, as LaTeX and as a line of text.

    `equation` is a chain of equations with the node's values, if they are small. `source` is the
    rule as Python code, if no formula states it exactly.
    """

    latex: str = ""
    text: str = ""
    equation: str = ""
    equation_text: str = ""
    source: str = ""


def rule_of(node: Node, position: int, g: Array, result: Array, exact: bool = True) -> Rule:
    """Return the rule that computed `result`, the gradient of the input at `position` of `node`.

    Args:
        g: the incoming gradient; like `result`, an array.
        exact: False if a hook changed the gradients, so that no values are substituted.
    """
    op: Any = node.op
    name = "" if not op.inputs else op.inputs[0 if op.variadic else position]
    rules = getattr(op, "rules", {})
    if name not in rules:
        function = getattr(node, "function", None)
        return Rule(source=source_of(function.backward) if function is not None else "")
    rule = rules[name]
    source = source_of(rule.function) if not rule.latex or r"\text" in rule.latex else ""
    if not rule.latex:
        return Rule(source=source)
    latex = rule.latex
    if saved_values(node).get("alpha") == 1:  # a plain sum: the alpha of `add` is not well known
        latex = latex.replace(r"\alpha\,", "")
    equation = equation_chain(node, latex, g, result) if exact else ("", "")
    return Rule(latex, to_text(parse(latex)), *equation, source)


def equation_chain(node: Node, latex: str, g: Array, result: Array) -> tuple[str, str]:
    """Return "formula = formula with values = result" as LaTeX and text; "" if too large."""
    outcome = value_of(result)
    if outcome is None:
        return "", ""
    tree = parse(latex)
    steps = [(to_latex(tree), to_text(tree))]
    try:
        values = values_of(node, symbols(tree), g)
        matrices = node.op.name in MATRICES
        if matrices and any(not (value.scalar or value.matrix) for value in values.values()):
            raise UnknownValueError("a vector: how it lies is not said")
        inside = substitute(tree, values, matrices)
        steps.append((to_latex(inside), to_text(inside)))
    except UnknownValueError:
        pass
    steps.append((outcome.latex, outcome.plain))
    steps = [
        step for index, step in enumerate(steps) if index == 0 or step[1] != steps[index - 1][1]
    ]
    latexes, texts = zip(*steps, strict=True)
    return " = ".join(latexes), " = ".join(texts)


# Meaning of symbols -----------------------------------------------------------------------


def symbol_meaning(op: Op, symbol: str) -> str | None:
    """Return what a symbol stands for: "g", "y", "count", or the name of an input or setting."""
    special = SPECIAL.get(op.name, {}).get(symbol)
    if special is not None:
        return special
    names = (*op.inputs, *op.settings)
    for name, own_symbols in OWN.items():
        if symbol in own_symbols and (name in ("g", "y") or name in names):
            return name
    if symbol in FIRST:
        return op.inputs[0]
    if symbol in SECOND and len(op.inputs) > 1:
        return op.inputs[1]
    if symbol == "n":
        return next((name for name in ("exponent", "n") if name in names), "count")
    if symbol == "p":
        return next((name for name in ("p", "ord") if name in names), None)
    word = symbol.removeprefix("\\")
    return word if word in names else None


def values_of(node: Node, wanted_symbols: set[str], g: Array) -> dict[str, Value]:
    """Return the values of the symbols whose values are known and small."""
    op = node.op
    saved = {**saved_values(node), "g": g}
    values = {}
    for symbol in wanted_symbols:
        name = symbol_meaning(op, symbol)
        if name is None:
            continue
        value = mean_count(op, saved) if name == "count" else saved.get(name)
        value = value_of(value)
        if value is not None:
            values[symbol] = value
    return values


def saved_values(node: Node) -> dict[str, Any]:
    """Return the saved arrays and numbers of a node by name."""
    op = node.op
    if node.saved is None or op.variadic or not hasattr(op, "rules"):
        return {}
    return {
        name: saved._array if isinstance(saved, Tensor) else saved
        for name, saved in zip(op.saved, node.saved, strict=False)
    }


def mean_count(op: Op, saved: Mapping[str, Any]) -> int | None:
    """Return the number of elements of a mean, if the op is one."""
    if op.name not in COUNTED:
        return None
    if "reduction" in op.settings:
        return saved["input"].size if saved.get("reduction", "mean") == "mean" else 1
    shape = saved.get("input_shape")
    return None if shape is None else math.prod(shape) // max(1, saved["g"].size)


# Values as text --------------------------------------------------------------------------


def value_of(value: Array | complex) -> Value | None:
    """Return a number or a small array as a `Value`; None if it is too large or something else."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | float | complex):
        return Value(*number_text(value, 4))
    if not backends.is_array(value) or hasattr(value, "all_examples"):
        return None
    shape = value.shape
    if len(shape) > 2 or value.size == 0:
        return None
    if len(shape) == 1 and shape[0] > LONGEST_ROW:
        return None
    if len(shape) == 2 and (shape[0] > MOST_ROWS or shape[1] > MOST_COLUMNS):
        return None
    array = np.asarray(backends.of(value).to_numpy(value))
    if not shape:
        return Value(*number_text(array.item(), 4))
    if len(shape) == 1:
        cells = [number_text(element, 3) for element in array.tolist()]
        latex, plain = (", ".join(side) for side in zip(*cells, strict=True))
        return Value(f"[{latex}]", f"[{plain}]", scalar=False)
    rows = [[number_text(element, 3) for element in row] for row in array.tolist()]
    latex = r" \\ ".join(" & ".join(cell[0] for cell in row) for row in rows)
    plain = "; ".join(", ".join(cell[1] for cell in row) for row in rows)
    return Value(rf"\begin{{pmatrix}}{latex}\end{{pmatrix}}", f"[{plain}]", False, matrix=True)


def number_text(number: complex, digits: int) -> tuple[str, str]:
    """Return one number as LaTeX and as text."""
    if isinstance(number, bool | int):
        return str(int(number)), str(int(number))
    text = f"{number + 0.0:.{digits}g}"  # -0 + 0 is 0
    if isinstance(number, complex):
        return rf"({text.replace('j', 'i')})", f"({text})"
    if "e" in text:
        mantissa, power = text.split("e")
        return rf"{mantissa} \cdot 10^{{{int(power)}}}", f"{mantissa}e{int(power)}"
    return {"inf": r"\infty", "-inf": r"-\infty", "nan": r"\text{nan}"}.get(text, text), text


# The rule as Python --------------------------------------------------------------------------


@functools.lru_cache(maxsize=512)
def source_of(function: Any) -> str:
    """Return the source of a rule, a lambda or a short function; "" if it has none."""
    try:
        if function.__name__ != "<lambda>":
            lines = textwrap.dedent(inspect.getsource(function)).rstrip().splitlines()
            shown_lines = lines[:LONGEST_SOURCE] + ["    …"] * (len(lines) > LONGEST_SOURCE)
            return "\n".join(shown_lines)
        code = function.__code__
        text = "".join(linecache.getlines(code.co_filename))
        for node in ast.walk(parse_source(text)):
            if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
                names = tuple(argument.arg for argument in node.args.args)
                if names == code.co_varnames[: code.co_argcount]:
                    return " ".join((ast.get_source_segment(text, node) or "").split())
    except (OSError, TypeError, SyntaxError):  # typed at a prompt, or written in C
        pass
    return ""


@functools.lru_cache(maxsize=8)
def parse_source(text: str) -> ast.AST:
    """Parse a file, with a small cache: the rules of an op are in one file."""
    return ast.parse(text)


def is_known(op: Op, symbol: str) -> bool:
    """Whether a symbol has a meaning here or is listed as having no value (for tests)."""
    never = NEVER | NEVER_OF.get(op.name, set())
    return symbol in never or symbol_meaning(op, symbol) is not None
