"""A GEMM micro-kernel: tiles of a matrix product, accumulated in registers.

A matrix product is limited by memory bandwidth. A tile of `TILE_ROWS` rows of y, up to
`MAX_TILE_VECTORS` SIMD vectors wide, stays in registers from the first term of its sums to the
last. Per term, `MAX_TILE_VECTORS` vectors of b and `TILE_ROWS` elements of a are read for
`TILE_ROWS` · `MAX_TILE_VECTORS` vector products:

    y[i, j] = s[i, j] + Σₖ a[i, k] · b[k, j]

a is read in its own layout, also transposed. The columns of b that a tile needs are packed first,
`PANEL_ROWS` contiguous rows: a panel that stays in the L1 cache while all rows of a are processed.
With few rows of a, packing would take as long as the product: then b, too, is read in its own
layout, and x Wᵀ for a few rows of x is computed as (W xᵀ)ᵀ, for which only the small x is packed.

At the edges of a matrix, lanes outside it are masked: they are neither read nor written. numba has
neither vectors nor masks, so this is written as LLVM IR (see `implicit_gemm.py`). Matrices are
given by the address of their first element, and steps count elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from ...backends.blas import blas
from .implicit_gemm import BYTES, INDEX, LANE, Writer, define_intrinsic

ROW_MAJOR, AS_IT_IS, TRANSPOSED = 101, 111, 112


INTEGER, POINTER = ir.IntType(64), ir.IntType(8).as_pointer()


class GemmAddresses(NamedTuple):
    """The addresses of BLAS's matrix products for float32 and float64."""

    sgemm: int
    dgemm: int


def gemm_addresses() -> GemmAddresses | None:
    """Return the addresses for `sgemm` and `dgemm`; None if NumPy's library has none of these."""
    library = blas()
    return GemmAddresses(library.sgemm, library.dgemm) if library is not None else None


def gemm_address(dtype: np.dtype) -> int | None:
    """Return the address for `gemm` on arrays of a dtype; None if there is none."""
    library, char = blas(), np.dtype(dtype).char
    if library is None or char not in "fd":
        return None
    return library.sgemm if char == "f" else library.dgemm


