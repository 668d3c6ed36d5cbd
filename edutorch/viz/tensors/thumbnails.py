"""Small pictures of tensors: an image, a matrix as a heat map, a histogram.

`thumbnail_of` keeps a few pixels of an array as bytes. `slot_height` returns the height of a node's
picture from the node alone, so that a layout does not depend on values. `draw` draws it.
"""

from __future__ import annotations

import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from ... import backends
from ...backends.numpy import Array
from ..render.svg import element

LARGEST = 32
"""The largest side of a thumbnail in pixels; blocks of a larger image are averaged."""

SMALLEST = 2
FEW = 4
"""Tensors of at most so many elements are written, not drawn."""

IMAGE_SIDES = 6, 512
"""The least and largest side of a square plane of data that is taken for an image."""

MAP_HEIGHT, BARS_HEIGHT, GAP = 46.0, 18.0, 3.0
"""In points."""

Kind = Literal["image", "weights", "attention", "bars"]

Colour = tuple[int, int, int]
LEVELS = 32
"""The number of colours of a map with one channel."""

BELOW, MIDDLE, ABOVE = (33, 82, 153), (247, 247, 247), (176, 84, 5)
"""The colour scale of weights: negative, 0, positive; safe for colour-blind readers."""

LOW, HIGH = (247, 250, 252), (24, 46, 110)
"""The colour scale of attention: 0, and the largest weight."""


class Thumbnail(NamedTuple):
    """A few pixels, row by row, from 0 for the smallest element of the tensor to 255.

    `channels` is 3 for colour, else 1; `attends`: whether each row sums to 1.
    """

    width: int
    height: int
    channels: int
    pixels: bytes
    attends: bool = False


# Pixels of an array ---------------------------------------------------------------------------


def thumbnail_of(array: Array, low: float, high: float) -> Thumbnail | None:
    """Return a small picture of an array, or of the first in a batch; None if it has none.

    Args:
        low, high: the smallest and the largest element.
    """
    plane = plane_of(array.shape)
    if plane is None:
        return None
    # Three planes are taken for colours; a batch of three gray images is the price.
    channels = 3 if array.ndim > 2 and array.shape[-3] == 3 else 1
    first = array[(0,) * (array.ndim - 2 - (channels == 3))]
    small = downsample(first.reshape(channels, *plane))  # before it leaves its device
    on_host = backends.of(small).to_numpy(small) if backends.is_array(small) else small
    values = np.asarray(on_host, "f4")
    attends = low >= 0 and plane[0] == plane[1] <= LARGEST and has_unit_rows(values)
    scaled = (values - low) / (high - low) if high > low else np.full_like(values, 0.5)
    pixels = np.clip(np.rint(scaled * 255), 0, 255).astype("u1").transpose(1, 2, 0)
    height, width = pixels.shape[:2]
    return Thumbnail(width, height, channels, pixels.tobytes(), attends)


def plane_of(shape: Sequence[int]) -> tuple[int, int] | None:
    """Return height and width of the plane that can be drawn, or None."""
    if len(shape) < 2 or 0 in shape:
        return None
    height, width = shape[-2:]
    small = SMALLEST <= height <= LARGEST and SMALLEST <= width <= LARGEST
    return (height, width) if small or is_image(shape) else None


def is_image(shape: Sequence[int]) -> bool:
    """Whether a shape is that of an image or a batch of images."""
    if len(shape) not in (2, 3, 4):
        return False
    height, width = shape[-2:]
    least, most = IMAGE_SIDES
    if not (least <= height <= most and least <= width <= most):
        return False
    return height == width if len(shape) < 4 else shape[1] in (1, 3)


def has_unit_rows(rows: Array) -> bool:
    """Whether each row sums to 1, as attention weights do."""
    return bool(np.all(np.abs(rows.sum(-1) - 1) < 1e-3))


