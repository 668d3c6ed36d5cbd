"""Implicit GEMM, the matrix product that convolution is made of, and vector moves to go with it.

The rows of the left factor need not lie in memory as a matrix. Row t begins anywhere, at
`first[t]`, and its elements have the offsets `second[m]` from there:

    y[t, :] = s[t, :] + Σₘ x[first[t] + second[m]] · b[m, :]

For a convolution x is the image, `first` the starts of the windows and `second` their taps, and b
holds the filters. For the gradient of the filters the two lists change roles, and b is the
gradient of the output. So the windows are never copied out into columns (im2col).

`TILE_ROWS` rows are accumulated at once, each 1, 2 or 4 SIMD vectors wide, or a single one that is
twice as wide. The accumulators stay in registers until the end; per step a vector of b is read
once for six products. That is what makes a matrix product fast. numba has no vector types, so this
is written as LLVM IR, in which `builder` appends one instruction after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic, register_jitable
from numba.np import arrayobj

__all__ = [
    "TILE_ROWS", "MAX_TILE_VECTORS", "single_row_product", "copy", "product_4", "define_intrinsic",
    "vector_lanes", "indexed_product", "copy_vector", "product_1", "transpose_square", "product_2",
]  # fmt: skip

# Known when this module is imported: kernels are compiled on the machine that runs them.
FEATURES = binding.get_host_cpu_features()
BYTES = 64 if FEATURES.get("avx512f") else 32 if FEATURES.get("avx") else 16
"""The size of a SIMD vector in bytes: 16 elements of float32, or 8, or 4."""

TILE_ROWS = 6
"""How many rows are accumulated at once."""

MAX_TILE_VECTORS = 2 if BYTES == 32 else 4
"""The largest width in vectors: six times as many accumulators have to fit into the registers.
There are 32 of them, and 16 in CPUs whose vectors have 32 bytes."""

INDEX, LANE = ir.IntType(64), ir.IntType(32)


def define_intrinsic(type_and_write: Callable[..., Any]) -> Callable[..., Any]:
    """Make an intrinsic for kernels from a function that returns its signature and writer."""
    return intrinsic(type_and_write)


@register_jitable
def vector_lanes(itemsize: int) -> int:
    """Return the number of elements of `itemsize` bytes in a vector."""
    return BYTES // itemsize


def vector_of(array: types.Array) -> tuple[ir.VectorType, int]:
    """Return the vector type of an array's elements, and the size of one element in bytes."""
    size = 4 if array.dtype == types.float32 else 8
    float_type = ir.FloatType() if size == 4 else ir.DoubleType()
    return ir.VectorType(float_type, vector_lanes(size)), size


class Writer:
    """Writes the instructions of one function.

    Attributes:
        vector: the type of a vector.
    """

    def __init__(
        self,
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        arguments: Sequence[ir.Value],
    ) -> None:
        self.context, self.builder, self.arguments = context, builder, arguments
        self.types = signature.args
        self.vector, self.size = vector_of(self.types[0])

    def pointer(self, array: int, *steps: ir.Value | int) -> Any:
        """Return the address of an array argument's data, advanced by some steps."""
        make_array = arrayobj.make_array(self.types[array])
        return self.advance(
            make_array(self.context, self.builder, self.arguments[array]).data, *steps
        )

    def advance(self, pointer: ir.Value, *steps: ir.Value | int) -> Any:
        for step_ in steps:
            # LLVM counts the steps in elements, and takes values of its own only.
            step = INDEX(step_) if isinstance(step_, int) else step_
            pointer = self.builder.gep(pointer, [step])
        return pointer

    def times(self, value: ir.Value, factor: int) -> Any:
        return self.builder.mul(value, INDEX(factor))

    def load(self, pointer: ir.Value) -> Any:
        """Read a vector from an unaligned address."""
        vector_pointer = self.builder.bitcast(pointer, self.vector.as_pointer())
        # Without `align`, LLVM assumes a multiple of the vector's size: other rows would crash.
        return self.builder.load(vector_pointer, align=self.size)

    def store(self, value: ir.Value, pointer: ir.Value) -> None:
        vector_pointer = self.builder.bitcast(pointer, self.vector.as_pointer())
        self.builder.store(value, vector_pointer, align=self.size)

    def broadcast(self, element: ir.Value) -> Any:
        """Return a vector with one element in all lanes."""
        # LLVM has no broadcast, but makes one instruction of this pair.
        undefined = ir.Constant(self.vector, ir.Undefined)
        first_lane = self.builder.insert_element(undefined, element, LANE(0))
        return self.shuffle(first_lane, undefined, [0] * self.vector.count)

    def shuffle(self, a: ir.Value, b: ir.Value, indices: list[int]) -> Any:
        """Return a vector of elements of two others, indexed through both."""
        mask = ir.Constant(ir.VectorType(LANE, len(indices)), indices)
        return self.builder.shuffle_vector(a, b, mask)

    def transpose(self, rows: list[Any]) -> None:
        """Transpose a square of as many rows as a vector has lanes, in place.

        Recursively: the off-diagonal quarters are exchanged, then each quarter is transposed.
        """
        lane = self.vector.count
        # log₂(lane) rounds of shuffles: no element is moved on its own.
        half = lane // 2
        while half:
            for i in (i for i in range(lane) if not i & half):
                a, b = rows[i], rows[i + half]
                upper = [j + lane - half if j & half else j for j in range(lane)]
                lower = [j + lane if j & half else j + half for j in range(lane)]
                rows[i], rows[i + half] = self.shuffle(a, b, upper), self.shuffle(a, b, lower)
            half //= 2


X, FIRST, SECOND, B, S, Y, AT, THIRD = range(8)
"""The indices of a product's arguments."""


