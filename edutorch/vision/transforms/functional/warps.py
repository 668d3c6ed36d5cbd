"""Turned, sheared, tilted and crumpled images: each pixel is looked up at another place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .... import ops
from ....core.tensor import Tensor
from ....errors import ArgumentError, InvalidValueError, ShapeValueError
from ....nn.functional import grid_sample
from ..interpolation import PIL_FILTERS, InterpolationMode, to_mode
from .conversion import pil_to_tensor, to_pil_image
from .filters import gaussian_blur
from .image import Image, check_image, get_dimensions
from .rounding import as_float_batch, from_float_batch


def affine(
    img: Image, angle: float, translate: list[int], scale: float, shear: Any,
    interpolation: InterpolationMode = InterpolationMode.NEAREST, fill: Any = None,
    center: list[int] | None = None,
) -> Image:  # fmt: skip
    """Turn, move, scale and shear an image about its middle.

    Args:
        angle: in degrees, clockwise.
        translate: pixels to the right and down.
        scale: 2 for twice as large.
        shear: degrees along x, or along x and y.
        fill: the value outside of the image, by default 0.
        center: (x, y) that stays in place, from the upper left corner.

    Raises:
        ArgumentError, InvalidValueError: an argument is not what is described here.

    >>> affine(tensor([[[1, 2, 3]]]), 0, [1, 0], 1.0, 0.0)
    tensor([[[0, 1, 2]]])
    """
    is_pil = check_image("affine", img)
    mode = to_mode("affine", interpolation)
    _check_affine(angle, translate, scale, center)
    shears = [float(shear), 0.0] if isinstance(shear, int | float) else [float(x) for x in shear]
    shears = shears * 2 if len(shears) == 1 else shears
    if len(shears) != 2:
        raise InvalidValueError("affine", "`shear` has one or two values", {"shear": shear})
    _, height, width = get_dimensions(img)
    middle = [width * 0.5, height * 0.5]
    pivot = middle if center is None else [float(x) for x in center]
    if is_pil:
        matrix = inverse_affine_matrix(pivot, angle, translate, scale, shears)
        return img.transform(
            (width, height), 0, matrix, PIL_FILTERS[mode], fillcolor=_pil_fill(img, fill)
        )
    pivot = [a - b for a, b in zip(pivot, middle, strict=True)]  # a grid has its origin there
    matrix = inverse_affine_matrix(pivot, angle, translate, scale, shears)
    return _sample(img, affine_grid(matrix, (height, width), (height, width)), mode, fill)


def _check_affine(angle: Any, translate: Any, scale: Any, center: Any) -> None:
    if not isinstance(angle, int | float):
        raise ArgumentError("affine", "`angle` is a number of degrees", {"angle": repr(angle)})
    for name, value in (("translate", translate), ("center", center)):
        if name == "center" and value is None:
            continue
        if not isinstance(value, list | tuple):
            raise ArgumentError("affine", f"`{name}` is (x, y)", {name: repr(value)})
        if len(value) != 2:
            raise InvalidValueError("affine", f"`{name}` has two values, (x, y)", {name: value})
    if scale <= 0:
        raise InvalidValueError("affine", "`scale` is positive", {"scale": scale})


def inverse_affine_matrix(
    center: list[float], angle: float, translate: Any, scale: float, shear: list[float]
) -> list[float]:
    """Return the first two rows of the matrix that leads from the new image to the old one.

    The way to the new image is T · C · R · S · C⁻¹, with C the move of `center` to the origin, T
    the translation, R rotation and shear, S the scale. Both signs of the angles are those of an
    axis that points down.

    >>> inverse_affine_matrix([0.0, 0.0], 0.0, [1, 0], 2.0, [0.0, 0.0])
    [0.5, 0.0, -0.5, 0.0, 0.5, 0.0]
    """
    turn, shear_x, shear_y = (math.radians(x) for x in (angle, *shear))
    cosine, sine = math.cos(turn - shear_y), math.sin(turn - shear_y)
    # Rotation after both shears; its determinant is 1.
    a = cosine / math.cos(shear_y)
    b = -a * math.tan(shear_x) - math.sin(turn)
    c = sine / math.cos(shear_y)
    d = -c * math.tan(shear_x) + math.cos(turn)
    xx, xy, yx, yy = d / scale, -b / scale, -c / scale, a / scale
    back_x, back_y = -center[0] - translate[0], -center[1] - translate[1]
    x0 = xx * back_x + xy * back_y + center[0]
    y0 = yx * back_x + yy * back_y + center[1]
    return [value + 0.0 for value in (xx, xy, x0, yx, yy, y0)]


def rotate(
    img: Image, angle: float, interpolation: InterpolationMode = InterpolationMode.NEAREST,
    expand: bool = False, center: list[int] | None = None, fill: Any = None,
) -> Image:  # fmt: skip
    """Turn an image about its middle.

    Args:
        angle: in degrees, counterclockwise.
        expand: whether the new image is large enough for all of the old one.
        center: (x, y) that stays in place, from the upper left corner.
        fill: the value outside of the image, by default 0.

    >>> rotate(tensor([[[1, 2], [3, 4]]]), 90)
    tensor([[[2, 4],
             [1, 3]]])
    """
    is_pil = check_image("rotate", img)
    mode = to_mode("rotate", interpolation)
    if center is not None and not isinstance(center, list | tuple):
        raise ArgumentError("rotate", "`center` is (x, y)", {"center": repr(center)})
    if is_pil:
        return img.rotate(angle, PIL_FILTERS[mode], expand, center, fillcolor=_pil_fill(img, fill))
    _, height, width = get_dimensions(img)
    pivot = [0.0, 0.0] if center is None else [center[0] - width / 2, center[1] - height / 2]
    matrix = inverse_affine_matrix(pivot, -angle, [0, 0], 1.0, [0.0, 0.0])
    size = expanded_size(matrix, height, width) if expand else (height, width)
    return _sample(img, affine_grid(matrix, size, (height, width)), mode, fill)


def expanded_size(matrix: list[float], height: int, width: int) -> tuple[int, int]:
    """Return the size of an image that holds a turned one.

    >>> expanded_size([0.0, -1.0, 0.0, 1.0, 0.0, 0.0], 2, 4)
    (4, 2)
    """
    corners = np.array([[x * width, y * height, 1.0] for x in (-0.5, 0.5) for y in (-0.5, 0.5)])
    rows = np.array(matrix, np.float32).reshape(2, 3)
    turned = corners.astype(np.float32) @ rows.T + np.array([width, height]) * 0.5
    # Within 1e-4 of a whole pixel is that pixel: sines are not exact.
    near = np.trunc(turned / 1e-4) * 1e-4
    columns, lines = np.ceil(near.max(0)) - np.floor(near.min(0))
    return int(lines), int(columns)


def perspective(
    img: Image, startpoints: list[list[int]], endpoints: list[list[int]],
    interpolation: InterpolationMode = InterpolationMode.BILINEAR, fill: Any = None,
) -> Image:  # fmt: skip
    """Tilt an image: four points move to four others, straight lines stay straight.

    Args:
        startpoints, endpoints: four points [x, y] each: top left, top right, bottom right, bottom
            left.

    Raises: ShapeValueError: they are not four points each.

    >>> corners = [[0, 0], [3, 0], [3, 3], [0, 3]]
    >>> perspective(arange(9.0).view(1, 3, 3), corners, corners).mean()
    tensor(4.)
    """
    is_pil = check_image("perspective", img)
    mode = to_mode("perspective", interpolation)
    coefficients = perspective_coefficients(startpoints, endpoints)
    if is_pil:
        return img.transform(
            img.size, 2, coefficients, PIL_FILTERS[mode], fillcolor=_pil_fill(img, fill)
        )
    return _sample(img, perspective_grid(coefficients, *img.shape[-2:]), mode, fill)


def perspective_coefficients(startpoints: Any, endpoints: Any) -> list[float]:
    """Return a … h with x = (a x' + b y' + c) / (g x' + h y' + 1), y = (d x' + e y' + f) / (…).

    (x', y') is a point of the new image, (x, y) where it comes from.

    >>> corners = [[0, 0], [1, 0], [1, 1], [0, 1]]
    >>> perspective_coefficients(corners, [[2, 0], [3, 0], [3, 1], [2, 1]])[2]
    -2.0
    """
    if np.shape(startpoints) != (4, 2) or np.shape(endpoints) != (4, 2):
        raise ShapeValueError(
            "perspective", "expected four points [x, y] each",
            {"startpoints": np.shape(startpoints), "endpoints": np.shape(endpoints)},
        )  # fmt: skip
    rows: list[list[float]] = []
    for (x_old, y_old), (x, y) in zip(startpoints, endpoints, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -x_old * x, -x_old * y])
        rows.append([0, 0, 0, x, y, 1, -y_old * x, -y_old * y])
    targets = np.array(startpoints, np.float64).reshape(8)
    solution = np.linalg.lstsq(np.array(rows, np.float64), targets, rcond=None)[0]
    return [float(value) for value in solution.astype(np.float32).round(12)]


def elastic_transform(
    img: Image, displacement: Tensor,
    interpolation: InterpolationMode = InterpolationMode.BILINEAR, fill: Any = None,
) -> Image:  # fmt: skip
    """Crumple an image: each pixel is looked up `displacement` away.

    Args:
        displacement: 1 × height × width × 2, along x and y, in halves of the image's size.

    Raises: ShapeValueError: the displacement has another shape.

    >>> elastic_transform(ones(1, 2, 2), zeros(1, 2, 2, 2))
    tensor([[[1., 1.],
             [1., 1.]]])
    """
    mode = to_mode("elastic_transform", interpolation)
    if check_image("elastic_transform", img):
        tensor = pil_to_tensor(img)
        return to_pil_image(elastic_transform(tensor, displacement, mode, fill), mode=img.mode)
    height, width = img.shape[-2:]
    if tuple(displacement.shape) != (1, height, width, 2):
        raise ShapeValueError(
            "elastic_transform", "the displacement does not fit the image",
            {"displacement": tuple(displacement.shape), "expected": (1, height, width, 2)},
        )  # fmt: skip
    ys, xs = (ops.linspace((1 - size) / size, (size - 1) / size, size) for size in (height, width))
    grid = ops.stack([xs.expand(height, width), ys[:, None].expand(height, width)], dim=-1)
    return _sample(img, grid[None] + displacement.cpu(), mode, fill)


def smooth_displacement(size: list[int], alpha: list[float], sigma: list[float]) -> Tensor:
    """Draw a random displacement for `elastic_transform`.

    Args:
        size: (height, width).
        alpha: how far pixels move along x and y, in pixels.
        sigma: how smooth the displacement is along x and y, in pixels.

    >>> smooth_displacement([8, 8], [1.0, 1.0], [1.0, 1.0]).shape
    torch.Size([1, 8, 8, 2])
    """
    planes = []
    for axis in (0, 1):  # x first
        plane = ops.rand([1, 1, *size]) * 2 - 1
        if sigma[axis] > 0:
            width = int(8 * sigma[axis] + 1)
            width += 1 - width % 2
            plane = gaussian_blur(plane, [width, width], sigma)
        planes.append(plane * alpha[axis] / size[1 - axis])
    return ops.cat(planes, 1).permute([0, 2, 3, 1])


# Grids ------------------------------------------------------------------------------------------


def pixel_points(height: int, width: int, x0: float, y0: float) -> Tensor:
    """Return (x, y, 1) of the middle of each pixel: 1 × (height · width) × 3.

    >>> pixel_points(1, 2, 0.0, 0.0)
    tensor([[[0.5000, 0.5000, 1.0000],
             [1.5000, 0.5000, 1.0000]]])
    """
    points = ops.ones(height, width, 3)
    points[..., 0] = ops.linspace(x0 + 0.5, x0 + 0.5 + width - 1, steps=width)
    points[..., 1] = ops.linspace(y0 + 0.5, y0 + 0.5 + height - 1, steps=height)[:, None]
    return points.view(1, height * width, 3)


def affine_grid(matrix: list[float], size: tuple[int, int], old: tuple[int, int]) -> Tensor:
    """Return where each pixel of the new image lies in the old one, from -1 to 1.

    >>> affine_grid([1.0, 0.0, 0.0, 0.0, 1.0, 0.0], (1, 2), (1, 2))
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    height, width = size
    theta = ops.tensor(matrix).view(1, 2, 3)
    halves = ops.tensor([0.5 * old[1], 0.5 * old[0]])
    points = pixel_points(height, width, -width * 0.5, -height * 0.5)
    return points.bmm(theta.transpose(1, 2) / halves).view(1, height, width, 2)


