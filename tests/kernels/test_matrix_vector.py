"""One row times a large matrix: the threads read parts of the matrix at the same time."""

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs numba: the extra `fast`")

import edutorch
from edutorch.backends import reference_only
from edutorch.kernels.cpu.matrix_vector import row_product
from edutorch.ops.linalg import ROW_PRODUCT, matrix_product

SHAPES = [(768, 2304), (771, 1003), (3, 90_001), (90_001, 5), (257, 258)]


@pytest.fixture(autouse=True, params=[2, 3])
def _threads(request, monkeypatch):
    monkeypatch.setattr(edutorch.settings.State, "threads", request.param)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_both_layouts(shape, dtype):
    generator = np.random.default_rng(0)
    row = generator.normal(size=(1, shape[0])).astype(dtype)
    matrix = generator.normal(size=shape).astype(dtype)
    exact = row.astype(float) @ matrix
    for b in (matrix, np.asfortranarray(matrix)):
        y = row_product()(row, b)
        assert y.dtype == dtype
        assert y.shape == exact.shape
        tolerance = 4e-6 if dtype == "float32" else 1e-14
        assert abs(y - exact).max() <= tolerance * abs(exact).max()


def test_what_is_not_a_number_comes_through():
    row, b = np.zeros((1, 600), "f"), np.ones((600, 700), "f")
    b[3, 4], b[5, 699] = np.inf, np.nan
    for matrix in (b, np.asfortranarray(b)):
        y = row_product()(row, matrix)
        assert np.flatnonzero(np.isnan(y)).tolist() == [4, 699]


@pytest.mark.parametrize(
    ("row", "b"),
    [
        (np.ones((1, 600), "f"), np.ones((600, 1400), "f")[:, ::2]),
        (np.ones((1, 600), "f"), np.ones((601, 700), "f")),
        (np.ones((1, 1200), "f")[:, ::2], np.ones((600, 700), "f")),
        (np.ones((1, 600), "f"), np.ones((600, 700), "d")),
        (np.ones((1, 600), "i"), np.ones((600, 700), "i")),
        (np.ones((1, 60), "f"), np.ones((60, 70), "f")),
    ],
    ids=["a view", "sizes", "a row with gaps", "two dtypes", "integers", "small"],
)
def test_other_cases_are_left_to_numpy(row, b):
    assert row_product()(row, b) is None


@pytest.mark.parametrize("shape", [(1, 600), (1, 1, 600)])
def test_a_product_uses_it_for_one_row(shape, monkeypatch):
    calls = []

    def kernel(row, b):
        calls.append((row.shape, b.shape))
        return row_product()(row, b)

    monkeypatch.setattr(ROW_PRODUCT, "run", kernel)
    x, b = edutorch.randn(*shape), edutorch.randn(600, 700)
    y = x @ b
    assert calls == [((1, 600), (600, 700))]
    with reference_only():
        expected = x @ b
    edutorch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-4)
    assert matrix_product(np, np.ones((2, 600)), np.ones((600, 700))).shape == (2, 700)
    assert len(calls) == 1
