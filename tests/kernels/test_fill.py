"""Fills of large new memory: to the bit what `numpy.full` makes."""

import numpy as np
import pytest

from edutorch import dtypes
from edutorch.backends.numpy import make_full

pytest.importorskip("numba", reason="needs numba: the extra `fast`")
from edutorch.kernels.cpu.fill import count_up, fill, linspace

RUN = fill()


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("value", [0, 1, -0.0, float("nan"), True, 2.75])
def test_equals_numpy(dtype, value):
    if isinstance(value, float) and np.isnan(value) and dtype.category < 2:
        pytest.skip("no integer is NaN")
    expected = np.full(40_001, value, dtype.numpy)
    filled = RUN(np.empty(40_001, dtype.numpy), value)
    assert (filled is None) == (dtype.itemsize > 8)
    for array in (filled, make_full(np, (40_001,), value, dtype.numpy)):
        if array is not None:
            assert array.tobytes() == expected.tobytes()


def test_leaves_gaps_alone():
    assert RUN(np.empty((300, 300), np.float32)[:, ::2], 1) is None


def test_counts_up():
    assert np.array_equal(count_up()(300_001), np.arange(300_001))


@pytest.mark.parametrize("bounds", [(0, 1), (-1.5, 2), (3, -7), (1e-30, 1e30), (-0.0, -5)])
def test_spaces_evenly(bounds):
    for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        expected = np.linspace(*bounds, 1001).astype(dtype)
        step = (bounds[1] - bounds[0]) / 1000
        assert linspace()(bounds[0], step, bounds[1], 1001, dtype).tobytes() == expected.tobytes()
    assert linspace()(0, 1, 3, 4, np.dtype(np.float16)) is None
