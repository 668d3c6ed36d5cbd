"""The CPU's random numbers: `philox.py` with NumPy's functions, as fast as they are.

NumPy has Philox only with words of 64 bits, so all rounds are array operations here: a large draw
of uniform numbers takes twice as long as by NumPy's C code. They work in place, on parts that stay
in the cache, and small draws come from numbers that were made in advance. (Two threads would not
help: they wait for Python's lock after each operation.) With numba, kernels do all of it in a
fraction of the time: `kernels/cpu/random.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .kernel_registry import Slot
from .philox import (
    INTEGERS,
    KEY_STEPS,
    MASK,
    MULTIPLIERS,
    NORMAL,
    PERMUTATION,
    ROUNDS,
    SORT_KEYS,
    UNIFORM,
    WORDS,
    Array,
    PhiloxRandom,
    generator_dtype,
    normal_from_words,
    philox4x32,
    round_uniform,
    uniform_from_words,
)

__all__ = ["NumpyRandom", "fill_blocks"]

BLOCKS_AT_ONCE = 32_768
"""A part of this size needs 1.5 MiB, and each of its operations some 10 µs: ten times its call."""

NUMBERS_AT_ONCE = 16_384
"""So many words become numbers at once, with temporary arrays that stay in the cache."""

CACHED_BLOCKS = 256, 16_384
"""How many blocks are made in advance, at first and at most."""

FROM_CACHE = CACHED_BLOCKS[1] // 4
"""Draws of more blocks are computed by themselves."""

MAX_BUCKETS = 1 << 20
"""A longer permutation is sorted by NumPy: buckets that are all over the memory take longer."""

SINGLE_BLOCKS = 2
"""So few blocks are computed by Python's integers, in 10 µs each, right after a new seed."""


class Scratch:
    """The memory in which the words of a part are computed.

    Attributes:
        rows: five vectors with one element more than blocks: see `mix`.
        words: the result, two words in each element.
    """

    def __init__(self, size: int) -> None:
        self.rows = [np.zeros(size + 1, np.uint64) for _ in range(5)]
        self.words = np.empty((size, 2), np.uint64)
        self.index = np.arange(size + 1, dtype=np.uint64)


def mix(product: Array, low: Array, key: int, y: Array) -> None:
    """Write upper half of `product` ^ lower half of `low` ^ `key` to `y`.

    Seen as words of 32 bits, one step apart, both halves are at the same index: that saves a
    shift. What lands in the upper half of y is cleared; the last element has no neighbour.
    """
    words = product.view(np.uint32)[1:-1], low.view(np.uint32)[:-2]
    np.bitwise_xor(*words, out=y.view(np.uint32)[:-2])
    np.bitwise_and(y, np.uint64(MASK), out=y)
    np.bitwise_xor(y, np.uint64(key), out=y)


def fill_blocks(seed: int, first: int, count: int, scratch: Scratch) -> Array:
    """Return the words of some blocks, as a vector in the scratch memory.

    In the first three rounds, some of the words are the same for all blocks: plain integers.
    `first % 2**32 + count` must be at most 2**32.
    """
    a, b, c, d, e = (row[: count + 1] for row in scratch.rows)
    keys = [[(key + r * step) & MASK for r in range(ROUNDS)] for key, step in
            zip((seed & MASK, seed >> 32), KEY_STEPS, strict=True)]  # fmt: skip
    half, (m0, m1) = np.uint64(32), map(np.uint64, MULTIPLIERS)
    np.add(scratch.index[: count + 1], np.uint64(first & MASK), out=a)
    np.multiply(a, m0, out=a)
    np.right_shift(a, half, out=b)
    np.bitwise_xor(b, np.uint64(keys[1][0]), out=b)
    product = MULTIPLIERS[0] * ((first >> 32) ^ keys[0][0])  # of the second round
    np.multiply(b, m1, out=b)
    np.right_shift(b, half, out=c)
    np.bitwise_xor(c, np.uint64(keys[0][1]), out=c)
    np.bitwise_and(a, np.uint64(MASK), out=a)
    np.bitwise_xor(a, np.uint64(product >> 32 ^ keys[1][1]), out=a)
    np.multiply(c, m0, out=c)
    np.multiply(a, m1, out=a)
    mix(a, b, keys[0][2], e)
    np.right_shift(c, half, out=d)
    np.bitwise_xor(d, np.uint64(product & MASK ^ keys[1][2]), out=d)
    # Now the words of the counter are e, the lower half of a, d and the lower half of c.
    c0, c2, low1, low3, free = e, d, a, c, b
    for r in range(3, ROUNDS):
        np.multiply(c0, m0, out=c0)
        np.multiply(c2, m1, out=c2)
        mix(c2, low1, keys[0][r], free)
        mix(c0, low3, keys[1][r], low1)
        c0, c2, low1, low3, free = free, low1, c2, c0, low3
    words = scratch.words[:count]
    for column, even, odd in ((0, c0, low1), (1, c2, low3)):
        np.left_shift(odd, half, out=odd)
        np.bitwise_or(even[:-1], odd[:-1], out=words[:, column])
    return words.view(np.uint32).reshape(-1)


Convert = Callable[[Any, Array, Array], None]
"""From words to numbers: `convert(np, words, y)`."""


def copy_words(xp: Any, words: Array, y: Array) -> None:
    y[...] = words[: y.size]


