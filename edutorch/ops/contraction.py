"""Sums of products by index letters as products of matrices, two operands at a time.

NumPy's `einsum` goes through all letters in one nest of loops: for a product of two matrices it
takes ten times as long as `matmul`, and for three operands a factor more for each letter. But two
operands are a batched product of matrices, once their axes are put in order:

    bhid,bhjd->bhij     batch b h, rows i, columns j, summed over d

and of more than two, two are replaced by their product until two are left.
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
    """Compute an equation by products of matrices; None for what `einsum` does as well."""
    if len(operands) < 2 or not all(is_blas_array(operand) for operand in operands):
        return None
    steps = plan_contraction(equation, tuple(operand.shape for operand in operands))
    if steps is None:
        return None
    waiting = list(operands)
    for places, pair in steps:
        a, b = (waiting.pop(place) for place in places)
        waiting.append(pair(a, b))
    return waiting[0]


def is_blas_array(x: Array) -> bool:
    """Say whether these are floats or complex numbers in memory that BLAS can reach."""
    return x.__class__ is np.ndarray and x.dtype.kind in "fc" and x.dtype.itemsize >= 4


class PairContraction(NamedTuple):
    """How two operands become one: by a product of matrices, or, without `product`, by `einsum`."""

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
    """Return which two operands are multiplied next, and how, until there is one.

    None where one product of matrices is not enough to say it: where a letter stands twice in a
    term, or for several sizes, and where the equation is wrong, which `einsum` says better.
    """
    if equation.partition("->")[0].count(",") + 1 != len(shapes):
        return None
    terms, output = expand_equation(equation, [np.broadcast_to(0.0, shape) for shape in shapes])
    if not all(is_plain_term(term) for term in (*terms, output)) or not set(output) <= set("".join(terms)):
        return None
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape):
            return None
        for letter, size in zip(term, shape, strict=True):
            if sizes.setdefault(letter, size) != size or not size:
                return None
    steps = []
    for places in contraction_order(terms, output, sizes):
        left, right = (terms.pop(place) for place in places)
        needed = set(output).union(*terms)
        kept = output if not terms else "".join(
            each for each in dict.fromkeys(left + right) if each in needed
        )  # fmt: skip
        steps.append((places, plan_pair(left, right, kept)))
        terms.append(kept)
    if len(steps) == 1 and not steps[0][1].product:
        return None
    return steps


def is_plain_term(term: str) -> bool:
    """Say whether a term has only letters, each once."""
    return (term.isalpha() or not term) and term.isascii() and len(set(term)) == len(term)


def contraction_order(terms: list[str], output: str, sizes: dict[str, int]) -> list[tuple[int, int]]:
    """Return the places of the two operands that come next, until there is one operand.

    The second place is counted when the first one is gone; a product goes to the end.
    """
    if len(terms) == 2:
        return [(0, 0)]
    shapes = [np.broadcast_to(0.0, [sizes[each] for each in term]) for term in terms]
    path, _ = np.einsum_path(f"{','.join(terms)}->{output}", *shapes, optimize="greedy")
    pairs = []
    for places in path[1:]:
        first, second = sorted(places)[:2]
        pairs.append((first, second - 1))
        pairs += [(0, 0)] * (len(places) - 2)  # it may leave the last ones to one call
    return pairs


def plan_pair(left: str, right: str, output: str) -> PairContraction:
    """Sort the letters of two operands: both have them and keep them, or sum over them, or one."""
    equation = f"{left},{right}->{output}"
    both = set(left) & set(right)
    batch = [each for each in output if each in both]
    rows = [each for each in output if each not in both and each in left]
    columns = [each for each in output if each not in both and each in right]
    summed = [each for each in left if each in both and each not in output]
    alone = (set(left) | set(right)) - both - set(output)  # of one, and summed over
    if alone or not summed or not (rows or columns):
        return PairContraction(equation, False, ((), (), ()), (0, 0, 0))
    orders = (
        tuple(left.index(each) for each in (*batch, *rows, *summed)),
        tuple(right.index(each) for each in (*batch, *summed, *columns)),
        tuple([*batch, *rows, *columns].index(each) for each in output),
    )
    return PairContraction(equation, True, orders, (len(batch), len(rows), len(columns)))


def expand_equation(equation: str, operands: Sequence[Any]) -> tuple[list[str], str]:
    """Write out the output and give the axes of `...` letters of their own."""
    left, arrow, output = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    spare = [ascii_letter for ascii_letter in string.ascii_letters if ascii_letter not in equation]
    hidden = [
        len(o.shape) - len(t.replace("...", "")) for t, o in zip(terms, operands, strict=True)
    ]
    batch = "".join(spare[: max(hidden, default=0)]) if "..." in left else ""
    terms = [
        term.replace("...", batch[len(batch) - n :] if n else "")
        for term, n in zip(terms, hidden, strict=True)
    ]
    if not arrow:
        once = [each for each in sorted(set("".join(terms))) if "".join(terms).count(each) == 1]
        output = batch + "".join(each for each in once if each not in batch)
    return terms, output.replace("...", batch)


def count_multiplications(equation: str, operands: Sequence[Any]) -> int:
    """Return how often numbers are multiplied if all letters are gone through in one nest."""
    terms, _ = expand_equation(equation, operands)
    sizes: dict[str, int] = {}
    for term, operand in zip(terms, operands, strict=True):
        for letter, size in zip(term, operand.shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    return math.prod(sizes.values())
