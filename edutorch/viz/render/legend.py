"""The footer below a graph in every picture: a caption, loss curves, and a legend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from xml.etree.ElementTree import Element

from ...backends import simulated_cards
from ..tensors.summaries import number_text
from ..tensors.thumbnails import ABOVE, BELOW, MIDDLE
from .style import (
    ACCENT,
    ALARM,
    CUT,
    FLOW_COLOURS,
    INK,
    MARK_SHAPES,
    NEUTRAL,
    PAGE,
    PAINTS,
    PALE_INK,
    RAMP,
    WORDS,
)
from .svg import element, text_width, words

if TYPE_CHECKING:
    from ..live.messages import Curve

NARROWEST = 345.0
"""The least width of a picture, and of its legend, in points."""

EDGE, ROW, BETWEEN = 10.0, 14.0, 16.0
"""The margin, the height of a row of the legend, and the gap between two entries."""

LINE, LEAST_LETTERS = 11.0, 8
"""The line height of an entry, and the least number of characters per line."""

CHART_WIDTH, CHART_HEIGHT, MOST_CHARTS = 210.0, 62.0, 6
PLOT_LEFT = 44.0

SIMULATED = "cuda is simulated, on the CPU"


def with_note(caption: str) -> str:
    """Return a caption with a note where simulated cards answer for "cuda"."""
    if not simulated_cards() or caption.endswith(SIMULATED):
        return caption
    return f"{caption}; {SIMULATED}" if caption else SIMULATED


class Footer(NamedTuple):
    """The contents of a picture below its graph."""

    keys: Sequence[str] = ()
    caption: str = ""
    curves: Mapping[str, Curve] = {}


def draw_footer(root: Element, footer: Footer, width: float, top: float) -> float:
    """Add the footer below a graph; return its lower end.

    Args:
        width: the width of the picture, which is the largest width of an entry.
        top: the upper end of the footer.
    """
    y = top
    if footer.caption:
        y += ROW
        most = int((width - 2 * EDGE) / text_width("n", 10))
        paragraphs = footer.caption.split("\n")
        for line in (line for paragraph in paragraphs for line in wrap_text(paragraph, most)):
            words(root, line, EDGE, y - 2, 10, fill=INK, font_weight="bold")
            y += ROW
        y -= ROW
    y = draw_charts(root, footer.curves, width, y + 4 if footer.caption else y)
    return draw_legend(root, footer.keys, width, y)


def wrap_text(text: str, most: int) -> list[str]:
    """Wrap a text into lines of at most `most` characters."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) + 1 > most:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return [line[:most] for line in lines]


# The legend ----------------------------------------------------------------------------------


def draw_legend(root: Element, keys: Sequence[str], width: float, top: float) -> float:
    """Add an entry for each key of `style.WORDS`, in rows; return the lower end.

    The text of an entry is wrapped if the picture is too narrow for it.
    """
    group = element(root, "g", class_="legend")
    x, y = EDGE, top
    for key in keys:
        sample = 6 * 11.0 + text_width("".join(RAMP)) + 8 if key == "arrow" else 16.0
        text_room = width - 2 * EDGE - sample - 5
        lines = wrap_text(WORDS[key], max(LEAST_LETTERS, int(text_room / text_width("n"))))
        entry_width = sample + 5 + max(map(text_width, lines))
        if x > EDGE and x + entry_width > width - EDGE:
            x, y = EDGE, y + ROW
        draw_sample(group, key, x, y + ROW / 2)
        for row, line in enumerate(lines):
            words(group, line, x + sample + 5, y + ROW / 2 + 3 + row * LINE, fill=PALE_INK)
        y += (len(lines) - 1) * LINE
        x += entry_width + BETWEEN
    return y + ROW if keys else top


def draw_sample(group: Element, key: str, x: float, y: float) -> None:
    """Add the symbol of an entry; `y` is its middle."""
    if key == "arrow":
        draw_ramp(group, x, y)
    elif key == "cut":
        element(group, "path", d=f"M{x:g} {y:g}h16", stroke=NEUTRAL, stroke_dasharray="3 2",
                fill="none")  # fmt: skip
        words(group, CUT, x + 8, y + 3.2, 10, text_anchor="middle", fill=INK)
    elif key == "signs":
        for position, colour in enumerate((BELOW, MIDDLE, ABOVE)):
            fill = "#" + "".join(f"{part:02x}" for part in colour)
            element(group, "rect", x=f"{x + 5 * position:g}", y=f"{y - 4:g}", width="5", height="8",
                    fill=fill, stroke=NEUTRAL, stroke_width="0.4")  # fmt: skip
    elif key == "kept":
        element(group, "path", d=f"M{x:g} {y:g}h12", stroke=NEUTRAL, stroke_dasharray="1 2.5",
                fill="none")  # fmt: skip
        element(group, "circle", cx=f"{x + 14:g}", cy=f"{y:g}", r="2", fill=PAGE, stroke=NEUTRAL)
    elif key in MARK_SHAPES:
        draw_mark(group, key, x + 3, y - 5)
    elif key == "version":
        words(group, "v2", x + 2, y + 3, font_weight="bold", fill=INK)
    else:
        paint = PAINTS[key]
        position = {"x": f"{x:g}", "y": f"{y - 4.5:g}", "width": "16", "height": "9"}
        corners = "3" if key in ("op", "derivative") else "0"
        element(group, "rect", **position, rx=corners, fill=paint.fill, stroke=paint.border)


