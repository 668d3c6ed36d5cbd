"""Resizing images axis by axis, and rearranging channels as pixels.

For each output position a list gives the input positions that it is made of, and their weights
(the taps); the output is the weighted sum (`adaptive.resample`).
"""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from ...core.composed import composed_in_float32, recorded_as
from ...core.storage import channels_last
from ...core.tensor import Tensor
from ...dtypes import uint8
from ...errors import ShapeError
from ...ops import clamp, floor, permute, reshape, transpose
from .adaptive import (
    Taps,
    TapTable,
    WindowSums,
    adaptive_avg_pool_nd,
    has_kernel,
    resample,
    resample_axis,
)
from .op_decorators import SettingError

# Taps: which input elements an output is made of, and their weights ---------------------------


def input_step(n: int, count: int, factor: float | None, align_corners: bool) -> float:
    """Return the distance, in input elements, between neighbouring outputs."""
    if align_corners:
        return (n - 1) / (count - 1) if count > 1 else 0.0
    return n / count if factor is None else 1 / factor


def round_to_float32(x: float) -> float:
    """Round to float32, in which PyTorch computes the nearest position."""
    return struct.unpack("f", struct.pack("f", x))[0]


def nearest_taps(n: int, count: int, factor: float | None, exact: bool) -> Taps:
    """The input element whose left edge (with `exact`: whose centre) is nearest."""
    if n == count and not exact:
        return [[(i, 1.0)] for i in range(n)]
    step, shift = round_to_float32(input_step(n, count, factor, False)), 0.5 if exact else 0.0
    return [[(min(int(round_to_float32((i + shift) * step)), n - 1), 1.0)] for i in range(count)]


def linear_taps(n: int, count: int, step: float, align_corners: bool) -> Taps:
    """The two neighbours, with linear weights."""
    if n == count:
        return [[(i, 1.0)] for i in range(n)]
    taps: Taps = []
    for i in range(count):
        coordinate = i * step if align_corners else (i + 0.5) * step - 0.5
        coordinate = min(max(coordinate, 0.0), n - 1)
        low = math.floor(coordinate)
        taps.append([(low, 1 - (coordinate - low)), (min(low + 1, n - 1), coordinate - low)])
    return taps


def cubic_taps(n: int, count: int, step: float, align_corners: bool) -> Taps:
    """Four neighbours, with the weights of `cubic_weight`; the edge is repeated."""
    taps: Taps = []
    for i in range(count):
        coordinate = i * step if align_corners else (i + 0.5) * step - 0.5
        low = math.floor(coordinate)
        neighbours = range(low - 1, low + 3)
        taps.append(
            [(min(max(j, 0), n - 1), cubic_weight(coordinate - j, -0.75)) for j in neighbours]
        )
    return taps


def antialiased_taps(
    n: int, count: int, step: float, radius: float, weight: Callable[[float], float]
) -> Taps:
    """All elements in the support of the filter `weight`, which is widened when shrinking."""
    scale = max(step, 1.0)
    taps: Taps = []
    for i in range(count):
        centre = step * (i + 0.5)
        start = max(int(centre - radius * scale + 0.5), 0)
        end = min(int(centre + radius * scale + 0.5), n)
        shares = [weight((j - centre + 0.5) / scale) for j in range(start, end)]
        total_weight = sum(shares) or 1.0
        taps.append(
            [(j, share / total_weight) for j, share in zip(range(start, end), shares, strict=True)]
        )
    return taps


# Filters --------------------------------------------------------------------------------------


def linear_weight(x: float) -> float:
    """The triangle filter: max(0, 1 - |x|)."""
    return max(0.0, 1 - abs(x))


def cubic_weight(x: float, a: float = -0.5) -> float:
    """The cubic convolution kernel: 1 at 0 and 0 at the other integers, with slope `a` at 1.

    Paper: Keys, Cubic convolution interpolation for digital image processing, 1981.
    """
    x = abs(x)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((x - 5) * x + 8) * x * a - 4 * a if x < 2 else 0.0


