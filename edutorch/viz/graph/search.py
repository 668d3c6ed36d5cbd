"""Searches nodes and groups by name, including those hidden in closed groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .fold import Choice, Plan, group_graph, subgraph
from .grouping import Group
from .model import Graph, GraphNode, qualified_name

MOST_HITS = 100
"""The largest number of hits sent to a page."""

LONGEST_QUERY = 100


class Hit(NamedTuple):
    """A search result: a node, or the group `key`.

    `number` is the index of the node, or of the first one in the group; `around` are the keys of
    the enclosing groups, the outermost first.
    """

    name: str
    number: int
    around: tuple[str, ...]
    key: str = ""


def search(graph: Graph, text: str, choice: Choice) -> list[Hit]:
    """Return the nodes and groups whose name contains a text, in the order of computation.

    A node matches by its op or variable, with or without the module ("conv1.weight"), a group by
    its title. Case is ignored.
    """
    query = text.strip()[:LONGEST_QUERY].casefold()
    if not query:
        return []
    node_indices: list[int] | None = None
    if choice.tab is not None and choice.tab < len(graph.tabs):
        graph, node_indices, _ = subgraph(graph, graph.tabs[choice.tab].nodes)
    root, _ = group_graph(graph, choice.limit)
    hits = [hit for hit in all_hits(root, graph) if is_match(query, hit, graph)]
    if node_indices is not None:
        hits = [hit._replace(number=node_indices[hit.number]) for hit in hits]
    return sorted(hits, key=lambda hit: (hit.number, not hit.key))


def all_hits(root: Group, graph: Graph) -> Iterator[Hit]:
    """Yield all groups and nodes with their names and enclosing groups."""
    pending: list[tuple[Group, tuple[str, ...]]] = [(root, ())]
    while pending:
        group, enclosing = pending.pop()
        for member in group.members:
            if isinstance(member, int):
                yield Hit(full_name(graph.nodes[member]), member, enclosing)
            else:
                yield Hit(member.title, first_node(member), enclosing, member.key)
                pending.append((member, (*enclosing, member.key)))


def first_node(group: Group) -> int:
    """Return the index of the first node in a group."""
    return min(first_node(member) if isinstance(member, Group) else member
               for member in group.members)  # fmt: skip


def full_name(node: GraphNode) -> str:
    """Return the qualified name of a node: "layer1.0.conv1.weight", "loss = mse_loss"."""
    if not node.variable:
        return qualified_name(node.module, node.label)
    return f"{node.module}.{node.variable} = {node.label}".lstrip(".")


def is_match(query: str, hit: Hit, graph: Graph) -> bool:
    """Whether the text is in a hit's own name; the module's path alone belongs to the group."""
    if hit.key:
        return query in hit.name.casefold()
    node = graph.nodes[hit.number]
    own_names = (node.label, node.variable)
    if any(query in name.casefold() for name in own_names):
        return True
    return any(
        query in f"{node.module}.{name}".casefold() and query not in node.module.casefold()
        for name in own_names if name
    )  # fmt: skip


def search_data(graph: Graph, plan: Plan, text: str, choice: Choice) -> dict[str, Any]:
    """Return the message of a search: see `SearchData` in `widgets/protocol.d.ts`."""
    hits = search(graph, text, choice)
    rows = [
        (hit.name, *locate_hit(hit, plan)) for hit in hits[:MOST_HITS] if hit.number in plan.ids
    ]
    return {"text": text, "hits": rows, "more": len(hits) - len(rows)}


def locate_hit(hit: Hit, plan: Plan) -> tuple[str, str]:
    """Return the visible box that contains a hit, and the group to open to see the hit.

    The second is empty if nothing hides it.
    """
    box = plan.ids[hit.number]
    closed = plan.graph.nodes[int(box.removeprefix("n"))].group
    if closed in hit.around:
        return box, hit.around[-1]
    hides = closed and closed != hit.key and not hit.key
    return box, closed if hides else ""
