"""Finds boxes by name, also those that are hidden in a closed group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .fold import Choice, Plan, grouped, only
from .grouping import Group
from .model import Graph, GraphNode, inside

MOST_HITS = 100
"""So many hits are told to a page."""

LONGEST_QUERY = 100


class Hit(NamedTuple):
    """Something with a name: a node, or the group `key`.

    `number` is the node, or the first one in the group; `around` are the keys of the groups in
    which it lies, the outermost first.
    """

    name: str
    number: int
    around: tuple[str, ...]
    key: str = ""


def search(graph: Graph, text: str, choice: Choice) -> list[Hit]:
    """Return what has a text in its name, in the order of computation.

    A node is found by its op or its variable, by the two with a dot between the module and it
    ("conv1.weight"), a group by its title. Large and small letters are the same.
    """
    wanted = text.strip()[:LONGEST_QUERY].casefold()
    if not wanted:
        return []
    numbers: list[int] | None = None
    if choice.tab is not None and choice.tab < len(graph.tabs):
        graph, numbers, _ = only(graph, graph.tabs[choice.tab].nodes)
    root, _ = grouped(graph, choice.limit)
    found = [hit for hit in everything(root, graph) if is_found(wanted, hit, graph)]
    if numbers is not None:
        found = [hit._replace(number=numbers[hit.number]) for hit in found]
    return sorted(found, key=lambda hit: (hit.number, not hit.key))


def everything(root: Group, graph: Graph) -> Iterator[Hit]:
    """Yield all groups and nodes, with their names and what lies around them."""
    waiting: list[tuple[Group, tuple[str, ...]]] = [(root, ())]
    while waiting:
        group, around = waiting.pop()
        for member in group.members:
            if isinstance(member, int):
                yield Hit(full_name(graph.nodes[member]), member, around)
            else:
                yield Hit(member.title, first_of(member), around, member.key)
                waiting.append((member, (*around, member.key)))


def first_of(group: Group) -> int:
    """Return the first node in a group."""
    return min(first_of(member) if isinstance(member, Group) else member
               for member in group.members)  # fmt: skip


def full_name(node: GraphNode) -> str:
    """Return a node's name with its module's: "layer1.0.conv1.weight", "loss = mse_loss"."""
    if not node.variable:
        return inside(node.module, node.label)
    return f"{node.module}.{node.variable} = {node.label}".lstrip(".")


def is_found(wanted: str, hit: Hit, graph: Graph) -> bool:
    """Whether the text stands in a hit's own name: the module's path alone is the group's."""
    if hit.key:
        return wanted in hit.name.casefold()
    node = graph.nodes[hit.number]
    own = (node.label, node.variable)
    if any(wanted in name.casefold() for name in own):
        return True
    return any(
        wanted in f"{node.module}.{name}".casefold() and wanted not in node.module.casefold()
        for name in own if name
    )  # fmt: skip


def search_data(graph: Graph, plan: Plan, text: str, choice: Choice) -> dict[str, Any]:
    """Return what the page is told of a search: see `SearchData` in `widgets/protocol.d.ts`."""
    hits = search(graph, text, choice)
    rows = [(hit.name, *way_to(hit, plan)) for hit in hits[:MOST_HITS] if hit.number in plan.ids]
    return {"text": text, "hits": rows, "more": len(hits) - len(rows)}


def way_to(hit: Hit, plan: Plan) -> tuple[str, str]:
    """Return the box on the screen that a hit is or lies in, and which group shows it when opened.

    The second is empty where nothing hides it.
    """
    box = plan.ids[hit.number]
    closed = plan.graph.nodes[int(box.removeprefix("n"))].group
    if closed in hit.around:
        return box, hit.around[-1]
    hides = closed and closed != hit.key and not hit.key
    return box, closed if hides else ""