def write_product(w: Writer, height: int, width: int, is_indexed: bool) -> Any:
    """Write the product: accumulators in registers, the loop over m, and the stores."""
    builder, lane = w.builder, w.vector.count
    x_at, first_at, second_at, count, b_at, s_at, s_step, y_at, y_step = cgutils.unpack_tuple(
        builder, w.arguments[AT]
    )
    # In the entry block, which is where LLVM looks for variables to keep in registers.
    sums = [[cgutils.alloca_once(builder, w.vector) for _ in range(width)] for _ in range(height)]
    for row in sums:
        for accumulator in row:
            builder.store(ir.Constant(w.vector, [0.0] * lane), accumulator)
    starts = [builder.load(w.pointer(FIRST, first_at, t)) for t in range(height)]
    # The starts of the rows do not change with m: their addresses are computed once.
    rows = [w.pointer(X, x_at, start) for start in starts]
    with cgutils.for_range(builder, count) as loop:
        offset = builder.load(w.pointer(SECOND, second_at, loop.index))
        if is_indexed:
            row = builder.load(w.pointer(THIRD, second_at, loop.index))
        else:
            # b has been packed: its rows are exactly as wide as the tile.
            row = w.times(loop.index, width * lane)
        b = w.pointer(B, b_at, row)
        # Read once for all rows of the tile, whose elements below are read for all its vectors.
        vectors = [w.load(w.advance(b, v * lane)) for v in range(width)]
        for row, accumulators in zip(rows, sums, strict=True):
            element = w.broadcast(builder.load(w.advance(row, offset)))
            for vector, accumulator in zip(vectors, accumulators, strict=True):
                # `contract` makes both one FMA instruction; it does not permit to reorder the sum.
                term = builder.fmul(element, vector, flags=("contract",))
                builder.store(
                    builder.fadd(builder.load(accumulator), term, flags=("contract",)), accumulator
                )
    for t, accumulators in enumerate(sums):
        for v, accumulator in enumerate(accumulators):
            # s may be y itself, a sum that goes on: a vector is read right before it is written.
            initial = w.load(w.pointer(S, s_at, w.times(s_step, t), v * lane))
            target = w.pointer(Y, y_at, w.times(y_step, t), v * lane)
            w.store(builder.fadd(initial, builder.load(accumulator)), target)
    return w.context.get_dummy_value()


def product(width: int, is_indexed: bool = False, height: int = TILE_ROWS) -> Callable[..., None]:
    """Make the product above for `height` rows, `width` vectors wide.

    Args:
        is_indexed: the rows of b are given by a third list: row m begins at `third[second_at + m]`,
            and b may be an image, x the filters.
    """

    @define_intrinsic
    def implicit_product(typing, x, first, second, b, s, y, at, third=None):
        """y[t, v] = s[t, v] + Σₘ x[first[t] + second[m]] · b[m, v].

        Args:
            x, b, s, y: arrays of one dtype. b is row-major.
            at: where each argument is read or written from, with the number of terms m, and the
                distances of rows: x, first, second, count, b, s, s_step, y, y_step.
        """
        arrays = (x, b, s, y)
        # None tells numba that the types do not fit: it raises, and no memory is misread.
        if any(not isinstance(array, types.Array) or array.dtype != x.dtype for array in arrays):
            return None
        rows_of_b = third if is_indexed else types.none
        positions = types.UniTuple(types.int64, 9)
        return types.void(x, first, second, b, s, y, positions, rows_of_b), write

    def write(*lowering: Any) -> Any:
        return write_product(Writer(*lowering), height, width, is_indexed)

    return implicit_product


# The number of accumulators is fixed in the IR: so every width has its own function.
product_1, product_2, product_4 = product(1), product(2), product(4)
indexed_product = product(MAX_TILE_VECTORS, is_indexed=True)
# A single row has few sums; with twice the width, more FMAs run side by side.
single_row_product = product(2 * MAX_TILE_VECTORS, is_indexed=True, height=1)


@define_intrinsic
def transpose_square(typing, x, x_at, x_step, y, y_at, y_step):
    """Transpose a square with a vector's length as its side: y[j, i] = x[i, j].

    Args:
        x_step, y_step: the distance from one row to the next.
    """
    size = types.int64

    def write(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        arguments: Sequence[ir.Value],
    ) -> Any:
        w = Writer(context, builder, signature, arguments)
        _, x_at, x_step, _, y_at, y_step = arguments
        lane = w.vector.count
        rows = [w.load(w.pointer(0, x_at, w.times(x_step, i))) for i in range(lane)]
        w.transpose(rows)
        for j, row in enumerate(rows):
            w.store(row, w.pointer(3, y_at, w.times(y_step, j)))
        return context.get_dummy_value()

    return types.void(x, size, size, y, size, size), write


@define_intrinsic
def copy_vector(typing, x, x_at, y, y_at):
    """y[i] = x[i] for one vector."""
    size = types.int64

    def write(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        arguments: Sequence[ir.Value],
    ) -> Any:
        w = Writer(context, builder, signature, arguments)
        w.store(w.load(w.pointer(0, arguments[1])), w.pointer(2, arguments[3]))
        return context.get_dummy_value()

    return types.void(x, size, y, size), write


@define_intrinsic
def copy(typing, x, x_at, y, y_at, count):
    """y[i] = x[i] for `count` elements, by the C library's memcpy."""
    size = types.int64

    def write(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        arguments: Sequence[ir.Value],
    ) -> Any:
        w = Writer(context, builder, signature, arguments)
        _, x_at, _, y_at, count = arguments
        cgutils.raw_memcpy(builder, w.pointer(2, y_at), w.pointer(0, x_at), count, w.size)
        return context.get_dummy_value()

    return types.void(x, size, y, size, size), write
