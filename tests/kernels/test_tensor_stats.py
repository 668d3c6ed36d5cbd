"""Summaries of many arrays at once: the kernel, NumPy's way, and one array by itself agree."""

import numpy as np
import pytest

pytest.importorskip("numba")

from edutorch.kernels.cpu.reductions import tensor_statistics
from edutorch.viz.live.messages import numpy_row_statistics as by_numpy
from edutorch.viz.live.messages import row_statistics, scaled_norm
from edutorch.viz.tensors.summaries import summarize


@pytest.fixture(scope="module")
def kernel():
    return tensor_statistics()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 3, 64, 700])
def test_it_equals_its_definition(kernel, dtype, size):
    data = (np.random.default_rng(size).standard_normal((50, size)) * 3 + 1).astype(dtype)
    data[3, 0], data[4, -1], data[5, 0] = np.nan, np.inf, -np.inf
    data[6, 0], data[6, -1] = np.inf, -np.inf
    data[7], data[8] = data[7] * dtype_scale(dtype), 0
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(kernel(data), by_numpy(data), rtol=1e-12, atol=1e-12)
        alone = [summarize(row) for row in data]
        result, finite = row_statistics(data)
        assert not finite and row_statistics(data[7:])[1]
    for row, statistics in zip(result, alone, strict=True):
        assert row[0] == size
        np.testing.assert_allclose(row[2:4], [statistics.min, statistics.max])
        np.testing.assert_allclose(row[4], statistics.norm, rtol=1e-5)


def dtype_scale(dtype):
    """So large that squares are infinite in the type itself."""
    return np.array(1e30 if dtype == "float32" else 1e150, dtype)


def test_other_arrays_are_refused(kernel):
    assert kernel(np.zeros((4, 4), "int64")) is None
    assert kernel(np.zeros((4, 8), "float32")[:, ::2]) is None
    assert kernel(np.zeros((0, 8), "float32")) is None


def test_norms_of_any_size():
    assert scaled_norm(np.array([3e200, 4e200])) == pytest.approx(5e200)
    assert np.isnan(scaled_norm(np.array([1.0, np.inf])))
