"""A module as text: its nested repr, and its place in an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def not_a_tensor(module: Module, args: tuple[object, ...]) -> EdutorchError | None:
    """Make the error for a layer of ours that was called with something else than a tensor."""
    given = args[0] if args else module
    own = type(module).__module__.startswith("edutorch.")
    if not own or (given is not None and not isinstance(given, list | str | int | float)):
        return None
    hint = "write torch.tensor(…) around it"
    if given is None:
        hint = "does `forward` of the layer before end with `return`?"
    name, kind = type(module).__name__, type(given).__name__
    error = NotATensorError(name, f"argument `input` must be a Tensor, not {kind}", hint=hint)
    located(error, module)
    return error


def one_line(module: Module) -> str:
    extra = module.extra_repr().replace("\n", ", ")
    return f"{module._get_name()}({extra})"
