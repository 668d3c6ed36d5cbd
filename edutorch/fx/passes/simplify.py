"""Removes nodes that return their input unchanged, bit for bit."""

from __future__ import annotations

import copy
import operator
from typing import Any

from ...core.registry import REGISTRY
from ..graph import Graph
from ..node import Node
from .dce_cse_fold import drop_unused, escaping_nodes

__all__ = ["tidy"]


def tidy(graph: Graph) -> Graph:
    """Remove nodes that return their input unchanged.

    x · 1, x / 1 and x - 0 are x (x + 0 is not: -0 + 0 = 0). Also removed are conversions to the
    value's own dtype, reshapes to its own shape, expands to its own size and identity permutes;
    of two successive reshapes, the first; two successive transposes.
    """
    graph = copy.deepcopy(graph)
    escaping = escaping_nodes(graph)
    for node in graph.nodes:
        if node.op != "call_function" or "shape" not in node.meta:
            continue
        unchanged = identity_input(node)
        if unchanged is None:
            merge_reshapes(node)
            continue
        if node in escaping or has_other_meta(unchanged, node):
            continue
        node.replace_all_uses_with(unchanged)
        graph.erase_node(node)
    return drop_unused(graph)


def has_other_meta(first: Node, second: Node) -> bool:
    return any(first.meta.get(key) != second.meta.get(key) for key in ("shape", "dtype"))


def is_op(node: Any, name: str) -> bool:
    """Return True if a node calls the op of this name."""
    return isinstance(node, Node) and node.target is REGISTRY[name].function


def identity_input(node: Node) -> Node | None:
    """Return the input that a node returns unchanged, or None."""
    args = node.args
    first: Any = args[0] if args else None
    if not isinstance(first, Node) or "shape" not in first.meta:
        return None
    if is_op(node, "mul") or is_op(node, "div"):
        plain = node.kwargs.get("rounding_mode") is None
        return first if plain and is_number(args[1], 1) else None
    if is_op(node, "sub"):
        return first if is_number(args[1], 0) and not is_negative_zero(args[1]) else None
    if is_op(node, "convert_dtype"):
        return first if first.meta["dtype"] == node.meta["dtype"] else None
    if is_op(node, "reshape") or is_op(node, "expand"):
        while is_op(node, "reshape") and is_op(first, "reshape"):
            first = first.args[0]
        return first if first.meta["shape"] == node.meta["shape"] else None
    if is_op(node, "t") and is_op(first, "t"):
        return first.args[0]
    if is_op(node, "permute"):
        axes = tuple(node.kwargs["dims"])
        if axes == tuple(range(len(axes))):
            return first
        if is_op(first, "permute") and len(first.args) == 1:
            inner = tuple(first.kwargs["dims"])
            source: Any = first.args[0]
            if tuple(inner[axis] for axis in axes) == tuple(range(len(axes))):
                return source
    return None


def merge_reshapes(node: Node) -> None:
    """Make a reshape of a reshape take the input of the inner one."""
    first: Any = node.args[0] if node.args else None
    if is_op(node, "reshape") and is_op(first, "reshape"):
        node.update_kwarg("shape", tuple(node.meta["shape"]))
        node.update_arg(0, first.args[0])


def is_number(value: Any, wanted: int) -> bool:
    """Return True if an argument is this Python number."""
    return type(value) in (int, float) and operator.eq(value, wanted)


def is_negative_zero(value: Any) -> bool:
    return isinstance(value, float) and str(value) == "-0.0"
