"""Random numbers by Philox4x32-10: which seed makes which number, on every device.

A block is four words of 32 bits, mixed from a counter and a key of the seed's two halves, so each
element can be computed alone, by any thread, in any order. A generator consists of a seed and of
an offset, the number of blocks that it has handed out. A draw takes whole blocks: its word `i` is
word `i % 4` of the block of the counter (low and high half of `offset + i // 4`, attempt, 0).

| element `i` of a draw | its words | how |
|:--|:--|:--|
| uniform, float32 | `i` | the upper 24 bits of the word, times 2⁻²⁴ |
| uniform, float64 | `2i`, `2i + 1` | the upper 53 bits of both (the second is the upper half) |
| uniform, float16, bfloat16 | `i` | the float32, rounded down to 11 or 8 bits |
| normal, float32 | those of `i` and of its neighbour `i ^ 1` | Box and Muller: `normal_pair` |
| normal, float64 | the same with two words each | `normal_pair` |
| integers of at most 2³² values | `i` | the upper half of word · values; see `integers` |
| integers of more values | `2i`, `2i + 1` | as many low bits as are needed |
| permutation | `2i`, `2i + 1` | sort by the upper bits, see `permutation` |

Where an integer is refused because it would favour some values, the next attempt takes the same
word of the same block, with a counter whose third word is the number of the attempt.

No operation here depends on a library or on a machine: integers, and sums, products, quotients
and roots as IEEE 754 rounds them, none of them fused. So the same seed gives the same bits on the
CPU (with and without kernels), on the strict device and on a GPU (`kernels/gpu/philox.cuh`).

Paper: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, 2011.
"""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidValueError
from .kernel_registry import slot

__all__ = [
    "FLOAT32", "FLOAT64", "INTEGERS", "NORMAL", "PERMUTATION", "SORT_KEYS", "UNIFORM", "WORDS",
    "FloatFormula",
    "PhiloxRandom", "blocks", "generator_dtype", "normal_pair", "philox4x32", "round_uniform",
]  # fmt: skip

Array = Any
"""An array of some device. (`numpy.py`, whose backend draws from here, has the annotations.)"""

Namespace = Any
"""NumPy, or a module with its functions."""

UNIFORM = slot("UNIFORM")
NORMAL = slot("NORMAL")
WORDS = slot("WORDS")
INTEGERS = slot("INTEGERS")
SORT_KEYS, PERMUTATION = slot("SORT_KEYS"), slot("PERMUTATION")
"""Kernels of the CPU: `run(seed, first, y, …)` fills a vector with the numbers of the blocks from
`first` on, and of `INTEGERS` and `SORT_KEYS` with more arguments. `PERMUTATION` sorts such keys."""

ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
"""The increments of the two key words from round to round (Weyl sequences)."""

MASK = 2**32 - 1
STATE_BYTES = 16

MANTISSA_BITS = {"float16": 11, "bfloat16": 8}
"""Significant bits of the dtypes that generators do not draw directly."""

FLOAT32_TYPE, FLOAT64_TYPE = np.dtype(np.float32), np.dtype(np.float64)


def generator_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype in which a generator draws samples for `dtype`."""
    return FLOAT64_TYPE if dtype == FLOAT64_TYPE else FLOAT32_TYPE


def round_uniform(xp: Namespace, y: Array, dtype: np.dtype) -> Array:
    """Return uniform samples in a shorter dtype, rounded down: rounding up would give 1."""
    bits = MANTISSA_BITS.get(dtype.name)
    if bits:
        y = xp.floor(y * np.float32(2**bits)) * np.float32(2.0**-bits)
    return y.astype(dtype, copy=False)


def philox4x32(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, ...]:
    """Return the four words of a counter: the definition, in Python's integers."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(ROUNDS):
        first, second = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1 = second >> 32 ^ c1 ^ k0, second & MASK
        c2, c3 = first >> 32 ^ c3 ^ k1, first & MASK
        k0, k1 = (k0 + KEY_STEPS[0]) & MASK, (k1 + KEY_STEPS[1]) & MASK
    return c0, c1, c2, c3


