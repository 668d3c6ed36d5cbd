"""Padding, pooling, folding and norm layers against PyTorch: repr, state and values."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import nn
from tests.nn.compare import assert_close, ours_of
from tests.nn.functions import assert_refused


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling_undoes_pooling(rank, device, torch):
    x = torch.randn(1, 2, *(6, 4, 4)[:rank], dtype=torch.float64)
    results = []
    for library, image in ((torch.nn, x), (nn, ours_of(x, device))):
        pool = getattr(library, f"MaxPool{rank}d")(2, 2, return_indices=True)
        back = getattr(library, f"MaxUnpool{rank}d")(2, 2)
        results += [back(*pool(image), output_size=image.shape), repr(back)]
    assert_close(results[2], results[0])
    assert results[3] == results[1]


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_pooling(rank, device, torch):
    u = torch.rand(1, 2, rank, dtype=torch.float64)
    x = torch.randn(1, 2, *(7, 8, 9)[:rank], dtype=torch.float64)
    name = f"FractionalMaxPool{rank}d"
    theirs = getattr(torch.nn, name)(2, output_ratio=0.5, return_indices=True, _random_samples=u)
    ours = getattr(nn, name)(
        2, output_ratio=0.5, return_indices=True, _random_samples=ours_of(u, device)
    )
    assert_close(ours(ours_of(x, device)), theirs(x))
    assert repr(ours) == repr(theirs)


def test_refusals():
    assert_refused(lambda: nn.FractionalMaxPool2d(2), "either output_size or output_ratio")
    assert_refused(lambda: nn.FractionalMaxPool2d(2, output_ratio=1.5), "between 0 and 1")
    assert_refused(lambda: nn.ZeroPad2d((1, 2, 3)), "expected one number or 4")
    assert_refused(lambda: nn.BatchNorm3d(2)(edutorch.ones(1, 2, 3, 3)), "expected 5D input")


@pytest.mark.parametrize("layer", [nn.Conv1d, nn.Conv2d, nn.Conv3d])
def test_padding_is_a_number_several_or_a_text(layer):
    rank = int(layer.__name__[-2])
    for padding in (1, (1,) * rank, [1] * rank, "same", "valid"):
        layer(2, 3, 3, padding=padding)
    for padding in (("a",) * rank, [1.5] * rank, 1.5):
        with pytest.raises(TypeError, match="argument `padding` must be Size or str"):
            layer(2, 3, 3, padding=padding)
