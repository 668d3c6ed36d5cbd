"""Writes a graph as DOT text: the labels and styles of its boxes and arrows.

Labels are plain text with line breaks, never Graphviz's HTML: names come from user code, not every
engine can read HTML labels, and plain ones look the same everywhere. All numbers have a fixed
width. The layout of a graph is therefore independent of its values, and a page can change them in
place.
"""

from __future__ import annotations

import functools
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..graph.model import TIED, Frame, Graph, GraphEdge, GraphNode, NodeKind, Snapshot
from ..tensors.summaries import (
    LONGEST_LIST,
    TINY,
    UNKNOWN,
    Stats,
    bar_text,
    magnitude_text,
    number_text,
)
from ..tensors.thumbnails import drawn_style, slot_height
from .arrangement import Arrangement, Sketch, direction_of
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
"""Inputs have square corners, computed nodes round ones; see `style.py` for colours."""

FAINT = 1e-5  # a mean closer to zero is rounding noise, without a sign

SHOWN_LABEL, LONG_LABEL = 22, 30
LABELLED_EDGES = 60  # with more edges, their labels cost more layout time than they are worth
MUCH_WORK, EFFORT = 300, 0.3  # above so many nodes, limit Graphviz's iterations per node
NUMBER_WIDTH = 7
SPACE = "\xa0"  # Graphviz and browsers would collapse ordinary spaces
CHARACTER_WIDTH, LINE_HEIGHT = 6.0, 12.0  # of Courier at 10 points, in points
BASELINE = 3.0  # distance of the baseline below the middle of a line
MARGIN_X, MARGIN_Y = 7.2, 4.32
MARK_COLUMNS = 2  # the width of a mark in the name's line, in characters


# Text of a box ---------------------------------------------------------------------


def printable(label: str, limit: int = SHOWN_LABEL) -> str:
    """Return a text as one line of a box; unprintable characters become �.

    >>> printable("a" + chr(10) + "b" + chr(0))
    'a b�'
    """
    visible = (
        " " if letter.isspace() else letter if letter.isprintable() else "�" for letter in label
    )
    text = " ".join("".join(visible).split()) or "(no name)"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def name_text(node: GraphNode) -> str:
    """Return the name of a box: `weight`, `relu`, or `h = relu` if a variable holds it.

    A tensor that was written in place has a version: `h = relu v2`.
    """
    names = node.label.split(TIED)
    if node.variable:
        name = printable(f"{node.variable} = {node.label}")
    elif len(names) > 1:  # of a tied parameter: all of them, if they are few
        name = TIED.join(
            [*(printable(name, LONG_LABEL) for name in names[:2]), *["…"][: len(names) - 2]]
        )
    else:
        name = printable(node.label)
    return f"{name} v{node.version + 1}" if node.version else name


def shape_text(node: GraphNode) -> str:
    """Return shape, dtype, and the device unless it is the CPU: `64×10 float32`."""
    if node.kind == "failed":  # it has no result: `dtype` holds the shapes of its operands
        return printable(node.dtype) if node.dtype else "no result"
    where = "" if node.device == "cpu" else f" {node.device}"
    if not node.shape and not node.dtype:  # of a graph that has not run nothing may be known
        return where.strip()
    if not node.shape and " " in node.dtype:  # or only names of sizes: "batch×3 float32"
        return printable(node.dtype) + where
    sizes = "×".join(map(str, node.shape)) or "scalar"
    return f"{sizes} {node.dtype}{where}"


def value_text(stats: Stats | None) -> str:
    """Return a value as the page writes it (see `Patch` in the protocol)."""
    if stats is None:
        return f"value {UNKNOWN}"
    return f"value {stats.text}" if stats.text else f"mean  {number_text(stats.mean)}"


def grad_text(stats: Stats | None) -> str:
    """Return the gradient of a node as the page writes it."""
    if stats is None:
        return f"grad  {UNKNOWN}"
    return f"grad  {stats.text or magnitude_text(stats.norm)}"


def flow_text(stats: Stats | None) -> str:
    """Return the gradient of an edge as text: its norm; only a scalar has a sign."""
    if stats is None:
        return ""
    return number_text(stats.mean) if stats.size == 1 else magnitude_text(stats.norm)