def product(float_type: types.Float | None) -> Callable[..., Any]:
    """Make the intrinsic below for one dtype; None takes it from `c`, or `alpha`."""

    @intrinsic
    def gemm(typing, gemm_address, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        """c ← alpha · op(a) op(b) + beta · c, of row-major matrices; op(x) is x or xᵀ.

        Args:
            address: of the C function: `address(dtype)` or a field of `addresses()`.
            trans_a, trans_b: True where the matrix in memory is to be transposed.
            m, n, k: op(a) has the shape (m, k), op(b) (k, n), and c (m, n).
            alpha, beta: scalars; with beta 0, c is not read.
            a, b, c: arrays (from their first element on, such as `x[i:, j:]`), or the addresses
                of their first elements as integers.
            lda, ldb, ldc: the number of elements from one row in memory to the next.
        """
        dtype = float_type
        if dtype is None:
            dtype = c.dtype if isinstance(c, types.Array) else alpha
        # With None numba reports a typing error, instead of reading memory as another dtype.
        if dtype not in (types.float32, types.float64):
            return None
        matrices = (a, b, c)
        for matrix in matrices:
            if isinstance(matrix, types.Array) and matrix.dtype != dtype:
                return None
        size = types.int64
        signature = types.void(
            types.int64, types.boolean, types.boolean, size, size, size, dtype,
            *matrix_type(a), size, *matrix_type(b), size, dtype, *matrix_type(c), size,
        )  # fmt: skip
        return signature, write_call

    return gemm


def matrix_type(matrix: types.Type) -> tuple[Any]:
    """Return the type by which a matrix is passed: its array type, or an integer address."""
    return (matrix if isinstance(matrix, types.Array) else types.int64,)


def write_call(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
) -> Any:
    """Write the call of the C function.

    Some libraries use 32-bit integers. They get 64 bits all the same: in a register, as in an
    eight-byte stack slot, a little-endian machine has the lower half where the callee reads it.
    """
    at, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = arguments
    float_type = alpha.type
    int32 = ir.IntType(32)

    def transpose_flag(flag: ir.Value) -> Any:
        is_transposed = cgutils.is_true(builder, flag)
        return builder.select(is_transposed, int32(TRANSPOSED), int32(AS_IT_IS))

    def first_element(index: int, value: ir.Value) -> Any:
        argument_type = signature.args[index]
        if isinstance(argument_type, types.Array):
            data = context.make_array(argument_type)(context, builder, value).data
            return builder.bitcast(data, POINTER)
        return builder.inttoptr(value, POINTER)

    function = ir.FunctionType(
        ir.VoidType(),
        [int32, int32, int32, INTEGER, INTEGER, INTEGER, float_type,
         POINTER, INTEGER, POINTER, INTEGER, float_type, POINTER, INTEGER],
    )  # fmt: skip
    builder.call(
        builder.inttoptr(at, function.as_pointer()),
        [int32(ROW_MAJOR), transpose_flag(trans_a), transpose_flag(trans_b), m, n, k, alpha,
         first_element(7, a), lda, first_element(9, b), ldb, beta, first_element(12, c), ldc],
    )  # fmt: skip
    return context.get_dummy_value()


gemm = product(None)


sgemm = product(types.float32)


dgemm = product(types.float64)


__all__ = [
    "GemmAddresses", "TILES_ARE_FASTER", "TILE_ROWS", "dgemm", "gemm", "gemm_address",
    "gemm_addresses", "matmul_into", "multiply", "panel_width", "sgemm", "workspace_for",
]  # fmt: skip

# Six rows of four vectors are 24 of AVX-512's 32 registers, and four more hold a row of b; with
# AVX's 16 registers, six rows of two vectors are 12, and two hold b.
TILE_ROWS = 6
"""How many rows of a tile are accumulated at once."""

LOW_TILE_ROWS = 2
"""So many rows are accumulated at once where a matrix ends before a tile does."""

# Twelve rows of two vectors are as many accumulators as six of four.
HIGH_TILE_ROWS = 12
"""How many rows a tile of `MAX_FEW_VECTORS` vectors has, for which a is not prefetched."""

MAX_FEW_VECTORS = 2
"""a bᵀ of no more rows than so many vectors have lanes is computed as (b aᵀ)ᵀ."""

MAX_TILE_VECTORS = 2 if BYTES == 32 else 4
"""The largest width of a tile in vectors: see `implicit_gemm.MAX_TILE_VECTORS`."""

PANEL_ROWS = 128
"""So many rows of b, as wide as a tile, are two thirds of the L1 cache."""

PREFETCH_DISTANCE = 16
"""Elements of a transposed a are prefetched so many terms before they are used."""

MAX_UNPACKED_BYTES = 65_536
"""b is not packed if its first m rows (m is the number of rows of a) span fewer bytes: each row is
read again for every six rows of a, and rows that are far apart cost TLB misses."""

TILES_ARE_FASTER = BYTES == 64
"""Whether tiles are faster than BLAS: with shorter vectors, BLAS is as close to the limit."""

Address = types.int64
MATRIX = SHAPE = types.UniTuple(Address, 3)
ROWS = types.UniTuple(Address, 2)
"""A matrix: its address, the steps from row to row and from column to column; one whose columns are
contiguous: its address, the step from row to row; m, n and k of a product."""


class MaskedWriter(Writer):
    """A writer for an intrinsic whose first argument gives the dtype, and the others addresses."""

    def unpack(self, argument: int) -> list[Any]:
        """Return the elements of a tuple that is an argument."""
        return cgutils.unpack_tuple(self.builder, self.arguments[argument])

    def pointer_at(self, address: ir.Value) -> Any:
        return self.builder.inttoptr(address, self.vector.element.as_pointer())

    def mask(self, count: ir.Value, first: int = 0) -> Any:
        """Return a mask of the lanes whose index, counted from `first` on, is below `count`."""
        lane = self.vector.count
        index_vector = ir.VectorType(INDEX, lane)
        undefined = ir.Constant(index_vector, ir.Undefined)
        first_lane = self.builder.insert_element(undefined, count, LANE(0))
        counts = self.shuffle(first_lane, undefined, [0] * lane)
        positions = ir.Constant(index_vector, [first + i for i in range(lane)])
        # Signed: `count` is negative for a vector that lies wholly outside the matrix.
        return self.builder.icmp_signed("<", positions, counts)

    def call_masked(self, name: str, return_type: ir.Type, *arguments: Sequence[ir.Value]) -> Any:
        count, suffix = self.vector.count, "f32" if self.size == 4 else "f64"
        function = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(return_type, [argument.type for argument in arguments]),
            f"llvm.masked.{name}.v{count}{suffix}.p0v{count}{suffix}",
        )
        return self.builder.call(function, arguments)

    def load_masked(self, mask: ir.Value, pointer: ir.Value) -> Any:
        """Read the lanes of a vector that are in the mask; the others are 0."""
        vector_pointer = self.builder.bitcast(pointer, self.vector.as_pointer())
        zero = ir.Constant(self.vector, [0.0] * self.vector.count)
        # Aligned like one element only: a row may begin anywhere.
        return self.call_masked("load", self.vector, vector_pointer, LANE(self.size), mask, zero)

    def store_masked(self, mask: ir.Value, value: ir.Value, pointer: ir.Value) -> None:
        vector_pointer = self.builder.bitcast(pointer, self.vector.as_pointer())
        self.call_masked("store", ir.VoidType(), value, vector_pointer, LANE(self.size), mask)

    def prefetch(self, pointer: ir.Value, write: int = 1) -> None:
        """Write a prefetch of an address, which will be written by default."""
        byte, int_type = ir.IntType(8).as_pointer(), LANE
        function_type = ir.FunctionType(ir.VoidType(), [byte, int_type, int_type, int_type])
        function = cgutils.get_or_insert_function(
            self.builder.module, function_type, "llvm.prefetch.p0i8"
        )
        byte_pointer = self.builder.bitcast(pointer, byte)
        # 3: keep it in all levels of the cache; 1: it is data, not instructions.
        self.builder.call(function, [byte_pointer, int_type(write), int_type(3), int_type(1)])

    def load_transposed(
        self, x: ir.Value, x_row: ir.Value, rows_left: ir.Value, width_left: ir.Value
    ) -> list[Any]:
        """Return the columns of a square with a vector's length as its side, read with masks."""
        builder, lane = self.builder, self.vector.count
        zero, rows = INDEX(0), []
        for i in range(lane):
            is_row = builder.icmp_signed("<", INDEX(i), rows_left)
            mask = self.mask(builder.select(is_row, width_left, zero))
            # A row past the end gets the address of the first one, and an empty mask.
            step = builder.select(is_row, self.times(x_row, i), zero)
            rows.append(self.load_masked(mask, self.advance(x, step)))
        self.transpose(rows)
        return rows


