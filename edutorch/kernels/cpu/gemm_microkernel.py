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

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from .blas import gemm
from .implicit_gemm import BYTES, INDEX, LANE, Writer, define_intrinsic

__all__ = [
    "TILE_ROWS", "TILES_ARE_FASTER", "matmul_into", "multiply", "panel_width", "workspace_for",
]  # fmt: skip

TILE_ROWS = 6
"""How many rows of a tile are accumulated at once."""

LOW_TILE_ROWS = 2
"""So many rows are accumulated at once where a matrix ends before a tile does."""

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


class MaskedWriter(Writer):
    """A writer for an intrinsic whose first argument gives the dtype, and the others addresses."""

    def pointer_at(self, address: Any) -> Any:
        return self.builder.inttoptr(address, self.vector.element.as_pointer())

    def mask(self, count: Any, first: int = 0) -> Any:
        """Return a mask of the lanes whose index, counted from `first` on, is below `count`."""
        lane = self.vector.count
        index_vector = ir.VectorType(INDEX, lane)
        undefined = ir.Constant(index_vector, ir.Undefined)
        first_lane = self.builder.insert_element(undefined, count, LANE(0))
        counts = self.shuffle(first_lane, undefined, [0] * lane)
        positions = ir.Constant(index_vector, [first + i for i in range(lane)])
        return self.builder.icmp_signed("<", positions, counts)

    def call_masked(self, name: str, return_type: Any, *arguments: Any) -> Any:
        count, suffix = self.vector.count, "f32" if self.size == 4 else "f64"
        function = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(return_type, [argument.type for argument in arguments]),
            f"llvm.masked.{name}.v{count}{suffix}.p0v{count}{suffix}",
        )
        return self.builder.call(function, arguments)

    def load_masked(self, mask: Any, pointer: Any) -> Any:
        """Read the lanes of a vector that are in the mask; the others are 0."""
        vector_pointer = self.builder.bitcast(pointer, self.vector.as_pointer())
        zero = ir.Constant(self.vector, [0.0] * self.vector.count)
        return self.call_masked("load", self.vector, vector_pointer, LANE(self.size), mask, zero)

    def store_masked(self, mask: Any, value: Any, pointer: Any) -> None:
        vector_pointer = self.builder.bitcast(pointer, self.vector.as_pointer())
        self.call_masked("store", ir.VoidType(), value, vector_pointer, LANE(self.size), mask)

    def prefetch(self, pointer: Any, write: int = 1) -> None:
        """Write a prefetch of an address, which will be written by default."""
        byte, int_type = ir.IntType(8).as_pointer(), LANE
        function_type = ir.FunctionType(ir.VoidType(), [byte, int_type, int_type, int_type])
        function = cgutils.get_or_insert_function(
            self.builder.module, function_type, "llvm.prefetch.p0i8"
        )
        byte_pointer = self.builder.bitcast(pointer, byte)
        self.builder.call(function, [byte_pointer, int_type(write), int_type(3), int_type(1)])

    def load_transposed(self, x: Any, x_row: Any, rows_left: Any, width_left: Any) -> list[Any]:
        """Return the columns of a square with a vector's length as its side, read with masks."""
        builder, lane = self.builder, self.vector.count
        zero, rows = INDEX(0), []
        for i in range(lane):
            is_row = builder.icmp_signed("<", INDEX(i), rows_left)
            mask = self.mask(builder.select(is_row, width_left, zero))
            step = builder.select(is_row, self.times(x_row, i), zero)
            rows.append(self.load_masked(mask, self.advance(x, step)))
        self.transpose(rows)
        return rows


def write_tile(w: MaskedWriter, rows: int, width: int, prefetch: bool) -> Any:
    """Write a tile: the accumulators, the loop over k, and the masked stores."""
    builder, lane = w.builder, w.vector.count
    _, rows_left, width_left, count, a, a_row, a_step, next_offset, b, b_row, s, s_row, y, y_row = (
        w.arguments
    )
    a, b, s, y = (w.pointer_at(accumulator) for accumulator in (a, b, s, y))
    # Rows below the matrix compute its first row again, and are not written.
    none = INDEX(0)
    is_row = [builder.icmp_signed("<", INDEX(t), rows_left) for t in range(rows)]
    steps = [builder.select(accumulator, INDEX(t), none) for t, accumulator in enumerate(is_row)]
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
        vectors = [w.load(w.advance(line, v * lane)) for v in range(width)]
        offset = builder.mul(loop.index, a_step)
        for accumulator, accumulators in zip(row_pointers, sums, strict=True):
            position = w.advance(accumulator, offset)
            if prefetch:
                w.prefetch(w.advance(position, next_offset), 0)
            element = w.broadcast(builder.load(position))
            for vector, sum in zip(vectors, accumulators, strict=True):
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
    def gemm_tile(
        typing, like, rows_left, width_left, count, a, a_row, a_step, next_offset, b, b_row, s,
        s_row, y, y_row,
    ):  # fmt: skip
        """y[i, j] = s[i, j] + Σₖ a[i, k] · b[k, j] for i < rows_left, j < width_left, k < count.

        Args:
            like: an array of the matrices' dtype.
            a_row, a_step: the distance from one i, and from one k, to the next.
            next: the prefetch distance in a.
            b_row: the distance of b's rows, which are contiguous.
        """
        return types.void(like, *[Address] * 13), write

    def write(*lowering: Any) -> Any:
        return write_tile(MaskedWriter(*lowering), rows, width, prefetch)

    return gemm_tile


