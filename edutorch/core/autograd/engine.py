"""The engine: the backward pass through the recorded graph.

It holds the pending gradient of each node, and always runs the youngest node: every node
that used its output is younger still, and has run already.

Complex numbers. The gradient inside the graph is the g in dL = Re(g · dz). With it a
rule of real calculus holds for complex numbers unchanged: y = f(z) gives
g · f'(z). What users see is PyTorch's gradient, the direction in which L grows
fastest, and that is its conjugate: so `conjugate` is called wherever a gradient enters
or leaves the graph. Only an op that treats z and its conjugate differently (abs, real,
conj, …) has a rule with conjugates.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any
from weakref import ref

from ... import dtypes
from ...backends import kernel_registry
from ...errors import GradientError
from ...events import (
    BackwardEnded,
    GradientAccumulated,
    GradientFlowed,
    backward_event,
    emit,
    step_event,
    work,
)
from ...modes import current, override_modes
from ..fast.lazy_gradients import (
    LAZY,
    OutputGradients,
    add_in_place,
    add_large,
    as_array,
    can_defer,
    materialize_pending,
    sum_over,
)
from ..precision import WideSum
from ..registry import op_function
from ..source_location import CodeLocation, user_location
from ..tensor import Tensor, wrap
from .forward_mode import detach_with_tangents
from .graph import Hooks, Node, edge_of, edges_leading_to, reachable
from .non_finite import register_engine, start_reporting, stop_reporting, warn_of
from .reentrant import run_nested

# Shapes and dtypes of gradients ---------------------------------------------------------


def unbroadcast(g: Any, shape: tuple[int, ...]) -> Any:
    """Sum `g` over the axes that broadcasting added or stretched to get from `shape`.

    Broadcasting copies a value to many positions; each of them sends a gradient back.
    (Only methods that tensors and arrays share are used: `g` may be either.)
    """
    have = g.shape
    added = len(have) - len(shape)
    if added == 1 and have[1:] == shape:  # a bias
        return sum_over(g, 0)
    if added < 0 or any(size == 1 != want for size, want in zip(have[added:], shape, strict=True)):
        return op_function("expand")(g, shape)
    axes = (*range(added), *(added + i for i, want in enumerate(shape) if have[added + i] != want))
    g = sum_over(g, axes)
    return g if g.shape == shape else g.reshape(shape)


def match_shape_and_dtype(g: Any, shape: tuple[int, ...], array_dtype: Any, recording: bool) -> Any:
    """Convert `g` to the shape and the dtype of the tensor it is the gradient of."""
    if g.shape != shape:
        g = unbroadcast(g, shape)
    have = (g._array if recording else g).dtype
    if have == array_dtype:
        return g
    if have.kind == "c" and array_dtype.kind != "c":
        g = op_function("real")(g)
    return g.to(dtypes.of(array_dtype)) if recording else g.astype(array_dtype)


def conjugate(g: Any, recording: bool) -> Any:
    """Convert an internal gradient to the user's convention, or back; only complex ones change."""
    array = g._array if recording else g
    if array.__class__ is OutputGradients:
        conjugates = {
            index: conjugate(gradient, recording) for index, gradient in array.by_output.items()
        }
        return OutputGradients(array.node, conjugates)
    return g if array.dtype.kind != "c" else op_function("conj_physical")(g)


def conjugate_all(gradients: Sequence[Any], recording: bool) -> list[Any]:
    return [
        gradient if gradient is None else conjugate(gradient, recording) for gradient in gradients
    ]


# The engine -----------------------------------------------------------------------------


IN_PLACE_MIN_SIZE = 1024  # elements; from here on adding in place is faster than making a new array


