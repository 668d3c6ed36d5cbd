"""The real torchvision's detectors on edutorch: what follows the proposals, and that they learn."""

from __future__ import annotations

import numpy as np
import pytest

torchvision = pytest.importorskip("torchvision")

import torch  # noqa: E402
from PIL import Image, ImageDraw, ImageFont  # noqa: E402
from torchvision import ops  # noqa: E402
from torchvision.models import detection  # noqa: E402

from edutorch.vision import ops as ours  # noqa: E402


def random_boxes(count: int) -> torch.Tensor:
    generator = np.random.default_rng(0)
    corner = generator.uniform(0, 100, (count, 2))
    boxes = np.concatenate((corner, corner + generator.uniform(1, 40, (count, 2))), 1)
    return torch.tensor(boxes, dtype=torch.float32)


def test_torchvisions_functions_call_ours():
    boxes = random_boxes(300)
    scores = torch.tensor(np.random.default_rng(1).permutation(300) / 300).float()
    assert ops.nms(boxes, scores, 0.5).tolist() == ours.nms(boxes, scores, 0.5).tolist()
    images = torch.randn(1, 8, 20, 30, requires_grad=True)
    for name, settings in {"roi_align": {"sampling_ratio": 2}, "roi_pool": {}}.items():
        pooled = getattr(ops, name)(images, [boxes], 2, 0.2, **settings)
        assert torch.equal(pooled, getattr(ours, name)(images, [boxes], 2, 0.2, **settings))
        (gradient,) = torch.autograd.grad(pooled.square().sum(), images)
        assert gradient.isfinite().all()
    layer = ops.DeformConv2d(8, 4, 3, padding=1)
    layer(images, torch.randn(1, 18, 20, 30)).sum().backward()
    assert layer.weight.grad.isfinite().all()


def test_roi_align_equals_torchvisions_definition():
    """Beside its C++, torchvision has a definition made of ops; it asks for boxes inside."""
    from torchvision.ops.roi_align import _roi_align

    images, boxes = torch.randn(2, 3, 20, 30), random_boxes(50)
    rois = torch.cat((torch.arange(50).remainder(2)[:, None].float(), boxes), 1)
    for ratio, aligned in ((2, True), (-1, False)):
        expected = _roi_align(images, rois, 0.1, 3, 3, ratio, aligned)
        pooled = ops.roi_align(images, rois, 3, 0.1, ratio, aligned)
        assert torch.allclose(pooled, expected, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "fasterrcnn_mobilenet_v3_large_320_fpn", "fcos_resnet50_fpn", "keypointrcnn_resnet50_fpn",
        "maskrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "ssdlite320_mobilenet_v3_large",
    ],
)  # fmt: skip
def test_detectors_detect(name):
    torch.manual_seed(0)
    sizes = {} if "320" in name else {"min_size": 64, "max_size": 64}
    settings = {"weights": None, "weights_backbone": None, **sizes}
    model = getattr(detection, name)(**settings).eval()
    with torch.no_grad():
        (detected,) = model([torch.rand(3, 64, 64)])
    assert {"boxes", "labels", "scores"} <= set(detected)
    assert detected["boxes"].shape == (len(detected["scores"]), 4)


# Learning -----------------------------------------------------------------------------------------


def draw_digit(digit: int) -> np.ndarray:
    """Return a picture (24 24) of a digit, from 0 to 1."""
    picture = Image.new("L", (24, 24))
    ImageDraw.Draw(picture).text((6, -2), str(digit), fill=255, font=ImageFont.load_default(24))
    return np.asarray(picture, np.float32) / 255


def pasted_digits(count: int = 8) -> tuple[list[torch.Tensor], list[dict[str, torch.Tensor]]]:
    """Return pictures of 64 x 64 with two digits each, and their boxes, labels and masks."""
    generator = np.random.default_rng(0)
    images, targets = [], []
    for _ in range(count):
        image = generator.uniform(0, 0.2, (64, 64)).astype(np.float32)
        boxes, labels, masks = [], [], []
        for x in (2, 34):
            digit = int(generator.integers(10))
            top, left = generator.integers(2, 36), x + generator.integers(0, 4)
            window = (slice(top, top + 24), slice(left, left + 24))
            image[window] = np.maximum(image[window], draw_digit(digit))
            mask = np.zeros((64, 64), np.uint8)
            mask[window] = draw_digit(digit) > 0.3
            rows, columns = np.nonzero(mask)
            boxes.append([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
            labels.append(1 + digit)
            masks.append(mask)
        images.append(torch.tensor(np.stack([image] * 3)))
        target = {
            "boxes": torch.tensor(np.array(boxes, np.float32)),
            "labels": torch.tensor(labels),
            "masks": torch.tensor(np.stack(masks)),
        }
        targets.append(target)
    return images, targets


def small_detector(with_masks: bool) -> torch.nn.Module:
    """Return a detector with 11 classes on a small backbone."""
    backbone = detection.backbone_utils.resnet_fpn_backbone(
        backbone_name="resnet18", weights=None, trainable_layers=5, norm_layer=torch.nn.BatchNorm2d
    )
    make = detection.MaskRCNN if with_masks else detection.FasterRCNN
    return make(
        backbone, 11, min_size=64, max_size=64, rpn_pre_nms_top_n_train=200,
        rpn_post_nms_top_n_train=100, box_batch_size_per_image=64,
        rpn_anchor_generator=detection.anchor_utils.AnchorGenerator(
            ((8,), (16,), (24,), (32,), (64,)), ((0.5, 1.0, 2.0),) * 5
        ),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("with_masks", [False, True], ids=["Faster R-CNN", "Mask R-CNN"])
def test_the_loss_halves_in_30_steps(with_masks):
    torch.manual_seed(0)
    images, targets = pasted_digits()
    model = small_detector(with_masks).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
    losses = []
    for _ in range(30):
        loss = sum(model(images, targets).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print([round(loss, 3) for loss in losses])
    assert np.mean(losses[-3:]) < losses[0] / 2
