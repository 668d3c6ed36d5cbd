"""Folds a large graph into a small one: groups are single boxes that can be opened and closed.

`grouping.py` finds the groups. This file decides which of them are open and builds the visible
graph, with a plan that selects the values of each further step: the cost of a step is that of
the boxes on the screen.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...errors import EdutorchError
from ..tensors.summaries import Stats
from .grouping import (
    Group,
    cut_group,
    group_by_call,
    groups_bottom_up,
    measure_groups,
    node_indices,
    place_leaves,
)
from .model import Frame, Graph, GraphEdge, GraphNode, Snapshot
from .repetition import fold_repetition

MOST_NODES = 40
"""The largest number of boxes shown, unless the user opens more: one page."""

MOST_OPENED = 2500
"""The largest number of boxes shown when everything is opened at once."""

FEW_INSIDE = 12
"""A group opened by the user shows the parameters of its layers if it has at most so many boxes."""

ENOUGH, LEAST_PARTS = 12, 4
"""If fewer boxes than the first are open, groups that do not fit are cut into at least the second
number of parts."""

WITH_PARAMETERS = 24
"""In a large graph, layers show their parameters if that gives at most so many boxes."""


@dataclass(frozen=True)
class Choice:
    """Which groups the user opened and closed, the latest last.

    `turns` holds pairs (key, is open); `limit` is for what opens by default. `everything` is True
    after "open all" and False after "close all"; the turns came later. `tab` is the index of one
    of the graph's `tabs`, of which alone the nodes are shown.
    """

    turns: tuple[tuple[str, bool], ...] = ()
    limit: int = MOST_NODES
    everything: bool | None = None
    tab: int | None = None

    def open(self, key: str) -> Choice:
        """Return the choice with one more group open, and the groups around it."""
        return self._with_turn(key, True)

    def close(self, key: str) -> Choice:
        """Return the choice with one more group closed."""
        return self._with_turn(key, False)

    def open_all(self) -> Choice:
        """Return the choice with all groups open."""
        return replace(self, turns=(), everything=True)

    def close_all(self) -> Choice:
        """Return the choice with all groups closed."""
        return replace(self, turns=(), everything=False)

    def show_tab(self, tab: int | None) -> Choice:
        """Return the choice that shows one tab, or with None the whole graph."""
        return replace(self, tab=tab)

    def _with_turn(self, key: str, opened: bool) -> Choice:
        others = tuple(turn for turn in self.turns if turn[0] != key)
        return replace(self, turns=(*others, (key, opened)))


@dataclass(frozen=True)
class Plan:
    """The visible part of a graph, and where its values come from.

    `graph` is the visible graph; `nodes` gives for each of its nodes the node of the whole
    graph whose values it shows, `edges` the same for its edges (or see `SEVERAL` and
    `whole_gradient_edge`).
    `ids` maps each node of the whole graph, by index, to the id of the box that shows it.
    """

    graph: Graph
    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    ids: dict[int, str]

    def pick(self, whole: Snapshot) -> Snapshot:
        """Return the visible graph with the values of a step of the whole one."""
        if self.graph is whole.graph:
            return whole
        return Snapshot(
            self.graph,
            tuple(whole.values[index] for index in self.nodes),
            tuple(whole.grads[index] for index in self.nodes),
            tuple(self._flow(whole, index) for index in self.edges),
            focus=tuple(
                self.ids[index] for index, node in enumerate(whole.graph.nodes)
                if node.id in whole.focus
            ) if whole.focus else (),
        )  # fmt: skip

    def _flow(self, whole: Snapshot, edge: int) -> Stats | None:
        if edge == SEVERAL:
            return None
        return whole.flows[edge] if edge >= 0 else whole.grads[gradient_node(edge)]


SEVERAL = -1
"""In `Plan.edges`: an arrow that stands for several gradients, so that none is shown."""


@dataclass(frozen=True)
class VisibleSet:
    """The vertices whose values are wanted, and those whose outgoing gradients are."""

    nodes: frozenset[int]
    flows: frozenset[int]

    @classmethod
    def from_plan(cls, plan: Plan, whole: Snapshot) -> VisibleSet:
        """Return what a plan shows of a graph."""
        keys = {node.id: key for node, key in zip(whole.graph.nodes, whole.order, strict=True)}
        shown = (whole.graph.edges[edge].target for edge in plan.edges if edge >= 0)
        return cls(
            frozenset(whole.order[node] for node in plan.nodes),
            frozenset(keys[target] for target in shown),
        )


def whole_gradient_edge(node: int) -> int:
    """Return the entry of `Plan.edges` for an arrow that carries a node's whole gradient."""
    return SEVERAL - 1 - node


