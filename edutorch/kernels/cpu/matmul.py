"""Products of two matrices, divided among the threads of the kernels' own pool.

NumPy's BLAS could use several threads itself, but its pool would compete with the kernels' (see
`backends/blas.py`). So the result is cut here, along its columns or its rows, and each part is
computed by one thread: in tiles (`gemm_microkernel.py`) or by BLAS, whichever is faster. A layer's
bias is the initial value of the sums, which saves a pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numba import njit, types

from ...backends.interruptible import LONG, interruptible
from ...core.fast.lazy_gradients import DeferredMatmulGradient
from .blas import gemm, gemm_address
from .gemm_microkernel import TILE_ROWS, TILES_ARE_FASTER, multiply, panel_width, workspace_for
from .parallel import MIN_WORK_PER_THREAD, count_parts, parallel_for
from .work_queue import claim_range

BLAS_BLOCK = 16
"""For BLAS, rows or columns are divided in units of so many: it computes in blocks like these."""

PRODUCTS_PER_ELEMENT = 64
"""So many multiplications take about as long as a simple kernel takes for one element."""

MIN_PRODUCTS_BLAS = 2 * MIN_WORK_PER_THREAD * PRODUCTS_PER_ELEMENT
"""With fewer, one thread does it all, and NumPy can call BLAS itself."""

MIN_PRODUCTS_TRANSPOSED, MIN_PRODUCTS_TILED = 100_000, 900_000
"""With fewer, NumPy's product is faster: of a bᵀ, as in a layer, and of any other layout."""

MIN_RESULT_SIZE = 1200
"""NumPy's a bᵀ is fast for smaller results (with fewer than `MIN_PRODUCTS_TILED` products)."""

MIN_TILED_ROWS = 4
"""With fewer rows of a, a factor b that is not transposed is left to NumPy."""

MAX_DEFERRED_ROWS = 64
"""Up to so many rows, the products gᵀ x of one layer are deferred and stacked (see
`core/fast/lazy_gradients.py`)."""

MAX_TRANSPOSED_SIZE, MAX_TILED_SIZE = 512, 1_000_000
"""aᵀ b of so many rows and columns is left to BLAS, and so is any b, except bᵀ, of that size."""

INTERRUPTIBLE_PARALLEL_FOR = partial(interruptible, parallel_for)
"""For a product that may take a second, into new memory: Ctrl-C does not wait for it."""


def multiply_tiled(start, stop, by_rows, a, b, bias, y):
    """Compute some rows (or columns) of y = bias + a b in tiles."""
    start, stop = claim_range(start, stop)
    top, bottom, left, right = 0, y.shape[0], 0, y.shape[1]
    size, width = y.itemsize, panel_width(y.itemsize)
    if by_rows:
        top, bottom = start * TILE_ROWS, min(stop * TILE_ROWS, bottom)
    else:
        left, right = start * width, min(stop * width, right)
    workspace = workspace_for(y)
    multiply(
        workspace, bottom - top, right - left, a.shape[1],
        a.ctypes.data + top * a.strides[0], a.strides[0] // size, a.strides[1] // size,
        b.ctypes.data + left * b.strides[1], b.strides[0] // size, b.strides[1] // size,
        bias.ctypes.data + left * size if bias.size else 0, 0,
        y.ctypes.data + (top * y.shape[1] + left) * size, y.shape[1],
    )  # fmt: skip


def multiply_by_blas(
    start, stop, blas_address, by_rows, trans_a, trans_b, k, a, lda, b, ldb, bias, c
):
    """Compute some rows (or columns) of c = bias + op(a) op(b) by BLAS."""
    start, stop = claim_range(start, stop)
    top, bottom, left, right = 0, c.shape[0], 0, c.shape[1]
    if by_rows:
        top, bottom = start * BLAS_BLOCK, min(stop * BLAS_BLOCK, bottom)
    else:
        left, right = start * BLAS_BLOCK, min(stop * BLAS_BLOCK, right)
    result_part = c[top:bottom, left:right]
    beta = 0.0
    if bias.size:
        beta = 1.0
        row = bias[left:right]
        for i in range(result_part.shape[0]):
            result_part[i] = row
    a += top * (1 if trans_a else lda) * c.itemsize
    b += left * (ldb if trans_b else 1) * c.itemsize
    gemm(
        blas_address, trans_a, trans_b, bottom - top, right - left, k,
        1.0, a, lda, b, ldb, beta, result_part, c.shape[1],
    )  # fmt: skip


