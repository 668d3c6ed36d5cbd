"""Reads the autograd graph behind a tensor, after the forward pass.

Only what the graph itself keeps can be shown: the values of leaves and of the result, and the
values that derivative rules saved for backward. Numbers that no rule saved (the 1 in `x + 1`) are
gone. `live` records everything.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy import ndarray

from ... import dtypes
from ...backends.numpy import Array
from ...core.autograd.engine import unbroadcast
from ...core.autograd.graph import Node, reachable
from ...core.op import Op
from ...core.tensor import LEAF, Tensor
from ...errors import CodeLocation, read_line, user_location
from ..tensors.summaries import Stats, summarize
from .model import Key, Mark, Snapshot, Vertex, arrange
from .names import Names, common_path, variables


def read_graph(tensor: Tensor, names: Names) -> Snapshot:
    """Return the graph behind `tensor`, with the values and gradients that are still known."""
    return arrange(collect_vertices(tensor, names), [root_key(tensor)], names.classes)


def root_key(tensor: Tensor) -> Key:
    """Return the key of a tensor: that of its node, or of the leaf itself."""
    if tensor._node is None or tensor._node is LEAF:
        return leaf_key(tensor)
    return tensor._node._order


def collect_vertices(tensor: Tensor, names: Names) -> dict[Key, Vertex]:
    """Return the vertices of the ops, leaves and saved numbers behind `tensor`, by key."""
    vertices: dict[Key, Vertex] = {}
    if tensor._node is None or tensor._node is LEAF:
        add_leaf(vertices, tensor, names)
        return vertices
    for node in reachable([tensor._node]):
        if isinstance(node, Tensor):
            add_leaf(vertices, node, names)
        else:
            vertices[node._order] = op_vertex(node)
            vertices[node._order].sources = sources_of(node)
            add_saved(vertices, node, names)
            vertices[node._order].device = str(tensor.device)
    infer_modules(vertices, names)
    fill_module_gaps(vertices)
    name_variables(vertices, names, node_order)
    result = vertices[tensor._node._order]
    result.value = summarize(tensor._array, bars=True)
    result.grad = optional_stats(tensor._grad)
    return vertices


def leaf_key(tensor: Tensor) -> Key:
    return "leaf", id(tensor)


def optional_stats(tensor: Tensor | None) -> Stats | None:
    return None if tensor is None else summarize(tensor._array, bars=True)


def add_leaf(vertices: dict[Key, Vertex], tensor: Tensor, names: Names) -> Key:
    """Add the vertex of a tensor that no recorded op made, unless it is present."""
    key = leaf_key(tensor)
    if key not in vertices:
        vertices[key] = leaf_vertex(tensor, names)
        vertices[key].value = summarize(tensor._array, bars=True)
        vertices[key].grad = optional_stats(tensor._grad)
    return key


def leaf_vertex(tensor: Tensor, names: Names) -> Vertex:
    """Return the vertex of a leaf tensor, without its values."""
    node_kind, module, label = names.of(tensor)
    frozen = node_kind == "parameter" and not tensor.requires_grad
    hooks = tensor._hooks
    has_hook = hooks is not None and any(hooks.gradient or hooks.accumulated or ())
    marks: list[Mark] = ["frozen"] * frozen + ["hook"] * has_hook  # type: ignore[list-item]
    return Vertex(
        node_kind,
        label,
        module,
        tuple(tensor._array.shape),
        dtypes.of(tensor._array.dtype).name,
        differentiable=tensor.requires_grad,
        device=str(tensor.device),
        marks=tuple(marks),
        homes=names.homes_of(tensor),
    )


def input_names(node: Node) -> Sequence[str]:
    """Return the input name of each edge; a list of tensors is numbered."""
    return argument_names(node.op, len(node.edges))


def argument_names(op: Op, count: int) -> Sequence[str]:
    """Return the names of an op's `count` tensor arguments; a list of tensors is numbered."""
    if op.variadic:
        return [f"{op.inputs[0]}[{index}]" for index in range(count)]
    return op.inputs