def blocks(xp: Namespace, seed: int | Array, index: Array, attempt: int | Array = 0) -> Array:
    """Return the words of some blocks, as an array (n, 4) of uint32.

    Args:
        xp: NumPy, or a module with its functions.
        seed: 64 bits, as an int or an array of uint64.
        index: the numbers of the blocks, as an array (n,) of uint64.
    """
    mask, half = np.uint64(MASK), np.uint64(32)
    steps = np.uint64(KEY_STEPS[0]), np.uint64(KEY_STEPS[1])
    key = np.uint64(seed) if isinstance(seed, int) else seed
    c0, c1 = index & mask, index >> half
    c2, c3 = xp.full_like(index, attempt), xp.zeros_like(index)
    k0, k1 = key & mask, key >> half
    for _ in range(ROUNDS):
        first, second = c0 * np.uint64(MULTIPLIERS[0]), c2 * np.uint64(MULTIPLIERS[1])
        c0, c1 = (second >> half) ^ c1 ^ k0, second & mask
        c2, c3 = (first >> half) ^ c3 ^ k1, first & mask
        k0, k1 = (k0 + steps[0]) & mask, (k1 + steps[1]) & mask
    return xp.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


# Words as numbers -------------------------------------------------------------------------------


def uniform_from_words(xp: Namespace, words: Array, y: Array) -> None:
    """Write uniform numbers in [0, 1) to `y`, float32 or float64, from its words."""
    if y.dtype == np.float32:
        values, scale = words[: y.size] >> np.uint32(8), np.float32(2.0**-24)
    else:
        values, scale = words.view(np.uint64)[: y.size] >> np.uint64(11), np.float64(2.0**-53)
    # As signed integers they become floats by a vector instruction.
    signed = values.view(np.int32 if y.itemsize == 4 else np.int64)
    xp.multiply(signed.astype(y.dtype), scale, out=y)


class FloatFormula(NamedTuple):
    """The constants by which `normal_pair` computes in one dtype.

    Attributes:
        word, integer, real: the dtypes, all of one size.
        unused: how many low bits of a word the radius leaves out, to be exact.
        step: the distance of neighbouring radii's words as floats.
        mantissa: bits of the fraction of `real`.
        root_half: the bits of the float √½.
        angle: the factor from the low bits of a word to an angle of at most π/4.
        ln2: log 2 in two parts.
        log, sine, cosine: the coefficients of the series, from the lowest power on.
    """

    word: Any
    integer: Any
    real: Any
    unused: int
    step: float
    mantissa: int
    root_half: int
    angle: float
    ln2: tuple[float, float]
    log: tuple[float, ...]
    sine: tuple[float, ...]
    cosine: tuple[float, ...]


FLOAT32 = FloatFormula(
    np.uint32, np.int32, np.float32, 0, 2.0**-32, 23, 0x3F3504F3, math.pi * 2.0**-31,
    (6.9313812256e-01, 9.0580006145e-06),
    (0.66666662693, 0.40000972152, 0.28498786688, 0.24279078841),
    (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4),
    (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5),
)  # fmt: skip
FLOAT64 = FloatFormula(
    np.uint64, np.int64, np.float64, 11, 2.0**-53, 52, 0x3FE6A09E667F3BCD, math.pi * 2.0**-63,
    (6.93147180369123816490e-01, 1.90821492927058770002e-10),
    (
        6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
        2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
        1.479819860511658591e-01,
    ),
    (
        -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
        2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10,
    ),
    (
        4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
        -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11,
    ),
)  # fmt: skip
"""The series of `log`, `sin` and `cos` are those of FreeBSD's libm (for float32, of Cephes)."""


def series(x: Array, coefficients: tuple[float, ...], real: Any) -> Array:
    """Return Σ cₖ xᵏ, by Horner's scheme."""
    y = x * real(coefficients[-1])
    for coefficient in coefficients[-2:0:-1]:
        y += real(coefficient)
        y *= x
    y += real(coefficients[0])
    return y