def gradient_node(edge: int) -> int:
    """Return the node whose gradient an arrow carries: the inverse of `whole_gradient_edge`."""
    return SEVERAL - 1 - edge


def fold_snapshot(snapshot: Snapshot, choice: Choice | None = None) -> Snapshot:
    """Return the visible part of a graph with its values. See `make_plan`."""
    return make_plan(snapshot.graph, choice or Choice()).pick(snapshot)


def make_plan(graph: Graph, choice: Choice) -> Plan:
    """Decide which groups are open, and build the visible graph."""
    if choice.tab is not None and choice.tab < len(graph.tabs):
        part, nodes, edges = subgraph(graph, graph.tabs[choice.tab].nodes)
        plan = make_plan(part, replace(choice, tab=None))
        return Plan(
            replace(plan.graph, tabs=graph.tabs),
            tuple(nodes[index] for index in plan.nodes),
            tuple(to_whole_edge(index, nodes, edges) for index in plan.edges),
            {nodes[index]: node_id for index, node_id in plan.ids.items()},
        )
    root, by_itself = group_graph(graph, choice.limit)
    opened = find_open_groups(root, by_itself, choice)
    boxes = visible_boxes(root, opened)
    return VisibleGraph(graph, boxes, open_frames(root, opened)).plan()


def to_whole_edge(edge: int, nodes: list[int], edges: list[int]) -> int:
    """Convert an entry of `Plan.edges` from a part of a graph to the whole graph."""
    if edge == SEVERAL:
        return SEVERAL
    return edges[edge] if edge >= 0 else whole_gradient_edge(nodes[gradient_node(edge)])


def subgraph(graph: Graph, indices: Iterable[int]) -> tuple[Graph, list[int], list[int]]:
    """Return the subgraph of some nodes, and the indices of its nodes and edges in the whole."""
    nodes = sorted(set(indices))
    ids = {graph.nodes[index].id: f"n{position}" for position, index in enumerate(nodes)}
    edges = [index for index, edge in enumerate(graph.edges)
             if edge.source in ids and edge.target in ids]  # fmt: skip
    part = Graph(
        tuple(replace(graph.nodes[index], id=f"n{i}") for i, index in enumerate(nodes)),
        tuple(
            replace(edge, id=f"e{position}", source=ids[edge.source], target=ids[edge.target])
            for position, edge in enumerate(graph.edges[index] for index in edges)
        ),
        graph.modules,
    )
    return part, nodes, edges


# Open groups --------------------------------------------------------------------------------


def group_graph(graph: Graph, limit: int = MOST_NODES) -> tuple[Group, set[str]]:
    """Return the root group, and the keys of the groups that are open by default.

    A graph that fits is shown as it is, except that library layers and functions stay closed.
    Otherwise repetitions become one box, and long groups are cut into parts.
    """
    root = group_by_call(graph)
    large = open_size(root) > limit
    if not large:
        place_leaves(root, graph)
        large = open_size(root) > limit
        root = group_by_call(graph) if large else root
    if large:
        fold_repetition(root, graph, limit)
        place_leaves(root, graph, large)
        for group in groups_bottom_up(root):
            cut_group(group, limit, graph)
    measure_groups(root, graph)
    opened = default_open_keys(root, limit, graph)
    if len(root.members) == 1:  # one box alone tells nothing
        opened |= {group.key for group in root.groups() if len(group.members) <= limit}
    layers = layer_keys(root, opened)
    with_parameters = len(visible_boxes(root, opened | layers))
    if with_parameters <= (min(limit, WITH_PARAMETERS) if large else limit):
        opened |= layers
    if large:
        measure_groups(root, graph)  # more was cut
    return root, opened


def open_size(group: Group) -> int:
    """Return the number of boxes if everything but library layers and functions is open."""
    return sum(
        1 if isinstance(member, int) or member.is_word or member.kind == "leaves"
        else open_size(member)
        for member in group.members
    )  # fmt: skip


def default_open_keys(root: Group, limit: int, graph: Graph) -> set[str]:
    """Return the keys of the groups that are open by default, the outer ones first.

    Groups of the same class at the same depth are all open or all closed.
    """
    opened = {""}
    remaining = limit - len(root.members)
    level = [root]
    while level:
        inner = [group for outer in level for group in outer.groups()]
        level = []
        for batch in opening_batches(inner):
            cost = sum(len(group.members) - 1 for group in batch)
            share = 1 + remaining // len(batch)
            if cost > remaining and share >= LEAST_PARTS and limit - remaining < ENOUGH:
                for group in batch:
                    cut_group(group, share, graph)
                cost = sum(len(group.members) - 1 for group in batch)
            if cost <= remaining:
                remaining -= cost
                opened |= {group.key for group in batch}
                level += batch
    for group in groups_bottom_up(root)[:-1]:
        # A frame around one closed box would only repeat its name.
        inner = group.members[0] if len(group.members) == 1 else None
        if isinstance(inner, Group) and inner.key not in opened and not inner.is_layer:
            opened.discard(group.key)
    return opened


