"""Shows a large graph as a small one: groups as single boxes, which open and close.

`grouping.py` finds the groups. Here it is decided which of them are open, and the graph of
what is then to be seen is made, together with a plan by which the numbers of each further
step are picked: the cost of a step is that of the boxes on the screen.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...errors import EdutorchError
from ..tensors.summaries import Stats
from .grouping import Group, bottom_up, by_call, cut, measure, numbers_in, place_leaves
from .model import Frame, Graph, GraphEdge, GraphNode, Snapshot
from .repetition import fold_repetition

MOST_NODES = 40
"""So many boxes are shown at most, unless somebody opens more: one page."""

MOST_OPENED = 2500
"""So many boxes are shown when everything is opened at once."""

FEW_INSIDE = 12
"""A group that is opened by hand shows the parameters of its layers, if there are no more boxes."""

ENOUGH, LEAST_PARTS = 12, 4
"""If fewer boxes are open, groups that do not fit are cut into parts, so many at least."""

WITH_PARAMETERS = 24
"""In a large graph, layers show their parameters if there are no more boxes then."""


@dataclass(frozen=True)
class Choice:
    """What somebody wants to see: which groups are opened and closed by hand, the latest last.

    `turns` holds (key, opened?); `limit` is for what opens by itself. `everything` is True after
    all was opened, False after all was closed, and the turns came later. `tab` is the number of
    one of the graph's `tabs`, whose nodes alone are shown.
    """

    turns: tuple[tuple[str, bool], ...] = ()
    limit: int = MOST_NODES
    everything: bool | None = None
    tab: int | None = None

    def open(self, key: str) -> Choice:
        """Return the choice with one more group open, and all that lies around it."""
        return self._turned(key, True)

    def close(self, key: str) -> Choice:
        """Return the choice with one more group closed."""
        return self._turned(key, False)

    def open_all(self) -> Choice:
        """Return the choice with all groups open."""
        return replace(self, turns=(), everything=True)

    def close_all(self) -> Choice:
        """Return the choice with all groups closed."""
        return replace(self, turns=(), everything=False)

    def show_tab(self, tab: int | None) -> Choice:
        """Return the choice that shows one tab, or with None the whole graph."""
        return replace(self, tab=tab)

    def _turned(self, key: str, opened: bool) -> Choice:
        others = tuple(turn for turn in self.turns if turn[0] != key)
        return replace(self, turns=(*others, (key, opened)))


@dataclass(frozen=True)
class Plan:
    """What is to be seen of a graph, and where its numbers come from.

    `graph` is the visible one; `nodes` says for each of its nodes which node of the whole
    graph lends it the numbers, `edges` the same for its edges (or see `SEVERAL`, `of_result`).
    `ids` are the boxes in which the whole graph's nodes are, by number.
    """

    graph: Graph
    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    ids: dict[int, str]

    def pick(self, whole: Snapshot) -> Snapshot:
        """Return the visible graph with the numbers of a step of the whole one."""
        if self.graph is whole.graph:
            return whole
        return Snapshot(
            self.graph,
            tuple(whole.values[number] for number in self.nodes),
            tuple(whole.grads[number] for number in self.nodes),
            tuple(self._flow(whole, number) for number in self.edges),
        )

    def _flow(self, whole: Snapshot, number: int) -> Stats | None:
        if number == SEVERAL:
            return None
        return whole.flows[number] if number >= 0 else whole.grads[result_of(number)]


SEVERAL = -1
"""Stands in `Plan.edges` for an arrow along which several gradients flow together."""


def of_result(node: int) -> int:
    """Return what stands in `Plan.edges` for an arrow that carries a node's whole gradient."""
    return SEVERAL - 1 - node


def result_of(edge: int) -> int:
    """Return the node of which such an arrow carries the gradient."""
    return SEVERAL - 1 - edge


def folded(snapshot: Snapshot, choice: Choice | None = None) -> Snapshot:
    """Return what is to be seen of a graph. See `plan_of`."""
    return plan_of(snapshot.graph, choice or Choice()).pick(snapshot)


def plan_of(graph: Graph, choice: Choice) -> Plan:
    """Decide what is open, and make the graph of what is then to be seen."""
    if choice.tab is not None and choice.tab < len(graph.tabs):
        part, nodes, edges = only(graph, graph.tabs[choice.tab].nodes)
        plan = plan_of(part, replace(choice, tab=None))
        return Plan(
            replace(plan.graph, tabs=graph.tabs),
            tuple(nodes[number] for number in plan.nodes),
            tuple(in_whole(number, nodes, edges) for number in plan.edges),
            {nodes[number]: id for number, id in plan.ids.items()},
        )
    root, by_itself = grouped(graph, choice.limit)
    opened = open_groups(root, by_itself, choice)
    boxes = seen_boxes(root, opened)
    return Visible(graph, boxes, frames_of(root, opened)).plan()


