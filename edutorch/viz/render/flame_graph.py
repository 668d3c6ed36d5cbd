"""The flame graph of a profile: width is time, and calls made inside a frame lie below it.

The SVG alone is the static picture for GitHub, nbconvert and screen readers. The HTML shows the
same SVG and adds the zoom (`widgets/flame.js`, inlined into the page); without scripts the picture
stays. Names come from the user's code, so an XML library escapes them.
"""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ...profiler.tree import Frame, bytes_text, describe, format_tree, time_text
from .graphviz import folder
from .static import SVG, FormatError, write_file

WIDTH, ROW, TOP, MARGIN = 960.0, 24.0, 58.0, 8.0
LETTER = 6.9  # average width of a character, in the units of the picture
SMALLEST = 0.0004  # share of the total time below which a frame is not drawn
MOST = 3000  # largest number of frames

LEGEND = (
    ("module", "module"), ("op", "op, forward"), ("node", "backward (dashed)"),
    ("optimizer", "optimizer (thick line)"), ("range", "named by you"),
)  # fmt: skip

STYLE = """
.edutorch-flame { font: 12px Helvetica, Arial, sans-serif; background: #ffffff; }
.edutorch-flame text { fill: #1f2937; }
.edutorch-flame .quiet { fill: #4b5563; }
.edutorch-flame .title { font-size: 14px; font-weight: bold; }
.edutorch-flame rect { stroke: #6b7280; stroke-width: 0.7; fill: #e5e7eb; }
.edutorch-flame .module rect { fill: #dbe6fb; }
.edutorch-flame .module text { font-weight: bold; }
.edutorch-flame .op rect { fill: #cdeadb; }
.edutorch-flame .node rect { fill: #fde0c5; stroke-dasharray: 3 2; }
.edutorch-flame .backward rect { fill: #f8cfa8; stroke-dasharray: 3 2; }
.edutorch-flame .optimizer rect { fill: #e7d9f7; stroke-width: 2; }
.edutorch-flame .range rect, .edutorch-flame .step rect { fill: #fff0b8; }
.edutorch-flame .frame:focus { outline: none; }
.edutorch-flame .frame:focus rect, .edutorch-flame .frame:hover rect {
  stroke: #111827; stroke-width: 2; stroke-dasharray: none; }
.edutorch-flame .around rect { opacity: 0.45; }
"""

DARK = """
.edutorch-flame { background: #111827; }
.edutorch-flame text { fill: #f3f4f6; }
.edutorch-flame .quiet { fill: #c3c9d3; }
.edutorch-flame rect { stroke: #9ca3af; fill: #374151; }
.edutorch-flame .module rect { fill: #27406f; }
.edutorch-flame .op rect { fill: #1d5540; }
.edutorch-flame .node rect { fill: #7a3f14; }
.edutorch-flame .backward rect { fill: #8f4a17; }
.edutorch-flame .optimizer rect { fill: #553a7b; }
.edutorch-flame .range rect, .edutorch-flame .step rect { fill: #665611; }
.edutorch-flame .frame:focus rect, .edutorch-flame .frame:hover rect { stroke: #ffffff; }
"""


class Flame:
    """A flame graph. A notebook displays it; `save` writes it to a file.

    Attributes:
        tree: the frames as plain data (see `profiler/tree.py`).
        title: the line above the graph.
    """

    def __init__(self, tree: Frame, title: str = "") -> None:
        self.tree, self.title = tree, title

    @property
    def svg(self) -> str:
        """The picture as SVG text."""
        return ElementTree.tostring(picture(self.tree, self.title), encoding="unicode")

    @property
    def html(self) -> str:
        """The picture with zoom: a click or Enter opens a frame, Escape goes back."""
        name = f"flame-{uuid.uuid4().hex}"
        image = base64.b64encode(self.svg.encode()).decode()
        script = (folder() / "flame.js").read_text(encoding="utf-8")
        return (
            f'<div id="{name}"><img style="max-width:100%" alt="{escape(self.alternative())}" '
            f'src="data:image/svg+xml;base64,{image}"></div>\n'
            f'<script type="module">\n{script}\nflame(document.getElementById("{name}"));\n'
            "</script>"
        )

    def alternative(self) -> str:
        """Return the alternative text of the picture."""
        largest = sorted(self.tree.children.values(), key=lambda child: -child.ns)[:4]
        total = max(self.tree.ns, 1)
        parts = ", ".join(f"{child.label} {100 * child.ns / total:.0f} %" for child in largest)
        return printable(f"Flame of {self.title or 'a profile'}: {parts}")

    def text(self, limit: int = 60) -> str:
        """Return the frames as an indented text."""
        return format_tree(self.tree, limit)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture to `path`, whole or not at all: .svg, or .html with zoom.

        Raises: FormatError: the name ends in neither.
        """
        path = Path(path)
        contents = {".svg": lambda: self.svg, ".html": lambda: page(self.html, self.title)}
        if path.suffix.lower() not in contents:
            raise FormatError(
                "save", f"cannot tell the format of {path.name!r}",
                hint="use a name that ends in .svg or .html",
            )  # fmt: skip
        write_file(path, contents[path.suffix.lower()]().encode())
        return path

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Return the picture in every format that a notebook may support."""
        return {"text/html": self.html, "image/svg+xml": self.svg, "text/plain": self.text()}

    def __repr__(self) -> str:
        return self.text()


