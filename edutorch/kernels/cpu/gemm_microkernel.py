"""Tiles of a product of matrices, summed up in the processor's registers.

A product is limited by what has to be read for it. A tile of `ROWS` rows of y, `FOUR` of the
processor's vectors wide, stays in registers from the first term of its sums to the last. Per term
`FOUR` vectors of b and `ROWS` numbers of a are read for `ROWS` · `FOUR` products of vectors:

    y[i, j] = s[i, j] + Σₖ a[i, k] · b[k, j]

a is read where it lies, also as a transpose. The columns of b that a tile needs are packed first,
`STEP` rows without gaps: a panel that stays in the nearest cache while all rows of a go by. Where
these are few, packing would take as long as the product: then b too is read where it lies, and
x Wᵀ for a few rows of x is computed as (W xᵀ)ᵀ, for which only the small x is packed.

At the edges of a matrix, places outside it are masked: they are not read, nor written. numba has
neither vectors nor masks, so this is written in LLVM's own language (see `implicit_gemm.py`). Matrices
are given by the address of their first number, and steps count numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from .blas import gemm
from .implicit_gemm import BYTES, INDEX, LANE, Writer, inside

__all__ = ["ROWS", "TILED", "combine", "multiply", "panel_width", "room_for"]

ROWS = 6
"""How many rows of a tile are summed up at once."""

LOW = 2
"""So many rows are summed up at once where a matrix ends before a tile does."""

HIGH = 12
"""How many rows a tile of `FEW` vectors has, for which a is not fetched early."""

FEW = 2
"""a bᵀ of no more rows than so many vectors have places is computed as (b aᵀ)ᵀ."""

FOUR = 2 if BYTES == 32 else 4
"""How many vectors wide a tile is, at most: see `gathered.WIDEST`."""

STEP = 128
"""So many rows of b, as wide as a tile, are two thirds of the nearest cache."""

AHEAD = 16
"""So many terms before they are needed, numbers of a transposed a are fetched from memory."""

IN_PLACE = 65_536
"""b is not packed where its first rows, as many as a has, are fewer bytes, gaps between them
included: each row is read again for six of a, and rows that are far apart are slow to find."""

TILED = BYTES == 64
"""Whether tiles are faster than BLAS: with shorter vectors, its own are as close to the limit."""

Address = types.int64


class Placed(Writer):
    """A writer for a function whose first argument says what the numbers are, others where."""

    def place(self, address: Any) -> Any:
        return self.builder.inttoptr(address, self.vector.element.as_pointer())

    def mask(self, count: Any, first: int = 0) -> Any:
        """Return which of a vector's places, counted from `first` on, are below `count`."""
        lane = self.vector.count
        wide = ir.VectorType(INDEX, lane)
        nothing = ir.Constant(wide, ir.Undefined)
        one = self.builder.insert_element(nothing, count, LANE(0))
        counts = self.pick(one, nothing, [0] * lane)
        places = ir.Constant(wide, [first + i for i in range(lane)])
        return self.builder.icmp_signed("<", places, counts)

    def masked(self, name: str, kind: Any, *arguments: Any) -> Any:
        count, number = self.vector.count, "f32" if self.size == 4 else "f64"
        function = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(kind, [argument.type for argument in arguments]),
            f"llvm.masked.{name}.v{count}{number}.p0v{count}{number}",
        )
        return self.builder.call(function, arguments)

    def load_where(self, mask: Any, pointer: Any) -> Any:
        """Read the places of a vector that a mask names, 0 for the others."""
        wide = self.builder.bitcast(pointer, self.vector.as_pointer())
        zero = ir.Constant(self.vector, [0.0] * self.vector.count)
        return self.masked("load", self.vector, wide, LANE(self.size), mask, zero)

    def store_where(self, mask: Any, value: Any, pointer: Any) -> None:
        wide = self.builder.bitcast(pointer, self.vector.as_pointer())
        self.masked("store", ir.VoidType(), value, wide, LANE(self.size), mask)

    def fetch(self, pointer: Any, write: int = 1) -> None:
        """Let the processor fetch a place that will be written."""
        byte, number = ir.IntType(8).as_pointer(), LANE
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0i8")
        where = self.builder.bitcast(pointer, byte)
        self.builder.call(function, [where, number(write), number(3), number(1)])

    def turned(self, x: Any, x_row: Any, high: Any, wide: Any) -> list[Any]:
        """Return the columns of a square as long and wide as a vector, of which a part is read."""
        builder, lane = self.builder, self.vector.count
        none, rows = INDEX(0), []
        for i in range(lane):
            real = builder.icmp_signed("<", INDEX(i), high)
            mask = self.mask(builder.select(real, wide, none))
            step = builder.select(real, self.times(x_row, i), none)
            rows.append(self.load_where(mask, self.ahead(x, step)))
        self.transpose(rows)
        return rows