def write_tile(w: MaskedWriter, rows: int, width: int, prefetch: bool) -> Any:
    """Write a tile: the accumulators, the loop over k, and the masked stores."""
    builder, lane = w.builder, w.vector.count
    rows_left, width_left, count, next_offset = w.unpack(1)
    (a, a_row, a_step), (b, b_row), (s, s_row), (y, y_row) = (w.unpack(i) for i in range(2, 6))
    a, b, s, y = (w.pointer_at(accumulator) for accumulator in (a, b, s, y))
    # Rows below the matrix compute its first row again, and are not written.
    none = INDEX(0)
    is_row = [builder.icmp_signed("<", INDEX(t), rows_left) for t in range(rows)]
    steps = [builder.select(accumulator, INDEX(t), none) for t, accumulator in enumerate(is_row)]
    # LLVM turns these stack slots into registers. They begin at 0, and s is added at the end: it
    # may be y, which is prefetched meanwhile.
    sums = [[cgutils.alloca_once(builder, w.vector) for _ in range(width)] for _ in range(rows)]
    for accumulators in sums:
        for accumulator in accumulators:
            builder.store(ir.Constant(w.vector, [0.0] * lane), accumulator)
    for step in steps:  # the target is prefetched while the tile is computed
        target = w.advance(y, builder.mul(y_row, step))
        for v in range(width):
            w.prefetch(w.advance(target, v * lane))
    row_pointers = [w.advance(a, builder.mul(a_row, t)) for t in steps]
    masks = [w.mask(width_left, v * lane) for v in range(width)]
    with cgutils.for_range(builder, count) as loop:
        line = w.advance(b, builder.mul(loop.index, b_row))
        # Without masks: b is read in place only where the tile is full, and a panel ends in zeros.
        vectors = [w.load(w.advance(line, v * lane)) for v in range(width)]
        offset = builder.mul(loop.index, a_step)
        for accumulator, accumulators in zip(row_pointers, sums, strict=True):
            position = w.advance(accumulator, offset)
            if prefetch:
                w.prefetch(w.advance(position, next_offset), 0)
            element = w.broadcast(builder.load(position))
            for vector, sum in zip(vectors, accumulators, strict=True):
                # `contract` permits a fused multiply-add: one instruction, and one rounding.
                term = builder.fmul(element, vector, flags=("contract",))
                builder.store(builder.fadd(builder.load(sum), term, flags=("contract",)), sum)
    for t, step, accumulators in zip(is_row, steps, sums, strict=True):
        with builder.if_then(t):
            initial, target = (
                w.advance(x, builder.mul(row, step)) for x, row in ((s, s_row), (y, y_row))
            )
            for v, (sum, mask) in enumerate(zip(accumulators, masks, strict=True)):
                start = w.load_masked(mask, w.advance(initial, v * lane))
                value = builder.fadd(start, builder.load(sum))
                w.store_masked(mask, value, w.advance(target, v * lane))
    return w.context.get_dummy_value()


