"""SVG as an XML tree, and its conversion to PNG and PDF.

Elements are created, never concatenated from text. Only what these pictures hold is converted:
paths, polygons, rectangles, circles, text and PNG images, translated but not rotated. Pillow draws
the PNG, matplotlib writes the PDF; both are imported only when needed.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import itertools
import math
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np

from ...errors import missing_extra

SVG = "http://www.w3.org/2000/svg"
MONO = "Menlo,Consolas,DejaVu Sans Mono,monospace"
LETTER = 0.602
"""The width of a character of a monospaced font, relative to its size."""

# Without it, ElementTree writes `<ns0:svg>`, which no browser draws inside HTML.
ElementTree.register_namespace("", SVG)


def element(parent: Element, tag: str, text: str = "", **attributes: Any) -> Any:
    """Add an element below `parent`: `class_` is written as class, `_` as a hyphen."""
    names = {key.rstrip("_").replace("_", "-"): str(value) for key, value in attributes.items()}
    child = ElementTree.SubElement(parent, f"{{{SVG}}}{tag}", names)
    child.text = text or None
    return child


def words(
    parent: Element, text: str, x: float, y: float, size: float = 9, **attributes: Any
) -> Any:
    """Add a line of text in the font of all pictures."""
    position = {"x": f"{x:.2f}", "y": f"{y:.2f}", "font_size": f"{size:g}", "font_family": MONO}
    return element(parent, "text", text, **position, **attributes)


def text_width(text: str, size: float = 9) -> float:
    """Return the width of a line of text in points.

    >>> text_width("ten chars!", 10)
    60.2
    """
    return round(len(text) * size * LETTER, 3)


def iter_elements(root: Element, tag: str) -> Any:
    """Yield all elements with a tag."""
    return root.iter(f"{{{SVG}}}{tag}")


def as_text(root: Element) -> str:
    """Return a tree as SVG text."""
    return ElementTree.tostring(root, encoding="unicode")


LONGEST_SIDE = 2000
"""The largest number of pixels of a PNG's longer side."""


MOST_BYTES = 120_000
"""A PNG of more bytes is drawn again at a smaller scale."""


USUAL_SCALE = 2.0
"""Pixels per point, if the picture is not too large."""


SMOOTH = 2
"""The supersampling factor: Pillow's lines are not antialiased."""


CURVE_PARTS = 12


COLOURS, IMAGE_COLOURS = 224, 96
"""The largest number of colours in a PNG, and how many of them are for the thumbnails."""


Point = tuple[float, float]


class Shape(NamedTuple):
    """Polylines and their style; "" stands for no colour."""

    lines: list[list[Point]]
    fill: str
    stroke: str
    width: float
    dashes: tuple[float, ...]
    opacity: float


class Text(NamedTuple):
    """A line of text; `anchor` is "start", "middle" or "end"."""

    text: str
    at: Point
    anchor: str
    size: float
    bold: bool
    fill: str


class Image(NamedTuple):
    """A PNG and its box: left, top, width, height."""

    png: bytes
    box: tuple[float, float, float, float]


Figure = Shape | Text | Image


def figures_of(root: Element) -> Iterator[Figure]:
    """Yield all figures in drawing order, in the coordinates of the whole picture."""
    yield from _figures(root, (0.0, 0.0), {})


def _figures(parent: Element, shift: Point, inherited: dict[str, str]) -> Iterator[Figure]:
    for child in parent:
        tag = child.tag.removeprefix(f"{{{SVG}}}")
        x, y = _translation(child.get("transform", ""))
        offset = shift[0] + x, shift[1] + y
        looks = inherited | dict(child.attrib)
        if tag == "g":
            yield from _figures(child, offset, _inheritable(looks))
        elif tag == "text":
            yield _text(child, offset, looks)
        elif tag == "image":
            data = b64decode(child.get("href", "").partition(",")[2])
            left, top, width, height = (float(child.get(name, 0)) for name in
                                        ("x", "y", "width", "height"))  # fmt: skip
            yield Image(data, (left + offset[0], top + offset[1], width, height))
        elif tag in ("path", "polygon", "polyline", "rect", "circle", "ellipse"):
            yield _shape(_lines(tag, child), offset, looks, closed=tag != "polyline")


