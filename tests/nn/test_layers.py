"""Combinations and properties of layers (their values: tests/test_every_module.py)."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import nn
from tests.nn.compare import compare_modules


def test_max_pool_finds_the_places_that_pytorch_finds(device, torch):
    image = torch.randn(2, 3, 7, 8)
    settings = {"kernel_size": 3, "stride": 2, "padding": 1, "return_indices": True}
    _, expected = torch.nn.MaxPool2d(**settings)(image)
    _, indices = nn.MaxPool2d(**settings)(edutorch.tensor(image.numpy()))
    assert indices.tolist() == expected.tolist()


def test_max_pool_does_not_pass_over_nan(device):
    image = edutorch.tensor([[[1.0, float("nan")], [3.0, 4.0]]])
    assert bool(nn.functional.max_pool2d(image, 2).isnan().all())


def test_a_relu_in_place_behind_a_pooling(device, torch):
    """PyTorch allows it, so the pooling's gradient must not need its output."""
    theirs = torch.nn.Sequential(torch.nn.MaxPool2d(2), torch.nn.ReLU(inplace=True))
    ours = nn.Sequential(nn.MaxPool2d(2), nn.ReLU(inplace=True))
    compare_modules(ours, theirs, [torch.randn(2, 3, 6, 6, dtype=torch.float64)], device)


def test_a_small_resnet_equals_pytorch(device, torch):
    """A residual network with a block that is used twice."""

    def make(library):
        class Block(library.Module):
            def __init__(self, channels):
                super().__init__()
                self.conv1 = library.Conv2d(channels, channels, 3, padding=1, bias=False)
                self.bn1 = library.BatchNorm2d(channels)
                self.conv2 = library.Conv2d(channels, channels, 3, padding=1, bias=False)
                self.bn2 = library.BatchNorm2d(channels)
                self.relu = library.ReLU(inplace=True)

            def forward(self, x):
                y = self.relu(self.bn1(self.conv1(x)))
                return self.relu(self.bn2(self.conv2(y)) + x)

        return library.Sequential(
            library.Conv2d(3, 4, 3, stride=2, padding=1), library.MaxPool2d(2), Block(4), Block(4),
            library.AdaptiveAvgPool2d(1), library.Flatten(), library.Linear(4, 5),
        ).double()  # fmt: skip

    torch.manual_seed(2)
    theirs, ours = make(torch.nn), make(nn)
    assert repr(ours) == repr(theirs)
    compare_modules(ours, theirs, [torch.randn(3, 3, 12, 12, dtype=torch.float64)], device)


@pytest.mark.parametrize("name", ["dropout", "dropout1d", "dropout2d"])
def test_dropout_drops_and_scales(name, device):
    shape = (50, 20, 20) if name == "dropout1d" else (50, 20, 4, 5)
    x = edutorch.ones(*shape, requires_grad=True)
    y = getattr(nn.functional, name)(x, 0.25)
    values = sorted(set(y.flatten().tolist()))
    assert values == pytest.approx([0, 1 / 0.75])
    assert y.mean().item() == pytest.approx(1, abs=0.1)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()
    if name != "dropout":
        channels = y.reshape(50, 20, -1)
        assert bool((channels.amin(-1) == channels.amax(-1)).all())


def test_dropout_of_everything(device):
    assert nn.functional.dropout(edutorch.ones(3), 1.0).tolist() == [0, 0, 0]


def test_dropout_in_evaluation_changes_nothing(device):
    x = edutorch.ones(3)
    assert nn.Dropout().eval()(x) is x


@pytest.mark.parametrize("padding", [1, (1, 1), [1, 1], "same"])
def test_padding_is_a_size_or_a_word(padding):
    layer = edutorch.nn.Conv2d(2, 3, 3, padding=padding)
    assert layer(edutorch.ones(1, 2, 5, 5)).shape == (1, 3, 5, 5)


def test_padding_is_no_list_of_words():
    with pytest.raises(TypeError, match="`padding` must be Size or str, not tuple"):
        edutorch.nn.Conv2d(2, 3, 3, padding=("same", 1))
