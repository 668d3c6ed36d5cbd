"""Lanes as SVG: one for each rank, time from left to right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

from ..render.style import INK, NEUTRAL, PAGE, PAINTS, PALE_INK, Paint
from ..render.svg import SVG, as_text, element, png_of, text_width, words
from .lanes import Box, Lane

__all__ = ["Timeline"]

WIDTH, LEFT, TOP, ROW, GAP = 900.0, 84.0, 34.0, 22.0, 12.0
SMALLEST = 2.0  # points: a collective that takes microseconds is seen, too

ROLES = {
    "reduce": "derivative", "all_reduce": "derivative", "reduce_scatter": "derivative",
    "reduce_scatter_tensor": "derivative", "broadcast": "parameter", "barrier": "grey",
    "monitored_barrier": "grey", "send": "op", "recv": "op", "isend": "op", "irecv": "op",
}  # fmt: skip
"""The paint of each collective; all others copy data."""

LEGEND = (
    ("derivative", "sums"), ("parameter", "broadcast"), ("data", "copies"), ("op", "messages"),
    ("grey", "barrier"),
)  # fmt: skip


class Timeline:
    """The collectives of several ranks, one lane each. A notebook displays it.

    Args:
        lanes: what is drawn, ordered by rank.

    >>> Timeline([]).text()
    'no rank has called a collective yet'
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes = list(lanes)
        self.seconds = max((box.stop for lane in lanes for box in lane.boxes), default=0.0)

    def text(self) -> str:
        """Return what the picture says, a line for each rank."""
        if not self.seconds:
            return "no rank has called a collective yet"
        return "\n".join(describe_lane(lane) for lane in self.lanes)

    @property
    def svg(self) -> str:
        """The picture as SVG text."""
        height = TOP + sum(ROW * lane.rows + GAP for lane in self.lanes) + ROW
        root = Element(f"{{{SVG}}}svg", {
            "role": "img", "viewBox": f"0 0 {WIDTH:g} {height:g}", "width": f"{WIDTH:g}",
            "height": f"{height:g}", "style": f"max-width:100%;height:auto;background:{PAGE}",
        })  # fmt: skip
        element(root, "title", self.text())
        add_legend(root)
        y = TOP
        for lane in self.lanes:
            self.add_lane(root, lane, y)
            y += ROW * lane.rows + GAP
        self.add_axis(root, y)
        return as_text(root)

    def add_lane(self, root: Element, lane: Lane, y: float) -> None:
        """Draw one rank, with its boxes."""
        words(root, f"rank {lane.rank}", 4, y + 14, 11, fill=INK, font_weight="bold")
        if lane.note:
            words(root, lane.note, 4, y + 25, 8, fill=PALE_INK)
        middle = y + ROW * lane.rows / 2
        element(
            root, "path", d=f"M{LEFT:g} {middle:g}L{WIDTH - 4:g} {middle:g}", stroke="#D1D5DB",
            fill="none",
        )  # fmt: skip
        for box in lane.boxes:
            self.add_box(root, box, y + ROW * box.row)

    def add_box(self, root: Element, box: Box, y: float) -> None:
        """Draw one collective; one that still waits has a dashed border."""
        x, right = self.position(box.start), self.position(box.stop)
        width = max(right - x, SMALLEST)
        paint = paint_of(box)
        group = element(root, "g", class_="collective")
        element(group, "title", describe_box(box))
        shape = element(
            group, "rect", x=f"{x:.2f}", y=f"{y + 2:g}", width=f"{width:.2f}",
            height=f"{ROW - 4:g}", rx=2, fill=paint.fill, stroke=paint.border,
        )  # fmt: skip
        if not box.call.is_complete:
            shape.set("stroke-dasharray", "3 2")
        for label in (f"{box.call.name} {box.call.elements}", box.call.name, box.call.elements):
            if text_width(str(label), 8.5) + 6 <= width:
                words(group, str(label), x + 3, y + 14, 8.5, fill=INK)
                return

    def add_axis(self, root: Element, y: float) -> None:
        """Write the time below the lanes."""
        for seconds in ticks(self.seconds):
            x = self.position(seconds)
            element(root, "path", d=f"M{x:.2f} {TOP - 4:g}L{x:.2f} {y:g}", stroke=NEUTRAL,
                    stroke_width="0.4", fill="none")  # fmt: skip
            words(root, f"{1e3 * seconds:g} ms", x + 2, y + 10, 8, fill=PALE_INK)

    def position(self, seconds: float) -> float:
        """Return where a moment is drawn."""
        return LEFT + (WIDTH - LEFT - 8) * (seconds / self.seconds if self.seconds else 0.0)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Return the picture in every format that a notebook may support."""
        return {"image/svg+xml": self.svg, "text/plain": self.text()}

    def png(self) -> bytes:
        """Return the picture as PNG.

        Raises: ImportError: Pillow is not installed.
        """
        return png_of(self.svg)

    def __repr__(self) -> str:
        return self.text()


def paint_of(box: Box) -> Paint:
    """Return the colours of a collective."""
    return PAINTS[ROLES.get(box.call.name, "data")]


def describe_box(box: Box) -> str:
    """Return the text that a box shows under the pointer."""
    took = f"{1e3 * (box.stop - box.start):.3g} ms"
    return f"{box.call}\n{took}" if box.call.is_complete else f"{box.call}\nwaits, {took} so far"


def describe_lane(lane: Lane) -> str:
    """Return one line of text for a rank."""
    waiting = [box for box in lane.boxes if not box.call.is_complete]
    busy = sum(box.stop - box.start for box in lane.boxes)
    note = f", {lane.note}" if lane.note else ""
    state = f", waits in {waiting[0].call.name}" if waiting else ""
    return f"rank {lane.rank}{note}: {len(lane.boxes)} collectives, {1e3 * busy:.3g} ms{state}"


def ticks(seconds: float) -> list[float]:
    """Return round times from 0 on, about five of them.

    >>> [int(1e3 * tick) for tick in ticks(0.047)]
    [0, 10, 20, 30, 40]
    """
    if seconds <= 0:
        return []
    step = 10 ** math.floor(math.log10(seconds / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= seconds / 5)
    return [step * number for number in range(int(seconds / step) + 1)]


def add_legend(root: Element) -> None:
    """Draw what the colours mean."""
    x = LEFT
    for role, text in LEGEND:
        paint = PAINTS[role]
        element(root, "rect", x=f"{x:g}", y=6, width=12, height=12, rx=2, fill=paint.fill,
                stroke=paint.border)  # fmt: skip
        words(root, text, x + 17, 16, 9, fill=PALE_INK)
        x += 30 + text_width(text)
    element(root, "rect", x=f"{x:g}", y=6, width=12, height=12, rx=2, fill=PAGE, stroke=NEUTRAL,
            stroke_dasharray="3 2")  # fmt: skip
    words(root, "waits for others", x + 17, 16, 9, fill=PALE_INK)