def tile(rows: int, width: int, prefetch: bool = True) -> Callable[..., None]:
    """Make the intrinsic of a tile with some rows, some vectors wide.

    Args:
        prefetch: whether a is prefetched.
    """

    @define_intrinsic
    def gemm_tile(typing, like, sizes, a, b, s, y):
        """y[i, j] = s[i, j] + Σₖ a[i, k] · b[k, j] for i < rows_left, j < width_left, k < count.

        Args:
            like: an array of the matrices' dtype.
            sizes: rows_left, width_left, count, and the prefetch distance in a.
            a, b, s, y: a is MATRIX, the others are ROWS.
        """
        return types.void(like, types.UniTuple(Address, 4), MATRIX, ROWS, ROWS, ROWS), write

    def write(*lowering: Any) -> Any:
        return write_tile(MaskedWriter(*lowering), rows, width, prefetch)

    return gemm_tile


# One for every shape: the loops over its rows and vectors are unrolled when the IR is written.
product_1, product_2, product_4 = tile(TILE_ROWS, 1), tile(TILE_ROWS, 2), tile(TILE_ROWS, 4)
low_tile = tile(LOW_TILE_ROWS, 4)
high_tile_1, high_tile_2 = (
    tile(HIGH_TILE_ROWS, 1, prefetch=False),
    tile(HIGH_TILE_ROWS, 2, prefetch=False),
)


@define_intrinsic
def copy_vector(typing, like, x, count, y):
    """Copy a vector; lanes from `count` on become 0."""

    def write(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        arguments: Sequence[ir.Value],
    ) -> Any:
        w = MaskedWriter(context, builder, signature, arguments)
        _, x, count, y = arguments
        w.store(w.load_masked(w.mask(count), w.pointer_at(x)), w.pointer_at(y))
        return context.get_dummy_value()

    return types.void(like, *[Address] * 3), write


@define_intrinsic
def transpose_square(typing, like, x, x_row, rows_left, width_left, y, y_row):
    """Transpose a square with a vector's length as its side, with masks at its edges.

    y[j, i] = x[i, j] for i < rows_left, j < width_left.

    Only `width_left` rows of y are written. Their lanes from `rows_left` on become 0.
    """

    def write(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        arguments: Sequence[ir.Value],
    ) -> Any:
        w = MaskedWriter(context, builder, signature, arguments)
        _, x, x_row, rows_left, width_left, y, y_row = arguments
        rows = w.load_transposed(w.pointer_at(x), x_row, rows_left, width_left)
        y = w.pointer_at(y)
        for j, row in enumerate(rows):
            with builder.if_then(builder.icmp_signed("<", INDEX(j), width_left)):
                w.store(row, w.advance(y, w.times(y_row, j)))
        return context.get_dummy_value()

    return types.void(like, *[Address] * 6), write


@define_intrinsic
def transpose_square_back(typing, like, x, sizes, s, y):
    """Transpose a square and add it, masked in both directions: y[j, i] = s[j, i] + x[i, j].

    Args:
        x, s, y: ROWS; sizes: how many rows and columns of x there are.
    """

    def write(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        arguments: Sequence[ir.Value],
    ) -> Any:
        w = MaskedWriter(context, builder, signature, arguments)
        (x, x_row), (rows_left, width_left), (s, s_row), (y, y_row) = map(w.unpack, range(1, 5))
        rows, mask = (
            w.load_transposed(w.pointer_at(x), x_row, rows_left, width_left),
            w.mask(rows_left),
        )
        s, y = w.pointer_at(s), w.pointer_at(y)
        for j, row in enumerate(rows):
            with builder.if_then(builder.icmp_signed("<", INDEX(j), width_left)):
                begin = w.load_masked(mask, w.advance(s, w.times(s_row, j)))
                w.store_masked(mask, builder.fadd(begin, row), w.advance(y, w.times(y_row, j)))
        return context.get_dummy_value()

    return types.void(like, ROWS, ROWS, ROWS, ROWS), write


