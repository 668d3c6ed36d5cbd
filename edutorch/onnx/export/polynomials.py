"""Entries for orthogonal polynomials: a Loop over their recurrence, up to the largest degree."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...fx.node import Node
from .builder import Builder, Value
from .table import entry

Double = np.float64


class Terms(NamedTuple):
    """A polynomial of degree 1, and the recurrence of the others.

    p₁ = first(x); pₖ₊₁ = ((slope(k) · x + offset(k)) · pₖ - before(k) · pₖ₋₁) / (divisor · k + 1),
    where a pair (a, b) stands for a · k + b.
    """

    first: tuple[float, float]
    slope: tuple[float, float]
    offset: tuple[float, float]
    before: tuple[float, float]
    divisor: float = 0


CHEBYSHEV = {"t": (1, 0), "u": (2, 0), "v": (2, -1), "w": (2, 1)}

POLYNOMIALS = {
    **{
        f"chebyshev_polynomial_{letter}": Terms(first, (0, 2), (0, 0), (0, 1))
        for letter, first in CHEBYSHEV.items()
    },
    "hermite_polynomial_h": Terms((2, 0), (0, 2), (0, 0), (2, 0)),
    "hermite_polynomial_he": Terms((1, 0), (0, 1), (0, 0), (1, 0)),
    "laguerre_polynomial_l": Terms((-1, 1), (0, -1), (2, 1), (1, 0), 1),
    "legendre_polynomial_p": Terms((1, 0), (2, 1), (0, 0), (1, 0), 1),
}


def linear(b: Builder, x: Value, pair: tuple[float, float]) -> Value:
    """Return a · x + b."""
    product = b.op("Mul", x, b.const(float(pair[0]), Double))
    return b.op("Add", product, b.const(float(pair[1]), Double))


def next_term(b: Builder, terms: Terms, x: Value, k: Value, now: Value, before: Value) -> Value:
    """Return the polynomial of degree k + 1 from those of degrees k and k - 1."""
    factor = b.op("Mul", linear(b, k, terms.slope), x)
    factor = b.op("Mul", b.op("Add", factor, linear(b, k, terms.offset)), now)
    total = b.op("Sub", factor, b.op("Mul", linear(b, k, terms.before), before))
    return b.op("Div", total, linear(b, k, (terms.divisor, 1)))


def polynomial(b: Builder, node: Node, terms: Terms, x: Any, n: Any, shifted: bool) -> Value:
    """Return the polynomial of degree n, chosen in a loop over the degrees."""
    zero, one = b.const(0.0, Double), b.const(1.0, Double)
    value = linear(b, b.tensor(x, Double), (2, -1) if shifted else (1, 0))
    degree = b.tensor(n, Double)
    whole = b.op("Mul", b.op("Sign", degree), b.op("Floor", b.op("Abs", degree)))
    spread = b.op("Mul", whole, zero)
    value = b.op("Add", value, spread)
    whole = b.op("Add", whole, b.op("Mul", value, zero))
    first = linear(b, value, terms.first)
    start = b.op("Add", b.op("Mul", value, zero), one)
    result = b.op("Where", b.op("Equal", whole, zero), start, b.op("Mul", value, zero))
    result = b.op("Where", b.op("Equal", whole, one), first, result)
    inner = Builder(b.opset, b)
    turn, test = inner.value("turn", np.int64, []), inner.value("test", np.bool_, [])
    before, now, chosen = (inner.value(name, Double) for name in ("before", "now", "chosen"))
    k = inner.op("Add", inner.cast(turn, Double), one)
    following = next_term(inner, terms, value, k, now, before)
    is_degree = inner.op("Equal", whole, inner.op("Add", k, one))
    picked = inner.op("Where", is_degree, following, chosen)
    outputs = [inner.op("Identity", v) for v in (test, now, following)]
    body = inner.graph([turn, test, before, now, chosen], [*outputs, picked], b.unique("degrees"))
    turns = b.op("ReduceMax", b.op("Sub", whole, one), keepdims=0)
    turns = b.cast(b.op("Max", turns, zero), np.int64)
    _, _, y = b.op("Loop", turns, b.const(True), start, first, result, outputs=3, body=body)
    return b.op("Cast", y, to=int(b.tensor(0, node.meta["dtype"]).dtype))


def register(name: str, terms: Terms, shifted: bool) -> None:
    """Add the entry of a polynomial."""

    @entry(f"op:{name}")
    def translate(b: Builder, node: Node, x: Any, n: Any) -> Value:
        return polynomial(b, node, terms, x, n, shifted)


for _name, _terms in POLYNOMIALS.items():
    register(_name, _terms, shifted=False)
    if _name.startswith("chebyshev"):
        register(f"shifted_{_name}", _terms, shifted=True)
