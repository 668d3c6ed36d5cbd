"""A graph as plain data: what a picture shows, without any tensor in it.

`graph_reader.py` reads the graph behind a tensor; `recorder.py` builds the same thing from
events, while the network runs. Both gather `Vertex` objects under keys of their
own, and `arrange` turns them into a `Graph` whose ids n0, n1, … follow the order
of computation. The same program therefore gives the same ids each time.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ..tensors.summaries import Stats

NodeKind = Literal[
    "leaf", "parameter", "buffer", "op", "output", "constant", "group", "gradient", "failed",
]  # fmt: skip
EdgeKind = Literal["forward", "cut", "backward", "kept"]
Mark = Literal["frozen", "hook"]

LONGEST_LABEL = 200

TIED = " = "
"""Between the names of a parameter that is in several modules: `embed.weight = head.weight`."""


class Scope(NamedTuple):
    """A call that was running when an op ran: of a module, by its path, or of a library function.

    `call` numbers the calls of one name within a step, from 1.
    """

    kind: Literal["module", "function"]
    name: str
    call: int = 1


class Tab(NamedTuple):
    """The part of a graph behind one backward pass: its title, and its nodes by number."""

    title: str
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One box. Field by field what `PictureNode` is in `widgets/protocol.d.ts`."""

    id: str
    kind: NodeKind
    label: str
    module: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    formulas: Mapping[str, str] = field(default_factory=dict)
    differentiable: bool = True
    variable: str = ""  # of the user's code, that holds it: "h" of h = x.tanh()
    device: str = "cpu"
    line: str = ""  # of the user's code: "lesson.py:12  y = w * x"
    saved: tuple[tuple[str, int], ...] = ()  # what is kept for backward, in bytes
    frame: str = ""  # the open group that it lies in
    group: str = ""  # the closed group that it stands for
    inside: int = 0  # how many nodes that one holds
    scopes: tuple[Scope, ...] = ()  # the calls in which the op ran, the outermost first
    version: int = 0  # how many writes had changed the tensor's memory: 1 is shown as "v2"
    marks: tuple[Mark, ...] = ()  # "frozen": a parameter that wants no gradient; "hook": it has one
    grad_fn: str = ""  # the name of the node that backward will run


@dataclass(frozen=True, slots=True)
class Frame:
    """An open group, drawn around its members. `around` is the key of the one it lies in."""

    id: str
    key: str
    title: str
    around: str = ""


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """One arrow, from an input to the op that uses it as its argument `input`.

    A "cut" arrow leaves a tensor that has a gradient for an op that passes none back: `detach`, or
    any op under `no_grad`. In the graph of backward (`backward_graph.py`) the arrows of gradients are
    "backward", and those of values that wait for it "kept".
    """

    id: str
    source: str
    target: str
    input: str
    kind: EdgeKind = "forward"


@dataclass(frozen=True)
class Graph:
    """All boxes and arrows. `modules` maps a module's path to the name of its class.

    `tabs` are the backward passes of a step, where there were several.
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    modules: Mapping[str, str] = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()
    tabs: tuple[Tab, ...] = ()

    @functools.cached_property
    def structure(self) -> str:
        """A hash of everything a layout depends on: same hash, same picture."""
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
        """Return the `Picture` of the protocol, with the laid-out `svg` in it.

        It may be DOT text instead, for a page that has to lay it out itself.
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


def as_fields(thing: GraphNode | GraphEdge | Frame) -> dict[str, Any]:
    """Return the fields by name. `dataclasses.asdict` copies all in them, and takes long."""
    found = {name: getattr(thing, name) for name in thing.__slots__}
    if isinstance(thing, GraphNode):
        found |= {"shape": list(thing.shape), "formulas": dict(thing.formulas)}
        del found["scopes"], found["grad_fn"]  # a page is given what was made of them
    return found


@dataclass(frozen=True)
class Snapshot:
    """A graph and its numbers at one moment.

    `values` and `grads` go with the nodes, `flows` (the gradient that went along
    an edge) with the edges; None where it is not known. `order` says which of the vertices,
    in the order in which they were gathered, each node was.
    """

    graph: Graph
    values: tuple[Stats | None, ...]
    grads: tuple[Stats | None, ...]
    flows: tuple[Stats | None, ...]
    order: tuple[int, ...] = ()

    @functools.cached_property
    def bad(self) -> tuple[str, ...]:
        """The ids of the nodes that are framed in red: see `alarming`."""
        values = [None if value is None else defect_of(value) for value in self.values]
        return alarming(self.graph, values, [grad is not None and grad.bad for grad in self.grads])


Defect = Literal["", "Inf", "NaN"]


def defect_of(stats: Stats) -> Defect:
    """Return what is wrong with an array: it holds a NaN, or an infinity, or neither.

    Infinities of both signs count as a NaN: their mean is one.
    """
    return "" if not stats.bad else "NaN" if math.isnan(stats.mean) else "Inf"


def alarming(
    graph: Graph, values: Sequence[Defect | None], gradients: Sequence[bool]
) -> tuple[str, ...]:
    """Return the ids of the nodes whose numbers are trouble.

    A NaN is, and so is whatever is not finite in a gradient. An infinity is if it gets into a
    result, or becomes a NaN: where a mask wrote it, and softmax made 0 of it, all is well.

    Args:
        values: what is wrong with the value of each node; None where it is not known.
        gradients: whether there is a NaN or an infinity in the gradient of each node.
    """
    found: dict[str, bool] = {}
    if not any(values) and not any(gradients):
        return ()
    consumers: dict[str, list[str]] = {}
    for edge in graph.edges:
        consumers.setdefault(edge.source, []).append(edge.target)
    rows = zip(graph.nodes, values, gradients, strict=True)
    for node, value, gradient in reversed(list(rows)):
        # In a folded graph an arrow may lead back: such a consumer is not known yet.
        uses = [found.get(target, False) for target in consumers.get(node.id, ())]
        ends = not uses and (node.kind == "output" or node.differentiable)
        found[node.id] = gradient or value == "NaN" or (value == "Inf" and (ends or any(uses)))
    return tuple(node.id for node in graph.nodes if found[node.id])


