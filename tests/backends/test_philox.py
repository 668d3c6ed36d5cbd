"""Philox4x32-10: its known answers, what is made of its words, and one stream on every device."""

from __future__ import annotations

import math
import random
import warnings

import numpy as np
import pytest

import edutorch
from edutorch.backends import get, philox, reference_only
from edutorch.backends.philox import FLOAT32, FLOAT64, PhiloxRandom, philox4x32
from edutorch.backends.philox_device import DeviceRandom
from edutorch.backends.philox_numpy import NumpyRandom
from edutorch.errors import InvalidValueError

KNOWN_ANSWERS = [
    # From Random123's kat_vectors: counter, key, words.
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip

SEED = 0xF2345678_9ABCDEF0


def as_words(text: str) -> tuple[int, ...]:
    return tuple(int(word, 16) for word in text.split())


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN_ANSWERS)
def test_the_known_answers_of_random123(counter, key, words):
    assert philox4x32(as_words(counter), as_words(key)) == as_words(words)


def exact_words(first: int, count: int) -> list[int]:
    key = SEED & philox.MASK, SEED >> 32
    index = [(first + i) % 2**64 for i in range(count)]
    return [w for i in index for w in philox4x32((i & philox.MASK, i >> 32, 0, 0), key)]


@pytest.mark.parametrize("first", [0, 5, 2**32 - 3, 2**40 + 7, 2**64 - 2])
@pytest.mark.parametrize("count", [1, 2, 5, 100])
def test_every_form_makes_the_same_words(first, count):
    expected = exact_words(first, count)
    for xp in (np, get("strict").xp):
        generator = PhiloxRandom(xp, SEED)
        assert generator.words(SEED, first, 4 * count).tolist() == expected
    with reference_only():  # without kernels: first by Python's integers, then by NumPy
        generator = NumpyRandom(SEED)
        for _ in range(4):
            assert generator.words(SEED, first, 4 * count).tolist() == expected


def test_the_third_word_counts_attempts():
    counter = np.array([2**33 + 1], np.uint64)
    words = philox4x32((1, 2, 3, 0), (SEED & philox.MASK, SEED >> 32))
    assert philox.blocks(np, SEED, counter, 3).tolist() == [list(words)]


# Words as numbers -------------------------------------------------------------------------------


def test_uniform_numbers_are_the_upper_bits_of_words():
    words = exact_words(0, 3)
    generator = NumpyRandom(SEED)
    single = generator.uniform((5,), np.dtype(np.float32))
    assert single.tolist() == [(word >> 8) * 2.0**-24 for word in words[:5]]
    double = generator.uniform((2,), np.dtype(np.float64))  # from the third block
    low, high = words[8::2], words[9::2]
    assert double.tolist() == [
        ((b << 32 | a) >> 11) * 2.0**-53 for a, b in zip(low, high, strict=True)
    ]
    assert generator.offset == 3