def _inheritable(looks: dict[str, str]) -> dict[str, str]:
    return {
        key: value for key, value in looks.items() if key.startswith(("fill", "stroke", "font"))
    }


def _translation(transform: str) -> Point:
    match = re.search(r"translate\(([-\d.]+)[ ,]+([-\d.]+)\)", transform)
    return (float(match[1]), float(match[2])) if match else (0.0, 0.0)


def _text(element: Element, shift: Point, looks: dict[str, str]) -> Text:
    position = float(looks.get("x", 0)) + shift[0], float(looks.get("y", 0)) + shift[1]
    size = float(looks.get("font-size", "10").removesuffix("px"))
    words, anchor = "".join(element.itertext()), looks.get("text-anchor", "start")
    bold, fill = looks.get("font-weight") == "bold", _colour(looks.get("fill", "black"))
    return Text(words, position, anchor, size, bold, fill)


def _shape(lines: list[list[Point]], shift: Point, looks: dict[str, str], closed: bool) -> Shape:
    dashes = re.findall(r"[\d.]+", looks.get("stroke-dasharray", ""))
    shifted = [[(x + shift[0], y + shift[1]) for x, y in line] for line in lines]
    opacity = float(looks.get("fill-opacity", 1))
    return Shape(
        shifted, _colour(looks.get("fill", "black" if closed else "none")),
        _colour(looks.get("stroke", "none")), float(looks.get("stroke-width", 1)),
        tuple(map(float, dashes)), opacity,
    )  # fmt: skip


def _colour(text: str) -> str:
    return "" if text in ("none", "transparent") else text


def _lines(tag: str, element: Element) -> list[list[Point]]:
    attribute = functools.partial(_attribute, element)
    if tag == "path":
        return path_lines(element.get("d", ""))
    if tag in ("polygon", "polyline"):
        coordinates = list(map(float, re.findall(r"-?[\d.]+", element.get("points", ""))))
        return [list(zip(coordinates[::2], coordinates[1::2], strict=True))]
    if tag == "rect":
        return [rectangle_outline(*map(attribute, ("x", "y", "width", "height", "rx")))]
    rx = attribute("r") or attribute("rx")
    ry = attribute("r") or attribute("ry")
    angles = [2 * math.pi * part / 24 for part in range(25)]
    return [[(attribute("cx") + rx * math.cos(angle), attribute("cy") + ry * math.sin(angle))
             for angle in angles]]  # fmt: skip


def _attribute(element: Element, name: str) -> float:
    return float(element.get(name, 0))