product_1, product_2, product_4 = tile(TILE_ROWS, 1), tile(TILE_ROWS, 2), tile(TILE_ROWS, 4)
low_tile = tile(LOW_TILE_ROWS, 4)
high_tile_1, high_tile_2 = (
    tile(HIGH_TILE_ROWS, 1, prefetch=False),
    tile(HIGH_TILE_ROWS, 2, prefetch=False),
)


@define_intrinsic
def copy_vector(typing, like, x, count, y):
    """Copy a vector; lanes from `count` on become 0."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
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

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
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
def transpose_square_back(typing, like, x, x_row, rows_left, width_left, s, s_row, y, y_row):
    """Transpose a square and add it, masked in both directions: y[j, i] = s[j, i] + x[i, j]."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        w = MaskedWriter(context, builder, signature, arguments)
        _, x, x_row, rows_left, width_left, s, s_row, y, y_row = arguments
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

    return types.void(like, *[Address] * 8), write


# The whole product -------------------------------------------------------------------------------


FLOAT_TYPES = types.float32, types.float64


def signatures_of(count: int) -> list[Any] | None:
    """Return the signatures of a function of a workspace and of `count` addresses and steps.

    Without signatures numba would compile one for each mixture of integer types. Where tiles are
    not used, None avoids compiling any.
    """
    return (
        [types.void(dtype[::1], *[Address] * count) for dtype in FLOAT_TYPES]
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
    workspace = np.empty((PANEL_ROWS + 1) * width + result + 64, like.dtype)
    workspace[: width + 64] = 0
    return workspace


@njit
def pack_panel(like, b, b_row, b_step, count, width_left, lane, vectors, panel):
    """Pack `count` rows of b, `width_left` of its columns, into a panel of some vectors' width."""
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


@njit(signatures_of(12), cache=True, nogil=True)
def multiply_few(workspace, m, n, k, a, a_row, a_step, b, b_row, s, s_row, y, y_row):
    """`multiply` for few rows of a and a transposed b, as (bᵀ aᵀ)ᵀ: only aᵀ is packed."""
    size = workspace.itemsize
    lane, max_width = BYTES // size, panel_width(size)
    zeros = (workspace.ctypes.data + 63) // 64 * 64
    panel, result = zeros + max_width * size, zeros + (PANEL_ROWS + 1) * max_width * size
    vectors = 1 if m <= lane else MAX_FEW_VECTORS
    width, step = vectors * lane, PANEL_ROWS * MAX_TILE_VECTORS // vectors
    for first in range(0, max(k, 1), step):
        count = min(step, k - first)
        pack_panel(
            workspace, a + first * a_step * size, a_step, a_row, count, m, lane, vectors, panel
        )
        begin, begin_row = (y, y_row) if first else (s, s_row)
        for j in range(0, n, 4 * HIGH_TILE_ROWS):
            rows_left = min(4 * HIGH_TILE_ROWS, n - j)
            for i in range(0, rows_left, HIGH_TILE_ROWS):
                source, target = b + ((j + i) * b_row + first) * size, result + i * width * size
                if vectors == 1:
                    high_tile_1(
                        workspace, rows_left - i, m, count, source, b_row, 1, 0, panel, width,
                        zeros, 0, target, width,
                    )  # fmt: skip
                else:
                    high_tile_2(
                        workspace, rows_left - i, m, count, source, b_row, 1, 0, panel, width,
                        zeros, 0, target, width,
                    )  # fmt: skip
            for i in range(0, rows_left, lane):
                for v in range(0, m, lane):
                    start, start_row = zeros, 0
                    if begin:
                        start, start_row = begin + (v * begin_row + j + i) * size, begin_row
                    transpose_square_back(
                        workspace, result + (i * width + v) * size, width, rows_left - i, m - v,
                        start, start_row, y + (v * y_row + j + i) * size, y_row,
                    )  # fmt: skip


@njit(signatures_of(13), cache=True, nogil=True)
def multiply(workspace, m, n, k, a, a_row, a_step, b, b_row, b_step, s, s_row, y, y_row):
    """y = s + a b, of matrices of the shapes (m, k) and (k, n).

    Args:
        room: made by `room_for`.
        a, b, s, y: addresses; s may be that of y, and 0 stands for zeros.
        a_row, a_step: from row to row, and from column to column. One of b_row, b_step is 1.
        s_row: 0 for a bias, the same for each row.
    """
    size = workspace.itemsize
    lane = BYTES // size
    zeros = (workspace.ctypes.data + 63) // 64 * 64
    panel = zeros + panel_width(size) * size
    if b_step != 1 and m <= MAX_FEW_VECTORS * lane:
        multiply_few(workspace, m, n, k, a, a_row, a_step, b, b_step, s, s_row, y, y_row)
        return
    next_offset = TILE_ROWS * a_row if a_step == 1 else PREFETCH_DISTANCE * a_step
    in_place = b_step == 1 and m * b_row * size < MAX_UNPACKED_BYTES
    for first in range(0, max(k, 1), PANEL_ROWS):
        count = min(PANEL_ROWS, k - first)
        j = 0
        while j < n:
            vectors = min(MAX_TILE_VECTORS, (n - j + lane - 1) // lane)
            vectors = 4 if vectors == 3 else vectors
            width_left = min(n - j, vectors * lane)
            column_start = y + j * size
            panel_rows, panel_row = b + (first * b_row + j * b_step) * size, b_row
            if not in_place or width_left < vectors * lane:
                pack_panel(
                    workspace, panel_rows, b_row, b_step, count, width_left, lane, vectors, panel
                )
                panel_rows, panel_row = panel, vectors * lane
            begin, begin_row = (column_start, y_row) if first else (s + j * size, s_row)
            if not first and s == 0:
                begin, begin_row = zeros, 0
            i = 0
            while i < m:
                rows = LOW_TILE_ROWS if vectors == 4 and m - i < TILE_ROWS - 1 else TILE_ROWS
                rows_left, source = m - i, a + (i * a_row + first * a_step) * size
                start, target = begin + i * begin_row * size, column_start + i * y_row * size
                if rows == LOW_TILE_ROWS:
                    low_tile(
                        workspace, rows_left, width_left, count, source, a_row, a_step, next_offset,
                        panel_rows, panel_row, start, begin_row, target, y_row,
                    )  # fmt: skip
                elif vectors == 4:
                    product_4(
                        workspace, rows_left, width_left, count, source, a_row, a_step, next_offset,
                        panel_rows, panel_row, start, begin_row, target, y_row,
                    )  # fmt: skip
                elif vectors == 2:
                    product_2(
                        workspace, rows_left, width_left, count, source, a_row, a_step, next_offset,
                        panel_rows, panel_row, start, begin_row, target, y_row,
                    )  # fmt: skip
                else:
                    product_1(
                        workspace, rows_left, width_left, count, source, a_row, a_step, next_offset,
                        panel_rows, panel_row, start, begin_row, target, y_row,
                    )  # fmt: skip
                i += rows
            j += width_left


@njit([types.void(Address, dtype[::1], *[Address] * 11, types.boolean) for dtype in FLOAT_TYPES],
      cache=True, nogil=True)  # fmt: skip
def matmul_into(at, workspace, m, n, k, a, a_row, a_step, b, b_row, b_step, y, y_row, accumulate):
    """y = a b, or y += a b with `more`: in tiles, or by BLAS where they are not faster.

    Args:
        at: where BLAS is in memory (see `blas.gemm_address`); the others are those of `multiply`.
    """
    if TILES_ARE_FASTER:
        multiply(
            workspace, m, n, k, a, a_row, a_step, b, b_row, b_step, y if accumulate else 0, y_row,
            y, y_row,
        )  # fmt: skip
    else:
        one = workspace.dtype.type(1)
        # With a single row its stride is meaningless, but BLAS requires it to be large enough.
        lda, ldb = max(a_row, k) if a_step == 1 else max(a_step, m), max(b_row, n)
        if b_step != 1:
            ldb = max(b_step, k)
        gemm(
            at, a_step != 1, b_step != 1, m, n, k, one, a, lda, b, ldb,
            one if accumulate else workspace.dtype.type(0), y, max(y_row, n),
        )  # fmt: skip
