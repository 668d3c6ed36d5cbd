"""Boxes around objects: their areas, how much they overlap, and which of them to keep.

A box is (x1, y1, x2, y2): its left upper and right lower corner, in pixels, with x1 < x2 and
y1 < y2. Everything but `nms`, `batched_nms` and `masks_to_boxes` can be differentiated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...core.tensor import Tensor
from ...errors import DTypeError, ShapeError
from ...modes import no_grad
from ...nn.functional.op_decorators import SettingError
from ...ops import (
    as_tensor,
    atan,
    clamp,
    maximum,
    minimum,
    stack,
    unbind,
    unsqueeze,
    where,
    zeros,
)  # fmt: skip

__all__ = [
    "batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image",
    "complete_box_iou", "distance_box_iou", "generalized_box_iou", "masks_to_boxes", "nms",
    "remove_small_boxes",
]  # fmt: skip

FORMATS = ("xyxy", "xywh", "cxcywh")


def check_boxes(op: str, **boxes: Tensor) -> None:
    """Raise ShapeError unless every argument is (n 4)."""
    for name, tensor in boxes.items():
        if tensor.ndim != 2 or tensor.shape[1] != 4:
            raise ShapeError(
                op, "expected boxes (n 4): a row x1, y1, x2, y2 for each",
                {name: tuple(tensor.shape)},
            )  # fmt: skip


# Forms and areas --------------------------------------------------------------------------------


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Convert boxes from one format to another.

    Args:
        boxes: (…, 4).
        in_fmt, out_fmt: "xyxy" (two corners), "xywh" (a corner, width and height) or "cxcywh"
            (the centre, width and height).

    Raises: SettingError (a ValueError): an unknown format. ShapeError: the last axis is not 4.

    >>> edutorch.vision.ops.box_convert(tensor([[1.0, 1.0, 4.0, 3.0]]), "xyxy", "cxcywh")
    tensor([[2.5000, 2.0000, 3.0000, 2.0000]])
    """
    for name, text in (("in_fmt", in_fmt), ("out_fmt", out_fmt)):
        if text not in FORMATS:
            raise SettingError("box_convert", f"{name} must be one of {FORMATS}, got {text!r}")
    if not boxes.ndim or boxes.shape[-1] != 4:
        raise ShapeError("box_convert", "expected boxes (… 4)", {"boxes": tuple(boxes.shape)})
    if in_fmt == out_fmt:
        return boxes.clone()
    a, b, c, d = unbind(boxes, -1)
    if in_fmt == "xywh":
        a, b, c, d = a, b, a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d
    if out_fmt == "xywh":
        a, b, c, d = a, b, c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return stack((a, b, c, d), -1)


def widened(tensor: Tensor) -> Tensor:
    """Return 16-bit floats as float32 and small integers as int32: products of pixels overflow."""
    if tensor.is_floating_point():
        is_wide = tensor.dtype in (dtypes.float32, dtypes.float64)
        return tensor if is_wide else tensor.float()
    return tensor if tensor.dtype in (dtypes.int32, dtypes.int64) else tensor.int()


