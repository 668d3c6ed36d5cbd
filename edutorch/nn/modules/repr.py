"""The nested repr of a module, and its path in error messages."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy

from ...core.argument_checks import explain_failure, is_inside
from ...core.error_messages import no_tensor
from ...errors import ArgumentError, EdutorchError, layout

if TYPE_CHECKING:
    from .module import Module


def nested_repr(module: Module) -> str:
    """Return the repr of a module: one line, or one indented line per child."""
    extra = module.extra_repr().split("\n") if module.extra_repr() else []
    children = [f"({name}): {indent_lines(repr(child))}" for name, child in module._modules.items()]
    return format_repr(module._get_name(), extra, children)


def format_repr(name: str, extra: list[str], children: list[str]) -> str:
    """Join the parts of a repr: on one line if it has at most one part and no children."""
    lines = extra + children
    if not lines:
        return f"{name}()"
    if len(extra) == 1 and not children:
        return f"{name}({extra[0]})"
    return f"{name}(\n  " + "\n  ".join(lines) + "\n)"


def indent_lines(text: str) -> str:
    """Indent all lines but the first."""
    return text.replace("\n", "\n  ")


def add_module_path(error: EdutorchError, module: Module) -> None:
    """Add to an error the path of the module in which it happened, from the outermost one.

    It is called for the innermost module first; each outer module makes the path longer.
    """
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
