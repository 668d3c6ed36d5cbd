"""A module as text: its nested repr, and its place in an error."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy

from ...core.argument_checks import explained, is_inside
from ...core.error_messages import no_tensor
from ...errors import ArgumentError, EdutorchError, layout

if TYPE_CHECKING:
    from .module import Module


def nested_repr(module: Module) -> str:
    """Write a module on one line, or with one indented line for each child."""
    extra = module.extra_repr().split("\n") if module.extra_repr() else []
    children = [f"({name}): {indented(repr(child))}" for name, child in module._modules.items()]
    return wrapped(module._get_name(), extra, children)


def wrapped(name: str, extra: list[str], children: list[str]) -> str:
    lines = extra + children
    if not lines:
        return f"{name}()"
    if len(extra) == 1 and not children:
        return f"{name}({extra[0]})"
    return f"{name}(\n  " + "\n  ".join(lines) + "\n)"


def indented(text: str) -> str:
    """Indent all lines but the first."""
    return text.replace("\n", "\n  ")


def located(error: EdutorchError, module: Module) -> None:
    """Write into an error in which module it happened, as a path from the outermost one.

    Called for the innermost module first; each one further out makes the path longer.
    """
    innermost, line = error.__dict__.get("place", (id(module), one_line(module)))
    error.__dict__["place"] = innermost, line
    paths = (path for path, each in module.named_modules() if id(each) == innermost)
    path = next(paths, "")
    error.arguments["module"] = f"{path}: {line}" if path else line
    error.args = (layout(error.op, error.message, error.arguments, error.hint),)


class NotATensorError(ArgumentError, AttributeError):
    """A layer was called with something else. (PyTorch raises either, by the layer.)"""


def is_own(module: Module) -> bool:
    """Say whether a module is one of this library's, whose inputs are tensors."""
    return type(module).__module__.startswith("edutorch.")


def refuse_array(module: Module, args: tuple[object, ...]) -> None:
    """Raise ArgumentError if a layer of ours is called with a NumPy array.

    Its ops would compute with it, as derivative rules do, and the result would be no tensor,
    or one of another precision. (A container hands on what it gets.)
    """
    hands_on = module._modules or type(module).__name__ == "Identity"
    if hands_on or not is_own(module):
        return
    names = list(inspect.signature(module.forward).parameters)
    for position, value in enumerate(args):
        if isinstance(value, numpy.ndarray):
            name = names[min(position, len(names) - 1)]
            raise no_tensor(type(module).__name__, name, value)


def not_a_tensor(
    module: Module, args: tuple[object, ...], error: Exception
) -> EdutorchError | None:
    """Make the error for a layer of ours that was called with something else than a tensor."""
    value = args[0] if args else module
    if not is_own(module) or isinstance(error, EdutorchError) or not is_inside(error):
        return None
    name, kind = type(module).__name__, type(value).__name__
    if value is None or isinstance(value, list | str | int | float):
        hint = "write torch.tensor(…) around it"
        if value is None:
            hint = "does `forward` of the layer before end with `return`?"
        better = NotATensorError(name, f"argument `input` must be a Tensor, not {kind}", hint=hint)
    elif not args or not hasattr(value, "_array"):
        return None
    else:
        better = explained(name, error, list(signature_of(module)), args, {})
    if better is not None:
        located(better, module)
    return better


def signature_of(module: Module) -> Iterable[inspect.Parameter]:
    return inspect.signature(module.forward).parameters.values()


def one_line(module: Module) -> str:
    extra = module.extra_repr().replace("\n", ", ")
    return f"{module._get_name()}({extra})"
