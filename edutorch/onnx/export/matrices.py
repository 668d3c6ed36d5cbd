"""Entries for determinants, inverses, and products with sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...fx.node import Node
from .builder import Builder, Value
from .elementwise import number
from .movement import rank
from .table import Unsupported, entry


@entry("op:det")
def det(b: Builder, node: Node, A: Value) -> Value:
    """The determinant."""
    return b.op("Det", A)


@entry("op:inv")
def inv(b: Builder, node: Node, A: Value) -> Value:
    """The inverse as the adjugate by the determinant: ONNX has determinants only."""
    size = A.shape[-1]
    if not isinstance(size, int) or size > LARGEST_INVERSE:
        raise Unsupported(f"the inverse of matrices larger than {LARGEST_INVERSE}")
    if size < 2:
        return b.op("Reciprocal", A)
    rows = [[r for r in range(size) if r != i] for i in range(size)]
    positions = np.array(
        [[[[r * size + c for c in rows[i]] for r in rows[j]] for j in range(size)]
         for i in range(size)]
    )  # fmt: skip
    batch = rank(A) - 2
    flat = b.op("Reshape", A, b.const([0] * batch + [-1], np.int64))
    minors = b.op("Det", b.op("Gather", flat, b.const(positions), axis=batch))
    signs = b.const((-1.0) ** np.add.outer(range(size), range(size)), node.meta["dtype"])
    whole = b.unsqueeze(b.op("Det", A), -1, -2)
    return b.op("Div", b.op("Mul", minors, signs), whole)


LARGEST_INVERSE = 12


@entry("op:slogdet_forward")
def slogdet(b: Builder, node: Node, input: Value) -> tuple[Value, Value]:
    """The logarithm of a determinant's absolute value, and its sign."""
    whole = b.op("Det", input)
    return b.op("Log", b.op("Abs", whole)), b.op("Sign", whole)


# Sparse matrices, whose pattern is a constant -----------------------------------------------------


def positions_of(b: Builder, pattern: Any) -> tuple[Value, Value]:
    """Return the rows and the columns of a pattern's elements."""
    rows, columns = (b.const(np.asarray(index), np.int64) for index in pattern.indices)
    return rows, columns


@entry("op:sparse_mm")
def sparse_mm(
    b: Builder, node: Node, values: Value, dense: Value, pattern: Any, transposed: bool = False
) -> Value:
    """A sparse matrix times a dense one: the products of its elements, added up by row."""
    rows, columns = positions_of(b, pattern)
    if transposed:
        rows, columns = columns, rows
    size = pattern.shape[1 if transposed else 0]
    picked = b.op("Gather", dense, columns, axis=0)
    products = b.op("Mul", b.unsqueeze(values, 1), picked)
    width = b.op("Shape", dense, start=1)
    zeros = b.op("Expand", number(b, node, 0), b.op("Concat", b.vector([size]), width, axis=0))
    spread = b.op("Expand", b.unsqueeze(rows, 1), b.shape(picked))
    return b.op("ScatterElements", zeros, spread, products, axis=0, reduction="add")


@entry("op:sampled_mm")
def sampled_mm(b: Builder, node: Node, rows: Value, columns: Value, pattern: Any) -> Value:
    """The elements of a product of matrices at the positions of a pattern."""
    positions = positions_of(b, pattern)
    sides = [
        b.op("Gather", side, index, axis=0)
        for side, index in zip((rows, columns), positions, strict=True)
    ]
    return b.op("ReduceSum", b.op("Mul", *sides), b.const([1], np.int64), keepdims=0)
