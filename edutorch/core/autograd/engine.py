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

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from types import CodeType
from typing import Any
from weakref import ref

import numpy

from ... import backends, dtypes
from ...backends.numpy import Array, ArrayOrTensor, copy_row_major
from ...errors import GradientError, warn
from ...events import (
    GradientFlowed,
    emit,
    work,
)
from ...modes import current
from ..fast import lazy_gradients
from ..fast.lazy_gradients import (
    LAZY,
    OutputGradients,
    RowGradient,
    add_in_place,
    add_large,
    as_array,
    can_defer,
    materialize_pending,
    stays_sparse,
    sum_over,
)
from ..precision import WideSum
from ..registry import op_function
from ..tensor import Tensor, wrap
from .graph import Hooks, Node, array_of

try:  # setting NumPy's own variable costs a third of what `numpy.errstate` costs
    from numpy._core.umath import _extobj_contextvar as NUMPY_STATE
    from numpy._core.umath import _make_extobj
except ImportError:  # another NumPy: its own warnings stay
    NUMPY_STATE = USUAL_STATE = None  # type: ignore[misc]

# Shapes and dtypes of gradients ---------------------------------------------------------


def unbroadcast(g: ArrayOrTensor, shape: tuple[int, ...]) -> Any:
    """Sum `g` over the axes that broadcasting added or stretched to get from `shape`.

    Broadcasting copies a value to many positions; each of them sends a gradient back.
    (Only methods that tensors and arrays share are used: `g` may be either.)
    """
    have = g.shape
    added = len(have) - len(shape)
    # The shape of a bias is one axis shorter: the usual case, without a loop.
    if added == 1 and have[1:] == shape:  # a bias
        return sum_over(g, 0)
    if added < 0 or any(size == 1 != want for size, want in zip(have[added:], shape, strict=True)):
        return op_function("expand")(g, shape)
    axes = (*range(added), *(added + i for i, want in enumerate(shape) if have[added + i] != want))
    g = sum_over(g, axes)
    return g if g.shape == shape else g.reshape(shape)


def match_shape_and_dtype(
    g: ArrayOrTensor, shape: tuple[int, ...], array_dtype: numpy.dtype[Any], recording: bool
) -> Any:
    """Convert `g` to the shape and the dtype of the tensor it is the gradient of."""
    if g.shape != shape:
        g = unbroadcast(g, shape)
    have = (g._array if recording else g).dtype
    if have == array_dtype:
        return g
    # A real tensor moves along the real axis only.
    if have.kind == "c" and array_dtype.kind != "c":
        g = op_function("real")(g)
    return op_function("convert_dtype")(g, dtypes.of(array_dtype))


def conjugate(g: ArrayOrTensor, recording: bool) -> Any:
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


# NaN and infinities ----------------------------------------------------------------------
#
# NumPy warns about an invalid value where it computes, which in backward is a line inside this
# library. So during backward NumPy calls `record_non_finite` instead, which looks up the op of the
# rule. At the end of backward a warning is given if one of the resulting gradients is not finite: a
# rule may take the exponential of a large number and still be right.


class NonFiniteGradientWarning(RuntimeWarning):
    """A derivative rule has computed a NaN or an infinity from finite elements."""


ENGINES: dict[CodeType, str] = {}
"""The functions that run backward, with the name of their variable that holds the engine."""


def register_engine(variable: str) -> Callable[..., Any]:
    """Register a function that holds its engine in `variable` and the current node in `node`."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        ENGINES[function.__code__] = variable
        return function

    return mark


def record_non_finite(problem: str, flag: int) -> None:
    """Record the first invalid value of a backward pass, with the op whose rule computed it."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code not in ENGINES:
        frame = frame.f_back
    engine = None if frame is None else frame.f_locals[ENGINES[frame.f_code]]
    if engine is None or engine.non_finite_message:
        return
    node, g = frame.f_locals.get("node"), frame.f_locals.get("g")
    if problem == "overflow" and getattr(getattr(g, "dtype", None), "itemsize", 0) == 2:
        return  # usual in 16 bits: `GradScaler` checks for it, and lowers its scale
    name = "backward" if node is None else node.name()
    engine.non_finite_message = f"{name}: {problem} encountered in backward"


if NUMPY_STATE is not None:
    USUAL_STATE = NUMPY_STATE.get()
    REPORTING = _make_extobj(divide="call", over="call", invalid="call", call=record_non_finite)


