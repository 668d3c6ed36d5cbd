"""The ops of detectors as loops over boxes, bins and pixels, in float64."""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray


def intersection(a: Array, b: Array) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    return max(width, 0) * max(height, 0)


def area(box: Array) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def iou(a: Array, b: Array) -> float:
    shared = intersection(a, b)
    return shared / (area(a) + area(b) - shared)


def hull(a: Array, b: Array) -> Array:
    return np.array([*np.minimum(a[:2], b[:2]), *np.maximum(a[2:], b[2:])])


def generalized_iou(a: Array, b: Array) -> float:
    union = area(a) + area(b) - intersection(a, b)
    around = area(hull(a, b))
    return iou(a, b) - (around - union) / around


def distance_iou(a: Array, b: Array) -> float:
    around = hull(a, b)
    diagonal = (around[2] - around[0]) ** 2 + (around[3] - around[1]) ** 2
    distance = sum(((a[i] + a[i + 2]) / 2 - (b[i] + b[i + 2]) / 2) ** 2 for i in (0, 1))
    return iou(a, b) - distance / (diagonal + 1e-7)


def complete_iou(a: Array, b: Array) -> float:
    angles = [math.atan((box[2] - box[0]) / (box[3] - box[1])) for box in (a, b)]
    v = 4 / math.pi**2 * (angles[0] - angles[1]) ** 2
    return distance_iou(a, b) - v / (1 - iou(a, b) + v + 1e-7) * v


def nms(boxes: Array, scores: Array, threshold: float) -> list[int]:
    kept: list[int] = []
    for i in sorted(range(len(boxes)), key=lambda i: -scores[i]):
        if all(iou(boxes[i], boxes[k]) <= threshold for k in kept):
            kept.append(i)
    return kept


def interpolate(image: Array, y: float, x: float) -> float:
    """Read an image (h w) at a point; RoIAlign repeats its edge for one pixel."""
    height, width = image.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    below, right = min(top + 1, height - 1), min(left + 1, width - 1)
    v, u = y - top, x - left
    upper = image[top, left] * (1 - u) + image[top, right] * u
    lower = image[below, left] * (1 - u) + image[below, right] * u
    return upper * (1 - v) + lower * v


def roi_align(
    images: Array, rois: Array, size: tuple[int, int], scale: float, ratio: int, aligned: bool,
    sensitive: bool = False,
) -> Array:  # fmt: skip
    channels = images.shape[1] // (size[0] * size[1] if sensitive else 1)
    result = np.zeros((len(rois), channels, *size))
    for k, c, i, j in np.ndindex(result.shape):
        source = (c * size[0] + i) * size[1] + j if sensitive else c
        image = images[int(rois[k, 0]), source]
        x1, y1, x2, y2 = rois[k, 1:] * scale - (0.5 if aligned or sensitive else 0)
        height, width = y2 - y1, x2 - x1
        if not (aligned or sensitive):
            height, width = max(height, 1), max(width, 1)
        rows = ratio if ratio > 0 else math.ceil(height / size[0])
        columns = ratio if ratio > 0 else math.ceil(width / size[1])
        for a, b in np.ndindex(rows, columns):
            y = y1 + (i + (a + 0.5) / rows) * height / size[0]
            x = x1 + (j + (b + 0.5) / columns) * width / size[1]
            result[k, c, i, j] += interpolate(image, y, x) / (rows * columns)
    return result


def roi_pool(
    images: Array, rois: Array, size: tuple[int, int], scale: float, sensitive: bool = False
) -> Array:
    channels = images.shape[1] // (size[0] * size[1] if sensitive else 1)
    result = np.zeros((len(rois), channels, *size))
    for k, c, i, j in np.ndindex(result.shape):
        source = (c * size[0] + i) * size[1] + j if sensitive else c
        image = images[int(rois[k, 0]), source]
        x1, y1, x2, y2 = (math.floor(value + 0.5) for value in rois[k, 1:] * scale)
        last = 0 if sensitive else 1
        height, width = max(y2 - y1 + last, 1) / size[0], max(x2 - x1 + last, 1) / size[1]
        limits = [n - 1 + last for n in image.shape]
        top, left = y1 + math.floor(i * height), x1 + math.floor(j * width)
        end_y, end_x = y1 + math.ceil((i + 1) * height), x1 + math.ceil((j + 1) * width)
        top, end_y = (min(max(value, 0), limits[0]) for value in (top, end_y))
        left, end_x = (min(max(value, 0), limits[1]) for value in (left, end_x))
        window = image[top:end_y, left:end_x]
        if window.size:
            result[k, c, i, j] = window.mean() if sensitive else window.max()
    return result


def pixel(image: Array, y: float, x: float) -> float:
    """Read an image (h w) at a point; outside of it is 0."""
    top, left, total = math.floor(y), math.floor(x), 0.0
    for i, j in np.ndindex(2, 2):
        row, column = top + i, left + j
        if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
            total += image[row, column] * (1 - abs(y - row)) * (1 - abs(x - column))
    return total


def deform_conv2d(
    images: Array, offset: Array, weight: Array, bias: Array, stride: int, padding: int,
    dilation: int, mask: Array,
) -> Array:  # fmt: skip
    n, channels = images.shape[:2]
    filters, depth, *kernel = weight.shape
    taps = kernel[0] * kernel[1]
    per_offset = channels // (offset.shape[1] // (2 * taps))
    per_weight = filters // (channels // depth)
    result = np.zeros((n, filters, *offset.shape[2:]))
    for b, f, p, q in np.ndindex(result.shape):
        result[b, f, p, q] = bias[f]
        for d, i, j in np.ndindex(depth, *kernel):
            c = f // per_weight * depth + d
            tap = c // per_offset * taps + i * kernel[1] + j
            y = p * stride - padding + i * dilation + offset[b, 2 * tap, p, q]
            x = q * stride - padding + j * dilation + offset[b, 2 * tap + 1, p, q]
            value = weight[f, d, i, j] * pixel(images[b, c], y, x) * mask[b, tap, p, q]
            result[b, f, p, q] += value
    return result
