"""Writes a graph as DOT text: what stands in each box, and how it looks.

Labels are plain text with line breaks, never Graphviz's HTML: names come from
user code, not every engine can read HTML labels, and plain ones look the same
everywhere. All numbers have a fixed width. The same graph is therefore laid out
the same way whatever its numbers are, and a page can change them in place.
"""

from __future__ import annotations

import functools
import math
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from ..graph.model import TIED, Graph, GraphEdge, GraphNode, NodeKind, Snapshot
from ..tensors.summaries import (
    LONGEST_LIST,
    TINY,
    UNKNOWN,
    Stats,
    bar_text,
    number,
    number_size,
)
from ..tensors.thumbnails import drawn_kind, slot_height
from .arrangement import Arrangement, direction_of
from .dot_rows import in_frames, straight_edges, turned_arrow
from .style import (
    ALARM,
    CUT,
    FLOW_COLOURS,
    INK,
    NEUTRAL,
    PALE_INK,
    line_width,
    paint_of,
    size_class,
)

NODE_SHAPES: dict[NodeKind, str] = {
    "op": 'shape=box style="rounded,filled"',
    "output": 'shape=box style="rounded,filled,bold" penwidth=2.4',
    "parameter": "shape=box style=filled peripheries=2",
    "buffer": 'shape=box style="filled,dashed"',
    "leaf": "shape=box style=filled",
    "constant": "shape=plaintext",
    "gradient": 'shape=box style="filled,diagonals"',
    "failed": 'shape=box style="filled,bold" penwidth=3',
    "group": 'shape=box style="rounded,filled" peripheries=2',
}
"""What was given has square corners, what was computed round ones; see `style.py` for colours."""

FAINT = 1e-5  # a mean closer to zero is rounding noise: it has no sign

SHOWN_LABEL, LONG_LABEL = 22, 30
LABELLED_EDGES = 60  # with more, numbers on the edges cost more time than they tell
MUCH_WORK, EFFORT = 300, 0.3  # nodes; from there on, so many rounds of Graphviz's for each
NUMBER_WIDTH = 7
SPACE = "\xa0"  # one that does not break and is not left out
CHARACTER_WIDTH, LINE_HEIGHT = 6.0, 12.0  # of Courier at 10 points, in points
BASELINE = 3.0  # so far below the middle of a line its letters stand
MARGIN_X, MARGIN_Y = 7.2, 4.32
MARK_COLUMNS = 2  # what a mark takes of the name's line


# What stands in a box ----------------------------------------------------------------


def shown(label: str, most: int = SHOWN_LABEL) -> str:
    """Make any text fit for one line of a box; what cannot be printed becomes a mark.

    >>> shown("a" + chr(10) + "b" + chr(0))
    'a b�'
    """
    visible = (" " if each.isspace() else each if each.isprintable() else "�" for each in label)
    text = " ".join("".join(visible).split()) or "(no name)"
    return text if len(text) <= most else text[: most - 1] + "…"


def name_text(node: GraphNode) -> str:
    """Write what a box is called: `weight`, `relu`, or `h = relu` where a variable holds it.

    A tensor that was written in place is a new version of it: `h = relu v2`.
    """
    names = node.label.split(TIED)
    if node.variable:
        name = shown(f"{node.variable} = {node.label}")
    elif len(names) > 1:  # of a tied parameter: all of them, if they are few
        name = TIED.join(
            [*(shown(name, LONG_LABEL) for name in names[:2]), *["…"][: len(names) - 2]]
        )
    else:
        name = shown(node.label)
    return f"{name} v{node.version + 1}" if node.version else name


def shape_text(node: GraphNode) -> str:
    """Write shape, type, and the device unless it is the CPU: `64×10 float32`, `scalar int64`."""
    if node.kind == "failed":  # it has no result: these are the shapes of its operands
        return shown(node.dtype) if node.dtype else "no result"
    where = "" if node.device == "cpu" else f" {node.device}"
    return f"{'×'.join(map(str, node.shape)) or 'scalar'} {node.dtype}{where}"


def value_text(stats: Stats | None) -> str:
    """Write a value as the page does (see `Patch` in the protocol)."""
    if stats is None:
        return f"value {UNKNOWN}"
    return f"value {stats.text}" if stats.text else f"mean  {number(stats.mean)}"


def grad_text(stats: Stats | None) -> str:
    """Write the gradient that reached a node as the page does."""
    if stats is None:
        return f"grad  {UNKNOWN}"
    return f"grad  {stats.text or number_size(stats.norm)}"


