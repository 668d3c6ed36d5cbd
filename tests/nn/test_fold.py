"""`fold` and `unfold` against PyTorch."""

from __future__ import annotations

import pytest

import edutorch
from edutorch.nn import functional as F
from tests.nn.functions import assert_refused, compare_calls

SETTINGS = [
    {"kernel_size": 2}, {"kernel_size": (2, 3), "padding": 1},
    {"kernel_size": (3, 2), "stride": (1, 2), "dilation": (1, 2), "padding": (2, 0)},
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("batch", [True, False])
def test_unfold_and_fold(settings, batch, device, torch):
    shape = (2, 3, 5, 6) if batch else (3, 5, 6)
    compare_calls(torch, device, lambda f, x: f.unfold(x, **settings), shape)
    columns = torch.nn.functional.unfold(torch.zeros(shape), **settings).shape
    compare_calls(torch, device, lambda f, x: f.fold(x, (5, 6), **settings), tuple(columns))


@pytest.mark.parametrize("settings", SETTINGS)
def test_each_is_the_others_transpose(settings, device):
    x = edutorch.randn(1, 2, 5, 6, dtype=edutorch.float64, device=device)
    columns = F.unfold(x, **settings)
    y = edutorch.randn(*columns.shape, dtype=edutorch.float64, device=device)
    there, back = (columns * y).sum(), (x * F.fold(y, (5, 6), **settings)).sum()
    assert there.item() == pytest.approx(back.item())


def test_a_convolution_is_a_product_with_columns(device):
    x, w = edutorch.randn(2, 3, 5, 5, device=device), edutorch.randn(4, 3, 2, 2, device=device)
    y = (w.reshape(4, -1) @ F.unfold(x, 2)).reshape(2, 4, 4, 4)
    assert edutorch.allclose(y, F.conv2d(x, w), atol=1e-5)


def test_refusals():
    ones = edutorch.ones
    assert_refused(lambda: F.unfold(ones(2, 3), 2), "expected images")
    assert_refused(lambda: F.unfold(ones(1, 3, 3), 4), "greater than actual input size")
    assert_refused(
        lambda: F.unfold(ones(1, 3, 3), 2, stride=0), "stride should be greater than zero"
    )
    assert_refused(lambda: F.unfold(ones(1, 3, 3), 2, padding=-1), "padding should be non-negative")
    assert_refused(
        lambda: F.fold(ones(1, 4, 3), (3, 3), 2), "has 4 windows, but there are 3 columns"
    )
    assert_refused(lambda: F.fold(ones(1, 5, 4), (3, 3), 2), "no multiple of a window's 4")
    assert_refused(lambda: F.fold(ones(5), (3, 3), 2), "expected columns")
