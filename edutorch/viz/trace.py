"""Reads the graph that is already there behind a tensor, after the fact.

Only what the graph itself remembers can be shown: the values of leaves and of
the result, and the values that derivative rules saved for backward. Numbers
that nobody saved (the 1 in `x + 1`) are gone. `live` sees everything.
"""

from __future__ import annotations

from .. import dtypes
from ..core.autograd import Node, reachable
from ..core.tensor import LEAF, Tensor
from .graph import Key, Snapshot, Vertex, arrange
from .names import Names
from .summaries import Stats, summarize


def trace(tensor: Tensor, names: Names) -> Snapshot:
    """Return the graph behind `tensor`, with the values and gradients still known."""
    vertices: dict[Key, Vertex] = {}
    if tensor._node is None or tensor._node is LEAF:
        key = add_leaf(vertices, tensor, names)
        return arrange(vertices, [key], names.classes)
    for step in reachable([tensor._node]):
        if isinstance(step, Tensor):
            add_leaf(vertices, step, names)
        else:
            vertices[step._order] = op_vertex(step)
            add_saved(vertices, step, names)
            vertices[step._order].module = module_of(vertices, step._order)
    result = vertices[tensor._node._order]
    result.value = summarize(tensor._array)
    result.grad = stats_of(tensor._grad)
    return arrange(vertices, [tensor._node._order], names.classes)


def leaf_key(tensor: Tensor) -> Key:
    return "leaf", id(tensor)


def stats_of(tensor: Tensor | None) -> Stats | None:
    return None if tensor is None else summarize(tensor._array)


def add_leaf(vertices: dict[Key, Vertex], tensor: Tensor, names: Names) -> Key:
    """Add a tensor that no recorded op made, unless it is there already."""
    key = leaf_key(tensor)
    if key not in vertices:
        kind, module, label = names.of(tensor)
        vertices[key] = Vertex(
            kind,
            label,
            module,
            tuple(tensor._array.shape),
            dtypes.of(tensor._array.dtype).name,
            differentiable=tensor._node is not None,
            value=summarize(tensor._array),
            grad=stats_of(tensor._grad),
        )
    return key


def input_names(node: Node) -> list[str]:
    """Return the name of each edge's input; a list of tensors counts its items."""
    if node.op.variadic:
        return [f"{node.op.inputs[0]}[{index}]" for index in range(len(node.edges))]
    return list(node.op.inputs)


def op_vertex(node: Node) -> Vertex:
    """Describe one recorded op; its differentiable inputs become its sources."""
    sources = []
    for name, edge in zip(input_names(node), node.edges, strict=True):
        if edge is not None:
            sources.append((name, leaf_key(edge) if isinstance(edge, Tensor) else edge._order))
    return Vertex(
        "op",
        node.op.name,
        shape=tuple(node.shape),
        dtype=dtypes.of(node.dtype).name,
        formulas=node.op.formulas,
        sources=tuple(sources),
    )


def add_saved(vertices: dict[Key, Vertex], node: Node, names: Names) -> None:
    """Take from `node` the values its rules saved: its result, its inputs, numbers."""
    vertex, sources = vertices[node._order], dict(vertices[node._order].sources)
    if node.op.variadic or node.saved is None:
        return
    for name, saved in zip(node.op.saved, node.saved, strict=True):
        if name == "y":
            vertex.value = summarize(saved)
        elif name not in node.op.inputs:
            continue
        elif isinstance(saved, Tensor) and name in sources:
            made = vertices[sources[name]]
            made.value = made.value or summarize(saved._array)
        elif isinstance(saved, Tensor) and saved._node is None:
            sources[name] = add_leaf(vertices, saved, names)
        elif isinstance(saved, int | float):
            key = ("number", node._order, name)
            vertices[key] = number_vertex(name, saved)
            sources[name] = key
    in_order = sorted(sources.items(), key=lambda each: input_names(node).index(each[0]))
    vertex.sources = tuple(in_order)


def module_of(vertices: dict[Key, Vertex], key: Key) -> str:
    """Guess where an op ran: in the one module whose parameters it used."""
    sources = [vertices[source] for _, source in vertices[key].sources]
    modules = {source.module for source in sources if source.kind == "parameter"}
    return modules.pop() if len(modules) == 1 else ""


def number_vertex(name: str, value: float) -> Vertex:
    """Describe a Python number that an op was given as its argument `name`."""
    number = float(value)
    stats = Stats(1, number, number, number, abs(number), text=f"{value:.4g}")
    return Vertex("constant", name, differentiable=False, value=stats)
