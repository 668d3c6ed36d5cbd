"""Uniform random numbers on all threads, identical to those of NumPy's Philox generator.

Philox is a counter-based generator: it computes random bits from a counter. A round is two 64-bit
products whose halves are mixed with a key; after ten rounds every bit of the counter has affected
each of the four output words. A block of words does not depend on the block before it. So each
thread starts its counter where its part begins, and the results do not depend on the number of
threads.

Paper: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, 2011.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ...backends import numpy
from .jit import ARRAY_1D, FLOATS, compile_kernel
from .parallel import parallel_for
from .work_queue import claim_range

__all__ = ["uniform"]

ROUNDS = 10
MULTIPLIER_1, MULTIPLIER_2 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
"""Philox's multipliers."""
KEY_STEP_1, KEY_STEP_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
"""The increments of the two key words from round to round (Weyl sequence)."""

MAX_WORD = np.uint64(2**64 - 1)

WORDS_PER_BLOCK = 4
"""The number of 64-bit words computed from one counter."""

BLOCKS_PER_BATCH = 256
"""So many blocks are computed before their words are converted to floats."""

WORK_PER_NUMBER = 4
"""A random number takes about as long as so many elements of a simple kernel."""


LOWER_HALF, HALF_BITS = np.uint64(0xFFFFFFFF), np.uint64(32)


@njit(forceinline=True)
def upper_half(a, b):
    """Return the upper half of a product of two words, from products of their halves.

    (LLVM recognizes the pattern and emits a single instruction.)
    """
    low_product, high_low_product, low_high_product = (
        (a & LOWER_HALF) * (b & LOWER_HALF),
        (a >> HALF_BITS) * (b & LOWER_HALF),
        (a & LOWER_HALF) * (b >> HALF_BITS),
    )
    middle = (
        (low_product >> HALF_BITS)
        + (high_low_product & LOWER_HALF)
        + (low_high_product & LOWER_HALF)
    )
    return (
        (a >> HALF_BITS) * (b >> HALF_BITS)
        + (high_low_product >> HALF_BITS)
        + (low_high_product >> HALF_BITS)
        + (middle >> HALF_BITS)
    )


@njit(forceinline=True)
def philox(a, b, c, d, key, second_key):
    """Return the four output words of a counter, which itself consists of four words."""
    for _ in range(ROUNDS):
        upper, more = upper_half(MULTIPLIER_1, a), upper_half(MULTIPLIER_2, c)
        a, b, c, d = more ^ b ^ key, MULTIPLIER_2 * c, upper ^ d ^ second_key, MULTIPLIER_1 * a
        key, second_key = key + KEY_STEP_1, second_key + KEY_STEP_2
    return a, b, c, d


@njit(forceinline=True)
def write_uniform(words, y, start_):
    """Convert one word of each block to floats in [0, 1)."""
    if y.itemsize == 4:
        # A float32 holds 24 bits exactly: with more of them, the largest would be rounded up to 1.
        scale = np.float32(2.0**-24)
        for i in range(words.size):
            position = start_ + np.uint64(8) * i
            # The lower half first: NumPy keeps the upper one for the next float32 that it draws.
            y[position] = np.float32(np.uint32(words[i]) >> np.uint32(8)) * scale
            y[position + np.uint64(1)] = np.float32(np.uint32(words[i] >> np.uint64(40))) * scale
    else:
        for i in range(words.size):
            # 53 bits, as many as a float64 holds exactly.
            y[start_ + np.uint64(4) * i] = np.float64(words[i] >> np.uint64(11)) * 2.0**-53


def draw_blocks(start, stop, begin, y):
    """Fill y from the counters after `begin`, which holds counter and key in six words."""
    start, stop = claim_range(start, stop)
    size = np.uint64(8 // y.itemsize)
    # A row for each of a block's words, so that the conversion reads adjacent ones. All four are
    # 8 KiB, and stay in the L1 cache until then.
    words = np.empty((WORDS_PER_BLOCK, BLOCKS_PER_BATCH), np.uint64)
    first, second, third, fourth = words[0], words[1], words[2], words[3]
    for block in range(start, stop, BLOCKS_PER_BATCH):
        # np.uint64: of a uint64 and an int64, numba's `min` makes a float64.
        blocks_here = min(np.uint64(BLOCKS_PER_BATCH), stop - block)
        for i in range(blocks_here):
            # + 1, as NumPy increments its counter before it computes a block.
            count = begin[0] + block + i + np.uint64(1)
            carry = begin[1] + np.uint64(count < begin[0])  # 1 where the first word overflowed
            a, b, c, d = philox(count, carry, begin[2], begin[3], begin[4], begin[5])
            first[i], second[i], third[i], fourth[i] = a, b, c, d
        position = block * np.uint64(WORDS_PER_BLOCK) * size
        write_uniform(first[:blocks_here], y, position)
        write_uniform(second[:blocks_here], y, position + size)
        write_uniform(third[:blocks_here], y, position + np.uint64(2) * size)
        write_uniform(fourth[:blocks_here], y, position + np.uint64(3) * size)


@numpy.UNIFORM.kernel("cpu", min_size=16_384)
def uniform() -> Callable[..., Any]:
    """Make uniform random numbers of float32 or float64, from a NumPy generator."""
    kernel = compile_kernel(draw_blocks, lambda number: types.uint64[::1], ARRAY_1D)

    def run(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        bits: Any = generator.bit_generator
        if bits.__class__ is not np.random.Philox or np.dtype(dtype) not in FLOATS:
            return None
        # First the numbers left over from the last block, then whole blocks, then the rest.
        y = np.empty(math.prod(shape), dtype)
        numbers_per_block = WORDS_PER_BLOCK * 8 // y.itemsize
        first = count_left_over(bits.state, y.itemsize)
        if first > y.size:
            return None
        generator.random(first, y.dtype, out=y[:first])
        # NumPy draws the rest of a block, so the state left behind is that of NumPy alone.
        blocks = (y.size - first) // numbers_per_block
        begin = reserve_blocks(bits, blocks, y.itemsize)
        if begin is None:
            generator.random(y.size - first, y.dtype, out=y[first:])
        else:
            last = first + blocks * numbers_per_block
            parallel_for(kernel, blocks, begin, y[first:last], work=WORK_PER_NUMBER * y.size)
            generator.random(y.size - last, y.dtype, out=y[last:])
        return y.reshape(shape)

    return run


def count_left_over(state: dict[str, Any], itemsize: int) -> int:
    """Return how many numbers the last block still holds."""
    words = WORDS_PER_BLOCK - state["buffer_pos"]
    return words if itemsize == 8 else 2 * words + state["has_uint32"]


def reserve_blocks(bits: Any, blocks: int, itemsize: int) -> np.ndarray | None:
    """Advance the generator by some blocks; return the counter before, and the key.

    None: another thread has drawn meanwhile (or the upper counter word would overflow, which the
    kernel does not support).
    """
    with bits.lock:
        state = bits.state
        count, key = state["state"]["counter"], state["state"]["key"]
        if count_left_over(state, itemsize) or count[1] == MAX_WORD:
            return None
        after = count.copy()
        after[:1] += np.uint64(blocks)
        after[1] += after[0] < count[0]  # the first word overflowed
        state["state"]["counter"] = after
        bits.state = state
    return np.concatenate([count, key])
