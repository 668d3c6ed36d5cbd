"""The picture of a graph that came out of a jail: of an `AnswerGraph`, plain data.

What a jail says about a graph may be forged. All text in a picture is escaped by `viz`; here it is
bounded how large a picture may become, and so how long its layout may take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..viz.graph.model import Graph, GraphEdge, GraphNode, NodeKind, Snapshot
from ..viz.render.dot import printable
from ..viz.render.static import Drawing
from .attempt import AnswerGraph, Box, Details
from .marked_graph import mark_node

MOST_BOXES = 40
"""Of a larger graph, only so many boxes near the marked one are drawn."""

MOST_ARROWS = 80
"""With more of them, fewer boxes: a forged graph takes Graphviz no longer than an honest one."""

FEW_BOXES, FEW_ARROWS = 16, 24
"""Of so few, several arrangements are tried, as for `viz.draw`; a larger graph is drawn once."""

MOST_SOURCES = 8
LONGEST_SHAPE = 30


def draw_answer(graph: AnswerGraph, mark: str = "", caption: str = "") -> Drawing | None:
    """Return the picture of a graph with one box marked; None if there is no box.

    Args:
        mark: the op or leaf to mark; "" marks the result.
        caption: a line below it.
    """
    if not graph.boxes:
        return None
    indices = boxes_to_draw(graph, start_of(graph, mark))
    if len(indices) < len(graph.boxes):
        part = f"{len(indices)} of {len(graph.boxes)} boxes, those nearest to the marked one"
        caption = f"{caption}; {part}" if caption else part
    snapshot = mark_node(snapshot_of(graph, indices), mark)
    few = len(indices) <= FEW_BOXES and len(snapshot.graph.edges) <= FEW_ARROWS
    return Drawing(snapshot, None if few else "TB", caption=caption)


def start_of(graph: AnswerGraph, mark: str) -> int:
    """Return the index of the box that is marked."""
    for index, box in reversed([*enumerate(graph.boxes)]):
        if mark and mark in (box.label, details_of(box).variable):
            return index
    return len(graph.boxes) - 1


def boxes_to_draw(graph: AnswerGraph, start: int) -> list[int]:
    """Return the indices of the boxes near one of them, as many as make no picture too large."""
    most = MOST_BOXES
    while True:
        indices = nearest(graph, start, most)
        among = set(indices)
        arrows = [
            source for index in indices for source in graph.boxes[index].sources[:MOST_SOURCES]
            if source in among
        ]  # fmt: skip
        if len(arrows) <= MOST_ARROWS:
            return indices
        most //= 2


def nearest(graph: AnswerGraph, start: int, most: int) -> list[int]:
    """Return the indices of the boxes to draw, in order: all of a small graph.

    Of a larger one, those that the box `start` was computed from, then those that use it.
    """
    if len(graph.boxes) <= most:
        return list(range(len(graph.boxes)))
    users: dict[int, list[int]] = {}
    for index, box in enumerate(graph.boxes):
        for source in box.sources[:MOST_SOURCES]:
            users.setdefault(source, []).append(index)
    sources = {index: box.sources[:MOST_SOURCES] for index, box in enumerate(graph.boxes)}
    half = most // 2
    return sorted({*reached(sources, start, half), *reached(users, start, half)})


def reached(neighbours: Mapping[int, Sequence[int]], start: int, most: int) -> list[int]:
    """Return what can be reached from a start, the nearest first."""
    order = {start: None}
    waiting = [start]
    for index in waiting:
        for other in neighbours.get(index, ()):
            if other not in order and len(order) < most:
                order[other] = None
                waiting.append(other)
    return list(order)


def snapshot_of(graph: AnswerGraph, indices: list[int]) -> Snapshot:
    """Return some boxes of a graph as a picture's graph."""
    id_of = {index: f"n{number}" for number, index in enumerate(indices)}
    nodes, edges, flows = [], [], []
    for index, id in id_of.items():
        box = graph.boxes[index]
        nodes.append(node_of(box, id))
        passed_back = details_of(box).flows or (None,) * len(box.sources)
        arrows = [*zip(box.sources, passed_back, strict=True)][:MOST_SOURCES]
        for number, (source, flow) in enumerate(arrows):
            if source in id_of:
                cut = graph.boxes[source].differentiable and not box.differentiable
                edges.append(GraphEdge(f"e{len(edges)}", id_of[source], id, f"input {number}",
                                       "cut" if cut else "forward"))  # fmt: skip
                flows.append(flow)
    shown = [details_of(graph.boxes[index]) for index in indices]
    return Snapshot(
        Graph(tuple(nodes), tuple(edges)), tuple(details.value for details in shown),
        tuple(details.gradient for details in shown), tuple(flows),
    )  # fmt: skip


def node_of(box: Box, id: str) -> GraphNode:
    shape = box.shape
    while len("×".join(map(str, shape))) > LONGEST_SHAPE:
        shape = shape[:-1]
    cut = "" if shape == box.shape else "… "
    details = details_of(box)
    kind: NodeKind = details.kind  # type: ignore[assignment]  (`decode_details` knows them)
    dtype = cut + (printable(box.dtype) if box.dtype else "")
    return GraphNode(id, kind, box.label, shape=shape, dtype=dtype, variable=details.variable,
                     differentiable=box.differentiable)  # fmt: skip


def details_of(box: Box) -> Details:
    return box.details or Details("op" if box.is_op else "leaf")
