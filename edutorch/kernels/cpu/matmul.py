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

from ... import ops
from ...backends.addresses import address_of
from ...backends.blas import LONG, interruptible
from ...backends.numpy import Array
from ...core.fast.lazy_gradients import DeferredMatmulGradient
from ...nn import functional
from ...ops.linalg import add_product
from .gemm_microkernel import (
    TILE_ROWS,
    TILES_ARE_FASTER,
    gemm,
    gemm_address,
    multiply,
    panel_width,
    workspace_for,
)
from .jit import ARRAY_1D, INT64, INT64_1D, compile_kernel
from .parallel import MIN_WORK_PER_THREAD, count_parts, parallel_for
from .work_queue import claim_range

BLAS_BLOCK = 16
"""For BLAS, rows or columns are divided in units of so many: it computes in blocks like these."""

PRODUCTS_PER_ELEMENT = 32
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
"""aᵀ b with all sizes at least so large is left to BLAS; so is any b, except bᵀ, of the second."""

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
    # By address and steps, a transposed matrix takes no copy and no kernel of its own.
    rows = (a.ctypes.data + top * a.strides[0], a.strides[0] // size, a.strides[1] // size)
    columns = (b.ctypes.data + left * b.strides[1], b.strides[0] // size, b.strides[1] // size)
    # The step 0 reads the bias again for each row; the address 0 stands for no bias.
    start_values = (bias.ctypes.data + left * size if bias.size else 0, 0)
    result_rows = (y.ctypes.data + (top * y.shape[1] + left) * size, y.shape[1])
    shape = (bottom - top, right - left, a.shape[1])
    multiply(workspace, shape, rows, columns, start_values, result_rows)


def multiply_by_blas(start, stop, blas_address, by_rows, a_matrix, b_matrix, bias, c):
    """Compute some rows (or columns) of c = bias + op(a) op(b) by BLAS.

    Args:
        a_matrix, b_matrix: the address, the row stride, whether it is transposed; k.
    """
    start, stop = claim_range(start, stop)
    a, lda, trans_a, k = a_matrix
    b, ldb, trans_b, _ = b_matrix
    top, bottom, left, right = 0, c.shape[0], 0, c.shape[1]
    if by_rows:
        top, bottom = start * BLAS_BLOCK, min(stop * BLAS_BLOCK, bottom)
    else:
        left, right = start * BLAS_BLOCK, min(stop * BLAS_BLOCK, right)
    result_part = c[top:bottom, left:right]
    beta = 0.0  # then BLAS does not read c, which may hold anything, NaN too
    if bias.size:
        beta = 1.0
        row = bias[left:right]
        # BLAS takes no bias, but it can add to c: so the bias is written there first.
        for i in range(result_part.shape[0]):
            result_part[i] = row
    # Addresses count bytes. The next row of a transposed matrix is one element further on.
    a += top * (1 if trans_a else lda) * c.itemsize
    b += left * (ldb if trans_b else 1) * c.itemsize
    gemm(
        blas_address, trans_a != 0, trans_b != 0, bottom - top, right - left, k,
        1.0, a, lda, b, ldb, beta, result_part, c.shape[1],
    )  # fmt: skip


def blas_kernel() -> Callable[..., None]:
    """Compile `multiply_by_blas` for float32 and for float64."""
    integer, matrix = types.int64, types.UniTuple(types.int64, 4)
    signatures = [
        types.void(
            integer, integer, integer, types.boolean, matrix, matrix, dtype[::1], dtype[:, ::1]
        )
        for dtype in (types.float32, types.float64)
    ]
    return njit(signatures, cache=True, nogil=True, error_model="numpy")(multiply_by_blas)


def tiled_kernel() -> Callable[..., None]:
    """Compile `multiply_tiled` for float32 and for float64."""
    signatures = []
    for dtype in (types.float32, types.float64):
        # Of any layout (A): the steps are read at run time. Writable arrays fit `readonly`, too.
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
    # The + 2: packing b takes as long as two rows of tiles, for each thread.
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
    # An empty array, not None: that would be another type, and another kernel to compile.
    no_bias = {np.dtype(dtype): np.empty(0, dtype) for dtype in ("float32", "float64")}

    def run(a: Array, b: Array, bias: Array | None = None, out: Array | None = None) -> Any:
        rows, k = a.shape
        columns = b.shape[1]
        products = rows * columns * k
        # A matrix-vector product is bound by memory; different sizes are an error of NumPy's.
        if products < MIN_PRODUCTS_TRANSPOSED or columns == 1 or b.shape[0] != k:
            return None
        is_small = rows * columns <= MIN_RESULT_SIZE
        if products < MIN_PRODUCTS_TILED and (is_small or b.strides[0] != b.itemsize):
            return None
        dtype = a.dtype
        # NumPy has one object for each dtype in native byte order; swapped bytes are left to NumPy.
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
        # After Ctrl-C the product goes on in its thread: it must not write into the caller's `out`.
        run_parallel = (
            parallel_for if products < LONG or out is not None else INTERRUPTIBLE_PARALLEL_FOR
        )
        if by_tiles is not None and prefers_tiles(rows, columns, k, left[0], right[0]):
            y = np.empty((rows, columns), dtype) if out is None else out
            # The Python function: for a call from here, numba would first have to compile it.
            width = panel_width.py_func(dtype.itemsize)
            by_rows, units = choose_cut(rows, columns, width, count_parts(products, work))
            run_parallel(by_tiles, units, by_rows, a, b, bias, y, work=work)
            return y
        at, units = gemm_address(dtype), -(-max(rows, columns) // BLAS_BLOCK)
        if at is None or products < MIN_PRODUCTS_BLAS or min(rows, columns) < BLAS_BLOCK // 2:
            return None
        if count_parts(units, work) == 1:  # with one thread, NumPy calls the same function
            return None
        y = np.empty((rows, columns), dtype) if out is None else out
        run_parallel(
            by_blas, units, at, rows >= columns, (address_of(a), left[1], int(left[0]), k),
            (address_of(b), right[1], int(right[0]), k), bias, y, work=work,
        )  # fmt: skip
        return y

    return run


@cache
def product_or_numpy() -> Callable[..., Any]:
    """Make the product of two matrices for callers that have no definition to leave it to."""
    run = product()

    def multiply(a: Array, b: Array, bias: Array | None = None) -> Any:
        y = run(a, b, bias)
        if y is None:
            y = a @ b
            if bias is not None:
                y += bias
        return y

    return multiply


def prefers_tiles(m: int, n: int, k: int, a_transposed: bool, b_transposed: bool) -> bool:
    """Whether tiles are faster than BLAS. They need some rows of a, not too far apart."""
    if a_transposed and min(m, n, k) >= MAX_TRANSPOSED_SIZE:
        return False
    if b_transposed:
        return m > 1
    return m >= MIN_TILED_ROWS and n * k < MAX_TILED_SIZE


def blas_layout(x: Array) -> tuple[bool, int] | None:
    """Return whether BLAS must transpose a matrix, and its row stride; None for other layouts."""
    (down, along), (height, width), size = x.strides, x.shape, x.itemsize
    if not x.flags.aligned:  # a view into bytes
        return None
    # A row stride below the width (broadcast, overlapping, flipped) is an error to BLAS.
    if along == size and down >= width * size and down % size == 0:
        return False, down // size
    if down == size and along >= height * size and along % size == 0:
        return True, along // size
    return None


def is_contiguous_row(x: Array) -> bool:
    """Whether an array is contiguous and aligned."""
    return x.flags.c_contiguous and x.flags.aligned


def flatten_rows(x: Array) -> Any:
    """Return an array with all axes but the last one joined; a view if it is contiguous."""
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


# The makers for ops and their rules ---------------------------------------------------------------


@ops.mm.kernel("cpu", min_size=4096)
def mm() -> Callable[..., Any]:
    """Make the forward of `mm`."""
    return product()


@ops.mm.kernel("cpu", "input", min_size=1100)
def mm_input() -> Callable[..., Any]:
    """Make the rule of `mm` for the left factor: g · bᵀ."""
    run = product()
    return lambda g, mat2: run(g, mat2.T)


@ops.mm.kernel("cpu", "mat2", min_size=1100)
def mm_mat2() -> Callable[..., Any]:
    """Make the rule of `mm` for the right factor: aᵀ · g."""
    run = product()
    return lambda g, input: run(input.T, g)


@ops.matmul.kernel("cpu", min_size=4096)
def matmul() -> Callable[..., Any]:
    """Make the forward of `matmul`: of two matrices, or two batches (see `batched_matmul.py`)."""

    single, batched_product = product(), batched()

    def run(input: Array, other: Array) -> Any:
        return (single if input.ndim == other.ndim == 2 else batched_product)(input, other)

    return run


@add_product.kernel("cpu", min_size=4096)
def product_and_sum() -> Callable[..., Any]:
    """Make the forward of `addmm`, `baddbmm` and `addmv`: a bias is the initial value of sums."""
    single, batched_product = product(), batched()

    def run(left: Array, right: Array, input: Array, beta: float, alpha: float) -> Any:
        if right.ndim == 1:
            return None
        is_single = left.ndim == 2
        if is_single and alpha == beta == 1 and input.ndim == 1:
            return single(left, right, input)
        y = (single if is_single else batched_product)(left, right)
        if y is None:
            return None
        if alpha != 1:
            y *= alpha
        if beta != 0:
            y += input if beta == 1 else input * beta
        return y

    return run


@ops.matmul.kernel("cpu", "input", min_size=1100)
def matmul_input() -> Callable[..., Any]:
    """Make the rule of `matmul` for the left factor: g · bᵀ."""
    run = product()

    def rule(g: Array, input_shape: tuple[int, ...], other: Array) -> Any:
        return run(g, other.T) if len(input_shape) == other.ndim == 2 else None

    return rule


@ops.matmul.kernel("cpu", "other", min_size=1100)
def matmul_other() -> Callable[..., Any]:
    """Make the rule of `matmul` for the right factor: aᵀ · g."""
    run = product()

    def rule(g: Array, input: Array, other_shape: tuple[int, ...]) -> Any:
        return run(input.T, g) if input.ndim == len(other_shape) == 2 else None

    return rule


@functional.linear.kernel("cpu", min_size=1024)
def linear() -> Callable[..., Any]:
    """Make the forward of `linear`: x Wᵀ + b, with all axes of x but the last as rows."""
    run = product()

    def layer(input: Array, weight: Array, bias: Array | None) -> Any:
        if input.ndim < 2 or weight.ndim != 2:
            return None
        y = run(flatten_rows(input), weight.T, bias)
        return y if y is None or input.ndim == 2 else y.reshape(*input.shape[:-1], -1)

    return layer


# From few elements of g on: those of ten classes are few, and its product with W is large.
@functional.linear.kernel("cpu", "input", min_size=1100)
def linear_input() -> Callable[..., Any]:
    """Make the rule of `linear` for x: g W."""
    run = product()

    def rule(g: Array, weight: Array) -> Any:
        if g.ndim < 2:
            return None
        y = run(flatten_rows(g), weight)
        return y if y is None or g.ndim == 2 else y.reshape(*g.shape[:-1], -1)

    return rule


@functional.linear.kernel("cpu", "weight", min_size=1100)
def linear_weight() -> Callable[..., Any]:
    """Make the rule of `linear` for W: gᵀ x; for few rows, as a deferred product."""
    run, multiply = product(), product_or_numpy()

    def rule(g: Array, input: Array) -> Any:
        if g.ndim < 2:
            return None
        g, input = flatten_rows(g), flatten_rows(input)
        # Of few rows, as in a step of a recurrent network: one product of many steps is faster.
        if len(g) <= MAX_DEFERRED_ROWS and g.dtype is input.dtype:
            return DeferredMatmulGradient(g, input, multiply)
        return run(g.T, input)

    return rule


MIN_PRODUCTS_TILED_BATCH = 300_000
"""With fewer multiplications per matrix, BLAS is faster, unless b is transposed."""


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
    use_tiles = m >= 4 * TILE_ROWS and (b_transposed or m * n * k >= MIN_PRODUCTS_TILED_BATCH)
    # One for all matrices of this part: their panels are of the same size.
    workspace = workspace_for(c)
    for i in range(np.int64(start), np.int64(stop)):
        x, y, z = i // (second * third), i // third % second, i % third
        a_address = a + x * sizes[8] + y * sizes[9] + z * sizes[10]
        b_address = b + x * sizes[13] + y * sizes[14] + z * sizes[15]
        if TILES_ARE_FASTER and use_tiles:
            multiply(
                workspace, (m, n, k), (a_address, a_row, a_step), (b_address, b_row, b_step),
                (0, 0), (c.ctypes.data + i * m * n * c.itemsize, n),
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

    def run(a: Array, b: Array) -> Any:
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


def describe_operand(x: Array) -> tuple[Any, ...]:
    """Return a factor, its address, the layout of its matrices and the strides between them."""
    layout = blas_layout(x[(0,) * (x.ndim - 2)])
    if layout is None:
        x = np.ascontiguousarray(x)
        layout = False, x.shape[-1]
    batch = zip(x.shape[:-2], x.strides[:-2], strict=True)
    # An axis of length 1 broadcasts, which NumPy expresses by any stride, and this kernel by 0.
    steps = [step if size > 1 else 0 for size, step in batch]
    first_address = address_of(x)
    # x comes with its address, so that a copy made here lives as long as the kernel reads it.
    return x, first_address, *layout, *(0,) * (3 - len(steps)), *steps


@ops.bmm.kernel("cpu", min_size=4096)
def bmm() -> Callable[..., Any]:
    """Make the forward of `bmm`."""
    return batched()


def has_contiguous_rows(x: Array) -> bool:
    """Whether each row of a matrix is contiguous, and no two rows overlap."""
    size = x.itemsize
    is_contiguous = x.strides[-1] == size or x.shape[-1] == 1
    return is_contiguous and x.strides[-2] >= x.shape[-1] * size and x.strides[-2] % size == 0