def draw_ramp(group: Element, x: float, y: float) -> None:
    """Add the scale of arrow colours and widths, from a small gradient to a large one."""
    words(group, RAMP[0], x, y + 3, fill=PALE_INK)
    x += text_width(RAMP[0]) + 4
    for index, colour in enumerate(FLOW_COLOURS):
        half = (1 + index * 3 / (len(FLOW_COLOURS) - 1)) / 2
        element(group, "rect", x=f"{x + 11 * index:.2f}", y=f"{y - half:.2f}", width=11,
                height=f"{2 * half:.2f}", fill=colour)  # fmt: skip
    words(group, RAMP[-1], x + 11 * len(FLOW_COLOURS) + 4, y + 3, fill=PALE_INK)


def draw_mark(group: Element, key: str, x: float, y: float) -> None:
    """Add a mark, a lock or a pin of ten points."""
    element(group, "path", d=MARK_SHAPES[key], transform=f"translate({x:.2f},{y:.2f})", fill=INK,
            class_=f"mark {key}")  # fmt: skip


# Curves --------------------------------------------------------------------------------------


def draw_charts(root: Element, curves: Mapping[str, Curve], width: float, top: float) -> float:
    """Add a small chart for each curve, in rows; return the lower end."""
    charts = [(name, curve.points()) for name, curve in curves.items()]
    charts = [(name, points) for name, points in charts if points][:MOST_CHARTS]
    if not charts:
        return top
    in_row = max(1, min(len(charts), int((width - EDGE) // (CHART_WIDTH + EDGE))))
    chart_width = min(2 * CHART_WIDTH, (width - EDGE) / in_row - EDGE)
    for index, (name, points) in enumerate(charts):
        left = EDGE + index % in_row * (chart_width + EDGE)
        chart_top = top + index // in_row * (CHART_HEIGHT + 8)
        draw_chart(root, name, points, (left, chart_top, chart_width))
    return top + -(-len(charts) // in_row) * (CHART_HEIGHT + 8)


def draw_chart(
    root: Element, name: str, points: Sequence[tuple[int, float | None]],
    box_of_chart: tuple[float, float, float],
) -> None:  # fmt: skip
    """Add one chart with its name and its last, smallest and largest value.

    Args:
        place: left, top and width.
    """
    left, top, width = box_of_chart
    first, last = points[0][0], points[-1][0]
    values = [value for _, value in points if value is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    box = left + PLOT_LEFT, top + 16, left + width - 4, top + CHART_HEIGHT - 12
    group = element(root, "g", class_="curve")
    final = points[-1][1]
    title = f"{name} {short_number(final)}" if final is not None else f"{name} not finite"
    value_range = f"from {short_number(low)} to {short_number(high)}"
    element(group, "title", f"{title} at step {last}; {value_range}")
    words(group, title[: int((width - PLOT_LEFT) / text_width("n"))], box[0], top + 9,
          fill=INK, font_weight="bold")  # fmt: skip
    axis = f"M{box[0]:.1f} {box[1]:.1f}V{box[3]:.1f}H{box[2]:.1f}"
    element(group, "path", d=axis, stroke=NEUTRAL, stroke_width="0.8", fill="none")
    element(group, "path", d=curve_path(points, box, (low, high)), stroke=ACCENT,
            stroke_width="1.5", fill="none", stroke_linejoin="round")  # fmt: skip
    if final is None:
        words(group, "NaN", box[2], top + 9, text_anchor="end", fill=ALARM, font_weight="bold")
    else:
        x, y = position((last, final), (first, last), box, (low, high))
        element(group, "circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r="2.4", fill=ACCENT, stroke=PAGE)
    words(group, short_number(high), box[0] - 4, box[1] + 6, text_anchor="end", fill=PALE_INK)
    if high > low:
        words(group, short_number(low), box[0] - 4, box[3], text_anchor="end", fill=PALE_INK)
    words(group, f"step {first}", box[0], box[3] + 10, fill=PALE_INK)
    words(group, str(last), box[2], box[3] + 10, text_anchor="end", fill=PALE_INK)


def short_number(value: float) -> str:
    """Return a number as text, without a plus sign."""
    return number_text(value).removeprefix("+")


def curve_path(
    points: Sequence[tuple[int, float | None]],
    box: tuple[float, float, float, float],
    values: tuple[float, float],
) -> str:
    """Return the SVG path through all points, with a gap at each non-finite value."""
    steps = points[0][0], points[-1][0]
    pen, path = "M", ""
    for step, value in points:
        if value is None:
            pen = "M"
            continue
        x, y = position((step, value), steps, box, values)
        path += f"{pen}{x:.1f} {y:.1f}"
        pen = "L"
    return path


def position(
    point: tuple[int, float],
    steps: tuple[int, int],
    box: tuple[float, float, float, float],
    values: tuple[float, float],
) -> tuple[float, float]:
    """Return the coordinates of a point of a curve."""
    left, top, right, bottom = box
    along = (point[0] - steps[0]) / max(1, steps[1] - steps[0])
    low, high = values
    share = (point[1] - low) / (high - low) if 0 < high - low < math.inf else 0.5
    return left + along * (right - left), bottom - share * (bottom - top)