@pytest.mark.parametrize(
    ("formula", "ulps"), [(FLOAT32, 4), (FLOAT64, 4)], ids=["float32", "float64"]
)
def test_normal_numbers_are_those_of_box_and_muller(formula, ulps):
    size = 8 * np.dtype(formula.word).itemsize
    a, b = np.random.default_rng(0).integers(0, 2**size, (2, 20_000), dtype=formula.word)
    a[:4] = 0, 2**size - 1, 2 ** (size - 1), 1  # the largest and the smallest radius
    b[:2] = 0, 2**size - 1
    pair = philox.normal_pair(np, a, b, formula)
    u = (a >> formula.word(formula.unused)).astype(formula.real).astype(np.float64) * formula.step
    u = (u + formula.step / 2).astype(formula.real)
    with np.errstate(divide="ignore"):
        radius = np.sqrt(-2 * np.log(u.astype(np.longdouble)))
    low = (b & formula.word(2 ** (size - 2) - 1)).astype(np.int64) - 2 ** (size - 3)
    angle = low.astype(np.longdouble) * np.pi * 2.0 ** -(size - 1)
    radius = np.where(b >> formula.word(size - 1), -radius, radius)
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    swapped = (b >> formula.word(size - 2) & formula.word(1)) == 1
    for ours, exact in zip(pair, (np.where(swapped, y, x), np.where(swapped, x, y)), strict=True):
        error = np.abs(ours.astype(np.longdouble) - exact) / np.spacing(np.abs(ours) + 1e-30)
        assert ours.dtype == formula.real
        assert np.isfinite(ours).all()
        assert error.max() < ulps


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_distribution_of_normal_numbers(dtype):
    """Moments, shares within 1, 2, 3 and 4, and that both numbers of a pair are independent."""
    count = 400_000
    x = NumpyRandom(5).normal((count,), np.dtype(dtype)).astype(np.float64)
    assert abs(x.mean()) < 4 / math.sqrt(count)
    assert abs(x.var() - 1) < 4 * math.sqrt(2 / count)
    assert abs((x**4).mean() - 3) < 4 * math.sqrt(96 / count)
    for bound in (1, 2, 3, 4):
        share = math.erf(bound / math.sqrt(2))
        deviation = math.sqrt(share * (1 - share) / count)
        assert abs((np.abs(x) < bound).mean() - share) < 4 * deviation
    first, second = x[::2], x[1::2]
    for power in (1, 2, 3):
        correlation = np.corrcoef(first**power, second**power)[0, 1]
        assert abs(correlation) < 4 / math.sqrt(count / 2)