def constant_text(stats: Stats | None) -> str:
    """Return a Python number argument as text."""
    return UNKNOWN if stats is None else stats.text or number_text(stats.mean)


def reserved_width(node: GraphNode) -> int:
    """Return the largest number of characters of a node's value or gradient."""
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

    With `reserve` all lines are present, padded with non-breaking spaces to their largest width. A
    constant has no box, only its number.

    Args:
        drawn: whether a histogram is drawn below the lines; else it is a line of text.
    """
    if node.kind == "constant":
        text = constant_text(value)
        return [text.center(reserved_width(node), SPACE) if reserve else text]
    width = len("value ") + reserved_width(node) if reserve else 0
    lines = [name_text(node), shape_text(node)]
    if reserve or value is not None:
        lines.append(value_text(value).ljust(width, SPACE))
    if node.differentiable and (reserve or grad is not None):
        lines.append(grad_text(grad).ljust(width, SPACE))
    if value is not None and value.bars and not reserve and not drawn:
        lines.append(f"{number_text(value.min)}{SPACE}{bar_text(value.bars)}{SPACE}{number_text(value.max)}"
                     .replace(" ", SPACE))  # fmt: skip
    return lines


# Style -------------------------------------------------------------------------------


def flow_style(stats: Stats | None, troubled: bool = False) -> str:
    """Return the colour and width of an arrow, from the norm of its gradient.

    Args:
        troubled: whether the nodes at both of its ends have an error.
    """
    if stats is None:
        return f'color="{NEUTRAL}" penwidth=1'
    if stats.bad:
        return f'color="{ALARM if troubled else NEUTRAL}" penwidth={4 if troubled else 1}'
    colour = FLOW_COLOURS[size_class(stats.norm)]
    return f'color="{colour}" penwidth={line_width(stats.norm):.2f}'


# DOT ---------------------------------------------------------------------------------


def quote_lines(lines: Iterable[str]) -> str:
    """Quote lines for DOT, which decodes HTML entities and backslashes."""
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
    """Return a graph with its values as DOT text.

    Args:
        rankdir: "LR" draws from left to right, "TB" from top to bottom; or an arrangement in rows.
        caption: a line below the picture.
        reserve: leave room for all values that may be filled in later.
        bare: only positions, no styles: a page draws boxes and lines itself, and the picture is a
            third of the size.
        words: write the labels; measuring them is nearly half of Graphviz's work.
        drawn: leave room for thumbnails of the tensors (see `thumbnails.py`).
    """
    graph = snapshot.graph
    arrangement = Arrangement(direction_of(rankdir)) if isinstance(rankdir, str) else rankdir
    ink, edge_ink = ("shape=box", "") if bare else (f'fontcolor="{INK}"', f'fontcolor="{PALE_INK}"')
    boxes = _boxes(snapshot, Look(reserve, bare, words, drawn))
    lines = [
        "digraph edutorch {",
        f"  graph [rankdir={arrangement.direction} bgcolor=transparent nodesep=0.18 ranksep=0.3"
        f"{effort_limits(graph)}",
        f'    fontname="Courier" fontsize=10 fontcolor="{PALE_INK}"'
        f" label={quote_lines([caption])}]",
        f'  node [fontname="Courier" fontsize=10 margin="0.1,0.06" labelloc=t {ink}]',
        f'  edge [fontname="Courier" fontsize=9 arrowsize=0.6 {edge_ink}]',
        *frame_lines(graph, boxes, arrangement, quote_title),
    ]
    width = NUMBER_WIDTH if reserve else 0
    straight = straight_edges(graph)
    both = {"forward", "backward"} <= {edge.kind for edge in graph.edges}
    row = dict(zip((node.id for node in graph.nodes), arrangement.rows, strict=False))
    bad = set(snapshot.bad)
    for edge, flow in zip(graph.edges, snapshot.flows, strict=True):
        text = flow_text(flow).ljust(width) if len(graph.edges) <= LABELLED_EDGES else ""
        look = "" if bare else flow_style(flow, {edge.source, edge.target} <= bad)
        arrow = _arrow(edge, look, text, edge.id in straight, both)
        lines.append(adapt_arrow(arrow, edge, arrangement, row))
    return "\n".join([*lines, "}", ""])


def effort_limits(graph: Graph) -> str:
    """Return the attributes that limit Graphviz's iterations over a large graph."""
    return f" nslimit={EFFORT} nslimit1={EFFORT}" if len(graph.nodes) > MUCH_WORK else ""