def layer_keys(root: Group, opened: set[str]) -> set[str]:
    """Return the keys of the one-op layers in open groups."""
    return {
        layer.key
        for group in groups_bottom_up(root)
        if group.key in opened
        for layer in group.groups()
        if layer.is_layer
    }


def opening_batches(groups: Iterable[Group]) -> list[list[Group]]:
    """Return the groups that open together, the smallest batch first; some never open."""
    by_type: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        is_container = group.kind == "module" and not (group.is_word or group.is_layer)
        if is_container or group.kind == "part":
            by_type.setdefault((group.kind, group.type), []).append(group)
    return sorted(by_type.values(), key=lambda batch: sum(len(group.members) for group in batch))


def find_open_groups(root: Group, by_itself: set[str], choice: Choice) -> set[str]:
    """Return the keys of the open groups.

    A group that the user opened is open, and so are the groups around it; no other one is closed
    to make room.
    """
    if choice.everything is True:
        by_itself = all_group_keys(root)
    elif choice.everything is False:
        by_itself = {""}
    if not choice.turns:
        return by_itself
    opened_by_user, closed_by_user = resolve_turns(root, choice)
    return (by_itself | opened_by_user) - closed_by_user


def all_group_keys(root: Group) -> set[str]:
    """Return the keys of all groups, the outer ones first, up to `MOST_OPENED` boxes."""
    opened, remaining = {""}, MOST_OPENED - len(root.members)
    level = [root]
    while level:
        inner = [group for outer in level for group in outer.groups()]
        level = []
        for group in inner:
            if len(group.members) - 1 <= remaining:
                remaining -= len(group.members) - 1
                opened.add(group.key)
                level.append(group)
    return opened


def resolve_turns(root: Group, choice: Choice) -> tuple[set[str], set[str]]:
    """Return the keys of the groups that the user opened, and of those that the user closed.

    Opening a group also opens the groups around it, even if one was closed before, and its only
    member.
    """
    turn = {key: position for position, (key, _) in enumerate(choice.turns)}
    opened, closed = (
        {key for key, is_open in choice.turns if is_open is state} for state in (True, False)
    )
    latest: dict[str, int] = {}  # when something inside was opened last
    pending: list[tuple[Group, tuple[str, ...]]] = [(root, ())]
    while pending:
        group, enclosing = pending.pop()
        if group.key in opened:
            for key in (*enclosing, group.key, *keys_opened_with(group)):
                latest[key] = max(latest.get(key, -1), turn[group.key])
        pending += [(inner, (*enclosing, group.key)) for inner in group.groups()]
    still_closed = {key for key in closed if turn[key] > latest.get(key, -1)}
    return latest.keys() - still_closed, still_closed


def keys_opened_with(group: Group) -> list[str]:
    """Return the keys that open with a group: its only member, and its layers if they are few."""
    keys = []
    while len(group.members) == 1 and isinstance(group.members[0], Group):
        group = group.members[0]
        keys.append(group.key)
    layers = [inner for inner in group.groups() if inner.is_layer]
    boxes = len(group.members) + sum(len(layer.members) - 1 for layer in layers)
    return [*keys, *(layer.key for layer in layers)] if boxes <= FEW_INSIDE else keys


@dataclass(slots=True)
class Box:
    """A visible box: one node, or a closed group. `frame` is the open group around it."""

    node: int
    frame: str
    group: Group | None = None
    inside: tuple[int, ...] = ()


def visible_boxes(root: Group, opened: set[str]) -> list[Box]:
    """Return the visible boxes in the order of computation."""
    boxes: list[Box] = []
    pending: list[tuple[Group, str]] = [(root, "")]
    while pending:
        group, frame = pending.pop()
        for member in group.members:
            if isinstance(member, int):
                boxes.append(Box(member, frame))
            elif member.key in opened:
                pending.append((member, member.key if is_framed(member) else frame))
            else:
                boxes.append(Box(member.last, frame, member, tuple(node_indices(member))))
    return sorted(boxes, key=lambda box: min(box.inside, default=box.node))


def is_framed(group: Group) -> bool:
    """Whether an open group is drawn as a frame around its members: always around a layer's op."""
    return len(group.members) > 1 or (group.kind == "module" and isinstance(group.members[0], int))