# The whole product -------------------------------------------------------------------------------


FLOAT_TYPES = types.float32, types.float64


def signatures_of(*matrices: types.Type) -> list[Any] | None:
    """Return the signatures of a function of a workspace, a shape and matrices.

    Without signatures numba would compile one for each mixture of integer types. Where tiles are
    not used, None avoids compiling any.
    """
    return (
        [types.void(dtype[::1], SHAPE, *matrices) for dtype in FLOAT_TYPES]
        if TILES_ARE_FASTER
        else None
    )


@njit
def panel_width(size):
    """Return the number of columns of a panel, for elements of `size` bytes."""
    return MAX_TILE_VECTORS * BYTES // size


@njit
def workspace_for(like):
    """Return the workspace of `multiply`: initial zeros, and buffers for a panel and a result."""
    width = panel_width(like.itemsize)
    result = 4 * HIGH_TILE_ROWS * MAX_FEW_VECTORS * BYTES // like.itemsize
    # 64 elements more than needed, so that it can begin at a cache line.
    workspace = np.empty((PANEL_ROWS + 1) * width + result + 64, like.dtype)
    # Only the zeros are read before they are written.
    workspace[: width + 64] = 0
    return workspace


@njit
def pack_panel(like, matrix, count, width_left, lane, vectors, panel):
    """Pack `count` rows of a matrix, `width_left` of its columns, into a panel of some vectors."""
    b, b_row, b_step = matrix
    size, width = like.itemsize, vectors * lane
    for v in range(0, width, lane):
        left = width_left - v
        if b_step == 1:
            for k in range(count):
                copy_vector(like, b + (k * b_row + v) * size, left, panel + (k * width + v) * size)
        else:  # the rows of bᵀ lie without gaps
            for k in range(0, count, lane):
                transpose_square(
                    like, b + (v * b_step + k) * size, b_step, left, count - k,
                    panel + (k * width + v) * size, width,
                )  # fmt: skip


@njit(signatures_of(MATRIX, ROWS, ROWS, ROWS), cache=True, nogil=True)
def multiply_few(workspace, shape, left, right, start_values, result_rows):
    """`multiply` for few rows of a and a transposed b, as (bᵀ aᵀ)ᵀ: only aᵀ is packed."""
    (m, n, k), (a, a_row, a_step), (b, b_row) = shape, left, right
    (s, s_row), (y, y_row) = start_values, result_rows
    size = workspace.itemsize
    lane, max_width = BYTES // size, panel_width(size)
    zeros = (workspace.ctypes.data + 63) // 64 * 64
    panel, result = zeros + max_width * size, zeros + (PANEL_ROWS + 1) * max_width * size
    vectors = 1 if m <= lane else MAX_FEW_VECTORS
    # A narrower panel may have more rows in the same part of the cache.
    width, step = vectors * lane, PANEL_ROWS * MAX_TILE_VECTORS // vectors
    # Once for k = 0, too: the start values have to be written.
    for first in range(0, max(k, 1), step):
        count = min(step, k - first)
        transposed = (a + first * a_step * size, a_step, a_row)
        pack_panel(workspace, transposed, count, m, lane, vectors, panel)
        begin, begin_row = (y, y_row) if first else (s, s_row)
        # 48 rows are whole tiles of 12, and whole squares of 16 or 8 to be transposed back.
        for j in range(0, n, 4 * HIGH_TILE_ROWS):
            rows_left = min(4 * HIGH_TILE_ROWS, n - j)
            for i in range(0, rows_left, HIGH_TILE_ROWS):
                sizes = (rows_left - i, m, count, 0)
                source = (b + ((j + i) * b_row + first) * size, b_row, 1)
                target = (result + i * width * size, width)
                if vectors == 1:
                    high_tile_1(workspace, sizes, source, (panel, width), (zeros, 0), target)
                else:
                    high_tile_2(workspace, sizes, source, (panel, width), (zeros, 0), target)
            for i in range(0, rows_left, lane):
                for v in range(0, m, lane):
                    start, start_row = zeros, 0
                    if begin:
                        start, start_row = begin + (v * begin_row + j + i) * size, begin_row
                    transpose_square_back(
                        workspace, (result + (i * width + v) * size, width), (rows_left - i, m - v),
                        (start, start_row), (y + (v * y_row + j + i) * size, y_row),
                    )  # fmt: skip