def rectangle_outline(
    x: float, y: float, width: float, height: float, radius: float
) -> list[Point]:
    """Return the outline of a rectangle with rounded corners."""
    if not radius:
        return [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
    centres = [(x + width - radius, y + radius), (x + width - radius, y + height - radius),
               (x + radius, y + height - radius), (x + radius, y + radius)]  # fmt: skip
    outline = [
        (cx + radius * math.cos(angle), cy + radius * math.sin(angle))
        for corner, (cx, cy) in enumerate(centres)
        for angle in (math.pi / 2 * (corner - 1 + part / 6) for part in range(7))
    ]
    return [*outline, outline[0]]


def path_lines(path: str) -> list[list[Point]]:
    """Return the polylines of an SVG path; curves become short line segments.

    >>> path_lines("M0 0h2v1Z")
    [[(0.0, 0.0), (2.0, 0.0), (2.0, 1.0), (0.0, 0.0)]]
    """
    lines: list[list[Point]] = []
    for command, arguments in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        coordinates = list(map(float, re.findall(r"-?\d*\.?\d+", arguments)))
        if command in "Mm":
            lines.append([])
        _extend(lines[-1], command, coordinates)
    return lines


def _extend(line: list[Point], command: str, coordinates: Sequence[float]) -> None:
    """Extend a polyline by one command of a path."""
    letter, relative = command.upper(), command.islower()
    if letter == "Z":
        line.append(line[0])
        return
    size = {"H": 1, "V": 1, "C": 6, "A": 7}.get(letter, 2)
    for start in range(0, len(coordinates), size):
        group = coordinates[start : start + size]
        x, y = line[-1] if line else (0.0, 0.0)
        base = (x, y) if relative else (0.0, 0.0)
        if letter == "H":
            line.append((group[0] + base[0], y))
        elif letter == "V":
            line.append((x, group[0] + base[1]))
        elif letter == "A":
            end = group[5] + base[0], group[6] + base[1]
            line.extend(_arc((x, y), group[0], end, group[4] > 0))
        else:
            points = [(a + base[0], b + base[1])
                      for a, b in zip(group[::2], group[1::2], strict=True)]  # fmt: skip
            line.extend(_bezier((x, y), *points) if letter == "C" else points)


def _bezier(p0: Point, p1: Point, p2: Point, p3: Point) -> Iterator[Point]:
    if _is_straight(p0, p1, p3) and _is_straight(p0, p2, p3):
        yield p3
        return
    for part in range(1, CURVE_PARTS + 1):
        t = part / CURVE_PARTS
        a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
        yield (a * p0[0] + b * p1[0] + c * p2[0] + d * p3[0],
               a * p0[1] + b * p1[1] + c * p2[1] + d * p3[1])  # fmt: skip


def _is_straight(start: Point, middle: Point, end: Point) -> bool:
    """Whether a point lies on a line, within a twentieth of a point."""
    across, down = end[0] - start[0], end[1] - start[1]
    area = across * (middle[1] - start[1]) - down * (middle[0] - start[0])
    return abs(area) < 0.05 * math.hypot(across, down)


def _arc(start: Point, radius: float, end: Point, clockwise: bool) -> Iterator[Point]:
    """Yield the points of a half circle, the only arc in the marks."""
    cx, cy = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    first = math.atan2(start[1] - cy, start[0] - cx)
    for part in range(1, CURVE_PARTS + 1):
        angle = first + (1 if clockwise else -1) * math.pi * part / CURVE_PARTS
        yield cx + radius * math.cos(angle), cy + radius * math.sin(angle)


def png_of(svg: str) -> bytes:
    """Convert an SVG to a PNG that is small enough for a notebook.

    Raises: ImportError: Pillow is not installed.
    """
    root = ElementTree.fromstring(svg)
    box = _view_box(root)
    scale = min(USUAL_SCALE, LONGEST_SIDE / max(box[2:]))
    figures = list(figures_of(root))
    while True:
        png = draw_png(figures, box, scale)
        if len(png) <= MOST_BYTES:
            return png
        scale *= min(0.9, math.sqrt(MOST_BYTES / len(png)))


def _view_box(root: Element) -> tuple[float, float, float, float]:
    left, top, width, height = map(float, root.get("viewBox", "").split())
    return left, top, width, height


def draw_png(
    figures: Sequence[Figure], box: tuple[float, float, float, float], scale: float
) -> bytes:
    """Draw with Pillow, at `scale` pixels per point."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    left, top, width, height = box
    size = max(1, math.floor(width * scale)), max(1, math.floor(height * scale))
    canvas = Pillow.new("RGB", (size[0] * SMOOTH, size[1] * SMOOTH), "white")
    painter = Painter(canvas, ImageDraw.Draw(canvas), (left, top), scale * SMOOTH)
    for figure in figures:
        painter.paint(figure)
    file = io.BytesIO()
    apply_palette(canvas.reduce(SMOOTH), colours_of(figures)).save(file, "png", optimize=True)
    return file.getvalue()


def colours_of(figures: Iterable[Figure]) -> list[tuple[int, int, int]]:
    """Return the colours of figures, white first, all of which have to be in the palette."""
    colours = {"#ffffff": None}
    for figure in figures:
        if isinstance(figure, Shape):
            fill = _over_white(figure.fill, figure.opacity) if figure.opacity < 1 else figure.fill
            colours |= dict.fromkeys((fill, figure.stroke))
        elif isinstance(figure, Text):
            colours[figure.fill] = None
    images = [figure for figure in figures if isinstance(figure, Image)]
    count = max(8, IMAGE_COLOURS // max(1, len(images)))
    inner = [colour for image in images for colour in main_colours(image, count)]
    return [*(rgb_of(text) for text in colours if text.startswith("#")), *inner[:IMAGE_COLOURS]]


def main_colours(image: Image, count: int) -> list[tuple[int, int, int]]:
    """Return up to `count` representative colours of a thumbnail."""
    from PIL import Image as Pillow

    picture = Pillow.open(io.BytesIO(image.png)).convert("RGB")
    parts = picture.quantize(count, dither=Pillow.Dither.NONE).getpalette() or []
    return [(red, green, blue) for red, green, blue in
            zip(parts[::3], parts[1::3], parts[2::3], strict=True)]  # fmt: skip


def rgb_of(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return red, green, blue


def apply_palette(image: Any, colours: Sequence[tuple[int, int, int]]) -> Any:
    """Quantize an image to the given colours and its most frequent other ones.

    Each pixel gets the nearest colour. Pillow's own quantization is not exact, not even for white.
    """
    from PIL import Image as Pillow

    counts = sorted(image.getcolors(image.width * image.height), reverse=True)
    present = np.array([colour for _, colour in counts], "i4")
    chosen = list(dict.fromkeys([*colours, *map(tuple, present.tolist())]))[:COLOURS]
    nearest = np.empty(1 << 24, "u1")
    for block in np.array_split(present, -(-len(present) // 4096)):
        distances = ((block[:, None] - np.array(chosen, "i4")) ** 2).sum(-1)
        nearest[pack_colours(block)] = distances.argmin(1)
    palette_image = Pillow.fromarray(nearest[pack_colours(np.asarray(image))], "P")
    palette_image.putpalette([part for colour in chosen for part in colour])
    return palette_image


def pack_colours(pixels: Any) -> Any:
    """Return each RGB colour as one integer."""
    pixels = pixels.astype("i4")
    return (pixels[..., 0] << 16) | (pixels[..., 1] << 8) | pixels[..., 2]


class Painter:
    """Draws figures onto a Pillow image."""

    def __init__(self, canvas: Any, draw: Any, origin: Point, scale: float) -> None:
        self.canvas, self.draw, self.origin, self.scale = canvas, draw, origin, scale

    def paint(self, figure: Figure) -> None:
        """Draw one figure on top of the image."""
        if isinstance(figure, Shape):
            self._shape(figure)
        elif isinstance(figure, Text):
            self._text(figure)
        else:
            self._image(figure)

    def _place(self, point: Point) -> Point:
        return (point[0] - self.origin[0]) * self.scale, (point[1] - self.origin[1]) * self.scale

    def _shape(self, shape: Shape) -> None:
        for line in shape.lines:
            points = [self._place(point) for point in line]
            if shape.fill and len(points) > 2:
                fill = shape.fill if shape.opacity == 1 else _over_white(shape.fill, shape.opacity)
                self.draw.polygon(points, fill=fill)
            if shape.stroke and len(points) > 1:
                width = max(1, round(shape.width * self.scale))
                for part in dash_segments(points, [dash * self.scale for dash in shape.dashes]):
                    self.draw.line(part, fill=shape.stroke, width=width, joint="curve")

    def _text(self, text: Text) -> None:
        anchor = {"start": "ls", "middle": "ms", "end": "rs"}[text.anchor]
        place = self._place(text.at)
        font = load_font(text.bold, round(text.size * self.scale))
        words = text.text if text.anchor != "middle" else text.text.strip()
        self.draw.text(place, words, fill=text.fill, font=font, anchor=anchor)

    def _image(self, image: Image) -> None:
        from PIL import Image as Pillow

        left, top, width, height = image.box
        x, y = self._place((left, top))
        size = max(1, round(width * self.scale)), max(1, round(height * self.scale))
        picture = Pillow.open(io.BytesIO(image.png)).convert("RGB")
        self.canvas.paste(picture.resize(size, Pillow.Resampling.NEAREST), (round(x), round(y)))


def _over_white(colour: str, opacity: float) -> str:
    return "#" + "".join(f"{round(255 + (part - 255) * opacity):02x}" for part in rgb_of(colour))


def dash_segments(points: Sequence[Point], dashes: Sequence[float]) -> Iterator[list[Point]]:
    """Yield the visible segments of a dashed line."""
    if not dashes:
        yield list(points)
        return
    remaining, index, segment = dashes[0], 0, [points[0]]
    for start, end in itertools.pairwise(points):
        position, length = 0.0, math.dist(start, end)
        while length - position > remaining:
            position += remaining
            share = position / length
            middle = start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])
            if index % 2 == 0:
                yield [*segment, middle]
            segment, index = [middle], index + 1
            remaining = dashes[index % len(dashes)]
        remaining -= length - position
        segment.append(end)
    if index % 2 == 0 and len(segment) > 1:
        yield segment


@functools.lru_cache(64)
def load_font(bold: bool, size: int) -> Any:
    """Return the font of all pictures: the one in matplotlib, else Pillow's default."""
    from PIL import ImageFont

    path = font_folder() / f"DejaVuSansMono{'-Bold' if bold else ''}.ttf"
    return ImageFont.truetype(path, size) if path.exists() else ImageFont.load_default(size)


@functools.cache
def font_folder() -> Path:
    spec = importlib.util.find_spec("matplotlib")
    return Path(spec.origin if spec and spec.origin else ".").parent / "mpl-data/fonts/ttf"


def pdf_of(svg: str) -> bytes:
    """Convert an SVG to a PDF with vector graphics and searchable text.

    Raises: MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_pdf import FigureCanvasPdf
        from matplotlib.figure import Figure as Page
    except ImportError as error:
        raise missing_extra("lab", "viz", f"to write PDF, {error.name} is not installed") from error
    root = ElementTree.fromstring(svg)
    left, top, width, height = _view_box(root)
    page = Page(figsize=(width / 72, height / 72))
    axes = page.add_axes((0, 0, 1, 1))
    axes.set(xlim=(left, left + width), ylim=(top + height, top))
    axes.axis("off")
    axes.autoscale(False)  # an image would change the limits
    for layer, figure in enumerate(figures_of(root)):
        _add_to_page(axes, figure, layer)
    file = io.BytesIO()
    FigureCanvasPdf(page).print_pdf(file, metadata={"CreationDate": None})
    return file.getvalue()


def _add_to_page(axes: Any, figure: Figure, layer: int) -> None:
    """Add one figure to matplotlib axes with the coordinates of the SVG."""
    if isinstance(figure, Text):
        across = {"start": "left", "middle": "center", "end": "right"}[figure.anchor]
        axes.text(*figure.at, figure.text.replace("$", r"\$"), ha=across, va="baseline",
                  fontsize=figure.size, color=figure.fill, zorder=layer, clip_on=False,
                  family=["DejaVu Sans Mono", "DejaVu Sans"],
                  weight="bold" if figure.bold else "normal")  # fmt: skip
    elif isinstance(figure, Image):
        import matplotlib.image

        left, top, width, height = figure.box
        pixels = matplotlib.image.imread(io.BytesIO(figure.png))
        axes.imshow(pixels, extent=(left, left + width, top + height, top), zorder=layer,
                    interpolation="none", aspect="auto")  # fmt: skip
    else:
        _add_shape(axes, figure, layer)


def _add_shape(axes: Any, shape: Shape, layer: int) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    lines = [line for line in shape.lines if line]
    if not lines:
        return
    outline = Outline.make_compound_path(*(Outline(line) for line in lines))
    style = (0, tuple(dash / shape.width for dash in shape.dashes)) if shape.dashes else "solid"
    patch = PathPatch(
        outline, facecolor=shape.fill or "none", edgecolor=shape.stroke or "none",
        linewidth=shape.width if shape.stroke else 0, linestyle=style, zorder=layer, clip_on=False,
    )  # fmt: skip
    if shape.fill and shape.opacity != 1:
        patch.set_facecolor((shape.fill, shape.opacity))
    axes.add_patch(patch)
