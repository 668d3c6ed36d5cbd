"""Products of vectors and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backends.numpy import Array
from ..core.op import op
from ..errors import ShapeError


@op(promotion="same")
def matmul(xp: Any, input: Array, other: Array) -> Array:
    """The matrix product: y[i, j] = Σₖ a[i, k] · b[k, j].

    A vector in front is a row, behind it a column; axes in front of the last two
    are a batch, and broadcast.

    >>> matmul(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    if not input.ndim or not other.ndim:
        raise ShapeError(
            "matmul", "both arguments need at least one axis",
            {"input": input.shape, "other": other.shape}, "use * for a number",
        )  # fmt: skip
    return xp.matmul(input, other)


def matmul_left(g: Any, input_shape: tuple[int, ...], other: Any) -> Any:
    """The gradient of the left factor: g · bᵀ (the engine sums broadcast batches)."""
    if len(other.shape) == 1:
        left = unsqueeze(g, -1) * other if len(input_shape) > 1 else g * other
        return left
    if len(input_shape) == 1:
        return matmul(other, unsqueeze(g, -1))[..., 0]
    return matmul(g, transpose(other, -2, -1))


def matmul_right(g: Any, input: Any, other_shape: tuple[int, ...]) -> Any:
    """The gradient of the right factor: aᵀ · g (the engine sums broadcast batches)."""
    if len(input.shape) == 1:
        if len(other_shape) == 1:
            return g * input
        return unsqueeze(g, -2) * unsqueeze(input, -1)
    if len(other_shape) == 1:
        return matmul(transpose(input, -2, -1), unsqueeze(g, -1))[..., 0]
    return matmul(transpose(input, -2, -1), g)


matmul.vjp(
    input=lambda g, input_shape, other: matmul_left(g, input_shape, other),
    other=lambda g, input, other_shape: matmul_right(g, input, other_shape),
    latex={"input": r"g\,B^\top", "other": r"A^\top g"},
)


@op("n k, k m -> n m", promotion="same")
def mm(xp: Any, input: Array, mat2: Array) -> Array:
    """The product of two matrices.

    >>> mm(tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    return xp.matmul(input, mat2)


mm.vjp(
    input=lambda g, mat2: mm(g, mat2.T),
    mat2=lambda g, input: mm(input.T, g),
    latex={"input": r"g\,B^\top", "mat2": r"A^\top g"},
)


@op("b n k, b k m -> b n m", promotion="same")
def bmm(xp: Any, input: Array, mat2: Array) -> Array:
    """The products of two batches of matrices.

    >>> bmm(ones(2, 1, 3), ones(2, 3, 1)).shape
    torch.Size([2, 1, 1])
    """
    return xp.matmul(input, mat2)


bmm.vjp(
    input=lambda g, mat2: bmm(g, transpose(mat2, -2, -1)),
    mat2=lambda g, input: bmm(transpose(input, -2, -1), g),
    latex={"input": r"g\,B^\top", "mat2": r"A^\top g"},
)


@op("n k, k -> n", promotion="same")
def mv(xp: Any, input: Array, vec: Array) -> Array:
    """The product of a matrix and a vector.

    >>> mv(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    return xp.matmul(input, vec)


mv.vjp(
    input=lambda g, vec: unsqueeze(g, -1) * vec,
    vec=lambda g, input: mv(input.T, g),
    latex={"input": r"g\,v^\top", "vec": r"A^\top g"},
)


@op("n, n ->", promotion="same")
def dot(xp: Any, input: Array, tensor: Array) -> Array:
    """The product of two vectors: y = Σ aᵢ bᵢ.

    >>> dot(tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor(11.)
    """
    return xp.dot(input, tensor)


dot.vjp(
    input=lambda g, tensor: g * tensor,
    tensor=lambda g, input: g * input,
    latex={"input": r"g\,b", "tensor": r"g\,a"},
)


@op(promotion="promote")
def einsum_of(xp: Any, operands: Sequence[Array], equation: str) -> Array:
    """Sums of products by index letters, the operands as one list: see `einsum`."""
    return xp.einsum(equation, *operands)


def einsum_gradients(g: Any, operands: Sequence[Any], equation: str) -> list[Any]:
    """For each operand: g times all others, summed over the letters it does not have."""
    inputs, output = full_equation(equation, operands)
    gradients = []
    for position, (letters, operand) in enumerate(zip(inputs, operands, strict=True)):
        others = [*inputs[:position], *inputs[position + 1 :], output]
        factors = [*operands[:position], *operands[position + 1 :], g]
        available = set("".join(others))
        # A letter that only this operand has was summed: its gradient is constant along it.
        kept = "".join(dict.fromkeys(each for each in letters if each in available))
        partial = einsum_of(factors, f"{','.join(others)}->{kept}")
        gradients.append(spread_letters(partial, kept, letters, operand.shape))
    return gradients


def spread_letters(partial: Any, kept: str, letters: str, shape: Sequence[int]) -> Any:
    """Stretch over letters that were summed; put repeated letters on their diagonal."""
    unique = "".join(dict.fromkeys(letters))
    sizes = dict(zip(letters, shape, strict=True))
    index = tuple(slice(None) if each in kept else None for each in unique)
    full = expand(partial[index], tuple(sizes[each] for each in unique))
    if len(unique) == len(letters):
        return full
    grid = {
        each: np.arange(sizes[each]).reshape((-1,) + (1,) * (len(unique) - axis - 1))
        for axis, each in enumerate(unique)
    }
    return place(full, tuple(grid[each] for each in letters), tuple(shape))


def full_equation(equation: str, operands: Sequence[Any]) -> tuple[list[str], str]:
    """Write out the output and give the axes of `...` letters of their own."""
    left, arrow, output = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    spare = [each for each in string.ascii_letters if each not in equation]
    hidden = [len(o.shape) - len(t.replace("...", "")) for t, o in zip(terms, operands, strict=True)]
    batch = "".join(spare[: max(hidden, default=0)]) if "..." in left else ""
    terms = [
        term.replace("...", batch[len(batch) - n :] if n else "")
        for term, n in zip(terms, hidden, strict=True)
    ]
    if not arrow:
        once = [each for each in sorted(set("".join(terms))) if "".join(terms).count(each) == 1]
        output = batch + "".join(each for each in once if each not in batch)
    return terms, output.replace("...", batch)


einsum_of.vjp(
    operands=lambda g, operands, equation: einsum_gradients(g, operands, equation),
    latex=r"g \text{ times the other operands}",
)


def einsum(equation: str, *operands: Any) -> Any:
    """Sums of products, written with a letter per axis: "ij,jk->ik" is the matrix product.

    A letter that is missing behind `->` is summed over. `...` stands for further axes.

    >>> einsum("ij,ij->i", tensor([[1.0, 2.0], [3.0, 4.0]]), ones(2, 2))
    tensor([3., 7.])
    """
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    return einsum_of(operands, equation)


@op("n, m -> n m", promotion="same")
def outer(xp: Any, input: Array, vec2: Array) -> Array:
    """All products of two vectors' numbers: y[i, j] = aᵢ bⱼ.

    >>> outer(tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    return input[:, None] * vec2[None, :]


outer.vjp(
    input=lambda g, vec2: matmul(g, vec2),
    vec2=lambda g, input: matmul(input, g),
    latex={"input": r"g\,b", "vec2": r"g^\top a"},
)

import string  # noqa: E402

import numpy as np  # noqa: E402

from .indexing import place  # noqa: E402  (rules may use any op)
from .movement import expand, transpose, unsqueeze  # noqa: E402
