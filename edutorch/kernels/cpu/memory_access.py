"""Memory by its address, in kernels: words, numbers, and functions that are called by address.

A kernel that takes arrays of any dtype and number of axes cannot name their types: it reads their
fields as words, and casts the addresses that it finds there. As in `work_queue.py`, numba cannot
express this, so it is written as LLVM IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from .work_queue import INT64, INT64_POINTER

__all__ = [
    "call_loop", "call_ufunc", "load", "load_scalar", "pointer", "stack", "store", "store_scalar",
]  # fmt: skip

DOUBLE_POINTER = ir.DoubleType().as_pointer()


def type_load(typing: Any, address: types.Type) -> Any:
    """Type `load(address)`: the integer of 64 bits there."""

    def lower(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Sequence[Any]
    ) -> Any:
        return builder.load(builder.inttoptr(values[0], INT64_POINTER))

    return types.int64(types.int64), lower


def type_store(typing: Any, address: types.Type, value: types.Type) -> Any:
    """Type `store(address, value)`: set the integer of 64 bits there."""

    def lower(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Sequence[Any]
    ) -> Any:
        builder.store(values[1], builder.inttoptr(values[0], INT64_POINTER))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), lower


def type_load_scalar(typing: Any, address: types.Type) -> Any:
    """Type `load_scalar(address)`: the float64 there."""

    def lower(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Sequence[Any]
    ) -> Any:
        return builder.load(builder.inttoptr(values[0], DOUBLE_POINTER))

    return types.float64(types.int64), lower


def type_store_scalar(typing: Any, address: types.Type, value: types.Type) -> Any:
    """Type `store_scalar(address, value)`: set the float64 there."""

    def lower(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Sequence[Any]
    ) -> Any:
        builder.store(values[1], builder.inttoptr(values[0], DOUBLE_POINTER))
        return context.get_dummy_value()

    return types.void(types.int64, types.float64), lower


def type_pointer(typing: Any, address: types.Type, dtype: types.Type) -> Any:
    """Type `pointer(address, dtype)`: the address as that of elements of a dtype."""
    element = dtype.dtype

    def lower(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Sequence[Any]
    ) -> Any:
        return builder.inttoptr(values[0], context.get_data_type(element).as_pointer())

    return types.CPointer(element)(types.int64, dtype), lower


def type_stack(typing: Any, count: types.Type) -> Any:
    """Type `stack(count)`: the address of so many words on the stack; `count` is a literal."""
    if not isinstance(count, types.IntegerLiteral):
        return None
    size = count.literal_value

    def lower(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Sequence[Any]
    ) -> Any:
        return builder.ptrtoint(cgutils.alloca_once(builder, INT64, size), INT64)

    return types.int64(count), lower


def type_call_loop(typing: Any, loop: types.Type, count: types.Type, operands: types.Type) -> Any:
    """Type `call_loop(loop, count, operands)`: call a compiled loop by its address."""

    def lower(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Sequence[Any]
    ) -> Any:
        loop_, count_, operands_ = values
        c_type = ir.FunctionType(ir.VoidType(), [INT64, INT64])
        builder.call(builder.inttoptr(loop_, c_type.as_pointer()), [count_, operands_])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), lower


def type_call_ufunc(
    typing: Any, loop: types.Type, operands: types.Type, count: types.Type, steps: types.Type,
    data: types.Type,
) -> Any:  # fmt: skip
    """Type `call_ufunc(loop, operands, count, steps, data)`: call an inner loop of NumPy's.

    `operands`, `count` and `steps` are addresses of words.
    """

    def lower(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Sequence[Any]
    ) -> Any:
        c_type = ir.FunctionType(ir.VoidType(), [INT64] * 4)
        builder.call(builder.inttoptr(values[0], c_type.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), lower


load: Any = intrinsic(type_load)
store: Any = intrinsic(type_store)
load_scalar: Any = intrinsic(type_load_scalar)
store_scalar: Any = intrinsic(type_store_scalar)
pointer: Any = intrinsic(type_pointer)
stack: Any = intrinsic(prefer_literal=True)(type_stack)
call_loop: Any = intrinsic(type_call_loop)
call_ufunc: Any = intrinsic(type_call_ufunc)
