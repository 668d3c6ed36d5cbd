"""Batches of matrices multiplied as they lie, and rows added where they belong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

import edutorch
from edutorch.backends import CPU, reference_only
from edutorch.backends.blas import blas
from edutorch.backends.kernel_registry import slot_of
from edutorch.kernels.cpu.matmul import batched

pytestmark = pytest.mark.skipif(blas() is None, reason="NumPy's BLAS cannot be called")
SIZE = st.one_of(st.integers(1, 9), st.sampled_from([24, 67]))


@st.composite
def operands(draw):
    """Draw two batches of matrices that broadcast, lying in memory in one way or another."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    batch = draw(st.lists(st.integers(1, 3), max_size=3))
    m, n, k = draw(st.tuples(SIZE, SIZE, SIZE))
    generator = np.random.default_rng(0)
    matrices = []
    for down, along in ((m, k), (k, n)):
        own = [draw(st.sampled_from([size, 1])) for size in batch]
        own = own[draw(st.integers(0, len(own))) :]
        x = generator.normal(size=(*own, down, along)).astype(dtype)
        way = draw(st.sampled_from(["plain", "turned", "gaps", "heads"]))
        if way == "turned":
            x = np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
        elif way == "gaps":
            x = np.repeat(x, 2, -1)[..., ::2]
        elif way == "heads" and own:
            x = np.ascontiguousarray(x.swapaxes(-2, -3)).swapaxes(-2, -3)
        matrices.append(x)
    return matrices


@settings(max_examples=60, deadline=None)
@given(pair=operands())
def test_as_numpy_multiplies(pair):
    a, b = pair
    y = batched()(a, b)
    exact = np.matmul(a.astype(float), b.astype(float))
    if y is None:  # two matrices, or one for a small batch: done elsewhere
        assert a.ndim == b.ndim == 2 or b.ndim == 2
        return
    assert y.dtype == a.dtype and y.shape == exact.shape
    tolerance = 3e-5 if a.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(y, exact, rtol=tolerance, atol=tolerance)


def test_other_operands_are_left_to_numpy():
    a = np.ones((2, 3, 4))
    for left, right in [
        (a, np.ones(4)), (a, np.ones((2, 4, 3), np.float32)), (a, np.ones((2, 5, 3))),
        (a, np.ones((3, 4, 3))), (a[:, :, :0], np.ones((2, 0, 3))),
        (np.ones((1, 1, 1, 1, 2, 2)), np.ones((1, 1, 1, 1, 2, 2))),
    ]:  # fmt: skip
        assert batched()(left, right) is None


@pytest.mark.parametrize("name", ["bmm", "matmul"])
def test_ops_and_their_gradients(name, monkeypatch):
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    edutorch.manual_seed(0)
    lead = (6,) if name == "bmm" else (2, 3)
    a = edutorch.randn(*lead, 30, 40, dtype=edutorch.float64)
    b = edutorch.randn(*lead, 50, 40, dtype=edutorch.float64)

    def gradients():
        x, z = a.detach().requires_grad_(), b.detach().requires_grad_()
        y = getattr(edutorch, name)(x, z.transpose(-1, -2))
        y.cos().sum().backward()
        return [tensor.detach().numpy() for tensor in (y, x.grad, z.grad)]

    fast = gradients()
    assert slot_of(name).run is not None
    with reference_only():
        exact = gradients()
    for one, other in zip(fast, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


# Rows added where they belong ----------------------------------------------------------------


def random_array(*shape, dtype=np.float32):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


def random_indices(low, high, *shape):
    return np.random.default_rng(1).integers(low, high, shape)


CASES = {
    "rows": ((50, 40), random_indices(0, 50, 300), (300, 40)),
    "from behind": ((50, 40), (random_indices(-50, 50, 300),), (300, 40)),
    "and all of the rest": (
        (50, 4, 10),
        (random_indices(0, 50, 20, 5), slice(None), ...),
        (20, 5, 4, 10),
    ),
    "numbers": ((50,), random_indices(0, 50, 9000), (9000,)),
    "along an axis": ((50, 90), (random_indices(0, 50, 60, 90), np.arange(90)[None]), (60, 90)),
    "the same value": ((9, 600), random_indices(0, 9, 70), (600,)),
    "int32": ((50, 40), random_indices(0, 50, 300).astype(np.int32), (300, 40)),
    "a slice in front": ((7, 50, 40), (slice(None), random_indices(0, 50, 30)), (7, 30, 40)),
    "the last axis": ((3, 5, 50), (*[slice(None)] * 2, random_indices(-50, 50, 200)), (3, 5, 200)),
    "two axes in the middle": (
        (3, 20, 30, 5),
        (slice(None), random_indices(0, 20, 4, 9), random_indices(-30, 30, 9)),
        (3, 4, 9, 5),
    ),
    "the same value in each block": ((4, 50, 9), (slice(None), random_indices(0, 50, 40)), (40, 9)),
    "a slice in between": (
        (9, 6, 20),
        (random_indices(0, 9, 50), slice(None), random_indices(0, 20, 50)),
        (50, 6),
    ),
    "a mask": ((50, 400), random_array(50) > 0, (400,)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_scatter_add(case, dtype, monkeypatch):
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    monkeypatch.setattr(edutorch.settings.State, "threads", 3)
    shape, index, more = case
    values = (100 * random_array(*more, dtype=np.float64)).astype(dtype)
    result, exact = np.zeros(shape, dtype), np.zeros(shape, dtype)
    CPU.scatter_add(result, index, values)
    np.add.at(exact, index, values)
    np.testing.assert_array_equal(result, exact)  # the same sums in the same order


def test_a_place_that_does_not_exist(monkeypatch):
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    with pytest.raises(IndexError):
        CPU.scatter_add(np.zeros((5, 100)), np.full(90, 5), np.ones((90, 100)))


def test_the_gradient_of_an_embedding(monkeypatch):
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    table = edutorch.nn.Embedding(20, 64)
    words = edutorch.tensor(random_indices(0, 20, 8, 30))
    table(words).sum().backward()
    counts = np.bincount(words.numpy().reshape(-1), minlength=20)
    np.testing.assert_array_equal(table.weight.grad.numpy(), np.repeat(counts[:, None], 64, 1))
