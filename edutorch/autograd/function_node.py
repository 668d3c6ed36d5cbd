"""`FunctionNode`: the recorded call of a `Function`.

The engine only has nodes with one output. So each of several outputs gets an `OutputNode`, and
these pass their gradients to the one `FunctionNode`, which waits for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from .. import backends, dtypes
from ..core.autograd.engine import conjugate, conjugate_all
from ..core.autograd.graph import Node
from ..core.autograd.multi_output import Description, make_output_node
from ..core.autograd.versions import clock
from ..core.fast.lazy_gradients import OutputGradients, materialize_pending
from ..core.tensor import Tensor, wrap
from ..core.tensor_methods import set_history
from ..errors import GradientError, user_location
from ..events import OpApplied, emit
from ..modes import current, enable_grad, is_grad_enabled, no_grad
from .function_context import Context, identities

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

    def backward(self, g: Any, edges: tuple[Any, ...], recording: bool) -> Sequence[Any]:
        """Call the user's backward with a gradient per output, and check its results."""
        by_output = g.by_output if g.__class__ is OutputGradients else {self.output_index: g}
        gradients = [self.output_gradient(by_output, i, recording) for i in range(self.outputs)]
        materialize_pending()
        with enable_grad() if recording and is_grad_enabled() else no_grad():
            returned = self.function.backward(self.ctx, *gradients)
        results = self.check_gradients(
            returned if isinstance(returned, tuple | list) else (returned,)
        )
        if not recording:
            results = [result if result is None else result._array for result in results]
        return conjugate_all(results, recording)

    def node_of_output(self, index: int, array: Any) -> Node:
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
            if edge_number is None:
                raise GradientError(
                    name,
                    f"returned a gradient different than None at position {position + 1}, "
                    "but the corresponding forward input was not a Tensor",
                )
            edge = self.edges[edge_number]
            if edge is not None:
                shape = tuple(edge.shape)
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
    label = type(node).function.__name__
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


def output_node(node: FunctionNode, index: int, array: Any) -> Node:
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