def fill_from(convert: Convert, seed: int, first: int, y: Array) -> None:
    """Fill a vector with the numbers of the blocks from `first` on, part by part."""
    per_block = 16 // y.itemsize
    start, stop = 0, -(-y.size // per_block)
    scratch = Scratch(min(BLOCKS_AT_ONCE, stop))
    step = NUMBERS_AT_ONCE // per_block
    while start < stop:
        block = (first + start) % 2**64
        count = min(BLOCKS_AT_ONCE, stop - start, 2**32 - (block & MASK))
        words = fill_blocks(seed, block, count, scratch)
        for i in range(0, count, step):
            stop_here = min(i + step, count)
            part = y[(start + i) * per_block : (start + stop_here) * per_block]
            convert(np, words[4 * i : 4 * stop_here], part)
        start += count


class Ahead:
    """Words that were made in advance, and the numbers that they have become so far.

    Attributes:
        first: the number of their first block.
        stop: that of the block after the last one.
    """

    def __init__(self, seed: int, first: int, words: Array) -> None:
        self.seed, self.first, self.stop = seed, first, first + words.size // 4
        self.elements: dict[tuple[Convert, int], Array] = {(copy_words, 4): words}

    def fill(self, convert: Convert, first: int, y: Array) -> None:
        """Fill a vector with the numbers of the blocks from `first` on."""
        key = convert, y.itemsize
        elements = self.elements.get(key)
        if elements is None:
            words = self.elements[copy_words, 4]
            elements = np.empty(words.nbytes // y.itemsize, y.dtype)
            convert(np, words, elements)
            self.elements[key] = elements
        at = (first - self.first) * 16 // y.itemsize
        y[...] = elements[at : at + y.size]


class NumpyRandom(PhiloxRandom):
    """Random arrays of the CPU."""

    def __init__(self, seed: int) -> None:
        super().__init__(np, seed)
        self._forget()

    def _forget(self) -> None:
        self._ahead = Ahead(0, 0, np.empty(0, np.uint32))
        self._next_size, self._singles = CACHED_BLOCKS[0], 0

    def set_state(self, state: np.ndarray) -> None:
        super().set_state(state)
        if self.seed != self._ahead.seed:
            self._forget()

    def uniform(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        y = np.empty(shape, generator_dtype(dtype))
        flat = y if y.ndim == 1 else y.reshape(-1)
        self.fill(UNIFORM, uniform_from_words, flat, y.nbytes // 4)
        return y if y.dtype is dtype else round_uniform(np, y, dtype)

    def normal(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        y = np.empty(shape, generator_dtype(dtype))
        flat = y if y.ndim == 1 else y.reshape(-1)
        self.fill(NORMAL, normal_from_words, flat, (y.size + y.size % 2) * y.itemsize // 4)
        return y if y.dtype is dtype else y.astype(dtype, copy=False)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> np.ndarray:
        y, values = np.empty(math.prod(shape), np.int64), high - low
        per_element = 1 if values <= 2**32 else 2
        seed, first = self.reserve(per_element * y.size)
        run = kernel_of(INTEGERS, y.size)
        if run is not None:
            run(seed, first, y, low, values)
            return y.reshape(shape)
        for start in range(0, y.size, NUMBERS_AT_ONCE):
            block = (first + start * per_element // 4) % 2**64
            some = y[start : start + NUMBERS_AT_ONCE]
            some[...] = self.integers_at(seed, block, low, values, some.size)
        return y.reshape(shape)

    def permutation(self, n: int) -> np.ndarray:
        run = PERMUTATION.run or kernel_of(PERMUTATION, n)
        if run is None or n > MAX_BUCKETS:
            return super().permutation(n)
        return run(self.reserve, n)

    def sort_keys(self, n: int, low: int) -> np.ndarray:
        run = kernel_of(SORT_KEYS, n)
        if run is None:
            return super().sort_keys(n, low)
        keys = np.empty(n, np.uint64)
        run(*self.reserve(2 * n), keys, low)
        return keys

    def fill(self, slot: Slot, convert: Convert, y: Array, words: int) -> None:
        """Fill a vector: by a kernel, from words made in advance, or from its own ones."""
        seed, first = self.reserve(words)
        run = slot.run or kernel_of(slot, y.size)
        if run is not None:
            run(seed, first, y)
        else:
            self.fill_by_numpy(convert, seed, first, y)

    def words(self, seed: int, first: int, count: int) -> Array:
        y = np.empty((count + 3) // 4 * 4, np.uint32)
        run = kernel_of(WORDS, count)
        if run is not None:
            run(seed, first, y)
        else:
            self.fill_by_numpy(copy_words, seed, first, y)
        return y

    def fill_by_numpy(self, convert: Convert, seed: int, first: int, y: Array) -> None:
        """Fill a vector without a kernel."""
        count, ahead = -(-y.nbytes // 16), self._ahead
        if ahead.seed == seed and ahead.first <= first and first + count <= ahead.stop:
            ahead.fill(convert, first, y)
        elif count > FROM_CACHE:
            fill_from(convert, seed, first, y)
        elif count <= SINGLE_BLOCKS and self._singles < SINGLE_BLOCKS:
            self._singles += 1
            key = seed & MASK, seed >> 32
            rows = [
                philox4x32((block & MASK, block >> 32 & MASK, 0, 0), key)
                for block in range(first, first + count)
            ]
            convert(np, np.array(rows, np.uint32).reshape(-1), y)
        else:
            size = min(max(self._next_size, 4 * count), CACHED_BLOCKS[1])
            self._next_size = 2 * size
            words = np.empty(4 * size, np.uint32)
            fill_from(copy_words, seed, first, words)
            self._ahead = ahead = Ahead(seed, first, words)
            ahead.fill(convert, first, y)


def kernel_of(slot: Slot, size: int) -> Callable[..., None] | None:
    """Return the kernel of a slot, if it is ready; a large draw requests it."""
    if slot.run is None and size >= slot.min_size:
        slot.request()
    return slot.run