class Look(NamedTuple):
    """The options of boxes: see the arguments of `dot_text`."""

    reserve: bool
    bare: bool
    words: bool
    drawn: bool


def _box(node: GraphNode, stats: tuple[Stats | None, Stats | None], look: Look, bad: bool) -> str:
    value, grad = stats
    lines = node_lines(node, value, grad, look.reserve, look.drawn)
    paint = paint_of(node)
    style = f'{NODE_SHAPES[node.kind]} fillcolor="{paint.fill}" color="{paint.border}" '
    if bad:
        style += f'color="{ALARM}" penwidth=3 '
    has_thumbnail = look.drawn and (look.reserve or drawn_style(node, value) is not None)
    label = quote_lines(lines if look.words else ())
    size = box_size(lines, len(node.marks), slot_height(node) if has_thumbnail else 0.0)
    return f"{node.id} [id={node.id} label={label} {'' if look.bare else style}{size}]"


def box_size(lines: Iterable[str], marks: int = 0, slot: float = 0.0) -> str:
    """Return the size of a box, as engines disagree on the width of non-ASCII characters.

    Args:
        marks: the number of marks beside the name, which stays centred.
        slot: the height of a thumbnail below the lines, in points.
    """
    name, *others = lines
    widths = [text_columns(name) + 2 * MARK_COLUMNS * marks, *map(text_columns, others)]
    width = max(widths) * CHARACTER_WIDTH + 2 * MARGIN_X
    height = (1 + len(others)) * LINE_HEIGHT + slot + 2 * MARGIN_Y
    return f"width={width / 72:.4f} height={height / 72:.4f} fixedsize=true"


@functools.lru_cache(4096)  # most boxes of a graph have the same shape line
def text_columns(text: str) -> int:
    """Return the width of a line in characters; East Asian ones and emoji count as two.

    >>> text_columns("tanh"), text_columns("日本")
    (4, 4)
    """
    if text.isascii():
        return len(text)
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)


def _arrow(edge: GraphEdge, look: str, text: str, straight: bool, both: bool) -> str:
    # A space on either side keeps the number off the line.
    label = f" label={quote_lines([f' {text} '])}" if text else ""
    weight = " weight=8" if straight else ""  # the main path runs straight, parameters join it
    ends, attributes = f"{edge.source} -> {edge.target}", ""
    if edge.kind == "cut":
        label, attributes = f" label={quote_lines([f' {CUT} '])}", " style=dashed"
    elif edge.kind == "kept":
        attributes = " constraint=false style=dotted arrowhead=odot"
    elif edge.kind == "backward" and both:  # the backward graph runs from right to left
        ends, attributes = f"{edge.target} -> {edge.source}", " dir=back"
    return f"  {ends} [id={edge.id}{label}{weight} {look}{attributes}]"


def _boxes(snapshot: Snapshot, look: Look) -> list[str]:
    """Return the DOT text of each node."""
    graph = snapshot.graph
    boxes: list[str] = []
    bad = set(snapshot.bad)
    rows = zip(graph.nodes, snapshot.values, snapshot.grads, strict=True)
    for node, value, grad in rows:
        boxes.append(_box(node, (value, grad), look, node.id in bad))
    return boxes


def quote_title(title: str) -> str:
    """Quote the title of a frame for DOT."""
    return quote_lines([printable(title)])


# Rows and frames --------------------------------------------------------------------

CORNERS = {
    "LR": " labeljust=l", "TB": " labeljust=l", "RL": " labeljust=r",
    "BT": " labelloc=b labeljust=l",
}  # fmt: skip
"""The attributes that put a frame's title at the top left, by Graphviz's direction."""


def frame_lines(
    graph: Graph, boxes: Sequence[str], arrangement: Arrangement, label: Callable[[str], str]
) -> list[str]:
    """Return the lines of all nodes, in nested frames for the open groups.

    Each row is an invisible frame. A frame that continues in the next row is drawn in both.

    Args:
        boxes: the DOT text of each node.
        label: quotes a frame's title for DOT.
    """
    rows = arrangement.rows
    if not rows:
        return _framed_lines(graph, boxes, range(len(boxes)), label, "  ")
    corner = CORNERS[arrangement.direction]
    lines = []
    for row in range(max(rows) + 1):
        row_nodes = [index for index, node_row in enumerate(rows) if node_row == row]
        lines += [
            f"  subgraph cluster_row{row} {{",
            '    style=invis margin=4 label=""',
            *_framed_lines(graph, boxes, row_nodes, label, "    ", row, corner),
            "  }",
        ]
    return lines + (_padding(graph, rows) if arrangement.turned else [])


