"""A work queue in compiled code: a kernel hands parts of its range to threads without the GIL.

Waking a sleeping thread takes 50 to 250 µs: longer than most kernels run. So worker threads keep
spinning for a moment after each part and poll their task slot, a block of memory of their own.
They do so in compiled code, which does not hold the GIL.

A kernel fills the task slots itself, in its first line:

    def kernel(start, stop, x, y):
        start, stop = claim_range(start, stop)
        for i in range(start, stop): ...

Called with a plain range, it continues with that range. Called with a pool's address (see
`POOL_FLAG`) in place of `start`, it copies its own arguments into the pool's task slots and
continues with the first part. A part is not owned until a thread claims it: at the end the caller
claims what no worker has begun (`finish`), so it never waits for a worker that comes late because
the machine is busy.

numba cannot express this, so it is written as LLVM IR (see `implicit_gemm.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

__all__ = ["SLOT_WORDS", "FAILURE", "READY", "STATE", "POOL_FLAG", "finish", "serve", "claim_range"]

POOL_FLAG = 1 << 62
"""Added to the address of a pool: the sum cannot be the index of a row. At that address are the
number of parts, and then the addresses of the task slots, for all parts but the first."""

EMPTY, READY, TAKEN, DONE, DONE_BY_CALLER = range(5)
"""The states of a task slot, its first word. `DONE_BY_CALLER`: done, but not by the worker."""

FAILURE = 1 << 16
"""What `finish` adds for a part that has failed: more than the number of parts."""

STATE, CODE, START, STOP, FAILED, ARGUMENTS = 0, 1, 2, 3, 4, 8
"""The indices of a task slot's words. The arguments start on a cache line of their own."""

SLOT_WORDS = 256
"""The size of a task slot in words."""

INT64, INT32 = ir.IntType(64), ir.IntType(32)
INT64_POINTER, BYTE_POINTER = INT64.as_pointer(), ir.IntType(8).as_pointer()

PAUSE = {"x86": "llvm.x86.sse2.pause"}.get(binding.get_process_triple()[:3])
"""The instruction that yields to the core's other hyper-thread, where the CPU has one."""


# The first line of a kernel ----------------------------------------------------------------------


def type_claim_range(typing: Any, start: types.Type, stop: types.Type) -> Any:
    """Type `claim_range`: the range left for this call after the other parts were handed out."""
    return types.UniTuple(start, 2)(start, stop), write_claim_range


def write_claim_range(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
) -> Any:
    """Write the code: in a call for a pool, fill its task slots and keep the first part."""
    start, stop = arguments
    first, last = (cgutils.alloca_once_value(builder, argument) for argument in arguments)
    kernel = builder.function
    # Before the arguments are the pointers for a result and an error, and the range.
    kernel_arguments = kernel.args[4:]
    argument_struct = ir.LiteralStructType([item.type for item in kernel_arguments])
    if context.get_abi_sizeof(argument_struct) > 8 * (SLOT_WORDS - ARGUMENTS):
        raise ValueError("this kernel has too many arguments for a task slot: raise SLOT_WORDS")
    code = builder.ptrtoint(write_task_function(kernel, argument_struct), INT64)
    is_pool_call = builder.icmp_unsigned(">=", start, INT64(POOL_FLAG))
    # Workers and small calls come with a plain range: all they pay is one comparison.
    with builder.if_then(is_pool_call, likely=False):
        pool = builder.inttoptr(builder.sub(start, INT64(POOL_FLAG)), INT64_POINTER)
        parts = builder.load(pool)

        def row(part: ir.Value) -> Any:
            # Multiplied first: divided first, the last part would have all of the remainder.
            return builder.udiv(builder.mul(stop, part), parts)

        # From 1 on: part 0 is what this call itself continues with.
        with cgutils.for_range_slice(builder, INT64(1), parts, INT64(1)) as (part, _):
            slot = builder.inttoptr(builder.load(builder.gep(pool, [part])), INT64_POINTER)
            for i, value in enumerate(drop_owners(kernel_arguments)):
                builder.store(value, argument_pointer(builder, slot, argument_struct, i))
            words = {CODE: code, START: row(part), STOP: row(builder.add(part, INT64(1)))}
            for index, word in words.items():
                builder.store(word, builder.gep(slot, [INT64(index)]))
            # Last, with release semantics: who reads READY also reads all that is stored above.
            builder.store_atomic(INT64(READY), slot, "release", 8)
        builder.store(INT64(0), first)
        builder.store(row(INT64(1)), last)
    rows = [builder.load(first), builder.load(last)]
    return context.make_tuple(builder, signature.return_type, rows)


claim_range: Any = intrinsic(type_claim_range)


def drop_owners(arguments: Sequence[ir.Value]) -> list[Any]:
    """Return a kernel's arguments, the arrays without owners.

    An array's struct begins with its owner (a meminfo record of numba's, and a Python object), two
    counts, and the address of its data. The record ends with the call, when other threads may
    still be running; an array without an owner has none. The caller keeps the arrays alive until
    all parts have ended.
    """
    types_ = [argument.type for argument in arguments]
    result = list(arguments)
    for i in range(len(types_)):
        if types_[i : i + 4] == [BYTE_POINTER, BYTE_POINTER, INT64, INT64]:
            result[i] = result[i + 1] = BYTE_POINTER(None)
    return result


def argument_pointer(
    builder: ir.IRBuilder, slot: ir.Value, argument_struct: ir.Type, index: int
) -> Any:
    """Return the address of an argument in a task slot."""
    arguments = builder.bitcast(builder.gep(slot, [INT64(ARGUMENTS)]), argument_struct.as_pointer())
    return builder.gep(arguments, [INT32(0), INT32(index)])


