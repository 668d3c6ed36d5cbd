"""The graph and the engine that runs it backwards.

While a network computes, every op leaves a `Node` behind: which op it was, which
nodes its inputs came from (`edges`) and the values its derivative rules name
(`saved`). One clock numbers the nodes, and it also stamps every in-place write.
Two things follow from that one number:

* A node is always younger than the nodes it was computed from. Running the
  youngest first is therefore a correct order, and no counting is needed.
* A saved value is stale exactly if it was written to after its node was made.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from .. import dtypes
from ..errors import GradientError, StaleValueError
from ..events import GradientAccumulated, GradientFlowed, emit
from ..modes import current, enable_grad

if TYPE_CHECKING:
    from .op import Op
    from .tensor import Tensor

clock = itertools.count(1).__next__
"""The one clock of the graph: each call returns a later time."""


class Leaf:
    """Stands in `Tensor._node` of a leaf that wants a gradient."""

    def __repr__(self) -> str:
        return "LEAF"


LEAF = Leaf()


class Writes:
    """When a piece of memory was last written, shared by all tensors that view it."""

    time: float = 0
    count = 0
    views: list[weakref.ref[Any]] = []  # replaced, not appended to, while `room` is 0
    room = 0

    def happened(self) -> None:
        """Note a write that happens now."""
        self.time = clock()
        self.count += 1


class Node:
    """One recorded op: a step that backward will take.

    `edges` holds, for each differentiable input, the node it came from, the leaf
    tensor itself, or None where no gradient is wanted. `shape` and `dtype` are
    the output's. `saved` is emptied once backward has used it.
    """

    __slots__ = ("__weakref__", "_order", "dtype", "edges", "hooks", "saved", "shape")

    op: Op
    _order: int
    edges: tuple[Node | Tensor | None, ...]
    saved: tuple[Any, ...] | None
    shape: tuple[int, ...]
    dtype: Any
    hooks: dict[int, Callable[[Any], Any]] | None

    def backward(self, g: Any, edges: tuple[Any, ...], recording: bool) -> Sequence[Any]:
        """Turn the gradient of the output into one gradient per edge (None where edge is)."""
        raise NotImplementedError

    def name(self) -> str:
        """Return PyTorch's name for this node, such as 'MulBackward0'."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that the gradient goes to next, each with its output's number."""
        return tuple(
            (AccumulateGrad(edge) if edge is not None and not edge._order else edge, 0)
            for edge in self.edges
        )

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call `hook(gradient of the output)` before this node runs; it may return another."""
        if self.hooks is None:
            self.hooks = {}
        return RemovableHandle(self.hooks, hook)

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class AccumulateGrad:
    """The end of a path, where the gradient is added to `variable.grad`."""

    __slots__ = ("variable",)
    next_functions = ()

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable

    def name(self) -> str:
        """Return 'AccumulateGrad'."""
        return "AccumulateGrad"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and self.variable is other.variable

    def __hash__(self) -> int:
        return id(self.variable)

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


class RemovableHandle:
    """Takes a hook away again: `handle.remove()`, or at the end of a `with` block."""

    _ids = itertools.count()

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self.hooks = hooks
        self.id = next(self._ids)
        hooks[self.id] = hook

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        self.hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


# What can be wrong when a node runs --------------------------------------------------


def second_backward(node: Node) -> GradientError:
    return GradientError(
        "backward",
        f"the values saved by {node.name()} were freed: "
        "this graph was already run backward through a second time",
        hint="call backward(retain_graph=True) the first time, or compute the loss again; "
        "a loss summed over steps keeps old graphs alive: add loss.item() or loss.detach()",
    )


def stale_value(node: Node, name: str, writes: Writes) -> StaleValueError:
    if writes.time == float("inf"):
        return StaleValueError(
            node.op.name,
            f"`{name}` is an inference tensor and cannot be saved for backward",
            hint="make it outside inference_mode(), or use x.clone() of it",
        )
    return StaleValueError(
        node.op.name,
        f"one of the variables needed for gradient computation has been modified by an "
        f"inplace operation: `{name}` (written {writes.count} times) is needed by "
        f"{node.name()}, and was overwritten after {node.op.name} had used it",
        hint=f"write x = x + 1 instead of x += 1, or work on {name}.clone()",
    )


# Making gradients fit ----------------------------------------------------------------


def unbroadcast(g: Any, shape: tuple[int, ...]) -> Any:
    """Sum `g` over the axes that broadcasting added or stretched to get from `shape`.

    Broadcasting copies a value to many places; each place sends a gradient back.
    """
    from ..ops import expand, sum

    if len(g.shape) < len(shape) or any(
        have == 1 != want
        for have, want in zip(reversed(g.shape), reversed(shape), strict=False)
    ):
        return expand(g, shape)
    added = len(g.shape) - len(shape)
    g = sum(g, tuple(range(added))) if added else g
    stretched = tuple(
        axis for axis, (have, want) in enumerate(zip(g.shape, shape, strict=True)) if have != want
    )
    return sum(g, stretched, True) if stretched else g


def cast(g: Any, array_dtype: Any, recording: bool) -> Any:
    """Give `g` the number type of the tensor it is the gradient of."""
    if (g._array if recording else g).dtype.kind == "c" and array_dtype.kind != "c":
        from ..ops import real

        g = real(g)
    return g.to(dtypes.of(array_dtype)) if recording else g.astype(array_dtype)


# The engine --------------------------------------------------------------------------