def minus_log(u: Array, f: FloatFormula) -> Array:
    """Return -log u, with u = (1 + x) 2ᵏ and the series of log(1 + x) in s = x / (2 + x)."""
    bits = u.view(f.integer)
    exponent = (bits - f.integer(f.root_half)) >> f.integer(f.mantissa)
    x = (bits - (exponent << f.integer(f.mantissa))).view(f.real)
    x -= f.real(1)
    k = exponent.astype(f.real)
    s = x / (x + f.real(2))
    z = s * s
    half_square = x * x
    half_square *= f.real(0.5)
    tail = series(z, f.log, f.real)  # s · (half_square + z · series) + k · the lower part of log 2
    tail *= z
    tail += half_square
    tail *= s
    tail += k * f.real(f.ln2[1])
    half_square -= tail
    half_square -= x
    half_square -= k * f.real(f.ln2[0])
    return half_square


def normal_pair(xp: Namespace, a: Array, b: Array, f: FloatFormula) -> tuple[Array, Array]:
    """Return two arrays of independent normal numbers from two arrays of words.

    The point (√(-2 log u) cos φ, √(-2 log u) sin φ) has independent normal coordinates. `a` gives
    u; the low bits of `b` an angle from -π/4 to π/4, and its two highest whether both signs are
    changed, and whether the coordinates are swapped.

    Paper: G. E. P. Box and M. E. Muller, A note on the generation of random normal deviates, 1958.
    """
    size = 8 * np.dtype(f.word).itemsize
    sign, low, one = f.word(1 << size - 1), f.word((1 << size - 2) - 1), f.word(1)
    # Of 64 bits only 53 are used; as signed integers they become floats by a vector instruction.
    u = ((a >> f.word(f.unused)).view(f.integer) if f.unused else a).astype(f.real)
    u *= f.real(f.step)
    u += f.real(f.step / 2)
    radius = minus_log(u, f)
    radius *= f.real(2)
    radius = (xp.sqrt(radius).view(f.word) ^ (b & sign)).view(f.real)
    angle = ((b & low).view(f.integer) - f.integer(1 << size - 3)).astype(f.real)
    angle *= f.real(f.angle)
    z = angle * angle
    sine = series(z, f.sine, f.real)  # angle + angle · z · series
    sine *= angle * z
    sine += angle
    cosine = series(z, f.cosine, f.real)  # z · z · series - z / 2 + 1
    cosine *= z * z
    z *= f.real(0.5)
    cosine -= z
    cosine += f.real(1)
    sine *= radius
    cosine *= radius
    # All bits of `swapped` are those of the one that says so.
    swapped = ((b << one).view(f.integer) >> f.integer(size - 1)).view(f.word)
    first, second = cosine.view(f.word), sine.view(f.word)
    swapped &= first ^ second
    return (first ^ swapped).view(f.real), (second ^ swapped).view(f.real)