def sources_of(node: Node) -> tuple[tuple[str, Key], ...]:
    """Return the differentiable inputs of a recorded op as (name, key)."""
    return tuple(
        (name, leaf_key(edge) if isinstance(edge, Tensor) else edge._order)
        for name, edge in zip(input_names(node), node.edges, strict=True)
        if edge is not None
    )


def op_vertex(node: Node) -> Vertex:
    """Return the vertex of a recorded op, without its sources."""
    return Vertex(
        "op",
        label_of(node.op, len(node.shape)),
        shape=tuple(node.shape),
        dtype=dtypes.of(node.dtype).name,
        formulas=node.op.formulas,
        line=line_of(node),
        saved=saved_bytes(node),
        grad_fn=node.name(),
    )


OWN_NAMES = frozenset(
    "getitem setitem conv_weight_grad nll_grad avg_pool_grad max_pool_scatter max_pool_gather "
    "max_pool_indices".split()
)
"""Ops without a public function: `x[0]`, and derivatives that were recorded themselves."""


def label_of(op: Op, ndim: int) -> str:
    """Return the public name of an op: that of the function it belongs to.

    Args:
        ndim: number of dimensions of the result: a convolution of images is a `conv2d`.
    """
    if op.name in OWN_NAMES:
        return op.name
    title = op.label
    if title in op.public and title.endswith(("1d", "2d", "3d")):
        fitting = f"{title[:-2]}{ndim - 2}d"
        return fitting if fitting in op.public else title
    return title


def vertex_of_call(op: Op, output: Tensor, node: Node | None) -> Vertex:
    """Return the vertex of an op that has just run, recorded or not, without its sources."""
    device = "cpu" if output._array.__class__ is ndarray else str(output.device)
    if node is not None:
        vertex = op_vertex(node)
        vertex.device = device
        return vertex
    return Vertex(
        "op",
        label_of(op, output._array.ndim),
        shape=tuple(output._array.shape),
        dtype=dtypes.of(output._array.dtype).name,
        differentiable=False,
        device=device,
        line=line_text(user_location()),
    )


def line_of(node: Node) -> str:
    """Return the line of the user's code that made a node: "lesson.py:12  y = w * x"."""
    return line_text(node.notes.get("location"))


def line_text(place: CodeLocation | None) -> str:
    """Return file, line number and text of a source line: "lesson.py:12  y = w * x"."""
    if place is None:
        return ""
    code, instruction = place
    cached = _lines.get((id(code), instruction))
    if cached is None:
        if len(_lines) > 10_000:
            _lines.clear()
        source = read_line(place)
        text = f"{Path(source.file).name}:{source.line}  {source.text}".rstrip()
        cached = _lines[id(code), instruction] = text, code
    return cached[0]


_lines: dict[tuple[int, int], tuple[str, Any]] = {}
"""Texts by location; the code object is kept alive so that no other gets its id."""


def saved_bytes(node: Node) -> tuple[tuple[str, int], ...]:
    """Return the name and size in bytes of each array that a node saved for backward."""
    if node.saved is None or node.op.variadic:
        return ()
    arrays = ((name, getattr(saved, "_array", saved)) for name, saved in
              zip(node.op.saved, node.saved, strict=False))  # fmt: skip
    return tuple((name, array.nbytes) for name, array in arrays if hasattr(array, "nbytes"))


def name_variables(
    vertices: Mapping[Any, Vertex], names: Names, key_of: Callable[[Tensor], Key | None]
) -> None:
    """Set the variable of the user's code that holds the result of each op."""
    for name, value in variables(names.frame):
        if isinstance(value, Tensor):
            vertex = vertices.get(key_of(value))
            if vertex is not None and vertex.kind == "op" and not vertex.variable:
                vertex.variable = name