def flow_text(stats: Stats | None) -> str:
    """Write the gradient of an edge: its norm; only a scalar has a sign."""
    if stats is None:
        return ""
    return number(stats.mean) if stats.size == 1 else number_size(stats.norm)


def constant_text(stats: Stats | None) -> str:
    """Write a Python number that an op was given."""
    return UNKNOWN if stats is None else stats.text or number(stats.mean)


def reserved(node: GraphNode) -> int:
    """How many characters a node's value or gradient may take."""
    count = math.prod(node.shape)
    if count > TINY:
        return NUMBER_WIDTH if "float" in node.dtype else LONGEST_LIST
    return 2 + 9 * count if node.shape else 10


def node_lines(
    node: GraphNode,
    value: Stats | None,
    grad: Stats | None,
    reserve: bool = False,
    drawn: bool = True,
) -> list[str]:
    """Return the lines of a node's box: name, shape, and, if known, value and gradient.

    With `reserve` they are all there, filled up to the width they may ever need with
    spaces that do not break. A constant has no box: there is only its number.

    Args:
        drawn: histograms are drawn below the lines; else one of them is the histogram, as text.
    """
    if node.kind == "constant":
        text = constant_text(value)
        return [text.center(reserved(node), SPACE) if reserve else text]
    width = len("value ") + reserved(node) if reserve else 0
    lines = [name_text(node), shape_text(node)]
    if reserve or value is not None:
        lines.append(value_text(value).ljust(width, SPACE))
    if node.differentiable and (reserve or grad is not None):
        lines.append(grad_text(grad).ljust(width, SPACE))
    if value is not None and value.bars and not reserve and not drawn:
        lines.append(f"{number(value.min)}{SPACE}{bar_text(value.bars)}{SPACE}{number(value.max)}"
                     .replace(" ", SPACE))  # fmt: skip
    return lines


# How it looks ------------------------------------------------------------------------


def flow_style(stats: Stats | None, troubled: bool = False) -> str:
    """Colour and width of an arrow say how large its gradient is.

    Args:
        troubled: there is something wrong at both of its ends.
    """
    if stats is None:
        return f'color="{NEUTRAL}" penwidth=1'
    if stats.bad:
        return f'color="{ALARM if troubled else NEUTRAL}" penwidth={4 if troubled else 1}'
    colour = FLOW_COLOURS[size_class(stats.norm)]
    return f'color="{colour}" penwidth={line_width(stats.norm):.2f}'


# DOT ---------------------------------------------------------------------------------


def quoted(lines: Iterable[str]) -> str:
    """Quote lines for DOT. Graphviz would read `&amp;` and backslashes as codes."""
    escaped = (
        line.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") for line in lines
    )
    return '"' + "\\n".join(escaped) + '"'


def dot_text(
    snapshot: Snapshot,
    rankdir: str | Arrangement = "LR",
    caption: str = "",
    reserve: bool = False,
    bare: bool = False,
    words: bool = True,
    drawn: bool = True,
) -> str:
    """Return a graph with its numbers as DOT text.

    Args:
        rankdir: "LR" draws from left to right, "TB" from top to bottom; or an arrangement in rows.
        caption: a line below the picture.
        reserve: leave room for every number that may be written in later.
        bare: only places, no looks: a page draws boxes and lines in its own way, and the picture
            is a third of the size.
        words: write into the boxes; to measure them is nearly half of Graphviz's work.
        drawn: leave room for small pictures of the tensors (see `thumbnails.py`).
    """
    graph = snapshot.graph
    arrangement = Arrangement(direction_of(rankdir)) if isinstance(rankdir, str) else rankdir
    ink, edge_ink = ("shape=box", "") if bare else (f'fontcolor="{INK}"', f'fontcolor="{PALE_INK}"')
    lines = [
        "digraph edutorch {",
        f"  graph [rankdir={arrangement.direction} bgcolor=transparent nodesep=0.18 ranksep=0.3"
        f"{haste(graph)}",
        f'    fontname="Courier" fontsize=10 fontcolor="{PALE_INK}" label={quoted([caption])}]',
        f'  node [fontname="Courier" fontsize=10 margin="0.1,0.06" labelloc=t {ink}]',
        f'  edge [fontname="Courier" fontsize=9 arrowsize=0.6 {edge_ink}]',
        *in_frames(graph, _boxes(snapshot, Look(reserve, bare, words, drawn)), arrangement, titled),
    ]
    room = NUMBER_WIDTH if reserve else 0
    straight = straight_edges(graph)
    both = {"forward", "backward"} <= {edge.kind for edge in graph.edges}
    row = dict(zip((node.id for node in graph.nodes), arrangement.rows, strict=False))
    bad = set(snapshot.bad)
    for edge, flow in zip(graph.edges, snapshot.flows, strict=True):
        text = flow_text(flow).ljust(room) if len(graph.edges) <= LABELLED_EDGES else ""
        look = "" if bare else flow_style(flow, {edge.source, edge.target} <= bad)
        arrow = _arrow(edge, look, text, edge.id in straight, both)
        lines.append(turned_arrow(arrow, edge, arrangement, row))
    return "\n".join([*lines, "}", ""])


