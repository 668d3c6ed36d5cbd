"""The nodes of a graph as DOT text: in the frames of open groups, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ..graph.model import Frame, Graph, GraphEdge
from .arrangement import Arrangement, Sketch

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
