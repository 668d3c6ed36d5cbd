"""Batches of products of matrices: one loop over the matrices, each read as it lies.

NumPy copies operands whose axes were exchanged, and adds up by a slow loop of its own where
a matrix has odd strides. The heads of attention, (batch, time, head, d) seen as (batch, head, time,
d), are such operands. Here each matrix is read where it is, by BLAS or in tiles: from one row to
the next it may be any distance, and a transposed one is read as such. The matrices are shared out
to the threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from ...backends.interruptible import LONG
from .blas import address, gemm
from .gemm_microkernel import ROWS, TILED, multiply, room_for
from .jit import ROW, compiled
from .matmul import IN_PARTS_BESIDE, PRODUCTS_A_NUMBER, layout, product, rows
from .parallel import in_parts
from .work_queue import share_out

__all__ = ["INTEGERS", "WHOLE", "batched", "bmm", "unbroken"]


LEAST_TILED = 300_000
"""With fewer products for a matrix, BLAS takes less time, unless b is transposed."""


def WHOLE(number: Any) -> Any:
    """One whole number, such as the length of a row."""
    return types.int64


def INTEGERS(number: Any) -> Any:
    """A row of int64, whatever the others are."""
    return types.int64[::1]


def each(start, stop, at, sizes, a, b, c):
    """Compute some of the products.

    Args:
        sizes: m, n, k, then how the batch is divided (three axes), then for a and for b whether
            it is transposed, from row to row, and the bytes from matrix to matrix by each axis.
        a, b: addresses.
    """
    start, stop = share_out(start, stop)
    m, n, k, _, second, third = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]
    one, none = c.dtype.type(1), c.dtype.type(0)
    a_turned, b_turned = sizes[6] != 0, sizes[11] != 0
    a_row, a_step = (1, sizes[7]) if a_turned else (sizes[7], 1)
    b_row, b_step = (1, sizes[12]) if b_turned else (sizes[12], 1)
    in_tiles = m >= 4 * ROWS and (b_turned or m * n * k >= LEAST_TILED)
    room = room_for(c)
    for i in range(np.int64(start), np.int64(stop)):
        x, y, z = i // (second * third), i // third % second, i % third
        left = a + x * sizes[8] + y * sizes[9] + z * sizes[10]
        right = b + x * sizes[13] + y * sizes[14] + z * sizes[15]
        if TILED and in_tiles:
            multiply(
                room, m, n, k, left, a_row, a_step, right, b_row, b_step, 0, 0,
                c.ctypes.data + i * m * n * c.itemsize, n,
            )  # fmt: skip
        else:
            gemm(
                at, a_turned, b_turned, m, n, k, one, left, sizes[7], right, sizes[12],
                none, c[i * m * n :], n,
            )  # fmt: skip


@cache
def batched() -> Callable[..., Any]:
    """Make the product of two batches of matrices; their batch axes broadcast.

    It returns None for vectors, for matrices without a batch, and for more than three batch axes.
    """
    kernel = compiled(each, WHOLE, INTEGERS, WHOLE, WHOLE, ROW)
    single = product()

    def run(a: Any, b: Any) -> Any:
        kind = a.dtype
        at = address(kind)
        if at is None or b.dtype != kind or not 2 < max(a.ndim, b.ndim) < 6:
            return None
        if min(a.ndim, b.ndim) < 2 or a.shape[-1] != b.shape[-2] or not (a.size and b.size):
            return None
        if b.ndim == 2 and a.flags.c_contiguous:  # one factor for all: one large product
            y = single(rows(a), b)
            return y if y is None else y.reshape(*a.shape[:-1], b.shape[1])
        try:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError:
            return None
        left, right = operand(a), operand(b)
        m, n, k = a.shape[-2], b.shape[-1], a.shape[-1]
        y = np.empty((*batch, m, n), kind)
        sizes = np.array((m, n, k, *(1,) * (3 - len(batch)), *batch, *left[2:], *right[2:]))
        count = y.size // (m * n)
        work = y.size * k // PRODUCTS_A_NUMBER
        share = in_parts if work * PRODUCTS_A_NUMBER < LONG else IN_PARTS_BESIDE
        share(kernel, count, at, sizes, left[1], right[1], y.reshape(-1), work=work)
        return y

    return run


def operand(x: Any) -> tuple[Any, ...]:
    """Return a factor, its address, how its matrices lie and how far they are apart."""
    place = layout(x[(0,) * (x.ndim - 2)])
    if place is None:
        x = np.ascontiguousarray(x)
        place = False, x.shape[-1]
    batch = zip(x.shape[:-2], x.strides[:-2], strict=True)
    steps = [step if size > 1 else 0 for size, step in batch]
    begin = x.__array_interface__["data"][0]
    return x, begin, *place, *(0,) * (3 - len(steps)), *steps


def bmm() -> Callable[..., Any]:
    """Make the products of two batches of matrices."""
    return batched()


def unbroken(x: Any) -> bool:
    """Say whether each row of a matrix lies without gaps, and none on top of another."""
    size = x.itemsize
    along = x.strides[-1] == size or x.shape[-1] == 1
    return along and x.strides[-2] >= x.shape[-1] * size and x.strides[-2] % size == 0