def start_reporting() -> bool:
    """Make NumPy report invalid values to us, unless the user has changed its settings.

    Returns: whether NumPy's state has to be restored.
    """
    if NUMPY_STATE is None or NUMPY_STATE.get() is not USUAL_STATE:
        return False
    NUMPY_STATE.set(REPORTING)
    return True


def stop_reporting(started: bool) -> None:
    """Restore NumPy's settings."""
    if started:
        NUMPY_STATE.set(USUAL_STATE)


def warn_of(message: str, gradients: Iterable[Any]) -> None:
    """Warn about what was recorded in backward, if one of the gradients is not finite.

    Raises: NonFiniteGradientWarning: as a warning.
    """
    if any(is_non_finite(gradient) for gradient in gradients):
        warn(
            f"{message}: its gradient has NaN or infinities\n"
            "  hint: inside autograd.detect_anomaly() the line of the forward is named",
            NonFiniteGradientWarning,
        )


def is_non_finite(gradient: object) -> bool:
    """Whether a gradient has elements that are not finite."""
    array = getattr(gradient, "_array", gradient)
    return isinstance(array, numpy.ndarray) and not numpy.isfinite(array).all()


# The engine -----------------------------------------------------------------------------


IN_PLACE_MIN_SIZE = 1024  # elements; from here on adding in place is faster than making a new array


def run_node(node: Node, g: Any, edges: tuple[Any, ...], recording: bool) -> Sequence[Any]:
    """Run a node on the card of its gradient, where cards are switched; else just run it.

    What is summed after it is on the card of the results: that becomes the current one.
    """
    if not backends.switched_cards or g.__class__ in LAZY or g.__class__ is numpy.ndarray:
        return node.backward(g, edges, recording)
    from ...backends.cards import select_card_of

    at_output = next(iter(g.by_output.values())) if g.__class__ is OutputGradients else g
    select_card_of(array_of(at_output))
    partials = node.backward(g, edges, recording)
    for partial in partials:
        if partial is not None and partial.__class__ not in LAZY:
            select_card_of(array_of(partial))
            break
    return partials


