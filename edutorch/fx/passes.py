"""Optimization passes: each takes a captured graph and returns one that computes the same bits.

    from edutorch.fx import passes
    better = passes.fold_constants(graph)

The input graph is not modified, so that both can be compared, or printed side by side.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.registry import REGISTRY
from .graph import Graph
from .interpreter import run_node
from .node import Argument, Node, map_arg

__all__ = ["drop_unused", "fold_constants", "merge_equal", "standard", "tidy"]

# Dead code, constants, common subexpressions --------------------------------------------------

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
        if op is None or op.family.makes_view:
            waiting += node.all_input_nodes
    return nodes


def changed_copy(graph: Graph, *changes: Callable[[Graph], None]) -> Graph:
    """Return a copy of a graph with some changes; one copy, for it takes as long as a pass."""
    graph = copy.deepcopy(graph)
    for change in changes:
        change(graph)
    return graph


def drop_unused(graph: Graph) -> Graph:
    """Remove every node whose value is not used (dead code elimination)."""
    return changed_copy(graph, drop_unused_in_place)


def drop_unused_in_place(graph: Graph) -> None:
    # Unused random draws are kept: removing one would change all later ones.
    graph.eliminate_dead_code()
    used = {str(node.target) for node in graph.nodes if node.op == "get_attr"}
    graph.constants = {name: constant for name, constant in graph.constants.items() if name in used}


def fold_constants(graph: Graph) -> Graph:
    """Compute nodes that depend only on constants (constant folding)."""
    return changed_copy(graph, fold_constants_in_place)


def fold_constants_in_place(graph: Graph) -> None:
    escaping = escaping_nodes(graph)
    for node in graph.nodes:
        if node.op != "call_function" or node.is_impure() or node in escaping:
            continue
        if node.meta.get("tuple") or node.meta.get("number") or not node.all_input_nodes:
            continue
        if any(not is_host_constant(graph, input_node) for input_node in node.all_input_nodes):
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
    drop_unused_in_place(graph)


def is_host_constant(graph: Graph, node: Node) -> bool:
    """Whether a node is a constant of NumPy: only those are computed with here."""
    return node.op == "get_attr" and isinstance(graph.constants[str(node.target)], np.ndarray)


def constant_value(graph: Graph, node: Node) -> Any:
    """Return the value of a node of which all inputs are constants."""

    def known(constant: Node) -> Any:
        return graph.constants[str(constant.target)]

    return run_node(node, map_arg(node.args, known), map_arg(node.kwargs, known))


def merge_equal(graph: Graph) -> Graph:
    """Compute the same function of the same values only once (common subexpression elimination)."""
    return changed_copy(graph, merge_equal_in_place)


def merge_equal_in_place(graph: Graph) -> None:
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
        if first is not node:  # the earlier one comes before all users of the later
            node.replace_all_uses_with(first)
            graph.erase_node(node)
    drop_unused_in_place(graph)


def constant_key(graph: Graph, node: Node) -> Any:
    array = graph.constants[str(node.target)]
    if array.size > MAX_CONSTANT_SIZE or not is_host_constant(graph, node):
        return id(node)
    if array.dtype.hasobject:
        return id(node)
    return array.dtype.str, array.shape, array.strides, array.tobytes()


def hashable_key(value: Argument) -> Any:
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
    return type(value), value


# Nodes that return their input unchanged --------------------------------------------------------


def tidy(graph: Graph) -> Graph:
    """Remove nodes that return their input unchanged.

    x · 1, x / 1 and x - 0 are x (x + 0 is not: -0 + 0 = 0). Also removed are conversions to the
    value's own dtype, reshapes to its own shape, expands to its own size and identity permutes;
    of two successive reshapes, the first; two successive transposes.
    """
    return changed_copy(graph, tidy_in_place)


def tidy_in_place(graph: Graph) -> None:
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
    drop_unused_in_place(graph)


def has_other_meta(first: Node, second: Node) -> bool:
    return any(first.meta.get(key) != second.meta.get(key) for key in ("shape", "dtype"))


def is_op(node: Argument, name: str) -> bool:
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
        while is_op(node, "reshape") and is_op(first, "reshape"):  # only the last shape counts
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


def is_number(value: object, wanted: int) -> bool:
    """Return True if an argument is this Python number."""
    return type(value) in (int, float) and operator.eq(value, wanted)


def is_negative_zero(value: object) -> bool:
    return isinstance(value, float) and str(value) == "-0.0"


# All passes -------------------------------------------------------------------------------------

PASSES: tuple[Callable[[Graph], Graph], ...] = (drop_unused, fold_constants, tidy, merge_equal)
CHANGES: tuple[Callable[[Graph], None], ...] = (
    drop_unused_in_place, fold_constants_in_place, tidy_in_place, merge_equal_in_place,
)  # fmt: skip
"""The same passes without a copy for each."""


def standard(graph: Graph) -> Graph:
    """Run all passes in order.

    >>> graph = fx.capture(lambda x: (x * 1).exp() + x.exp(), ones(2)).graph
    >>> print(fx.passes.standard(graph).python_code().src.strip())
    def forward(self, x):
        exp = torch.exp(x);  x = None
        add = torch.add(exp, exp, alpha = 1);  exp = None
        return (add,)
    """
    return changed_copy(graph, *CHANGES)
