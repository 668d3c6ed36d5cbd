"""Functions that users hang onto a module: before it, behind it, and on its gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...core.tensor import Tensor
from ...errors import EdutorchError, warn
from ...events import ModuleEntered, ModuleLeft, emit
from ...modes import current
from ...ops import cat, narrow, reshape
from .global_hooks import CALLS, Hook, around_calls

if TYPE_CHECKING:
    from .module import Module


def call_watched(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `module.forward` with everything around it: hooks, and events for listeners."""
    told = current().listeners
    if told:
        emit(ModuleEntered(module, args))
    output = None
    try:
        output = call_hooked(module, args, kwargs)
    finally:
        if told:
            emit(ModuleLeft(module, output))
    return output


def call_hooked(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    output, called = None, set()
    try:
        for hook in hooks_of(module, "forward_pre"):
            args, kwargs = before(hook, module, args, kwargs)
        watch = BackwardWatch(module) if watched_backward(module) else None
        if watch:
            args = watch.inputs(args)
        output = module.forward(*args, **kwargs)
        for hook in hooks_of(module, "forward"):
            called.add(id(hook))
            replaced = behind(hook, module, args, kwargs, output)
            output = output if replaced is None else replaced
        if watch:
            output = watch.outputs(output)
        watch_last_op(module, args, output)
        return output
    except BaseException:
        for hook in hooks_of(module, "forward"):
            if hook.always_call and id(hook) not in called:
                behind(hook, module, args, kwargs, output)
        raise


def hooks_of(module: Module, kind: str) -> tuple[Hook, ...]:
    """Return the hooks of a kind: those of all modules, then those of this one."""
    own = module.__dict__[f"_{kind}_hooks"]
    return (*around_calls(kind).values(), *own.values())


def before(
    hook: Hook, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Call a pre-hook; what it returns replaces the arguments."""
    if not hook.with_kwargs:
        found = hook.function(module, args)
        if found is not None:
            args = found if isinstance(found, tuple) else (found,)
        return args, kwargs
    found = hook.function(module, args, kwargs)
    if found is None:
        return args, kwargs
    if not (isinstance(found, tuple) and len(found) == 2):
        raise EdutorchError(
            "forward pre-hook",
            f"must return None or a tuple of (new_args, new_kwargs), got {found}",
        )
    return found


def behind(
    hook: Hook, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> Any:
    if hook.with_kwargs:
        return hook.function(module, args, kwargs, output)
    return hook.function(module, args, output)


# Backward ------------------------------------------------------------------------------------


def watched_backward(module: Module) -> bool:
    own = module._backward_pre_hooks or (module._is_full_backward_hook and module._backward_hooks)
    kinds = {kind for kind, _ in CALLS.values()}
    return bool(own or kinds & {"backward", "backward_pre"}) and current().grad


def watch_last_op(module: Module, args: tuple[Any, ...], output: Any) -> None:
    """Hang the hooks in old style on the node of the output, or of the first of the outputs."""
    hooks = list(around_calls("old_backward").values())
    if module._is_full_backward_hook is False:
        hooks += module._backward_hooks.values()
    if not hooks:
        return
    first = output
    while not isinstance(first, Tensor):
        if isinstance(first, dict):
            first = next(each for each in first.values() if isinstance(each, Tensor))
        else:
            first = first[0]
    if first.grad_fn is not None:
        for hook in hooks:
            first.grad_fn.register_hook(functools.partial(hook.function, module))
        warn_of_missing(args, output, first.grad_fn)


def warn_of_missing(args: tuple[Any, ...], output: Any, node: Any) -> None:
    """Warn if a hook in old style, which sees one node, does not see the whole module."""
    outputs = output if isinstance(output, tuple) else (output,)
    nodes = {output.grad_fn for output in outputs if isinstance(output, Tensor) and output.grad_fn}
    behind_it = [each for each, _ in node.next_functions if each is not None]
    for fine, what, lost in (
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
            == set(behind_it),
            "when the forward contains multiple autograd Nodes",
            "grad_input",
        ),
    ):
        if not fine:
            warn(
                f"Using a non-full backward hook {what} is deprecated: it will be missing some "
                f"{lost}. Please use register_full_backward_hook to get the documented behavior.",
                FutureWarning,
            )
            return


class BackwardWatch:
    """One call of a module whose gradients are to be shown to its backward hooks.

    All inputs pass through one node, all outputs through another: there the
    gradients come by together.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.grad_output: tuple[Any, ...] = ()
        self.arguments = 0
        self.places: list[int] = []

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Watch what flows back into the arguments that want a gradient."""
        self.arguments = len(args)
        self.places = [
            i
            for i, argument in enumerate(args)
            if isinstance(argument, Tensor) and argument.requires_grad
        ]
        if not self.places:
            return args
        passed = through([args[i] for i in self.places], self.input_gradients)
        renewed = dict(zip(self.places, passed, strict=True))
        return tuple(renewed.get(i, argument) for i, argument in enumerate(args))

    def outputs(self, output: Any) -> Any:
        """Watch what flows back out of the result: a tensor, or a tuple or list of some."""
        several = isinstance(output, tuple | list)
        found = list(output) if several else [output]
        places = [
            i for i, each in enumerate(found) if isinstance(each, Tensor) and each.requires_grad
        ]
        if not places:
            return output

        def seen(gradients: list[Tensor]) -> list[Tensor]:
            return self.output_gradients(gradients, places, len(found))

        for i, each in zip(places, through([found[i] for i in places], seen), strict=True):
            found[i] = each
        return type(output)(found) if several else found[0]

    def output_gradients(
        self, gradients: list[Tensor], places: list[int], count: int
    ) -> list[Tensor]:
        """The gradients of the outputs are here: the pre-hooks may replace them."""
        self.grad_output = spread(gradients, places, count)
        for hook in hooks_of(self.module, "backward_pre"):
            replaced = hook.function(self.module, self.grad_output)
            if replaced is not None:
                self.grad_output = replaced if isinstance(replaced, tuple) else (replaced,)
        if not self.places:  # nothing flows further, so this is the end
            self.input_gradients([])
        return [self.grad_output[i] for i in places]

    def input_gradients(self, gradients: list[Tensor]) -> list[Tensor]:
        """The gradients of the inputs are here too: the hooks may replace these."""
        grad_input = spread(gradients, self.places, self.arguments)
        for hook in hooks_of(self.module, "backward"):
            replaced = hook.function(self.module, grad_input, self.grad_output)
            if replaced is not None:
                grad_input = replaced if isinstance(replaced, tuple) else (replaced,)
        return [each for i, each in enumerate(grad_input) if i in self.places and each is not None]


def spread(gradients: list[Tensor], places: list[int], count: int) -> tuple[Tensor | None, ...]:
    """Put each gradient to its place among `count`; the others are None."""
    found = dict(zip(places, gradients, strict=True))
    return tuple(found.get(i) for i in range(count))


def through(
    tensors: Sequence[Tensor], watch: Callable[[list[Tensor]], list[Tensor]]
) -> list[Tensor]:
    """Pass tensors through one node, so that `watch` sees, and may replace, all gradients."""
    joined = cat([reshape(tensor, (-1,)) for tensor in tensors])

    def seen(g: Tensor) -> Tensor:
        gradients = [part.to(tensor.dtype) for part, tensor in zip(cut(g), tensors, strict=True)]
        return cat([reshape(each, (-1,)) for each in watch(gradients)])

    def cut(row: Tensor) -> list[Tensor]:
        parts, start = [], 0
        for tensor in tensors:
            part = narrow(row, 0, start, tensor.numel())
            parts.append(reshape(part, tensor.shape))
            start += tensor.numel()
        return parts

    joined.register_hook(seen)
    return [part.to(tensor.dtype) for part, tensor in zip(cut(joined), tensors, strict=True)]
