"""Nodes with several outputs, as of ops that return several views of a tensor.

The gradient of the tensor is the gradients of all views put together, and that is done once, by
the node of the op. The engine handles nodes of one output only, so each view gets an `OutputNode`,
which passes its gradient on to the node of the op. (Functions of the user with several results are
recorded in the same way.)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from ... import backends, dtypes
from ...backends.numpy import Array, ArrayOrTensor, Shared
from ...errors import GradientError, user_location
from ...events import OpApplied, emit
from ...modes import current, override_modes
from ..fast.lazy_gradients import OutputGradients
from ..tensor import Tensor, attach_views, wrap
from .forward_mode import call_op
from .graph import LEAF, Node
from .tangents import set_tangent, tangent_of
from .versions import clock

if TYPE_CHECKING:
    from ..op import Op


new = object.__new__


class OutputNode(Node):
    """One of several outputs of a node: it passes its gradient on to that node."""

    __slots__ = ("index",)
    index: int

    @property
    def op(self) -> Any:  # type: ignore[override]
        """Return its description for pictures."""
        return describe_output(self.index)

    def public_node(self) -> tuple[Node, int]:
        """Return the node of all outputs, and the index of this one."""
        return self.edges[0], self.index  # type: ignore[return-value]

    def name(self) -> str:
        """Return the name of the node of all outputs."""
        return self.public_node()[0].name()

    def backward(self, g: ArrayOrTensor, edges: tuple[Any, ...], recording: bool) -> Sequence[Any]:
        """Return the gradient with the index of its output."""
        (edge,) = edges
        return (None if edge is None else OutputGradients(edge, {self.index: g}),)


@functools.cache
def describe_output(index: int) -> Any:
    """Return the description of an output for pictures."""
    return Description(f"output {index}", ("input",))


def make_output_node(node: Node, index: int, array: Array) -> OutputNode:
    """Return the node of one output of `node`."""
    output = OutputNode()
    output._order = clock()
    output.edges = (node,)
    output.saved = ()
    output.index = index
    output.shape = array.shape
    output.dtype = array.dtype
    output.hooks = output.writes = None
    return output


class MultiViewNode(Node):
    """The node of an op that returns several views. Its rule gets the list of their gradients."""

    __slots__ = ("backend", "shapes")

    gathers = True
    backend: Any
    shapes: list[tuple[int, ...]]  # of the views

    @property
    def outputs(self) -> int:
        """The number of views."""
        return len(self.shapes)

    def backward(self, g: ArrayOrTensor, edges: tuple[Any, ...], recording: bool) -> Sequence[Any]:
        """Combine the gradients of the views, with zeros for a view that was not used."""
        if edges[0] is None:
            return (None,)
        by_output = g.by_output
        gradients: list[Any] = [by_output.get(index) for index in range(len(self.shapes))]
        # A view that the loss does not depend on sends nothing.
        if len(by_output) < len(gradients):
            for index, gradient in enumerate(gradients):
                if gradient is None:
                    missing = self.backend.xp.zeros(self.shapes[index], self.dtype)
                    gradients[index] = wrap(missing) if recording else missing
        values = dict(zip(self.op.saved, self.saved or (), strict=True), g=gradients)
        (rule,) = self.op.rules.values()
        return (rule.function(*[values[name] for name in rule.parameters]),)


def wrap_views(op: Op, input: Tensor, arrays: Sequence[Any], settings: tuple[Any, ...]) -> Any:
    """Return the views of `input` as tensors, recorded by one node where recording is on."""
    if not arrays:
        return ()
    outputs = []
    for array in arrays:  # `fill`, inlined: the views of an ordinary array are ordinary ones
        output = new(Tensor)
        output._array = array
        output._node = output._grad = output._writes = output._base = output._hooks = None
        outputs.append(output)
    outputs = tuple(outputs)
    attach_views(outputs, input)
    modes, history, dtype = current(), input._node, arrays[0].dtype
    if history is None or not modes.grad or dtype not in dtypes.DIFFERENTIABLE:
        if modes.op_recorder is not None:
            modes.op_recorder.unrecorded(op, outputs[0], (input,))
        return outputs
    # One node for the op, then one for each view: all of them younger than the input's.
    node = op.node_type()
    node._order = clock()
    node.edges = (input if history is LEAF else history,)
    node.saved = settings
    node.hooks = node.writes = None
    on_cpu = arrays[0].__class__ is ndarray
    node.backend = backends.CPU if on_cpu else backends.of(arrays[0])  # type: ignore[attr-defined]
    node.shapes = shapes = [array.shape for array in arrays]  # type: ignore[attr-defined]
    node.shape, node.dtype = shapes[0], dtype
    to_node, new_node = (node,), OutputNode
    # `x.unbind()` of a long tensor makes thousands: no call for each of them.
    for index, output in enumerate(outputs):  # `make_output_node`, inlined
        output._node = output_node = new_node()
        output_node._order = clock()
        output_node.edges, output_node.saved, output_node.index = to_node, (), index
        output_node.shape, output_node.dtype = shapes[index], dtype
        output_node.hooks = output_node.writes = None
    if modes.op_recorder is not None:
        record = modes.op_recorder.recorded.extend
        cut = representative(node, outputs)
        record((cut, (input,)))
        for output in outputs:
            record((output, (cut,)))
    return outputs


def wrap_views_in_modes(
    op: Op, input: Tensor, arrays: Sequence[Any], settings: dict[str, Any]
) -> tuple[Tensor, ...]:
    """Do the same under modes that the fast path does not handle."""
    if isinstance(input._array, Shared):
        arrays = [array.view(type(input._array)) for array in arrays]
    outputs = wrap_views(op, input, arrays, tuple(settings.values()))
    levels = current().levels
    if outputs and outputs[0]._array.dtype in dtypes.DIFFERENTIABLE:
        for depth, level in enumerate(levels):
            tangent = tangent_of(input, level)
            if tangent is not None:
                with override_modes(levels=levels[:depth], listeners=(), saving=None):
                    tangents = call_op(op, (tangent,), settings)
                for output, output_tangent in zip(outputs, tangents, strict=True):
                    set_tangent(output, level, output_tangent)
    return outputs


def representative(node: Node, outputs: Sequence[Tensor]) -> Tensor:
    """Return a tensor that represents all views where a single result is needed."""
    tensor = wrap(outputs[0]._array)
    tensor._node = node
    return tensor


def notify_views(op: Op, inputs: tuple[Any, ...], settings: dict[str, Any], outputs: Any) -> None:
    """Emit the event of the op, and then one of each view."""
    first = outputs[0]._node if outputs else None
    if first is None:
        emit(OpApplied(op, inputs, settings, outputs, None))
        return
    node = first.public_node()[0]
    node.notes["location"] = user_location()
    cut = representative(node, outputs)
    emit(OpApplied(op, inputs, settings, cut, node))
    for output in outputs:
        emit(OpApplied(output._node.op, (cut,), {}, output, output._node))


def refuse_write_into_view(target: Tensor, name: str) -> None:
    """Raise GradientError for a recorded write into one of several views, or a part of it."""
    base = target._base
    node = target._node
    # Up from the view to its base: one step may have made several views at once.
    while isinstance(node, Node) and node is not base._node:  # type: ignore[union-attr]
        if node.__class__ is OutputNode and isinstance(node.edges[0], MultiViewNode):
            cutting = node.edges[0].op.public[0]
            raise GradientError(
                name,
                f"output {node.index} of {cutting} is one of several views that one function has "  # type: ignore[attr-defined]
                "returned: it cannot be modified by an in-place operation that is recorded",
                {"input": tuple(target.shape)},
                "write x = x.mul(2) instead of x.mul_(2), take the part by itself with "
                "x.narrow(dim, start, length), or write inside `with no_grad():`",
            )
        node = node.edges[0] if node.edges else None


@dataclass(frozen=True, slots=True)
class Description:
    """The attributes of an op that pictures use, for a node without an op."""

    name: str
    inputs: tuple[str, ...]
    doc: str = ""
    saved: tuple[str, ...] = ()
    formulas: dict[str, str] = field(default_factory=dict)
    variadic: bool = False

    @property
    def title(self) -> str:
        """Its name for users."""
        return self.name

    @property
    def label(self) -> str:
        """Its name in profiles and pictures."""
        return self.name

    @property
    def public_name(self) -> str:
        """Its public function."""
        return self.name

    @property
    def public(self) -> tuple[str, ...]:
        """Its public functions: itself."""
        return (self.name,)
