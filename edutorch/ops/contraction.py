"""Einstein summation as batched matrix products, two operands at a time.

NumPy's `einsum` iterates over all index letters in one loop nest: for a product of two matrices it
takes ten times as long as `matmul`, and for three operands a factor more for each letter. But two
operands are a batched matrix product once their axes are permuted:

    bhid,bhjd->bhij     batch b h, rows i, columns j, summed over d

and of more than two operands, two are replaced by their product until two are left.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..backends.numpy import Array
from .linalg import matmul


def contract_by_matmul(operands: Sequence[Array], equation: str) -> Array | None:
    """Compute an equation by matrix products; None where `einsum` is as fast."""
    if len(operands) < 2 or not all(is_blas_array(operand) for operand in operands):
        return None
    steps = plan_contraction(equation, tuple(operand.shape for operand in operands))
    if steps is None:
        return None
    pending = list(operands)
    for positions, pair in steps:
        a, b = (pending.pop(position) for position in positions)
        pending.append(pair(a, b))
    return pending[0]


def is_blas_array(x: Array) -> bool:
    """Return True if BLAS can multiply the array: a NumPy array of 32-bit floats or wider."""
    return x.__class__ is np.ndarray and x.dtype.kind in "fc" and x.dtype.itemsize >= 4


class PairContraction(NamedTuple):
    """One step of a contraction: a matrix product or, without `product`, an `einsum`."""

    equation: str
    product: bool
    orders: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    counts: tuple[int, int, int]  # of letters: batch, rows, columns

    def __call__(self, a: Array, b: Array) -> Array:
        if not self.product:
            return np.einsum(self.equation, a, b)
        of_a, of_b, of_y = self.orders
        batch, rows, columns = self.counts
        a, b = a.transpose(of_a), b.transpose(of_b)
        lead, left = a.shape[:batch], a.shape[batch : batch + rows]
        right = b.shape[b.ndim - columns :]
        if rows != 1 or a.ndim != batch + 2:
            a = a.reshape(*lead, math.prod(left), -1)
        if columns != 1 or b.ndim != batch + 2:
            b = b.reshape(*lead, -1, math.prod(right))
        y = matmul(a, b)
        if rows != 1 or columns != 1:
            y = y.reshape(*lead, *left, *right)
        return y.transpose(of_y)


@lru_cache(512)
def plan_contraction(
    equation: str, shapes: tuple[tuple[int, ...], ...]
) -> list[tuple[tuple[int, int], PairContraction]] | None:
    """Return the positions of the operands of each step and how they are contracted.

    None where matrix products cannot express the equation: where a letter occurs twice in a
    term or stands for several sizes, and where it is invalid, which `einsum` reports better.
    """
    if equation.partition("->")[0].count(",") + 1 != len(shapes):
        return None
    terms, output = expand_equation(equation, [np.broadcast_to(0.0, shape) for shape in shapes])
    if not all(is_plain_term(term) for term in (*terms, output)) or not set(output) <= set(
        "".join(terms)
    ):
        return None
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape):
            return None
        for letter, size in zip(term, shape, strict=True):
            if sizes.setdefault(letter, size) != size or not size:
                return None
    steps = []
    for positions in contraction_order(terms, output, sizes):
        left, right = (terms.pop(position) for position in positions)
        needed_letters = set(output).union(*terms)
        output_letters = output if not terms else "".join(
            letter for letter in dict.fromkeys(left + right) if letter in needed_letters
        )  # fmt: skip
        steps.append((positions, plan_pair(left, right, output_letters)))
        terms.append(output_letters)
    if len(steps) == 1 and not steps[0][1].product:
        return None
    return steps


def is_plain_term(term: str) -> bool:
    """Return True if a term consists of distinct letters."""
    return (term.isalpha() or not term) and term.isascii() and len(set(term)) == len(term)


def contraction_order(
    terms: list[str], output: str, sizes: dict[str, int]
) -> list[tuple[int, int]]:
    """Return the positions of the two operands of each step.

    The second position is counted after the first operand is removed; a product is appended.
    """
    if len(terms) == 2:
        return [(0, 0)]
    shapes = [np.broadcast_to(0.0, [sizes[letter] for letter in term]) for term in terms]
    path, _ = np.einsum_path(f"{','.join(terms)}->{output}", *shapes, optimize="greedy")
    pairs = []
    for positions in path[1:]:
        first, second = sorted(positions)[:2]
        pairs.append((first, second - 1))
        pairs += [(0, 0)] * (len(positions) - 2)  # NumPy may contract the last ones in one call
    return pairs


def plan_pair(left: str, right: str, output: str) -> PairContraction:
    """Classify the letters of two operands as batch, row, column or summed letters."""
    equation = f"{left},{right}->{output}"
    both = set(left) & set(right)
    batch = [letter for letter in output if letter in both]
    rows = [letter for letter in output if letter not in both and letter in left]
    columns = [letter for letter in output if letter not in both and letter in right]
    summed = [letter for letter in left if letter in both and letter not in output]
    alone = (set(left) | set(right)) - both - set(output)  # in one operand only, and summed over
    if alone or not summed or not (rows or columns):
        return PairContraction(equation, False, ((), (), ()), (0, 0, 0))
    orders = (
        tuple(left.index(letter) for letter in (*batch, *rows, *summed)),
        tuple(right.index(letter) for letter in (*batch, *summed, *columns)),
        tuple([*batch, *rows, *columns].index(letter) for letter in output),
    )
    return PairContraction(equation, True, orders, (len(batch), len(rows), len(columns)))


def expand_equation(equation: str, operands: Sequence[Any]) -> tuple[list[str], str]:
    """Return the terms and the output, with `...` replaced by unused letters."""
    left, arrow, output = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    unused = [ascii_letter for ascii_letter in string.ascii_letters if ascii_letter not in equation]
    hidden = [
        len(o.shape) - len(t.replace("...", "")) for t, o in zip(terms, operands, strict=True)
    ]
    batch = "".join(unused[: max(hidden, default=0)]) if "..." in left else ""
    terms = [
        term.replace("...", batch[len(batch) - n :] if n else "")
        for term, n in zip(terms, hidden, strict=True)
    ]
    if not arrow:
        once = [
            letter for letter in sorted(set("".join(terms))) if "".join(terms).count(letter) == 1
        ]
        output = batch + "".join(letter for letter in once if letter not in batch)
    return terms, output.replace("...", batch)


def count_multiplications(equation: str, operands: Sequence[Any]) -> int:
    """Return the number of multiplications of a single loop nest over all letters."""
    terms, _ = expand_equation(equation, operands)
    sizes: dict[str, int] = {}
    for term, operand in zip(terms, operands, strict=True):
        for letter, size in zip(term, operand.shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    return math.prod(sizes.values())
