"""Deformable convolution against a loop over pixels, and against plain convolution."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import tensor
from edutorch.autograd import gradcheck
from edutorch.errors import DTypeError, ShapeError
from edutorch.nn.functional import conv2d
from edutorch.vision import ops
from tests.vision.ops import references


def random_arguments(seed: int = 0) -> dict[str, np.ndarray]:
    """Two groups of filters, two groups of offsets, 2 x 3 taps, stride 2, padding 1, dilation 1."""
    generator = np.random.default_rng(seed)
    shapes = {
        "input": (2, 4, 5, 6), "offset": (2, 2 * 2 * 6, 3, 3), "weight": (4, 2, 2, 3),
        "bias": (4,), "mask": (2, 2 * 6, 3, 3),
    }  # fmt: skip
    return {name: generator.normal(0, 1.0, shape) for name, shape in shapes.items()}


def test_equals_the_loop():
    arrays = random_arguments()
    settings = {"stride": 2, "padding": 1, "dilation": 1}
    tensors = {name: tensor(array) for name, array in arrays.items()}
    got = ops.deform_conv2d(**tensors, **settings)
    images = arrays.pop("input")
    assert np.allclose(
        got.numpy(), references.deform_conv2d(images, **arrays, **settings), atol=1e-12
    )


def test_gradients_of_everything():
    tensors = {
        name: tensor(array, requires_grad=True) for name, array in random_arguments().items()
    }

    def convolve(*values):
        return ops.deform_conv2d(**dict(zip(tensors, values, strict=True)), stride=2, padding=1)

    assert gradcheck(convolve, tuple(tensors.values()))


def test_without_offsets_it_is_a_convolution():
    images, weight = edutorch.randn(2, 3, 7, 8), edutorch.randn(4, 3, 3, 3)
    offset = edutorch.zeros(2, 18, 7, 8)
    got = ops.deform_conv2d(images, offset, weight, padding=1)
    assert got.allclose(conv2d(images, weight, padding=1), atol=1e-5)


def test_module():
    layer = ops.DeformConv2d(2, 4, 3, padding=1, groups=2, bias=False)
    assert repr(layer) == (
        "DeformConv2d(in_channels=2, out_channels=4, kernel_size=(3, 3), stride=(1, 1), "
        "padding=(1, 1), dilation=(1, 1), groups=2, bias=False)"
    )
    images, offset = edutorch.randn(1, 2, 5, 5), edutorch.randn(1, 18, 5, 5)
    expected = ops.deform_conv2d(images, offset, layer.weight, padding=1)
    assert layer(images, offset).equal(expected)
    with pytest.raises(ShapeError, match="divisible by groups"):
        ops.DeformConv2d(3, 4, 3, groups=2)


def test_errors():
    images, weight = edutorch.zeros(1, 2, 5, 5), edutorch.zeros(4, 2, 3, 3)
    offset = edutorch.zeros(1, 18, 3, 3)
    with pytest.raises(ShapeError, match="a multiple of 2 · 9 taps"):
        ops.deform_conv2d(images, offset[:, :17], weight)
    with pytest.raises(ShapeError, match=r"an offset for each of the \(5, 5\) windows"):
        ops.deform_conv2d(images, offset, weight, padding=1)
    with pytest.raises(ShapeError, match="one channel for two of offset"):
        ops.deform_conv2d(images, offset, weight, mask=edutorch.zeros(1, 8, 3, 3))
    with pytest.raises(ShapeError, match="divided into groups"):
        ops.deform_conv2d(images, offset, edutorch.zeros(4, 3, 3, 3))
    with pytest.raises(ShapeError, match="expected four axes"):
        ops.deform_conv2d(images[0], offset, weight)
    with pytest.raises(ShapeError, match="one bias for each filter"):
        ops.deform_conv2d(images, offset, weight, edutorch.zeros(3))
    with pytest.raises(DTypeError, match="the same dtype"):
        ops.deform_conv2d(images.double(), offset, weight)
    with pytest.raises(ValueError, match="non-positive stride"):
        ops.deform_conv2d(images, offset, weight, stride=0)
