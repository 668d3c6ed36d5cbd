"""Random numbers by the CPU's kernels are those of the definition, to the last bit."""

import threading

import numpy as np
import pytest

pytest.importorskip("numba")

import edutorch
from edutorch.backends import philox, reference_only
from edutorch.backends.philox import PhiloxRandom
from edutorch.backends.philox_numpy import NumpyRandom
from edutorch.kernels import make

SEED = 0xF2345678_9ABCDEF0
FIRST = [0, 2**32 - 5, 2**64 - 3]
"""Numbers of blocks: the second word of the counter changes, and the first block comes again."""

SIZES = [1, 2, 3, 4, 5, 7, 33, 1001, 100_003]


@pytest.fixture(scope="module", autouse=True)
def kernels():
    slots = philox.UNIFORM, philox.NORMAL, philox.WORDS, philox.INTEGERS, philox.SORT_KEYS
    for slot in slots:
        make(slot)
        assert slot.run is not None


def generators(first):
    """Return a generator with kernels, and the definition, in the same state."""
    fast, exact = NumpyRandom(SEED), PhiloxRandom(np, SEED)
    fast.offset = exact.offset = first
    return fast, exact


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("distribution", ["uniform", "normal"])
def test_floats(distribution, dtype, first):
    fast, exact = generators(first)
    for size in SIZES:
        y, expected = (
            getattr(generator, distribution)((size,), np.dtype(dtype))
            for generator in (fast, exact)
        )
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, expected)
        assert fast.offset == exact.offset


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize(
    "values", [1, 2, 10, 3 * 2**30, 2**32 - 1, 2**32, 2**32 + 1, 3 * 2**61, 2**64]
)
def test_integers(values, first):
    """Of 3 · 2³⁰ and 3 · 2⁶¹ values a quarter of all first attempts is refused."""
    fast, exact = generators(first)
    low = -(values // 2)
    for size in SIZES:
        y, expected = (
            generator.integers(low, low + values, (size,)) for generator in (fast, exact)
        )
        np.testing.assert_array_equal(y, expected)
        assert y.min() >= low and int(y.max()) < low + values
        assert fast.offset == exact.offset


@pytest.mark.parametrize("size", [0, 1, 2, 5, 1000, 100_001])
def test_permutations(size):
    fast, exact = generators(0)
    y = fast.permutation(size)
    np.testing.assert_array_equal(y, exact.permutation(size))
    np.testing.assert_array_equal(np.sort(y), np.arange(size))


def test_threads_never_draw_the_same_numbers():
    generator, (exact, _) = NumpyRandom(SEED), generators(0)
    samples = []

    def draw():
        for _ in range(20):
            samples.append(generator.uniform((1000,), np.dtype(np.float64)))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = exact.uniform((80_000,), np.dtype(np.float64))
    np.testing.assert_array_equal(np.sort(np.concatenate(samples)), np.sort(expected))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_number_of_threads_does_not_matter(threads):
    before = edutorch.get_num_threads()
    try:
        edutorch.set_num_threads(threads)
        fast, exact = generators(7)
        for distribution in ("uniform", "normal"):
            y = getattr(fast, distribution)((300_001,), np.dtype(np.float32))
            expected = getattr(exact, distribution)((300_001,), np.dtype(np.float32))
            np.testing.assert_array_equal(y, expected)
    finally:
        edutorch.set_num_threads(before)


def test_rand_and_dropout_are_the_same_with_and_without():
    def drawn():
        edutorch.manual_seed(3)
        x = edutorch.ones(300, 100)
        return edutorch.rand(200, 100), edutorch.nn.functional.dropout(x, 0.3), edutorch.randn(5)

    fast = drawn()
    with reference_only():
        exact = drawn()
    for a, b in zip(fast, exact, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
