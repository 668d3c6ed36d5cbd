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
from .registry import public

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
    the output's. `saved` is emptied once backward has used it, if it `holds` arrays.
    """

    __slots__ = ("__weakref__", "_order", "dtype", "edges", "hooks", "saved", "shape")

    op: Op
    holds = False
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
    (Only methods that tensors and arrays share are used: `g` may be either.)
    """
    have = g.shape
    added = len(have) - len(shape)
    if added < 0 or any(size == 1 != want for size, want in zip(have[added:], shape, strict=True)):
        return public("expand")(g, shape)
    axes = (*range(added), *(added + i for i, want in enumerate(shape) if have[added + i] != want))
    g = g.sum(axes)
    return g if g.shape == shape else g.reshape(shape)


def fit(g: Any, shape: tuple[int, ...], array_dtype: Any, recording: bool) -> Any:
    """Give `g` the shape and the number type of the tensor it is the gradient of."""
    if g.shape != shape:
        g = unbroadcast(g, shape)
    have = (g._array if recording else g).dtype
    if have == array_dtype:
        return g
    if have.kind == "c" and array_dtype.kind != "c":
        g = public("real")(g)
    return g.to(dtypes.of(array_dtype)) if recording else g.astype(array_dtype)


# The engine --------------------------------------------------------------------------


LARGE = 1024  # numbers; from here on adding in place beats making a new array


class Engine:
    """One backward pass: the gradients that wait, the youngest node first."""

    def __init__(self, recording: bool, retain: bool, wanted: set[Any] | None) -> None:
        self.recording = recording  # create_graph: gradients are Tensors and are recorded
        self.retain = retain
        self.wanted = wanted  # autograd.grad: only edges on the way to these; None: all
        self.waiting: dict[Any, Any] = {}  # node or leaf -> sum of its gradients so far
        self.leaves: list[Tensor] = []
        self.lent: dict[Tensor, Any] = {}  # leaf -> array that may be in use elsewhere too

    def run(self, edges: Sequence[Any], partials: Sequence[Any], captured: dict[Any, Any]) -> None:
        """Send `partials` to `edges`, then run every node that can be reached, youngest first.

        These two loops are what backward costs on small tensors. So they are in one
        function, and the next node waits in `youngest`: a chain never needs the heap.
        """
        waiting, recording, retain, wanted = self.waiting, self.recording, self.retain, self.wanted
        youngest, older = None, []  # all nodes that wait; `older` is a heap
        summed = set()  # edges whose sum is a large array of our own
        node, g, listeners = None, None, current().listeners
        while True:
            for partial, edge in zip(partials, edges):  # noqa: B905 (strict has its price)
                if partial is None or edge is None:
                    continue
                order = edge._order
                target = edge if order else edge._array
                array = partial._array if recording else partial
                if array.shape != target.shape or array.dtype is not target.dtype:
                    partial = fit(partial, target.shape, target.dtype, recording)
                held = waiting.get(edge)
                if held is not None:
                    if edge in summed:
                        held += partial
                    else:
                        held = waiting[edge] = held + partial
                        if not recording and held.size > LARGE:
                            summed.add(edge)
                    continue
                waiting[edge] = partial
                if order:
                    if youngest is None:
                        youngest = edge
                    elif order < youngest._order:
                        heappush(older, (-order, edge))
                    else:
                        heappush(older, (-youngest._order, youngest))
                        youngest = edge
                else:
                    self.leaves.append(edge)
                    if not recording and (node is None or partial is g or partial.base is not None):
                        self.lent[edge] = partial

            if older and (youngest is None or -older[0][0] > youngest._order):
                node = heappop(older)[1]
            elif youngest is None:
                return
            else:
                node, youngest = youngest, None
            g = waiting.pop(node)
            if node.hooks:
                g = run_hooks(node.hooks, g, recording)
            if node in captured:
                captured[node] = g
            edges = node.edges
            if wanted is not None:
                edges = tuple(edge if edge in wanted else None for edge in edges)
            partials = node.backward(g, edges, recording)
            if listeners:
                self.tell(node, partials)
            if not retain and node.holds:
                node.saved = None

    def tell(self, node: Node, partials: Sequence[Any]) -> None:
        """Tell the listeners what flowed out of a node."""
        for index, partial in enumerate(partials):
            if partial is not None:
                emit(GradientFlowed(node, index, partial))

    def arrived(self, leaf: Tensor) -> Any:
        """Take the gradient of a leaf, which keeps it: it must be nobody else's array."""
        g = self.waiting.pop(leaf)
        if not self.recording and g is self.lent.get(leaf):
            g = g.copy()
        return run_hooks(leaf._hooks, g, self.recording) if leaf._hooks else g


def run_hooks(hooks: dict[int, Any], g: Any, recording: bool) -> Any:
    """Show `g` to each hook in turn; what a hook returns takes its place."""
    for hook in tuple(hooks.values()):
        shown = g if recording else tensors.wrap(g)
        replaced = hook(shown)
        if replaced is None:
            continue
        if not isinstance(replaced, tensors.Tensor) or replaced.shape != tuple(g.shape):
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
    wanted = None
    if targets is not None:
        wanted = on_the_way(edges, targets)
        edges = [edge if edge in wanted else None for edge in edges]
    engine = Engine(create_graph, retain_graph, wanted)
    captured = dict.fromkeys(targets or ())
    if create_graph:
        with enable_grad():
            engine.run(edges, gradients, captured)
    else:
        engine.run(edges, [gradient._array for gradient in gradients], captured)
    for leaf in engine.leaves:
        g = engine.arrived(leaf)
        if targets is None:
            accumulate(leaf, g, create_graph)
        elif leaf in captured:
            captured[leaf] = g
    return captured


def accumulate(leaf: Tensor, g: Any, recording: bool) -> None:
    """Add this backward's gradient to `leaf.grad`; the first one becomes it."""
    held = leaf._grad
    if held is None:
        leaf._grad = g if recording else tensors.wrap(g)
    elif recording:
        leaf._grad = held + g
    else:
        held._array += g
        held._bump()
    if current().listeners:
        emit(GradientAccumulated(leaf, g))


# Last, because tensors are made of what is defined above.
from . import tensor as tensors  # noqa: E402
