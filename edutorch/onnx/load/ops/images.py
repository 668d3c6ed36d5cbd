"""Pictures: sampling at positions, and boxes in them."""

from __future__ import annotations

import math
from typing import Any

from ..table import onnx_op
from ..values import F, Ints, Value, ints, number, refuse, torch

MODES = {"linear": "bilinear", "cubic": "bicubic"}


@onnx_op("GridSample")
def grid_sample(
    X: Value, grid: Value, *, align_corners: int = 0, mode: str = "linear",
    padding_mode: str = "zeros",
) -> Value:  # fmt: skip
    """Take pixels at the positions of a grid, between pixels interpolated."""
    return F.grid_sample(
        X, grid, mode=MODES.get(mode, mode), padding_mode=padding_mode,
        align_corners=bool(align_corners),
    )  # fmt: skip


@onnx_op("AffineGrid")
def affine_grid(theta: Value, size: Ints, *, align_corners: int = 0) -> Value:
    """The grid of positions that a matrix moves pixels to."""
    return F.affine_grid(theta, ints(size), bool(align_corners))


@onnx_op("ImageDecoder")
def image_decoder(encoded_stream: Value, *, pixel_format: str = "RGB") -> Value:
    """Refuse: pictures are decoded outside the model."""
    refuse("pictures are not decoded inside a model; decode them first, with Pillow")


@onnx_op("NonMaxSuppression")
def non_max_suppression(
    boxes: Value, scores: Value, max_output_boxes_per_class: Value = None,
    iou_threshold: Value = None, score_threshold: Value = None, *, center_point_box: int = 0,
) -> Value:  # fmt: skip
    """Choose boxes by their scores, and drop those that overlap a chosen one."""
    most = 0 if max_output_boxes_per_class is None else int(number(max_output_boxes_per_class))
    overlap = 0.0 if iou_threshold is None else float(number(iou_threshold))
    least = None if score_threshold is None else float(number(score_threshold))
    chosen = []
    for sample, (own, classes) in enumerate(zip(boxes.tolist(), scores.tolist(), strict=True)):
        corners = [corners_of(box, center_point_box) for box in own]
        for label, values in enumerate(classes):
            picked: list[int] = []
            for index in sorted(range(len(values)), key=lambda i: (-values[i], i)):
                if len(picked) >= most or (least is not None and values[index] <= least):
                    break
                if all(shared(corners[index], corners[other]) <= overlap for other in picked):
                    picked.append(index)
            chosen += [[sample, label, index] for index in picked]
    return torch.tensor(chosen, dtype=torch.int64).reshape([-1, 3])


def corners_of(box: list[float], center_point: int) -> tuple[float, float, float, float]:
    """Return the smaller and larger corner of a box."""
    a, b, c, d = box
    if center_point:
        return a - c / 2, b - d / 2, a + c / 2, b + d / 2
    return min(a, c), min(b, d), max(a, c), max(b, d)


def shared(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the share of two boxes that both cover."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return width * height / (areas[0] + areas[1] - width * height)


@onnx_op("RoiAlign", since=16)
def roi_align(
    X: Value, rois: Value, batch_indices: Value, *,
    coordinate_transformation_mode: str = "half_pixel", mode: str = "avg",
    output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Value:  # fmt: skip
    """Take boxes out of pictures, in one size: the mean or maximum of samples in each bin."""
    half = coordinate_transformation_mode == "half_pixel"
    results = []
    for roi, index in zip(rois.tolist(), ints(batch_indices), strict=True):
        left, top, right, bottom = (v * spatial_scale - (0.5 if half else 0.0) for v in roi)
        spans = []
        for start, end, bins in ((top, bottom, output_height), (left, right, output_width)):
            length = end - start if half else max(end - start, 1.0)
            count = sampling_ratio or math.ceil(length / bins)
            step = length / bins
            spans.append([
                start + i * step + (j + 0.5) * step / count
                for i in range(bins) for j in range(count)
            ])  # fmt: skip
        counts = [len(spans[0]) // output_height, len(spans[1]) // output_width]
        results.append(pooled_box(X[index], spans, counts, mode))
    return torch.stack(results)


def pooled_box(picture: Value, spans: list[list[float]], counts: list[int], mode: str) -> Value:
    """Return the bins of one box.

    Args:
        spans: the rows and columns of the samples.
        counts: how many of them a bin has.
    """
    (top, y_part, y_in), (left, x_part, x_in) = (
        neighbours(span, size) for span, size in zip(spans, picture.shape[1:], strict=True)
    )
    inside = (y_in.unsqueeze(-1) * x_in).to(picture.dtype)
    corners = []
    for dy in (0, 1):
        for dx in (0, 1):
            rows = torch.clamp(top + dy, max=picture.shape[1] - 1)
            columns = torch.clamp(left + dx, max=picture.shape[2] - 1)
            y_weight = y_part if dy else 1 - y_part
            x_weight = x_part if dx else 1 - x_part
            weight = (y_weight.unsqueeze(-1) * x_weight).to(picture.dtype)
            corners.append(picture[:, rows][:, :, columns] * weight * inside)
    samples: Any = sum(corners) if mode == "avg" else torch.stack(corners).amax(0)
    height, width = len(spans[0]) // counts[0], len(spans[1]) // counts[1]
    bins = samples.reshape([-1, height, counts[0], width, counts[1]])
    return bins.mean([2, 4]) if mode == "avg" else bins.amax([2, 4])


def neighbours(span: list[float], size: int) -> tuple[Value, Value, Value]:
    """Return the pixel before each sample, how far it is from it, and whether it is inside."""
    positions = torch.tensor(span, dtype=torch.float64)
    inside = (positions >= -1) & (positions <= size)
    limited = torch.clamp(positions, 0, size - 1)
    before = torch.floor(limited)
    return before.to(torch.int64), limited - before, inside


@onnx_op("RoiAlign", since=10)
def roi_align_10(
    X: Value, rois: Value, batch_indices: Value, *, mode: str = "avg", output_height: int = 1,
    output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Value:  # fmt: skip
    """RoiAlign before it could shift by half a pixel."""
    return roi_align(
        X, rois, batch_indices, coordinate_transformation_mode="output_half_pixel", mode=mode,
        output_height=output_height, output_width=output_width, sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )  # fmt: skip