def _padding(graph: Graph, rows: Sequence[int]) -> list[str]:
    """Return invisible nodes that lengthen short rows, as Graphviz aligns rows at their end."""
    ends = Sketch(graph, {}).ends(rows)
    longest = max(length for _, length in ends)
    return [
        f'  pad{row} [style=invis label="" width=0.01 height=0.01 fixedsize=true]\n'
        f"  pad{row} -> {graph.nodes[index].id} [style=invis weight=9 minlen={longest - length}]"
        for row, (index, length) in enumerate(ends)
        if length < longest
    ]


def straight_edges(graph: Graph) -> set[str]:
    """Return the edges of the main path: from the input of the highest rank into each node.

    Parameters join this path, and skip connections lead around it. If a long skip connection had
    to be straight as well, the boxes that it skips would form a staircase.
    """
    computed = {edge.target for edge in graph.edges}
    rank = dict(zip((node.id for node in graph.nodes), Sketch(graph, {}).all_ranks(), strict=True))
    latest: dict[str, int] = {}
    for edge in graph.edges:
        if edge.source in computed:
            latest[edge.target] = max(latest.get(edge.target, 0), rank[edge.source])
    return {
        edge.id
        for edge in graph.edges
        if edge.source in computed and rank[edge.source] == latest[edge.target]
    }


def adapt_arrow(
    arrow: str, edge: GraphEdge, arrangement: Arrangement, row: Mapping[str, int]
) -> str:
    """Adapt an edge's DOT text to an arrangement in rows.

    An edge between two rows does not constrain the ranking. In a turned arrangement the edges
    within a row are reversed, otherwise those between rows.
    """
    if not row:
        return arrow
    is_between_rows = row[edge.source] != row[edge.target]
    extra_attributes = " constraint=false" if is_between_rows else ""
    ends, bracket, attributes = arrow.partition(" [")
    if is_between_rows is not arrangement.turned:
        source, _, target = ends.strip().partition(" -> ")
        ends = f"  {target} -> {source}"
        attributes = (
            attributes.replace(" dir=back", "")
            if " dir=back" in attributes
            else f"{attributes[:-1]} dir=back]"
        )
    return f"{ends}{bracket}{attributes[:-1]}{extra_attributes}]"


def _framed_lines(
    graph: Graph, boxes: Sequence[str], indices: Iterable[int], label: Callable[[str], str],
    indent: str, row: int = 0, corner: str = " labeljust=l",
) -> list[str]:  # fmt: skip
    """Return the lines of some nodes in their frames, without empty frames."""
    members: dict[str, list[str]] = {"": []}
    parent_of = {frame.key: frame.around for frame in graph.frames}
    for index in indices:
        key = graph.nodes[index].frame
        members.setdefault(key, []).append(boxes[index])
        while key and parent_of[key] not in members:
            key = parent_of[key]
            members[key] = []
    inner: dict[str, list[Frame]] = {}
    for frame in graph.frames:
        if frame.key in members:
            id = f"{frame.id}_{row}" if row else frame.id
            inner.setdefault(frame.around, []).append(replace(frame, id=id))
    return _members("", members, inner, lambda title: label(title) + corner, indent)


def _members(
    key: str, members: dict[str, list[str]], inner: dict[str, list[Frame]],
    label: Callable[[str], str], indent: str,
) -> list[str]:  # fmt: skip
    lines = [indent + line for line in members[key]]
    for frame in inner.get(key, ()):
        lines += [
            f"{indent}subgraph cluster_{frame.id} {{",
            f"{indent}  id={frame.id} label={label(frame.title)} margin=8",
            f'{indent}  style="rounded,filled" color="#C9CED6" fillcolor="#8A8F9814"',
            *_members(frame.key, members, inner, label, indent + "  "),
            f"{indent}}}",
        ]
    return lines
