"""`Function`: an op of your own, with a forward and a backward you write yourself.

Its call leaves a `FunctionNode` in the graph. The engine knows nodes of one output
only. So each output of several gets an `OutputNode`, and these send their gradients
on to the one `FunctionNode`, which waits for all of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from .. import backends, dtypes
from ..core.autograd import LEAF, Node, clock, edge_of
from ..core.engine import Parts, conjugated, each_conjugated
from ..core.methods import refuse_leaf, set_history
from ..core.tensor import Tensor, wrap
from ..errors import GradientError
from ..events import OpApplied, emit
from ..modes import current, enable_grad, is_grad_enabled, no_grad
from .context import Context, Description, identities

__all__ = ["Context", "Function", "once_differentiable"]


class Function:
    """An op with a derivative of your own: y = forward(x), and backward as you write it.

    `forward` computes; nothing in it is recorded. `backward` takes one gradient per
    output and returns one per argument of forward, None where there is none. What both
    need goes through `ctx`. With `setup_context(ctx, inputs, output)` forward has no `ctx`.

    >>> class Cube(autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x ** 3
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x ** 2 * g
    >>> x = tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    _node_type: type[FunctionNode]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        members = {"__slots__": (), "function": cls, "__doc__": f"One recorded `{cls.__name__}`."}
        cls._node_type = type(f"{cls.__name__}Backward", (FunctionNode,), members)

    def __call__(self, *args: Any) -> Any:
        """Refuse: a `Function` is used by `apply`.

        Raises: GradientError: always.
        """
        raise GradientError(
            type(self).__name__,
            "Legacy autograd function with non-static forward method is deprecated",
            hint=f"make forward and backward @staticmethod and call {type(self).__name__}.apply(x)",
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs, a tensor or a tuple: `forward(ctx, *args)`."""
        raise NotImplementedError("You must implement the forward function of a custom Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep in `ctx` what backward needs; forward has then no `ctx` argument."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradient of each argument of forward."""
        raise NotImplementedError("You must implement the backward function of a custom Function.")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call `forward` on `args` and record the call, if one of them wants a gradient.

        Raises: GradientError: a leaf that requires grad was marked dirty.
        """
        ctx = Context()
        tensors = [each for each in args if isinstance(each, Tensor)]
        ctx.needs_input_grad = tuple(isinstance(x, Tensor) and x.requires_grad for x in args)
        recording = is_grad_enabled() and any(ctx.needs_input_grad)
        edges = tuple(edge_of(each) for each in tensors)
        separate = cls.setup_context is not Function.setup_context
        with no_grad():
            result = cls.forward(*args) if separate else cls.forward(ctx, *args)
            if separate:
                cls.setup_context(ctx, args, result)
        outputs = result if isinstance(result, tuple) else (result,)
        for each in ctx._dirty:
            refuse_dirty(cls, each, tensors, outputs)
            each._bump()
        outputs = tuple(own_tensor(each, tensors, ctx) for each in outputs)
        if recording:
            names = input_names(cls.forward, args, skip=0 if separate else 1)
            record(cls._node_type(), ctx, args, edges, names, outputs)
        return outputs if isinstance(result, tuple) else outputs[0]


def refuse_dirty(cls: type, dirty: Any, inputs: Sequence[Tensor], outputs: Sequence[Any]) -> None:
    """Raise GradientError unless `dirty` is an input that may be written, and an output."""
    if not any(each is dirty for each in inputs) or not any(each is dirty for each in outputs):
        raise GradientError(
            cls.__name__, "a tensor marked as dirty must be an input and be returned as an output",
            hint="mark_dirty is for inputs that forward wrote to",
        )  # fmt: skip
    refuse_leaf(dirty, cls.__name__)


def own_tensor(output: Any, inputs: Sequence[Tensor], ctx: Context) -> Any:
    """Return an output that may get a history of its own: an unchanged input gives a view."""
    if not isinstance(output, Tensor) or any(output is each for each in ctx._dirty):
        return output
    if any(output is each for each in inputs):
        view = output.detach()
        if id(output) in identities(ctx._constant):
            ctx._constant += (view,)
        return view
    return output if output._node is None else output.detach()


def input_names(forward: Callable[..., Any], args: Sequence[Any], skip: int) -> tuple[str, ...]:
    """Return what forward calls its tensor arguments."""
    names, rest = [], "input"
    for each in list(inspect.signature(forward).parameters.values())[skip:]:
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            rest = each.name
        else:
            names.append(each.name)
    names += [f"{rest}[{index}]" for index in range(len(args) - len(names))]
    pairs = zip(names, args, strict=False)
    return tuple(name for name, each in pairs if isinstance(each, Tensor))


# What is recorded ----------------------------------------------------------------------


class FunctionNode(Node):
    """The recorded call of a `Function`. Attributes of its `ctx` can be read from it."""

    __slots__ = ("arguments", "ctx", "gathers", "op", "outputs", "place", "shapes")

    function: type[Function]
    holds = True
    ctx: Context
    arguments: tuple[Any, ...]  # for each argument of forward the number of its edge, or None
    shapes: tuple[Any, ...]  # for each output an array-maker's (backend, shape, dtype), or None
    outputs: int
    place: int  # of the only output with a gradient

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
        by_output = g.by_output if g.__class__ is Parts else {self.place: g}
        gradients = [self.gradient(by_output, i, recording) for i in range(self.outputs)]
        with enable_grad() if recording else no_grad():
            returned = self.function.backward(self.ctx, *gradients)
        results = self.checked(returned if isinstance(returned, tuple | list) else (returned,))
        if not recording:
            results = [each if each is None else each._array for each in results]
        return each_conjugated(results, recording)

    def maker(self, index: int, array: Any) -> Node:
        """Return the node of an output again whose own has died with its tensor."""
        return output_node(self, index, array)

    def gradient(self, by_output: dict[int, Any], index: int, recording: bool) -> Tensor | None:
        """Return the gradient of one output as backward gets it."""
        g, made = by_output.get(index), self.shapes[index]
        if g is not None:
            g = conjugated(g, recording)
            return g if recording else wrap(g)
        if made is None or not self.ctx._materialize:
            return None
        backend, shape, kind = made
        return wrap(backend.xp.zeros(shape, kind))

    def checked(self, returned: Sequence[Any]) -> list[Any]:
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
                if not sums_to(tuple(g.shape), shape):
                    raise GradientError(
                        name,
                        f"returned an invalid gradient at index {position} - got "
                        f"{list(g.shape)} but expected shape compatible with {list(shape)}",
                        {"input": shape, "gradient": tuple(g.shape)},
                        "a gradient has the shape of its input",
                    )
                results[edge_number] = g
        return results


class OutputNode(Node):
    """One of several outputs of a `FunctionNode`: hands its gradient on to it."""

    __slots__ = ("index", "op")
    index: int

    def face(self) -> tuple[Node, int]:
        """Return the node that users see: the function's."""
        return self.edges[0], self.index  # type: ignore[return-value]

    def name(self) -> str:
        """Return the function's name."""
        return self.face()[0].name()

    def backward(self, g: Any, edges: tuple[Any, ...], recording: bool) -> Sequence[Any]:
        """Wrap the gradient up with its number."""
        (edge,) = edges
        return (None if edge is None else Parts(edge, {self.index: g}),)


def sums_to(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
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
        for index, each in enumerate(outputs)
        if isinstance(each, Tensor)
        and id(each) not in constant
        and each._array.dtype in dtypes.DIFFERENTIABLE
    ]
    if not chosen:
        return
    numbers = iter(range(len(edges)))
    node.ctx, node.edges, node.outputs, node.place = ctx, edges, len(outputs), chosen[0]
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
    tensors = [each for each in args if isinstance(each, Tensor)]
    ctx._node = ref(node)
    dirty = identities(ctx._dirty)
    ctx._settle(node, tensors, names, makers)
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
    tell(node, tensors, nodes, outputs)


def output_node(node: FunctionNode, index: int, array: Any) -> Node:
    """Return the node of one output: the function's own, if no other has a gradient."""
    if not node.gathers:
        return node
    each = OutputNode()
    each._order, each.edges, each.saved, each.index = clock(), (node,), (), index
    each.shape, each.dtype, each.hooks, each.writes = array.shape, array.dtype, None, None
    each.op = Description(f"output {index}", ("input",))  # type: ignore[assignment]
    return each


def tell(
    node: FunctionNode, inputs: list[Tensor], nodes: dict[int, Node], outputs: tuple[Any, ...]
) -> None:
    """Tell the listeners that the function, and then each of its outputs, was computed."""
    if not current().listeners:
        return
    made = wrap(outputs[node.place]._array)
    made._node = node
    emit(OpApplied(node.op, tuple(inputs), {}, made, node))
    for index, maker in nodes.items():
        if maker is not node:
            emit(OpApplied(maker.op, (made,), {}, outputs[index], maker))


# Backward that cannot be differentiated ------------------------------------------------


class OnlyOnce(Function):
    """The gradient of a backward that cannot be differentiated: an error, once it is needed."""

    @staticmethod
    def forward(ctx: Any, *gradients: Tensor) -> Any:
        """Return the gradients as they are."""
        return gradients

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Refuse."""
        raise GradientError(
            "once_differentiable",
            "trying to differentiate twice a function that was marked with @once_differentiable",
            hint="write its backward with differentiable ops and drop the decorator",
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `Function.backward` that computes outside the graph, in NumPy for example.

    A second derivative through it is then an error and never a wrong number.
    """

    @functools.wraps(backward)
    def once(ctx: Any, *gradients: Any) -> Any:
        with no_grad():
            returned = backward(ctx, *gradients)
        if not is_grad_enabled():
            return returned
        results = list(returned) if isinstance(returned, tuple | list) else [returned]
        given = [*gradients, *ctx.saved_tensors]
        if not any(isinstance(each, Tensor) and each._node is not None for each in given):
            return returned
        places = [i for i, each in enumerate(results) if isinstance(each, Tensor)]
        leaves = [results[i].detach() for i in places]
        for each in leaves:
            each._node = LEAF
        for i, each in zip(places, OnlyOnce.apply(*leaves), strict=True):
            results[i] = each
        return tuple(results)

    return once
