"""Einstein summation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.interruptible import LONG, LONG_SIDE, interruptible
from ..backends.numpy import Array
from ..core.op import op
from ..core.precision import add_up
from ..errors import ShapeError
from .contraction import contract_by_matmul, count_multiplications, expand_equation, is_plain_term


@op(promotion="promote", public="einsum", accumulates=True)
def einsum_forward(xp: Any, operands: Sequence[Array], equation: str) -> Array:
    """Einstein summation with the operands as one list: see `einsum`."""
    y = contract_by_matmul(operands, equation)
    if y is not None:
        return y
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


def einsum_gradients(g: Any, operands: Sequence[Any], equation: str) -> list[Any]:
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


def expand_letters(partial: Any, kept: str, letters: str, shape: Sequence[int]) -> Any:
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

    Letters missing after `->` are summed over. `...` stands for further axes.

    >>> einsum("ij,ij->i", tensor([[1.0, 2.0], [3.0, 4.0]]), ones(2, 2))
    tensor([3., 7.])
    """
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    return einsum_forward(operands, equation)


from .indexing import index_put_forward  # noqa: E402  (rules may use any op)
from .views import expand  # noqa: E402
