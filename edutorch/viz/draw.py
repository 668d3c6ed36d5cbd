"""`draw`: the picture of the graph behind a tensor, or of what a function computes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from ..autograd import enable_grad, grad
from ..core.autograd.graph import reachable
from ..core.tensor import Tensor
from ..errors import EdutorchError
from ..events import listening
from ..nn import Module
from ..ops import ones_like
from ..utils._pytree import tree_leaves, tree_map
from .backward_walk.backward_steps import GraphDirection, backward_snapshot
from .graph.graph_reader import collect_vertices, read_graph, root_key
from .graph.model import Key, NodeKind, Snapshot, Vertex, arrange
from .graph.names import Names, find_models, variables
from .live.recorder import Recorder
from .render.static import Drawing

if TYPE_CHECKING:
    from ..fx import Graph, Node


class NotDrawableError(EdutorchError, TypeError):
    """What was given has no graph that could be drawn."""


def draw(
    what: object,
    *inputs: Any,
    model: Module | None = None,
    names: Mapping[str, Tensor] | None = None,
    graph: GraphDirection = "forward",
    open: str | Iterable[str] = (),
    rankdir: Literal["LR", "TB"] | None = None,
    **settings: Any,
) -> Drawing:
    """Draw how something is computed: a box for each op and leaf, with what is known.

    For a tensor, the graph behind it is read: values and gradients of leaves are always
    known, those in between only while the graph still holds them (before `backward`). A
    tensor without a graph is one box. A module or function is called with `inputs`, and
    everything is recorded: also what has no gradient (in grey), and passes of backward inside.

    Args:
        what: a tensor, or several in a list, tuple or dict; a module or a function; or a graph
            of `edutorch.fx`, a capture, a compiled function that was called, or, without inputs,
            a model that was loaded from a file.
        inputs: what the module or function is called with: tensors, also in tuples, lists and
            dicts, or anything else.
        model: parameters are named as in this model; otherwise as in the caller's.
        names: names for leaves; otherwise they are named after the caller's variables, or the
            arguments of the function.
        graph: "forward", "backward" (the derivatives, from the results to the leaves) or
            "both", one above the other. The gradients of a function are those of the sum of
            all its results, each element counted once.
        open: groups to show open: paths of modules, as "layers.0".
        rankdir: "LR" draws from left to right, "TB" from top to bottom; by default the direction
            that suits the graph, in several rows if necessary.
        settings: keyword arguments of the module or function. One that has the name of an
            argument of `draw` needs a lambda.

    Raises: NotDrawableError: `what` is something else, or there is nothing to draw.

    >>> x = tensor(3.0, requires_grad=True)
    >>> picture = edutorch.viz.draw(x * x)
    >>> print(picture.table())
    node    module  shape           value  gradient  from
    n0 x            scalar float32  3      —
    n1 mul          scalar float32  9      —         n0 n0
    """
    if graph not in ("forward", "backward", "both"):
        raise NotDrawableError(
            "viz.draw", f"unknown graph {graph!r}", hint="use 'forward', 'backward' or 'both'"
        )
    caller_names = CallerNames(resolve_model(what, model, inputs), names or {}, sys._getframe(1))
    whole = snapshot_of(what, inputs, settings, caller_names, graph)
    drawing = Drawing(backward_snapshot(whole, graph), rankdir)
    return drawing.open(*([open] if isinstance(open, str) else open)) if open else drawing


def snapshot_of(
    what: object,
    inputs: tuple[Any, ...],
    settings: Mapping[str, Any],
    names: CallerNames,
    graph: GraphDirection,
) -> Snapshot:
    """Return the graph of whatever `draw` was given, as far as it is needed for `graph`."""
    known = graph_of(what)
    if known is None and not inputs and isinstance(what, Module):  # a model from a file
        own = getattr(what, "graph", None)
        known = own if hasattr(own, "find_nodes") else None
    if known is not None:
        refuse_settings("a graph", settings)
        whole = snapshot(known)
    elif isinstance(what, Tensor | list | tuple | dict):
        refuse_settings("a tensor", settings)
        whole = trace_results(what, names)
    elif callable(what):
        whole = record_call(what, inputs, settings, names, graph)
    else:
        raise NotDrawableError(
            "viz.draw",
            f"expected a tensor, a module or a function, got {type(what).__name__}",
            hint="draw a result: y = f(x); viz.draw(y)",
        )
    if graph == "backward" and not any(node.differentiable for node in whole.graph.nodes):
        raise NotDrawableError(
            "viz.draw", "nothing that has a gradient was computed",
            hint="there is no graph of backward; graph='forward' shows what was computed",
        )  # fmt: skip
    return whole


def refuse_settings(subject: str, settings: Mapping[str, Any]) -> None:
    """Raise an error if keyword arguments were given with something that is not called."""
    if settings:
        raise NotDrawableError(
            "viz.draw", f"{subject} takes no argument {next(iter(settings))!r}",
            hint="keyword arguments go to a module or function: viz.draw(f, x, scale=2)",
        )  # fmt: skip


def resolve_model(what: object, model: Module | None, inputs: tuple[Any, ...]) -> Module | None:
    """Return the model of `draw(tensor, model)`, or the one given by name.

    Raises: NotDrawableError: something else was given beside a tensor.
    """
    if not isinstance(what, Tensor | list | tuple | dict):
        return model
    if len(inputs) == 1 and hasattr(inputs[0], "named_parameters"):
        return inputs[0]
    if inputs:
        raise NotDrawableError(
            "viz.draw", f"a tensor takes no inputs, got {len(inputs)}",
            hint="draw the result: viz.draw(f(x)), or the function: viz.draw(f, x)",
        )  # fmt: skip
    return model


def trace_results(what: object, names: CallerNames) -> Snapshot:
    """Return the graph behind a tensor, or behind all in a list, tuple or dict."""
    if isinstance(what, Tensor):
        return read_graph(what, names)
    results = list(named_leaves(what, ""))
    wrong = next((item for _, item in results if not isinstance(item, Tensor)), None)
    if not all(isinstance(item, Tensor) for _, item in results) or not results:
        inside = f"a {type(wrong).__name__}" if results else "nothing"
        raise NotDrawableError(
            "viz.draw", f"expected tensors, got a {type(what).__name__} with {inside} in it",
            hint="draw results: viz.draw([y, z])",
        )  # fmt: skip
    vertices: dict[Key, Vertex] = {}
    for path, result in results:
        for key, vertex in collect_vertices(result, names).items():
            known = vertices.setdefault(key, vertex)
            known.value, known.grad = known.value or vertex.value, known.grad or vertex.grad
        root = vertices[root_key(result)]
        if root.kind == "op" and not root.variable and not path.startswith("["):
            root.variable = path
    in_order = sorted(vertices, key=lambda key: key if isinstance(key, int) else -1)
    roots = list(dict.fromkeys(root_key(result) for _, result in results))
    return arrange({key: vertices[key] for key in in_order}, roots, names.classes)


def record_call(
    what: Callable[..., Any],
    inputs: tuple[Any, ...],
    settings: Mapping[str, Any],
    names: CallerNames,
    graph: GraphDirection,
) -> Snapshot:
    """Record one call. For the graph of backward, gradients are computed and discarded."""
    inputs, settings = make_differentiable(what, inputs, names, settings)
    recorder = CallRecorder(names, detailed=True)
    with enable_grad(), listening(recorder):
        result = what(*inputs, **settings)
        results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        outputs = [output for output in results if wants_gradient(output)]
        # Several results are one backward pass, so each node runs once.
        if graph != "forward" and outputs:
            steps = reachable(list({id(output._node): output._node for output in outputs}.values()))
            leaves = [leaf for leaf in steps if isinstance(leaf, Tensor)]
            gradients = grad(
                outputs, leaves, [ones_like(output) for output in outputs], allow_unused=True
            )
            for leaf, gradient in zip(leaves, gradients, strict=True):
                recorder.record_leaf_gradient(leaf, gradient)
    recorder.finish(results)
    if recorder.snapshot is None:
        raise NotDrawableError(
            "viz.draw", "nothing was computed from a tensor, and no tensor was returned",
            hint="give the function a tensor, and let it return what it computes",
        )  # fmt: skip
    return recorder.snapshot


class CallRecorder(Recorder):
    """Records one call as a whole: whatever trains or runs backward in it, no step ends."""

    def finish_step(self) -> None:
        """Do nothing: what a function computes is one picture."""


def wants_gradient(thing: object) -> bool:
    return isinstance(thing, Tensor) and thing.grad_fn is not None


def make_differentiable(
    what: Callable[..., Any],
    inputs: tuple[Any, ...],
    names: CallerNames,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return the arguments, such that something is recorded: a plain function needs a leaf.

    The tensors among them are named on the way, each once.
    """
    for path, tensor in argument_paths(what, inputs, settings):
        if isinstance(tensor, Tensor):
            names.name_input(tensor, path)
    tensors = [leaf for leaf in tree_leaves((inputs, dict(settings))) if isinstance(leaf, Tensor)]
    # A model records by its parameters; copies of its inputs would only confuse.
    if hasattr(what, "parameters") or any(tensor.requires_grad for tensor in tensors):
        return inputs, settings
    floating = {id(tensor): tensor for tensor in tensors if tensor.is_floating_point()}
    twins = {key: names.twin(tensor) for key, tensor in floating.items()}
    return tree_map(lambda leaf: twins.get(id(leaf), leaf), (inputs, dict(settings)))


