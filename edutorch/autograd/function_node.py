"""`FunctionNode`: the recorded call of a `Function`; `Context`: the `ctx` of its methods.

The engine only has nodes with one output. So each of several outputs gets an `OutputNode`, and
these pass their gradients to the one `FunctionNode`, which waits for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

from .. import backends, dtypes
from ..backends.numpy import Array, ArrayOrTensor
from ..core.autograd.engine import conjugate, conjugate_all
from ..core.autograd.graph import Node
from ..core.autograd.multi_output import Description, make_output_node
from ..core.autograd.saved_tensors import PackedTensor
from ..core.autograd.versions import (
    VersionCounter,
    clock,
    second_backward,
    stale_value,
)
from ..core.fast.lazy_gradients import OutputGradients, materialize_pending
from ..core.numpy_aliasing import copy_if_shared
from ..core.tensor import Tensor, restore_result, wrap
from ..core.tensor_methods import set_history
from ..errors import GradientError, user_location
from ..events import OpApplied, emit
from ..modes import current, enable_grad, is_grad_enabled, no_grad

if TYPE_CHECKING:
    from .function import Function


class FunctionNode(Node):
    """The recorded call of a `Function`. Attributes of its `ctx` can be read from it."""

    __slots__ = ("arguments", "ctx", "gathers", "op", "output_index", "outputs", "shapes")

    function: type[Function]
    holds = True
    ctx: Context
    arguments: tuple[Any, ...]  # for each argument of forward the index of its edge, or None
    shapes: tuple[Any, ...]  # for each output (backend, shape, dtype), or None
    outputs: int
    output_index: int  # of the (first) output with a gradient

    @property
    def saved(self) -> Any:
        """The saved values of `ctx`; set it to None to free them."""
        saved = self.ctx._saved
        return saved and tuple(getattr(value, "array", value) for value in saved)

    @saved.setter
    def saved(self, value: None) -> None:
        self.ctx._saved = value

    def __getattr__(self, name: str) -> Any:
        if name == "ctx":
            raise AttributeError(name)
        return getattr(self.ctx, name)

    def backward(self, g: ArrayOrTensor, edges: tuple[Any, ...], recording: bool) -> Sequence[Any]:
        """Call the user's backward with a gradient per output, and check its results."""
        by_output = g.by_output if g.__class__ is OutputGradients else {self.output_index: g}
        gradients = [self.output_gradient(by_output, i, recording) for i in range(self.outputs)]
        # The user's code may write into an array that a lazy gradient still refers to.
        materialize_pending()
        # Only with create_graph is the user's backward a part of the graph.
        with enable_grad() if recording and is_grad_enabled() else no_grad():
            returned = self.function.backward(self.ctx, *gradients)
        results = self.check_gradients(
            returned if isinstance(returned, tuple | list) else (returned,)
        )
        if not recording:
            results = [result if result is None else result._array for result in results]
        return conjugate_all(results, recording)

    def node_of_output(self, index: int, array: Array) -> Node:
        """Return a new node for an output whose own was freed with its tensor."""
        return output_node(self, index, array)

    def output_gradient(
        self, by_output: dict[int, Any], index: int, recording: bool
    ) -> Tensor | None:
        """Return the gradient of one output for the user's backward."""
        g, array_maker = by_output.get(index), self.shapes[index]
        if g is not None:
            g = conjugate(g, recording)
            return g if recording else wrap(g)
        # `set_materialize_grads(False)`: the user wants None, not zeros.
        if array_maker is None or not self.ctx._materialize:
            return None
        backend, shape, dtype = array_maker
        return wrap(backend.xp.zeros(shape, dtype))

    def check_gradients(self, returned: Sequence[Any]) -> list[Any]:
        """Return one gradient per edge, given one per argument.

        Raises: GradientError: a wrong number, a wrong shape, or one for a non-tensor argument.
        """
        name, expected = self.name(), len(self.arguments)
        if len(returned) < expected or any(
            gradient is not None for gradient in returned[expected:]
        ):
            raise GradientError(
                name,
                f"returned an incorrect number of gradients "
                f"(expected {expected}, got {len(returned)})",
                hint="backward returns one gradient per argument of forward, None for the others",
            )
        results: list[Any] = [None] * len(self.edges)
        for position, (edge_number, g) in enumerate(zip(self.arguments, returned, strict=False)):
            if g is None:
                continue
            if not isinstance(g, Tensor):
                raise GradientError(name, f"expected Tensor or None (got {type(g).__name__})")
            # An argument that is no tensor.
            if edge_number is None:
                raise GradientError(
                    name,
                    f"returned a gradient different than None at position {position + 1}, "
                    "but the corresponding forward input was not a Tensor",
                )
            edge = self.edges[edge_number]
            if edge is not None:
                shape = tuple(edge.shape)
                # A gradient of a larger shape is summed by the engine, as after broadcasting.
                if not can_sum_to(tuple(g.shape), shape):
                    raise GradientError(
                        name,
                        f"returned an invalid gradient at index {position} - got "
                        f"{list(g.shape)} but expected shape compatible with {list(shape)}",
                        {"input": shape, "gradient": tuple(g.shape)},
                        "a gradient has the shape of its input",
                    )
                results[edge_number] = g
        return results


