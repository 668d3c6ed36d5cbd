"""Calls of modules: hooks before and after `forward` and on the gradients, events, errors.

PyTorch has the hooks of all modules in `torch.nn.modules.module`. With none registered they cost
one truth test per call of a module.
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from ...core.argument_checks import explain_failure, is_inside
from ...core.autograd.graph import Node, RemovableHandle
from ...core.error_messages import no_tensor
from ...core.tensor import Tensor
from ...errors import ArgumentError, EdutorchError, layout, warn
from ...events import ModuleEntered, ModuleLeft, emit
from ...modes import current
from ...ops import cat, narrow, reshape

if TYPE_CHECKING:
    from .module import Module


@dataclass(frozen=True)
class Hook:
    """A user's function, and how to call it."""

    function: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the function: `hook._tensor_name` of a pruning method."""
        if name == "function" or name.startswith("__"):  # not set yet while being copied
            raise AttributeError(name)
        return getattr(self.function, name)


# Hooks of all modules -------------------------------------------------------------------------


CALL_HOOKS: OrderedDict[int, tuple[str, Hook]] = OrderedDict()
"""(type, hook) pairs for the calls of all modules."""


REGISTRATION_HOOKS: OrderedDict[int, tuple[str, Callable[..., Any]]] = OrderedDict()
"""(type, hook) pairs for the registration of members of all modules."""


def global_call_hooks(hook_type: str) -> dict[int, Hook]:
    """Return the global hooks of one type for calls."""
    return (
        {
            hook_id: hook
            for hook_id, (registered_type, hook) in CALL_HOOKS.items()
            if registered_type == hook_type
        }
        if CALL_HOOKS
        else {}
    )


def run_registration_hooks(hook_type: str, module: object, name: str, member: object) -> Any:
    """Return a new member of a module as the hooks have left it; each may replace it."""
    for registered_type, hook in tuple(REGISTRATION_HOOKS.values()):
        if registered_type == hook_type:
            replacement = hook(module, name, member)
            member = member if replacement is None else replacement
    return member


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before `forward` of every module; it may return other args.

    >>> from edutorch.nn.modules.module import register_module_forward_pre_hook
    >>> with register_module_forward_pre_hook(lambda module, args: print(module)):
    ...     _ = nn.Sequential(nn.ReLU())(ones(1))
    Sequential(
      (0): ReLU()
    )
    ReLU()
    """
    return RemovableHandle(CALL_HOOKS, ("forward_pre", Hook(hook)))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after `forward` of every module.

    What it returns replaces the output. With `with_kwargs` it is called as
    `hook(module, args, kwargs, output)`, with `always_call` also when `forward` raised.
    """
    return RemovableHandle(CALL_HOOKS, ("forward", Hook(hook, with_kwargs, always_call)))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` before the backward of every module."""
    return RemovableHandle(CALL_HOOKS, ("backward_pre", Hook(hook)))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` after the backward of every module.

    Raises: RuntimeError: there are hooks by `register_module_backward_hook`.
    """
    refuse_mixed_backward_hooks(not global_call_hooks("old_backward"))
    return RemovableHandle(CALL_HOOKS, ("backward", Hook(hook)))


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook on the last op of every module (deprecated: it may not see all inputs).

    Raises: RuntimeError: there are hooks by `register_module_full_backward_hook`.
    """
    refuse_mixed_backward_hooks(not global_call_hooks("backward"))
    return RemovableHandle(CALL_HOOKS, ("old_backward", Hook(hook)))


def refuse_mixed_backward_hooks(condition: bool) -> None:
    """Raise RuntimeError unless all backward hooks are full ones, or none is."""
    if not condition:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks. Please use only one "
            "of them: register_full_backward_hook sees all gradients of a module"
        )


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, param)` whenever a module gets a parameter; it may return another.

    >>> from edutorch.nn.modules.module import register_module_parameter_registration_hook
    >>> with register_module_parameter_registration_hook(lambda module, name, p: print(name)):
    ...     _ = nn.Linear(2, 1)
    weight
    bias
    """
    return RemovableHandle(REGISTRATION_HOOKS, ("parameter", hook))


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` whenever a module gets a buffer; it may return another."""
    return RemovableHandle(REGISTRATION_HOOKS, ("buffer", hook))


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, child)` whenever a module gets a child; it may return another."""
    return RemovableHandle(REGISTRATION_HOOKS, ("module", hook))


# Calls ----------------------------------------------------------------------------------------


def call_with_events(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `module.forward` with its hooks, and emit events for listeners."""
    # Read once: a listener may be added or removed while the module runs.
    listeners = current().listeners
    if listeners:
        emit(ModuleEntered(module, args))
    output = None
    try:
        output = call_with_hooks(module, args, kwargs)
    finally:
        if listeners:
            emit(ModuleLeft(module, output))
    return output


def call_with_hooks(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `module.forward` with its hooks; those with `always_call` run even if it raises."""
    output, called = None, set()
    try:
        for hook in hooks_of(module, "forward_pre"):
            args, kwargs = run_forward_pre_hook(hook, module, args, kwargs)
        backward_hook = BackwardHook(module) if has_backward_hooks(module) else None
        if backward_hook:
            args = backward_hook.setup_input_hook(args)
        output = module.forward(*args, **kwargs)
        for hook in hooks_of(module, "forward"):
            called.add(id(hook))
            replacement = run_forward_hook(hook, module, args, kwargs, output)
            output = output if replacement is None else replacement
        if backward_hook:
            output = backward_hook.setup_output_hook(output)
        register_non_full_backward_hooks(module, args, output)
        return output
    # Also for KeyboardInterrupt: hooks with `always_call` often release something.
    except BaseException:
        for hook in hooks_of(module, "forward"):
            if hook.always_call and id(hook) not in called:
                run_forward_hook(hook, module, args, kwargs, output)
        raise


def hooks_of(module: Module, hook_type: str) -> tuple[Hook, ...]:
    """Return the hooks of one type: the global ones, then those of the module."""
    own = module.__dict__[f"_{hook_type}_hooks"]
    return (*global_call_hooks(hook_type).values(), *own.values())


def run_forward_pre_hook(
    hook: Hook, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Call a pre-hook; what it returns replaces the arguments."""
    if not hook.with_kwargs:
        result = hook.function(module, args)
        if result is not None:
            args = result if isinstance(result, tuple) else (result,)
        return args, kwargs
    result = hook.function(module, args, kwargs)
    if result is None:
        return args, kwargs
    if not (isinstance(result, tuple) and len(result) == 2):
        raise EdutorchError(
            "forward pre-hook",
            f"must return None or a tuple of (new_args, new_kwargs), got {result}",
        )
    return result


def run_forward_hook(
    hook: Hook, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: object
) -> Any:
    if hook.with_kwargs:
        return hook.function(module, args, kwargs, output)
    return hook.function(module, args, output)


# Backward ------------------------------------------------------------------------------------


def has_backward_hooks(module: Module) -> bool:
    """Whether full backward hooks have to run, global ones or the module's own."""
    own = module._backward_pre_hooks or (module._is_full_backward_hook and module._backward_hooks)
    hook_types = {hook_type for hook_type, _ in CALL_HOOKS.values()}
    return bool(own or hook_types & {"backward", "backward_pre"}) and current().grad


def register_non_full_backward_hooks(module: Module, args: tuple[Any, ...], output: Any) -> None:
    """Register non-full backward hooks on the node of the (first) output."""
    hooks = list(global_call_hooks("old_backward").values())
    if module._is_full_backward_hook is False:
        hooks += module._backward_hooks.values()
    if not hooks:
        return
    first_output = output
    # PyTorch looks at the first tensor only, however deep the output is nested.
    while not isinstance(first_output, Tensor):
        if isinstance(first_output, dict):
            first_output = next(
                value for value in first_output.values() if isinstance(value, Tensor)
            )
        else:
            first_output = first_output[0]
    if first_output.grad_fn is not None:
        for hook in hooks:
            first_output.grad_fn.register_hook(functools.partial(hook.function, module))
        warn_if_incomplete(args, output, first_output.grad_fn)


def warn_if_incomplete(args: tuple[Any, ...], output: object, node: Node) -> None:
    """Warn if a non-full hook, which sees one node, does not see the whole module."""
    outputs = output if isinstance(output, tuple) else (output,)
    nodes = {output.grad_fn for output in outputs if isinstance(output, Tensor) and output.grad_fn}
    next_nodes = [next_node for next_node, _ in node.next_functions if next_node is not None]
    for is_complete, case, lost in (
        (
            all(isinstance(output, Tensor) for output in outputs),
            "on a Module that does not return a single Tensor or a tuple of Tensors",
            "grad_output",
        ),
        (
            all(isinstance(argument, Tensor) for argument in args),
            "on a Module that does not take as input a single Tensor or a tuple of Tensors",
            "grad_input",
        ),
        (len(nodes) < 2, "when outputs are generated by different autograd Nodes", "grad_output"),
        (
            {
                argument.grad_fn
                for argument in args
                if isinstance(argument, Tensor) and argument.grad_fn
            }
            == set(next_nodes),
            "when the forward contains multiple autograd Nodes",
            "grad_input",
        ),
    ):
        if not is_complete:
            warn(
                f"Using a non-full backward hook {case} is deprecated: it will be missing some "
                f"{lost}. Please use register_full_backward_hook to get the documented behavior.",
                FutureWarning,
            )
            return


class BackwardHook:
    """The backward hooks of one call of a module.

    All inputs pass through one node and all outputs through another: there all gradients
    are available at once.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.grad_output: tuple[Any, ...] = ()
        self.argument_count = 0
        self.input_indices: list[int] = []

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Pass the arguments that require grad through a node, and hook their gradients."""
        self.argument_count = len(args)
        self.input_indices = [
            i
            for i, argument in enumerate(args)
            if isinstance(argument, Tensor) and argument.requires_grad
        ]
        if not self.input_indices:
            return args
        # One node for all inputs: its gradient arrives when all of theirs are complete.
        passed_on = pass_through_node([args[i] for i in self.input_indices], self.run_hooks)
        replacements = dict(zip(self.input_indices, passed_on, strict=True))
        return tuple(replacements.get(i, argument) for i, argument in enumerate(args))

    def setup_output_hook(self, output: Any) -> Any:
        """Pass the outputs that require grad through a node, and hook their gradients."""
        is_sequence = isinstance(output, tuple | list)
        values = list(output) if is_sequence else [output]
        indices = [
            i for i, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad
        ]
        if not indices:
            return output

        def hook(gradients: list[Tensor]) -> list[Tensor]:
            return self.run_pre_hooks(gradients, indices, len(values))

        for i, passed_on in zip(
            indices, pass_through_node([values[i] for i in indices], hook), strict=True
        ):
            values[i] = passed_on
        return type(output)(values) if is_sequence else values[0]

    def run_pre_hooks(
        self, gradients: list[Tensor], indices: list[int], count: int
    ) -> list[Tensor]:
        """Run the pre-hooks, which may replace the gradients of the outputs."""
        self.grad_output = scatter_gradients(gradients, indices, count)
        for hook in hooks_of(self.module, "backward_pre"):
            replacement = hook.function(self.module, self.grad_output)
            if replacement is not None:
                self.grad_output = replacement if isinstance(replacement, tuple) else (replacement,)
        if not self.input_indices:  # no input requires grad: the other node will not run
            self.run_hooks([])
        return [self.grad_output[i] for i in indices]

    def run_hooks(self, gradients: list[Tensor]) -> list[Tensor]:
        """Run the hooks, which may replace the gradients of the inputs."""
        grad_input = scatter_gradients(gradients, self.input_indices, self.argument_count)
        for hook in hooks_of(self.module, "backward"):
            replacement = hook.function(self.module, grad_input, self.grad_output)
            if replacement is not None:
                grad_input = replacement if isinstance(replacement, tuple) else (replacement,)
        return [
            gradient
            for i, gradient in enumerate(grad_input)
            if i in self.input_indices and gradient is not None
        ]


def scatter_gradients(
    gradients: list[Tensor], indices: list[int], count: int
) -> tuple[Tensor | None, ...]:
    """Return `count` gradients: those given at their indices, None elsewhere."""
    by_index = dict(zip(indices, gradients, strict=True))
    return tuple(by_index.get(i) for i in range(count))


def pass_through_node(
    tensors: Sequence[Tensor], hook: Callable[[list[Tensor]], list[Tensor]]
) -> list[Tensor]:
    """Pass tensors through one node whose `hook` gets, and may replace, all gradients."""
    # An op with several inputs and one gradient, in which all of theirs are available at once.
    joined = cat([reshape(tensor, (-1,)) for tensor in tensors])

    def replace_gradient(g: Tensor) -> Tensor:
        gradients = [part.to(tensor.dtype) for part, tensor in zip(split(g), tensors, strict=True)]
        return cat([reshape(gradient, (-1,)) for gradient in hook(gradients)])

    def split(flat: Tensor) -> list[Tensor]:
        parts, start = [], 0
        for tensor in tensors:
            part = narrow(flat, 0, start, tensor.numel())
            parts.append(reshape(part, tensor.shape))
            start += tensor.numel()
        return parts

    joined.register_hook(replace_gradient)
    return [part.to(tensor.dtype) for part, tensor in zip(split(joined), tensors, strict=True)]


# Errors of a call -----------------------------------------------------------------------------


def add_module_path(error: EdutorchError, module: Module) -> None:
    """Add to an error the path of the module in which it happened, from the outermost one.

    It is called for the innermost module first; each outer module makes the path longer.
    """
    # Each outer module adds its part, but the innermost one names the layer.
    innermost, text = error.__dict__.get("place", (id(module), one_line_repr(module)))
    error.__dict__["place"] = innermost, text
    paths = (path for path, child in module.named_modules() if id(child) == innermost)
    path = next(paths, "")
    error.arguments["module"] = f"{path}: {text}" if path else text
    error.args = (layout(error.op, error.message, error.arguments, error.hint),)


class NotATensorError(ArgumentError, AttributeError):
    """A layer was called with something else. (PyTorch raises either error, by the layer.)"""


def is_edutorch_module(module: Module) -> bool:
    """Whether a module is one of edutorch's, whose inputs are tensors."""
    return type(module).__module__.startswith("edutorch.")


def refuse_array(module: Module, args: tuple[object, ...]) -> None:
    """Raise ArgumentError if one of edutorch's layers is called with a NumPy array.

    Its ops accept arrays, as derivative rules need, but the result would not be a tensor, or
    one of another precision. (A container passes on what it gets.)
    """
    is_container = module._modules or type(module).__name__ == "Identity"
    if is_container or not is_edutorch_module(module):
        return
    # Only reached with an array among the arguments: the signature costs more than a small layer.
    names = list(inspect.signature(module.forward).parameters)
    for position, value in enumerate(args):
        if isinstance(value, numpy.ndarray):
            name = names[min(position, len(names) - 1)]
            raise no_tensor(type(module).__name__, name, value)


def explain_wrong_input(
    module: Module, args: tuple[object, ...], error: Exception
) -> EdutorchError | None:
    """Return a better error if one of edutorch's layers was called without a tensor."""
    value = args[0] if args else module
    if not is_edutorch_module(module) or isinstance(error, EdutorchError) or not is_inside(error):
        return None
    name, type_name = type(module).__name__, type(value).__name__
    if value is None or isinstance(value, list | str | int | float):
        hint = "write torch.tensor(…) around it"
        if value is None:
            hint = "does `forward` of the layer before end with `return`?"
        explained_error = NotATensorError(
            name, f"argument `input` must be a Tensor, not {type_name}", hint=hint
        )
    elif not args or not hasattr(value, "_array"):
        return None
    else:
        explained_error = explain_failure(name, error, list(signature_of(module)), args, {})
    if explained_error is not None:
        add_module_path(explained_error, module)
    return explained_error


def signature_of(module: Module) -> Iterable[inspect.Parameter]:
    return inspect.signature(module.forward).parameters.values()


def one_line_repr(module: Module) -> str:
    """Return the repr of a module without its children."""
    extra = module.extra_repr().replace("\n", ", ")
    return f"{module._get_name()}({extra})"