def argument_paths(
    what: Callable[..., Any], inputs: tuple[Any, ...], settings: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a call's arguments, each with its path: "batch.image", "state[0]"."""
    try:
        bound = inspect.signature(getattr(what, "forward", what)).bind(*inputs, **settings)
        arguments: Mapping[str, Any] = bound.arguments
    except (TypeError, ValueError):  # the call itself will say what is wrong with them
        arguments = {"input": inputs[0] if len(inputs) == 1 else inputs, **settings}
    for name, value in arguments.items():
        yield from named_leaves(value, name)


def named_leaves(value: object, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested tuples, lists and dicts, each with its path."""
    if isinstance(value, Mapping):
        items = [(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        items = [(f"{path}.{key}" if path else key, getattr(value, key)) for key in value._fields]
    elif isinstance(value, tuple | list):
        items = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        yield path, value
        return
    for inner, item in items:
        yield from named_leaves(item, inner)


class CallerNames(Names):
    """Names that the caller of `draw` gave, and those of the caller's variables."""

    def __init__(
        self, model: Module | None, named_tensors: Mapping[str, Tensor], frame: FrameType
    ) -> None:
        super().__init__([model] if model is not None else find_models(variables(frame)), frame)
        for name, tensor in named_tensors.items():
            role, module, _ = self.of(tensor)
            self._leaves[id(tensor)] = role, module, name

    def name_input(self, tensor: Tensor, path: str) -> None:
        """Name an input by its path among the arguments, unless it has a name already."""
        known = id(tensor) in self._leaves
        if not known and tensor.grad_fn is None and not self.variable_of(tensor):
            self.name(tensor, path)

    def twin(self, tensor: Tensor) -> Tensor:
        """Return a leaf with the same elements and the same name that requires a gradient."""
        leaf = tensor.detach().requires_grad_()
        self._leaves[id(leaf)] = self.of(tensor)
        return leaf


# Graphs of edutorch.fx: captured, traced, or inside a compiled function ------------------------


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
    shape, dtype = type_of(node)
    return Vertex(
        kind=node_kind(node),
        label=str(node.target) if isinstance(node.target, str) else node.name,
        module=str(node.meta.get("module") or ""),
        shape=shape,
        dtype=dtype,
        formulas=formulas,
        device=str(node.meta.get("device", "cpu")),
        line=str(node.meta.get("line") or ""),
        sources=tuple(sources),
    )


def type_of(node: Node) -> tuple[tuple[int, ...], str]:
    """Return shape and dtype of a node; a shape with named sizes is written before the dtype."""
    shape = tuple(node.meta.get("shape", ()))
    dtype = "number" if node.meta.get("number") else str(node.meta.get("dtype", ""))
    if all(isinstance(size, int) for size in shape):
        return shape, dtype
    return (), f"{'×'.join(map(str, shape))} {dtype}"


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