Key = Hashable
"""What a vertex is known by while a graph is gathered."""


@dataclass(slots=True)
class Vertex:
    """A node to be. `sources` names each input and the key of where it came from."""

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
    homes: tuple[str, ...] = ()  # of a parameter: the modules that it belongs to
    sources: tuple[tuple[str, Key], ...] = ()
    value: Stats | None = None
    grad: Stats | None = None
    flows: dict[str, Stats] = field(default_factory=dict)
    watched: bool = True  # its numbers are wanted
    tracked: bool = True  # and those of the gradients that leave it

    def named(self, id: str, kind: NodeKind) -> GraphNode:
        """Return the node that this becomes."""
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
class Arranged:
    """The graph of some vertices, and where the numbers of its nodes and edges come from.

    `keys` are the vertices of its nodes, `inputs` those of the targets of its edges with the
    name of the input, `order` says which of all vertices each node was.
    """

    graph: Graph
    keys: tuple[Key, ...]
    inputs: tuple[tuple[Key, str], ...]
    order: tuple[int, ...]

    def snapshot(self, vertices: Mapping[Key, Vertex]) -> Snapshot:
        """Return the graph with the numbers that are known by now."""
        shown = [vertices[key] for key in self.keys]
        return Snapshot(
            self.graph,
            tuple(vertex.value for vertex in shown),
            tuple(vertex.grad for vertex in shown),
            tuple(vertices[key].flows.get(name) for key, name in self.inputs),
            self.order,
        )


def arrange(
    vertices: Mapping[Key, Vertex],
    roots: Iterable[Key],
    modules: Mapping[str, str] | None = None,
) -> Snapshot:
    """Return the graph of everything that `roots` were computed from, and its numbers."""
    return arranged(vertices, roots, modules).snapshot(vertices)


def arranged(
    vertices: Mapping[Key, Vertex],
    roots: Iterable[Key],
    modules: Mapping[str, str] | None = None,
    others: Iterable[Key] = (),
    tabs: Callable[[dict[Any, str]], tuple[Tab, ...]] | None = None,
) -> Arranged:
    """Make the graph of everything that `roots` and `others` were computed from.

    Args:
        vertices: by key, ops in the order in which they ran.
        roots: keys of the results; they are drawn as outputs.
        modules: the class name of each module path.
        others: keys of further results, drawn as what they are.
        tabs: makes the tabs of the graph from the ids of its nodes, by key and in order.
    """
    roots = tuple(roots)
    wanted = ancestors(vertices, (*roots, *others))
    order: dict[Key, str] = {}
    for key, vertex in vertices.items():
        if key in wanted and (vertex.sources or vertex.kind == "op" or key in roots):
            for _, source in vertex.sources:  # a leaf comes just before its first use
                order.setdefault(source, f"n{len(order)}")
            order.setdefault(key, f"n{len(order)}")
    nodes, edges, inputs = [], [], []
    for key, id in order.items():
        vertex = vertices[key]
        kind = "output" if key in roots and vertex.kind == "op" else vertex.kind
        nodes.append(vertex.named(id, kind))
        for name, source in vertex.sources:
            cut = vertices[source].differentiable and not vertex.differentiable
            way = "cut" if cut and vertex.kind == "op" else "forward"
            edges.append(GraphEdge(f"e{len(edges)}", order[source], id, name, way))
            inputs.append((key, name))
    numbers = {key: number for number, key in enumerate(vertices)}
    used = {node.module for node in nodes}
    shown = {
        path: name
        for path, name in (modules or {}).items()
        if path and any(f"{each}.".startswith(f"{path}.") for each in used)
    }
    return Arranged(
        Graph(tuple(nodes), tuple(edges), shown, tabs=tabs(order) if tabs else ()),
        tuple(order),
        tuple(inputs),
        tuple(numbers[key] for key in order),
    )


def inside(module: str, label: str) -> str:
    """Return a name with its module's path: of a tied parameter, each of its names.

    >>> inside("net", "bias"), inside("", "bias"), inside("net", "embed.weight = head.weight")
    ('net.bias', 'bias', 'net.embed.weight = net.head.weight')
    """
    return TIED.join(f"{module}.{name}" if module else name for name in label.split(TIED))


def gradient_label(label: str) -> str:
    """Return what the gradient of a leaf is called.

    >>> gradient_label("weight"), gradient_label("embed.weight = head.weight")
    ('weight.grad', 'embed.weight.grad = head.weight.grad')
    """
    return TIED.join(f"{name}.grad" for name in label.split(TIED))


def enclosing(path: str) -> list[str]:
    """Return a module's path and those of the modules around it: a.b.c, a.b, a."""
    parts = path.split(".") if path else []
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]


def ancestors(vertices: Mapping[Key, Vertex], roots: Iterable[Key]) -> set[Key]:
    """Return the keys of `roots` and of everything behind them."""
    seen: set[Key] = set()
    stack = [root for root in roots if root in vertices]
    while stack:
        key = stack.pop()
        if key not in seen:
            seen.add(key)
            stack.extend(source for _, source in vertices[key].sources)
    return seen
