"""Uniform random numbers by all threads: the very ones that NumPy would draw.

NumPy's Philox makes random bits out of a number that counts up. Two products of 64 bits, whose
halves are mixed with a key, and ten such rounds: after them every bit of the count has reached each
of the four words that come out. One block of words needs nothing from the block before it. So each
thread can count from wherever its part begins, and the numbers are the same however many there are.

Paper: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, 2011.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from .jit import FLOATS, ROW, compiled
from .parallel import in_parts
from .work_queue import share_out

__all__ = ["uniform"]

ROUNDS = 10
FIRST, SECOND = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
"""What is multiplied with."""
FIRST_STEP, SECOND_STEP = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
"""By how much the key changes from round to round."""

FULL = np.uint64(2**64 - 1)

WORDS = 4
"""So many words of 64 bits come out of one count."""

TOGETHER = 256
"""So many blocks are made before their words are written as numbers."""

WORK = 4
"""A random number takes about as long as so many numbers of a simple kernel."""


LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@njit(forceinline=True)
def upper_half(a, b):
    """The upper half of a product of two words, made of products of their halves.

    (LLVM knows this sum, and makes the one instruction of it that the processor has.)
    """
    small, mixed, other = (a & LOW) * (b & LOW), (a >> HALF) * (b & LOW), (a & LOW) * (b >> HALF)
    middle = (small >> HALF) + (mixed & LOW) + (other & LOW)
    return (a >> HALF) * (b >> HALF) + (mixed >> HALF) + (other >> HALF) + (middle >> HALF)


@njit(forceinline=True)
def philox(a, b, c, d, key, other):
    """Return the four words that belong to a count, which is four words long itself."""
    for _ in range(ROUNDS):
        upper, more = upper_half(FIRST, a), upper_half(SECOND, c)
        a, b, c, d = more ^ b ^ key, SECOND * c, upper ^ d ^ other, FIRST * a
        key, other = key + FIRST_STEP, other + SECOND_STEP
    return a, b, c, d


@njit(forceinline=True)
def put(words, y, at):
    """Write the numbers from 0 to 1 that the bits of one word of each block say."""
    if y.itemsize == 4:
        scale = np.float32(2.0**-24)
        for i in range(words.size):
            place = at + np.uint64(8) * i
            y[place] = np.float32(np.uint32(words[i]) >> np.uint32(8)) * scale
            y[place + np.uint64(1)] = np.float32(np.uint32(words[i] >> np.uint64(40))) * scale
    else:
        for i in range(words.size):
            y[at + np.uint64(4) * i] = np.float64(words[i] >> np.uint64(11)) * 2.0**-53


def drawn(start, stop, begin, y):
    """Fill y with the words of the counts after `begin`: count and key in six words."""
    start, stop = share_out(start, stop)
    size = np.uint64(8 // y.itemsize)
    words = np.empty((WORDS, TOGETHER), np.uint64)
    first, second, third, fourth = words[0], words[1], words[2], words[3]
    for block in range(start, stop, TOGETHER):
        many = min(np.uint64(TOGETHER), stop - block)
        for i in range(many):
            count = begin[0] + block + i + np.uint64(1)
            carried = begin[1] + np.uint64(count < begin[0])  # where the first word was full
            a, b, c, d = philox(count, carried, begin[2], begin[3], begin[4], begin[5])
            first[i], second[i], third[i], fourth[i] = a, b, c, d
        at = block * np.uint64(WORDS) * size
        put(first[:many], y, at)
        put(second[:many], y, at + size)
        put(third[:many], y, at + np.uint64(2) * size)
        put(fourth[:many], y, at + np.uint64(3) * size)


def uniform() -> Callable[..., Any]:
    """Make uniform numbers, of float32 or float64, by a generator of NumPy's."""
    kernel = compiled(drawn, lambda number: types.uint64[::1], ROW)

    def run(generator: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
        bits: Any = generator.bit_generator
        if bits.__class__ is not np.random.Philox or np.dtype(dtype) not in FLOATS:
            return None
        # First come the numbers that are left of the last block, then whole blocks, then the rest.
        y = np.empty(math.prod(shape), dtype)
        each = WORDS * 8 // y.itemsize
        first = left_over(bits.state, y.itemsize)
        if first > y.size:
            return None
        generator.random(first, y.dtype, out=y[:first])
        blocks = (y.size - first) // each
        begin = reserve(bits, blocks, y.itemsize)
        if begin is None:
            generator.random(y.size - first, y.dtype, out=y[first:])
        else:
            last = first + blocks * each
            in_parts(kernel, blocks, begin, y[first:last], work=WORK * y.size)
            generator.random(y.size - last, y.dtype, out=y[last:])
        return y.reshape(shape)

    return run


def left_over(state: dict[str, Any], itemsize: int) -> int:
    """Return how many numbers the words still hold that came out last."""
    words = WORDS - state["buffer_pos"]
    return words if itemsize == 8 else 2 * words + state["has_uint32"]


def reserve(bits: Any, blocks: int, itemsize: int) -> np.ndarray | None:
    """Count on as if so many blocks had been drawn; return the count before, and the key.

    None: another thread has drawn meanwhile (or there were 2¹²⁸ blocks, and a kernel counts no
    further).
    """
    with bits.lock:
        state = bits.state
        count, key = state["state"]["counter"], state["state"]["key"]
        if left_over(state, itemsize) or count[1] == FULL:
            return None
        after = count.copy()
        after[:1] += np.uint64(blocks)
        after[1] += after[0] < count[0]  # the first word was full
        state["state"]["counter"] = after
        bits.state = state
    return np.concatenate([count, key])
