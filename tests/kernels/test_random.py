"""Random numbers by a kernel are NumPy's, to the last bit and from any state of the generator."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

import edutorch
from edutorch.backends import reference_only
from edutorch.backends.numpy import UNIFORM
from edutorch.kernels import make
from edutorch.kernels.cpu import random

COUNTS = st.sampled_from([0, 1, 2**64 - 40, 2**64 - 1])
"""Words of a generator's count; after the largest, the next word counts on."""

TYPES = st.sampled_from([np.float32, np.float64])


@pytest.fixture(scope="module")
def uniform():
    return random.uniform()


def generators(count=(0, 0, 0, 0)):
    """Return two generators in the same state."""
    samples = []
    for _ in range(2):
        bits = np.random.Philox(7)
        state = bits.state
        state["state"]["counter"] = np.array(count, np.uint64)
        bits.state = state
        samples.append(np.random.Generator(bits))
    return samples


def numbers_follow(one, other):
    """Say whether two generators go on alike."""
    drawn = [
        (
            source.random(3, np.float32),
            source.random(3),
            source.integers(0, 99, 5),
            source.normal(size=2),
        )
        for source in (one, other)
    ]
    return all(np.array_equal(a, b) for a, b in zip(*drawn, strict=True))


@settings(max_examples=60, deadline=None)
@given(
    dtype=TYPES, count=st.tuples(*[COUNTS] * 4), before=st.lists(TYPES, max_size=9),
    size=st.sampled_from([0, 1, 7, 8, 9, 33, 2048, 40_001]),
)  # fmt: skip
def test_the_numbers_that_numpy_draws(uniform, dtype, count, before, size):
    one, other = generators(count)
    for earlier_dtype in before:  # each leaves another part of the last words
        one.random(1, earlier_dtype), other.random(1, earlier_dtype)
    samples = uniform(one, (size,), dtype)
    exact = other.random(size, dtype)
    if samples is None:  # what was left from before was more than is wanted
        assert size < 8
        samples = one.random(size, dtype)
    assert samples.dtype == dtype
    np.testing.assert_array_equal(samples, exact)
    assert numbers_follow(one, other)


def test_other_types_and_generators_are_left(uniform):
    generator = np.random.Generator(np.random.Philox(1))
    assert uniform(generator, (100,), np.float16) is None
    assert uniform(np.random.default_rng(1), (100,), np.float32) is None


def test_shapes(uniform):
    one, other = generators()
    np.testing.assert_array_equal(uniform(one, (3, 4, 50), "f4"), other.random((3, 4, 50), "f4"))


def test_threads_never_draw_the_same_numbers(uniform):
    one, other = generators()
    samples = []

    def draw():
        for _ in range(20):
            samples.append(uniform(one, (1000,), np.float64))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(np.sort(np.concatenate(samples)), np.sort(other.random(80_000)))


def test_rand_and_dropout_are_the_same_with_and_without():
    make(UNIFORM)
    assert UNIFORM.run is not None

    def drawn():
        edutorch.manual_seed(3)
        x = edutorch.ones(300, 100)
        return edutorch.rand(200, 100), edutorch.nn.functional.dropout(x, 0.3), edutorch.rand(5)

    fast = drawn()
    with reference_only():
        exact = drawn()
    for a, b in zip(fast, exact, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
