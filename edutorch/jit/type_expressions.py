"""TorchScript's types, as expressions of `ast`: read, checked, and made from Python's annotations.

A type is kept as it stands in the code, `Optional[List[int]]`; a value is converted to it where a
program is called from outside (`convert`), so that a wrong argument is named and an int becomes the
float that is expected.
"""

from __future__ import annotations

import ast
from typing import Any

from ..backends.device import Device
from ..core.tensor import Tensor
from .errors import Error

SCALARS: dict[str, type | tuple[type, ...]] = {
    "int": int, "float": float, "bool": bool, "str": str, "complex": complex, "Tensor": Tensor,
    "Device": Device, "number": (int, float),
}  # fmt: skip
GENERIC = {"List": 1, "Optional": 1, "Dict": 2, "Final": 1, "Future": 1, "Tuple": None,
           "Union": None}  # fmt: skip
PLAIN = {*SCALARS, "NoneType", "None", "Any", "AnyClassType", "Layout", "MemoryFormat", "Scalar",
         "Generator", "Stream", "QScheme", "ScalarType"}  # fmt: skip


def dotted_name(node: ast.AST) -> str | None:
    """Return "a.b.c" for such a chain of names, or None.

    >>> dotted_name(ast.parse("torch.nn.Linear", mode="eval").body)
    'torch.nn.Linear'
    """
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def type_problem(node: ast.expr | None) -> str | None:
    """Return what is wrong with a type, or None; names of classes are not checked."""
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return None
    if isinstance(node, ast.Subscript):
        name = dotted_name(node.value)
        if name not in GENERIC:
            return f"{ast.unparse(node)[:80]} is not a type"
        return next(filter(None, map(type_problem, type_arguments(node))), None)
    name = dotted_name(node)
    if name in PLAIN or (name is not None and name.startswith("__torch__.")):
        return None
    return f"{ast.unparse(node)[:80]} is not a type"


def type_arguments(node: ast.Subscript) -> list[ast.expr]:
    """Return the types inside of the brackets; of `Tuple[()]` none."""
    inner = node.slice
    return list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]


def matches(node: ast.expr | None, value: Any) -> bool:
    """Return True if a value is of a type.

    >>> matches(ast.parse("List[Optional[int]]", mode="eval").body, [1, None])
    True
    """
    if node is None or isinstance(node, ast.Constant):
        return node is None or value is None
    if isinstance(node, ast.Subscript):
        return matches_generic(dotted_name(node.value) or "", type_arguments(node), value)
    name = dotted_name(node) or ""
    if name in ("NoneType", "None"):
        return value is None
    expected = SCALARS.get(name)
    if expected is None:  # Any, a class of the program: as `torch.jit.load` trusts its own code
        return True
    if isinstance(value, bool) and name in ("int", "float", "number"):
        return False
    return isinstance(value, expected)


def matches_generic(name: str, inner: list[ast.expr], value: Any) -> bool:
    if name == "Optional":
        return value is None or matches(inner[0], value)
    if name == "Union":
        return any(matches(option, value) for option in inner)
    if name == "List":
        return isinstance(value, list) and all(matches(inner[0], item) for item in value)
    if name == "Dict":
        return isinstance(value, dict) and all(
            matches(inner[0], key) and matches(inner[1], item) for key, item in value.items()
        )
    if name == "Tuple":
        inner = [] if len(inner) == 1 and ast.unparse(inner[0]) == "()" else inner
        return (
            isinstance(value, tuple)
            and len(value) == len(inner)
            and all(matches(part, item) for part, item in zip(inner, value, strict=True))
        )
    return matches(inner[0], value)


def convert(node: ast.expr | None, value: Any, function: str, name: str) -> Any:
    """Return an argument of a call as its parameter's type: an int becomes a float.

    Args:
        node: the type.
        function, name: of the function and its parameter, for the error.

    Raises: Error: the value is of another type.
    """
    if matches(node, value):
        return value
    text = "" if node is None else ast.unparse(node)
    if text in ("float", "Optional[float]") and type(value) is int:
        return float(value)
    if isinstance(value, tuple) and text.startswith(("List", "Optional[List")):
        return convert(node, list(value), function, name)
    raise Error(
        function, f"expected a value of type '{text}' for argument '{name}', but got one of type "
        f"'{type(value).__name__}'",
        {name: "a tensor" if isinstance(value, Tensor) else repr(value)[:80]},
        f"call it with a {text}",
    )  # fmt: skip


def parse_type(text: str) -> ast.expr:
    """Return a type from its text."""
    return ast.parse(text, mode="eval").body