class Engine:
    """One backward pass: the pending gradients, the youngest node first."""

    end_callbacks: tuple[Callable[[Engine], None], ...] = ()  # called once the pass is over
    non_finite_message = ""  # the first NaN or infinity that a rule has made (see `non_finite.py`)

    def __init__(
        self, recording: bool, retain: bool, wanted: set[Any] | None, captured: dict[Any, Any]
    ) -> None:
        self.recording = recording  # create_graph: gradients are Tensors and are recorded
        self.retain = retain
        self.wanted = wanted  # autograd.grad: only edges on the way to these; None: all
        self.captured = captured  # nodes whose gradient is asked for
        self.pending: dict[Any, Any] = {}  # node or leaf -> sum of its gradients so far
        self.wide: set[Any] = set()  # edges whose gradients are added up in float32
        self.leaves: list[Tensor] = []
        self.borrowed: dict[Tensor, Any] = {}  # leaf -> array that may be in use elsewhere too

    @register_engine("self")
    def run(self, edges: tuple[Any, ...], partials: Sequence[Any]) -> None:
        """Send `partials` to `edges`, then run every node that can be reached, youngest first.

        These two loops are what backward costs on small tensors. So they are in one
        function, and the next node waits in `youngest`: a chain never needs the heap.
        """
        waiting, recording = self.pending, self.recording
        modes = current()
        watched = bool(modes.listeners) or self.wanted is not None
        ran = None if modes.op_recorder is None else modes.op_recorder.begin_backward()
        node, g, youngest, older = None, None, None, []  # all that wait; `older` is a heap
        summed, wide = set(), self.wide  # edges whose sum is a large array that nothing else shares
        while True:
            for partial, edge in zip(partials, edges):  # noqa: B905 (strict has its price)
                if partial is None or edge is None:
                    continue
                order = edge._order
                target = edge if order else edge._array
                array = partial._array if recording else partial
                if array.shape != target.shape or array.dtype is not target.dtype:
                    partial = self.match_target(partial, edge, target)
                total = waiting.get(edge)
                if total is not None:
                    if edge in summed:
                        add_in_place(total, partial)
                    elif target.dtype.itemsize == 2 and total.__class__ is not OutputGradients:
                        summed.add(self.start_float32_sum(edge, total, partial))
                    elif recording or total.size <= IN_PLACE_MIN_SIZE:
                        waiting[edge] = total + partial
                    else:
                        waiting[edge] = add_large(total, partial)
                        summed.add(edge)
                    continue
                waiting[edge] = partial
                if not order:
                    self.register_leaf(edge, partial, node is None or partial is g)
                elif youngest is None:
                    youngest = edge
                elif order < youngest._order:
                    heappush(older, (-order, edge))
                else:
                    heappush(older, (-youngest._order, youngest))
                    youngest = edge

            if older and (youngest is None or -older[0][0] > youngest._order):
                node = heappop(older)[1]
            elif youngest is None:
                return
            else:
                node, youngest = youngest, None
            g = self.take_gradient(node) if wide else waiting.pop(node)
            edges = node.edges
            if watched or node.hooks:
                g, edges, partials = self.watched_step(node, g, edges)
            else:
                partials = node.backward(g, edges, recording)
            if ran is not None:
                ran((node, g, partials))
            if node.holds and not self.retain:
                node.saved = None

    def match_target(self, partial: Any, edge: Any, target: Any) -> Any:
        """Match a gradient to its target in shape and dtype; a lazy one stays lazy if possible."""
        if partial.__class__ in LAZY:
            if can_defer(self, partial, edge, target):
                return partial
            partial = partial.materialize()
        return match_shape_and_dtype(partial, target.shape, target.dtype, self.recording)

    def start_float32_sum(self, edge: Any, first: Any, partial: Any) -> Any:
        """Begin the sum of the 16-bit gradients of an edge, and return the edge."""
        self.pending[edge] = total = WideSum(as_array(first))
        total += partial
        self.wide.add(edge)
        return edge

    def take_gradient(self, edge: Any) -> Any:
        """Remove and return the pending gradient of a node or a leaf, in its dtype."""
        g = self.pending.pop(edge)
        return g.materialize() if edge in self.wide else g

    def watched_step(self, node: Node, g: Any, edges: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        """Run a node with listeners or hooks, or one whose gradient is asked for."""
        if not current().listeners:
            return self.step(node, g, edges)
        with work("node", node, (g,)) as around:
            g, edges, partials = self.step(node, g, edges)
            around.result = partials
        self.emit_flows(node, partials)
        return g, edges, partials

    def step(self, node: Node, g: Any, edges: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        """Run a node with hooks, or one of which only some gradients are asked for."""
        hooks, recording, g = node.hooks, self.recording, as_array(g)
        visible = conjugate(g, recording)
        if hooks:
            materialize_pending()
            _RUNNING.engine = ref(self)
            visible = run_hooks(hooks.gradient, visible, recording)
        if node in self.captured:
            self.captured[node] = visible
        if self.wanted is not None:
            edges = tuple(edge if edge in self.wanted else None for edge in edges)
        if hooks:
            visible = run_prehooks(hooks, run_hooks(hooks.retain, visible, recording), recording)
            g = conjugate(visible, recording)
        partials = [as_array(partial) for partial in node.backward(g, edges, recording)]
        if hooks and hooks.after:
            partials = run_posthooks(hooks, partials, edges, g, recording)
        return g, edges, partials

    def emit_flows(self, node: Node, partials: Sequence[Any]) -> None:
        """Emit the events of the gradients that a node has computed."""
        for index, partial in enumerate(partials):
            if partial.__class__ is OutputGradients:
                (partial,) = partial.by_output.values()
            # A joint rule may return a gradient that is not needed.
            if partial is not None and node.edges[index] is not None:
                emit(GradientFlowed(node, index, conjugate(partial, self.recording)))

    def register_leaf(self, leaf: Tensor, g: Any, borrowed: bool) -> None:
        """Record a leaf's first gradient, and whether other tensors may share that array."""
        self.leaves.append(leaf)
        if not self.recording and (borrowed or g.base is not None):
            self.borrowed[leaf] = g

    def take_leaf_gradient(self, leaf: Tensor) -> Any:
        """Remove and return the gradient of a leaf, as an array that nothing else shares."""
        g = self.take_gradient(leaf) if self.wide else self.pending.pop(leaf)
        if not self.recording and g is self.borrowed.get(leaf):
            g = g.copy()
        g = conjugate(g, self.recording)
        if leaf._hooks:
            _RUNNING.engine = ref(self)
            g = run_hooks(leaf._hooks.gradient, g, self.recording)
        return g


_RUNNING = threading.local()


def running_engine() -> Engine:
    """Return the backward pass that calls the current hook."""
    return _RUNNING.engine()


def run_hooks(hooks: dict[int, Any], g: Any, recording: bool) -> Any:
    """Call each hook with `g`; a tensor that a hook returns replaces it."""
    for hook in tuple(hooks.values()):
        visible = g if recording else wrap(g)
        replaced = hook(visible)
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


def output_gradients(g: Any, recording: bool) -> list[Any]:
    """Return the gradient of each output of a node as hooks see it: a tensor or None."""
    if g.__class__ is OutputGradients:
        gradients = [g.by_output.get(index) for index in range(g.node.outputs)]
    else:
        gradients = [g]
    return (
        gradients
        if recording
        else [gradient if gradient is None else wrap(gradient) for gradient in gradients]
    )


def run_prehooks(hooks: Hooks, g: Any, recording: bool) -> Any:
    """Call a node's prehooks with its gradients, which they may replace."""
    for hook in tuple(hooks.before.values()):
        visible = output_gradients(g, recording)
        replaced = read_hook_result(hook(tuple(visible)), visible, recording)
        if replaced is None:
            continue
        if g.__class__ is OutputGradients:
            pairs = enumerate(replaced)
            g = OutputGradients(
                g.node, {index: gradient for index, gradient in pairs if gradient is not None}
            )
        else:
            g = replaced[0]
    return g


def run_posthooks(
    hooks: Hooks, partials: Sequence[Any], edges: tuple[Any, ...], g: Any, recording: bool
) -> Sequence[Any]:
    """Call a node's hooks with the gradients of its inputs, which they may replace."""
    if any(partial.__class__ is OutputGradients for partial in partials):
        return partials
    gradients = []
    for partial, edge in zip(partials, edges, strict=True):
        if partial is not None and edge is not None:
            target = edge if edge._order else edge._array
            gradients.append(match_shape_and_dtype(partial, target.shape, target.dtype, recording))
        else:
            gradients.append(None)
    outputs = tuple(output_gradients(conjugate(g, recording), recording))
    gradients = conjugate_all(gradients, recording)
    for hook in tuple(hooks.after.values()):
        visible = (
            gradients
            if recording
            else [gradient if gradient is None else wrap(gradient) for gradient in gradients]
        )
        gradients = read_hook_result(hook(tuple(visible), outputs), visible, recording) or gradients
    return conjugate_all(gradients, recording)


def read_hook_result(replaced: Any, visible: Sequence[Any], recording: bool) -> list[Any] | None:
    """Return the gradients that a node's hook returned in place of its arguments, or None."""
    if replaced is None:
        return None
    replaced = (replaced,) if isinstance(replaced, Tensor) else tuple(replaced)
    if len(replaced) != len(visible):
        raise GradientError(
            "hook",
            "hook has returned an incorrect number of values",
            {"gradients": len(visible), "returned": len(replaced)},
        )
    return [gradient if gradient is None or recording else gradient._array for gradient in replaced]


def describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else str(tuple(shape))


def engine_class() -> type[Engine]:
    """Return the engine that runs: this one, or that of the textbook under `reference_only()`."""
    if not kernel_registry.is_reference_only():
        return Engine
    from .reference import ReferenceEngine

    return ReferenceEngine


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
    edges = tuple(map(edge_of, roots))
    wanted = None
    if targets is not None:
        wanted = edges_leading_to(edges, targets)
        edges = tuple(edge if edge in wanted else None for edge in edges)
    captured = dict.fromkeys(targets or ())
    modes = current()
    recording = create_graph or bool(modes.levels)  # gradients may have tangents
    engine = engine_class()(recording, retain_graph, wanted, captured)
    backward_event(roots)
    outermost = start_reporting()
    run = run_engine if outermost else run_engine_nested
    try:
        if modes.listeners:
            with work("backward", engine, tuple(gradients), "retain" if engine.retain else ""):
                captured = run(engine, edges, gradients, create_graph, targets)
        else:
            captured = run(engine, edges, gradients, create_graph, targets)
    finally:
        stop_reporting(outermost)
        if engine.non_finite_message:
            warn_of(engine.non_finite_message, result_gradients(engine))
    step_event(BackwardEnded, roots, inputs is None)
    return captured


@register_engine("engine")
def run_engine(
    engine: Engine,
    edges: tuple[Any, ...],
    gradients: Sequence[Any],
    create_graph: bool,
    targets: list[Any] | None,
) -> dict[Any, Any]:
    """Run the engine, and give each leaf its gradient."""
    recording, captured, location = engine.recording, engine.captured, None
    needs_recording = recording and not create_graph and needs_graph(edges)
    if recording:
        engine.retain = engine.retain or needs_recording
        with override_modes(
            grad=create_graph or needs_recording, autocast=None
        ):  # the dtypes are chosen already
            engine.run(edges, conjugate_all(gradients, True))
    else:
        engine.run(edges, conjugate_all([gradient._array for gradient in gradients], False))
        materialize_pending()
    for leaf in engine.leaves:
        g = engine.take_leaf_gradient(leaf)
        if needs_recording:
            g = detach_with_tangents(g)
        if targets is None:
            hooks = leaf._hooks
            if hooks:
                g = run_prehooks(hooks, g, recording)
            if location is None and leaf._grad is not None:
                location = user_location()  # once: the way up to the user's line takes time
            accumulate(leaf, g, recording, location)
            if hooks:
                run_posthooks(hooks, (), (), g, recording)
        elif leaf in captured:
            captured[leaf] = g
    if needs_recording:
        captured = {
            edge: None if g is None else detach_with_tangents(g) for edge, g in captured.items()
        }
    for callback in engine.end_callbacks:
        callback(engine)
    return captured


def run_engine_nested(*arguments: Any) -> dict[Any, Any]:
    """Run the engine inside another backward pass."""
    return run_nested(run_engine, *arguments)


def result_gradients(engine: Engine) -> list[Any]:
    """Return the gradients of the leaves and of the inputs asked for."""
    return [*(leaf._grad for leaf in engine.leaves), *engine.captured.values()]


def needs_graph(edges: Sequence[Any]) -> bool:
    """Return True if a rule behind `edges` needs its node (see `Op.needs_node`)."""
    nodes = reachable([edge for edge in edges if edge is not None], since=1)
    return any(getattr(node.op, "needs_node", False) for node in nodes)


_ACCUMULATE_LOCK = threading.RLock()
"""Serializes threads that run backward into the same leaf."""


def accumulate(leaf: Tensor, g: Any, recording: bool, location: CodeLocation | None = None) -> None:
    """Add this backward's gradient to `leaf.grad`; the first one becomes it.

    Args: location: of the user's line, by default that of the call.
    """
    with _ACCUMULATE_LOCK:
        total = leaf._grad
        if total is None:
            leaf._grad = g if recording else wrap(g)
        elif recording:
            leaf._grad = total + g
        else:
            total._array += g
            total._bump(location)
    if current().listeners:
        emit(GradientAccumulated(leaf, g))
    if leaf._hooks:
        for hook in tuple(leaf._hooks.accumulated.values()):
            hook(leaf)
