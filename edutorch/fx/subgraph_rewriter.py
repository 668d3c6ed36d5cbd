"""Replaces every occurrence of a pattern of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, Node

__all__ = ["Match", "replace_pattern"]


class Match(NamedTuple):
    """An occurrence of a pattern: its last node, and a map from nodes of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Match]:  # fmt: skip
    """Replace every occurrence of `pattern` in a graph by `replacement`; return the matches.

    Both are functions with the same parameters, which match any values. Inner nodes of an
    occurrence must not be used elsewhere; of overlapping occurrences only the first is replaced.

    >>> traced = fx.symbolic_trace(lambda x: relu(x) + 1)
    >>> matches = fx.replace_pattern(traced, lambda v: relu(v), lambda v: tanh(v) * 2)
    >>> print(traced.code.strip())
    def forward(self, x):
        tanh = torch.tanh(x);  x = None
        mul = tanh * 2;  tanh = None
        add = mul + 1;  mul = None
        return add
    """
    pattern_graph, replacement_graph = as_graph(pattern), as_graph(replacement)
    end: Any = pattern_graph.output_node().args[0]
    matches: list[Match] = []
    taken: set[Node] = set()
    for node in list(gm.graph.nodes):
        node_map: dict[Node, Node] = {}
        if not is_match(end, node, node_map) or not is_isolated(
            pattern_graph, end, node_map, taken
        ):
            continue
        matches.append(Match(node, node_map))
        # Overlapping occurrences: the first wins.
        taken |= {here for there, here in node_map.items() if there.op != "placeholder"}
    replaced: dict[Node, Node] = {}
    for match in matches:
        insert_replacement(gm.graph, pattern_graph, replacement_graph, match, replaced)
    gm.recompile()
    return matches


def as_graph(pattern: Callable[..., Any] | GraphModule) -> Graph:
    return pattern.graph if isinstance(pattern, GraphModule) else symbolic_trace(pattern).graph


def is_match(pattern_value: Argument, value: Argument, node_map: dict[Node, Node]) -> bool:
    """Return True if an argument matches one of the pattern; add its nodes to `node_map`."""
    if isinstance(pattern_value, Node):
        if pattern_value in node_map:
            return node_map[pattern_value] is value
        if pattern_value.op == "placeholder":
            if isinstance(value, Node):
                node_map[pattern_value] = value
            return isinstance(value, Node)
        if not isinstance(value, Node) or (pattern_value.op, pattern_value.target) != (
            value.op,
            value.target,
        ):
            return False
        if not is_match(pattern_value.args, value.args, node_map) or not is_match(
            pattern_value.kwargs, value.kwargs, node_map
        ):
            return False
        node_map[pattern_value] = value
        return True
    if isinstance(pattern_value, tuple | list):
        same_shape = isinstance(value, tuple | list) and len(pattern_value) == len(value)
        return same_shape and all(
            is_match(a, b, node_map) for a, b in zip(pattern_value, value, strict=True)
        )
    if isinstance(pattern_value, dict):
        same_shape = isinstance(value, dict) and set(pattern_value) == set(value)
        return same_shape and all(
            is_match(pattern_value[key], value[key], node_map) for key in pattern_value
        )
    return type(pattern_value) is type(value) and pattern_value == value


def is_isolated(
    pattern_graph: Graph, end: Node, node_map: dict[Node, Node], taken: set[Node]
) -> bool:
    """Return True if inner nodes are not used outside, nor by another occurrence."""
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
    graph: Graph, pattern_graph: Graph, replacement_graph: Graph, match: Match,
    replaced: dict[Node, Node],
) -> None:  # fmt: skip
    """Insert the replacement before the last node of an occurrence, and erase the occurrence."""
    inputs = [node for node in pattern_graph.nodes if node.op == "placeholder"]
    parameters = [node for node in replacement_graph.nodes if node.op == "placeholder"]
    values: dict[Node, Node] = {}
    for there, other in zip(inputs, parameters, strict=True):
        here = match.nodes_map.get(there)
        if here is not None:
            # An occurrence may read the result of one that is replaced already.
            values[other] = replaced.get(here, here)
    with graph.inserting_before(match.anchor):
        result = graph.graph_copy(replacement_graph, values)
    if isinstance(result, Node):
        match.anchor.replace_all_uses_with(result)
        replaced[match.anchor] = result
    for there in reversed(list(pattern_graph.nodes)):  # users before what they use
        here = match.nodes_map.get(there)
        if here is not None and there.op != "placeholder" and not here.users:
            graph.erase_node(here)