def normal_from_words(xp: Namespace, words: Array, y: Array) -> None:
    """Write normal numbers to `y`, float32 or float64, from its words and those of its pairs."""
    formula = FLOAT32 if y.dtype == np.float32 else FLOAT64
    pairs = words.view(formula.word)[: y.size + y.size % 2].reshape(-1, 2)
    first, second = normal_pair(xp, pairs[:, 0], pairs[:, 1], formula)
    y[0::2], y[1::2] = first, second[: y.size // 2]


# A generator ------------------------------------------------------------------------------------


class PhiloxRandom:
    """Random arrays of one device, by array formulas: the interface of all generators.

    Attributes:
        seed: the key, 64 bits.
        offset: how many blocks have been handed out.
    """

    def __init__(self, xp: Namespace, seed: int) -> None:
        self.xp, self.seed, self.offset = xp, seed, 0
        self._lock = threading.Lock()

    def reserve(self, words: int) -> tuple[int, int]:
        """Hand out the blocks of so many words; return the seed, and the first block's number."""
        with self._lock:
            first = self.offset
            self.offset = (first + (words + 3) // 4) % 2**64
            return self.seed, first

    def words(self, seed: int, first: int, count: int) -> Array:
        """Return the words of the blocks from `first` on: `count`, and what is left of a block."""
        index = self.xp.arange((count + 3) // 4, dtype=np.uint64) + np.uint64(first)
        return blocks(self.xp, seed, index).reshape(-1)

    def draw(self, count: int) -> Array:
        """Reserve and return words."""
        return self.words(*self.reserve(count), count)

    def uniform(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Uniform samples in [0, 1)."""
        y = self.xp.empty(math.prod(shape), generator_dtype(dtype))
        self.fill_uniform(y)
        return round_uniform(self.xp, y, dtype).reshape(shape)

    def normal(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Samples from the standard normal distribution."""
        y = self.xp.empty(math.prod(shape), generator_dtype(dtype))
        self.fill_normal(y)
        return y.reshape(shape).astype(dtype, copy=False)

    def fill_uniform(self, y: Array) -> None:
        """Fill a vector of float32 or float64 with uniform samples."""
        uniform_from_words(self.xp, self.draw(y.size * y.itemsize // 4), y)

    def fill_normal(self, y: Array) -> None:
        """Fill a vector of float32 or float64 with normal samples."""
        normal_from_words(self.xp, self.draw((y.size + y.size % 2) * y.itemsize // 4), y)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Array:
        """Integers in [low, high), as int64, each of them exactly as likely as the others.

        At most 2³² values: of the product of a word and the number of values, the upper half is
        the integer. The lower half tells whether its value has one word more than others; then
        the next attempt is made. More values: the low bits of two words, if they are in the range.

        Paper: D. Lemire, Fast random integer generation in an interval, 2019.
        """
        values, count = high - low, math.prod(shape)
        seed, first = self.reserve(count if values <= 2**32 else 2 * count)
        return self.integers_at(seed, first, low, values, count).reshape(shape)

    def integers_at(self, seed: int, first: int, low: int, values: int, count: int) -> Array:
        """Return integers from the blocks from `first` on."""
        per_element = 1 if values <= 2**32 else 2
        words = self.words(seed, first, per_element * count)[: per_element * count]
        y, refused = integers_from_words(self.xp, words, values)
        at, attempt = self.xp.flatnonzero(refused) if refused is not None else (), 0
        while len(at):
            attempt += 1
            block = (at * per_element // 4).astype(np.uint64) + np.uint64(first)
            rows = blocks(self.xp, seed, block, attempt)
            column = (at * per_element % 4).reshape(-1, 1) + self.xp.arange(per_element)
            words = self.xp.take_along_axis(rows, column, axis=1).reshape(-1)
            y[at], refused = integers_from_words(self.xp, words, values)
            at = at[refused]
        if low:
            y += np.uint64(low % 2**64)
        return y.view(np.int64)

    def permutation(self, n: int) -> Array:
        """The integers 0 … n-1 in random order: that of 64 random bits for each.

        The integers themselves take the place of as many low bits as they need, so that the
        smallest key's come first where the others agree (of a million, 3 % of all orders have one
        such pair).
        """
        low = (1 << max(n - 1, 0).bit_length()) - 1
        keys = self.xp.sort(self.sort_keys(n, low))
        keys &= np.uint64(low)
        return keys.view(np.int64)

    def sort_keys(self, n: int, low: int) -> Array:
        """Return 64 random bits for each of n integers, which take the place of the low ones."""
        keys = self.draw(2 * n).view(np.uint64)[:n] & np.uint64(2**64 - 1 - low)
        keys |= self.xp.arange(n, dtype=np.uint64)
        return keys

    def get_state(self) -> np.ndarray:
        """Return seed and offset: 16 bytes, on the host."""
        with self._lock:
            return np.array([self.seed, self.offset], "<u8").view(np.uint8)

    def set_state(self, state: np.ndarray) -> None:
        """Continue from a state that `get_state` returned, of any device.

        Raises: ValueError: it does not have 16 bytes.
        """
        if state.size != STATE_BYTES:
            raise InvalidValueError(
                "set_state", f"a state has {STATE_BYTES} bytes, seed and offset; got {state.size}"
            )
        seed, offset = np.ascontiguousarray(state, np.uint8).view("<u8").tolist()
        with self._lock:
            self.seed, self.offset = seed, offset


def integers_from_words(xp: Namespace, words: Array, values: int) -> tuple[Array, Array | None]:
    """Return integers below `values` as uint64, and which of them another attempt must replace.

    None: none of them, as `values` is a power of two.
    """
    is_power = values & (values - 1) == 0
    if values > 2**32:
        y = words.view(np.uint64) & np.uint64((1 << (values - 1).bit_length()) - 1)
        return y, None if is_power else y > np.uint64(values - 1)
    product = words * np.uint64(values)
    refused = None if is_power else (product & np.uint64(MASK)) < np.uint64(2**32 % values)
    product >>= np.uint64(32)
    return product, refused
