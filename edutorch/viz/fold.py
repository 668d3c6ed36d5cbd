"""Shows a large graph as a small one: groups as single boxes, which open and close.

`tree.py` finds the groups. Here it is decided which of them are open, and the graph of
what is then to be seen is made, together with a plan by which the numbers of each further
step are picked: the cost of a step is that of the boxes on the screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .graph import Frame, Graph, GraphEdge, GraphNode, Snapshot
from .tree import Group, grouped

MOST_NODES = 500
"""So many boxes are shown at most, unless somebody opens more."""


@dataclass(frozen=True)
class Choice:
    """Which groups somebody has opened and closed by hand, the latest last.

    `turns` holds (key, opened?); `limit` is for what opens by itself.
    """

    turns: tuple[tuple[str, bool], ...] = ()
    limit: int = MOST_NODES

    def open(self, key: str) -> Choice:
        """Return the choice with one more group open, and all that lies around it."""
        return self._turned(key, True)

    def close(self, key: str) -> Choice:
        """Return the choice with one more group closed."""
        return self._turned(key, False)

    def _turned(self, key: str, opened: bool) -> Choice:
        others = tuple(turn for turn in self.turns if turn[0] != key)
        return replace(self, turns=(*others, (key, opened)))


@dataclass(frozen=True)
class Plan:
    """What is to be seen of a graph, and where its numbers come from.

    `graph` is the visible one; `nodes` says for each of its nodes which node of the whole
    graph lends it the numbers, `edges` the same for its edges (-1: several flow together).
    """

    graph: Graph
    nodes: tuple[int, ...]
    edges: tuple[int, ...]

    def pick(self, whole: Snapshot) -> Snapshot:
        """Return the visible graph with the numbers of a step of the whole one."""
        if self.graph is whole.graph:
            return whole
        return Snapshot(
            self.graph,
            tuple(whole.values[number] for number in self.nodes),
            tuple(whole.grads[number] for number in self.nodes),
            tuple(whole.flows[number] if number >= 0 else None for number in self.edges),
        )


def folded(snapshot: Snapshot, choice: Choice | None = None) -> Snapshot:
    """Return what is to be seen of a graph. See `plan_of`."""
    return plan_of(snapshot.graph, choice or Choice()).pick(snapshot)


def plan_of(graph: Graph, choice: Choice) -> Plan:
    """Decide what is open, and make the graph of what is then to be seen."""
    root = grouped(graph)
    opened = open_groups(root, choice)
    boxes = seen_boxes(root, opened)
    return Visible(graph, boxes, frames_of(root, opened)).plan()


# What is open --------------------------------------------------------------------------------


def open_groups(root: Group, choice: Choice) -> set[str]:
    """Return the keys of the open groups: as many as fit, the outer ones first.

    What somebody opened is open, and what lies around it. Repetition stays folded, as does each
    time of one that was opened; parts of something long are all open or none.
    """
    wanted, shut = decided(root, choice)
    opened = {""}
    room = choice.limit - len(root.members)
    level = [root]
    while level:
        inner = [each for group in level for each in group.groups() if group.kind != "repeat"
                 or each.key in wanted]  # fmt: skip
        parts = [len(each.members) - 1 for each in inner if each.kind == "part"]
        by_themselves = {"module", "part"} if sum(parts) <= room else {"module"}
        level = []
        for group in sorted(inner, key=lambda each: each.key not in wanted):
            more = len(group.members) - 1
            fits = group.kind in by_themselves and more <= room and group.key not in shut
            if group.key in wanted or fits:
                opened.add(group.key)
                room -= more
                level.append(group)
    return opened


def decided(root: Group, choice: Choice) -> tuple[set[str], set[str]]:
    """Return the keys of the groups that are open, and closed, because somebody said so.

    Whoever opens a group opens what lies around it, even if that was closed before.
    """
    turn = {key: number for number, (key, _) in enumerate(choice.turns)}
    opened, closed = (
        {key for key, kind in choice.turns if kind is wanted} for wanted in (True, False)
    )
    latest: dict[str, int] = {}  # when something inside was opened last
    trail: list[tuple[Group, tuple[str, ...]]] = [(root, ())]
    while trail:
        group, around = trail.pop()
        if group.key in opened:
            for key in (*around, group.key):
                latest[key] = max(latest.get(key, -1), turn[group.key])
        trail += [(each, (*around, group.key)) for each in group.groups()]
    shut = {key for key in closed if turn[key] > latest.get(key, -1)}
    return latest.keys() - shut, shut


@dataclass(slots=True)
class Box:
    """Something to be seen: one node, or a closed group. `frame` is the open group around it."""

    node: int
    frame: str
    group: Group | None = None
    inside: tuple[int, ...] = ()


def seen_boxes(root: Group, opened: set[str]) -> list[Box]:
    """Return the boxes to be seen, in the order of computation."""
    boxes: list[Box] = []
    waiting: list[tuple[Group, str]] = [(root, "")]
    while waiting:
        group, frame = waiting.pop()
        for member in group.members:
            if isinstance(member, int):
                boxes.append(Box(member, frame))
            elif member.key in opened:
                waiting.append((member, member.key if len(member.members) > 1 else frame))
            else:
                boxes.append(Box(member.last, frame, member, tuple(nodes_in(member))))
    return sorted(boxes, key=lambda box: min(box.inside, default=box.node))


def visible_ids(graph: Graph, choice: Choice) -> dict[int, str]:
    """Return for each node, by its number, the id of the box that it is in."""
    root = grouped(graph)
    boxes = seen_boxes(root, open_groups(root, choice))
    return {number: f"n{at}" for at, box in enumerate(boxes)
            for number in box.inside or (box.node,)}  # fmt: skip


def nodes_in(group: Group) -> Iterable[int]:
    """Yield the numbers of all nodes in a group."""
    waiting: list[int | Group] = [group]
    while waiting:
        member = waiting.pop()
        if isinstance(member, int):
            yield member
        else:
            waiting.extend(member.members)


def frames_of(root: Group, opened: set[str]) -> list[Frame]:
    """Return a frame for each open group with more than one member, the outer ones first."""
    frames: list[Frame] = []
    waiting: list[tuple[Group, str]] = [(root, "")]
    while waiting:
        group, around = waiting.pop(0)
        for each in group.groups():
            if each.key in opened:
                framed = len(each.members) > 1
                if framed:
                    frames.append(Frame(f"c{len(frames)}", each.key, each.title, around))
                waiting.append((each, each.key if framed else around))
    return frames


# The graph of it -----------------------------------------------------------------------------


class Visible:
    """Makes the graph of what is to be seen, box by box."""

    def __init__(self, graph: Graph, boxes: Sequence[Box], frames: Sequence[Frame]) -> None:
        self.graph, self.boxes, self.frames = graph, boxes, frames
        self.id: dict[int, str] = {}  # of the visible node, by the number in the whole graph
        for position, box in enumerate(boxes):
            for number in box.inside or (box.node,):
                self.id[number] = f"n{position}"

    def plan(self) -> Plan:
        """Return the graph, and where its numbers come from."""
        if not self.frames and all(box.group is None for box in self.boxes):
            whole = self.graph
            return Plan(whole, tuple(range(len(whole.nodes))), tuple(range(len(whole.edges))))
        nodes = tuple(self._node(position, box) for position, box in enumerate(self.boxes))
        edges, sources = self._edges()
        graph = Graph(nodes, edges, self.graph.modules, tuple(self.frames))
        return Plan(graph, tuple(box.node for box in self.boxes), sources)

    def _node(self, position: int, box: Box) -> GraphNode:
        node = replace(self.graph.nodes[box.node], id=f"n{position}", frame=box.frame)
        if box.group is None:
            return node
        return replace(
            node, kind="group", label=box.group.title, module=box.group.path, formulas={},
            group=box.group.key, inside=box.group.size,
        )  # fmt: skip

    def _edges(self) -> tuple[tuple[GraphEdge, ...], tuple[int, ...]]:
        """Draw one arrow between two groups, however many lead from one to the other."""
        numbers = {node.id: number for number, node in enumerate(self.graph.nodes)}
        closed = {f"n{at}" for at, box in enumerate(self.boxes) if box.group is not None}
        found: dict[object, int] = {}
        edges: list[GraphEdge] = []
        sources: list[int] = []
        for number, edge in enumerate(self.graph.edges):
            source, target = self.id[numbers[edge.source]], self.id[numbers[edge.target]]
            together = source in closed or target in closed
            if together and source == target:
                continue
            key = (source, target, edge.kind if together else edge.id)
            if key in found:
                sources[found[key]] = -1
                continue
            found[key] = len(edges)
            edges.append(GraphEdge(f"e{len(edges)}", source, target, edge.input, edge.kind))
            sources.append(number)
        return tuple(edges), tuple(sources)
