"""Snapshots of `edutorch.fx` graphs: captured, traced, or inside a compiled function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .model import Key, NodeKind, Snapshot, Vertex, arrange

if TYPE_CHECKING:
    from ...fx import Graph, Node

__all__ = ["graph_of", "snapshot"]


def graph_of(source: Any) -> Graph | None:
    """Return the fx graph of a graph, graph module, capture or compiled function, else None."""
    module_name = type(source).__module__
    if module_name.startswith("edutorch.compilation"):
        compiled = vars(source).get("_compiled", source)  # a compiled module holds its function
        entries = getattr(compiled, "entries", ())
        return graph_of(entries[0].captured) if entries else None
    if not module_name.startswith("edutorch.fx"):
        return None
    if hasattr(source, "find_nodes"):
        return source
    inner = getattr(source, "original", None) or getattr(source, "graph", None)
    return inner if hasattr(inner, "find_nodes") else None


def snapshot(graph: Graph) -> Snapshot:
    """Return a graph as nodes and edges: its inputs, constants, functions and results.

    >>> from edutorch import fx
    >>> graph = fx.capture(lambda x: (x * 2).relu(), ones(3)).graph
    >>> print(viz.draw(graph).table())
    node     module  shape      value  gradient  from
    n0 x             3 float32  —      —
    n1 mul           3 float32  —      —         n0
    n2 relu          3 float32  —      —         n1
    """
    vertices: dict[Key, Vertex] = {}
    roots: list[Key] = []
    for node in graph.nodes:
        if node.op == "output":
            roots = list(node.all_input_nodes)
            continue
        vertices[node] = vertex_of(node)
    return arrange(vertices, roots)


def vertex_of(node: Node) -> Vertex:
    """Return the vertex of a node."""
    sources = [
        (input_name(node, position), input_node)
        for position, input_node in enumerate(node.all_input_nodes)
    ]
    formulas = getattr(getattr(node.target, "op", None), "formulas", {})
    return Vertex(
        kind=node_kind(node),
        label=str(node.target) if isinstance(node.target, str) else node.name,
        module=str(node.meta.get("module") or ""),
        shape=tuple(node.meta.get("shape", ())),
        dtype="number" if node.meta.get("number") else str(node.meta.get("dtype", "")),
        formulas=formulas,
        device=str(node.meta.get("device", "cpu")),
        line=str(node.meta.get("line") or ""),
        sources=tuple(sources),
    )


def node_kind(node: Node) -> NodeKind:
    """Return the kind of a node in a picture: leaf, constant, parameter or op."""
    if node.op == "placeholder":
        return "leaf"
    if node.op == "get_attr":
        return "constant" if node.target in node.graph.constants else "parameter"
    return "op"


def input_name(node: Node, position: int) -> str:
    """Return the name of a function's input at a position."""
    inputs = getattr(getattr(node.target, "op", None), "inputs", ())
    return inputs[position] if position < len(inputs) else f"input{position}"