def blas_kernel() -> Callable[..., None]:
    """Compile `multiply_by_blas` for float32 and for float64."""
    integer, boolean = types.int64, types.boolean
    signatures = [
        types.void(
            integer, integer, integer, boolean, boolean, boolean, integer, integer, integer,
            integer, integer, dtype[::1], dtype[:, ::1],
        )
        for dtype in (types.float32, types.float64)
    ]  # fmt: skip
    return njit(signatures, cache=True, nogil=True, error_model="numpy")(multiply_by_blas)


def tiled_kernel() -> Callable[..., None]:
    """Compile `multiply_tiled` for float32 and for float64."""
    signatures = []
    for dtype in (types.float32, types.float64):
        matrix, row = (types.Array(dtype, n, k, readonly=True) for n, k in ((2, "A"), (1, "C")))
        integer = types.int64
        signatures.append(
            types.void(integer, integer, types.boolean, matrix, matrix, row, dtype[:, ::1])
        )
    return njit(signatures, cache=True, nogil=True, error_model="numpy")(multiply_tiled)


def choose_cut(rows: int, columns: int, width: int, threads: int) -> tuple[bool, int]:
    """Return whether to cut a tiled product along its rows, and the number of units.

    Cut along the rows, each part has to pack all of b, which takes as long as two rows of tiles.
    Cut along the columns, an incomplete panel costs its thread as much as a full one.
    """
    down, across = -(-rows // TILE_ROWS), -(-columns // width)
    by_rows = (-(-down // threads) + 2) * columns / width
    if by_rows < 1.05 * -(-across // threads) * (down + 2):
        return True, down
    return False, across


@cache
def product() -> Callable[..., Any]:
    """Make the product of two matrices, with an optional bias for each column.

    It returns None for what NumPy does best: small products, one row or column, other layouts.
    """
    by_tiles, by_blas = tiled_kernel() if TILES_ARE_FASTER else None, blas_kernel()
    no_bias = {np.dtype(dtype): np.empty(0, dtype) for dtype in ("float32", "float64")}

    def run(a: Any, b: Any, bias: Any = None, out: Any = None) -> Any:
        rows, k = a.shape
        columns = b.shape[1]
        products = rows * columns * k
        if products < MIN_PRODUCTS_TRANSPOSED or columns == 1 or b.shape[0] != k:
            return None
        is_small = rows * columns <= MIN_RESULT_SIZE
        if products < MIN_PRODUCTS_TILED and (is_small or b.strides[0] != b.itemsize):
            return None
        dtype = a.dtype
        if dtype is not b.dtype or dtype not in no_bias:
            return None
        if bias is None:
            bias = no_bias[dtype]
        elif bias.dtype is not dtype or bias.shape != (columns,) or not is_contiguous_row(bias):
            return None
        left, right = blas_layout(a), blas_layout(b)
        if left is None or right is None:
            return None
        work = products // PRODUCTS_PER_ELEMENT
        run_parallel = (
            parallel_for if products < LONG or out is not None else INTERRUPTIBLE_PARALLEL_FOR
        )
        if by_tiles is not None and prefers_tiles(rows, columns, k, left[0], right[0]):
            y = np.empty((rows, columns), dtype) if out is None else out
            width = panel_width.py_func(dtype.itemsize)
            by_rows, units = choose_cut(rows, columns, width, count_parts(products, work))
            run_parallel(by_tiles, units, by_rows, a, b, bias, y, work=work)
            return y
        at, units = gemm_address(dtype), -(-max(rows, columns) // BLAS_BLOCK)
        if at is None or products < MIN_PRODUCTS_BLAS or min(rows, columns) < BLAS_BLOCK // 2:
            return None
        if count_parts(units, work) == 1:
            return None
        y = np.empty((rows, columns), dtype) if out is None else out
        run_parallel(
            by_blas, units, at, rows >= columns, left[0], right[0], k, address_of(a), left[1],
            address_of(b), right[1], bias, y, work=work,
        )  # fmt: skip
        return y

    return run


def prefers_tiles(m: int, n: int, k: int, a_transposed: bool, b_transposed: bool) -> bool:
    """Whether tiles are faster than BLAS. They need some rows of a, not too far apart."""
    if a_transposed and m >= MAX_TRANSPOSED_SIZE and n >= MAX_TRANSPOSED_SIZE:
        return False
    if b_transposed:
        return m > 1
    return m >= MIN_TILED_ROWS and n * k < MAX_TILED_SIZE


def address_of(x: Any) -> int:
    """Return the address of an array's first element."""
    return x.__array_interface__["data"][0]


def blas_layout(x: Any) -> tuple[bool, int] | None:
    """Return whether BLAS must transpose a matrix, and its row stride; None for other layouts."""
    (down, along), (height, width), size = x.strides, x.shape, x.itemsize
    if not x.flags.aligned:
        return None
    if along == size and down >= width * size and down % size == 0:
        return False, down // size
    if down == size and along >= height * size and along % size == 0:
        return True, along // size
    return None


def is_contiguous_row(x: Any) -> bool:
    """Whether an array is contiguous and aligned."""
    return x.flags.c_contiguous and x.flags.aligned


def flatten_rows(x: Any) -> Any:
    """Return an array with all axes but the last one joined; a view if it is contiguous."""
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


# The makers for ops and their rules ---------------------------------------------------------------


def mm() -> Callable[..., Any]:
    """Make the forward of `mm`."""
    return product()


def mm_input() -> Callable[..., Any]:
    """Make the rule of `mm` for the left factor: g · bᵀ."""
    run = product()
    return lambda g, mat2: run(g, mat2.T)


def mm_mat2() -> Callable[..., Any]:
    """Make the rule of `mm` for the right factor: aᵀ · g."""
    run = product()
    return lambda g, input: run(input.T, g)


def matmul() -> Callable[..., Any]:
    """Make the forward of `matmul`: of two matrices, or two batches (see `batched_matmul.py`)."""
    from .batched_matmul import batched

    single, batched_product = product(), batched()

    def run(input: Any, other: Any) -> Any:
        return (single if input.ndim == other.ndim == 2 else batched_product)(input, other)

    return run


def matmul_input() -> Callable[..., Any]:
    """Make the rule of `matmul` for the left factor: g · bᵀ."""
    run = product()

    def rule(g: Any, input_shape: tuple[int, ...], other: Any) -> Any:
        return run(g, other.T) if len(input_shape) == other.ndim == 2 else None

    return rule


def matmul_other() -> Callable[..., Any]:
    """Make the rule of `matmul` for the right factor: aᵀ · g."""
    run = product()

    def rule(g: Any, input: Any, other_shape: tuple[int, ...]) -> Any:
        return run(input.T, g) if input.ndim == len(other_shape) == 2 else None

    return rule


def linear() -> Callable[..., Any]:
    """Make the forward of `linear`: x Wᵀ + b, with all axes of x but the last as rows."""
    run = product()

    def layer(input: Any, weight: Any, bias: Any) -> Any:
        if input.ndim < 2 or weight.ndim != 2:
            return None
        y = run(flatten_rows(input), weight.T, bias)
        return y if y is None or input.ndim == 2 else y.reshape(*input.shape[:-1], -1)

    return layer


def linear_input() -> Callable[..., Any]:
    """Make the rule of `linear` for x: g W."""
    run = product()

    def rule(g: Any, weight: Any) -> Any:
        if g.ndim < 2:
            return None
        y = run(flatten_rows(g), weight)
        return y if y is None or g.ndim == 2 else y.reshape(*g.shape[:-1], -1)

    return rule


def linear_weight() -> Callable[..., Any]:
    """Make the rule of `linear` for W: gᵀ x; for few rows, as a deferred product."""
    run = product()

    def multiply(a: Any, b: Any) -> Any:
        y = run(a, b)
        return a @ b if y is None else y

    def rule(g: Any, input: Any) -> Any:
        if g.ndim < 2:
            return None
        g, input = flatten_rows(g), flatten_rows(input)
        if len(g) <= MAX_DEFERRED_ROWS and g.dtype is input.dtype:
            return DeferredMatmulGradient(g, input, multiply)
        return run(g.T, input)

    return rule
