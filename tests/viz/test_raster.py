"""Our SVG as PNG and PDF: its shapes, texts and colours are where the SVG has them."""

import io
import math
from base64 import b64encode
from xml.etree import ElementTree

import numpy as np
import pytest

from edutorch.viz.render import svg as svg_module
from edutorch.viz.render.svg import (
    LONGEST_SIDE,
    SVG,
    Image,
    Shape,
    Text,
    colours_of,
    dash_segments,
    draw_png,
    figures_of,
    path_lines,
    pdf_of,
    png_of,
    rectangle_outline,
    rgb_of,
)
from edutorch.viz.tensors.thumbnails import encode_png

HEAD = f'<svg xmlns="{SVG}" viewBox="0 0 100 60">'


def figures(inner):
    return list(figures_of(ElementTree.fromstring(f"{HEAD}{inner}</svg>")))


@pytest.mark.parametrize(("path", "lines"), [
    ("M1 2L3 4", [[(1, 2), (3, 4)]]), ("M1 2l3 4l-1,-1", [[(1, 2), (4, 6), (3, 5)]]),
    ("M1 2H5V7", [[(1, 2), (5, 2), (5, 7)]]), ("M1 2h5v7", [[(1, 2), (6, 2), (6, 9)]]),
    ("M0 0h2v1Z", [[(0, 0), (2, 0), (2, 1), (0, 0)]]), ("M1 1H3M5-5h.5", [[(1, 1), (3, 1)],
                                                                         [(5, -5), (5.5, -5)]]),
    ("M0 0 2 3 4 5", [[(0, 0), (2, 3), (4, 5)]]), ("M0 0C1 1 2 2 3 3", [[(0, 0), (3, 3)]]),
    ("M1 1c1 1 2 2 3 3", [[(1, 1), (4, 4)]]),
])  # fmt: skip
def test_a_path_is_lines_from_point_to_point(path, lines):
    assert path_lines(path) == lines


def test_a_curve_is_bezier_s():
    (line,) = path_lines("M0 0C0 4 8 4 8 0")
    assert line[0] == (0, 0) and line[-1] == pytest.approx((8, 0)) and len(line) == 13
    for part, point in enumerate(line):
        t = part / 12
        wanted = 3 * 8 * t * t * (1 - t) + 8 * t**3, 3 * 4 * t * (1 - t)
        assert point == pytest.approx(wanted)
    (moved,) = path_lines("M10 20c0 4 8 4 8 0")
    np.testing.assert_allclose(np.array(moved) - (10, 20), line)


@pytest.mark.parametrize(("sweep", "side"), [(1, -1), (0, 1)])
def test_an_arc_is_half_a_circle_to_the_side_that_is_asked_for(sweep, side):
    (line,) = path_lines(f"M2 5a3 3 0 0 {sweep} 6 0")
    around = np.array(line) - (5, 5)
    np.testing.assert_allclose(np.hypot(*around.T), 3)
    np.testing.assert_allclose(around[[0, -1]], [(-3, 0), (3, 0)], atol=1e-9)
    assert around[6] == pytest.approx((0, 3 * side))
    (same,) = path_lines(f"M2 5A3 3 0 0 {sweep} 8 5")
    np.testing.assert_allclose(same, line)


def test_rectangles_and_circles_are_outlines():
    assert rectangle_outline(1, 2, 10, 4, 0) == [(1, 2), (11, 2), (11, 6), (1, 6), (1, 2)]
    outline = np.array(rectangle_outline(1, 2, 10, 8, 2))
    assert (outline.min(0), outline.max(0)) == (pytest.approx((1, 2)), pytest.approx((11, 10)))
    corners = np.array([(3, 4), (9, 4), (3, 8), (9, 8)])
    apart = np.hypot(*(outline[:, None] - corners).transpose(2, 0, 1)).min(1)
    np.testing.assert_allclose(apart, 2)
    assert outline[0] == pytest.approx(outline[-1])
    turned = np.diff(outline, axis=0)
    assert (turned[:-1, 0] * turned[1:, 1] - turned[:-1, 1] * turned[1:, 0] > -1e-9).all()
    circle, ellipse = figures('<circle cx="5" cy="6" r="2"/><ellipse cx="5" cy="6" rx="3" ry="1"/>')
    around = np.array(circle.lines[0]) - (5, 6)
    np.testing.assert_allclose(np.hypot(*around.T), 2)
    around = (np.array(ellipse.lines[0]) - (5, 6)) / (3, 1)
    np.testing.assert_allclose(np.hypot(*around.T), 1)
    assert around[0] == pytest.approx(around[-1], abs=1e-9) and len(around) == 25


