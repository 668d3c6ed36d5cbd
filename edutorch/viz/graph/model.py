"""The data model of a graph picture: nodes, edges and statistics, without any tensor.

`graph_reader.py` reads the graph behind a tensor; `recorder.py` builds the same from events while
the network runs. Both collect `Vertex` objects under their own keys, and `arrange` turns them into
a `Graph` whose ids n0, n1, … follow the order of computation. The same program therefore gives the
same ids each time.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from ..tensors.summaries import Stats

NodeKind = Literal[
    "leaf", "parameter", "buffer", "op", "output", "constant", "group", "gradient", "failed",
]  # fmt: skip
EdgeKind = Literal["forward", "cut", "backward", "kept"]
Mark = Literal["frozen", "hook"]

LONGEST_LABEL = 200

TIED = " = "
"""Separates the names of a parameter shared by modules: `embed.weight = head.weight`."""


class Scope(NamedTuple):
    """A call in which an op ran: of a module, given by its path, or of a library function.

    `call` counts the calls of one name within a step, from 1.
    """

    kind: Literal["module", "function"]
    name: str
    call: int = 1


class Tab(NamedTuple):
    """The part of a graph behind one backward pass: its title, and the indices of its nodes."""

    title: str
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One box, with the fields of `PictureNode` in `widgets/protocol.d.ts`."""

    id: str
    kind: NodeKind
    label: str
    module: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    formulas: Mapping[str, str] = field(default_factory=dict)
    differentiable: bool = True
    variable: str = ""  # the user's variable that holds it: "h" of h = x.tanh()
    device: str = "cpu"
    line: str = ""  # the user's source line: "lesson.py:12  y = w * x"
    saved: tuple[tuple[str, int], ...] = ()  # (name, bytes) of what is saved for backward
    frame: str = ""  # the key of the open group around it
    group: str = ""  # the key of the closed group that it represents
    inside: int = 0  # the number of nodes in that group
    scopes: tuple[Scope, ...] = ()  # the calls in which the op ran, the outermost first
    version: int = 0  # the number of in-place writes before it: 1 is shown as "v2"
    marks: tuple[Mark, ...] = ()  # "frozen": requires_grad is False; "hook": it has a hook
    grad_fn: str = ""  # the name of the backward node


@dataclass(frozen=True, slots=True)
class Frame:
    """An open group, drawn around its members. `around` is the key of the enclosing frame."""

    id: str
    key: str
    title: str
    around: str = ""


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """One arrow, from an input to the op that uses it as its argument `input`.

    A "cut" arrow leads from a tensor with a gradient to an op that passes none back: `detach`, or
    any op under `no_grad`. In the graph of backward (`backward_steps.py`) the arrows of gradients
    are "backward", and those of saved values "kept".
    """

    id: str
    source: str
    target: str
    input: str
    kind: EdgeKind = "forward"


