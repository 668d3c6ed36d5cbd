"""The objects of a program: of its classes, of its named tuples, and its modules.

A program reads and writes only the attributes that its classes declare.
"""

from __future__ import annotations

from typing import Any

from .errors import Error
from .program import ScriptClass


class ScriptObject:
    """An object of a class of the program that is neither a module nor a named tuple."""

    def __init__(self, script_class: ScriptClass) -> None:
        self.__dict__["script_class"] = script_class

    def __repr__(self) -> str:
        return f"<{self.script_class.name} object>"


class ScriptTuple(tuple[Any, ...]):
    """A named tuple of the program: its fields are attributes.

    >>> from edutorch.jit.program import ScriptClass
    >>> cls = ScriptClass("__torch__.Point", "NamedTuple", {"x": None, "y": None})
    >>> point = ScriptTuple(cls, (1, 2)); point, point.y
    (Point(x=1, y=2), 2)
    """

    script_class: ScriptClass

    def __new__(cls, script_class: ScriptClass, values: Any) -> ScriptTuple:
        self = super().__new__(cls, values)
        self.script_class = script_class
        return self

    @property
    def _fields(self) -> tuple[str, ...]:
        return tuple(self.script_class.attributes)

    def __getattribute__(self, name: str) -> Any:
        # A field may be called as a method of a tuple is: `count`.
        if not name.startswith("_") and name != "script_class" and name in self._fields:
            return self[self._fields.index(name)]
        return super().__getattribute__(name)

    def _asdict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
        return f"{self.script_class.short_name}({fields})"


def script_class_of(value: Any) -> ScriptClass | None:
    """Return the class of one of the program's modules and objects, or None."""
    if isinstance(value, ScriptTuple):
        return None
    cls = getattr(type(value), "script_class", None) or getattr(value, "__dict__", {}).get(
        "script_class"
    )
    return cls if isinstance(cls, ScriptClass) else None


def get_attribute(owner: Any, name: str) -> Any:
    """Return an attribute that the class of a program's object declares.

    Raises: Error: there is none of this name.
    """
    if isinstance(owner, ScriptTuple) and name in owner._fields:
        return getattr(owner, name)
    cls = script_class_of(owner)
    if cls is not None:
        if name in cls.constants:
            return cls.constants[name]
        if name in cls.attributes:
            return getattr(owner, name)
    shown = cls.name if cls else type(owner).__name__
    raise Error(None, f"{shown} has no attribute {name} in TorchScript")


def make_object(cls: Any, args: tuple[Any, ...] = (), named: dict[str, Any] | None = None) -> Any:
    """Return an object of a class of the program; the fields of a named tuple are its arguments.

    Raises: Error: the class is a module, or a field is missing.
    """
    if not isinstance(cls, ScriptClass) or cls.base in ("Module", "Interface"):
        raise Error(None, "a program does not make modules")
    if cls.base != "NamedTuple":
        return ScriptObject(cls)
    values = dict(zip(cls.attributes, args, strict=False)) | (named or {})
    missing = [field for field in cls.attributes if field not in values | cls.defaults]
    if missing or len(args) > len(cls.attributes) or set(named or {}) - set(cls.attributes):
        raise Error(cls.short_name, f"its fields are {', '.join(cls.attributes)}")
    return ScriptTuple(cls, [values.get(f, cls.defaults.get(f)) for f in cls.attributes])