def box_area(boxes: Tensor, fmt: str = "xyxy") -> Tensor:
    """The area of each box: (x2 - x1) · (y2 - y1).

    >>> edutorch.vision.ops.box_area(tensor([[0.0, 0.0, 2.0, 3.0]]))
    tensor([6.])
    """
    if fmt not in FORMATS:
        raise SettingError("box_area", f"fmt must be one of {FORMATS}, got {fmt!r}")
    a, b, c, d = unbind(widened(boxes), -1)
    return (c - a) * (d - b) if fmt == "xyxy" else c * d


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Clamp boxes to an image.

    Args:
        boxes: (…, 4).
        size: height and width of the image.

    >>> edutorch.vision.ops.clip_boxes_to_image(tensor([[-1.0, 2.0, 9.0, 9.0]]), (5, 8))
    tensor([[0., 2., 8., 5.]])
    """
    height, width = size
    x1, y1, x2, y2 = unbind(boxes, -1)
    x1, x2 = clamp(x1, 0, width), clamp(x2, 0, width)
    return stack((x1, clamp(y1, 0, height), x2, clamp(y2, 0, height)), -1)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """Return the indices of the boxes whose sides are both at least `min_size`.

    >>> edutorch.vision.ops.remove_small_boxes(tensor([[0.0, 0, 9, 9], [0, 0, 9, 1]]), 2)
    tensor([0])
    """
    check_boxes("remove_small_boxes", boxes=boxes)
    x1, y1, x2, y2 = unbind(boxes, 1)
    is_large: Any = (x2 - x1 >= min_size) & (y2 - y1 >= min_size)
    return is_large.nonzero()[:, 0]


def masks_to_boxes(masks: Tensor) -> Tensor:
    """Return the smallest box around the nonzero pixels of each mask; zeros for an empty mask.

    Args:
        masks: (n, h, w). The result is (n, 4), in float32, and holds the outermost pixels.

    >>> edutorch.vision.ops.masks_to_boxes(tensor([[[0, 1, 1], [0, 0, 1]]]))
    tensor([[1., 0., 2., 1.]])
    """
    if masks.ndim != 3:
        raise ShapeError("masks_to_boxes", "expected masks (n h w)", {"masks": tuple(masks.shape)})
    if masks.numel() == 0:
        return zeros(0, 4, device=masks.device)
    is_set = masks != 0
    boxes = []
    for axis in (1, 2):  # which columns are hit gives x, which rows y
        is_hit = is_set.any(axis)
        last = is_hit.shape[1] - 1 - is_hit.flip(1).int().argmax(1)
        boxes.append((is_hit.int().argmax(1), where(is_hit.any(1), last, 0)))
    (x1, x2), (y1, y2) = boxes
    return stack((x1, y1, x2, y2), 1).float()


# Overlap ----------------------------------------------------------------------------------------


def intersection_and_union(boxes1: Tensor, boxes2: Tensor, fmt: str) -> tuple[Tensor, Tensor]:
    """Return the areas, (… n m), that each box of `boxes1` and each of `boxes2` share and cover."""
    area1, area2 = box_area(boxes1, fmt), box_area(boxes2, fmt)
    boxes1, boxes2 = (box_convert(boxes, fmt, "xyxy") for boxes in (boxes1, boxes2))
    first, second = unsqueeze(boxes1, -2), unsqueeze(boxes2, -3)
    corner = maximum(first[..., :2], second[..., :2])
    sides = clamp(widened(minimum(first[..., 2:], second[..., 2:]) - corner), 0)
    intersection = sides[..., 0] * sides[..., 1]
    return intersection, unsqueeze(area1, -1) + unsqueeze(area2, -2) - intersection


def enclosing_sides(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Return width and height, (… n m 2), of the smallest box around each pair."""
    first, second = unsqueeze(boxes1, -2), unsqueeze(boxes2, -3)
    corner = minimum(first[..., :2], second[..., :2])
    return clamp(widened(maximum(first[..., 2:], second[..., 2:]) - corner), 0)


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """Intersection over union of each pair of boxes (Jaccard's index): 1 if equal, 0 if disjoint.

    Args:
        boxes1, boxes2: (… n 4) and (… m 4); the result is (… n m).
        fmt: the format of both: see `box_convert`.

    >>> a, b = tensor([[0.0, 0.0, 2.0, 2.0]]), tensor([[1.0, 0.0, 3.0, 2.0]])
    >>> edutorch.vision.ops.box_iou(a, b)
    tensor([[0.3333]])
    """
    intersection, union = intersection_and_union(boxes1, boxes2, fmt)
    return intersection / union


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """IoU - (hull - union) / hull, the hull being the smallest box around both: from -1 to 1.

    Unlike IoU it says how far disjoint boxes are apart.

    Paper: Rezatofighi et al., Generalized intersection over union, 2019.

    >>> a, b = tensor([[0.0, 0.0, 1.0, 1.0]]), tensor([[3.0, 0.0, 4.0, 1.0]])
    >>> edutorch.vision.ops.generalized_box_iou(a, b)
    tensor([[-0.5000]])
    """
    intersection, union = intersection_and_union(boxes1, boxes2, "xyxy")
    sides = enclosing_sides(boxes1, boxes2)
    hull = sides[..., 0] * sides[..., 1]
    return intersection / union - (hull - union) / hull


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """IoU - d² / D²: d between the centres, D the diagonal of the smallest box around both.

    Args:
        boxes1, boxes2: (… n 4) and (… m 4); the result is (… n m).
        eps: added to D².

    Paper: Zheng et al., Distance-IoU loss, 2020.

    >>> a, b = tensor([[0.0, 0.0, 1.0, 1.0]]), tensor([[1.0, 0.0, 2.0, 1.0]])
    >>> edutorch.vision.ops.distance_box_iou(a, b)
    tensor([[-0.2000]])
    """
    boxes1, boxes2 = widened(boxes1), widened(boxes2)
    iou = box_iou(boxes1, boxes2)
    sides = enclosing_sides(boxes1, boxes2)
    diagonal = (sides * sides).sum(-1) + eps
    centre1, centre2 = ((boxes[..., :2] + boxes[..., 2:]) / 2 for boxes in (boxes1, boxes2))
    between = unsqueeze(centre1, -2) - unsqueeze(centre2, -3)
    return iou - (between * between).sum(-1) / diagonal


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """Distance-IoU - α v, where v compares the aspect ratios: v = 4/π² (atan w₁/h₁ - atan w₂/h₂)².

    α = v / (1 - IoU + v) is a weight, and has no gradient.

    Paper: Zheng et al., Distance-IoU loss, 2020.

    >>> a, b = tensor([[0.0, 0.0, 2.0, 1.0]]), tensor([[0.0, 0.0, 2.0, 1.0]])
    >>> edutorch.vision.ops.complete_box_iou(a, b)
    tensor([[1.]])
    """
    boxes1, boxes2 = widened(boxes1), widened(boxes2)
    iou = box_iou(boxes1, boxes2)
    angles = []
    for boxes in (boxes1, boxes2):
        x1, y1, x2, y2 = unbind(boxes, -1)
        angles.append(atan((x2 - x1) / (y2 - y1)))
    difference = unsqueeze(angles[0], -1) - unsqueeze(angles[1], -2)
    v = 4 / math.pi**2 * difference * difference
    with no_grad():
        alpha = v / (1 - iou + v + eps)
    return distance_box_iou(boxes1, boxes2, eps) - alpha * v


