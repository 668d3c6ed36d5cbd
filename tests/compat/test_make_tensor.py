"""`torch.testing`: random tensors for tests, and what is said about two that differ."""

from __future__ import annotations

import pytest
from edutorch.testing import assert_close, make_tensor

import edutorch

RANGES = {
    edutorch.bool: (0, 2), edutorch.uint8: (0, 10), edutorch.int64: (-9, 10),
    edutorch.float32: (-9, 9), edutorch.bfloat16: (-9, 9.1), edutorch.float64: (-9, 9),
}  # fmt: skip


@pytest.mark.parametrize("dtype", RANGES, ids=str)
def test_default_ranges(dtype):
    edutorch.manual_seed(0)
    values = make_tensor(20, 30, dtype=dtype)
    assert values.dtype is dtype
    assert values.shape == (20, 30)
    low, high = RANGES[dtype]
    assert low <= float(values.float().min()) < float(values.float().max()) <= high


def test_settings():
    assert make_tensor((2, 3), dtype=edutorch.float32, requires_grad=True).requires_grad
    assert make_tensor(4, dtype=edutorch.complex64).is_complex()
    assert make_tensor((), dtype=edutorch.float32).ndim == 0
    odd = make_tensor(2, 3, dtype=edutorch.float32, noncontiguous=True)
    assert odd.shape == (2, 3)
    assert not odd.is_contiguous()
    assert make_tensor(500, dtype=edutorch.int64, low=0, high=2, exclude_zero=True).eq(1).all()
    image = make_tensor(
        1, 3, 4, 5, dtype=edutorch.uint8, memory_format=edutorch.channels_last, high=256
    )
    assert image.is_contiguous(memory_format=edutorch.channels_last)
    for dtype, low in (edutorch.int64, 3), (edutorch.float32, 3.5):
        with pytest.raises(ValueError, match="low must be less than high"):
            make_tensor(2, dtype=dtype, low=low, high=3)
    with pytest.warns(FutureWarning, match="low equals high"):
        assert make_tensor(2, dtype=edutorch.float32, low=3, high=3).tolist() == [3.0, 3.0]


def test_the_difference_of_bytes_is_not_wrapped():
    one, other = (edutorch.tensor([value, 9], dtype=edutorch.uint8) for value in (3, 5))
    with pytest.raises(AssertionError, match="Greatest absolute difference: 2 at index"):
        assert_close(one, other)
