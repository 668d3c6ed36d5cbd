"""How a kernel hands parts of its work to other threads, without Python.

To wake a thread that sleeps takes 50 to 250 µs: longer than most kernels run. So threads that
help stay awake for a moment after each part, and look again and again into their box, a piece of
memory of their own. They do so in compiled code, for which Python's lock is not needed.

A kernel fills the boxes itself, in its first line:

    def curve(start, stop, x, y):
        start, stop = share_out(start, stop)
        for i in range(start, stop): ...

Called for plain rows, it goes on with these. Called with a team's number (see `TEAM`) in the place
of `start`, it puts its own arguments into the boxes of the team and goes on with the first part.
A part belongs to nobody until somebody takes it: at the end, whoever called takes what no helper
has begun (`finish`), so a helper that is late, because the machine is busy, is never waited for.

numba cannot write such a thing down, so it is said in LLVM's own language (see `implicit_gemm.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["BOX", "FAILURE", "FULL", "STATE", "TEAM", "finish", "serve", "share_out"]

TEAM = 1 << 62
"""Added to the address of a team, it is no number of a row. At that address are the number of
parts, and then the addresses of the boxes, for all parts but the first."""

FREE, FULL, TAKEN, DONE, LEFT = range(5)
"""What may be in the first word of a box. `LEFT`: done, but not by the helper."""

FAILURE = 1 << 16
"""What `finish` adds for a part that has failed: more than there are parts."""

STATE, CODE, START, STOP, FAILED, ARGUMENTS = 0, 1, 2, 3, 4, 8
"""The words of a box. The arguments have cache lines of their own."""

BOX = 256
"""How many words a box has."""

WORD, FIELD = ir.IntType(64), ir.IntType(32)
WORDS, OWNER = WORD.as_pointer(), ir.IntType(8).as_pointer()

PAUSE = {"x86": "llvm.x86.sse2.pause"}.get(binding.get_process_triple()[:3])
"""What lets the other half of a core go on meanwhile, where there is such a thing."""


# What a kernel begins with -----------------------------------------------------------------------


def sharing(typing: Any, start: Any, stop: Any) -> Any:
    """Return the rows that are left for this call, after others have been given theirs."""
    return types.UniTuple(start, 2)(start, stop), write_share_out


def write_share_out(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Write down: if this is a call for a team, fill its boxes, and keep the first part."""
    start, stop = arguments
    first, last = (cgutils.alloca_once_value(builder, argument) for argument in arguments)
    kernel = builder.function
    given = kernel.args[4:]  # before them are the places for a result and for an error, and rows
    kept = ir.LiteralStructType([each.type for each in given])
    if context.get_abi_sizeof(kept) > 8 * (BOX - ARGUMENTS):
        raise ValueError("this kernel has too many arguments for a box: make BOX larger")
    code = builder.ptrtoint(part_of(kernel, kept), WORD)
    for_a_team = builder.icmp_unsigned(">=", start, WORD(TEAM))
    with builder.if_then(for_a_team, likely=False):
        team = builder.inttoptr(builder.sub(start, WORD(TEAM)), WORDS)
        parts = builder.load(team)

        def row(part: Any) -> Any:
            return builder.udiv(builder.mul(stop, part), parts)

        with cgutils.for_range_slice(builder, WORD(1), parts, WORD(1)) as (part, _):
            box = builder.inttoptr(builder.load(builder.gep(team, [part])), WORDS)
            for i, without_owner in enumerate(without_owners(given)):
                builder.store(without_owner, field(builder, box, kept, i))
            words = {CODE: code, START: row(part), STOP: row(builder.add(part, WORD(1)))}
            for place, word in words.items():
                builder.store(word, builder.gep(box, [WORD(place)]))
            builder.store_atomic(WORD(FULL), box, "release", 8)
        builder.store(WORD(0), first)
        builder.store(row(WORD(1)), last)
    rows = [builder.load(first), builder.load(last)]
    return context.make_tuple(builder, signature.return_type, rows)


share_out: Any = intrinsic(sharing)


def without_owners(given: Any) -> list[Any]:
    """Return a kernel's arguments with arrays that belong to nobody.

    An array begins with its owner (a record of numba's, and a Python object), two counts, and the
    address of its numbers. The record ends with the call, when others may still be at work; there
    is none of an array that nobody owns. The caller keeps the arrays until all have ended.
    """
    kinds = [each.type for each in given]
    found = list(given)
    for i in range(len(kinds)):
        if kinds[i : i + 4] == [OWNER, OWNER, WORD, WORD]:
            found[i] = found[i + 1] = OWNER(None)
    return found