def write_tile(w: Placed, rows: int, width: int, early: bool) -> Any:
    """Write a tile down: its beginning, the loop over k, and the result."""
    builder, lane = w.builder, w.vector.count
    _, high, wide, count, a, a_row, a_step, next, b, b_row, s, s_row, y, y_row = w.arguments
    a, b, s, y = (w.place(each) for each in (a, b, s, y))
    # Rows below the matrix are computed as its first one again, and not written.
    none = INDEX(0)
    real = [builder.icmp_signed("<", INDEX(t), high) for t in range(rows)]
    steps = [builder.select(each, INDEX(t), none) for t, each in enumerate(real)]
    sums = [[cgutils.alloca_once(builder, w.vector) for _ in range(width)] for _ in range(rows)]
    for held in sums:
        for each in held:
            builder.store(ir.Constant(w.vector, [0.0] * lane), each)
    for step in steps:  # where the result goes is fetched from memory while it is computed
        end = w.ahead(y, builder.mul(y_row, step))
        for v in range(width):
            w.fetch(w.ahead(end, v * lane))
    lines = [w.ahead(a, builder.mul(a_row, t)) for t in steps]
    masks = [w.mask(wide, v * lane) for v in range(width)]
    with cgutils.for_range(builder, count) as loop:
        line = w.ahead(b, builder.mul(loop.index, b_row))
        vectors = [w.load(w.ahead(line, v * lane)) for v in range(width)]
        further = builder.mul(loop.index, a_step)
        for each, held in zip(lines, sums, strict=True):
            place = w.ahead(each, further)
            if early:
                w.fetch(w.ahead(place, next), 0)
            number = w.everywhere(builder.load(place))
            for vector, sum in zip(vectors, held, strict=True):
                term = builder.fmul(number, vector, flags=("contract",))
                builder.store(builder.fadd(builder.load(sum), term, flags=("contract",)), sum)
    for t, step, held in zip(real, steps, sums, strict=True):
        with builder.if_then(t):
            begin, end = (w.ahead(x, builder.mul(row, step)) for x, row in ((s, s_row), (y, y_row)))
            for v, (sum, mask) in enumerate(zip(held, masks, strict=True)):
                start = w.load_where(mask, w.ahead(begin, v * lane))
                value = builder.fadd(start, builder.load(sum))
                w.store_where(mask, value, w.ahead(end, v * lane))
    return w.context.get_dummy_value()


def tile(rows: int, width: int, early: bool = True) -> Callable[..., None]:
    """Make a tile of so many rows, and so many vectors wide.

    Args:
        early: whether a is fetched before it is needed.
    """

    @inside
    def tiled(
        typing, like, high, wide, count, a, a_row, a_step, next, b, b_row, s, s_row, y, y_row
    ):
        """y[i, j] = s[i, j] + Σₖ a[i, k] · b[k, j] for i < high, j < wide, k < count.

        Args:
            like: an array of the matrices' type.
            a_row, a_step: from one i and one k to the next.
            next: how much further the processor reads a, to have it in its cache when it is used.
            b_row: from row to row; the numbers of a row lie side by side.
        """
        return types.void(like, *[Address] * 13), write

    def write(*given: Any) -> Any:
        return write_tile(Placed(*given), rows, width, early)

    return tiled


one_wide, two_wide, four_wide = tile(ROWS, 1), tile(ROWS, 2), tile(ROWS, 4)
low = tile(LOW, 4)
high_one, high_two = tile(HIGH, 1, early=False), tile(HIGH, 2, early=False)