@pytest.mark.parametrize("values", [3, 10, 3 * 2**30, 2**32 + 2**31])
def test_integers_favour_no_value(values):
    """Thirds of the range are equally likely; modulo 2³² they would be 1/2, 1/4, 1/4."""
    y = NumpyRandom(1).integers(-5, values - 5, (60_000,)) + 5
    shares = np.bincount((y * 3 // values).astype(np.int64), minlength=3) / y.size
    expected = [-(-values * (i + 1) // 3) - -(-values * i // 3) for i in range(3)]
    np.testing.assert_allclose(shares, np.array(expected) / values, atol=0.01)


def test_every_permutation_is_equally_likely():
    generator, counts = NumpyRandom(2), {}
    for _ in range(12_000):
        order = tuple(generator.permutation(4).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert min(counts.values()) > 400 and max(counts.values()) < 600  # 500 ± 4.6 deviations


# The stream -------------------------------------------------------------------------------------


def draw_by(generator, how, size, dtype):
    """Draw in one of six ways; the last one goes back to where it is."""
    if how == 5:
        generator.set_state(generator.get_state())
        return np.zeros(0)
    return [
        lambda: generator.uniform((size,), dtype),
        lambda: generator.normal((size,), dtype),
        lambda: generator.integers(-3, 2**40, (size,)),
        lambda: generator.integers(0, 9, (size,)),
        lambda: generator.permutation(size),
    ][how]()


@pytest.mark.parametrize("case", range(8))
def test_draws_of_all_sizes_in_any_order_are_those_of_the_definition(case):
    """Small ones come from numbers made in advance, others do not: nobody can tell."""
    choose = random.Random(case)
    fast, exact = NumpyRandom(case), PhiloxRandom(np, case)
    with reference_only():
        for _ in range(60):
            size = choose.choice([0, 1, 2, 3, 8, 100, 1000, 5000, 20_000])
            dtype = np.dtype(choose.choice(["float16", "float32", "float64"]))
            how = choose.randrange(6)
            np.testing.assert_array_equal(
                draw_by(fast, how, size, dtype), draw_by(exact, how, size, dtype)
            )
            assert fast.offset == exact.offset


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize(
    "draw",
    [
        lambda **where: edutorch.rand(7, 3, **where),
        lambda **where: edutorch.randn(7, 3, **where),
        lambda **where: edutorch.zeros(9, **where).uniform_(-1, 1),
        lambda **where: edutorch.nn.functional.dropout(edutorch.ones(50, **where), 0.3)
        if not where["dtype"].is_complex else edutorch.zeros(1, **where),
    ],
    ids=["rand", "randn", "uniform_", "dropout"],
)  # fmt: skip
def test_cpu_and_strict_draw_the_same(draw, dtype):
    elements = []
    for device in ("cpu", "strict"):
        edutorch.manual_seed(11)
        elements.append(draw(device=device, dtype=getattr(edutorch, dtype)).cpu())
    assert edutorch.equal(*elements)


def test_a_gpu_without_kernels_draws_the_same_by_array_formulas():
    """Nothing in them depends on the host: on a real GPU these are CuPy's functions."""
    with reference_only():
        device, exact = DeviceRandom(get("strict").xp, SEED), PhiloxRandom(np, SEED)
        for dtype in map(np.dtype, ("float16", "float32", "float64")):
            for draw in (PhiloxRandom.uniform, PhiloxRandom.normal):
                y = draw(device, (3, 5), dtype)
                np.testing.assert_array_equal(y.get(), draw(exact, (3, 5), dtype))
        for low, high in ((0, 10), (-5, 3 * 2**30), (-(2**63), 2**62)):
            y = device.integers(low, high, (50,))
            np.testing.assert_array_equal(y.get(), exact.integers(low, high, (50,)))
        np.testing.assert_array_equal(device.permutation(99).get(), exact.permutation(99))
    assert device.offset == exact.offset


# The state --------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "strict", "meta"])
def test_a_state_has_16_bytes_and_fits_every_device(device):
    generator = edutorch.Generator(device).manual_seed(2**64 - 1)
    edutorch.rand(5, generator=generator, device=device)
    state = generator.get_state()
    assert state.shape == (16,) and state.dtype is edutorch.uint8
    assert state.numpy().view("<u8").tolist() == [2**64 - 1, 0 if device == "meta" else 2]
    other = edutorch.Generator().set_state(state)
    assert other.initial_seed() == 2**64 - 1
    if device != "meta":
        expected = edutorch.rand(3, generator=generator, device=device).tolist()
        assert edutorch.rand(3, generator=other).tolist() == expected


def test_a_state_of_another_size_is_refused():
    with pytest.raises(InvalidValueError, match="a state has 16 bytes, seed and offset; got 5"):
        edutorch.set_rng_state(edutorch.zeros(5, dtype=edutorch.uint8))


def test_seed_and_offset_on_the_device():
    """The memory that kernels read follows the host, also when a graph is replayed."""
    launched = []

    class Slot:
        @staticmethod
        def run(state, blocks, y):
            launched.append((state[:2].tolist(), blocks))
            state[1] += np.uint64(blocks)  # as the kernel's last block of threads does

    generator = DeviceRandom(np, 7)
    y = np.empty(9, np.float32)
    for _ in range(2):
        assert generator.run(Slot, 9, y)
    assert launched == [([7, 0], 3), ([7, 3], 3)] and generator.offset == 6
    memory = generator.device_state()
    with generator.captured() as draws:  # recorded, not run: the memory stays as it is
        before = memory.copy()
        generator.run(Slot, 9, y)
        generator.run(Slot, 5, y)
        memory[:] = before
    assert draws.blocks == 5 and generator.offset == 6
    generator.replayed(draws)
    memory[1] += np.uint64(draws.blocks)
    assert generator.offset == 11
    generator.run(Slot, 1, y)
    assert launched[-1] == ([7, 11], 1)
    generator.set_state(np.array([1, 2**40], "<u8").view(np.uint8))
    generator.run(Slot, 4, y)
    assert launched[-1] == ([1, 2**40], 1) and generator.device_state() is memory


def test_no_operation_overflows_aloud():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        generator = NumpyRandom(2**64 - 1)
        generator.offset = 2**64 - 1
        with reference_only():
            for size in (1, 7, 5000, 100_000):
                generator.normal((size,), np.dtype(np.float32))
                generator.integers(-(2**63), 2**63, (size,))
