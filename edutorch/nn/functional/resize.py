"""Images of another size: numbers in between, and channels that become pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops import index_select, permute, reshape, tensor
from .layer import SettingError

__all__ = ["interpolate", "pixel_shuffle", "pixel_unshuffle"]

LINEAR = {"linear": 3, "bilinear": 4, "trilinear": 5}
MODES = ("nearest", "nearest-exact", *LINEAR)


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Tensor:
    """The same image in another size, axis by axis.

    Args:
        input: (n, c, …): the axes after the channels are resized.
        size: the new size, or
        scale_factor: how many times larger.
        mode: "nearest", "nearest-exact", or a line between neighbours: "linear" for
            (n, c, l), "bilinear" for (n, c, h, w), "trilinear" for (n, c, d, h, w).
        align_corners: the outermost pixels keep their centres, instead of their edges.
        recompute_scale_factor: work the factor out again from the rounded size.

    Raises: SettingError (a ValueError): settings that contradict each other.

    >>> nn.functional.interpolate(tensor([[[0.0, 2.0]]]), scale_factor=2, mode="linear")
    tensor([[[0.0000, 0.5000, 1.5000, 2.0000]]])
    """
    check(input, mode, align_corners)
    old = tuple(input.shape[2:])
    sizes, factors = new_size(old, size, scale_factor)
    if recompute_scale_factor:
        factors = [None] * len(old)
    for axis, (n, count, factor) in enumerate(zip(old, sizes, factors, strict=True), 2):
        step = n / count if factor is None else 1 / factor
        if mode not in LINEAR:
            shift = 0.5 if mode == "nearest-exact" else 0.0
            places = [min(int((i + shift) * step), n - 1) for i in range(count)]
            input = index_select(input, axis, tensor(places, device=input.device))
        elif align_corners:
            step = (n - 1) / (count - 1) if count > 1 else 0.0
            input = between(input, axis, [i * step for i in range(count)])
        else:
            input = between(input, axis, [(i + 0.5) * step - 0.5 for i in range(count)])
    return input


def between(input: Tensor, axis: int, places: list[float]) -> Tensor:
    """Read at places between the numbers, along a line from each to the next."""
    last = input.shape[axis] - 1
    inside = [min(max(place, 0.0), last) for place in places]
    below = [math.floor(place) for place in inside]
    above = [min(low + 1, last) for low in below]
    part = tensor(
        [place - low for place, low in zip(inside, below, strict=True)],
        dtype=input.dtype, device=input.device,
    )  # fmt: skip
    part = reshape(part, (-1,) + (1,) * (input.ndim - axis - 1))
    start = index_select(input, axis, tensor(below, device=input.device))
    end = index_select(input, axis, tensor(above, device=input.device))
    return start + part * (end - start)


def check(input: Tensor, mode: str, align_corners: bool | None) -> None:
    if mode not in MODES:
        raise SettingError("interpolate", f"mode must be one of {MODES}, got {mode!r}")
    if mode not in LINEAR and align_corners is not None:
        raise SettingError(
            "interpolate",
            "align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | trilinear",
        )
    if input.ndim < 3 or input.ndim != LINEAR.get(mode, input.ndim):
        raise ShapeError(
            "interpolate", f"mode {mode!r} needs {LINEAR.get(mode, 'at least 3')} axes",
            {"input": tuple(input.shape)}, "batch and channels come first: (n, c, …)",
        )  # fmt: skip


def new_size(
    old: tuple[int, ...],
    size: int | Sequence[int] | None,
    scale_factor: float | Sequence[float] | None,
) -> tuple[list[int], list[float | None]]:
    """Return the size and, where it was given, the factor of each axis."""
    given = size if scale_factor is None else scale_factor
    if given is None:
        raise SettingError("interpolate", "either size or scale_factor should be defined")
    if size is not None and scale_factor is not None:
        raise SettingError("interpolate", "only one of size or scale_factor should be defined")
    each = [given] * len(old) if isinstance(given, int | float) else list(given)
    if len(each) != len(old):
        raise SettingError(
            "interpolate", f"expected one number, or one for each of {len(old)} axes, got {given}"
        )
    if scale_factor is None:
        return [int(n) for n in each], [None] * len(old)
    return [math.floor(n * f) for n, f in zip(old, each, strict=True)], [float(f) for f in each]


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels become pixels: (…, c · r², h, w) to (…, c, h · r, w · r).

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


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Pixels become channels: the other way of `pixel_shuffle`.

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