@inside
def move(typing, like, x, count, y):
    """Copy a vector; places from `count` on become 0."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        w = Placed(context, builder, signature, arguments)
        _, x, count, y = arguments
        w.store(w.load_where(w.mask(count), w.place(x)), w.place(y))
        return context.get_dummy_value()

    return types.void(like, *[Address] * 3), write


@inside
def turn(typing, like, x, x_row, high, wide, y, y_row):
    """Transpose a square as long and wide as a vector: y[j, i] = x[i, j] for i < high, j < wide.

    Only `wide` rows of y are written. Their places from `high` on become 0.
    """

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        w = Placed(context, builder, signature, arguments)
        _, x, x_row, high, wide, y, y_row = arguments
        rows = w.turned(w.place(x), x_row, high, wide)
        y = w.place(y)
        for j, row in enumerate(rows):
            with builder.if_then(builder.icmp_signed("<", INDEX(j), wide)):
                w.store(row, w.ahead(y, w.times(y_row, j)))
        return context.get_dummy_value()

    return types.void(like, *[Address] * 6), write


@inside
def turn_back(typing, like, x, x_row, high, wide, s, s_row, y, y_row):
    """y[j, i] = s[j, i] + x[i, j] for i < high, j < wide: `turn` for a result, at its edges too."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        w = Placed(context, builder, signature, arguments)
        _, x, x_row, high, wide, s, s_row, y, y_row = arguments
        rows, mask = w.turned(w.place(x), x_row, high, wide), w.mask(high)
        s, y = w.place(s), w.place(y)
        for j, row in enumerate(rows):
            with builder.if_then(builder.icmp_signed("<", INDEX(j), wide)):
                begin = w.load_where(mask, w.ahead(s, w.times(s_row, j)))
                w.store_where(mask, builder.fadd(begin, row), w.ahead(y, w.times(y_row, j)))
        return context.get_dummy_value()

    return types.void(like, *[Address] * 8), write


# The whole product -------------------------------------------------------------------------------


NUMBERS = types.float32, types.float64


def steps_of(count: int) -> list[Any] | None:
    """Return the signatures of a function of some room and of addresses and steps.

    Without them there would be one for each mixture of whole numbers, and each is compiled. Where
    tiles are of no use, none is.
    """
    return [types.void(number[::1], *[Address] * count) for number in NUMBERS] if TILED else None


@njit
def panel_width(size):
    """Return how many columns a panel has, for numbers of so many bytes."""
    return FOUR * BYTES // size


@njit
def room_for(like):
    """Return what `multiply` needs: zeros to begin with, and room for a panel and a result."""
    width = panel_width(like.itemsize)
    result = 4 * HIGH * FEW * BYTES // like.itemsize
    room = np.empty((STEP + 1) * width + result + 64, like.dtype)
    room[: width + 64] = 0
    return room


@njit
def pack(like, b, b_row, b_step, count, wide, lane, vectors, panel):
    """Lay `count` rows of b, `wide` of its columns, out in a panel of so many vectors."""
    size, width = like.itemsize, vectors * lane
    for v in range(0, width, lane):
        left = wide - v
        if b_step == 1:
            for k in range(count):
                move(like, b + (k * b_row + v) * size, left, panel + (k * width + v) * size)
        else:  # the rows of bᵀ lie without gaps
            for k in range(0, count, lane):
                turn(like, b + (v * b_step + k) * size, b_step, left, count - k,
                     panel + (k * width + v) * size, width)  # fmt: skip


@njit(steps_of(12), cache=True, nogil=True)
def multiply_few(room, m, n, k, a, a_row, a_step, b, b_row, s, s_row, y, y_row):
    """The same for few rows of a and a transposed b, as (bᵀ aᵀ)ᵀ: only aᵀ is packed."""
    size = room.itemsize
    lane, most = BYTES // size, panel_width(size)
    zeros = (room.ctypes.data + 63) // 64 * 64
    panel, result = zeros + most * size, zeros + (STEP + 1) * most * size
    vectors = 1 if m <= lane else FEW
    width, step = vectors * lane, STEP * FOUR // vectors
    for first in range(0, max(k, 1), step):
        count = min(step, k - first)
        pack(room, a + first * a_step * size, a_step, a_row, count, m, lane, vectors, panel)
        begin, begin_row = (y, y_row) if first else (s, s_row)
        for j in range(0, n, 4 * HIGH):
            high = min(4 * HIGH, n - j)
            for i in range(0, high, HIGH):
                source, target = b + ((j + i) * b_row + first) * size, result + i * width * size
                if vectors == 1:
                    high_one(room, high - i, m, count, source, b_row, 1, 0, panel, width, zeros, 0,
                             target, width)  # fmt: skip
                else:
                    high_two(room, high - i, m, count, source, b_row, 1, 0, panel, width, zeros, 0,
                             target, width)  # fmt: skip
            for i in range(0, high, lane):
                for v in range(0, m, lane):
                    start, start_row = zeros, 0
                    if begin:
                        start, start_row = begin + (v * begin_row + j + i) * size, begin_row
                    turn_back(room, result + (i * width + v) * size, width, high - i, m - v, start,
                              start_row, y + (v * y_row + j + i) * size, y_row)  # fmt: skip