def can_sum_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether `target` can be broadcast to `shape`, so that a gradient can be summed to it."""
    added = len(shape) - len(target)
    pairs = zip(target, shape[max(added, 0) :], strict=False)
    return added >= 0 and all(target_size in (1, size) for target_size, size in pairs)


def record(
    node: FunctionNode,
    ctx: Context,
    args: tuple[Any, ...],
    edges: tuple[Any, ...],
    names: tuple[str, ...],
    outputs: tuple[Any, ...],
) -> None:
    """Set up the node of a call, and make it the history of the differentiable outputs."""
    constant = identities(ctx._constant)
    differentiable = [
        index
        for index, output in enumerate(outputs)
        if isinstance(output, Tensor)
        and id(output) not in constant
        and output._array.dtype in dtypes.DIFFERENTIABLE
    ]
    if not differentiable:
        return
    edge_indices = iter(range(len(edges)))
    node.ctx, node.edges = ctx, edges
    node.outputs, node.output_index = len(outputs), differentiable[0]
    node.arguments = tuple(next(edge_indices) if isinstance(x, Tensor) else None for x in args)
    node.shapes = tuple(
        (backends.of(x._array), x._array.shape, x._array.dtype) if isinstance(x, Tensor) else None
        for x in outputs
    )
    first = outputs[differentiable[0]]._array
    node.shape, node.dtype, node.gathers = first.shape, first.dtype, len(differentiable) > 1
    node.hooks = node.writes = None
    node._order = ctx._time = clock()
    nodes = {index: output_node(node, index, outputs[index]._array) for index in differentiable}
    node_refs = {id(outputs[index]): ref(maker) for index, maker in nodes.items()}
    tensors = [argument for argument in args if isinstance(argument, Tensor)]
    ctx._node = ref(node)
    dirty = identities(ctx._dirty)
    ctx._save_tensors(node, tensors, names, node_refs)
    label = getattr(type(node).function, "title", type(node).function.__name__)
    doc = type(node).function.__doc__ or ""
    node.op = Description(label, names, doc, ctx._names)  # type: ignore[assignment]
    for index, maker in nodes.items():
        output = outputs[index]
        maker.writes = output._writes
        if id(output) in dirty:
            new_output = wrap(output._array)
            new_output._node = maker
            set_history(output, new_output)
        else:
            output._node = maker
    notify_listeners(node, tensors, nodes, outputs)


def output_node(node: FunctionNode, index: int, array: Array) -> Node:
    """Return the node of one output: the function's own, if no other is differentiable."""
    return node if not node.gathers else make_output_node(node, index, array)


def notify_listeners(
    node: FunctionNode, inputs: list[Tensor], nodes: dict[int, Node], outputs: tuple[Any, ...]
) -> None:
    """Notify listeners of the function's call, and then of each of its outputs."""
    modes = current()
    if modes.op_recorder is not None:
        modes.op_recorder.unknown()
    if not modes.listeners:
        return
    node.notes["location"] = user_location()
    output = wrap(outputs[node.output_index]._array)
    output._node = node
    emit(OpApplied(node.op, tuple(inputs), {}, output, node))
    for index, maker in nodes.items():
        if maker is not node:
            emit(OpApplied(maker.op, (output,), {}, outputs[index], maker))


@dataclass(frozen=True, slots=True)
class SavedOutput:
    """An output saved as an array: saving the tensor would make a reference cycle with its node."""

    node: ReferenceType[Any]
    index: int
    array: Any  # or the PackedTensor of a user's hook
    writes: VersionCounter


