"""Matrix products inside kernels: the GEMM of NumPy's own BLAS, called by its address.

A kernel that multiplies in a loop would return to Python for each product. Here it calls the C
function itself. The address is an argument of the kernel: it differs from process to process, and
a kernel with a constant address could not be cached on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...backends.blas import blas

__all__ = ["GemmAddresses", "gemm_address", "gemm_addresses", "dgemm", "gemm", "sgemm"]

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


def gemm_address(dtype: Any) -> int | None:
    """Return the address for `gemm` on arrays of a dtype; None if there is none."""
    address_pair = gemm_addresses()
    if address_pair is None or dtype not in (np.float32, np.float64):
        return None
    return address_pair.sgemm if dtype == np.float32 else address_pair.dgemm


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


def matrix_type(matrix: Any) -> tuple[Any]:
    """Return the type by which a matrix is passed: its array type, or an integer address."""
    return (matrix if isinstance(matrix, types.Array) else types.int64,)


def write_call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Write the call of the C function.

    Some libraries use 32-bit integers. They get 64 bits all the same: in a register, as in an
    eight-byte stack slot, a little-endian machine has the lower half where the callee reads it.
    """
    at, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = arguments
    float_type = alpha.type
    int32 = ir.IntType(32)

    def transpose_flag(flag: Any) -> Any:
        is_transposed = cgutils.is_true(builder, flag)
        return builder.select(is_transposed, int32(TRANSPOSED), int32(AS_IT_IS))

    def first_element(index: int, value: Any) -> Any:
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