def lanczos_weight(x: float) -> float:
    """The Lanczos filter with radius 3: sinc(x) · sinc(x / 3)."""
    if x == 0:
        return 1.0
    angle = math.pi * x
    return 3 * math.sin(angle) * math.sin(angle / 3) / (angle * angle) if abs(x) < 3 else 0.0


__all__ = [
    "channel_shuffle", "interpolate", "native_channel_shuffle", "pixel_shuffle",
    "pixel_unshuffle", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip


# The public functions -------------------------------------------------------------------------


AXES = {"linear": 3, "bilinear": 4, "bicubic": 4, "lanczos": 4, "trilinear": 5}
MODES = ("nearest", "nearest-exact", "area", *AXES)
ANTIALIAS_FILTERS = {"bilinear": (1.0, linear_weight), "bicubic": (2.0, cubic_weight),
    "lanczos": (3.0, lanczos_weight)}  # fmt: skip
"""The support radius and the filter of each mode with `antialias`."""


@cache
def upsample_node_name(axes: int, mode: str) -> str:
    """Return PyTorch's name of the autograd node of an interpolation."""
    if mode == "area":
        return f"AdaptiveAvgPool{axes}DBackward0"
    name = "NearestExact" if mode == "nearest-exact" else mode.capitalize()
    return f"Upsample{name}{axes}DBackward0"


@recorded_as(
    lambda input, size=None, scale_factor=None, mode="nearest", *_, **__: upsample_node_name(
        input.ndim - 2, mode
    )
)
@composed_in_float32
def interpolate(
    input: Tensor, size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:  # fmt: skip
    """Resize the spatial axes of a tensor by interpolation.

    Args:
        input: (n, c, …): the axes after the channels are resized.
        size: the new size, or
        scale_factor: the factor of the size.
        mode: "nearest", "nearest-exact", "area" (averages), "linear" for (n, c, l),
            "bilinear" for (n, c, h, w), "trilinear" for (n, c, d, h, w), or for images
            "bicubic" and, with `antialias`, "lanczos".
        align_corners: align the centres of the corner pixels instead of their edges.
        recompute_scale_factor: recompute the factor from the rounded size.
        antialias: filter when shrinking (bilinear, bicubic, lanczos).

    Raises: SettingError (a ValueError): contradictory settings.

    >>> nn.functional.interpolate(tensor([[[0.0, 2.0]]]), scale_factor=2, mode="linear")
    tensor([[[0.0000, 0.5000, 1.5000, 2.0000]]])
    """
    check_arguments(input, mode, align_corners, antialias)
    old = input._array.shape[2:] if input.__class__ is Tensor else tuple(input.shape[2:])
    sizes, factors = resolve_size(old, size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise SettingError(
            "interpolate", "recompute_scale_factor is not meaningful with an explicit size"
        )
    if recompute_scale_factor:
        factors = [None] * len(old)
    if mode == "area":
        return adaptive_avg_pool_nd(len(old), input, sizes)
    if input.dtype is uint8 and mode in AXES:
        if antialias and old[0] != sizes[0] and old[1] != sizes[1]:
            # As Pillow: the rows first, rounded to pixels from 0 to 255, then the columns.
            rows = (old[0], sizes[1])
            input = interpolate(input, rows, None, mode, align_corners, None, antialias)
        settings = (sizes, None, mode, align_corners, None, antialias)
        exact = interpolate(input.double(), *settings)
        return clamp(floor(exact + 0.5), 0, 255).to(uint8)
    corners, is_channels_last = bool(align_corners), has_channels_last(input)
    if is_channels_last:  # worked on as it lies in memory, and returned in the same layout
        input = permute(input, (0, 2, 3, 1))
    first, is_one_op = 1 if is_channels_last else 2, has_kernel(input)
    for axis, (n, count, factor) in enumerate(zip(old, sizes, factors, strict=True)):
        position, settings = axis + first, (mode, n, count, factor, corners, antialias)
        if is_one_op:
            input = resample_axis(input, position, window_sums(*settings))
        else:
            input = resample(input, position, tap_table(*settings))
    return permute(input, (0, 3, 1, 2)) if is_channels_last else input


def has_channels_last(input: Tensor) -> bool:
    """Return True if images lie in memory pixel by pixel, with the channels of each together."""
    return (
        input.ndim == 4
        and not input.is_contiguous()
        and input.is_contiguous(memory_format=channels_last)
    )


@lru_cache(128)  # the same in each training step
def tap_table(
    mode: str, n: int, count: int, factor: float | None, align_corners: bool, antialias: bool
) -> TapTable:
    """Return the taps and weights that resize an axis of n elements to `count`."""
    if mode.startswith("nearest"):
        return TapTable.from_taps(nearest_taps(n, count, factor, mode == "nearest-exact"))
    step = input_step(n, count, factor, align_corners)
    if antialias:
        return TapTable.from_taps(antialiased_taps(n, count, step, *ANTIALIAS_FILTERS[mode]))
    return TapTable.from_taps(
        (cubic_taps if mode == "bicubic" else linear_taps)(n, count, step, align_corners)
    )


@lru_cache(128)
def window_sums(mode: str, n: int, *settings: Any) -> WindowSums:
    """Return the taps of `tap_table` in the form that `resample_axis` takes."""
    return WindowSums.from_table(tap_table(mode, n, *settings), n)


class UnknownModeError(SettingError, NotImplementedError):
    """There is no such mode. (PyTorch raises a NotImplementedError.)"""


def check_arguments(input: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    array = input._array
    if (
        mode in MODES and not antialias and mode != "lanczos" and 3 <= array.ndim <= 5
        and (align_corners is None or mode in AXES) and array.ndim == AXES.get(mode, array.ndim)
        and all(array.shape[1:])
    ):  # fmt: skip
        return
    if mode not in MODES:
        raise UnknownModeError("interpolate", f"mode must be one of {MODES}, got {mode!r}")
    if mode not in AXES and align_corners is not None:
        raise SettingError(
            "interpolate",
            "align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | bicubic | trilinear",
        )
    if not 3 <= input.ndim <= 5 or input.ndim != AXES.get(mode, input.ndim):
        raise ShapeError(
            "interpolate", f"mode {mode!r} needs {AXES.get(mode, '3, 4 or 5')} axes",
            {"input": tuple(input.shape)}, "batch and channels come first: (n, c, …)",
        )  # fmt: skip
    if antialias and mode not in ANTIALIAS_FILTERS:
        raise SettingError(
            "interpolate",
            "antialias is restricted to the modes bilinear, bicubic and lanczos (4 axes)",
        )
    if mode == "lanczos" and (align_corners or not antialias):
        raise SettingError("interpolate", "mode 'lanczos' needs antialias and no align_corners")
    if 0 in input.shape[1:]:
        raise ShapeError(
            "interpolate", "only the batch may be empty", {"input": tuple(input.shape)}
        )


def resolve_size(
    old: tuple[int, ...], size: int | Sequence[int] | None,
    scale_factor: float | Sequence[float] | None,
) -> tuple[list[int], list[float | None]]:  # fmt: skip
    """Return the output size and, if specified, the scale factor of each axis."""
    is_number = (size is None or size.__class__ is int) and scale_factor.__class__ in NUMBERS
    return (resolve_number if is_number else resolve_sizes)(old, size, scale_factor)


NUMBERS = {int, float, type(None)}


def resolve_sizes(
    old: tuple[int, ...], size: int | Sequence[int] | None,
    scale_factor: float | Sequence[float] | None,
) -> tuple[list[int], list[float | None]]:  # fmt: skip
    """Do what `resolve_size` does, for settings of any kind."""
    setting = size if scale_factor is None else scale_factor
    if setting is None:
        raise SettingError("interpolate", "either size or scale_factor should be defined")
    if size is not None and scale_factor is not None:
        raise SettingError("interpolate", "only one of size or scale_factor should be defined")
    values = [setting] * len(old) if isinstance(setting, int | float) else list(setting)
    if len(values) != len(old):
        raise SettingError(
            "interpolate", f"expected one number, or one for each of {len(old)} axes, got {setting}"
        )
    if scale_factor is None:
        if any(n < 1 for n in values):
            raise SettingError("interpolate", f"output sizes should be greater than 0, got {size}")
        return [int(n) for n in values], [None] * len(old)
    if not all(math.isfinite(f) for f in values):
        raise SettingError("interpolate", f"a scale_factor must be finite, got {scale_factor}")
    if any(n * f < 1 for n, f in zip(old, values, strict=True)):
        raise SettingError("interpolate", f"a scale_factor of {scale_factor} leaves nothing")
    return [math.floor(n * f) for n, f in zip(old, values, strict=True)], [float(f) for f in values]


resolve_number = lru_cache(128)(resolve_sizes)
"""The same for one number for all axes, kept: nobody changes the lists."""


def upsample(
    input: Tensor, size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """The old name of `interpolate`.

    >>> nn.functional.upsample(ones(1, 1, 2), 4).shape
    torch.Size([1, 1, 4])
    """
    warn_deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:  # fmt: skip
    """The old name of `interpolate` with mode "nearest".

    >>> nn.functional.upsample_nearest(tensor([[[1.0, 2.0]]]), 4)
    tensor([[[1., 1., 2., 2.]]])
    """
    warn_deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor)


def upsample_bilinear(
    input: Tensor, size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:  # fmt: skip
    """The old name of `interpolate` with mode "bilinear" and `align_corners=True`.

    >>> nn.functional.upsample_bilinear(tensor([[[[1.0, 2.0]]]]), (1, 3))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """
    warn_deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)


def warn_deprecated(name: str) -> None:
    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.",
        UserWarning, stacklevel=3,
    )  # fmt: skip


# Channels ------------------------------------------------------------------------------------


@recorded_as("ChannelShuffleBackward0")
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleave the channels of groups: the first of each group, then the second of each, …

    Raises: ShapeError: no channels, or they cannot be cut into so many groups.

    Paper: Zhang et al., ShuffleNet, 2017.

    >>> nn.functional.channel_shuffle(arange(4.0).reshape(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    if input.ndim < 3 or groups < 1 or input.shape[1] % groups:
        raise ShapeError(
            "channel_shuffle", f"expected (n, c, …) with channels divisible by groups = {groups}",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    n, c, *rest = input.shape
    y = reshape(input, (n, groups, c // groups, *rest))
    return reshape(transpose(y, 1, 2), (n, c, *rest))


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`channel_shuffle`, by the name of PyTorch's kernel.

    >>> nn.functional.native_channel_shuffle(arange(4.0).reshape(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    return channel_shuffle(input, groups)


@recorded_as("PixelShuffleBackward0")
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Rearrange channels as pixels: (…, c · r², h, w) to (…, c, h · r, w · r).

    Raises: ShapeError: the channels are no multiple of r².

    >>> nn.functional.pixel_shuffle(arange(4.0).reshape(1, 4, 1, 1), 2)
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    r = upscale_factor
    if input.ndim < 3 or input.shape[-3] % (r * r):
        raise ShapeError(
            "pixel_shuffle", f"the channels (axis -3) should be a multiple of {r}² = {r * r}",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    *batch, c, h, w = input.shape
    n = len(batch)
    y = reshape(input, (*batch, c // (r * r), r, r, h, w))
    y = permute(y, (*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return reshape(y, (*batch, c // (r * r), h * r, w * r))


@recorded_as("PixelUnshuffleBackward0")
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Rearrange pixels as channels: the inverse of `pixel_shuffle`.

    Raises: ShapeError: height or width is no multiple of the factor.

    >>> nn.functional.pixel_unshuffle(zeros(1, 1, 4, 6), 2).shape
    torch.Size([1, 4, 2, 3])
    """
    r = downscale_factor
    if input.ndim < 3 or input.shape[-2] % r or input.shape[-1] % r:
        raise ShapeError(
            "pixel_unshuffle", f"height and width should be multiples of {r}",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    *batch, c, h, w = input.shape
    n = len(batch)
    y = reshape(input, (*batch, c, h // r, r, w // r, r))
    y = permute(y, (*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return reshape(y, (*batch, c * r * r, h // r, w // r))