def in_whole(number: int, nodes: list[int], edges: list[int]) -> int:
    """Return an entry of `Plan.edges` for a part of a graph as one for the whole graph."""
    if number == SEVERAL:
        return SEVERAL
    return edges[number] if number >= 0 else of_result(nodes[result_of(number)])


def only(graph: Graph, wanted: Iterable[int]) -> tuple[Graph, list[int], list[int]]:
    """Return the graph of some nodes, and which nodes and edges of the whole one are in it."""
    nodes = sorted(set(wanted))
    ids = {graph.nodes[number].id: f"n{at}" for at, number in enumerate(nodes)}
    edges = [number for number, edge in enumerate(graph.edges)
             if edge.source in ids and edge.target in ids]  # fmt: skip
    part = Graph(
        tuple(replace(graph.nodes[number], id=f"n{at}") for at, number in enumerate(nodes)),
        tuple(
            replace(edge, id=f"e{at}", source=ids[edge.source], target=ids[edge.target])
            for at, edge in enumerate(graph.edges[number] for number in edges)
        ),
        graph.modules,
    )
    return part, nodes, edges


# What is open --------------------------------------------------------------------------------


def grouped(graph: Graph, limit: int = MOST_NODES) -> tuple[Group, set[str]]:
    """Return the group of everything, and the keys of the groups that open by themselves.

    What fits is shown as it is, but for the words of the library. Else, what repeats becomes one
    box, and what is long is cut into parts.
    """
    root = by_call(graph)
    large = open_size(root) > limit
    if not large:
        place_leaves(root, graph)
        large = open_size(root) > limit
        root = by_call(graph) if large else root
    if large:
        fold_repetition(root, graph, limit)
        place_leaves(root, graph, large)
        for group in bottom_up(root):
            cut(group, limit, graph)
    measure(root, graph)
    opened = open_by_depth(root, limit, graph)
    if len(root.members) == 1:  # one box alone tells nothing
        opened |= {group.key for group in root.groups() if len(group.members) <= limit}
    layers = layers_in(root, opened)
    with_parameters = len(seen_boxes(root, opened | layers))
    if with_parameters <= (min(limit, WITH_PARAMETERS) if large else limit):
        opened |= layers
    if large:
        measure(root, graph)  # more was cut
    return root, opened


def open_size(group: Group) -> int:
    """Return how many boxes there are if all is open but the words of the library."""
    return sum(
        1 if isinstance(member, int) or member.is_word or member.kind == "leaves"
        else open_size(member)
        for member in group.members
    )  # fmt: skip


def open_by_depth(root: Group, limit: int, graph: Graph) -> set[str]:
    """Return the keys of the groups that open by themselves: the outer ones first.

    Groups of the same class at the same depth are all open or all closed.
    """
    opened = {""}
    room = limit - len(root.members)
    level = [root]
    while level:
        inner = [group for around in level for group in around.groups()]
        level = []
        for batch in batches(inner):
            cost = sum(len(group.members) - 1 for group in batch)
            share = 1 + room // len(batch)
            if cost > room and share >= LEAST_PARTS and limit - room < ENOUGH:
                for group in batch:
                    cut(group, share, graph)
                cost = sum(len(group.members) - 1 for group in batch)
            if cost <= room:
                room -= cost
                opened |= {group.key for group in batch}
                level += batch
    for group in bottom_up(root)[:-1]:  # around one closed box, a frame would hide its own name
        inner = group.members[0] if len(group.members) == 1 else None
        if isinstance(inner, Group) and inner.key not in opened and not inner.is_layer:
            opened.discard(group.key)
    return opened


def layers_in(root: Group, opened: set[str]) -> set[str]:
    """Return the keys of the layers of one op that lie in open groups."""
    return {
        layer.key
        for group in bottom_up(root)
        if group.key in opened
        for layer in group.groups()
        if layer.is_layer
    }


def batches(groups: Iterable[Group]) -> list[list[Group]]:
    """Put together what opens together, the smallest first; what never opens is left out."""
    found: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        is_container = group.kind == "module" and not (group.is_word or group.is_layer)
        if is_container or group.kind == "part":
            found.setdefault((group.kind, group.type), []).append(group)
    return sorted(found.values(), key=lambda batch: sum(len(group.members) for group in batch))


def open_groups(root: Group, by_itself: set[str], choice: Choice) -> set[str]:
    """Return the keys of the open groups.

    What somebody opened is open, and what lies around it; nothing else closes for that.
    """
    if choice.everything is True:
        by_itself = everything_open(root)
    elif choice.everything is False:
        by_itself = {""}
    if not choice.turns:
        return by_itself
    wanted, shut = decided(root, choice)
    return (by_itself | wanted) - shut


