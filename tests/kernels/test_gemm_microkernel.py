"""Tiles in registers give the product of matrices, however they lie and wherever they end."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="needs numba: the extra `fast`")

from numba import njit

from edutorch.kernels.cpu import gemm_microkernel
from edutorch.kernels.cpu.gemm_microkernel import gemm_address


@njit
def tiled(workspace, sizes, a, a_steps, b, b_steps, s, s_row, y, y_row):
    left, right = (a, a_steps[0], a_steps[1]), (b, b_steps[0], b_steps[1])
    gemm_microkernel.multiply(workspace, sizes, left, right, (s, s_row), (y, y_row))


@njit
def workspace_for(like):
    return gemm_microkernel.workspace_for(like)


def place(x):
    return x.__array_interface__["data"][0]


def steps(x):
    return tuple(step // x.itemsize for step in x.strides)


def laid(x, turned, gap):
    """The same matrix as the transpose of what lies in memory, and with gaps between its rows."""
    matrix = x.T if turned else x
    whole = np.full((matrix.shape[0], matrix.shape[1] + gap), np.nan, x.dtype)
    part = whole[:, : matrix.shape[1]]
    part[:] = matrix
    return part.T if turned else part


@settings(max_examples=60, deadline=None)
@example((65, 2, 129), "float32", False, False, 0, "zeros")  # two of its last digits are lost
@given(
    sizes=st.tuples(*[st.sampled_from([1, 2, 5, 6, 7, 16, 17, 31, 33, 64, 65, 129])] * 2,
                    st.sampled_from([0, 1, 3, 16, 40, 127, 128, 129, 300, 600])),
    dtype=st.sampled_from(["float32", "float64"]), a_turned=st.booleans(), b_turned=st.booleans(),
    gap=st.sampled_from([0, 1, 5]), begin=st.sampled_from(["zeros", "bias", "y"]),
)  # fmt: skip
def test_as_numpy(sizes, dtype, a_turned, b_turned, gap, begin):
    generator = np.random.default_rng(0)
    m, n, k = sizes
    a = laid(generator.normal(size=(m, k)).astype(dtype), a_turned, gap)
    b = laid(generator.normal(size=(k, n)).astype(dtype), b_turned, gap)
    bias = generator.normal(size=n).astype(dtype)
    whole = generator.normal(size=(m + 2, n + 5)).astype(dtype)
    before, y = whole.copy(), whole[1:-1, 2 : 2 + n]
    exact = a.astype(float) @ b.astype(float)
    exact += {"zeros": 0.0, "bias": bias, "y": y.astype(float)}[begin]
    s, s_row = {"zeros": (0, 0), "bias": (place(bias), 0), "y": (place(y), n + 5)}[begin]
    tiled(
        workspace_for(y), sizes, place(a), steps(a), place(b), steps(b), s, s_row, place(y), n + 5
    )
    summed = abs(a).astype(float) @ abs(b)
    tolerance = (4e-7 if dtype == "float32" else 8e-16) * max(3, summed.max(initial=0))
    np.testing.assert_allclose(y, exact, rtol=0, atol=tolerance)
    before[1:-1, 2 : 2 + n] = y  # nothing else was written
    np.testing.assert_array_equal(whole, before)


def test_as_exact_as_blas():
    generator = np.random.default_rng(0)
    a, b = (generator.normal(size=(500, 500)).astype("float32") for _ in "ab")
    y = np.empty((500, 500), "float32")
    tiled(workspace_for(y), (500,) * 3, place(a), (500, 1), place(b), (500, 1), 0, 0, place(y), 500)
    exact = a.astype(float) @ b
    assert np.std(y - exact) <= 1.1 * np.std(a @ b - exact)


def test_what_is_not_a_number_stays_in_its_row_and_column():
    a, b = np.ones((20, 30)), np.ones((30, 40))
    a[7, 8], b[8, 9], b[9, 11] = np.nan, np.inf, -np.inf
    y = np.empty((20, 40))
    tiled(workspace_for(y), (20, 40, 30), place(a), (30, 1), place(b), (40, 1), 0, 0, place(y), 40)
    np.testing.assert_array_equal(y, a @ b)


@pytest.mark.parametrize("by_tiles", [True, False])
@pytest.mark.skipif(gemm_address(np.float64) is None, reason="NumPy's BLAS cannot be called")
def test_by_tiles_or_by_blas(by_tiles, monkeypatch):
    monkeypatch.setattr(gemm_microkernel, "TILES_ARE_FASTER", by_tiles)
    matmul_into = njit(gemm_microkernel.matmul_into.py_func)

    @njit
    def added(at, workspace, sizes, a, a_steps, b, b_steps, y, y_row, more):
        left, right = (a, a_steps[0], a_steps[1]), (b, b_steps[0], b_steps[1])
        matmul_into(at, workspace, sizes, left, right, (y, y_row), more)

    generator = np.random.default_rng(0)
    for a_turned, b_turned in ((0, 0), (0, 1), (1, 0), (1, 1)):
        a = laid(generator.normal(size=(20, 30)), a_turned, 3)
        b = laid(generator.normal(size=(30, 40)), b_turned, 2)
        y = np.empty((20, 40))
        for more in (False, True):
            added(
                gemm_address(y.dtype),
                workspace_for(y),
                (20, 40, 30),
                place(a),
                steps(a),
                place(b),
                steps(b),
                place(y),
                40,
                more,
            )
            np.testing.assert_allclose(y, (1 + more) * (a @ b), rtol=0, atol=1e-13)
