"""Shapes on the meta device, continued: products, matrices, Fourier transforms, and whole ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .meta_array import new
from .meta_rules import Rule, normal_axis, reduced_shape, rule, shape_of

BY_OP: dict[str, Callable[..., Any]] = {}
"""Rules of whole ops, whose definitions decide by elements: they take the op's own arguments."""

# Products ------------------------------------------------------------------------------------


def product_dtype(*operands: Any) -> np.dtype:
    """Return the dtype of a product of matrices: NumPy multiplies those of bfloat16 in float32."""
    first, *others = [np.ones((1, 1), operand.dtype) for operand in operands]
    for other in others:
        first = np.matmul(first, other)
    return first.dtype


@rule("matmul")
def matmul(function: Rule, x1: Any, x2: Any, out: Any = None, **settings: Any) -> Any:
    left, right = shape_of(x1), shape_of(x2)
    rows, columns = (
        (left if len(left) > 1 else (1, *left)),
        (right if len(right) > 1 else (*right, 1)),
    )
    if rows[-1] != columns[-2]:
        raise ValueError(
            f"matmul: Input operand 1 has a mismatch in its core dimension: {left}, {right}"
        )
    batch = np.broadcast_shapes(rows[:-2], columns[:-2])
    tail = (*rows[-2:-1][: len(left) > 1], *columns[-1:][: len(right) > 1])
    return new((*batch, *tail), product_dtype(x1, x2))


@rule("dot inner tensordot kron vdot")
def dot(function: Rule, a: Any, b: Any, axes: Any = 2) -> Any:
    if function is np.tensordot:
        left, right = (tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))) \
            if isinstance(axes, int) else axes  # fmt: skip
        left = {normal_axis(i, a.ndim) for i in (left if np.iterable(left) else (left,))}
        right = {normal_axis(i, b.ndim) for i in (right if np.iterable(right) else (right,))}
        shape = [n for i, n in enumerate(a.shape) if i not in left]
        shape += [n for i, n in enumerate(b.shape) if i not in right]
        return new(shape, product_dtype(a, b))
    if function is np.vdot or (a.ndim == b.ndim == 1 and function is not np.kron):
        return new((), product_dtype(a, b))
    return matmul(np.matmul, a, b)


@rule("einsum")
def einsum(function: Rule, subscripts: str, *operands: Any, **settings: Any) -> Any:
    """The axes that stand behind the arrow."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    if not arrow:  # without one: the letters that occur once, in alphabetical order
        letters = inputs.replace(".", "").replace(",", "")
        once = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
        output = ("..." if "..." in inputs else "") + once
    sizes: dict[str, int] = {}
    batch: tuple[int, ...] = ()
    for term, operand in zip(inputs.split(","), operands, strict=True):
        front, dots, back = term.partition("...")
        shape, first = shape_of(operand), operand.ndim - len(back)
        batch = np.broadcast_shapes(batch, shape[len(front) : first] if dots else ())
        axes = (*shape[: len(front)], *shape[first:])
        for label, size in zip(front + back, axes, strict=True):
            if sizes.setdefault(label, size) not in (1, size) and size != 1:
                raise ValueError(f"operands could not be broadcast together: {label}")
            sizes[label] = max(size, sizes[label]) if size else 0
    front, dots, back = output.partition("...")
    shape = (*(sizes[label] for label in front), *batch, *(sizes[label] for label in back))
    return new(shape, product_dtype(*operands))


# Matrices and Fourier transforms --------------------------------------------------------------


@rule("linalg.inv linalg.cholesky linalg.matrix_power linalg.pinv")
def square(function: Rule, a: Any, *rest: Any, **settings: Any) -> Any:
    return new(a.shape, a.dtype)


@rule("linalg.solve")
def solve(function: Rule, a: Any, b: Any) -> Any:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2] if b.ndim > 1 else ())
    tail = b.shape[-2:] if b.ndim > 1 else b.shape
    return new((*batch, *tail), product_dtype(a, b))


def matrix_parts(a: Any) -> tuple[tuple[int, ...], int, int, int]:
    """Return the shape of the batch, the rows, the columns, and the smaller of both."""
    *batch, m, n = a.shape
    return tuple(batch), m, n, min(m, n)


def real_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype of the real part."""
    return np.empty(0, dtype).real.dtype


