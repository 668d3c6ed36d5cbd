"""Python's annotations and values as TorchScript's types."""

from __future__ import annotations

import ast
import collections.abc
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from .. import dtypes
from ..backends.device import Device
from ..core.shapes import Size
from ..core.tensor import Tensor
from ..nn.modules.module import Module
from .type_expressions import parse_type

NAMES: dict[Any, str] = {
    int: "int", float: "float", bool: "bool", str: "str", complex: "complex", Tensor: "Tensor",
    type(None): "NoneType", None: "NoneType", Any: "Any", Device: "Device", dtypes.dtype: "int",
    Size: "List[int]",
}  # fmt: skip

GENERIC: dict[Any, str] = {
    list: "List", dict: "Dict", tuple: "Tuple", typing.Union: "Union", types.UnionType: "Union",
    typing.Final: "Final", collections.abc.Sequence: "List",
}  # fmt: skip

Fallback = Callable[[Any], "ast.expr | None"]


def named_type(hint: Any, class_name: Callable[[type], str | None]) -> str | None:
    """Return a type of Python as the text of a TorchScript type, or None if there is none.

    Args:
        hint: an annotation, as an object.
        class_name: returns the full name of a class of the program, or None.

    >>> named_type(dict[str, list[int]], lambda cls: None)
    'Dict[str, List[int]]'
    >>> named_type(int | None, lambda cls: None)
    'Optional[int]'
    """
    try:
        if hint in NAMES:
            return NAMES[hint]
    except TypeError:  # unhashable
        return None
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in GENERIC:
        return named_generic(GENERIC[origin], inner, class_name)
    if inspect.isclass(hint):
        if issubclass(hint, Tensor):
            return "Tensor"
        return class_name(hint)
    return None


def named_generic(
    name: str, inner: tuple[Any, ...], class_name: Callable[[type], str | None]
) -> str | None:
    if name == "Tuple" and not inner:
        return "Tuple[()]"
    parts = [named_type(part, class_name) for part in inner]
    if None in parts or not parts:
        return None
    if name == "Union" and "NoneType" in parts:
        others = [part for part in parts if part != "NoneType"]
        inside = others[0] if len(others) == 1 else f"Union[{', '.join(map(str, others))}]"
        return f"Optional[{inside}]"
    return f"{name}[{', '.join(map(str, parts))}]"


def type_of_value(value: Any, class_name: Callable[[type], str | None]) -> str | None:
    """Return the TorchScript type of a value, or None if there is none.

    >>> type_of_value({"a": [1, 2]}, lambda cls: None)
    'Dict[str, List[int]]'
    """
    if isinstance(value, Tensor):
        return "Tensor"
    if isinstance(value, Size):
        return f"Tuple[{', '.join(['int'] * len(value)) or '()'}]"
    if isinstance(value, dtypes.dtype):
        return "int"
    if type(value) in NAMES:
        return NAMES[type(value)]
    if isinstance(value, Module):
        return None
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return class_name(type(value))
    if isinstance(value, tuple):
        parts = [type_of_value(item, class_name) for item in value]
        return None if None in parts else f"Tuple[{', '.join(map(str, parts)) or '()'}]"
    if isinstance(value, list):
        inside = common_type(value, class_name) if value else "Tensor"
        return None if inside is None else f"List[{inside}]"
    if isinstance(value, dict):
        keys = common_type(list(value), class_name) if value else "str"
        values = common_type(list(value.values()), class_name) if value else "Tensor"
        return None if keys is None or values is None else f"Dict[{keys}, {values}]"
    return None


def common_type(values: list[Any], class_name: Callable[[type], str | None]) -> str | None:
    """Return the one type of all values, or None."""
    names = {type_of_value(value, class_name) for value in values}
    if len(names) == 1:
        return names.pop()
    if len(names) == 2 and "NoneType" in names and None not in names:
        (other,) = names - {"NoneType"}
        return f"Optional[{other}]"
    return None


def type_node(text: str | None) -> ast.expr | None:
    """Return a type as an expression."""
    return None if text is None else parse_type(text)