@njit(steps_of(13), cache=True, nogil=True)
def multiply(room, m, n, k, a, a_row, a_step, b, b_row, b_step, s, s_row, y, y_row):
    """y = s + a b, of matrices of the shapes (m, k) and (k, n).

    Args:
        room: made by `room_for`.
        a, b, s, y: addresses; s may be that of y, and 0 stands for zeros.
        a_row, a_step: from row to row, and from column to column. One of b_row, b_step is 1.
        s_row: 0 for a bias, the same for each row.
    """
    size = room.itemsize
    lane = BYTES // size
    zeros = (room.ctypes.data + 63) // 64 * 64
    panel = zeros + panel_width(size) * size
    if b_step != 1 and m <= FEW * lane:
        multiply_few(room, m, n, k, a, a_row, a_step, b, b_step, s, s_row, y, y_row)
        return
    next = ROWS * a_row if a_step == 1 else AHEAD * a_step
    in_place = b_step == 1 and m * b_row * size < IN_PLACE
    for first in range(0, max(k, 1), STEP):
        count = min(STEP, k - first)
        j = 0
        while j < n:
            vectors = min(FOUR, (n - j + lane - 1) // lane)
            vectors = 4 if vectors == 3 else vectors
            wide = min(n - j, vectors * lane)
            place = y + j * size
            part, part_row = b + (first * b_row + j * b_step) * size, b_row
            if not in_place or wide < vectors * lane:
                pack(room, part, b_row, b_step, count, wide, lane, vectors, panel)
                part, part_row = panel, vectors * lane
            begin, begin_row = (place, y_row) if first else (s + j * size, s_row)
            if not first and s == 0:
                begin, begin_row = zeros, 0
            i = 0
            while i < m:
                rows = LOW if vectors == 4 and m - i < ROWS - 1 else ROWS
                high, source = m - i, a + (i * a_row + first * a_step) * size
                start, target = begin + i * begin_row * size, place + i * y_row * size
                if rows == LOW:
                    low(room, high, wide, count, source, a_row, a_step, next, part, part_row, start,
                        begin_row, target, y_row)  # fmt: skip
                elif vectors == 4:
                    four_wide(room, high, wide, count, source, a_row, a_step, next, part, part_row,
                              start, begin_row, target, y_row)  # fmt: skip
                elif vectors == 2:
                    two_wide(room, high, wide, count, source, a_row, a_step, next, part, part_row,
                             start, begin_row, target, y_row)  # fmt: skip
                else:
                    one_wide(room, high, wide, count, source, a_row, a_step, next, part, part_row,
                             start, begin_row, target, y_row)  # fmt: skip
                i += rows
            j += wide


@njit([types.void(Address, number[::1], *[Address] * 11, types.boolean) for number in NUMBERS],
      cache=True, nogil=True)  # fmt: skip
def combine(at, room, m, n, k, a, a_row, a_step, b, b_row, b_step, y, y_row, more):
    """y = a b, or y += a b with `more`: in tiles, or by BLAS where they are not faster.

    Args:
        at: where BLAS is in memory (see `blas.address`); the others are those of `multiply`.
    """
    if TILED:
        multiply(room, m, n, k, a, a_row, a_step, b, b_row, b_step, y if more else 0, y_row, y,
                 y_row)  # fmt: skip
    else:
        one = room.dtype.type(1)
        # The step to the next row means nothing where there is one row, but BLAS wants it wide.
        lda, ldb = max(a_row, k) if a_step == 1 else max(a_step, m), max(b_row, n)
        if b_step != 1:
            ldb = max(b_step, k)
        gemm(
            at, a_step != 1, b_step != 1, m, n, k, one, a, lda, b, ldb,
            one if more else room.dtype.type(0), y, max(y_row, n),
        )  # fmt: skip