def flame(profile: Any) -> Flame:
    """Draw the flame graph of a finished profile.

    Args:
        profile: an `edutorch.profiler.profile`, after its block.

    Raises: AssertionError: nothing has been recorded.

    >>> with edutorch.profiler.profile() as prof:
    ...     y = (ones(3) * 2).exp()
    >>> [frame.label for frame in flame(prof).tree.children.values()]
    ['mul', 'exp']
    """
    tree = profile.tree()
    parts = [time_text(tree.ns / 1000)]
    steps = next((child.calls for child in tree.children.values() if child.kind == "step"), 0)
    if steps:
        parts.append(f"{steps} steps")
    if profile.profile_memory:
        parts.append(f"at most {bytes_text(profile.memory().peak)} in use")
    return Flame(tree, " · ".join(parts))


def page(body: str, title: str) -> str:
    """Return a complete HTML page with a flame graph."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(f'flame: {title}')}</title></head><body>\n{body}\n</body></html>\n"
    )


# Drawing ------------------------------------------------------------------------------------


def place_frames(top: Frame) -> Iterator[tuple[Frame, float, float, int]]:
    """Yield each frame with its left end and width (as shares of the total) and its depth."""
    total = max(top.ns, 1)
    pending, count = [(top, 0.0, 1.0, 0)], 0
    while pending and count < MOST:
        frame, left, width, depth = pending.pop()
        yield frame, left, width, depth
        count += 1
        below = []
        for child in frame.children.values():
            size = child.ns / total
            if size >= SMALLEST:
                below.append((child, left, size, depth + 1))
            left += size
        pending.extend(reversed(below))


def element(parent: Element, tag: str, text: str = "", **attributes: Any) -> Any:
    """Add an element below `parent`: `class_` is written as class, `_` as a hyphen."""
    names = {key.rstrip("_").replace("_", "-"): str(value) for key, value in attributes.items()}
    child = ElementTree.SubElement(parent, f"{{{SVG}}}{tag}", names)
    if text:
        child.text = printable(text)
    return child


def printable(text: str) -> str:
    """Replace the characters that XML must not contain."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "�" for letter in text)


def picture(top: Frame, title: str) -> ElementTree.Element:
    """Return the SVG of a tree."""
    ElementTree.register_namespace("", SVG)
    frames = list(place_frames(top))
    height = TOP + ROW * (1 + max(depth for *_, depth in frames)) + MARGIN
    root = ElementTree.Element(f"{{{SVG}}}svg", {
        "class": "edutorch-flame", "role": "img", "viewBox": f"0 0 {WIDTH:g} {height:g}",
        "width": f"{WIDTH:g}", "height": f"{height:g}", "style": "max-width:100%;height:auto",
    })  # fmt: skip
    element(root, "title", f"Where the time went: {title}")
    element(root, "style", STYLE + "@media (prefers-color-scheme: dark) {" + DARK + "}")
    ground = element(root, "rect", width="100%", height="100%", class_="ground")
    ground.set("style", "fill:none;stroke:none")
    element(root, "text", f"Where the time went: {title}", x=MARGIN, y=20, class_="title")
    legend(root)
    for frame, left, width, depth in frames:
        group = element(
            root, "g", class_=f"frame {frame.kind}", data_left=f"{left:.6f}",
            data_width=f"{width:.6f}", data_depth=depth, data_label=printable(frame.label),
            data_note=f"{time_text(frame.ns / 1000)} · {100 * width:.1f} %",
        )  # fmt: skip
        element(group, "title", "\n".join(describe(frame, top.ns)))
        draw(group, frame, left, width, depth)
    return root


def legend(root: Element) -> None:
    """Draw the legend of colours and lines."""
    x = MARGIN
    for css_class, words in LEGEND:
        group = element(root, "g", class_=css_class)
        element(group, "rect", x=x, y=32, width=14, height=14, rx=2)
        element(root, "text", words, x=x + 20, y=43, class_="quiet")
        x += 40 + 5.8 * len(words)
    element(root, "text", "width: time · below: what is inside", x=WIDTH - MARGIN, y=43,
            class_="quiet hint", text_anchor="end")  # fmt: skip


def draw(group: Element, frame: Frame, left: float, width: float, depth: int) -> None:
    """Draw one frame: a box with as much of its label as fits."""
    scale = WIDTH - 2 * MARGIN
    x, wide, y = MARGIN + left * scale, width * scale, TOP + depth * ROW
    element(group, "rect", x=f"{x:.2f}", y=f"{y:g}", width=f"{max(wide - 1, 0.3):.2f}",
            height=f"{ROW - 2:g}", rx=2)  # fmt: skip
    note = f"{time_text(frame.ns / 1000)} · {100 * width:.1f} %"
    words = fit_label(printable(frame.label), note, wide)
    element(group, "text", words, x=f"{x + 5:.2f}", y=f"{y + 15:g}")


def fit_label(label: str, note: str, width: float) -> str:
    """Return the label with the note if both fit, or as much of the label as fits.

    >>> [fit_label("0 (ReLU)", "2 ms", width) for width in (200, 80, 40)]
    ['0 (ReLU)  2 ms', '0 (ReLU)', '0']
    """
    letters = int((width - 9) / LETTER)
    if len(label) + 2 + len(note) <= letters:
        return f"{label}  {note}"
    if len(label) <= letters:
        return label
    label = label.partition(" (")[0]
    if len(label) <= letters:
        return label
    return f"{label[: letters - 1]}…" if letters >= 3 else ""
