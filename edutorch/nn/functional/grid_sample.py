"""Sampling an image at fractional coordinates, as spatial transformers do.

A grid holds the coordinates to read for each output pixel; -1 and 1 are the image's edges.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from numpy import isfinite, ndarray, vdot

from ...core.composed import composed_in_float32, recorded_as
from ...core.tensor import Tensor
from ...errors import DTypeError, ShapeError
from ...modes import no_grad
from ...ops import abs as abs_
from ...ops import (
    clamp,
    floor,
    gather,
    linspace,
    logical_not,
    masked_fill,
    matmul,
    nan_to_num,
    ones_like,
    remainder,
    reshape,
    round,
    stack,
    transpose,
    where,
    zeros_like,
)  # fmt: skip
from .op_decorators import SettingError

__all__ = [
    "affine_grid", "affine_grid_generator", "grid_sample", "grid_sampler", "grid_sampler_2d",
    "grid_sampler_3d",
]  # fmt: skip

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")

# Grids ---------------------------------------------------------------------------------------


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The sampling grid of an affine transformation `theta`.

    Args:
        theta: (n, 2, 3) for images, (n, 3, 4) for volumes: coordinates = θ · (x, y, 1).
        size: of the output: (n, c, h, w) or (n, c, d, h, w).
        align_corners: -1 and 1 are the centres of the outermost pixels, not their edges.

    Raises: ShapeError: `theta` does not fit `size`. DTypeError: it is not floating.

    Paper: Jaderberg et al., Spatial transformer networks, 2015.

    >>> same = tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> nn.functional.affine_grid(same, (1, 1, 1, 2), align_corners=False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    rank = len(size) - 2
    if not theta.is_floating_point():
        raise DTypeError("affine_grid", f"expected theta to be floating, got {theta.dtype}")
    if rank not in (2, 3) or tuple(theta.shape) != (size[0], rank, rank + 1):
        raise ShapeError(
            "affine_grid", "theta should be (n 2 3) for images and (n 3 4) for volumes",
            {"theta": tuple(theta.shape), "size": tuple(size)},
        )  # fmt: skip
    if min(size) < 1:
        raise ShapeError("affine_grid", "expected a non-zero, positive size", {"size": tuple(size)})
    axes = []
    for axis, n in enumerate(size[2:]):
        edge = (1.0 if align_corners else (n - 1) / n) if n > 1 else 0.0
        line = linspace(-edge, edge, n, dtype=theta.dtype, device=theta.device)
        axes.append(reshape(line, (-1,) + (1,) * (rank - 1 - axis)).expand(*size[2:]))
    base = stack([*reversed(axes), ones_like(axes[0])], -1)  # x first, as in θ
    coordinates = matmul(reshape(base, (1, -1, rank + 1)), transpose(theta, 1, 2))
    return reshape(coordinates, (size[0], *size[2:], rank))


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """`affine_grid`, by the name of PyTorch's kernel.

    >>> theta = tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> affine_grid_generator(theta, (1, 1, 1, 1), False).shape
    torch.Size([1, 1, 1, 2])
    """
    return affine_grid(theta, size, align_corners)


# Coordinates in pixels -------------------------------------------------------------------------


def unnormalize(coordinate: Tensor, n: int, align_corners: bool) -> Tensor:
    """Map [-1, 1] to [0, n - 1] (`align_corners`), or to [-½, n - ½]."""
    if align_corners:
        return (coordinate + 1) * ((n - 1) / 2)
    return ((coordinate + 1) * n - 1) / 2


def clip_coordinate(coordinate: Tensor, n: int) -> Tensor:
    """Clamp a coordinate to the image; no gradient outside or at the edge."""
    is_inside = (coordinate > 0) & (coordinate < n - 1)
    with no_grad():
        edge = clamp(nan_to_num(coordinate.detach()), 0, n - 1)
    return where(is_inside, coordinate, edge)


def reflect_coordinate(coordinate: Tensor, n: int, align_corners: bool) -> Tensor:
    """Reflect a coordinate at the edges of the image, as often as needed."""
    low, span = (0.0, n - 1) if align_corners else (-0.5, n)
    if span == 0:
        return zeros_like(coordinate)
    distance = abs_(coordinate - low)
    with no_grad():
        flips = floor(distance.detach() / span)
        odd = remainder(flips, 2) == 1
    remaining = distance - flips * span
    return where(odd, span - remaining, remaining) + low


def apply_padding(coordinate: Tensor, n: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Map coordinates outside the image by `padding_mode`; "zeros" leaves them."""
    if padding_mode == "zeros":
        return coordinate
    if padding_mode == "reflection":
        coordinate = reflect_coordinate(coordinate, n, align_corners)
    return clip_coordinate(coordinate, n)


# Sampling --------------------------------------------------------------------------------------

Taps = list[tuple[Tensor, Tensor]]
"""The taps along one axis: integer positions, and the weight of each."""


def interpolation_taps(
    coordinate: Tensor, n: int, mode: str, padding_mode: str, align_corners: bool
) -> Taps:
    """Return the neighbours that a coordinate along one axis is interpolated from."""
    coordinate = unnormalize(coordinate, n, align_corners)
    if mode == "bicubic":
        low = floor(coordinate.detach())
        fraction = coordinate - low
        neighbours = [(low + i, cubic_weight(fraction - i)) for i in (-1, 0, 1, 2)]
        return [
            (apply_padding(position, n, padding_mode, align_corners), w)
            for position, w in neighbours
        ]
    coordinate = apply_padding(coordinate, n, padding_mode, align_corners)
    if mode == "nearest":
        # a weight of 1 that depends on the coordinate: its gradient is 0, not None
        one = masked_fill(coordinate, coordinate == coordinate, 1.0)
        return [(round(coordinate.detach()), one)]
    low = floor(coordinate.detach())
    return [(low, low + 1 - coordinate), (low + 1, coordinate - low)]