def node_order(tensor: Tensor) -> Key | None:
    """Return the key of the op that made a tensor; None for a leaf."""
    has_node = tensor._node is not None and tensor._node is not LEAF
    return tensor._node._order if has_node else None


def fill_module_gaps(vertices: dict[Key, Vertex]) -> None:
    """Assign ops without a module to the common module of the ops before and after them.

    An activation has no parameters from which its module could be inferred.
    """
    ops = [vertex for _, vertex in sorted(
        (key, vertex) for key, vertex in vertices.items() if isinstance(key, int)
    )]  # fmt: skip
    placed = [index for index, vertex in enumerate(ops) if vertex.module]
    for before, after in itertools.pairwise(placed):
        module = common_path([ops[before].module, ops[after].module])
        for vertex in ops[before + 1 : after]:
            vertex.module = module


def add_saved(vertices: dict[Key, Vertex], node: Node, names: Names) -> None:
    """Add the values that the rules of `node` saved: its result, its inputs, numbers."""
    vertex, sources = vertices[node._order], dict(vertices[node._order].sources)
    if node.op.variadic:
        return
    for name, value in getattr(node, "scalars", ()):
        key = ("number", node._order, name)
        vertices[key] = number_vertex(name, value)
        sources[name] = key
    # What a call of a compiled function saves has no names.
    named = zip(node.op.saved, node.saved, strict=True) if node.saved and node.op.saved else ()
    for name, saved in named:
        if name == "y":
            vertex.value = summarize(saved, bars=True)
        elif name not in node.op.inputs or ("number", node._order, name) in vertices:
            continue
        elif isinstance(saved, Tensor) and name in sources:
            source = vertices[sources[name]]
            source.value = source.value or summarize(saved._array, bars=True)
        elif isinstance(saved, Tensor) and saved._node is None:
            sources[name] = add_leaf(vertices, saved, names)
        elif isinstance(saved, int | float):
            key = ("number", node._order, name)
            vertices[key] = number_vertex(name, saved)
            sources[name] = key
    in_order = sorted(sources.items(), key=lambda item: input_names(node).index(item[0]))
    vertex.sources = tuple(in_order)


def infer_modules(vertices: dict[Key, Vertex], names: Names) -> None:
    """Infer the module in which each op ran: the one that owns all parameters that it used.

    If a tied parameter leaves several candidates, take the one whose class is named like the op,
    or the only one in which no other op ran.
    """
    several: dict[Key, set[str]] = {}
    for key, vertex in vertices.items():
        sources = [vertices[source] for _, source in vertex.sources]
        homes = [set(source.homes) for source in sources if source.kind == "parameter"]
        modules = set.intersection(*homes) if homes else set()
        if len(modules) > 1:
            called = {path for path in modules if names.classes[path].lower() == vertex.label}
            modules = called or modules
        if len(modules) == 1:
            (vertex.module,) = modules
        elif modules:
            several[key] = modules
    taken = {vertex.module for vertex in vertices.values() if vertex.kind == "op"}
    for key, modules in several.items():
        candidates = modules - taken
        vertices[key].module = candidates.pop() if len(candidates) == 1 else ""


def number_vertex(name: str, value: float) -> Vertex:
    """Return the vertex of a Python number that was the argument `name` of an op."""
    number = float(value)
    stats = Stats(1, number, number, number, abs(number), text=f"{value:.4g}", few=(number,))
    return Vertex("constant", name, differentiable=False, value=stats)


def received_gradient(gradient: Tensor | Array, edge: Any) -> Any:
    """Return the gradient that an input received, reduced to the input's shape."""
    array = gradient._array if isinstance(gradient, Tensor) else gradient
    shape = edge.shape if edge._order else edge._array.shape
    if edge._order and edge.gathers:
        shape = array.shape
    if array.shape == shape or array.shape == tuple(shape):
        return array
    return unbroadcast(array, tuple(shape))