def haste(graph: Graph) -> str:
    """Let Graphviz stop early over a large graph: it is soon nearly as good as it will ever be."""
    return f" nslimit={EFFORT} nslimit1={EFFORT}" if len(graph.nodes) > MUCH_WORK else ""


class Look(NamedTuple):
    """How boxes are written: see the arguments of `dot_text`."""

    reserve: bool
    bare: bool
    words: bool
    drawn: bool


def _box(node: GraphNode, numbers: tuple[Stats | None, Stats | None], look: Look, bad: bool) -> str:
    value, grad = numbers
    lines = node_lines(node, value, grad, look.reserve, look.drawn)
    paint = paint_of(node)
    style = f'{NODE_SHAPES[node.kind]} fillcolor="{paint.fill}" color="{paint.border}" '
    if bad:
        style += f'color="{ALARM}" penwidth=3 '
    known = look.drawn and (look.reserve or drawn_kind(node, value) is not None)
    label = quoted(lines if look.words else ())
    size = box_size(lines, len(node.marks), slot_height(node) if known else 0.0)
    return f"{node.id} [id={node.id} label={label} {'' if look.bare else style}{size}]"


def box_size(lines: Iterable[str], marks: int = 0, slot: float = 0.0) -> str:
    """Say how large a box is: engines disagree on how wide a letter is that is not English.

    Args:
        marks: how many there are beside the name, which stays in the middle.
        slot: room for a small picture below the lines, in points.
    """
    name, *others = lines
    widths = [columns(name) + 2 * MARK_COLUMNS * marks, *map(columns, others)]
    width = max(widths) * CHARACTER_WIDTH + 2 * MARGIN_X
    height = (1 + len(others)) * LINE_HEIGHT + slot + 2 * MARGIN_Y
    return f"width={width / 72:.4f} height={height / 72:.4f} fixedsize=true"


@functools.lru_cache(4096)  # most boxes of a graph have the same shape and the same blanks
def columns(text: str) -> int:
    """Return how many letters wide a line is: those of East Asia, and faces, count as two.

    >>> columns("tanh"), columns("日本")
    (4, 4)
    """
    if text.isascii():
        return len(text)
    return sum(1 + (unicodedata.east_asian_width(each) in "WF") for each in text)


def _arrow(edge: GraphEdge, look: str, text: str, straight: bool, both: bool) -> str:
    # A space on either side keeps the number off the line.
    label = f" label={quoted([f' {text} '])}" if text else ""
    weight = " weight=8" if straight else ""  # the main path runs straight, parameters join it
    ends, more = f"{edge.source} -> {edge.target}", ""
    if edge.kind == "cut":
        label, more = f" label={quoted([f' {CUT} '])}", " style=dashed"
    elif edge.kind == "kept":
        more = " constraint=false style=dotted arrowhead=odot"
    elif edge.kind == "backward" and both:  # a row of its own, which runs from right to left
        ends, more = f"{edge.target} -> {edge.source}", " dir=back"
    return f"  {ends} [id={edge.id}{label}{weight} {look}{more}]"


def _boxes(snapshot: Snapshot, look: Look) -> list[str]:
    """Write the nodes, each by itself."""
    graph = snapshot.graph
    boxes: list[str] = []
    bad = set(snapshot.bad)
    rows = zip(graph.nodes, snapshot.values, snapshot.grads, strict=True)
    for node, value, grad in rows:
        boxes.append(_box(node, (value, grad), look, node.id in bad))
    return boxes


def titled(title: str) -> str:
    """Quote the title of a frame for DOT."""
    return quoted([shown(title)])
