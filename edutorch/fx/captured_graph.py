"""The result of a capture: its graph, the sources of its inputs, the uses of its outputs.

If a result requires gradients, the derivative rules run once on traced arrays, right after the
function. What they compute becomes the graph `backward`; the forward values that it needs become
"saved" outputs of the forward graph.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import backends
from ..core.autograd.engine import Engine, conjugate
from ..core.autograd.graph import LEAF, record
from ..core.autograd.graph import Node as AutogradNode
from ..core.registry import REGISTRY
from ..core.tensor import Tensor, fill, share_version
from ..dtypes import dtype
from ..nn import Module
from ..ops.random import default_generator
from ..optim.optimizer import Optimizer
from ..utils._pytree import tree_flatten
from . import primitives
from .captured_state import CapturedState
from .graph import Graph, array_meta
from .node import Node
from .traced_array import TracedArray

if TYPE_CHECKING:
    from .capture import CaptureSession

__all__ = ["Backward", "Captured", "Input", "Output", "argument_names", "split_graph"]


@dataclass
class Backward:
    """The graph of the gradients.

    Its inputs are the `saved` values, ("input", index) or ("output", index) of the forward
    graph, and a gradient for each output in `roots`; its outputs are the gradients of the inputs
    in `targets`.
    """

    graph: Graph
    saved: list[tuple[str, int]] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)


@dataclass
class Input:
    """The source of an input of the graph in each call.

    `kind`: "argument" (element `index` of the flattened arguments), "tensor" (always this
    one), "grad" (the gradient of `tensor`), "number" (`holder[key]`).
    """

    kind: str
    name: str
    index: int = -1
    tensor: Any = None
    holder: Any = None
    key: Any = None


@dataclass
class Output:
    """The use of an output of the graph.

    `kind`: "result" (leaf `index` of what the function returns), "grad" (becomes the
    gradient of `tensor`), "write" (is written into input `index`), "saved" (for backward).
    """

    kind: str
    index: int = -1
    tensor: Any = None
    shares: int = -1  # the input, or -2 - the earlier output, that it shares memory with
    view: Any = None  # (shape, strides, offset in bytes, dtype) within that input


@dataclass
class Captured:
    """The result of a capture.

    `graph` computes `outputs` from `inputs`. `result` is what the function returned, and
    `leaves` describes it: for each leaf ("tensor", index of the output), ("input", index),
    ("same", earlier leaf) or ("value", the value). `backward` is the graph of the gradients, if
    the result has any. `reasons` says why the graph must not be used.
    """

    graph: Graph
    inputs: list[Input] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    leaves: list[tuple[str, Any]] = field(default_factory=list)
    spec: Any = None
    result: Any = None
    reasons: list[tuple[str, str]] = field(default_factory=list)
    reach: CapturedState | None = None
    backward: Backward | None = None
    spent: list[int] = field(default_factory=list)  # outputs whose autograd graph was freed inside
    grads: list[tuple[Any, Any]] = field(default_factory=list)  # (tensor, None or shape before)
    dropped: list[Any] = field(default_factory=list)  # tensors whose gradient becomes None
    again: bool = False  # capture the next call: this one initialized some state
    changes: bool = False  # the function changes Python state: it can never be compiled
    original: Graph | None = None  # forward and backward together, as captured

    def __repr__(self) -> str:
        count = sum(1 for _ in self.graph.nodes)
        why = f", not usable: {self.reasons[0][0]}" if self.reasons else ""
        return f"<captured graph of {count} nodes{why}>"


# Helpers of the capture ---------------------------------------------------------------------------


def flat_tensors(value: object) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]


def is_plain_value(value: object) -> bool:
    """Return True for an immutable Python value, which every call may return."""
    return value is None or isinstance(value, bool | int | float | complex | str | bytes | dtype)


def has_user_hooks(optimizer: Optimizer) -> bool:
    """Return True if users have registered step hooks on an optimizer."""
    hooks = (hook for when in ("step_pre", "step_post") for hook in optimizer.hooks_for(when))
    ours = ("edutorch.",)  # schedulers count the steps
    return any(not (getattr(hook, "__module__", "") or "").startswith(ours) for hook in hooks)


def make_default_generators() -> None:
    """Make those of all devices in use: one that is made in a capture would be a new one."""
    for cards in backends.all_cards():
        for backend in cards.in_use():
            default_generator(backend)


def python_random_state() -> Any:
    """Return the states of the global generators of Python and NumPy."""
    state: Any = np.random.get_state()
    return random.getstate(), state[0], state[1].tobytes(), state[2:]


def argument_names(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[str]:
    """Return a name for each leaf of the arguments: that of its parameter."""
    target = function.forward if isinstance(function, Module) else function
    try:
        bound = inspect.signature(target).bind(*args, **kwargs)
        parameters = list(bound.arguments)
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for position, value in enumerate(args):
        name = parameters[position] if position < len(parameters) else f"arg{position}"
        count = len(tree_flatten(value)[0])
        names += [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
    for key, value in kwargs.items():
        count = len(tree_flatten(value)[0])
        names += [key] if count == 1 else [f"{key}_{i}" for i in range(count)]
    return names


def add_identity_step(tensor: Tensor) -> Tensor:
    """Return an alias of a tensor in the same memory, with the tensor as its history."""
    step = fill(object.__new__(Tensor), tensor._array)
    record(REGISTRY["convert_dtype"], step, {"input": tensor, "dtype": tensor.dtype})
    return share_version(step, tensor)


# The graph of the gradients -----------------------------------------------------------------------


@dataclass
class BackwardNodes:
    """The nodes of the gradients, before the graph is split."""

    roots: list[int]
    starts: list[Node]
    gradients: list[tuple[Node, Node | None]]  # (placeholder of the input, node of its gradient)


def input_edges(capturing: CaptureSession) -> dict[Any, Node]:
    """Return the placeholder of each input, by its autograd edge."""
    targets: dict[Any, Node] = {}
    for tensor, traced in capturing.patches.lifted:
        if tensor._node is LEAF:
            targets[tensor] = traced._node or traced.node
        # It has got a history inside of the function.
        elif tensor._node is not None and tensor._node._order > capturing.start:
            targets[tensor._node] = traced._node or traced.node
    inputs = capturing.tracer.inputs
    placeholders = {id(traced): node for node, traced in inputs if traced is not None}
    for tensor, traced in capturing.patches.lifted:
        edge = tensor if tensor._node is LEAF else tensor._node
        if edge is not None and edge in targets:
            targets[edge] = placeholders[id(traced)]
    return targets


def build_backward_nodes(capturing: CaptureSession, tensors: list[Tensor]) -> BackwardNodes | None:
    """Run backward from the results, and return the nodes of the gradients."""
    tracer, captured, targets = capturing.tracer, capturing.captured, input_edges(capturing)
    roots, starts, edges, partials = [], [], [], []
    for position, tensor in enumerate(tensors):
        node = tensor._node
        if node is None or node is LEAF:
            continue
        nodes = reachable_nodes(node, capturing.start, targets)
        # The function has run backward from here.
        if any(node.holds and node.saved is None for node in nodes):
            captured.spent.append(position)
            continue
        if any(node.hooks for node in nodes):
            tracer.poison("a hook is hung on a tensor that is made inside")
            return None
        if tensor._array.dtype.kind == "c":
            tracer.poison("gradients of complex results are wanted")
            return None
        # Any values: the rules are linear, and only what they do is recorded.
        backend = tensor._array.backend
        held = backend.library.ones(tensor._array.shape, tensor._array.dtype)
        start = tracer.graph.placeholder(f"grad_{len(roots)}")
        start.meta.update(array_meta(held), line=None, module="", phase="backward")
        traced = TracedArray(backend, held, start)
        tracer.keep_alive.append(held)
        roots.append(position)
        starts.append(start)
        edges.append(node)
        partials.append(traced)
    if not roots:
        return None
    gradients = run_rules(capturing, edges, partials, targets)
    return BackwardNodes(roots, starts, [
        (node, None if gradients.get(edge) is None else gradients[edge].node)
        for edge, node in targets.items()
    ])  # fmt: skip


def reachable_nodes(root: AutogradNode, start: int, targets: dict[Any, Node]) -> list[Any]:
    """Return the autograd nodes reachable from a root, newer than `start`, up to the targets."""
    seen: set[Any] = set()
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if node in seen or node._order <= start or node in targets:
            continue
        seen.add(node)
        stack.extend(edge for edge in node.edges if edge is not None)
    return list(seen)


def run_rules(
    capturing: CaptureSession, edges: list[Any], partials: list[Any], targets: dict[Any, Node]
) -> dict[Any, Any]:
    """Run the engine from the roots to the targets; return the gradient of each target."""
    nodes = {node for edge in edges for node in reachable_nodes(edge, capturing.start, targets)}
    wanted: set[Any] = set(targets)  # only these paths: a gradient that nobody asked for is work
    # Inputs before what is computed from them.
    for node in sorted(nodes, key=lambda node: node._order):
        if any(edge in wanted for edge in node.edges if edge is not None):
            wanted.add(node)
    steps = dict.fromkeys(edge for edge in targets if edge._order)
    engine = Engine(False, True, wanted, steps)
    pairs = [(e, p) for e, p in zip(edges, partials, strict=True) if e in wanted]
    if pairs:
        engine.run(tuple(e for e, _ in pairs), [p for _, p in pairs])
    gradients: dict[Any, Any] = dict(engine.captured)
    for leaf in engine.leaves:
        gradients[leaf] = engine.pending.pop(leaf)
    return {
        edge: None if g is None else (conjugate(g, False) if edge._order else g)
        for edge, g in gradients.items()
    }


def split_graph(
    capturing: CaptureSession, results: list[Node], boundary: Node, nodes: BackwardNodes
) -> tuple[Graph, Backward]:
    """Split the captured graph into a forward and a backward graph."""
    graph = capturing.tracer.graph
    # What the function computes; later nodes belong to the gradients.
    before = nodes_up_to(graph, boundary) | ancestors(results)
    gradients = [node for _, node in nodes.gradients if node is not None]
    needed = ancestors(gradients)
    starts = set(nodes.starts)
    backward_only = needed - before - starts
    # In the order of the graph, which is topological.
    later = [node for node in graph.nodes if node in backward_only]
    inside = starts | set(later)
    used = [input_node for node in later for input_node in node.all_input_nodes]
    saved = dict.fromkeys(node for node in [*used, *gradients] if node not in inside)
    forward, copies = Graph(), {}
    for node in graph.nodes:
        if node in before and node not in inside:
            copies[node] = forward.node_copy(node, copies.__getitem__)
    result = Backward(Graph(), roots=nodes.roots)
    ends = [copies[result] for result in results]
    copied = save_values(capturing, result, forward, copies, list(saved), ends)
    forward.output(tuple(ends))
    forward.writes = dict(graph.writes)
    for node in [*nodes.starts, *later]:
        copied[node] = result.graph.node_copy(node, copied.__getitem__)
    order = {node: i for i, (node, _) in enumerate(capturing.tracer.inputs)}
    result.targets = [order[node] for node, g in nodes.gradients if g is not None]
    result.graph.output(tuple(copied[g] for _, g in nodes.gradients if g is not None))
    forward.lint()
    result.graph.lint()
    return forward, result


def save_values(
    capturing: CaptureSession, result: Backward, forward: Graph, copies: dict[Node, Node],
    saved: list[Node], ends: list[Node],
) -> dict[Node, Node]:  # fmt: skip
    """Add placeholders for saved values to the backward graph, and return them.

    A saved value that is not an input of the forward graph becomes an output of it.
    """
    graph, outputs = capturing.tracer.graph, capturing.captured.outputs
    written = {capturing.tracer.inputs[number][0] for number in graph.writes.values()}
    input_indices = {
        node: i for i, node in enumerate(n for n in forward.nodes if n.op == "placeholder")
    }
    placeholders: dict[Node, Node] = {}
    for node in saved:
        if node.op == "get_attr":  # a constant is copied into both graphs, not saved
            placeholders[node] = result.graph.node_copy(node)
            continue
        placeholders[node] = result.graph.placeholder(node.name)
        placeholders[node].meta = dict(node.meta)
        if node.op == "placeholder" and node not in written:
            result.saved.append(("input", input_indices[copies[node]]))
            continue
        result.saved.append(("output", len(ends)))
        outputs.append(capturing.output("saved"))
        value = copies[node]
        if node.op == "placeholder":  # it is overwritten, and backward needs the old value
            value = forward.call_function(primitives.copy, (value,))
            value.meta = dict(node.meta)
        ends.append(value)
    return placeholders


def nodes_up_to(graph: Graph, boundary: Node) -> set[Node]:
    """Return the nodes up to `boundary`."""
    needed: set[Node] = set()
    for node in graph.nodes:
        needed.add(node)
        if node is boundary:
            break
    return needed


def ancestors(nodes: list[Node]) -> set[Node]:
    """Return the nodes and everything that they are computed from."""
    seen: set[Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += node.all_input_nodes
    return seen


def unwrap_saved(results: list[Tensor], start: int) -> None:
    """Replace traced arrays by plain ones in the saved tensors of the results' history."""
    for tensor in results:
        if tensor._node is None or tensor._node is LEAF:
            continue
        for node in reachable_nodes(tensor._node, start, {}):
            saved = node.saved
            if type(saved) is tuple and any(isinstance(item, TracedArray) for item in saved):
                node.saved = tuple(
                    item.held if isinstance(item, TracedArray) else item for item in saved
                )
