"""Grids of images, and drawing: against the real torchvision's answers, and what is refused."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

import edutorch
from edutorch.errors import EdutorchError
from edutorch.vision import utils
from tests.vision import golden_utils
from tests.vision.golden_transforms import unpack

PIL = pytest.importorskip("PIL.Image", reason="needs the extra `vision`")


def test_as_torchvision():
    expected = json.loads(golden_utils.FILE.read_text())
    results = golden_utils.answers(edutorch, utils)
    assert expected.keys() == results.keys()
    wrong = {}
    for name, packed in expected.items():
        ours, theirs = results[name], unpack(packed)
        same = ours.shape == theirs.shape and ours.dtype == theirs.dtype
        if not same or np.abs(ours.astype(float) - theirs).max() > 1e-6:
            wrong[name] = (ours.shape, theirs.shape)
    assert not wrong


def test_one_image_is_not_framed():
    assert utils.make_grid(edutorch.ones(1, 3, 4, 5)).shape == (3, 4, 5)
    assert utils.make_grid(edutorch.ones(4, 5)).shape == (3, 4, 5)


def test_the_images_stay_as_they_are():
    images = edutorch.rand(2, 3, 4, 4) * 5
    before = images.clone()
    utils.make_grid(images, normalize=True, scale_each=True)
    utils.save_image(images, io.BytesIO(), format="png")
    assert images.equal(before)


def test_save_image_writes_all_or_nothing(tmp_path):
    path = tmp_path / "grid.png"
    utils.save_image(edutorch.rand(3, 3, 8, 8), path, padding=1)
    assert PIL.open(path).size == (28, 10)
    before = path.read_bytes()
    with pytest.raises(EdutorchError):
        utils.save_image(edutorch.rand(2, 2, 2, 2, 2), path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


IMAGE = edutorch.zeros(3, 8, 8, dtype=edutorch.uint8)
BOXES = edutorch.tensor([[1, 1, 4, 5]])
REFUSED = [
    (lambda: utils.make_grid("x"), TypeError, "make_grid: expected a tensor or a list of tensors"),
    (lambda: utils.make_grid(edutorch.ones(3)), ValueError, "make_grid: expected images"),
    (lambda: utils.make_grid(edutorch.ones(0, 3, 2, 2)), ValueError, "make_grid: expected images"),
    (lambda: utils.make_grid(edutorch.ones(2, 2), normalize=True, value_range=1), TypeError,
     "value_range is"),
    (lambda: utils.save_image(edutorch.ones(2, 2), "a.xyz"), ValueError, "names no format"),
    (lambda: utils.save_image(edutorch.ones(2, 2), "nowhere/a.png"), FileNotFoundError, "nowhere"),
    (lambda: utils.draw_bounding_boxes(IMAGE, BOXES[0]), ValueError, "expected boxes N × 4"),
    (lambda: utils.draw_bounding_boxes(IMAGE, BOXES.flip(1)), ValueError, "in the wrong order"),
    (lambda: utils.draw_bounding_boxes(IMAGE, BOXES, labels=[]), ValueError, "a label for each"),
    (lambda: utils.draw_bounding_boxes(IMAGE, BOXES, colors="rde"), ValueError, "rde"),
    (lambda: utils.draw_bounding_boxes(IMAGE, BOXES, colors=[]), ValueError, "too few colours"),
    (lambda: utils.draw_bounding_boxes(IMAGE[:2], BOXES), ValueError, "1 or 3 channels"),
    (lambda: utils.draw_bounding_boxes(IMAGE.long(), BOXES), TypeError, "expected uint8"),
    (lambda: utils.draw_bounding_boxes(None, BOXES), TypeError, "expected a tensor"),
    (lambda: utils.draw_segmentation_masks(IMAGE, IMAGE), TypeError, "expected masks of bool"),
    (lambda: utils.draw_segmentation_masks(IMAGE, edutorch.ones(4, 4, dtype=edutorch.bool)),
     ValueError, "another size than the image"),
    (lambda: utils.draw_keypoints(IMAGE, BOXES), ValueError, "expected points N × K × 2"),
    (lambda: utils.draw_keypoints(IMAGE, BOXES.view(1, 2, 2), visibility=edutorch.ones(3, 3)),
     ValueError, "a visibility for each point"),
    (lambda: utils.flow_to_image(IMAGE), ValueError, "flow_to_image: expected"),
]  # fmt: skip


def test_what_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call, error, text in REFUSED:
        with pytest.raises(error, match=text):
            call()
    assert not list(tmp_path.iterdir())