def everything_open(root: Group) -> set[str]:
    """Return the keys of all groups, the outer ones first, as long as there is room."""
    opened, room = {""}, MOST_OPENED - len(root.members)
    level = [root]
    while level:
        inner = [group for around in level for group in around.groups()]
        level = []
        for group in inner:
            if len(group.members) - 1 <= room:
                room -= len(group.members) - 1
                opened.add(group.key)
                level.append(group)
    return opened


def decided(root: Group, choice: Choice) -> tuple[set[str], set[str]]:
    """Return the keys of the groups that are open, and closed, because somebody said so.

    Whoever opens a group opens what lies around it, even if that was closed before, and what is
    the only thing in it.
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
            for key in (*around, group.key, *inside_at_once(group)):
                latest[key] = max(latest.get(key, -1), turn[group.key])
        trail += [(each, (*around, group.key)) for each in group.groups()]
    shut = {key for key in closed if turn[key] > latest.get(key, -1)}
    return latest.keys() - shut, shut


def inside_at_once(group: Group) -> list[str]:
    """Return what opens together with a group: its only member, and layers if they are few."""
    keys = []
    while len(group.members) == 1 and isinstance(group.members[0], Group):
        group = group.members[0]
        keys.append(group.key)
    layers = [inner for inner in group.groups() if inner.is_layer]
    boxes = len(group.members) + sum(len(layer.members) - 1 for layer in layers)
    return [*keys, *(layer.key for layer in layers)] if boxes <= FEW_INSIDE else keys


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
                waiting.append((member, member.key if is_framed(member) else frame))
            else:
                boxes.append(Box(member.last, frame, member, tuple(numbers_in(member))))
    return sorted(boxes, key=lambda box: min(box.inside, default=box.node))


def is_framed(group: Group) -> bool:
    """Return True if an open group is drawn around its members: always around a layer's op."""
    return len(group.members) > 1 or (group.kind == "module" and isinstance(group.members[0], int))


def frames_of(root: Group, opened: set[str]) -> list[Frame]:
    """Return a frame for each open group that is framed, the outer ones first."""
    frames: list[Frame] = []
    waiting: list[tuple[Group, str]] = [(root, "")]
    while waiting:
        group, around = waiting.pop(0)
        for inner in group.groups():
            if inner.key in opened:
                framed = is_framed(inner)
                if framed:
                    frames.append(Frame(f"c{len(frames)}", inner.key, inner.title, around))
                waiting.append((inner, inner.key if framed else around))
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
        """Draw one arrow between two groups, however many lead from one to the other.

        If one result goes into a group several times and nowhere else, what flows back along that
        arrow is the whole gradient of that result.
        """
        numbers = {node.id: number for number, node in enumerate(self.graph.nodes)}
        closed = {f"n{at}" for at, box in enumerate(self.boxes) if box.group is not None}
        found: dict[object, int] = {}
        edges: list[GraphEdge] = []
        sources: list[int] = []
        uses = Counter(numbers[edge.source] for edge in self.graph.edges)
        merged: dict[int, Counter[int]] = {}  # by arrow: how often it stands for which result
        for number, edge in enumerate(self.graph.edges):
            made = numbers[edge.source]
            source, target = self.id[made], self.id[numbers[edge.target]]
            together = source in closed or target in closed
            if together and source == target:
                continue
            key = (source, target, edge.kind if together else edge.id)
            at = found.setdefault(key, len(edges))
            merged.setdefault(at, Counter())[made] += 1
            if at < len(edges):
                ((result, count), *others) = merged[at].items()
                whole = not others and count == uses[result]
                sources[at] = of_result(result) if whole else SEVERAL
                continue
            edges.append(GraphEdge(f"e{len(edges)}", source, target, edge.input, edge.kind))
            sources.append(number)
        return tuple(edges), tuple(sources)


# Names of groups ------------------------------------------------------------------------------


class UnknownGroupError(EdutorchError, ValueError):
    """A group was to be opened or closed that there is not."""


def keys_named(graph: Graph, name: str, choice: Choice) -> list[str]:
    """Return the keys of the groups that somebody means by a name.

    That is a key, or a module's path: as it is, or the end of it, where the picture shows several
    models. Of a module that was called several times, all calls are meant.

    Raises: UnknownGroupError: there is none.
    """
    groups = list(bottom_up(grouped(graph, choice.limit)[0]))[:-1]
    exact = [group.key for group in groups if group.key == name]
    by_path = [group.key for group in groups if group.kind == "module" and group.path == name]
    by_end = [group.key for group in groups
              if group.kind == "module" and group.path.endswith(f".{name}")]  # fmt: skip
    by_title = [group.key for group in groups if name in (group.title, group.type)]
    for found in (by_path, exact, by_end, by_title):
        if found:
            return found
    known = list(dict.fromkeys(group.path or group.key for group in groups))
    near = difflib.get_close_matches(name, known, 5, 0.3) or known[:5]
    hint = f"use one of {', '.join(map(repr, near))}" if near else "this picture has no groups"
    raise UnknownGroupError("viz.draw", f"there is no group called {name!r}", hint=hint)
