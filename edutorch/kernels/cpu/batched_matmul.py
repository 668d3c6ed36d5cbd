"""Batched matrix products: one loop over the matrices, each read in its own layout.

NumPy copies transposed operands, and falls back to a slow loop of its own where a matrix has
unusual strides. The heads of attention, (batch, time, head, d) viewed as (batch, head, time, d),
are such operands. Here each matrix is read where it is, by BLAS or in tiles: rows may be any
distance apart, and a transposed matrix is read as such. The matrices are divided among the threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from ...backends.interruptible import LONG
from .blas import gemm, gemm_address
from .gemm_microkernel import TILE_ROWS, TILES_ARE_FASTER, multiply, workspace_for
from .jit import ARRAY_1D, compile_kernel
from .matmul import (
    INTERRUPTIBLE_PARALLEL_FOR,
    PRODUCTS_PER_ELEMENT,
    blas_layout,
    flatten_rows,
    product,
)
from .parallel import parallel_for
from .work_queue import claim_range

__all__ = ["INT64_1D", "INT64", "batched", "bmm", "has_contiguous_rows"]


MIN_PRODUCTS_TILED = 300_000
"""With fewer multiplications per matrix, BLAS is faster, unless b is transposed."""


def INT64(dtype: Any) -> Any:
    """An integer, such as the length of a row."""
    return types.int64


def INT64_1D(dtype: Any) -> Any:
    """A contiguous array of int64, whatever the dtype of the others."""
    return types.int64[::1]


def multiply_each(start, stop, blas_address, sizes, a, b, c):
    """Compute some of the products.

    Args:
        sizes: m, n, k; the batch's three axes; then for a and for b whether it is transposed, the
            distance of its rows, and the strides in bytes from matrix to matrix along each axis.
        a, b: addresses.
    """
    start, stop = claim_range(start, stop)
    m, n, k, _, second, third = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]
    one, zero = c.dtype.type(1), c.dtype.type(0)
    a_transposed, b_transposed = sizes[6] != 0, sizes[11] != 0
    a_row, a_step = (1, sizes[7]) if a_transposed else (sizes[7], 1)
    b_row, b_step = (1, sizes[12]) if b_transposed else (sizes[12], 1)
    use_tiles = m >= 4 * TILE_ROWS and (b_transposed or m * n * k >= MIN_PRODUCTS_TILED)
    workspace = workspace_for(c)
    for i in range(np.int64(start), np.int64(stop)):
        x, y, z = i // (second * third), i // third % second, i % third
        a_address = a + x * sizes[8] + y * sizes[9] + z * sizes[10]
        b_address = b + x * sizes[13] + y * sizes[14] + z * sizes[15]
        if TILES_ARE_FASTER and use_tiles:
            multiply(
                workspace, m, n, k, a_address, a_row, a_step, b_address, b_row, b_step, 0, 0,
                c.ctypes.data + i * m * n * c.itemsize, n,
            )  # fmt: skip
        else:
            gemm(
                blas_address, a_transposed, b_transposed, m, n, k, one, a_address, sizes[7],
                b_address, sizes[12], zero, c[i * m * n :], n,
            )  # fmt: skip


@cache
def batched() -> Callable[..., Any]:
    """Make the product of two batches of matrices, whose batch axes broadcast.

    It returns None for vectors, for matrices without a batch, and for more than three batch axes.
    """
    kernel = compile_kernel(multiply_each, INT64, INT64_1D, INT64, INT64, ARRAY_1D)
    single = product()

    def run(a: Any, b: Any) -> Any:
        dtype = a.dtype
        blas_address = gemm_address(dtype)
        if blas_address is None or b.dtype != dtype or not 2 < max(a.ndim, b.ndim) < 6:
            return None
        if min(a.ndim, b.ndim) < 2 or a.shape[-1] != b.shape[-2] or not (a.size and b.size):
            return None
        if b.ndim == 2 and a.flags.c_contiguous:  # one factor for all: one large product
            y = single(flatten_rows(a), b)
            return y if y is None else y.reshape(*a.shape[:-1], b.shape[1])
        try:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError:
            return None
        left, right = describe_operand(a), describe_operand(b)
        m, n, k = a.shape[-2], b.shape[-1], a.shape[-1]
        y = np.empty((*batch, m, n), dtype)
        sizes = np.array((m, n, k, *(1,) * (3 - len(batch)), *batch, *left[2:], *right[2:]))
        count = y.size // (m * n)
        work = y.size * k // PRODUCTS_PER_ELEMENT
        run_parallel = (
            parallel_for if work * PRODUCTS_PER_ELEMENT < LONG else INTERRUPTIBLE_PARALLEL_FOR
        )
        run_parallel(
            kernel, count, blas_address, sizes, left[1], right[1], y.reshape(-1), work=work
        )
        return y

    return run


def describe_operand(x: Any) -> tuple[Any, ...]:
    """Return a factor, its address, the layout of its matrices and the strides between them."""
    layout = blas_layout(x[(0,) * (x.ndim - 2)])
    if layout is None:
        x = np.ascontiguousarray(x)
        layout = False, x.shape[-1]
    batch = zip(x.shape[:-2], x.strides[:-2], strict=True)
    steps = [step if size > 1 else 0 for size, step in batch]
    first_address = x.__array_interface__["data"][0]
    return x, first_address, *layout, *(0,) * (3 - len(steps)), *steps


def bmm() -> Callable[..., Any]:
    """Make the forward of `bmm`."""
    return batched()


def has_contiguous_rows(x: Any) -> bool:
    """Whether each row of a matrix is contiguous, and no two rows overlap."""
    size = x.itemsize
    is_contiguous = x.strides[-1] == size or x.shape[-1] == 1
    return is_contiguous and x.strides[-2] >= x.shape[-1] * size and x.strides[-2] % size == 0
