"""Resize: each axis by itself, as weighted sums of neighbouring positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..table import onnx_op
from ..values import F, Floats, Ints, NotKnownError, Value, floats, ints, is_float, positive, torch


class Settings(NamedTuple):
    """The attributes of Resize that all axes share."""

    mode: str
    coordinates: str
    nearest: str
    cubic_a: float
    exclude_outside: int
    antialias: int
    extrapolation: float


def plain_call(
    scales: list[float] | None, sizes: list[int] | None, settings: Settings
) -> dict[str, Any] | None:
    """Return the keywords of `interpolate` that mean the same, or None if there are none."""
    amounts = scales or sizes or []
    count = len(amounts) - 2
    if count not in (1, 2, 3) or (scales and list(scales[:2]) != [1, 1]):
        return None
    if settings.antialias or settings.exclude_outside:
        return None
    modes = {
        "nearest": "nearest", "linear": ("linear", "bilinear", "trilinear")[count - 1],
        "cubic": "bicubic",
    }  # fmt: skip
    size: dict[str, Any] = {"scale_factor": scales[2:]} if scales else {"size": amounts[2:]}
    size["mode"] = modes[settings.mode]
    if settings.mode == "nearest":
        fits = settings.coordinates == "asymmetric" and settings.nearest == "floor"
        return size if fits else None
    if settings.mode == "cubic" and (count != 2 or settings.cubic_a != -0.75):
        return None
    if settings.coordinates == "align_corners":
        # Of a single pixel, and of sizes that are rounded, the two differ.
        return {**size, "align_corners": True} if sizes and 1 not in sizes[2:] else None
    # Of a single pixel `half_pixel` and `pytorch_half_pixel` differ, and PyTorch has the first.
    return size if settings.coordinates == "half_pixel" else None


@onnx_op("Resize", since=11)
def resize(
    X: Value, roi: Floats = None, scales: Floats = None, sizes: Ints = None, *,
    antialias: int = 0, axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Value:  # fmt: skip
    """Resize some axes, by scales or to sizes."""
    factors = None if scales is None else floats(scales) or None
    wanted = None if sizes is None else ints(sizes) or None
    settings = Settings(mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a,
                        exclude_outside, antialias, extrapolation_value)  # fmt: skip
    # Sizes that do not change the first two axes cannot be told from others before the model runs.
    if axes is None and wanted is None and is_float(X):
        keywords = plain_call(factors, wanted, settings)
        if keywords is not None:
            return F.interpolate(X, **keywords)
    if not hasattr(X, "numpy") or not isinstance(X.shape, tuple):
        raise NotKnownError
    rank = X.dim()
    dims = list(range(rank)) if axes is None else [positive(axis, rank) for axis in axes]
    lengths = [X.shape[dim] for dim in dims]
    corners = None if roi is None else floats(roi)
    factors, wanted = fitted(lengths, factors, wanted, keep_aspect_ratio_policy)
    result = X.to(torch.float64) if mode != "nearest" else X
    for i, dim in enumerate(dims):
        ends = (corners[i], corners[i + len(dims)]) if corners else (0.0, 1.0)
        if factors[i] != 1 or wanted[i] != lengths[i] or ends != (0.0, 1.0):
            result = resized_axis(result, dim, (factors[i], wanted[i], ends), settings)
    return result if mode == "nearest" else rounded(result, X.dtype)


def rounded(result: Value, dtype: Any) -> Value:
    """Return floats in the dtype of the input; of integers, within their range."""
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        result = torch.clamp(torch.round(result), info.min, info.max)
    return result.to(dtype)


def fitted(
    lengths: list[int], factors: list[float] | None, sizes: list[int] | None, policy: str
) -> tuple[list[float], list[int]]:
    """Return scales and sizes, either of which may be worked out from the other."""
    if sizes is None:
        factors = factors or [1.0] * len(lengths)
        pairs = zip(lengths, factors, strict=True)
        return factors, [math.floor(length * factor) for length, factor in pairs]
    factors = [size / length for size, length in zip(sizes, lengths, strict=True)]
    if policy == "stretch":
        return factors, sizes
    factor = min(factors) if policy == "not_larger" else max(factors)
    return [factor] * len(lengths), [int(factor * length + 0.5) for length in lengths]


def resized_axis(
    X: Value, dim: int, target: tuple[float, int, tuple[float, float]], settings: Settings
) -> Value:
    """Resize one axis.

    Args:
        target: the scale, the size, and the part of the axis that is taken.
    """
    length = X.shape[dim]
    sources = [source(i, length, target, settings.coordinates) for i in range(target[1])]
    outside = [not 0 <= x <= length - 1 for x in sources]
    taps, weights = [], []
    for x in sources:
        positions, parts = neighbours(x, target[0], length, settings)
        taps.append([min(max(position, 0), length - 1) for position in positions])
        weights.append(parts)
    shape = [1] * X.dim()
    shape[dim] = -1
    total: Any = None
    for column in range(max(map(len, taps), default=0)):
        index = torch.tensor([row[column] for row in taps])
        part = torch.index_select(X, dim, index)
        if settings.mode != "nearest":
            weight = torch.tensor([row[column] for row in weights], dtype=torch.float64)
            part = part * torch.reshape(weight, shape)
        total = part if total is None else total + part
    if settings.coordinates == "tf_crop_and_resize" and any(outside):
        mask = torch.reshape(torch.tensor(outside), shape)
        total = torch.where(mask, torch.full_like(total, settings.extrapolation), total)
    return total


def source(
    i: int, length: int, target: tuple[float, int, tuple[float, float]], coordinates: str
) -> float:
    """Return where position `i` of the result lies in the input."""
    factor, size, (start, end) = target
    exact = factor * length
    if coordinates == "align_corners":
        return 0.0 if exact == 1 else i * (length - 1) / (exact - 1)
    if coordinates == "asymmetric":
        return i / factor
    if coordinates == "tf_crop_and_resize":
        if exact == 1:
            return (start + end) / 2 * (length - 1)
        return start * (length - 1) + i * (end - start) * (length - 1) / (exact - 1)
    if coordinates == "pytorch_half_pixel" and exact == 1:
        return -0.5
    shift = length / 2 * (1 - size / exact) if coordinates == "half_pixel_symmetric" else 0.0
    return shift + (i + 0.5) / factor - 0.5


def neighbours(
    x: float, factor: float, length: int, settings: Settings
) -> tuple[list[int], list[float]]:
    """Return the positions around `x`, and the weight of each."""
    if settings.mode == "nearest":
        return [nearest(x, settings.nearest)], [1.0]
    stretch = min(factor, 1.0) if settings.antialias else 1.0
    reach = 1 if settings.mode == "linear" else 2
    first = math.floor(x) + math.floor(-reach / stretch) + 1
    last = math.floor(x) - math.floor(-reach / stretch)
    positions = list(range(first, last + 1))
    kernel = triangle if settings.mode == "linear" else cubic
    weights = [kernel(abs(x - p) * stretch, settings.cubic_a) for p in positions]
    if settings.exclude_outside:
        pairs = zip(positions, weights, strict=True)
        weights = [weight if 0 <= p < length else 0.0 for p, weight in pairs]
    if settings.exclude_outside or settings.antialias:
        total = sum(weights)
        weights = [weight / total for weight in weights]
    return positions, weights


def nearest(x: float, mode: str) -> int:
    """Return the position nearest to `x`."""
    if mode == "floor":
        return math.floor(x)
    if mode == "ceil":
        return math.ceil(x)
    return math.ceil(x - 0.5) if mode == "round_prefer_floor" else math.floor(x + 0.5)


def triangle(distance: float, _: float) -> float:
    """The weight of linear interpolation."""
    return max(0.0, 1 - distance)


def cubic(x: float, a: float) -> float:
    """The weight of cubic convolution."""
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0


@onnx_op("Resize", since=10)
def resize_10(X: Value, scales: Floats, *, mode: str = "nearest") -> Value:
    """Resize as it was up to opset 10."""
    return resize(X, None, scales, mode=mode, coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")  # fmt: skip