def write_task_function(kernel: ir.Function, argument_struct: ir.Type) -> Any:
    """Write the function that calls a kernel with the arguments of a task slot."""
    function_type = ir.FunctionType(ir.VoidType(), [INT64_POINTER])
    function = ir.Function(kernel.module, function_type, f"{kernel.name}.part")
    # Only its address leaves the module, so the name cannot clash with another kernel's.
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    (slot,) = function.args

    def word(index: int) -> Any:
        return builder.gep(slot, [INT64(index)])

    result, error = (
        cgutils.alloca_once(builder, argument.type.pointee) for argument in kernel.args[:2]
    )
    arguments = [
        builder.load(argument_pointer(builder, slot, argument_struct, i))
        for i in range(len(argument_struct.elements))
    ]
    rows = [builder.load(word(index)) for index in (START, STOP)]
    status = builder.call(kernel, [result, error, *rows, *arguments])
    # Only whether it failed: an error object would need the GIL.
    builder.store(builder.zext(status, INT64), word(FAILED))
    builder.ret_void()
    return function


# Operations on a task slot -----------------------------------------------------------------------


def slot_intrinsic(write: Callable[[Any, Any], Any], result: types.Type, count: int) -> Any:
    """Make an intrinsic of a task slot's address and integers."""

    def lower(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        arguments: Sequence[ir.Value],
    ) -> Any:
        slot = builder.inttoptr(arguments[0], INT64_POINTER)
        value = write(builder, (slot, *arguments[1:]))
        return context.get_dummy_value() if value is None else value

    signature_ = result(*[types.int64] * count)
    unary: Any = intrinsic(lambda typing, slot: (signature_, lower))
    binary: Any = intrinsic(lambda typing, slot, index: (signature_, lower))
    ternary: Any = intrinsic(lambda typing, slot, old, new: (signature_, lower))
    return (unary, binary, ternary)[count - 1]


def write_load_state(builder: ir.IRBuilder, arguments: Sequence[ir.Value]) -> Any:
    # acquire: what the other thread stored before its release is visible from here on.
    return builder.load_atomic(arguments[0], "acquire", 8)


def write_store_state(builder: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
    slot, state = arguments
    builder.store_atomic(state, slot, "release", 8)


def write_exchange_state(builder: ir.IRBuilder, arguments: Sequence[ir.Value]) -> Any:
    # cmpxchg returns the old value, and (index 1) whether it was replaced.
    return builder.extract_value(builder.cmpxchg(*arguments, "acq_rel", "acquire"), 1)


def write_load_word(builder: ir.IRBuilder, arguments: Sequence[ir.Value]) -> Any:
    slot, index = arguments
    return builder.load(builder.gep(slot, [index]))


def write_run_task(builder: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
    (slot,) = arguments
    function_type = ir.FunctionType(ir.VoidType(), [INT64_POINTER])
    code = builder.inttoptr(
        write_load_word(builder, (slot, INT64(CODE))), function_type.as_pointer()
    )
    builder.call(code, [slot])


load_state = slot_intrinsic(write_load_state, types.int64, 1)
"""Return the state of a task slot."""
store_state = slot_intrinsic(write_store_state, types.void, 2)
"""Store a state with release semantics: all earlier writes are visible before it."""
exchange_state = slot_intrinsic(write_exchange_state, types.boolean, 3)
"""Compare and exchange the state; return False if another thread was first."""
load_word = slot_intrinsic(write_load_word, types.int64, 2)
"""Return a word of a task slot or of a pool."""
run_task = slot_intrinsic(write_run_task, types.void, 1)
"""Run the task of a slot."""


def type_pause(typing: Any) -> Any:
    """Type `pause`: a spin-wait hint, where the CPU has one."""

    def lower(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        arguments: Sequence[ir.Value],
    ) -> Any:
        if PAUSE is not None:
            function_type = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, function_type, PAUSE), [])
        return context.get_dummy_value()

    return types.void(), lower


pause: Any = intrinsic(type_pause)


@njit([types.void(types.int64, types.int64)], cache=True, nogil=True)
def serve(slot, spins):
    """Run the tasks of a slot until none has arrived for `spins` polls."""
    left = spins
    while left > 0:
        # First a plain load: a cmpxchg takes the cache line away from the caller's core.
        if load_state(slot) == READY and exchange_state(slot, READY, TAKEN):
            run_task(slot)
            store_state(slot, DONE)
            left = spins
        pause()
        left -= 1


@njit([types.int64(types.int64, types.int64)], cache=True, nogil=True)
def finish(pool, spins):
    """Run the parts that no worker has begun, and wait for the others for at most `spins` polls.

    Returns: the number of parts that no worker had begun, plus `FAILURE` for each that has failed;
        -1 if a worker is still running.
    """
    outcome, parts = 0, load_word(pool, 0)
    # First all that is unclaimed, then the waiting: meanwhile the workers get on.
    for part in range(1, parts):
        slot = load_word(pool, part)
        if exchange_state(slot, READY, TAKEN):
            run_task(slot)
            store_state(slot, DONE_BY_CALLER)
    for part in range(1, parts):
        slot = load_word(pool, part)
        while load_state(slot) == TAKEN:
            spins -= 1
            # Back in Python, the caller can sleep, and notices Ctrl-C.
            if spins < 0:
                return -1
            pause()
    for part in range(1, parts):
        slot = load_word(pool, part)
        state = load_state(slot)
        if state != EMPTY:  # EMPTY: the kernel raised before it handed out its parts
            outcome += (state == DONE_BY_CALLER) + FAILURE * (load_word(slot, FAILED) != 0)
        store_state(slot, EMPTY)
    return outcome