def downsample(pixels: Array) -> Any:
    """Downsample an image by averaging blocks, so that no side exceeds LARGEST."""
    _, height, width = pixels.shape
    step = max(-(-height // LARGEST), -(-width // LARGEST))
    if step == 1:
        return pixels
    # Whole blocks only: at most one block of the edge is cut off.
    pixels = pixels[:, : height // step * step, : width // step * step]
    return pixels.reshape(-1, height // step, step, width // step, step).mean((2, 4))


# Drawing in a box -----------------------------------------------------------------------------


def picture_style(node: Any) -> Kind | None:
    """Return how the value of a node is drawn, from the node alone; None if it is not."""
    if node.kind in ("constant", "failed", "gradient") or math.prod(node.shape) <= FEW:
        return None
    if "float" not in node.dtype:  # of other integers the first ones are written
        return "image" if node.dtype == "uint8" and is_image(node.shape) else None
    plane = plane_of(node.shape)
    if plane is not None and node.kind == "parameter" and len(node.shape) == 2:
        return "weights" if max(plane) <= LARGEST else "bars"
    if plane is not None and "softmax" in node.label.lower() and plane[0] == plane[1]:
        return "attention"
    is_data = node.kind in ("leaf", "buffer")
    if is_image(node.shape) and (is_data or len(node.shape) == 4):
        return "image"
    return "weights" if is_data and len(node.shape) == 2 and plane is not None else "bars"


def slot_height(node: Any) -> float:
    """Return the height of a node's picture in its box, in points."""
    style = picture_style(node)
    return 0.0 if style is None else GAP + (BARS_HEIGHT if style == "bars" else MAP_HEIGHT)


def drawn_style(node: Any, stats: Any) -> Kind | None:
    """Return how a node with known statistics is drawn; None if it is not."""
    style = picture_style(node)
    if style is None or stats is None or stats.bad:
        return None
    if stats.thumbnail is None or (style == "attention" and not stats.thumbnail.attends):
        style = "bars"
    return style if style != "bars" or stats.bars else None


def draw(parent: Element, node: Any, stats: Any, box: tuple[float, float, float, float]) -> None:
    """Add the picture of a node to its group.

    Args:
        box: the room for it: left, top, right, bottom.
    """
    style = drawn_style(node, stats)
    if style is None:
        return
    if style == "bars":
        draw_bars(parent, stats.bars, box)
        return
    thumbnail, (left, top, right, bottom) = stats.thumbnail, box
    scale = min((right - left) / thumbnail.width, (bottom - top) / thumbnail.height)
    width, height = thumbnail.width * scale, thumbnail.height * scale
    attributes = {
        "x": f"{(left + right - width) / 2:.2f}", "y": f"{(top + bottom - height) / 2:.2f}",
        "width": f"{width:.2f}", "height": f"{height:.2f}",
    }  # fmt: skip
    png = encode_png(thumbnail.width, thumbnail.height, *colour_pixels(style, thumbnail, stats))
    data = f"data:image/png;base64,{b64encode(png).decode()}"
    element(parent, "image", **attributes, href=data, preserveAspectRatio="none",
            style="image-rendering:pixelated")  # fmt: skip
    element(parent, "rect", **attributes, fill="none", stroke="#6B7280", stroke_width="0.5")


def draw_bars(
    parent: Element, counts: Sequence[int], box: tuple[float, float, float, float]
) -> None:
    """Add a histogram as one path, scaled to its largest bin."""
    left, top, right, bottom = box
    width, peak = (right - left) / len(counts), max(counts, default=0) or 1
    path = ""
    for index, count in enumerate(counts):
        if count:
            # A bin of one element in a million is still seen.
            height = max(0.8, (bottom - top) * count / peak)
            x = left + index * width
            path += f"M{x:.1f} {bottom:.1f}v{-height:.1f}h{width - 0.6:.1f}v{height:.1f}Z"
    element(parent, "path", d=path, fill="#5B6470", stroke="none", class_="bars")
    element(parent, "path", d=f"M{left:.1f} {bottom:.1f}H{right:.1f}", stroke="#9AA1AB",
            stroke_width="0.6", fill="none")  # fmt: skip


def colour_pixels(style: Kind, thumbnail: Thumbnail, stats: Any) -> tuple[int, bytes, list[Colour]]:
    """Return the number of channels, the pixels, and the palette of a picture with one channel."""
    if thumbnail.channels == 3:
        return 3, thumbnail.pixels, []
    top = LEVELS - 1
    pixels = bytes(round(pixel / 255 * top) for pixel in thumbnail.pixels)
    return 1, pixels, palette(style, stats.min, stats.max)


def palette(style: Kind, low: float, high: float) -> list[Colour]:
    """Return a colour for each level between the smallest and the largest element.

    The page has the same colours: tests/golden/palettes.json keeps both equal.
    """
    shares = [level / (LEVELS - 1) for level in range(LEVELS)]
    if style == "image":
        return [(round(255 * share),) * 3 for share in shares]  # type: ignore[misc]
    if style == "attention":
        return [mix_colours(LOW, HIGH, share) for share in shares]
    reach = max(abs(low), abs(high)) or 1.0
    colours = []
    for share in shares:
        value = (low + (high - low) * share) / reach
        colours.append(mix_colours(MIDDLE, ABOVE if value > 0 else BELOW, abs(value)))
    return colours


def mix_colours(one: Colour, other: Colour, share: float) -> Colour:
    red, green, blue = (
        math.floor(a + (b - a) * share + 0.5) for a, b in zip(one, other, strict=True)
    )
    return red, green, blue


def encode_png(
    width: int, height: int, channels: int, pixels: bytes, colours: Sequence[Colour]
) -> bytes:
    """Encode a PNG: RGB with three channels, else with a palette."""
    line = width * channels
    rows = b"".join(b"\0" + pixels[start : start + line] for start in range(0, line * height, line))
    header = struct.pack(">IIBBBBB", width, height, 8, 3 if colours else 2, 0, 0, 0)
    table = (
        _chunk(b"PLTE", bytes(part for colour in colours for part in colour)) if colours else b""
    )
    return b"".join((
        b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", header), table,
        _chunk(b"IDAT", zlib.compress(rows, 9)), _chunk(b"IEND", b""),
    ))  # fmt: skip


def _chunk(name: bytes, content: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(name + content))
    return struct.pack(">I", len(content)) + name + content + check


def page_thumbnail(node: Any, stats: Any) -> dict[str, Any] | None:
    """Return a node's picture as a message (`Thumbnail` in the protocol)."""
    style = drawn_style(node, stats)
    if style is None:
        return None
    about = {"kind": style, "low": stats.min, "high": stats.max, "std": stats.std}
    if style == "bars":
        return {**about, "bars": list(stats.bars)}
    thumbnail = stats.thumbnail
    return {
        **about, "width": thumbnail.width, "height": thumbnail.height,
        "channels": thumbnail.channels, "pixels": b64encode(thumbnail.pixels).decode(),
    }  # fmt: skip
