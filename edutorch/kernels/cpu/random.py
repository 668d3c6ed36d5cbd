"""Random numbers on all threads, identical to those of `backends/philox.py`.

The words of a block depend on its number alone, not on the block before it. So each thread begins
where its part begins, the results do not depend on the number of threads, and the processor makes
several blocks at once in its vector registers.

No fast-math option here, not even fused multiply-add: normal numbers are the same to the last bit
on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from ...backends import philox
from ...backends.philox import FLOAT32, FLOAT64, KEY_STEPS, MULTIPLIERS, FloatFormula
from .parallel import parallel_for
from .work_queue import claim_range

__all__ = ["integers", "normal", "permutation", "sort_keys", "uniform", "words"]

ROUNDS = philox.ROUNDS
MULTIPLIER_1, MULTIPLIER_2 = map(np.uint64, MULTIPLIERS)
KEY_STEP_1, KEY_STEP_2 = map(np.uint64, KEY_STEPS)
MASK, HALF, MAX_WORD = np.uint64(philox.MASK), np.uint64(32), np.uint64(2**64 - 1)
ZERO, ONE, TWO, THREE, FOUR = map(np.uint64, range(5))
INT64 = np.dtype(np.int64)

WORK_PER_BLOCK = 8
"""A block takes about as long as so many elements of a simple kernel."""


@njit(forceinline=True)
def philox_block(block, seed, attempt=ZERO):
    """Return the four words of a block, each as the lower half of a uint64."""
    a, b, c, d = block & MASK, block >> HALF, attempt, ZERO
    key, second_key = seed & MASK, seed >> HALF
    for _ in range(ROUNDS):
        # Both factors are below 2³²: LLVM takes the vector instruction for just that.
        first, second = MULTIPLIER_1 * a, MULTIPLIER_2 * c
        a, b = (second >> HALF) ^ b ^ key, second & MASK
        c, d = (first >> HALF) ^ d ^ second_key, first & MASK
        key, second_key = (key + KEY_STEP_1) & MASK, (second_key + KEY_STEP_2) & MASK
    return a, b, c, d


@njit(forceinline=True)
def as_float32(word):
    return np.float32(np.int32(word >> np.uint64(8))) * np.float32(2.0**-24)


@njit(forceinline=True)
def as_float64(low, high):
    return np.float64(np.int64((low | high << HALF) >> np.uint64(11))) * 2.0**-53


def draw_uniform(start, stop, seed, first, y):
    """Fill y from the blocks `first + start` to `first + stop`; the last one may be cut off."""
    start, stop = claim_range(start, stop)
    if y.itemsize == 4:
        whole = np.uint64(y.size) // FOUR
        for i in range(start, min(stop, whole)):
            a, b, c, d = philox_block(first + i, seed)
            at = FOUR * i
            y[at], y[at + ONE] = as_float32(a), as_float32(b)
            y[at + TWO], y[at + THREE] = as_float32(c), as_float32(d)
        if stop > whole:
            a, b, c, d = philox_block(first + whole, seed)
            for at in range(FOUR * whole, np.uint64(y.size)):
                y[at] = as_float32(a)
                a, b, c = b, c, d
    else:
        whole = np.uint64(y.size) // TWO
        for i in range(start, min(stop, whole)):
            a, b, c, d = philox_block(first + i, seed)
            y[TWO * i], y[TWO * i + ONE] = as_float64(a, b), as_float64(c, d)
        if stop > whole:
            a, b, c, d = philox_block(first + whole, seed)
            y[TWO * whole] = as_float64(a, b)


def draw_words(start, stop, seed, first, y):
    """Fill y with the words of the blocks `first + start` to `first + stop`, all of them whole."""
    start, stop = claim_range(start, stop)
    for i in range(start, stop):
        a, b, c, d = philox_block(first + i, seed)
        at = FOUR * i
        y[at], y[at + ONE], y[at + TWO], y[at + THREE] = a, b, c, d


SAME_BITS = {
    types.float32: types.int32, types.int32: types.float32,
    types.float64: types.int64, types.int64: types.float64,
}  # fmt: skip


def type_reinterpret(typing: Any, value: types.Type) -> Any:
    """Type `reinterpret(value)`: the float with the bits of an integer, or the other way round."""

    def lower(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        arguments: Sequence[ir.Value],
    ) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return SAME_BITS[value](value), lower


reinterpret: Any = intrinsic(type_reinterpret)
# (numba's own `view` wants the name of the dtype in the text, and this is written for two.)


@njit(forceinline=True)
def word_of(index, first, seed, attempt):
    """Return one word of a draw."""
    a, b, c, d = philox_block(first + index // FOUR, seed, attempt)
    rest = index % FOUR
    return (a if rest == ZERO else b) if rest < TWO else (c if rest == TWO else d)


def draw_integers(start, stop, seed, first, y, low, values):
    """Fill y[start:stop] with integers of at most 2³² values: see `PhiloxRandom.integers`."""
    start, stop = claim_range(start, stop)
    refused_below = np.uint64(2**32) % values
    size = np.uint64(y.size)
    for block in range(start, stop):
        words = philox_block(first + block, seed)
        for j in range(FOUR):
            i = FOUR * block + np.uint64(j)
            if i < size:
                product = words[j] * values
                attempt = ZERO
                while product & MASK < refused_below:
                    attempt += ONE
                    product = word_of(i, first, seed, attempt) * values
                y[i] = low + np.int64(product >> HALF)


def draw_wide_integers(start, stop, seed, first, y, low, mask, last):
    """Fill y with integers of more values, by the bits of `mask` of two words each."""
    start, stop = claim_range(start, stop)
    size = np.uint64(y.size)
    for block in range(start, stop):
        for i in range(TWO * block, min(TWO * block + TWO, size)):
            value, attempt = MAX_WORD, ZERO
            while attempt == ZERO or value > last:
                a, b, c, d = philox_block(first + block, seed, attempt)
                value = (a | b << HALF if i % TWO == ZERO else c | d << HALF) & mask
                attempt += ONE
            y[i] = np.int64(np.uint64(low) + value)


def draw_sort_keys(start, stop, seed, first, y, low):
    """Fill y with 64 random bits each; its index takes the place of the bits in `low`."""
    start, stop = claim_range(start, stop)
    size = np.uint64(y.size)
    for block in range(start, stop):
        a, b, c, d = philox_block(first + block, seed)
        i = TWO * block
        y[i] = ((a | b << HALF) & ~low) | i
        if i + ONE < size:
            y[i + ONE] = ((c | d << HALF) & ~low) | (i + ONE)


def series(coefficients: tuple[float, ...], real: Any) -> Any:
    """Return x ↦ Σ cₖ xᵏ, without fused operations."""
    names = [f"c{k}" for k in range(len(coefficients))]
    text = ""
    for name in reversed(names):
        text = f"({text} * x + {name})" if text else name
    scope = dict(zip(names, map(real, coefficients), strict=True))
    exec(f"def series(x): return {text}", scope)
    return njit(forceinline=True)(scope["series"])


def make_pair(f: FloatFormula) -> Any:
    """Return `philox.normal_pair` for two words, given as uint64."""
    word, integer, real = f.word, f.integer, f.real
    size = np.uint64(8 * np.dtype(word).itemsize)
    sign, swap = word(1 << int(size) - 1), word(1 << int(size) - 2)
    low, middle = word((1 << int(size) - 2) - 1), integer(1 << int(size) - 3)
    unused, step, half_step = word(f.unused), real(f.step), real(f.step / 2)
    root_half, mantissa = integer(f.root_half), integer(f.mantissa)
    ln2_high, ln2_low, factor = real(f.ln2[0]), real(f.ln2[1]), real(f.angle)
    one, two, half = real(1), real(2), real(0.5)
    log, sine_of, cosine_of = (series(c, real) for c in (f.log, f.sine, f.cosine))

    @njit(forceinline=True)
    def pair(first, second):
        a, b = word(first), word(second)
        u = real(a >> unused) * step + half_step
        bits = reinterpret(u)
        exponent = integer((bits - root_half) >> mantissa)
        x = reinterpret(integer(bits - (exponent << mantissa))) - one
        k = real(exponent)
        s = x / (x + two)
        z = s * s
        half_square = x * x * half
        tail = s * (half_square + z * log(z)) + k * ln2_low
        radius = real(np.sqrt(((half_square - tail - x) - k * ln2_high) * two))
        radius = reinterpret(integer(word(reinterpret(radius)) ^ (b & sign)))
        angle = real(integer(b & low) - middle) * factor
        z = angle * angle
        sine = angle + angle * z * sine_of(z)
        cosine = (z * z * cosine_of(z) - z * half) + one
        if b & swap:
            sine, cosine = cosine, sine
        return radius * cosine, radius * sine

    return pair


pair32, pair64 = make_pair(FLOAT32), make_pair(FLOAT64)


def draw_normal32(start, stop, seed, first, y):
    """Fill y from the blocks `first + start` to `first + stop`; the last one may be cut off."""
    start, stop = claim_range(start, stop)
    whole = np.uint64(y.size) // FOUR
    for i in range(start, min(stop, whole)):
        a, b, c, d = philox_block(first + i, seed)
        at = FOUR * i
        y[at], y[at + ONE] = pair32(a, b)
        y[at + TWO], y[at + THREE] = pair32(c, d)
    if stop > whole:
        a, b, c, d = philox_block(first + whole, seed)
        (p, q), (r, _) = pair32(a, b), pair32(c, d)
        for at in range(FOUR * whole, np.uint64(y.size)):
            y[at] = p
            p, q = q, r


def draw_normal64(start, stop, seed, first, y):
    """Fill y from the blocks `first + start` to `first + stop`; the last one may be cut off."""
    start, stop = claim_range(start, stop)
    whole = np.uint64(y.size) // TWO
    for i in range(start, min(stop, whole)):
        a, b, c, d = philox_block(first + i, seed)
        y[TWO * i], y[TWO * i + ONE] = pair64(a | b << HALF, c | d << HALF)
    if stop > whole:
        a, b, c, d = philox_block(first + whole, seed)
        y[TWO * whole] = pair64(a | b << HALF, c | d << HALF)[0]


UNSIGNED = types.uint64


def compiled(kernel: Callable[..., None], dtype: Any, *more: Any, overload: Any = None) -> Any:
    """Compile a kernel for vectors of a dtype (and of another one), and for more arguments."""
    signatures = [
        types.void(UNSIGNED, UNSIGNED, UNSIGNED, UNSIGNED, vector[::1], *more)
        for vector in (dtype, overload)
        if vector is not None
    ]
    return njit(signatures, cache=True, nogil=True, error_model="numpy")(kernel)


ALONE = 4096
"""So many blocks, 16 KiB of words, are no work for two threads."""


def filling(kernel: Any, bytes_per_block: int = 16) -> Callable[..., None]:
    """Return `run(seed, first, y, …)`, which fills a vector from the blocks from `first` on.

    Args:
        bytes_per_block: how much of the vector one block fills.
    """

    def run(seed: int, first: int, y: np.ndarray, *more: Any) -> None:
        count = -(-y.nbytes // bytes_per_block)
        if count < ALONE:
            kernel(0, count, seed, first, y, *more)
        else:
            parallel_for(kernel, count, seed, first, y, *more, work=WORK_PER_BLOCK * count)

    return run


@philox.UNIFORM.kernel("cpu", min_size=1024)
def uniform() -> Callable[..., None]:
    """Make uniform numbers: `run(seed, first, y)` fills a vector of float32 or float64."""
    return filling(compiled(draw_uniform, types.float32, overload=types.float64))


@philox.WORDS.kernel("cpu", min_size=16_384)
def words() -> Callable[..., None]:
    """Make the words themselves: `run(seed, first, y)` fills a vector of uint32."""
    return filling(compiled(draw_words, types.uint32))


@philox.NORMAL.kernel("cpu", min_size=1024)
def normal() -> Callable[..., None]:
    """Make normal numbers: `run(seed, first, y)` fills a vector of float32 or float64."""
    single = filling(compiled(draw_normal32, types.float32))
    double = filling(compiled(draw_normal64, types.float64))

    def run(seed: int, first: int, y: np.ndarray) -> None:
        (single if y.itemsize == 4 else double)(seed, first, y)

    return run


@philox.INTEGERS.kernel("cpu", min_size=16_384)
def integers() -> Callable[..., None]:
    """Make integers: `run(seed, first, y, low, values)` fills a vector of int64."""
    narrow = filling(compiled(draw_integers, types.int64, types.int64, UNSIGNED), 32)
    wide = filling(compiled(draw_wide_integers, types.int64, types.int64, UNSIGNED, UNSIGNED))

    def run(seed: int, first: int, y: np.ndarray, low: int, values: int) -> None:
        if values <= 2**32:
            narrow(seed, first, y, low, values)
        else:
            mask = (1 << (values - 1).bit_length()) - 1
            wide(seed, first, y, low, mask, values - 1)

    return run


@philox.SORT_KEYS.kernel("cpu", min_size=256)
def sort_keys() -> Callable[..., None]:
    """Make the keys of a permutation: `run(seed, first, y, low)` fills a vector of uint64."""
    return filling(compiled(draw_sort_keys, types.uint64, UNSIGNED))


@njit
def sort_by_buckets(keys, shift, low, y):
    """Write the bits in `low` of keys to y, in the order of the keys.

    The highest bits choose a bucket: of random keys each gets about one, so hardly anything is left
    to sort.
    """
    size = np.uint64(y.size)
    ends, sorted_keys = np.zeros((MAX_WORD >> shift) + TWO, np.int32), np.empty(size, np.uint64)
    for i in range(size):
        ends[(keys[i] >> shift) + ONE] += 1
    total = np.int32(0)
    for bucket in range(np.uint64(ends.size)):
        total += ends[bucket]
        ends[bucket] = total
    for i in range(size):
        bucket = keys[i] >> shift
        sorted_keys[np.uint64(ends[bucket])] = keys[i]
        ends[bucket] += 1
    last = ZERO
    for i in range(size):
        key, j = sorted_keys[i], i
        if key >= last:
            last = key
            continue
        while j > ZERO and sorted_keys[j - ONE] > key:
            sorted_keys[j] = sorted_keys[j - ONE]
            j -= ONE
        sorted_keys[j] = key
    for i in range(size):
        y[i] = np.int64(sorted_keys[i] & low)


def draw_permutation(seed, first, y):
    """Fill y with the integers below its size, in random order: see `philox.permutation`."""
    size, bits = np.uint64(y.size), ZERO
    while size > ONE << bits:
        bits += ONE
    low = (ONE << bits) - ONE
    keys = np.empty(size + ONE, np.uint64)
    for block in range((size + ONE) // TWO):
        a, b, c, d = philox_block(first + block, seed)
        i = TWO * block
        keys[i] = ((a | b << HALF) & ~low) | i
        keys[i + ONE] = ((c | d << HALF) & ~low) | (i + ONE)
    sort_by_buckets(keys, np.uint64(64) - max(bits, ONE), low, y)


def sort_permutation(keys, y):
    """Fill y from keys that are drawn already."""
    bits = ZERO
    while np.uint64(y.size) > ONE << bits:
        bits += ONE
    sort_by_buckets(keys, np.uint64(64) - max(bits, ONE), (ONE << bits) - ONE, y)


@philox.PERMUTATION.kernel("cpu", min_size=16)
def permutation() -> Callable[..., Any]:
    """Make `run(reserve, n)`: the integers below n in random order, see `philox.permutation`."""
    result = types.int64[::1]
    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
    draw_all = njit([types.void(UNSIGNED, UNSIGNED, result)], **options)(draw_permutation)
    sort = njit([types.void(types.uint64[::1], result)], **options)(sort_permutation)
    draw = sort_keys()

    def run(reserve: Callable[[int], tuple[int, int]], n: int) -> np.ndarray:
        y = np.empty(n, INT64)
        seed, first = reserve(2 * n)
        if n < 2 * ALONE:
            draw_all(seed, first, y)
        else:  # drawn by all threads
            keys = np.empty(n, np.uint64)
            draw(seed, first, keys, (1 << (n - 1).bit_length()) - 1)
            sort(keys, y)
        return y

    return run
