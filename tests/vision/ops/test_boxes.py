"""Boxes: their overlap and suppression, against loops over pairs of boxes."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import float64, tensor
from edutorch.autograd import gradcheck
from edutorch.errors import DTypeError, ShapeError
from edutorch.vision import ops
from tests.vision.ops import references

PAIRWISE = {
    "box_iou": references.iou,
    "generalized_box_iou": references.generalized_iou,
    "distance_box_iou": references.distance_iou,
    "complete_box_iou": references.complete_iou,
}


def random_boxes(count: int, seed: int = 0, size: float = 100) -> np.ndarray:
    generator = np.random.default_rng(seed)
    corner = generator.uniform(0, size, (count, 2))
    return np.concatenate((corner, corner + generator.uniform(1, size / 2, (count, 2))), 1)


@pytest.mark.parametrize("name", PAIRWISE)
def test_pairs_equal_the_loop(name):
    boxes = random_boxes(1000)
    got = getattr(ops, name)(tensor(boxes[:10]), tensor(boxes))
    expected = [[PAIRWISE[name](a, b) for b in boxes] for a in boxes[:10]]
    assert np.allclose(got.numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PAIRWISE)
def test_pairs_have_gradients(name):
    boxes = tensor(random_boxes(5, seed=1), requires_grad=True)
    other = tensor(random_boxes(4, seed=2), requires_grad=True)
    if name == "complete_box_iou":  # its weight alpha is a constant to the gradient, by definition
        ops.complete_box_iou(boxes, other).sum().backward()
        assert boxes.grad.isfinite().all()
    else:
        assert gradcheck(getattr(ops, name), (boxes, other))


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.9])
def test_nms_of_1000_boxes(threshold):
    boxes = random_boxes(1000)
    scores = np.random.default_rng(3).permutation(1000) / 1000
    got = ops.nms(tensor(boxes), tensor(scores), threshold)
    assert got.dtype is edutorch.int64
    assert got.tolist() == references.nms(boxes, scores, threshold)


def test_nms_takes_the_first_of_equal_scores():
    boxes = tensor([[0.0, 0, 10, 10]] * 3)
    assert ops.nms(boxes, edutorch.ones(3), 0.5).tolist() == [0]


def test_nms_of_nothing():
    assert ops.nms(edutorch.zeros(0, 4), edutorch.zeros(0), 0.5).tolist() == []
    assert ops.batched_nms(
        edutorch.zeros(0, 4), edutorch.zeros(0), edutorch.zeros(0), 0.5
    ).shape == (0,)


def test_batched_nms_is_nms_of_each_class():
    boxes, generator = random_boxes(300), np.random.default_rng(4)
    scores, classes = generator.permutation(300) / 300, generator.integers(0, 5, 300)
    got = ops.batched_nms(tensor(boxes), tensor(scores), tensor(classes), 0.4).tolist()
    expected = []
    for c in range(5):
        rows = np.flatnonzero(classes == c)
        expected += [rows[i] for i in references.nms(boxes[rows], scores[rows], 0.4)]
    assert got == sorted(expected, key=lambda i: -scores[i])


@pytest.mark.parametrize("fmt", ["xyxy", "xywh", "cxcywh"])
def test_formats_there_and_back(fmt):
    boxes = tensor(random_boxes(20))
    other = ops.box_convert(boxes, "xyxy", fmt)
    assert ops.box_convert(other, fmt, "xyxy").allclose(boxes)
    assert ops.box_area(other, fmt).allclose(ops.box_area(boxes))
    assert ops.box_iou(other, other, fmt).allclose(ops.box_iou(boxes, boxes))


def test_area_of_small_integers_does_not_overflow():
    box = tensor([[0, 0, 100, 100]], dtype=edutorch.int8)
    assert ops.box_area(box).tolist() == [10_000]


def test_masks_to_boxes():
    masks = edutorch.zeros(3, 6, 8)
    masks[0, 2:4, 3:7] = 1
    masks[1, 5, 0] = 0.5
    assert ops.masks_to_boxes(masks).tolist() == [[3, 2, 6, 3], [0, 5, 0, 5], [0, 0, 0, 0]]
    assert ops.masks_to_boxes(edutorch.zeros(0, 6, 8)).shape == (0, 4)


def test_clip_and_remove_small():
    boxes = tensor([[-5.0, -5, 3, 3], [2, 2, 50, 50], [4, 4, 4.5, 9]])
    assert ops.clip_boxes_to_image(boxes, (10, 20)).tolist() == [
        [0, 0, 3, 3], [2, 2, 20, 10], [4, 4, 4.5, 9],
    ]  # fmt: skip
    assert ops.remove_small_boxes(boxes, 1).tolist() == [0, 1]


def test_errors():
    boxes = edutorch.zeros(3, 4)
    with pytest.raises(ShapeError, match=r"nms: expected boxes \(n 4\)"):
        ops.nms(edutorch.zeros(3, 5), edutorch.zeros(3), 0.5)
    with pytest.raises(ShapeError, match="a score for each box"):
        ops.nms(boxes, edutorch.zeros(2), 0.5)
    with pytest.raises(DTypeError, match="same type as scores"):
        ops.nms(boxes, edutorch.zeros(3, dtype=float64), 0.5)
    with pytest.raises(ShapeError, match="a class for each box"):
        ops.batched_nms(boxes, edutorch.zeros(3), edutorch.zeros(2), 0.5)
    with pytest.raises(ValueError, match="in_fmt must be one of"):
        ops.box_convert(boxes, "yxyx", "xyxy")
    with pytest.raises(ValueError, match="fmt must be one of"):
        ops.box_area(boxes, "yxyx")
    with pytest.raises(ShapeError, match=r"masks \(n h w\)"):
        ops.masks_to_boxes(edutorch.zeros(6, 8))
