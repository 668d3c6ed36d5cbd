"""Products of two matrices, cut into parts by the kernels' own pool.

NumPy's BLAS could use several threads itself, but its pool and the kernels' would be in each
other's way (see `backends/blas.py`). So BLAS computes with one thread, and the result is cut here:
along its longer side, so that the shorter factor is the one that every thread has to read. A
layer's bias is written into the result first and the product added to it, which saves a pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit, types

from .blas import address, gemm
from .parts import WORTH_A_THREAD, in_parts, parts_for

BLOCK = 16
"""Rows or columns are handed out by so many: BLAS computes blocks of about this size at once."""

PRODUCTS_A_NUMBER = 64
"""So many multiplications take about as long as a simple kernel takes for one number."""

LEAST = 2 * WORTH_A_THREAD * PRODUCTS_A_NUMBER


def block(start, stop, at, by_rows, trans_a, trans_b, k, a, lda, b, ldb, bias, c):
    """Compute some rows (or columns) of c: bias + op(a) op(b)."""
    top, bottom, left, right = 0, c.shape[0], 0, c.shape[1]
    if by_rows:
        top, bottom = start * BLOCK, min(stop * BLOCK, bottom)
    else:
        left, right = start * BLOCK, min(stop * BLOCK, right)
    part = c[top:bottom, left:right]
    kept = 0.0
    if bias.size:
        kept = 1.0
        for i in range(part.shape[0]):
            for j in range(part.shape[1]):
                part[i, j] = bias[left + j]
    a += top * (1 if trans_a else lda) * c.itemsize
    b += left * (ldb if trans_b else 1) * c.itemsize
    gemm(
        at, trans_a, trans_b, bottom - top, right - left, k,
        1.0, a, lda, b, ldb, kept, part, c.shape[1],
    )  # fmt: skip


def blocks() -> Callable[..., None]:
    """Compile `block` for float32 and for float64."""
    whole, flag = types.int64, types.boolean
    signatures = [
        types.void(
            whole, whole, whole, flag, flag, flag, whole, whole, whole, whole, whole,
            number[::1], number[:, ::1],
        )
        for number in (types.float32, types.float64)
    ]  # fmt: skip
    return njit(signatures, cache=True, nogil=True, error_model="numpy")(block)


@cache
def product() -> Callable[..., Any]:
    """Make the product of two matrices, with a bias for each column if there is one.

    It returns None for what one thread does best: small products, vectors, other layouts.
    """
    kernel = blocks()
    no_bias = {np.dtype(each): np.empty(0, each) for each in ("float32", "float64")}

    def run(a: Any, b: Any, bias: Any = None, out: Any = None) -> Any:
        rows, k = a.shape
        columns = b.shape[1]
        if rows * columns * k < LEAST:
            return None
        work = rows * columns * k // PRODUCTS_A_NUMBER
        parts = parts_for(-(-max(rows, columns) // BLOCK), work)
        if parts == 1 or min(rows, columns) < BLOCK // 2 or b.shape[0] != k:
            return None
        kind = a.dtype
        if kind is not b.dtype or kind not in no_bias:
            return None
        if bias is None:
            bias = no_bias[kind]
        elif bias.dtype is not kind or bias.shape != (columns,) or not bias.flags.c_contiguous:
            return None
        at, left, right = address(kind), layout(a), layout(b)
        if at is None or left is None or right is None:
            return None
        y = np.empty((rows, columns), kind) if out is None else out
        in_parts(
            kernel, -(-max(rows, columns) // BLOCK), at, rows >= columns, left[0], right[0], k,
            a.__array_interface__["data"][0], left[1], b.__array_interface__["data"][0], right[1],
            bias, y, work=work,
        )  # fmt: skip
        return y

    return run


def layout(x: Any) -> tuple[bool, int] | None:
    """Return whether BLAS must transpose what lies in memory, and how far its rows are apart."""
    (down, along), (height, width), size = x.strides, x.shape, x.itemsize
    if along == size and down >= width * size and down % size == 0:
        return False, down // size
    if down == size and along >= height * size and along % size == 0:
        return True, along // size
    return None


def rows(x: Any) -> Any:
    """All axes but the last one joined; no copy where there are no gaps."""
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


# Of ops and their rules ---------------------------------------------------------------------------


def mm() -> Callable[..., Any]:
    """Make the product of two matrices."""
    return product()


def mm_input() -> Callable[..., Any]:
    """Make its rule for the left factor: g · bᵀ."""
    run = product()
    return lambda g, mat2: run(g, mat2.T)


def mm_mat2() -> Callable[..., Any]:
    """Make its rule for the right factor: aᵀ · g."""
    run = product()
    return lambda g, input: run(input.T, g)


def matmul() -> Callable[..., Any]:
    """Make the product of two matrices, or of two batches of them (see `batches.py`)."""
    from .batches import batched

    one, many = product(), batched()

    def run(input: Any, other: Any) -> Any:
        return (one if input.ndim == other.ndim == 2 else many)(input, other)

    return run


def matmul_input() -> Callable[..., Any]:
    """Make its rule for the left factor: g · bᵀ."""
    run = product()

    def rule(g: Any, input_shape: tuple[int, ...], other: Any) -> Any:
        return run(g, other.T) if len(input_shape) == other.ndim == 2 else None

    return rule


def matmul_other() -> Callable[..., Any]:
    """Make its rule for the right factor: aᵀ · g."""
    run = product()

    def rule(g: Any, input: Any, other_shape: tuple[int, ...]) -> Any:
        return run(input.T, g) if input.ndim == len(other_shape) == 2 else None

    return rule


def linear() -> Callable[..., Any]:
    """Make the weighted sums of a layer: x Wᵀ + b, over all axes of x but the last."""
    run = product()

    def layer(input: Any, weight: Any, bias: Any) -> Any:
        if input.ndim < 2 or weight.ndim != 2:
            return None
        y = run(rows(input), weight.T, bias)
        return y if y is None or input.ndim == 2 else y.reshape(*input.shape[:-1], -1)

    return layer


def linear_input() -> Callable[..., Any]:
    """Make its rule for x: g W."""
    run = product()

    def rule(g: Any, weight: Any) -> Any:
        if g.ndim < 2:
            return None
        y = run(rows(g), weight)
        return y if y is None or g.ndim == 2 else y.reshape(*g.shape[:-1], -1)

    return rule


def linear_weight() -> Callable[..., Any]:
    """Make its rule for W: gᵀ x."""
    run = product()

    def rule(g: Any, input: Any) -> Any:
        return run(rows(g).T, rows(input)) if g.ndim > 1 else None

    return rule
