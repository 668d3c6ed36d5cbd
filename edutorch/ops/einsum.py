"""Einstein summation."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..backends.blas import LONG, LONG_SIDE, interruptible
from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core.op import op
from ..core.precision import add_up
from ..errors import ShapeError
from .indexing import index_put_forward
from .linalg import matmul
from .views import expand

__all__ = ["einsum"]


@op(promotion="promote", public="einsum", accumulates=True)
def einsum_forward(xp: Namespace, operands: Sequence[Array], equation: str) -> Array:
    """Einstein summation with the operands as one list: see `einsum`."""
    y = contract_by_matmul(operands, equation)
    if y is not None:
        return y
    if operands[0].dtype.kind in "biu" and sums_one_operand(equation, operands):
        operands = [operand.astype(np.int64) for operand in operands]  # as `sum`
    left, arrow, output = equation.partition("->")
    if (
        len(operands) == 1
        and is_plain_term(left)
        and is_plain_term(output)
        and len(left) == operands[0].ndim
    ):
        summed = tuple(axis for axis, letter in enumerate(left) if letter not in output)
        if (
            summed and arrow and set(output) <= set(left)
        ):  # NumPy would sum without pairwise summation
            kept = [letter for letter in left if letter in output]
            y = add_up(xp, operands[0], summed, False)
            return y.transpose([kept.index(letter) for letter in output])
    try:
        if arrow and "..." in left and "..." not in output:  # summed over, which NumPy refuses
            terms, output = expand_equation(equation, operands)
            equation = f"{','.join(terms)}->{output}"
        large = max(operand.size for operand in operands) > LONG_SIDE
        if large and count_multiplications(equation, operands) >= LONG // 16:  # without BLAS
            return interruptible(xp.einsum, equation, *operands)
        return xp.einsum(equation, *operands)
    except ValueError as error:
        raise shape_mismatch(equation, operands, error) from None


def sums_one_operand(equation: str, operands: Sequence[Array]) -> bool:
    """Return True if a letter is summed over that only one operand has: a sum, not a product."""
    if equation.partition("->")[0].count(",") + 1 != len(operands):
        return False  # which `einsum` refuses
    terms, output = expand_equation(equation, operands)
    return any(
        sum(letter in term for term in terms) == 1 for letter in set("".join(terms)) - set(output)
    )


def shape_mismatch(equation: str, operands: Sequence[Array], error: ValueError) -> ShapeError:
    """Make the error that says where an equation and its operands disagree."""
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    shapes = [tuple(operand.shape) for operand in operands]
    if len(terms) != len(shapes):
        message = f"the equation has {len(terms)} terms, but there are {len(shapes)} operands"
        return ShapeError("einsum", message, {f"operand_{i}": s for i, s in enumerate(shapes)})
    rows = {
        f"operand_{i} ({term})": s for i, (term, s) in enumerate(zip(terms, shapes, strict=True))
    }
    sizes: dict[str, tuple[int, int]] = {}
    for index, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        if "..." not in term and len(term) != len(shape):
            message = f"operand {index} has {len(shape)} axes, but `{term}` names {len(term)}"
            return ShapeError("einsum", message, rows)
        for letter, size in zip(term, shape, strict=False) if "..." not in term else ():
            first_size, first_operand = sizes.setdefault(letter, (size, index))
            if size != first_size and 1 not in (size, first_size):
                message = (
                    f"axis {letter} is {first_size} in operand {first_operand} "
                    f"but {size} in operand {index}"
                )
                return ShapeError("einsum", message, rows)
    return ShapeError("einsum", str(error), rows)


def einsum_gradients(g: ArrayOrTensor, operands: Sequence[Any], equation: str) -> list[Any]:
    """For each operand: g times all others, summed over the letters it does not have."""
    inputs, output = expand_equation(equation, operands)
    gradients = []
    for position, (letters, operand) in enumerate(zip(inputs, operands, strict=True)):
        others = [*inputs[:position], *inputs[position + 1 :], output]
        factors = [*operands[:position], *operands[position + 1 :], g]
        available = set("".join(others))
        # A letter that only this operand has was summed: the gradient is constant along it.
        # An axis of size 1 may have been broadcast: its gradient is summed.
        sizes = zip(letters, operand.shape, strict=True)
        available -= {letter for letter, size in sizes if size == 1}
        kept = "".join(dict.fromkeys(letter for letter in letters if letter in available))
        partial = einsum_forward(factors, f"{','.join(others)}->{kept}")
        gradients.append(expand_letters(partial, kept, letters, operand.shape))
    return gradients


def expand_letters(partial: ArrayOrTensor, kept: str, letters: str, shape: Sequence[int]) -> Any:
    """Expand over letters that were summed; scatter repeated letters onto their diagonal."""
    unique = "".join(dict.fromkeys(letters))
    sizes = dict(zip(letters, shape, strict=True))
    index = tuple(slice(None) if letter in kept else None for letter in unique)
    full = expand(partial[index], tuple(sizes[letter] for letter in unique))
    if len(unique) == len(letters):
        return full
    grid = {
        letter: np.arange(sizes[letter]).reshape((-1,) + (1,) * (len(unique) - axis - 1))
        for axis, letter in enumerate(unique)
    }
    return index_put_forward(full, tuple(grid[letter] for letter in letters), tuple(shape))


einsum_forward.vjp(
    operands=lambda g, operands, equation: einsum_gradients(g, operands, equation),
    latex=r"g \text{ times the other operands}",
)


def einsum(equation: str, *operands: Any) -> Any:
    """Einstein summation: sums of products with a letter per axis, such as "ij,jk->ik".

    Letters missing after `->` are summed over. `...` stands for further axes. Integers of an axis
    that one operand alone has are added up in int64, as by `sum`.

    >>> einsum("ij,ij->i", tensor([[1.0, 2.0], [3.0, 4.0]]), ones(2, 2))
    tensor([3., 7.])
    """
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    return einsum_forward(operands, equation)


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
