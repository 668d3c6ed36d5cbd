"""Dead code elimination, constant folding and common subexpression elimination."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..graph import Graph
from ..interpreter import run_node
from ..node import Node, map_arg

__all__ = ["drop_unused", "fold_constants", "escaping_nodes", "merge_equal"]

MAX_CONSTANT_SIZE = 2**16
"""In elements; storing a larger constant costs more than computing it again."""


def escaping_nodes(graph: Graph) -> set[Node]:
    """Return the nodes whose memory leaves the graph, as a result or as the base of a view.

    They must not be merged: each result needs its own memory, because users may write into it.
    """
    waiting = graph.output_node().all_input_nodes
    nodes: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in nodes or node.op != "call_function":
            continue
        nodes.add(node)
        op = getattr(node.target, "op", None)
        if op is None or op.family == "movement":
            waiting += node.all_input_nodes
    return nodes


def drop_unused(graph: Graph) -> Graph:
    """Remove every node whose value is not used (dead code elimination)."""
    graph = copy.deepcopy(graph)
    # Unused random draws are kept: removing one would change all later ones.
    graph.eliminate_dead_code()
    used = {str(node.target) for node in graph.nodes if node.op == "get_attr"}
    graph.constants = {name: constant for name, constant in graph.constants.items() if name in used}
    return graph


def fold_constants(graph: Graph) -> Graph:
    """Compute nodes that depend only on constants (constant folding)."""
    graph = copy.deepcopy(graph)
    escaping = escaping_nodes(graph)
    for node in graph.nodes:
        if node.op != "call_function" or node.is_impure() or node in escaping:
            continue
        if node.meta.get("tuple") or node.meta.get("number") or not node.all_input_nodes:
            continue
        if any(input_node.op != "get_attr" for input_node in node.all_input_nodes):
            continue
        if np.prod(node.meta.get("shape", ()), dtype=int) > MAX_CONSTANT_SIZE:
            continue
        value = constant_value(graph, node)
        if not isinstance(value, np.ndarray):
            continue
        with graph.inserting_before(node):
            folded = graph.constant(np.array(value, order="K"), node.name)
        folded.meta = {**node.meta, **folded.meta}
        node.replace_all_uses_with(folded)
        graph.erase_node(node)
    return drop_unused(graph)


def constant_value(graph: Graph, node: Node) -> Any:
    """Return the value of a node of which all inputs are constants."""

    def known(constant: Node) -> Any:
        return graph.constants[str(constant.target)]

    return run_node(node, map_arg(node.args, known), map_arg(node.kwargs, known))


def merge_equal(graph: Graph) -> Graph:
    """Compute the same function of the same values only once (common subexpression elimination)."""
    graph = copy.deepcopy(graph)
    known: dict[Any, Node] = {}
    escaping = escaping_nodes(graph)
    for node in graph.nodes:
        if node.op == "get_attr":
            key: Any = ("constant", constant_key(graph, node))
        elif node.op == "call_function" and not node.is_impure():
            key = (node.target, hashable_key(node.args), hashable_key(node.kwargs))
        else:
            continue
        if node in escaping:
            continue
        try:
            first = known.setdefault(key, node)
        except TypeError:  # an argument is not hashable
            continue
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
    return drop_unused(graph)


def constant_key(graph: Graph, node: Node) -> Any:
    array = graph.constants[str(node.target)]
    if array.size > MAX_CONSTANT_SIZE or array.dtype.hasobject:
        return id(node)
    return array.dtype.str, array.shape, array.strides, array.tobytes()


def hashable_key(value: Any) -> Any:
    """Return a hashable key for arguments.

    1, 1.0 and True are equal in Python but have different keys, and so have 0.0 and -0.0.
    """
    if isinstance(value, tuple | list):
        return type(value), tuple(map(hashable_key, value))
    if isinstance(value, dict):
        return tuple((key, hashable_key(item)) for key, item in value.items())
    if isinstance(value, slice):
        return slice, hashable_key(value.start), hashable_key(value.stop), hashable_key(value.step)
    if isinstance(value, float | complex):
        return type(value), repr(value)
    if isinstance(value, Node):
        return value
    return type(value), value