def perspective_grid(coefficients: list[float], height: int, width: int) -> Tensor:
    """Return where each pixel of the tilted image lies in the old one, from -1 to 1."""
    a, b, c, d, e, f, g, h = coefficients
    above = ops.tensor([[[a, b, c], [d, e, f]]])
    below = ops.tensor([[[g, h, 1.0], [g, h, 1.0]]])
    halves = ops.tensor([0.5 * width, 0.5 * height])
    points = pixel_points(height, width, 0.0, 0.0)
    ratio = points.bmm(above.transpose(1, 2) / halves) / points.bmm(below.transpose(1, 2))
    return (ratio - 1.0).view(1, height, width, 2)


def _sample(img: Tensor, grid: Tensor, mode: InterpolationMode, fill: Any) -> Tensor:
    """Look up the pixels of an image at the points of a grid; outside of it they are `fill`."""
    if mode.value not in ("nearest", "bilinear", "bicubic"):
        raise InvalidValueError(
            "interpolation", f"{mode.value} is for PIL images only", {"img": tuple(img.shape)},
            "tensors have nearest and bilinear",
        )  # fmt: skip
    batch = as_float_batch(img)
    grid = grid.to(batch.dtype).to(batch.device)
    grid = grid.expand(batch.shape[0], *grid.shape[1:])
    if fill is None:
        return from_float_batch(_look_up(batch, grid, mode), img)
    # A further channel of ones tells how much of each pixel comes from inside.
    sampled = _look_up(ops.cat([batch, ops.ones_like(batch[:, :1])], 1), grid, mode)
    values, inside = sampled[:, :-1], sampled[:, -1:]
    outside = _fill_of(img, fill, batch)
    if mode is InterpolationMode.NEAREST:
        return from_float_batch(ops.where(inside < 0.5, outside, values), img)
    return from_float_batch(values * inside + (1.0 - inside) * outside, img)