def cubic_weight(x: Tensor, a: float = -0.75) -> Tensor:
    """The cubic kernel of `interpolate.cubic_weight`, for tensors."""
    x = abs_(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    return where(x <= 1, near, ((x - 5) * x + 8) * x * a - 4 * a)


@recorded_as(lambda input, *_, **__: f"GridSampler{input.ndim - 2}DBackward0")
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """Sample an image at the coordinates of a grid.

    Args:
        input: (n, c, h, w), or (n, c, d, h, w) for volumes.
        grid: (n, …, 2) or (n, …, 3): x, y (, z) between -1 and 1 for each pixel of the output.
        mode: "bilinear", "nearest", or for images "bicubic".
        padding_mode: how to read outside the image: "zeros", "border" or "reflection".
        align_corners: -1 and 1 are the centres of the outermost pixels, not their edges.

    Raises: ShapeError: grid and image do not fit. SettingError: an unknown mode.

    >>> image = tensor([[[[1.0, 3.0]]]])
    >>> nn.functional.grid_sample(image, zeros(1, 1, 1, 2), align_corners=False)
    tensor([[[[2.]]]])
    """
    check_arguments(input, grid, mode, padding_mode)
    return sample_image(input, grid, mode, padding_mode, align_corners)


@composed_in_float32
def sample_image(
    input: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool | None
) -> Tensor:
    rank, sizes = input.ndim - 2, tuple(input.shape[2:])
    out = tuple(grid.shape[1:-1])
    by_axis = [
        interpolation_taps(grid[..., rank - 1 - axis], n, mode, padding_mode, bool(align_corners))
        for axis, n in enumerate(sizes)
    ]
    return sample_at_taps(input, by_axis, out)


def sample_at_taps(input: Tensor, by_axis: Sequence[Taps], out: tuple[int, ...]) -> Tensor:
    """Return, (n c …), the weighted sum of the pixels at all combinations of the axes' taps.

    Args:
        input: (n c …).
        by_axis: for each axis of the image its taps, tensors (n …). Outside of the image is 0.
        out: the sizes of the result behind its channels.
    """
    sizes = tuple(input.shape[2:])
    flat = reshape(input, (*input.shape[:2], math.prod(sizes)))
    array = input._array
    is_finite = array.__class__ is not ndarray or bool(isfinite(vdot(array, array)))
    result: Any = None
    for corner in itertools.product(*by_axis):
        position, weight, is_inside = combine_corner(corner, sizes)
        index = reshape(position, (input.shape[0], 1, math.prod(out)))
        index = index.expand(*input.shape[:2], math.prod(out))
        values = reshape(gather(flat, -1, index), (*input.shape[:2], *out))
        if not is_finite:  # avoids 0 · ∞ for corners outside the image
            values = where(is_inside.unsqueeze(1), values, 0.0)
        part = values * where(is_inside, weight, 0.0).unsqueeze(1)
        result = part if result is None else result + part
    return result


def combine_corner(
    corner: Sequence[tuple[Tensor, Tensor]], sizes: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a corner's flat index (row-major), its weight, and whether it lies inside."""
    position: Any = 0
    weight: Any = 1
    is_inside: Any = True
    for (coordinate, tap_weight), n in zip(corner, sizes, strict=True):
        is_inside = logical_not((coordinate < 0) | (coordinate >= n)) & is_inside  # NaN stays NaN
        position = position * n + clamp(nan_to_num(coordinate), 0, n - 1).long()
        weight = tap_weight * weight
    return position, weight, is_inside


def check_arguments(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    shapes = {"input": tuple(input.shape), "grid": tuple(grid.shape)}
    if mode not in MODES:
        raise SettingError("grid_sample", f"mode must be one of {MODES}, got {mode!r}")
    if padding_mode not in PADDINGS:
        raise SettingError(
            "grid_sample", f"padding_mode must be one of {PADDINGS}, got {padding_mode!r}"
        )
    if input.ndim not in (4, 5) or grid.ndim != input.ndim:
        raise ShapeError(
            "grid_sample", "expected 4 axes of image and grid, or 5 of volume and grid", shapes
        )
    if grid.shape[0] != input.shape[0] or grid.shape[-1] != input.ndim - 2:
        raise ShapeError(
            "grid_sample", f"expected a grid (n … {input.ndim - 2}) of the same batch", shapes,
            "the coordinates come last: grid.permute(0, 2, 3, 1)",
        )  # fmt: skip
    if min(input.shape[2:]) < 1:
        raise ShapeError("grid_sample", "the image is empty", shapes)
    if mode == "bicubic" and input.ndim != 4:
        raise ShapeError("grid_sample", "bicubic interpolation only supports 4 axes", shapes)
    if input.dtype is not grid.dtype:
        raise DTypeError(
            "grid_sample", "expected input and grid to have the same dtype",
            {"input": input.dtype, "grid": grid.dtype},
        )  # fmt: skip


@recorded_as(lambda input, *_, **__: f"GridSampler{input.ndim - 2}DBackward0")
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sample` with the modes as integers, their indices in `MODES` and `PADDINGS`.

    >>> grid = zeros(1, 1, 1, 2)
    >>> grid_sampler(tensor([[[[1.0, 3.0]]]]), grid, 0, 0, False)
    tensor([[[[2.]]]])
    """
    mode, border = MODES[interpolation_mode], PADDINGS[padding_mode]
    return grid_sample(input, grid, mode, border, align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler
