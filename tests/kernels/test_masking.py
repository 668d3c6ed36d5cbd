"""Selection by a mask, and writes at one: as NumPy's."""

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs numba: the extra `fast`")
from edutorch.kernels.cpu.masking import put_masked, take_masked

TAKE, PUT = take_masked(), put_masked()


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex64"])
@pytest.mark.parametrize("size", [0, 1, 4096, 100_003])
@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_equals_numpy(dtype, size, share):
    generator = np.random.default_rng(size)
    array = generator.integers(0, 100, size).astype(dtype)
    mask = generator.random(size) < share
    np.testing.assert_array_equal(TAKE(array, mask), array[mask], strict=True)
    values = generator.integers(0, 100, np.count_nonzero(mask)).astype(dtype)
    for source in (values, np.ones((), dtype)):
        expected, y = array.copy(), array.copy()
        expected[mask] = source
        assert PUT(y, mask, source) is y
        np.testing.assert_array_equal(y, expected)


def test_other_cases_are_left_to_numpy():
    array, mask = np.ones((4, 6)), np.zeros((4, 6), bool)
    mask[1] = True
    assert TAKE(array, mask[0]) is TAKE(array[:, ::2], mask[:, ::2]) is None
    assert PUT(array, mask, np.ones(5)) is PUT(array, mask, np.ones(6, np.float32)) is None
