"""The recorded call of a `Function`.

The engine knows nodes of one output only. So each output of several gets an `OutputNode`,
and these send their gradients on to the one `FunctionNode`, which waits for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from .. import backends, dtypes
from ..core.autograd.engine import conjugate, conjugate_all
from ..core.autograd.graph import Description, Node, clock
from ..core.autograd.multi_output import output_of
from ..core.fast.lazy_gradients import OutputGradients, materialize_pending
from ..core.source_location import user_location
from ..core.tensor import Tensor, wrap
from ..core.tensor_methods import set_history
from ..errors import GradientError
from ..events import OpApplied, emit
from ..modes import current, enable_grad, is_grad_enabled, no_grad
from .function_context import Context, identities

if TYPE_CHECKING:
    from .function import Function


class FunctionNode(Node):
    """The recorded call of a `Function`. Attributes of its `ctx` can be read from it."""

    __slots__ = ("arguments", "ctx", "gathers", "op", "outputs", "output_index", "shapes")

    function: type[Function]
    holds = True
    ctx: Context
    arguments: tuple[Any, ...]  # for each argument of forward the number of its edge, or None
    shapes: tuple[Any, ...]  # for each output an array-maker's (backend, shape, dtype), or None
    outputs: int
    output_index: int  # of the only output with a gradient

    @property
    def saved(self) -> Any:
        """What `ctx` has saved; None takes it away."""
        held = self.ctx._saved
        return held and tuple(getattr(each, "array", each) for each in held)

    @saved.setter
    def saved(self, value: None) -> None:
        self.ctx._saved = value

    def __getattr__(self, name: str) -> Any:
        if name == "ctx":
            raise AttributeError(name)
        return getattr(self.ctx, name)

    def backward(self, g: Any, edges: tuple[Any, ...], recording: bool) -> Sequence[Any]:
        """Call the user's backward with a gradient per output, and check what it returns."""
        by_output = g.by_output if g.__class__ is OutputGradients else {self.output_index: g}
        gradients = [self.output_gradient(by_output, i, recording) for i in range(self.outputs)]
        materialize_pending()
        with enable_grad() if recording and is_grad_enabled() else no_grad():
            returned = self.function.backward(self.ctx, *gradients)
        results = self.check_gradients(returned if isinstance(returned, tuple | list) else (returned,))
        if not recording:
            results = [result if result is None else result._array for result in results]
        return conjugate_all(results, recording)

    def node_of_output(self, index: int, array: Any) -> Node:
        """Return the node of an output again whose own has died with its tensor."""
        return output_node(self, index, array)

    def output_gradient(self, by_output: dict[int, Any], index: int, recording: bool) -> Tensor | None:
        """Return the gradient of one output as backward gets it."""
        g, made = by_output.get(index), self.shapes[index]
        if g is not None:
            g = conjugate(g, recording)
            return g if recording else wrap(g)
        if made is None or not self.ctx._materialize:
            return None
        backend, shape, kind = made
        return wrap(backend.xp.zeros(shape, kind))

    def check_gradients(self, returned: Sequence[Any]) -> list[Any]:
        """Return one gradient per edge out of one per argument.

        Raises: GradientError: too few or too many, one for no tensor, or a wrong shape.
        """
        name, wanted = self.name(), len(self.arguments)
        if len(returned) < wanted or any(each is not None for each in returned[wanted:]):
            raise GradientError(
                name,
                f"returned an incorrect number of gradients "
                f"(expected {wanted}, got {len(returned)})",
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


def can_sum_to(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Say whether broadcasting leads from `wanted` to `shape`, so that a sum leads back."""
    added = len(shape) - len(wanted)
    pairs = zip(wanted, shape[max(added, 0) :], strict=False)
    return added >= 0 and all(want in (1, have) for want, have in pairs)


def record(
    node: FunctionNode,
    ctx: Context,
    args: tuple[Any, ...],
    edges: tuple[Any, ...],
    names: tuple[str, ...],
    outputs: tuple[Any, ...],
) -> None:
    """Fill the node of a call and make it the past of the outputs that have a gradient."""
    constant = identities(ctx._constant)
    chosen = [
        index
        for index, output in enumerate(outputs)
        if isinstance(output, Tensor)
        and id(output) not in constant
        and output._array.dtype in dtypes.DIFFERENTIABLE
    ]
    if not chosen:
        return
    numbers = iter(range(len(edges)))
    node.ctx, node.edges, node.outputs, node.output_index = ctx, edges, len(outputs), chosen[0]
    node.arguments = tuple(next(numbers) if isinstance(x, Tensor) else None for x in args)
    node.shapes = tuple(
        (backends.of(x._array), x._array.shape, x._array.dtype) if isinstance(x, Tensor) else None
        for x in outputs
    )
    first = outputs[chosen[0]]._array
    node.shape, node.dtype, node.gathers = first.shape, first.dtype, len(chosen) > 1
    node.hooks = node.writes = None
    node._order = ctx._time = clock()
    nodes = {index: output_node(node, index, outputs[index]._array) for index in chosen}
    makers = {id(outputs[index]): ref(maker) for index, maker in nodes.items()}
    tensors = [argument for argument in args if isinstance(argument, Tensor)]
    ctx._node = ref(node)
    dirty = identities(ctx._dirty)
    ctx._save_tensors(node, tensors, names, makers)
    label = type(node).function.__name__
    doc = type(node).function.__doc__ or ""
    node.op = Description(label, names, doc, ctx._names)  # type: ignore[assignment]
    for index, maker in nodes.items():
        output = outputs[index]
        maker.writes = output._writes
        if id(output) in dirty:
            made = wrap(output._array)
            made._node = maker
            set_history(output, made)
        else:
            output._node = maker
    notify_listeners(node, tensors, nodes, outputs)


def output_node(node: FunctionNode, index: int, array: Any) -> Node:
    """Return the node of one output: the function's own, if no other has a gradient."""
    return node if not node.gathers else output_of(node, index, array)


def notify_listeners(
    node: FunctionNode, inputs: list[Tensor], nodes: dict[int, Node], outputs: tuple[Any, ...]
) -> None:
    """Tell the listeners that the function, and then each of its outputs, was computed."""
    modes = current()
    if modes.op_recorder is not None:
        modes.op_recorder.unknown()
    if not modes.listeners:
        return
    node.notes["place"] = user_location()
    made = wrap(outputs[node.output_index]._array)
    made._node = node
    emit(OpApplied(node.op, tuple(inputs), {}, made, node))
    for index, maker in nodes.items():
        if maker is not node:
            emit(OpApplied(maker.op, (made,), {}, outputs[index], maker))