@rule("linalg.det")
def det(function: Rule, a: Any) -> Any:
    return new(a.shape[:-2], a.dtype)


@rule("linalg.slogdet")
def slogdet(function: Rule, a: Any) -> Any:
    return new(a.shape[:-2], a.dtype), new(a.shape[:-2], real_dtype(a.dtype))


@rule("linalg.qr")
def qr(function: Rule, a: Any, mode: str = "reduced") -> Any:
    batch, m, n, k = matrix_parts(a)
    k = m if mode == "complete" else k
    return new((*batch, m, k), a.dtype), new((*batch, k, n), a.dtype)


@rule("linalg.svd")
def svd(function: Rule, a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    batch, m, n, k = matrix_parts(a)
    if not compute_uv:
        return new((*batch, k), real_dtype(a.dtype))
    rows, columns = (m, n) if full_matrices else (k, k)
    return (
        new((*batch, m, rows), a.dtype), new((*batch, k), real_dtype(a.dtype)),
        new((*batch, columns, n), a.dtype),
    )  # fmt: skip


@rule("linalg.eigvalsh")
def eigvalsh(function: Rule, a: Any, *rest: Any) -> Any:
    return new(a.shape[:-1], real_dtype(a.dtype))


@rule("linalg.eigh linalg.eig")
def eig(function: Rule, a: Any, *rest: Any) -> Any:
    """Values and vectors; those of `eig` may be complex, and count as such."""
    dtype = a.dtype if function is np.linalg.eigh else np.result_type(a.dtype, np.complex64)
    w_dtype = real_dtype(dtype) if function is np.linalg.eigh else dtype
    return new(a.shape[:-1], w_dtype), new(a.shape, dtype)


@rule("fft.fftn fft.ifftn fft.fft fft.ifft fft.fft2 fft.ifft2")
def fftn(function: Rule, a: Any, s: Any = None, axes: Any = None, *rest: Any, **named: Any) -> Any:
    small = function(np.ones((2,) * a.ndim, a.dtype))
    sizes = list(a.shape)
    if s is not None:
        lengths = s if np.iterable(s) else (s,)
        axes = range(-len(lengths), 0) if axes is None else axes if np.iterable(axes) else (axes,)
        for axis, length in zip(axes, lengths, strict=True):
            sizes[axis] = length
    return new(sizes, small.dtype)


@rule("fft.rfft fft.irfft")
def rfft(function: Rule, a: Any, n: Any = None, axis: int = -1, *rest: Any, **named: Any) -> Any:
    small = function(np.ones((2,) * a.ndim, a.dtype))
    sizes = list(a.shape)
    if function is np.fft.rfft:
        sizes[axis] = (sizes[axis] if n is None else n) // 2 + 1
    else:
        sizes[axis] = 2 * (sizes[axis] - 1) if n is None else n
    return new(sizes, small.dtype)


# Whole ops: their definitions decide by elements how to go on ----------------------------------


def op_rule(name: str) -> Callable[[Rule], Rule]:
    """Add the rule of the op of this name, as a decorator."""

    def add(function: Rule) -> Rule:
        BY_OP[name] = function
        return function

    return add


@op_rule("mode_dim")
def mode_dim(input: Any, dim: int, keepdim: bool) -> Any:
    shape = reduced_shape(input.shape, dim, keepdim) if input.ndim else ()
    return new(shape, input.dtype), new(shape, np.int64)


@op_rule("matrix_exp")
def matrix_exp(input: Any) -> Any:
    return new(input.shape, input.dtype)


@op_rule("ldl_factor_forward")
def ldl_factor(input: Any, hermitian: bool) -> Any:
    return new(input.shape, input.dtype), new(input.shape[:-1], np.int32), \
        new(input.shape[:-2], np.int32)  # fmt: skip


@op_rule("ldl_solve_forward")
def ldl_solve(input: Any, other: Any, pivots: Any, hermitian: bool) -> Any:
    return new(other.shape, other.dtype)