def test_groups_move_what_is_in_them_and_hand_on_their_looks():
    inner = (
        '<g transform="translate(10,20)" stroke="#ff0000" stroke-width="3" font-size="7" id="a">'
        '<g transform="scale(1 1) translate(1 2)" fill="none"><polygon points="0,0 1,0 1,-1"/></g>'
        '<text x="4" y="5" font-weight="bold" text-anchor="end" fill="#00ff00">a<tspan>b</tspan>'
        '</text></g><polyline points="0,0 1,1"/><title>not painted</title>'
        '<path d="M0 0h1" stroke="transparent" stroke-dasharray="3 1.5" fill-opacity="0.5"/>'
        '<text>plain</text>'
    )  # fmt: skip
    polygon, text, line, path, plain = figures(inner)
    assert polygon == Shape([[(11, 22), (12, 22), (12, 21)]], "", "#ff0000", 3, (), 1)
    assert text == Text("ab", (14, 25), "end", 7, True, "#00ff00")
    assert line == Shape([[(0, 0), (1, 1)]], "", "", 1, (), 1)
    assert path == Shape([[(0, 0), (1, 0)]], "black", "", 1, (3, 1.5), 0.5)
    assert plain == Text("plain", (0, 0), "start", 10, False, "black")


@pytest.mark.parametrize(("points", "dashes", "parts"), [
    ([(0, 0), (10, 0)], (), [[(0, 0), (10, 0)]]),
    ([(0, 0), (10, 0)], (3, 2), [[(0, 0), (3, 0)], [(5, 0), (8, 0)]]),
    ([(0, 0), (9, 0)], (3, 2), [[(0, 0), (3, 0)], [(5, 0), (8, 0)]]),
    ([(0, 0), (6, 0)], (3, 2), [[(0, 0), (3, 0)], [(5, 0), (6, 0)]]),
    ([(0, 0), (2, 0), (2, 4)], (3, 2), [[(0, 0), (2, 0), (2, 1)], [(2, 3), (2, 4)]]),
    ([(0, 0), (0, 5)], (2,), [[(0, 0), (0, 2)], [(0, 4), (0, 5)]]),
    ([(0, 0), (1, 0)], (3, 2), [[(0, 0), (1, 0)]]),
])  # fmt: skip
def test_a_broken_line_is_seen_in_parts(points, dashes, parts):
    segments = list(dash_segments(points, dashes))
    assert [[pytest.approx(point) for point in part] for part in parts] == segments


# Painted ------------------------------------------------------------------------------------


def painted(inner, scale=1.0):
    """Return the pixels of a picture, by row, column and colour."""
    pillow = pytest.importorskip("PIL.Image", reason="needs the extra `lab`")
    png = draw_png(figures(inner), (0, 0, 100, 60), scale)
    return np.asarray(pillow.open(io.BytesIO(png)).convert("RGB"))


