"""`Function`: custom ops with a user-defined forward and backward, and `once_differentiable`.

The node of a call in the graph is in `function_node.py`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..core.autograd.graph import LEAF, edge_of
from ..core.autograd.tangents import match_output, set_tangent, tangent_of, zeros_as
from ..core.autograd.view_tracking import notify_write
from ..core.tensor import Tensor
from ..core.tensor_methods import refuse_leaf
from ..errors import GradientError
from ..events import work
from ..modes import current, is_grad_enabled, no_grad, override_modes
from . import function_node
from .function_node import Context, FunctionNode, identities, record

__all__ = ["Context", "Function", "once_differentiable"]


class Function:
    """Base class of custom ops: y = forward(x), with a user-defined backward.

    `forward` is not recorded. `backward` takes one gradient per output and returns one per
    argument of forward, None where there is none. `ctx` passes values from forward to backward.
    With `setup_context(ctx, inputs, output)` forward has no `ctx` argument. `vjp` is an alias of
    `backward`; forward mode needs `jvp(ctx, *tangents)`.

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
    generate_vmap_rule = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = vars(cls)
        if "vjp" in own and "backward" in own:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. "
                "You should only implement one of them."
            )
        if "vjp" in own:
            cls.backward = cls.vjp  # type: ignore[method-assign]
        members = {"__slots__": (), "function": cls, "__doc__": f"One recorded `{cls.__name__}`."}
        cls._node_type = type(f"{cls.__name__}Backward", (FunctionNode,), members)

    def __call__(self, *args: Any) -> Any:
        """Raise an error: a `Function` is called by `apply`.

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
        """Store in `ctx` what backward needs; forward then has no `ctx` argument."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradient of each argument of forward."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return the tangent of each output, given those of the arguments of forward."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function "
            "to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Compute a batch of calls; return (outputs, their batch dims), as in PyTorch."""
        raise NotImplementedError(
            "You must implement the vmap function for custom autograd.Function "
            "(or set generate_vmap_rule=True) to use it with vmap."
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call `forward` on `args`, and record the call if one of them requires grad.

        Raises: GradientError: a leaf that requires grad was marked dirty.
        """
        ctx = Context()
        tensors = [argument for argument in args if isinstance(argument, Tensor)]
        # Also of what is no tensor: positions are those of the arguments of forward.
        ctx.needs_input_grad = tuple(isinstance(x, Tensor) and x.requires_grad for x in args)
        recording = is_grad_enabled() and any(ctx.needs_input_grad)
        # Before forward runs: it may write into an input, which then has another node.
        edges = tuple(edge_of(tensor) for tensor in tensors)
        has_setup_context = cls.setup_context is not Function.setup_context
        if current().listeners:
            with work("op", cls, args) as work_event:
                result = work_event.result = run_forward(cls, ctx, args, has_setup_context)
        else:
            result = run_forward(cls, ctx, args, has_setup_context)
        outputs = result if isinstance(result, tuple) else (result,)
        # The write is counted before the outputs are made: they are newer than it.
        for dirty in ctx._dirty:
            refuse_dirty(cls, dirty, tensors, outputs)
            dirty._bump()
        outputs = tuple(detach_output(output, tensors, ctx) for output in outputs)
        if recording:
            names = input_names(cls.forward, args, skip=0 if has_setup_context else 1)
            record(cls._node_type(), ctx, args, edges, names, outputs)
        if current().levels:
            push_tangents(cls, ctx, args, outputs)
        for dirty in ctx._dirty:
            notify_write(dirty, dirty)
        return outputs if isinstance(result, tuple) else outputs[0]


def run_forward(
    cls: type[Function], ctx: Context, args: tuple[Any, ...], has_setup_context: bool
) -> Any:
    """Call `forward` without recording, and `setup_context` if it is defined."""
    with override_modes(grad=False, levels=()):
        result = cls.forward(*args) if has_setup_context else cls.forward(ctx, *args)
        if has_setup_context:
            cls.setup_context(ctx, args, result)
    return result


def push_tangents(
    cls: type[Function], ctx: Context, args: tuple[Any, ...], outputs: tuple[Any, ...]
) -> None:
    """Set the tangents of the outputs to those that the user's `jvp` returns."""
    levels = current().levels
    for depth, level in enumerate(levels):
        tangents = [tangent_of(argument, level) for argument in args]
        if all(tangent is None for tangent in tangents):
            continue
        if ctx._materialize:
            pairs = zip(args, tangents, strict=True)
            tangents = [zeros_as(x) if t is None and isinstance(x, Tensor) else t for x, t in pairs]
        with override_modes(levels=levels[:depth]), ctx._forward_mode():
            returned = cls.jvp(ctx, *tangents)
        output_tangents = returned if isinstance(returned, tuple) else (returned,)
        if len(output_tangents) != len(outputs):
            raise GradientError(
                cls.__name__, "jvp returned an incorrect number of tangents",
                {"outputs": len(outputs), "returned": len(output_tangents)},
            )  # fmt: skip
        for output, tangent in zip(outputs, output_tangents, strict=True):
            if isinstance(output, Tensor):
                set_tangent(
                    output, level, None if tangent is None else match_output(tangent, output)
                )


def refuse_dirty(cls: type, dirty: Any, inputs: Sequence[Tensor], outputs: Sequence[Any]) -> None:
    """Raise GradientError unless `dirty` is a writable input and an output."""
    if not any(input_ is dirty for input_ in inputs) or not any(
        output is dirty for output in outputs
    ):
        raise GradientError(
            cls.__name__, "a tensor marked as dirty must be an input and be returned as an output",
            hint="mark_dirty is for inputs that forward wrote to",
        )  # fmt: skip
    refuse_leaf(dirty, cls.__name__)


def detach_output(output: Any, inputs: Sequence[Tensor], ctx: Context) -> Any:
    """Return an output that can get its own history: for an unchanged input, a view of it."""
    if not isinstance(output, Tensor) or any(output is dirty for dirty in ctx._dirty):
        return output
    if any(output is input_ for input_ in inputs):
        view = output.detach()
        if id(output) in identities(ctx._constant):
            ctx._constant += (view,)
        return view
    return output if output._node is None else output.detach()


def input_names(forward: Callable[..., Any], args: Sequence[Any], skip: int) -> tuple[str, ...]:
    """Return the names of the tensor arguments in the signature of forward."""
    names, rest = [], "input"
    for parameter in list(inspect.signature(forward).parameters.values())[skip:]:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            rest = parameter.name
        else:
            names.append(parameter.name)
    names += [f"{rest}[{index}]" for index in range(len(args) - len(names))]
    pairs = zip(names, args, strict=False)
    return tuple(name for name, argument in pairs if isinstance(argument, Tensor))


class DelayedError(Function):
    """A function whose backward raises an error: for gradients that cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, *gradients: Tensor) -> Any:
        """Return the gradients unchanged."""
        return gradients

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Raise GradientError."""
        raise GradientError(
            "once_differentiable",
            "trying to differentiate twice a function that was marked with @once_differentiable",
            hint="write its backward with differentiable ops and drop the decorator",
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `Function.backward` that is not recorded, for example because it uses NumPy.

    A second derivative through it is then an error instead of a wrong value.
    """

    @functools.wraps(backward)
    def wrapped(ctx: Any, *gradients: Any) -> Any:
        with no_grad():
            returned = backward(ctx, *gradients)
        # Nothing is recorded here: there is no second derivative to refuse.
        if not is_grad_enabled():
            return returned
        results = list(returned) if isinstance(returned, tuple | list) else [returned]
        dependencies = [*gradients, *ctx.saved_tensors]
        if not any(isinstance(value, Tensor) and value._node is not None for value in dependencies):
            return returned
        positions = [i for i, result in enumerate(results) if isinstance(result, Tensor)]
        # New leaves under a node that raises: the error comes only if that node is run.
        leaves = [results[i].detach() for i in positions]
        for leaf in leaves:
            leaf._node = LEAF
        for i, gradient in zip(positions, DelayedError.apply(*leaves), strict=True):
            results[i] = gradient
        return tuple(results)

    return wrapped


# Its annotations name it: `typing.get_type_hints` looks there.
function_node.Function = Function  # type: ignore[attr-defined]