@njit(signatures_of(MATRIX, MATRIX, ROWS, ROWS), cache=True, nogil=True)
def multiply(workspace, shape, left, right, start_values, result_rows):
    """y = s + a b, of matrices of the shapes (m, k) and (k, n).

    Args:
        workspace: made by `workspace_for`.
        left, right: a and b, as MATRIX. One of b's steps is 1.
        start_values, result_rows: s and y, as ROWS. s may be y; the address 0 stands for zeros, and
            with the step 0 it is a bias, the same for each row.
    """
    (m, n, k), (a, a_row, a_step), (b, b_row, b_step) = shape, left, right
    (s, s_row), (y, y_row) = start_values, result_rows
    size = workspace.itemsize
    lane = BYTES // size
    zeros = (workspace.ctypes.data + 63) // 64 * 64
    panel = zeros + panel_width(size) * size
    if b_step != 1 and m <= MAX_FEW_VECTORS * lane:
        multiply_few(workspace, shape, left, (b, b_step), start_values, result_rows)
        return
    # What follows: the rows of the next tile, or in a transposed a the terms to come.
    next_offset = TILE_ROWS * a_row if a_step == 1 else PREFETCH_DISTANCE * a_step
    in_place = b_step == 1 and m * b_row * size < MAX_UNPACKED_BYTES
    for first in range(0, max(k, 1), PANEL_ROWS):
        count = min(PANEL_ROWS, k - first)
        j = 0
        while j < n:
            vectors = min(MAX_TILE_VECTORS, (n - j + lane - 1) // lane)
            # There is no product of three; the fourth vector is packed as zeros.
            vectors = 4 if vectors == 3 else vectors
            width_left = min(n - j, vectors * lane)
            column_start = y + j * size
            columns = (b + (first * b_row + j * b_step) * size, b_row)
            if not in_place or width_left < vectors * lane:
                block = (columns[0], b_row, b_step)
                pack_panel(workspace, block, count, width_left, lane, vectors, panel)
                columns = (panel, vectors * lane)
            # After the first panel, y holds the sums so far.
            begin, begin_row = (column_start, y_row) if first else (s + j * size, s_row)
            if not first and s == 0:
                begin, begin_row = zeros, 0
            i = 0
            while i < m:
                # For up to four rows, two low tiles compute less in vain than one of six rows.
                rows = LOW_TILE_ROWS if vectors == 4 and m - i < TILE_ROWS - 1 else TILE_ROWS
                sizes = (m - i, width_left, count, next_offset)
                source = (a + (i * a_row + first * a_step) * size, a_row, a_step)
                start = (begin + i * begin_row * size, begin_row)
                target = (column_start + i * y_row * size, y_row)
                if rows == LOW_TILE_ROWS:
                    low_tile(workspace, sizes, source, columns, start, target)
                elif vectors == 4:
                    product_4(workspace, sizes, source, columns, start, target)
                elif vectors == 2:
                    product_2(workspace, sizes, source, columns, start, target)
                else:
                    product_1(workspace, sizes, source, columns, start, target)
                i += rows
            j += width_left


@njit([types.void(Address, dtype[::1], SHAPE, MATRIX, MATRIX, ROWS, types.boolean)
       for dtype in FLOAT_TYPES], cache=True, nogil=True)  # fmt: skip
def matmul_into(blas_address, workspace, shape, left, right, result_rows, accumulate):
    """y = a b, or y += a b with `accumulate`: in tiles, or by BLAS where they are not faster.

    Args:
        blas_address: of BLAS's function (see `blas.gemm_address`); the others: see `multiply`.
    """
    (m, n, k), (a, a_row, a_step), (b, b_row, b_step) = shape, left, right
    y, y_row = result_rows
    if TILES_ARE_FASTER:
        multiply(workspace, shape, left, right, (y if accumulate else 0, y_row), result_rows)
    else:
        one = workspace.dtype.type(1)
        # With a single row its stride is meaningless, but BLAS requires it to be large enough.
        lda, ldb = max(a_row, k) if a_step == 1 else max(a_step, m), max(b_row, n)
        if b_step != 1:
            ldb = max(b_step, k)
        gemm(
            blas_address, a_step != 1, b_step != 1, m, n, k, one, a, lda, b, ldb,
            one if accumulate else workspace.dtype.type(0), y, max(y_row, n),
        )  # fmt: skip