def test_shapes_are_painted_where_they_are_one_over_the_other():
    image = painted(
        '<rect x="10" y="10" width="40" height="20" fill="#ff0000" stroke="#0000ff" '
        'stroke-width="4"/><rect x="30" y="15" width="40" height="30" fill="#00ff00" '
        'fill-opacity="0.5"/><polyline points="0,55 100,55" stroke="#000000" stroke-width="4"/>'
    )
    assert image.shape == (60, 100, 3)
    at = {(5, 5): (255, 255, 255), (20, 20): (255, 0, 0), (20, 10): (0, 0, 255),
          (60, 40): (128, 255, 128), (40, 20): (128, 255, 128), (80, 55): (0, 0, 0)}  # fmt: skip
    for (x, y), colour in at.items():
        assert tuple(image[y, x]) == pytest.approx(colour, abs=1), (x, y)
    assert (image[51] == 255).all() and (image[58] == 255).all()


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_a_picture_is_as_large_as_its_scale(scale):
    image = painted('<rect x="50" y="30" width="50" height="30" fill="#123456"/>', scale)
    assert image.shape == (60 * scale, 100 * scale, 3)
    height, width = image.shape[:2]
    assert tuple(image[-1, -1]) == (0x12, 0x34, 0x56) and tuple(image[0, -1]) == (255,) * 3
    assert (image == image[-1, -1]).all(-1).mean() == pytest.approx(0.25, abs=0.05)
    assert (image[: height // 2 - 1] == 255).all() and (image[:, : width // 2 - 1] == 255).all()


@pytest.mark.parametrize(("anchor", "low", "high"), [
    ("start", 50, 75), ("middle", 37, 63), ("end", 25, 50),
])  # fmt: skip
def test_text_begins_or_ends_where_its_anchor_is(anchor, low, high):
    image = painted(f'<text x="50" y="40" font-size="10" text-anchor="{anchor}">mmmm</text>', 2.0)
    rows, columns = np.nonzero(image[..., 0] < 128)
    assert low - 1 <= columns.min() / 2 and columns.max() / 2 <= high + 1
    assert columns.max() - columns.min() > 40
    assert rows.min() / 2 >= 30 and rows.max() / 2 == pytest.approx(40, abs=1)
    bold = painted(
        f'<text x="50" y="40" font-size="10" text-anchor="{anchor}" font-weight="bold">mmmm</text>',
        2.0,
    )
    assert (bold[..., 0] < 128).sum() > len(rows)


def test_a_small_picture_keeps_its_pixels():
    png = encode_png(2, 1, 3, bytes([200, 10, 20, 30, 40, 210]), ())
    data = f"data:image/png;base64,{b64encode(png).decode()}"
    image = f'<image x="5" y="5" width="20" height="10" href="{data}"/>'
    inner = f'<g transform="translate(5 5)">{image}</g>'
    assert figures(inner) == [Image(png, (10, 10, 20, 10))]
    image = painted(inner)
    assert tuple(image[15, 12]) == (200, 10, 20) and tuple(image[15, 27]) == (30, 40, 210)
    assert tuple(image[15, 32]) == tuple(image[8, 15]) == tuple(image[21, 15]) == (255, 255, 255)
    for x in range(10, 30):
        assert tuple(image[12, x]) == ((200, 10, 20) if x < 20 else (30, 40, 210))


def test_no_colour_of_a_figure_is_lost():
    assert rgb_of("#0a10ff") == (10, 16, 255)
    inner = (
        '<rect fill="#ff0000" stroke="#00ff00" fill-opacity="0.5"/>'
        '<text fill="#0000ff">a</text><path fill="none" d="M0 0" stroke="#123456"/>'
    )
    assert colours_of(figures(inner)) == [
        (255, 255, 255), (255, 128, 128), (0, 255, 0), (0, 0, 255), (0x12, 0x34, 0x56),
    ]  # fmt: skip


def test_a_png_has_two_pixels_a_point_unless_it_is_too_large(monkeypatch):
    pillow = pytest.importorskip("PIL.Image", reason="needs the extra `lab`")

    def size(width, height):
        svg = f'<svg xmlns="{SVG}" viewBox="0 0 {width} {height}"><text x="9" y="20">a</text></svg>'
        return pillow.open(io.BytesIO(png_of(svg))).size

    assert size(100, 60) == (200, 120)
    assert size(2 * LONGEST_SIDE, 400) == (LONGEST_SIDE, 200)
    assert size(100, LONGEST_SIDE) == (100, LONGEST_SIDE)
    whole = len(png_of(f"{HEAD}<text x='9' y='20'>words to be painted</text></svg>"))
    monkeypatch.setattr(svg_module, "MOST_BYTES", whole // 2)
    smaller = png_of(f"{HEAD}<text x='9' y='20'>words to be painted</text></svg>")
    assert len(smaller) <= whole // 2
    assert pillow.open(io.BytesIO(smaller)).width < 200


def test_a_pdf_has_the_size_of_the_picture_and_is_the_same_each_time():
    pytest.importorskip("matplotlib", reason="needs the extra `lab`")
    data = b64encode(encode_png(2, 1, 3, bytes(6), ())).decode()
    svg = (
        f'{HEAD}<rect x="1" y="1" width="9" height="9" fill="#ff0000" stroke="#00ff00" '
        'stroke-dasharray="3 2" fill-opacity="0.5"/><text x="9" y="20">$a$ b</text>'
        f'<image x="5" y="5" width="20" height="10" href="data:image/png;base64,{data}"/>'
        '<path d=""/></svg>'
    )
    pdf = pdf_of(svg)
    assert pdf.startswith(b"%PDF") and b"/MediaBox [ 0 0 100 60 ]" in pdf
    assert pdf_of(svg) == pdf and b"CreationDate" not in pdf
    assert math.isclose(len(pdf), len(pdf_of(svg.replace("#ff0000", "#00ff00"))), rel_tol=0.05)