@dataclass(eq=False)
class Engine:
    """One backward pass: the pending gradients, the youngest node first."""

    recording: bool = False  # create_graph: gradients are Tensors and are recorded
    retain: bool = False  # keep the saved values for another pass
    wanted: set[Any] | None = None  # autograd.grad: only edges on the way to these; None: all
    captured: dict[Any, Any] = field(default_factory=dict)  # nodes whose gradient is asked for
    pending: dict[Any, Any] = field(default_factory=dict)  # node or leaf -> sum so far
    wide: set[Any] = field(default_factory=set)  # edges whose gradients are added up in float32
    leaves: list[Tensor] = field(default_factory=list)
    borrowed: dict[Tensor, Any] = field(default_factory=dict)  # arrays that may be in use elsewhere
    end_callbacks: tuple[Callable[[Engine], None], ...] = ()  # called once the pass is over
    non_finite_message: str = ""  # the first NaN or infinity that a rule has made

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
            elif backends.switched_cards:
                partials = run_node(node, g, edges, recording)
            else:
                # `Node.backward`, or what `fast/backward_codegen.py` wrote for the op in its place.
                partials = node.backward(g, edges, recording)
            if ran is not None:
                ran((node, g, partials))
            if node.holds and not self.retain:
                node.saved = None

    def match_target(
        self, partial: ArrayOrTensor, edge: Node | Tensor, target: Node | Array
    ) -> Any:
        """Match a gradient to its target in shape and dtype; a lazy one stays lazy if possible."""
        if partial.__class__ in LAZY:
            if can_defer(self, partial, edge, target):
                return partial
            partial = partial.materialize()
        return match_shape_and_dtype(partial, target.shape, target.dtype, self.recording)

    def match_array(self, partial: ArrayOrTensor, edge: Node | Tensor, target: Node | Array) -> Any:
        """Match a gradient to its target as an array; only that of single rows may stay lazy."""
        if partial.__class__ is RowGradient and stays_sparse(self, partial, edge, target):
            return partial
        partial = as_array(partial)
        return match_shape_and_dtype(partial, target.shape, target.dtype, self.recording)

    def add_in_float32(self, edge: Node | Tensor, partial: ArrayOrTensor) -> Any:
        """Return the sum of the 16-bit gradients of an edge so far and another one."""
        total = self.pending[edge]
        if not isinstance(total, WideSum | OutputGradients):  # the latter are of several outputs
            self.start_float32_sum(edge, total, partial)
            return self.pending[edge]
        total += partial
        return total

    def start_float32_sum(
        self, edge: Node | Tensor, first: ArrayOrTensor, partial: ArrayOrTensor
    ) -> Any:
        """Begin the sum of the 16-bit gradients of an edge, and return the edge."""
        self.pending[edge] = total = WideSum(as_array(first))
        total += partial
        self.wide.add(edge)
        return edge

    def take_gradient(self, edge: Node | Tensor) -> Any:
        """Remove and return the pending gradient of a node or a leaf, in its dtype."""
        g = self.pending.pop(edge)
        return g.materialize() if edge in self.wide else g

    def watched_step(
        self, node: Node, g: ArrayOrTensor, edges: tuple[Any, ...]
    ) -> tuple[Any, Any, Any]:
        """Run a node with listeners or hooks, or one whose gradient is asked for."""
        if not current().listeners:
            return self.step(node, g, edges)
        with work("node", node, (g,)) as around:
            g, edges, partials = self.step(node, g, edges)
            around.result = partials
        self.emit_flows(node, partials)
        return g, edges, partials

    def step(self, node: Node, g: ArrayOrTensor, edges: tuple[Any, ...]) -> tuple[Any, Any, Any]:
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
        partials = [
            partial if partial.__class__ is RowGradient else as_array(partial)
            for partial in run_node(node, g, edges, recording)
        ]
        if hooks and hooks.after:
            partials = [as_array(partial) for partial in partials]
            partials = run_posthooks(hooks, partials, edges, g, recording)
        return g, edges, partials

    def emit_flows(self, node: Node, partials: Sequence[Any]) -> None:
        """Emit the events of the gradients that a node has computed."""
        for index, partial in enumerate(partials):
            if partial.__class__ is OutputGradients:
                (partial,) = partial.by_output.values()
            # A joint rule may return a gradient that is not needed.
            if partial is not None and node.edges[index] is not None:
                emit(GradientFlowed(node, index, conjugate(as_array(partial), self.recording)))

    def register_leaf(self, leaf: Tensor, g: ArrayOrTensor, borrowed: bool) -> None:
        """Record a leaf's first gradient, and whether other tensors may share that array."""
        self.leaves.append(leaf)
        if not self.recording and (borrowed or g.base is not None):
            self.borrowed[leaf] = g

    def take_leaf_gradient(self, leaf: Tensor) -> Any:
        """Remove and return the gradient of a leaf, as an array that nothing else shares."""
        g = self.take_gradient(leaf) if self.wide else self.pending.pop(leaf)
        if g.__class__ is RowGradient:  # there are no hooks, or it would be an array by now
            return RowGradient(g.shape, g.rows, conjugate(g.values, self.recording))
        if not self.recording and g is self.borrowed.get(leaf):
            g = copy_row_major(g)
        g = conjugate(g, self.recording)
        if leaf._hooks:
            _RUNNING.engine = ref(self)
            g = run_hooks(leaf._hooks.gradient, g, self.recording)
        return g


_RUNNING = threading.local()


def running_engine() -> Engine:
    """Return the backward pass that calls the current hook."""
    return _RUNNING.engine()


def run_hooks(hooks: dict[int, Any], g: ArrayOrTensor, recording: bool) -> Any:
    """Call each hook with `g`; a tensor that a hook returns replaces it."""
    for hook in tuple(hooks.values()):
        visible = g if recording else wrap(g)
        # In the order of registration: each sees what the one before it has returned.
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


def output_gradients(g: ArrayOrTensor, recording: bool) -> list[Any]:
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


def run_prehooks(hooks: Hooks, g: ArrayOrTensor, recording: bool) -> Any:
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
    hooks: Hooks, partials: Sequence[Any], edges: tuple[Any, ...], g: ArrayOrTensor, recording: bool
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


def describe(value: object) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else str(tuple(shape))


# Their annotations name these, which `typing.get_type_hints` looks up in their globals.
lazy_gradients.Engine = Engine  # type: ignore[attr-defined]
lazy_gradients.Node, lazy_gradients.Tensor = Node, Tensor  # type: ignore[attr-defined]
