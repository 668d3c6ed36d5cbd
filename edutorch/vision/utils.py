"""Pictures to look at: a grid of images in a file; boxes, masks and points drawn on an image.

save_image(make_grid(images, nrow=4), "digits.png")
"""

from __future__ import annotations

import io
import math
import os
from typing import Any

import numpy as np

from .. import ops
from ..core.tensor import Tensor
from ..dtypes import bool as bool_dtype
from ..dtypes import finfo, int64, uint8
from ..errors import ArgumentError, InvalidValueError, ShapeValueError
from ..utils.atomic_files import write_atomically
from .transforms.functional.conversion import pil_to_tensor, require_pil, to_pil_image

__all__ = [
    "draw_bounding_boxes", "draw_keypoints", "draw_segmentation_masks", "flow_to_image",
    "make_grid", "save_image",
]  # fmt: skip


def make_grid(
    tensor: Any, nrow: int = 8, padding: int = 2, normalize: bool = False,
    value_range: tuple[float, float] | None = None, scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:  # fmt: skip
    """Put images side by side into one.

    Args:
        tensor: N × channels × height × width, or a list of images of one size. Grey images get
            three channels.
        nrow: how many images a row has.
        padding: pixels between images.
        normalize: whether values are stretched to the range from 0 to 1.
        value_range: the values that become 0 and 1, by default the least and the greatest.
        scale_each: whether each image is stretched by its own least and greatest value.
        pad_value: the value between images.

    Raises:
        ArgumentError: it is neither.
        ShapeValueError: it has fewer than two axes, or more than four.

    >>> make_grid(ones(10, 1, 4, 4), nrow=5).shape
    torch.Size([3, 14, 32])
    """
    images = as_batch(tensor)
    if normalize:
        images = images.clone()
        for part in images if scale_each else [images]:
            stretch(part, value_range)
    if len(images) == 1:
        return images[0]
    columns = min(nrow, len(images))
    rows = math.ceil(len(images) / columns)
    _, channels, height, width = images.shape
    step_y, step_x = height + padding, width + padding
    shape = (channels, step_y * rows + padding, step_x * columns + padding)
    grid = images.new_full(shape, pad_value)
    for index, image in enumerate(images):
        top = index // columns * step_y + padding
        left = index % columns * step_x + padding
        grid[:, top : top + height, left : left + width] = image
    return grid


def as_batch(tensor: Any) -> Tensor:
    """Return images as N × 3 × height × width (other channels than 1 stay)."""
    if isinstance(tensor, list | tuple) and all(isinstance(image, Tensor) for image in tensor):
        tensor = ops.stack(list(tensor), dim=0)
    if not isinstance(tensor, Tensor):
        hint = "ToTensor() makes tensors of PIL images"
        arguments = {"tensor": type(tensor).__name__}
        raise ArgumentError("make_grid", "expected a tensor or a list of tensors", arguments, hint)
    if not 2 <= tensor.ndim <= 4 or 0 in tensor.shape:
        raise ShapeValueError(
            "make_grid", "expected images", {"tensor (n c h w)": tuple(tensor.shape)},
            "a batch N × channels × height × width, or one image",
        )  # fmt: skip
    if tensor.ndim == 2:
        tensor = tensor[None]
    if tensor.ndim == 3:
        tensor = tensor[None]
    return ops.cat([tensor] * 3, 1) if tensor.shape[1] == 1 else tensor


def stretch(images: Tensor, value_range: tuple[float, float] | None) -> None:
    """Stretch values to the range from 0 to 1, in place."""
    if value_range is None:
        low, high = float(images.min()), float(images.max())
    elif isinstance(value_range, tuple | list) and len(value_range) == 2:
        low, high = value_range
    else:
        hint = "value_range=(-1, 1)"
        arguments = {"value_range": value_range}
        raise ArgumentError("make_grid", "value_range is (least, greatest)", arguments, hint)
    images.clamp_(low, high).sub_(low).div_(max(high - low, 1e-5))


def save_image(tensor: Any, fp: Any, format: str | None = None, **kwargs: Any) -> None:
    """Write an image, or a grid of images, as a file.

    Args:
        tensor: images with values from 0 to 1, as for `make_grid`.
        fp: a path, whose ending says the format; or an open file.
        format: "png" and others of Pillow.
        kwargs: of `make_grid`.

    Raises: InvalidValueError: the format is unknown.

    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_image(rand(4, 1, 8, 8), f"{folder}/grid.png", nrow=2)
    ...     os.listdir(folder)
    ['grid.png']
    """
    pil = require_pil("save_image")
    grid = make_grid(tensor, **kwargs)
    levels = grid.mul(255).add_(0.5).clamp_(0, 255).permute(1, 2, 0).cpu().to(uint8).numpy()
    file = io.BytesIO()
    if format is None and isinstance(fp, str | os.PathLike):
        ending = os.path.splitext(os.fspath(fp))[1].lower()
        format = pil.registered_extensions().get(ending)
        if format is None:
            raise InvalidValueError(
                "save_image", "the ending names no format of images", {"fp": fp},
                'end it with .png or .jpg, or say format="png"',
            )  # fmt: skip
    pil.fromarray(levels).save(file, format=format)
    write_atomically(fp, file.getvalue())


# Drawing ----------------------------------------------------------------------------------------


def check_drawable(op: str, image: Any) -> Tensor:
    """Return an image that can be drawn on, with three channels.

    Raises:
        ArgumentError: it is no tensor.
        ShapeValueError: it is not one image with 1 or 3 channels.
    """
    if not isinstance(image, Tensor):
        raise ArgumentError(op, "expected a tensor", {"image": type(image).__name__})
    if image.dtype is not uint8 and not image.is_floating_point():
        raise ArgumentError(op, "expected uint8 or floats from 0 to 1", {"image": image.dtype})
    if image.ndim != 3 or image.shape[0] not in (1, 3):
        raise ShapeValueError(
            op, "expected one image of 1 or 3 channels", {"image (c h w)": tuple(image.shape)}
        )
    return image.expand(3, -1, -1) if image.shape[0] == 1 else image


def palette(count: int) -> list[tuple[int, ...]]:
    """Return colours that are easily told apart.

    >>> palette(2)
    [(0, 0, 0), (1, 127, 31)]
    """
    steps = np.array([2**25 - 1, 2**15 - 1, 2**21 - 1])
    return [tuple((index * steps % 255).tolist()) for index in range(count)]


def to_colors(op: str, colors: Any, count: int) -> list[tuple[int, ...]]:
    """Return a colour (red, green, blue) for each of `count` things.

    Args:
        colors: one for all, or a list; names of Pillow, "#rrggbb", or triples.

    Raises: InvalidValueError: there are too few, or one has an unknown name.
    """
    from PIL import ImageColor

    if colors is None:
        return palette(count)
    listed = colors if isinstance(colors, list) else [colors] * count
    if len(listed) < count:
        arguments = {"colors": len(listed)}
        raise InvalidValueError(op, f"too few colours for {count} things", arguments)
    try:
        return [
            ImageColor.getrgb(color) if isinstance(color, str) else tuple(color)
            for color in listed[:count]
        ]
    except ValueError as error:
        hint = '"red", "#ff0000" or (255, 0, 0)'
        raise InvalidValueError(op, str(error), {"colors": colors}, hint) from None


def draw_on(image: Tensor, mode: str) -> tuple[Any, Any]:
    """Return a PIL image of a tensor, and its pen."""
    from PIL import ImageDraw

    canvas = to_pil_image(image)
    return canvas, ImageDraw.Draw(canvas, mode)


def from_canvas(canvas: Any, image: Tensor) -> Tensor:
    """Return a drawn image in the dtype of the first one."""
    drawn = pil_to_tensor(canvas)
    return drawn.to(image.dtype) / 255 if image.is_floating_point() else drawn


def draw_bounding_boxes(
    image: Tensor, boxes: Tensor, labels: list[str] | None = None, colors: Any = None,
    fill: bool | None = False, width: int = 1, font: str | None = None,
    font_size: int | None = None, label_colors: Any = None,
) -> Tensor:  # fmt: skip
    """Draw boxes on an image.

    Args:
        image: 1 or 3 channels × height × width: uint8, or floats from 0 to 1.
        boxes: N × 4, the corners (x_min, y_min, x_max, y_max) in pixels.
        labels: a text for each box.
        colors: one for all, or one for each box.
        fill: whether the boxes are filled, so that the image is seen through.
        width: of the lines, in pixels.
        font, font_size: a TrueType file, and how large its letters are.
        label_colors: of the texts, by default those of the boxes.

    Raises:
        ShapeValueError: the image or the boxes have another shape, or there are other labels.
        InvalidValueError: the corners of a box are in the wrong order.

    >>> image, boxes = zeros(3, 8, 8, dtype=uint8), tensor([[1, 1, 4, 5]])
    >>> draw_bounding_boxes(image, boxes, colors="red").amax((1, 2))
    tensor([255,   0,   0], dtype=torch.uint8)
    """
    op = "draw_bounding_boxes"
    picture = check_drawable(op, image)
    corners = check_boxes(op, boxes)
    if labels is not None and len(labels) != len(corners):
        arguments = {"labels": len(labels), "boxes": len(corners)}
        raise ShapeValueError(op, "expected a label for each box", arguments)
    outlines = to_colors(op, colors, len(corners))
    letters = to_colors(op, label_colors, len(corners)) if label_colors is not None else outlines
    canvas, pen = draw_on(picture, "RGBA" if fill else "RGB")
    for index, box in enumerate(corners):
        inside = (*outlines[index], 100) if fill else None
        pen.rectangle(box, width=width, outline=outlines[index], fill=inside)
        if labels is not None and labels[index] is not None:
            margin = width + 1
            place = (box[0] + margin, box[1] + margin)
            pen.text(place, labels[index], fill=letters[index], font=load_font(font, font_size))
    return from_canvas(canvas, image)


def check_boxes(op: str, boxes: Any) -> list[list[float]]:
    """Return the corners of boxes."""
    if not isinstance(boxes, Tensor) or (boxes.numel() and (boxes.ndim, boxes.shape[-1]) != (2, 4)):
        shape = tuple(boxes.shape) if isinstance(boxes, Tensor) else type(boxes).__name__
        hint = "each box is (x_min, y_min, x_max, y_max)"
        raise ShapeValueError(op, "expected boxes N × 4", {"boxes": shape}, hint)
    corners = boxes.tolist() if boxes.numel() else []
    for box in corners:
        if box[0] > box[2] or box[1] > box[3]:
            raise InvalidValueError(
                op, "the corners of a box are in the wrong order", {"box": box},
                "(x_min, y_min, x_max, y_max); for width and height see ops.box_convert",
            )  # fmt: skip
    return corners


def load_font(font: str | None, font_size: int | None) -> Any:
    """Return a font of Pillow: that of a file, or its own."""
    from PIL import ImageFont

    if font is None:
        return ImageFont.load_default()
    return ImageFont.truetype(font, font_size or 10)


def draw_segmentation_masks(
    image: Tensor, masks: Tensor, alpha: float = 0.8, colors: Any = None
) -> Tensor:
    """Colour parts of an image; where masks overlap it becomes dark.

    Args:
        image: 3 channels × height × width: uint8, or floats from 0 to 1.
        masks: bool, height × width, or N × height × width for several parts.
        alpha: from 0 (the image) to 1 (the colours).
        colors: one for all, or one for each mask.

    Raises:
        ArgumentError: the masks are not of bool.
        ShapeValueError: they have another size than the image.

    >>> mask = tensor([[True, False]])
    >>> draw_segmentation_masks(zeros(3, 1, 2, dtype=uint8), mask, 0.5, "white")[0]
    tensor([[127,   0]], dtype=torch.uint8)
    """
    op = "draw_segmentation_masks"
    picture = check_drawable(op, image)
    if not isinstance(masks, Tensor) or masks.dtype is not bool_dtype:
        text = masks.dtype if isinstance(masks, Tensor) else type(masks).__name__
        hint = "compare with a threshold: probabilities > 0.5; or classes == 3"
        raise ArgumentError(op, "expected masks of bool", {"masks": text}, hint)
    layers = masks[None] if masks.ndim == 2 else masks
    if layers.ndim != 3 or layers.shape[-2:] != picture.shape[-2:]:
        raise ShapeValueError(
            op, "the masks have another size than the image",
            {"masks": tuple(masks.shape), "image (c h w)": tuple(image.shape)},
        )  # fmt: skip
    white = 1.0 if image.is_floating_point() else 255
    painted = picture.clone()
    for layer, color in zip(layers, to_colors(op, colors, len(layers)), strict=True):
        values = ops.tensor([channel / 255 * white for channel in color]).to(image.dtype)
        painted[:, layer] = values[:, None].to(image.device)
    painted[:, layers.sum(0) > 1] = 0
    return (picture * (1 - alpha) + painted * alpha).to(image.dtype)


def draw_keypoints(
    image: Tensor, keypoints: Tensor, connectivity: list[tuple[int, int]] | None = None,
    colors: Any = None, radius: int = 2, width: int = 3, visibility: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Draw points, and lines between them.

    Args:
        image: 3 channels × height × width: uint8, or floats from 0 to 1.
        keypoints: N × K × 2: K points (x, y) of each of N things.
        connectivity: pairs of numbers of points that a line connects.
        colors: of the points, one for all or one for each of the N things.
        radius: of the points, in pixels.
        width: of the lines, in pixels.
        visibility: bool, N × K: which points are drawn.

    Raises: ShapeValueError: the points or their visibility have another shape.

    >>> draw_keypoints(zeros(3, 9, 9, dtype=uint8), tensor([[[4, 4]]]), colors="white")[0, 4, 4]
    tensor(255, dtype=torch.uint8)
    """
    op = "draw_keypoints"
    picture = check_drawable(op, image)
    if keypoints.ndim != 3 or keypoints.shape[-1] != 2:
        arguments = {"keypoints": tuple(keypoints.shape)}
        raise ShapeValueError(op, "expected points N × K × 2", arguments, "each point is (x, y)")
    if visibility is None:
        visibility = ops.ones(*keypoints.shape[:-1], dtype=bool_dtype)
    visible = visibility.squeeze(-1) if visibility.ndim == 3 else visibility
    if visible.shape != keypoints.shape[:-1]:
        arguments = {"visibility": visibility.shape, "keypoints": keypoints.shape}
        raise ShapeValueError(op, "expected a visibility for each point", arguments)
    canvas, pen = draw_on(picture, "RGB")
    pens = to_colors(op, colors, len(keypoints)) if colors is not None else [None] * len(keypoints)
    for points, shown, color in zip(keypoints.tolist(), visible.tolist(), pens, strict=True):
        draw_points(pen, points, shown, radius, color)
        for start, end in connectivity or ():
            if shown[start] and shown[end]:
                pen.line((*points[start], *points[end]), width=width)
    return from_canvas(canvas, image)


def draw_points(pen: Any, points: Any, shown: Any, radius: int, color: Any) -> None:
    """Draw the points of one thing that are shown."""
    for (x, y), is_shown in zip(points, shown, strict=True):
        if is_shown:
            box = [x - radius, y - radius, x + radius, y + radius]
            pen.ellipse(box, fill=color, outline=None, width=0)


def flow_to_image(flow: Tensor) -> Tensor:
    """Return a picture of movements: the colour says the direction, its strength the distance.

    Args:
        flow: (N ×) 2 × height × width: how far each pixel moves to the right and down.

    Raises: ShapeValueError: it has another shape.

    >>> flow_to_image(zeros(2, 1, 1)).flatten()
    tensor([255, 255, 255], dtype=torch.uint8)
    """
    if flow.ndim not in (3, 4) or flow.shape[-3] != 2:
        arguments = {"flow": tuple(flow.shape)}
        raise ShapeValueError("flow_to_image", "expected (N ×) 2 × height × width", arguments)
    batch = flow[None] if flow.ndim == 3 else flow
    eps = finfo(flow.dtype).eps
    longest = batch.square().sum(1).sqrt().max()
    x, y = (batch / (longest + eps)).unbind(1)
    distance = (x.square() + y.square()).sqrt()
    wheel = ops.tensor(color_wheel()).to(flow.device)
    place = (ops.atan2(-y, -x) / math.pi + 1) / 2 * (len(wheel) - 1)
    below = place.floor().to(int64)
    share = (place - below)[..., None]
    hue = (1 - share) * wheel[below] + share * wheel[(below + 1) % len(wheel)]
    levels = (255 * (1 - distance[..., None] * (1 - hue))).floor().to(uint8)
    images = levels.permute(0, 3, 1, 2)
    return images[0] if flow.ndim == 3 else images


def color_wheel() -> np.ndarray[Any, Any]:
    """Return 55 colours in a circle, red, yellow, green, cyan, blue, magenta: 55 × 3, from 0 to 1.

    Paper: Baker et al., "A Database and Evaluation Methodology for Optical Flow" (2007).

    >>> color_wheel().shape
    (55, 3)
    """
    colors = []
    # From each colour to the next one channel rises or falls, in so many steps.
    for steps, full, changing, is_rising in (
        (15, 0, 1, True), (6, 1, 0, False), (4, 1, 2, True), (11, 2, 1, False), (13, 2, 0, True),
        (6, 0, 2, False),
    ):  # fmt: skip
        for step in range(steps):
            level = math.floor(255 * step / steps)
            color = [0.0, 0.0, 0.0]
            color[full], color[changing] = 1.0, (level if is_rising else 255 - level) / 255
            colors.append(color)
    return np.array(colors, np.float32)