def field(builder: Any, box: Any, kept: Any, index: int) -> Any:
    """Return where an argument is in a box."""
    arguments = builder.bitcast(builder.gep(box, [WORD(ARGUMENTS)]), kept.as_pointer())
    return builder.gep(arguments, [FIELD(0), FIELD(index)])


def part_of(kernel: Any, kept: Any) -> Any:
    """Write the function that calls a kernel with what is in a box."""
    kind = ir.FunctionType(ir.VoidType(), [WORDS])
    function = ir.Function(kernel.module, kind, f"{kernel.name}.part")
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    (box,) = function.args

    def word(place: int) -> Any:
        return builder.gep(box, [WORD(place)])

    result, error = (
        cgutils.alloca_once(builder, argument.type.pointee) for argument in kernel.args[:2]
    )
    given = [builder.load(field(builder, box, kept, i)) for i in range(len(kept.elements))]
    rows = [builder.load(word(place)) for place in (START, STOP)]
    status = builder.call(kernel, [result, error, *rows, *given])
    builder.store(builder.zext(status, WORD), word(FAILED))
    builder.ret_void()
    return function


# What helpers and callers do with a box ----------------------------------------------------------


def on_words(write: Callable[[Any, Any], Any], result: Any, count: int) -> Any:
    """Make a function for use inside compiled code, of a box's address and whole numbers."""

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        box = builder.inttoptr(arguments[0], WORDS)
        value = write(builder, (box, *arguments[1:]))
        return context.get_dummy_value() if value is None else value

    kind = result(*[types.int64] * count)
    one: Any = intrinsic(lambda typing, box: (kind, lower))
    two: Any = intrinsic(lambda typing, box, place: (kind, lower))
    three: Any = intrinsic(lambda typing, box, old, new: (kind, lower))
    return (one, two, three)[count - 1]


def write_look(builder: Any, arguments: Any) -> Any:
    return builder.load_atomic(arguments[0], "acquire", 8)


def write_set(builder: Any, arguments: Any) -> None:
    box, state = arguments
    builder.store_atomic(state, box, "release", 8)


def write_change(builder: Any, arguments: Any) -> Any:
    return builder.extract_value(builder.cmpxchg(*arguments, "acq_rel", "acquire"), 1)


def write_word(builder: Any, arguments: Any) -> Any:
    box, place = arguments
    return builder.load(builder.gep(box, [place]))


def write_run(builder: Any, arguments: Any) -> None:
    (box,) = arguments
    kind = ir.FunctionType(ir.VoidType(), [WORDS])
    code = builder.inttoptr(write_word(builder, (box, WORD(CODE))), kind.as_pointer())
    builder.call(code, [box])


state_of = on_words(write_look, types.int64, 1)
"""Return what is in the first word of a box."""
set_state = on_words(write_set, types.void, 2)
"""Let everything written before be seen, and then a new state."""
change = on_words(write_change, types.boolean, 3)
"""Change the state from one to another, unless somebody else was first: then return False."""
word_of = on_words(write_word, types.int64, 2)
"""Return a word of a box or of a team."""
run = on_words(write_run, types.void, 1)
"""Do the part that is in a box."""


def pausing(typing: Any) -> Any:
    """Do nothing for a moment."""

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if PAUSE is not None:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, PAUSE), [])
        return context.get_dummy_value()

    return types.void(), lower


pause: Any = intrinsic(pausing)


@njit([types.void(types.int64, types.int64)], cache=True, nogil=True)
def serve(box, turns):
    """Do what is put into a box, until nothing has been put there for so many turns."""
    left = turns
    while left > 0:
        if state_of(box) == FULL and change(box, FULL, TAKEN):
            run(box)
            set_state(box, DONE)
            left = turns
        pause()
        left -= 1


@njit([types.int64(types.int64, types.int64)], cache=True, nogil=True)
def finish(team, turns):
    """Do the parts that no helper has begun, and wait for the others for so many turns.

    Returns: how many parts no helper has begun, plus `FAILURE` for each that has failed; -1 if a
        helper is still at work.
    """
    found, parts = 0, word_of(team, 0)
    for part in range(1, parts):
        box = word_of(team, part)
        if change(box, FULL, TAKEN):
            run(box)
            set_state(box, LEFT)
    for part in range(1, parts):
        box = word_of(team, part)
        while state_of(box) == TAKEN:
            turns -= 1
            if turns < 0:
                return -1
            pause()
    for part in range(1, parts):
        box = word_of(team, part)
        state = state_of(box)
        if state != FREE:  # as it is where the kernel has never begun
            found += (state == LEFT) + FAILURE * (word_of(box, FAILED) != 0)
        set_state(box, FREE)
    return found