def open_frames(root: Group, opened: set[str]) -> list[Frame]:
    """Return a frame for each open group that is framed, the outer ones first."""
    frames: list[Frame] = []
    pending: list[tuple[Group, str]] = [(root, "")]
    while pending:
        group, parent = pending.pop(0)
        for inner in group.groups():
            if inner.key in opened:
                framed = is_framed(inner)
                if framed:
                    frames.append(Frame(f"c{len(frames)}", inner.key, inner.title, parent))
                pending.append((inner, inner.key if framed else parent))
    return frames


# The visible graph -----------------------------------------------------------------------------


class VisibleGraph:
    """Builds the visible graph from its boxes."""

    def __init__(self, graph: Graph, boxes: Sequence[Box], frames: Sequence[Frame]) -> None:
        self.graph, self.boxes, self.frames = graph, boxes, frames
        self.id: dict[int, str] = {}  # of the visible node, by the number in the whole graph
        for position, box in enumerate(boxes):
            for index in box.inside or (box.node,):
                self.id[index] = f"n{position}"

    def plan(self) -> Plan:
        """Return the graph, and where its values come from."""
        if not self.frames and all(box.group is None for box in self.boxes):
            whole = self.graph
            nodes, edges = tuple(range(len(whole.nodes))), tuple(range(len(whole.edges)))
            return Plan(whole, nodes, edges, self.id)
        nodes = tuple(self._node(position, box) for position, box in enumerate(self.boxes))
        edges, sources = self._edges()
        graph = Graph(nodes, edges, self.graph.modules, tuple(self.frames), self.graph.tabs)
        return Plan(graph, tuple(box.node for box in self.boxes), sources, self.id)

    def _node(self, position: int, box: Box) -> GraphNode:
        node = replace(self.graph.nodes[box.node], id=f"n{position}", frame=box.frame)
        if box.group is None:
            return node
        return replace(
            node, kind="group", label=box.group.title, module=box.group.path, formulas={},
            group=box.group.key, inside=box.group.size, version=0,
        )  # fmt: skip

    def _edges(self) -> tuple[tuple[GraphEdge, ...], tuple[int, ...]]:
        """Merge the edges between two groups into one arrow.

        If a single result is used several times in a group and nowhere else, the gradient of that
        arrow is the whole gradient of the result.
        """
        index_of = {node.id: index for index, node in enumerate(self.graph.nodes)}
        closed = {f"n{i}" for i, box in enumerate(self.boxes) if box.group is not None}
        arrow_of: dict[object, int] = {}
        edges: list[GraphEdge] = []
        sources: list[int] = []
        uses = Counter(index_of[edge.source] for edge in self.graph.edges)
        merged: dict[int, Counter[int]] = {}  # by arrow: the results and their counts
        for edge_index, edge in enumerate(self.graph.edges):
            source_index = index_of[edge.source]
            source, target = self.id[source_index], self.id[index_of[edge.target]]
            together = source in closed or target in closed
            if together and source == target:
                continue
            key = (source, target, edge.kind if together else edge.id)
            arrow = arrow_of.setdefault(key, len(edges))
            merged.setdefault(arrow, Counter())[source_index] += 1
            if arrow < len(edges):
                ((result, count), *others) = merged[arrow].items()
                is_whole = not others and count == uses[result]
                sources[arrow] = whole_gradient_edge(result) if is_whole else SEVERAL
                continue
            edges.append(GraphEdge(f"e{len(edges)}", source, target, edge.input, edge.kind))
            sources.append(edge_index)
        return tuple(edges), tuple(sources)


# Names of groups ------------------------------------------------------------------------------


class UnknownGroupError(EdutorchError, ValueError):
    """Raised when a group that does not exist is to be opened or closed."""


def find_group_keys(graph: Graph, name: str, choice: Choice) -> list[str]:
    """Return the keys of the groups that match a name.

    A name is a key, or a module's path: the whole path, or its end where the picture shows several
    models. For a module that was called several times it means all calls.

    Raises: UnknownGroupError: no group matches.
    """
    groups = list(groups_bottom_up(group_graph(graph, choice.limit)[0]))[:-1]
    exact = [group.key for group in groups if group.key == name]
    by_path = [group.key for group in groups if group.kind == "module" and group.path == name]
    by_end = [group.key for group in groups
              if group.kind == "module" and group.path.endswith(f".{name}")]  # fmt: skip
    by_title = [group.key for group in groups if name in (group.title, group.type)]
    for keys in (by_path, exact, by_end, by_title):
        if keys:
            return keys
    group_names = list(dict.fromkeys(group.path or group.key for group in groups))
    matches = difflib.get_close_matches(name, group_names, 5, 0.3) or group_names[:5]
    hint = (
        f"use one of {', '.join(map(repr, matches))}" if matches else "this picture has no groups"
    )
    raise UnknownGroupError("viz.draw", f"there is no group called {name!r}", hint=hint)