class Context:
    """The `ctx` of a `Function`: attributes set in forward can be read in backward.

    `needs_input_grad` has a bool per argument of forward: whether it requires grad.
    """

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._to_save: tuple[Tensor | None, ...] = ()
        self._saved: tuple[Any, ...] | None = ()
        self._names: tuple[str, ...] = ()
        self._node: ReferenceType[Any] | None = None
        self._time = 0
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self._materialize = True
        self._in_forward_mode = False
        self.saved_for_forward: tuple[Tensor | None, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors for backward, which reads them from `saved_tensors`.

        Raises: TypeError: a value is neither a tensor nor None.
        """
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, got {type(tensor).__name__}; "
                    "hint: anything else can be an attribute, ctx.size = size"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors for `jvp`, which reads them from `saved_tensors`.

        Raises: TypeError: a value is neither a tensor nor None.
        """
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    "save_for_forward expects all arguments to be tensors; "
                    "you should save non-tensors as attributes on ctx."
                )
        self.saved_for_forward = tensors

    @contextmanager
    def _forward_mode(self) -> Iterator[None]:
        """Make `saved_tensors` return those saved for forward mode, while `jvp` runs."""
        self._in_forward_mode = bool(self.saved_for_forward)
        try:
            yield
        finally:
            self._in_forward_mode = False

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors that forward saved.

        Raises: GradientError: they were freed. StaleValueError: one was overwritten since.
        """
        if self._in_forward_mode:
            return self.saved_for_forward
        node = None if self._node is None else self._node()
        if node is None:
            return self._to_save
        if self._saved is None:
            raise second_backward(node)
        tensors = []
        for name, saved in zip(self._names, self._saved, strict=True):
            if isinstance(saved, SavedOutput):
                writes, name = saved.writes, "the result"
            else:
                writes = getattr(saved, "_writes", None)
            if isinstance(saved, PackedTensor):
                saved = saved.restore(node, name)
            elif isinstance(saved, SavedOutput) and isinstance(saved.array, PackedTensor):
                array = saved.array.restore(node, name)._array
                saved, writes = SavedOutput(saved.node, saved.index, array, VersionCounter()), None
            array = (
                saved.array if isinstance(saved, SavedOutput) else getattr(saved, "_array", None)
            )
            is_late = writes is not None and writes.time > self._time
            if writes is not None and is_late and writes.may_have_changed(array, self._time):
                raise stale_value(node, name, writes)
            if isinstance(saved, SavedOutput):
                output_node = saved.node() or node.node_of_output(saved.index, saved.array)
                output_node.writes = saved.writes
                saved = restore_result(output_node, saved.array)
            tensors.append(saved)
        return tuple(tensors)

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Mark the inputs that forward has written to; it must return them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Mark the outputs that have no gradient, such as indices."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether backward gets zeros (True) or None for outputs without a gradient."""
        self._materialize = value

    def _save_tensors(
        self, node: Any, inputs: Sequence[Tensor], names: Sequence[str], makers: dict[int, Any]
    ) -> None:
        """Save the tensors of `save_for_backward`, once the node of the call exists."""
        saved, names_in_errors = [], []
        saving = current().saving
        hooks = saving if isinstance(saving, tuple) else None
        for number, tensor in enumerate(self._to_save):
            node_ref = makers.get(id(tensor))
            if tensor is not None and node_ref is not None:
                output_node = node_ref()
                tensor._writes = tensor._writes or VersionCounter()
                tensor._saved_at = clock()
                index = getattr(output_node, "index", 0)
                array = PackedTensor(tensor.detach(), hooks) if hooks else tensor._array
                saved.append(SavedOutput(node_ref, index, array, tensor._writes))
                names_in_errors.append("y" if output_node is node else f"output {number}")
            else:
                position = next((i for i, input_ in enumerate(inputs) if input_ is tensor), None)
                tensor = copy_if_shared(tensor)
                if tensor is not None:
                    tensor._saved_at = clock()
                saved.append(
                    PackedTensor(tensor, hooks) if hooks and tensor is not None else tensor
                )
                names_in_errors.append(
                    f"saved tensor {number}" if position is None else names[position]
                )
        self._saved, self._names, self._to_save = tuple(saved), tuple(names_in_errors), ()


def identities(tensors: Sequence[Tensor]) -> set[int]:
    return {id(tensor) for tensor in tensors}
