"""The nodes of a graph as DOT text: in the frames of open groups, and row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ..graph.model import Frame, Graph, GraphEdge
from .arrangement import Arrangement, Sketch

CORNERS = {
    "LR": " labeljust=l", "TB": " labeljust=l", "RL": " labeljust=r",
    "BT": " labelloc=b labeljust=l",
}  # fmt: skip
"""Where a frame's title stands, by what Graphviz is told as direction: always above on the left."""


def in_frames(
    graph: Graph, boxes: Sequence[str], arrangement: Arrangement, label: Callable[[str], str]
) -> list[str]:
    """Write the nodes, those of one open group in a frame, and frames inside frames.

    Each row is an invisible frame of its own: the next lies beside it. A frame that goes on in the
    next row is drawn in both.

    Args:
        boxes: the DOT text of each node.
        label: makes a DOT string of a frame's title.
    """
    rows = arrangement.rows
    if not rows:
        return _framed(graph, boxes, range(len(boxes)), label, "  ")
    corner = CORNERS[arrangement.direction]
    lines = []
    for row in range(max(rows) + 1):
        wanted = [number for number, at in enumerate(rows) if at == row]
        lines += [
            f"  subgraph cluster_row{row} {{",
            '    style=invis margin=4 label=""',
            *_framed(graph, boxes, wanted, label, "    ", row, corner),
            "  }",
        ]
    return lines + (_padding(graph, rows) if arrangement.turned else [])


def _padding(graph: Graph, rows: Sequence[int]) -> list[str]:
    """Lengthen short rows by something invisible, for Graphviz aligns where it begins to rank."""
    ends = Sketch(graph, {}).ends(rows)
    longest = max(length for _, length in ends)
    return [
        f'  pad{row} [style=invis label="" width=0.01 height=0.01 fixedsize=true]\n'
        f"  pad{row} -> {graph.nodes[number].id} [style=invis weight=9 minlen={longest - length}]"
        for row, (number, length) in enumerate(ends)
        if length < longest
    ]


def straight_edges(graph: Graph) -> set[str]:
    """Return the edges that are to run straight: from the latest result that goes into each node.

    Parameters join this path, and what skips a part of it runs around. Were an arrow that leads
    past twenty boxes as straight as theirs, they would stand like a staircase.
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


def turned_arrow(
    arrow: str, edge: GraphEdge, arrangement: Arrangement, row: Mapping[str, int]
) -> str:
    """Return an arrow's DOT text as it is for an arrangement in rows.

    Between two rows it ranks nothing. All the others are told the other way round in a turned
    picture, and those between rows in one that is not.
    """
    if not row:
        return arrow
    between = row[edge.source] != row[edge.target]
    more = " constraint=false" if between else ""
    ends, bracket, rest = arrow.partition(" [")
    if between is not arrangement.turned:
        one, _, other = ends.strip().partition(" -> ")
        ends = f"  {other} -> {one}"
        rest = rest.replace(" dir=back", "") if " dir=back" in rest else f"{rest[:-1]} dir=back]"
    return f"{ends}{bracket}{rest[:-1]}{more}]"


def _framed(
    graph: Graph, boxes: Sequence[str], wanted: Iterable[int], label: Callable[[str], str],
    indent: str, row: int = 0, corner: str = " labeljust=l",
) -> list[str]:  # fmt: skip
    """Write some of the nodes in their frames; frames that hold none of them are left out."""
    members: dict[str, list[str]] = {"": []}
    around = {frame.key: frame.around for frame in graph.frames}
    for number in wanted:
        key = graph.nodes[number].frame
        members.setdefault(key, []).append(boxes[number])
        while key and around[key] not in members:
            key = around[key]
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
