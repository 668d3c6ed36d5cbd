"""Replacing one pattern of nodes by another, wherever it occurs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule
from .node import Node

__all__ = ["Match", "replace_pattern"]


class Match(NamedTuple):
    """Where a pattern was found: its last node, and each node of the pattern here."""

    anchor: Node
    nodes_map: dict[Node, Node]


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Match]:
    """Replace every occurrence of `pattern` in a graph by `replacement`; return where it was.

    Both are functions with the same parameters, which stand for any values. Inner nodes of
    an occurrence must not be used elsewhere; occurrences that overlap are left.

    >>> traced = fx.symbolic_trace(lambda x: relu(x) + 1)
    >>> matches = fx.replace_pattern(traced, lambda v: relu(v), lambda v: tanh(v) * 2)
    >>> print(traced.code.strip())
    def forward(self, x):
        tanh = torch.tanh(x);  x = None
        mul = tanh * 2;  tanh = None
        add = mul + 1;  mul = None
        return add
    """
    wanted, instead = as_graph(pattern), as_graph(replacement)
    end: Any = wanted.output_node().args[0]
    matches: list[Match] = []
    taken: set[Node] = set()
    for node in list(gm.graph.nodes):
        node_map: dict[Node, Node] = {}
        if not is_match(end, node, node_map) or not is_isolated(wanted, end, node_map, taken):
            continue
        matches.append(Match(node, node_map))
        taken |= {here for there, here in node_map.items() if there.op != "placeholder"}
    replaced: dict[Node, Node] = {}
    for match in matches:
        insert_replacement(gm.graph, wanted, instead, match, replaced)
    gm.recompile()
    return matches


def as_graph(pattern: Any) -> Graph:
    return pattern.graph if isinstance(pattern, GraphModule) else symbolic_trace(pattern).graph


def is_match(there: Any, here: Any, node_map: dict[Node, Node]) -> bool:
    """Say whether the values of two arguments are computed alike; note which node is which."""
    if isinstance(there, Node):
        if there in node_map:
            return node_map[there] is here
        if there.op == "placeholder":
            if isinstance(here, Node):
                node_map[there] = here
            return isinstance(here, Node)
        if not isinstance(here, Node) or (there.op, there.target) != (here.op, here.target):
            return False
        if not is_match(there.args, here.args, node_map) or not is_match(
            there.kwargs, here.kwargs, node_map
        ):
            return False
        node_map[there] = here
        return True
    if isinstance(there, tuple | list):
        fits = isinstance(here, tuple | list) and len(there) == len(here)
        return fits and all(is_match(a, b, node_map) for a, b in zip(there, here, strict=True))
    if isinstance(there, dict):
        fits = isinstance(here, dict) and set(there) == set(here)
        return fits and all(is_match(there[key], here[key], node_map) for key in there)
    return type(there) is type(here) and there == here


def is_isolated(wanted: Graph, end: Node, node_map: dict[Node, Node], taken: set[Node]) -> bool:
    """Say whether nothing outside needs the inner nodes, and no other occurrence has them."""
    inner = {here for there, here in node_map.items() if there.op != "placeholder"}
    for there, here in node_map.items():
        if there.op == "placeholder":
            continue
        if here in taken:
            return False
        if there is not end and any(user not in inner for user in here.users):
            return False
    return True


def insert_replacement(
    graph: Graph, wanted: Graph, instead: Graph, match: Match, replaced: dict[Node, Node]
) -> None:
    """Write the replacement in front of the last node of an occurrence, and drop that."""
    inputs = [node for node in wanted.nodes if node.op == "placeholder"]
    others = [node for node in instead.nodes if node.op == "placeholder"]
    values: dict[Node, Node] = {}
    for there, other in zip(inputs, others, strict=True):
        here = match.nodes_map.get(there)
        if here is not None:
            values[other] = replaced.get(here, here)
    with graph.inserting_before(match.anchor):
        result = graph.graph_copy(instead, values)
    if isinstance(result, Node):
        match.anchor.replace_all_uses_with(result)
        replaced[match.anchor] = result
    for there in reversed(list(wanted.nodes)):
        here = match.nodes_map.get(there)
        if here is not None and there.op != "placeholder" and not here.users:
            graph.erase_node(here)
