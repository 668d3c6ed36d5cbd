"""`infer_schema`: the schema of a function from its annotations."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from edutorch.backends.device import device
from edutorch.core.tensor import Tensor
from edutorch.dtypes import dtype
from edutorch.errors import InvalidValueError

from .schema import default_text

__all__ = ["infer_schema"]

TYPE_NAMES: dict[Any, str] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
    dtype: "ScalarType", device: "Device",
}  # fmt: skip


def infer_schema(
    prototype_function: Callable[..., Any],
    *,
    mutates_args: str | Iterable[str] = (),
    op_name: str | None = None,
) -> str:
    """Return the schema that a function's annotations describe, without the name.

    Args:
        prototype_function: has an annotation for each argument and for the result.
        mutates_args: the arguments that it writes to, or "unknown": all tensors may be.
        op_name: is put in front of the schema.

    Raises: ValueError: an annotation is missing, or has no counterpart in a schema.

    >>> def scale(x: Tensor, by: float, *, bias: Tensor | None = None) -> Tensor: ...
    >>> edutorch.library.infer_schema(scale, mutates_args=())
    '(Tensor x, float by, *, Tensor? bias=None) -> Tensor'
    """
    function = prototype_function
    signature = inspect.signature(function)
    hints = typing.get_type_hints(function)
    names = set(signature.parameters)
    unknown = () if mutates_args == "unknown" else sorted(set(mutates_args) - names)
    if unknown:
        raise refuse(
            f"{unknown} in mutates_args were not found in the custom op's signature", function
        )
    parts: list[str] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise refuse("positional-only args, varargs and varkwargs are not supported", function)
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if name not in hints:
            raise refuse(f"Parameter {name} must have a type annotation", function)
        type_text = type_name(hints[name], name, function)
        if mutates_args == "unknown" or name in mutates_args:
            type_text = mark_write(
                type_text, len(parts) - parts.count("*"), name, mutates_args, function
            )
        parts.append(f"{type_text} {name}{default_of(parameter, function)}")
    if "return" not in hints:
        raise refuse("No return type annotation was provided", function)
    return f"{op_name or ''}({', '.join(parts)}) -> {result_text(hints['return'], function)}"


def refuse(message: str, function: Callable[..., Any]) -> InvalidValueError:
    """Make the error for a function whose schema cannot be inferred."""
    shown = f"{getattr(function, '__name__', function)}{inspect.signature(function)}"
    return InvalidValueError(
        "infer_schema", message, {"function": shown},
        "annotate it like f(x: Tensor, n: int = 1) -> Tensor, or pass schema=",
    )  # fmt: skip


def type_name(annotation: Any, name: str, function: Callable[..., Any]) -> str:
    """Return the schema's type for an annotation: "int[]?" for `Optional[List[int]]`."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        members = [member for member in inside if member is not type(None)]
        if set(members) == {int, float, bool}:
            text = "Scalar"
        elif len(members) == 1:
            text = type_name(members[0], name, function)
        else:
            raise unsupported(annotation, name, function)
        return f"{text}?" if len(members) < len(inside) else text
    if origin in (list, Sequence) and len(inside) == 1:
        return f"{type_name(inside[0], name, function)}[]"
    try:
        return TYPE_NAMES[annotation]
    except (KeyError, TypeError):
        raise unsupported(annotation, name, function) from None


def unsupported(
    annotation: Any, name: str, function: Callable[..., Any]
) -> InvalidValueError:  # fmt: skip
    """Make the error for an annotation that no schema has."""
    known = "Tensor, int, float, bool, str, dtype, device, Number, Optional[…], List[…]"
    return refuse(f"{name} has unsupported type {annotation}; the types are {known}", function)


def mark_write(
    type_text: str, position: int, name: str, mutates_args: Any, function: Callable[..., Any]
) -> str:
    """Return the type of an argument that is written to: "Tensor(a0!)"."""
    if not type_text.startswith("Tensor"):
        if mutates_args == "unknown":
            return type_text
        raise refuse(f"Parameter {name} is in mutates_args but is no tensor", function)
    return f"Tensor(a{position}!){type_text.removeprefix('Tensor')}"


def default_of(parameter: inspect.Parameter, function: Callable[..., Any]) -> str:
    """Return "=default" for a parameter that has one."""
    default = parameter.default
    if default is parameter.empty:
        return ""
    if default is None or isinstance(default, int | float | bool | str):
        return f"={default_text(default)}"
    if isinstance(default, dtype | device):
        return f'="{default}"'
    raise refuse(
        f"Parameter {parameter.name} has an unsupported default value type {type(default)}",
        function,
    )


def result_text(annotation: Any, function: Callable[..., Any]) -> str:
    """Return the results of a schema: "Tensor", "(Tensor, int)", or "()" for None."""
    if annotation is None or annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        inside = typing.get_args(annotation)
        return f"({', '.join(type_name(part, 'return', function) for part in inside)})"
    return type_name(annotation, "return", function)