class Engine:
    """One backward pass: the gradients that wait, the youngest node first."""

    def __init__(self, recording: bool, retain: bool, wanted: set[Any] | None) -> None:
        self.recording = recording  # create_graph: gradients are Tensors and are recorded
        self.retain = retain
        self.wanted = wanted  # autograd.grad: only edges on the way to these; None: all
        self.waiting: dict[Any, Any] = {}  # node or leaf -> sum of its gradients so far
        self.queue: list[tuple[int, Node]] = []
        self.leaves: list[Tensor] = []

    def send(self, g: Any, edge: Any, borrowed: bool) -> None:
        """Add `g` to what waits for `edge`. A borrowed array may be in use elsewhere."""
        if edge._order:
            shape, array_dtype = edge.shape, edge.dtype
        else:
            shape, array_dtype = edge._array.shape, edge._array.dtype
        if g.shape != shape:
            g, borrowed = unbroadcast(g, shape), False
        if (g._array.dtype if self.recording else g.dtype) is not array_dtype:
            g = cast(g, array_dtype, self.recording)
        held = self.waiting.get(edge)
        if held is not None:
            self.waiting[edge] = held + g
        elif edge._order:
            self.waiting[edge] = g
            heappush(self.queue, (-edge._order, edge))
        else:
            # A leaf will keep this array as its `.grad`, so it must be nobody else's.
            if not self.recording and (borrowed or g.base is not None):
                g = g.copy()
            self.waiting[edge] = g
            self.leaves.append(edge)

    def run(self, captured: dict[Any, Any]) -> None:
        """Run every node that can be reached, youngest first."""
        waiting, queue, send = self.waiting, self.queue, self.send
        listeners = current().listeners
        while queue:
            node = heappop(queue)[1]
            g = waiting.pop(node)
            if node.hooks:
                g = run_hooks(node.hooks, g, self.recording)
            if node in captured:
                captured[node] = g
            edges = node.edges
            if self.wanted is not None:
                edges = tuple(edge if edge in self.wanted else None for edge in edges)
            if listeners:
                partials = self.told(node, g, edges)
            else:
                partials = node.backward(g, edges, self.recording)
            for edge, partial in zip(edges, partials, strict=True):
                if edge is not None and partial is not None:
                    send(partial, edge, partial is g)
            if not self.retain and node.saved:
                node.saved = None

    def told(self, node: Node, g: Any, edges: tuple[Any, ...]) -> Sequence[Any]:
        """Run one node and tell the listeners what flowed out of it."""
        partials = node.backward(g, edges, self.recording)
        for index, partial in enumerate(partials):
            if partial is not None:
                emit(GradientFlowed(node, index, partial))
        return partials


def run_hooks(hooks: dict[int, Any], g: Any, recording: bool) -> Any:
    """Show `g` to each hook in turn; what a hook returns takes its place."""
    from .tensor import Tensor, wrap

    for hook in tuple(hooks.values()):
        shown = g if recording else wrap(g)
        replaced = hook(shown)
        if replaced is None:
            continue
        if not isinstance(replaced, Tensor) or replaced.shape != tuple(g.shape):
            raise GradientError(
                "hook",
                "a gradient hook must return None or a tensor of the gradient's shape",
                {"gradient": str(tuple(g.shape)), "returned": describe(replaced)},
            )
        g = replaced if recording else replaced._array
    return g


def describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else str(tuple(shape))


def reachable(roots: Sequence[Any]) -> list[Any]:
    """Return every node and leaf behind `roots`, oldest first."""
    seen, stack = set(), [root for root in roots if root is not None]
    while stack:
        edge = stack.pop()
        if edge not in seen:
            seen.add(edge)
            if edge._order:
                stack.extend(step for step in edge.edges if step is not None)
    return sorted(seen, key=lambda edge: edge._order)


def on_the_way(roots: Sequence[Any], targets: Sequence[Any]) -> set[Any]:
    """Return the targets and all nodes from which one of them can be reached."""
    wanted = set(targets)
    for edge in reachable(roots):
        if edge._order and any(step in wanted for step in edge.edges if step is not None):
            wanted.add(edge)
    return wanted


def edge_of(tensor: Tensor) -> Any:
    """Return what the graph knows `tensor` by: its node, or itself if it is a leaf."""
    return tensor if tensor._node is LEAF else tensor._node


def run_backward(
    roots: Sequence[Tensor],
    gradients: Sequence[Any],
    retain_graph: bool,
    create_graph: bool,
    inputs: Sequence[Tensor] | None = None,
) -> dict[Any, Any]:
    """Run backward from `roots`, whose gradients are given.

    Without `inputs`, gradients are added to the `.grad` of the leaves. With
    them, returns the gradient of each (by its edge), and touches no `.grad`.
    """
    targets = None if inputs is None else [edge_of(tensor) for tensor in inputs]
    edges = [edge_of(root) for root in roots]
    wanted = None if targets is None else on_the_way(edges, targets)
    engine = Engine(create_graph, retain_graph, wanted)
    captured = dict.fromkeys(targets or ())
    for edge, gradient in zip(edges, gradients, strict=True):
        if edge is not None and (wanted is None or edge in wanted):
            engine.send(gradient if create_graph else gradient._array, edge, True)
    if create_graph:
        with enable_grad():
            engine.run(captured)
    else:
        engine.run(captured)
    for leaf in engine.leaves:
        g = engine.waiting.pop(leaf)
        if leaf._hooks:
            g = run_hooks(leaf._hooks, g, create_graph)
        if targets is None:
            accumulate(leaf, g, create_graph)
        elif leaf in captured:
            captured[leaf] = g
    return captured


def accumulate(leaf: Tensor, g: Any, recording: bool) -> None:
    """Add this backward's gradient to `leaf.grad`; the first one becomes it."""
    from .tensor import wrap

    held = leaf._grad
    if held is None:
        leaf._grad = g if recording else wrap(g)
    elif recording:
        leaf._grad = held + g
    else:
        held._array += g
        held._bump()
    if current().listeners:
        emit(GradientAccumulated(leaf, g))