@dataclass(frozen=True)
class Graph:
    """All nodes and edges. `modules` maps a module's path to the name of its class.

    `tabs` are the backward passes of a step, if there were several.
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    modules: Mapping[str, str] = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()
    tabs: tuple[Tab, ...] = ()

    @functools.cached_property
    def structure(self) -> str:
        """A hash of everything that a layout depends on: same hash, same picture."""
        nodes = [
            (node.kind, node.label, node.variable, node.module, node.shape, node.dtype,
             node.differentiable, node.device, node.frame, node.group, node.inside, node.scopes,
             node.version, node.marks)
            for node in self.nodes
        ]  # fmt: skip
        edges = [(edge.source, edge.target, edge.input, edge.kind) for edge in self.edges]
        content = repr((nodes, edges, sorted(self.modules.items()), self.frames, self.tabs))
        return hashlib.sha256(content.encode("utf-8", "backslashreplace")).hexdigest()[:16]

    def to_picture(self, svg: str) -> dict[str, Any]:
        """Return the `Picture` message of the protocol, with the laid-out `svg`.

        `svg` may also be DOT text, for a page that does the layout itself.
        """
        by_page = svg.startswith("digraph")
        laid_out = {"svg": "" if by_page else svg, "dot": svg if by_page else ""}
        return {
            "type": "picture",
            "structure": self.structure,
            "nodes": [as_fields(node) for node in self.nodes],
            "edges": [as_fields(edge) for edge in self.edges],
            "frames": [as_fields(frame) for frame in self.frames],
            "tabs": [tab.title for tab in self.tabs],
            **laid_out,
        }


def as_fields(item: GraphNode | GraphEdge | Frame) -> dict[str, Any]:
    """Return the fields by name. `dataclasses.asdict` would copy every value, which is slow."""
    fields = {name: getattr(item, name) for name in item.__slots__}
    if isinstance(item, GraphNode):
        fields |= {"shape": list(item.shape), "formulas": dict(item.formulas)}
        del fields["scopes"], fields["grad_fn"]  # the page gets what was derived from them
    return fields


@dataclass(frozen=True)
class Snapshot:
    """A graph and its statistics at one moment.

    `values` and `grads` belong to the nodes, `flows` (the gradients along the edges) to the edges;
    None where unknown. `order` maps each node to the index of its vertex, in the order in which the
    vertices were collected. `focus`: the ids of nodes to mark as troubled, whatever their values.
    """

    graph: Graph
    values: tuple[Stats | None, ...]
    grads: tuple[Stats | None, ...]
    flows: tuple[Stats | None, ...]
    order: tuple[int, ...] = ()
    focus: tuple[str, ...] = ()

    @functools.cached_property
    def bad(self) -> tuple[str, ...]:
        """The ids of the nodes with a red border: see `find_alarming`."""
        if self.focus:
            return self.focus
        values = [None if value is None else defect_of(value) for value in self.values]
        return find_alarming(
            self.graph, values, [grad is not None and grad.bad for grad in self.grads]
        )


Defect = Literal["", "Inf", "NaN"]


def overlay(older: Snapshot, newer: Snapshot) -> Snapshot:
    """Return an older step's values, replaced by a newer one's where those were taken."""
    pairs = ((older.values, newer.values), (older.grads, newer.grads), (older.flows, newer.flows))
    values, grads, flows = (
        tuple(old if new is None else new for old, new in zip(*both, strict=True)) for both in pairs
    )
    return replace(older, values=values, grads=grads, flows=flows)


def defect_of(stats: Stats) -> Defect:
    """Return whether an array has a NaN, an infinity, or neither.

    Infinities of both signs count as a NaN: their mean is NaN.
    """
    return "" if not stats.bad else "NaN" if math.isnan(stats.mean) else "Inf"


def find_alarming(
    graph: Graph, values: Sequence[Defect | None], gradients: Sequence[bool]
) -> tuple[str, ...]:
    """Return the ids of the nodes whose values or gradients are an error.

    A NaN is an error, and so is any non-finite gradient. An infinity is one if it reaches a result
    or becomes a NaN: an infinity from a mask that softmax turned into 0 is correct.

    Args:
        values: the defect of the value of each node; None where unknown.
        gradients: whether the gradient of each node has a NaN or an infinity.
    """
    is_alarming: dict[str, bool] = {}
    if not any(values) and not any(gradients):
        return ()
    consumers: dict[str, list[str]] = {}
    for edge in graph.edges:
        consumers.setdefault(edge.source, []).append(edge.target)
    rows = zip(graph.nodes, values, gradients, strict=True)
    for node, value, gradient in reversed(list(rows)):
        # In a folded graph an arrow may lead back: such a consumer is not known yet.
        uses = [is_alarming.get(target, False) for target in consumers.get(node.id, ())]
        is_final = not uses and (node.kind == "output" or node.differentiable)
        is_alarming[node.id] = (
            gradient or value == "NaN" or (value == "Inf" and (is_final or any(uses)))
        )
    return tuple(node.id for node in graph.nodes if is_alarming[node.id])


Key = Hashable
"""Identifies a vertex while a graph is collected."""


@dataclass(slots=True)
class Vertex:
    """A node under construction. `sources` are pairs (input name, key of its vertex)."""

    kind: NodeKind
    label: str
    module: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    formulas: Mapping[str, str] = field(default_factory=dict)
    differentiable: bool = True
    variable: str = ""
    device: str = "cpu"
    line: str = ""
    saved: tuple[tuple[str, int], ...] = ()
    scopes: tuple[Scope, ...] = ()
    version: int = 0
    marks: tuple[Mark, ...] = ()
    grad_fn: str = ""
    homes: tuple[str, ...] = ()  # the modules that own a parameter
    sources: tuple[tuple[str, Key], ...] = ()
    value: Stats | None = None
    grad: Stats | None = None
    flows: dict[str, Stats] = field(default_factory=dict)
    watched: bool = True  # whether its statistics are computed
    tracked: bool = True  # whether those of its gradients are

    def to_node(self, id: str, kind: NodeKind) -> GraphNode:
        """Return the node of this vertex."""
        return GraphNode(
            id=id,
            kind=kind,
            label=self.label[:LONGEST_LABEL],
            module=self.module,
            shape=self.shape,
            dtype=self.dtype,
            formulas=self.formulas,
            differentiable=self.differentiable,
            variable=self.variable[:LONGEST_LABEL],
            device=self.device,
            line=self.line[:LONGEST_LABEL],
            saved=self.saved,
            scopes=self.scopes,
            version=self.version,
            marks=self.marks,
            grad_fn=self.grad_fn,
        )


@dataclass(frozen=True, slots=True)
class ArrangedGraph:
    """The graph of some vertices, and where the statistics of its nodes and edges come from.

    `keys` are the vertices of its nodes, `inputs` the vertex of each edge's target with the name
    of the input, `order` the index of each node's vertex.
    """

    graph: Graph
    keys: tuple[Key, ...]
    inputs: tuple[tuple[Key, str], ...]
    order: tuple[int, ...]

    def snapshot(self, vertices: Mapping[Key, Vertex]) -> Snapshot:
        """Return the graph with the statistics that are known by now."""
        arranged = [vertices[key] for key in self.keys]
        return Snapshot(
            self.graph,
            tuple(vertex.value for vertex in arranged),
            tuple(vertex.grad for vertex in arranged),
            tuple(vertices[key].flows.get(name) for key, name in self.inputs),
            self.order,
        )


def arrange(
    vertices: Mapping[Key, Vertex],
    roots: Iterable[Key],
    modules: Mapping[str, str] | None = None,
) -> Snapshot:
    """Return the graph of everything that `roots` were computed from, with its statistics."""
    return arrange_graph(vertices, roots, modules).snapshot(vertices)


def arrange_graph(
    vertices: Mapping[Key, Vertex],
    roots: Iterable[Key],
    modules: Mapping[str, str] | None = None,
    extra_roots: Iterable[Key] = (),
    tabs: Callable[[dict[Any, str]], tuple[Tab, ...]] | None = None,
) -> ArrangedGraph:
    """Build the graph of everything that `roots` and `extra_roots` were computed from.

    Args:
        vertices: by key, ops in the order in which they ran.
        roots: keys of the results; they are drawn as outputs.
        modules: the class name of each module path.
        extra_roots: keys of further results, drawn as their own kind.
        tabs: makes the tabs of the graph from the ids of its nodes, by key and in order.
    """
    roots = tuple(roots)
    used = ancestors(vertices, (*roots, *extra_roots))
    order: dict[Key, str] = {}
    for key, vertex in vertices.items():
        if key in used and (vertex.sources or vertex.kind == "op" or key in roots):
            for _, source in vertex.sources:  # a leaf comes just before its first use
                order.setdefault(source, f"n{len(order)}")
            order.setdefault(key, f"n{len(order)}")
    nodes, edges, inputs = [], [], []
    for key, id in order.items():
        vertex = vertices[key]
        node_kind = "output" if key in roots and vertex.kind == "op" else vertex.kind
        nodes.append(vertex.to_node(id, node_kind))
        for name, source in vertex.sources:
            cut = vertices[source].differentiable and not vertex.differentiable
            edge_kind = "cut" if cut and vertex.kind == "op" else "forward"
            edges.append(GraphEdge(f"e{len(edges)}", order[source], id, name, edge_kind))
            inputs.append((key, name))
    index_of = {key: index for index, key in enumerate(vertices)}
    used = {node.module for node in nodes}
    module_classes = {
        path: name
        for path, name in (modules or {}).items()
        if path and any(f"{module}.".startswith(f"{path}.") for module in used)
    }
    return ArrangedGraph(
        Graph(tuple(nodes), tuple(edges), module_classes, tabs=tabs(order) if tabs else ()),
        tuple(order),
        tuple(inputs),
        tuple(index_of[key] for key in order),
    )


def qualified_name(module: str, label: str) -> str:
    """Return a name with its module's path; of a tied parameter, each of its names.

    >>> qualified_name("net", "bias"), qualified_name("", "bias")
    ('net.bias', 'bias')
    >>> qualified_name("net", "embed.weight = head.weight")
    'net.embed.weight = net.head.weight'
    """
    return TIED.join(f"{module}.{name}" if module else name for name in label.split(TIED))


def gradient_label(label: str) -> str:
    """Return the label of a leaf's gradient.

    >>> gradient_label("weight"), gradient_label("embed.weight = head.weight")
    ('weight.grad', 'embed.weight.grad = head.weight.grad')
    """
    return TIED.join(f"{name}.grad" for name in label.split(TIED))


def enclosing_paths(path: str) -> list[str]:
    """Return a module's path and the paths of the enclosing modules: a.b.c, a.b, a."""
    parts = path.split(".") if path else []
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]


def ancestors(vertices: Mapping[Key, Vertex], roots: Iterable[Key]) -> set[Key]:
    """Return the keys of `roots` and of all their ancestors."""
    keys: set[Key] = set()
    stack = [root for root in roots if root in vertices]
    while stack:
        key = stack.pop()
        if key not in keys:
            keys.add(key)
            stack.extend(source for _, source in vertices[key].sources)
    return keys
