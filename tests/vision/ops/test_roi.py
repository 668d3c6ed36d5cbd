"""Pooling of regions against loops over boxes, bins and pixels."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import tensor
from edutorch.autograd import gradcheck
from edutorch.errors import ArgumentError, DimError, DTypeError, ShapeError
from edutorch.vision import ops
from tests.vision.ops import references

BY_NAME = {
    "roi_align": {"sampling_ratio": 2, "aligned": True},
    "ps_roi_align": {"sampling_ratio": 2},
    "roi_pool": {},
    "ps_roi_pool": {},
}


def random_rois(count: int, seed: int = 0, size: float = 24) -> np.ndarray:
    """Boxes of two images; some are small, and some reach far out of the image."""
    generator = np.random.default_rng(seed)
    image = generator.integers(0, 2, (count, 1))
    corner = generator.uniform(-size / 4, size, (count, 2))
    return np.concatenate((image, corner, corner + generator.uniform(0, size, (count, 2))), 1)


def random_images(channels: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((2, channels, 11, 13))


@pytest.mark.parametrize("ratio", [2, -1])
@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align(ratio, aligned):
    images, rois = random_images(2), random_rois(40)
    got = ops.roi_align(tensor(images), tensor(rois), (3, 2), 0.5, ratio, aligned)
    expected = references.roi_align(images, rois, (3, 2), 0.5, ratio, aligned)
    assert np.allclose(got.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("ratio", [2, -1])
def test_ps_roi_align(ratio):
    images, rois = random_images(12), random_rois(40)
    got = ops.ps_roi_align(tensor(images), tensor(rois), (3, 2), 0.5, ratio)
    expected = references.roi_align(images, rois, (3, 2), 0.5, ratio, True, sensitive=True)
    assert np.allclose(got.numpy(), expected, atol=1e-12)


def test_roi_pool():
    images, rois = random_images(2), random_rois(40)
    got = ops.roi_pool(tensor(images), tensor(rois), (3, 2), 0.5)
    assert np.array_equal(got.numpy(), references.roi_pool(images, rois, (3, 2), 0.5))


def test_ps_roi_pool():
    images, rois = random_images(12), random_rois(40)
    got = ops.ps_roi_pool(tensor(images), tensor(rois), (3, 2), 0.5)
    expected = references.roi_pool(images, rois, (3, 2), 0.5, sensitive=True)
    assert np.allclose(got.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("name", BY_NAME)
def test_gradients(name):
    images = tensor(random_images(4)[:, :, :5, :4].copy(), requires_grad=True)
    rois = tensor(random_rois(6, size=10))
    assert gradcheck(lambda x: getattr(ops, name)(x, rois, 2, 0.5, **BY_NAME[name]), (images,))


@pytest.mark.parametrize("name", BY_NAME)
def test_no_boxes_at_all(name):
    images = edutorch.ones(2, 4, 5, 5, requires_grad=True)
    pooled = getattr(ops, name)(images, edutorch.zeros(0, 5), 2)
    assert pooled.shape == (0, 4 if name[0] == "r" else 1, 2, 2)
    pooled.sum().backward()
    assert images.grad.eq(0).all()


@pytest.mark.parametrize("name", BY_NAME)
def test_a_list_of_boxes_by_image(name):
    images, rois = tensor(random_images(4)), tensor(random_rois(8))
    rois = rois[rois[:, 0].argsort(stable=True)]
    by_image = [rois[rois[:, 0] == i, 1:] for i in (0, 1)]
    pool = getattr(ops, name)
    assert pool(images, by_image, 2).equal(pool(images, rois, 2))


@pytest.mark.parametrize("name", BY_NAME)
def test_boxes_far_outside_are_zero(name):
    far = tensor([[0.0, 500, 500, 520, 520], [1.0, -90, -90, -50, -50]])
    assert getattr(ops, name)(edutorch.ones(2, 4, 6, 6), far, 2).eq(0).all()


def test_16_bits_are_computed_in_32():
    images, rois = tensor(random_images(2)).half(), tensor(random_rois(8)).half()
    got = ops.roi_align(images, rois, 2)
    assert got.dtype is edutorch.float16
    assert got.equal(ops.roi_align(images.float(), rois.float(), 2).half())


def test_blocks_change_nothing(monkeypatch):
    images, rois = tensor(random_images(2)), tensor(random_rois(8))
    whole = ops.roi_align(images, rois, 3)
    monkeypatch.setattr("edutorch.vision.ops.roi_pixels.BLOCK", 100)
    assert ops.roi_align(images, rois, 3).equal(whole)


def test_modules():
    images, rois = tensor(random_images(4)), tensor(random_rois(5))
    assert ops.RoIAlign(2, 0.5, 2, True)(images, rois).equal(
        ops.roi_align(images, rois, 2, 0.5, 2, True)
    )
    assert ops.RoIPool(2, 0.5)(images, rois).equal(ops.roi_pool(images, rois, 2, 0.5))
    assert ops.PSRoIAlign(2, 0.5, 2)(images, rois).equal(ops.ps_roi_align(images, rois, 2, 0.5, 2))
    assert ops.PSRoIPool(2, 0.5)(images, rois).equal(ops.ps_roi_pool(images, rois, 2, 0.5))


def test_errors():
    images, rois = edutorch.zeros(2, 3, 5, 5), edutorch.zeros(1, 5)
    with pytest.raises(ShapeError, match=r"in a list"):
        ops.roi_align(images, rois[:, :4], 2)
    with pytest.raises(ShapeError, match=r"expected as \(k 4\)"):
        ops.roi_align(images, [rois], 2)
    with pytest.raises(ArgumentError, match="a tensor or a list of them, got int"):
        ops.roi_pool(images, 3, 2)
    with pytest.raises(ShapeError, match="a batch of feature maps"):
        ops.roi_pool(images[0], rois, 2)
    with pytest.raises(DTypeError, match="same dtype"):
        ops.roi_align(images, rois.double(), 2)
    with pytest.raises(DimError, match="image 7, but the batch has 2"):
        ops.roi_align(images, rois + 7, 2)
    with pytest.raises(ShapeError, match="a multiple of the 4 bins"):
        ops.ps_roi_align(images, rois, 2)