def _look_up(batch: Tensor, grid: Tensor, mode: InterpolationMode) -> Tensor:
    return grid_sample(batch, grid, mode=mode.value, padding_mode="zeros", align_corners=False)


def _fill_of(img: Tensor, fill: Any, batch: Tensor) -> Tensor:
    values = [fill] if isinstance(fill, int | float) else list(fill)
    if len(values) not in (1, batch.shape[1]):
        raise InvalidValueError(
            "fill", f"{len(values)} values for {batch.shape[1]} channels",
            {"fill": fill, "img": tuple(img.shape)}, "one value, or one for each channel",
        )  # fmt: skip
    tensor = ops.tensor([float(value) for value in values]).view(1, -1, 1, 1)
    return tensor.to(batch.dtype).to(batch.device)


def _pil_fill(img: Image, fill: Any) -> Any:
    """Return `fill` as PIL takes it: one value for each channel.

    Raises: InvalidValueError: there are too few or too many.
    """
    bands = len(img.getbands())
    values = [0] if fill is None else [fill] if isinstance(fill, int | float) else list(fill)
    values = values * bands if len(values) == 1 else values
    if len(values) != bands:
        raise InvalidValueError(
            "fill", f"{len(values)} values for {bands} channels",
            {"fill": fill, "img": f"{img.mode} {img.width} x {img.height}"},
        )  # fmt: skip
    if img.mode != "F":
        values = [int(value) for value in values]
    return tuple(values) if bands > 1 else values[0]