# Which boxes to keep ----------------------------------------------------------------------------


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Non-maximum suppression: of boxes that overlap, keep the one with the highest score.

    The boxes are taken by falling score; a box is kept if its IoU with none of those kept before
    exceeds the threshold.

    Args:
        boxes: (n 4).
        scores: (n). Of equal scores, the earlier box comes first.
        iou_threshold: from 0 to 1.

    Returns: the indices of the boxes that are kept, int64, by falling score.

    Raises: ShapeError: the shapes do not fit. DTypeError: the dtypes differ.

    >>> boxes = tensor([[0.0, 0, 9, 9], [0, 0, 9, 8], [20, 20, 30, 30]])
    >>> edutorch.vision.ops.nms(boxes, tensor([0.8, 0.9, 0.7]), 0.5)
    tensor([1, 2])
    """
    check_boxes("nms", boxes=boxes)
    if scores.shape != boxes.shape[:1]:
        raise ShapeError(
            "nms", "expected a score for each box",
            {"boxes (n 4)": tuple(boxes.shape), "scores (n)": tuple(scores.shape)},
        )  # fmt: skip
    if boxes.dtype is not scores.dtype:
        raise DTypeError(
            "nms", "boxes should have the same type as scores",
            {"boxes": boxes.dtype, "scores": scores.dtype},
        )  # fmt: skip
    # On the host: whether a box is kept depends on those before it.
    corners, order = (
        value.detach().cpu().numpy() for value in (widened(boxes), scores.sort(0, True, True)[1])
    )
    return as_tensor(keep_greedily(corners[order], order, iou_threshold), device=boxes.device)


def keep_greedily(boxes: np.ndarray, order: np.ndarray, iou_threshold: float) -> np.ndarray:
    """Return the elements of `order` whose boxes are kept; the best box is the first."""
    x1, y1, x2, y2 = boxes.T
    areas = (x2 - x1) * (y2 - y1)
    is_left = np.ones(len(boxes), bool)
    for i in range(len(boxes)):
        if not is_left[i]:
            continue
        width = np.minimum(x2[i], x2[i + 1 :]) - np.maximum(x1[i], x1[i + 1 :])
        height = np.minimum(y2[i], y2[i + 1 :]) - np.maximum(y1[i], y1[i + 1 :])
        intersection = width.clip(0) * height.clip(0)
        with np.errstate(all="ignore"):  # two empty boxes: 0 / 0 exceeds nothing
            iou = intersection / (areas[i] + areas[i + 1 :] - intersection)
        is_left[i + 1 :] &= ~(iou > iou_threshold)
    return order[is_left]


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """`nms` for each class on its own: boxes of different classes never suppress each other.

    All classes are done at once: the boxes of each are moved to a region of their own.

    Args:
        boxes, scores, iou_threshold: as for `nms`.
        idxs: (n), the class of each box.

    >>> boxes = tensor([[0.0, 0, 9, 9], [0, 0, 9, 8]])
    >>> edutorch.vision.ops.batched_nms(boxes, tensor([0.8, 0.9]), tensor([0, 1]), 0.5)
    tensor([1, 0])
    """
    check_boxes("batched_nms", boxes=boxes)
    if idxs.shape != boxes.shape[:1]:
        raise ShapeError(
            "batched_nms", "expected a class for each box",
            {"boxes (n 4)": tuple(boxes.shape), "idxs (n)": tuple(idxs.shape)},
        )  # fmt: skip
    if boxes.numel() == 0:
        return zeros(0, dtype=dtypes.int64, device=boxes.device)
    offsets = idxs.to(boxes.dtype) * (boxes.max() + 1)
    return nms(boxes + unsqueeze(offsets, 1), scores, iou_threshold)
