"""The schema of an operator, and the parser of its text.

    schema = parse_schema("pad(Tensor x, int[2] size, *, float value=0.0) -> Tensor")

A schema lists the arguments with their types and defaults, and the types of the results.
`Tensor(a!) x` marks an argument that the operator writes to; `Tensor(a)` a result that is a view
of argument `a`. `?` after a type means "or None", `[]` a list of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edutorch.core.tensor import Tensor
from edutorch.errors import EdutorchError

__all__ = ["AliasInfo", "Argument", "FunctionSchema", "OperatorError", "SchemaError", "Type"]

TYPES = {
    "Tensor": Tensor, "int": int, "SymInt": int, "float": int | float, "bool": bool, "str": str,
    "Scalar": int | float | bool | complex | Tensor, "ScalarType": object, "Device": object,
    "Layout": object, "MemoryFormat": object, "Generator": object, "complex": complex,
    "SymBool": bool, "SymFloat": int | float, "Any": object, "t": object, "Stream": object,
}  # fmt: skip
"""The types of a schema, and the Python type of their values. (`object`: anything.)"""


class SchemaError(EdutorchError, RuntimeError):
    """The text of a schema cannot be read."""


class OperatorError(EdutorchError, RuntimeError, TypeError):
    """An operator cannot be called or registered like this."""


@dataclass(frozen=True)
class Type:
    """The type of an argument or a result: "Tensor", "int[2]", "Tensor?[]".

    `suffixes` are applied from left to right: `?` is "or None", `[]` a list of what precedes it.
    """

    base: str
    suffixes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.base + "".join(self.suffixes)

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor, or None."""
        return self.base == "Tensor" and not self.is_list

    @property
    def is_list(self) -> bool:
        """Whether it is a list, or None."""
        return any(suffix.startswith("[") for suffix in self.suffixes)

    def accepts(self, value: object) -> bool:
        """Return True if `value` is of this type."""
        if not self.suffixes:
            expected = TYPES[self.base]
            if self.base in ("int", "SymInt", "float") and isinstance(value, bool):
                return True
            return isinstance(value, expected) or is_scalar_of(expected, value)
        inner = Type(self.base, self.suffixes[:-1])
        if self.suffixes[-1] == "?":
            return value is None or inner.accepts(value)
        if isinstance(value, list | tuple):
            return all(inner.accepts(element) for element in value)
        # `int[2] size` takes one number for both, as in PyTorch.
        return self.suffixes[-1] != "[]" and not isinstance(value, Tensor) and inner.accepts(value)


def is_scalar_of(expected: Any, value: object) -> bool:
    """Return True if `value` is a 0-d array or a NumPy scalar that stands for a Python number."""
    item = getattr(value, "item", None)
    return expected not in (Tensor, str) and item is not None and getattr(value, "ndim", 1) == 0


@dataclass(frozen=True)
class AliasInfo:
    """`(a!)` after a type: the memory it shows, and whether the operator writes to it."""

    before_set: frozenset[str]
    is_write: bool

    def __str__(self) -> str:
        return f"({'|'.join(sorted(self.before_set))}{'!' if self.is_write else ''})"


NO_DEFAULT = object()


@dataclass(frozen=True)
class Argument:
    """One argument, or one result, of a schema."""

    name: str
    type: Type
    alias_info: AliasInfo | None = None
    default: Any = field(default=NO_DEFAULT, compare=False)
    kwarg_only: bool = False

    @property
    def default_value(self) -> Any:
        """The default, or None where there is none."""
        return None if self.default is NO_DEFAULT else self.default

    @property
    def is_write(self) -> bool:
        """Whether the operator writes to it."""
        return self.alias_info is not None and self.alias_info.is_write

    def has_default_value(self) -> bool:
        """Return True if it may be left out."""
        return self.default is not NO_DEFAULT

    def __str__(self) -> str:
        suffix = "".join(self.type.suffixes)
        text = f"{self.type.base}{self.alias_info or ''}{suffix} {self.name}".rstrip()
        return text if self.default is NO_DEFAULT else f"{text}={default_text(self.default)}"


def default_text(value: Any) -> str:
    """Return a default as it is written in a schema."""
    return f'"{value}"' if isinstance(value, str) else str(value)


@dataclass(frozen=True)
class FunctionSchema:
    """The name, arguments and results of an operator."""

    name: str
    overload_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]

    @property
    def is_mutable(self) -> bool:
        """Whether an argument is written to."""
        return any(argument.is_write for argument in self.arguments)

    def __str__(self) -> str:
        positional = [str(argument) for argument in self.arguments if not argument.kwarg_only]
        named = [str(argument) for argument in self.arguments if argument.kwarg_only]
        inside = ", ".join([*positional, *(["*", *named] if named else [])])
        results = ", ".join(map(str, self.returns))
        results = results if len(self.returns) == 1 else f"({results})"
        overload = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{overload}({inside}) -> {results}"

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return a value for each argument, in their order.

        Raises: OperatorError: one is missing, unknown, given twice, or of a wrong type.
        """
        positional = [argument for argument in self.arguments if not argument.kwarg_only]
        if len(args) > len(positional):
            raise self.refuse(
                f"expected at most {len(positional)} argument(s) but received {len(args)} "
                "argument(s)"
            )
        named = dict(kwargs)
        values = []
        for position, argument in enumerate(self.arguments):
            if position < len(args) and not argument.kwarg_only:
                value = args[position]
                if argument.name in named:
                    raise self.refuse(f"got two values for argument '{argument.name}'")
            elif argument.name in named:
                value = named.pop(argument.name)
            elif argument.has_default_value():
                value = argument.default
            else:
                raise self.refuse(f"is missing value for argument '{argument.name}'")
            if value is not argument.default and not argument.type.accepts(value):
                raise self.refuse(
                    f"Expected a value of type '{argument.type}' for argument '{argument.name}' "
                    f"but instead found type '{type(value).__name__}'"
                )
            values.append(value)
        if named:
            raise self.refuse(f"Unknown keyword argument '{next(iter(named))}'")
        return values

    def refuse(self, message: str) -> OperatorError:
        """Make the error for a call that does not fit the schema."""
        return OperatorError(f"{self.name}()", message, {"declaration": str(self)})


# The parser ---------------------------------------------------------------------------------------

TOKEN = re.compile(
    r"""\s*(?:(?P<name>[A-Za-z_][\w]*(?:::\w+)?) | (?P<number>-?\d+\.?\d*(?:[eE][-+]?\d+)?)
    | (?P<text>"[^"]*"|'[^']*') | (?P<sign>->|[().,*=\[\]?!|]) | (?P<end>$))""",
    re.VERBOSE,
)

CONSTANTS = {"None": None, "True": True, "False": False}
"""The defaults that are words. Any other word, such as `float32`, stays a text."""


def parse_schema(text: str) -> FunctionSchema:
    """Return the schema that `text` describes.

    Raises: SchemaError: it cannot be read; the message points to where.

    >>> schema = edutorch.library.schema.parse_schema("my::scale(Tensor x, float by=2.0) -> Tensor")
    >>> schema.name, [argument.name for argument in schema.arguments]
    ('my::scale', ['x', 'by'])
    """
    return SchemaParser(text).parse()


class SchemaParser:
    """Reads a schema from left to right: one method for each part of its grammar."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise SchemaError("schema", f"expected a text, got {type(text).__name__}")
        self.text, self.position = text, 0
        self.advance()

    def advance(self) -> None:
        """Read the next token into `token_class` and `token`."""
        match = TOKEN.match(self.text, self.position)
        if match is None:
            self.start = self.position
            raise self.fail(f"cannot read {self.text[self.position :].strip()[:1]!r}")
        self.token_class = str(match.lastgroup)
        self.token = match[self.token_class]
        self.start, self.position = match.start(self.token_class), match.end()

    def fail(self, message: str) -> SchemaError:
        """Make an error that points at the current token."""
        return SchemaError(
            "schema", message, {"schema": self.text, "here": " " * self.start + "^"},
            "write it like my_op(Tensor x, int n=1, *, float? p=None) -> Tensor",
        )  # fmt: skip

    def take(self, *expected: str) -> bool:
        """Step over the token if it is one of these signs."""
        if self.token_class == "sign" and self.token in expected:
            self.advance()
            return True
        return False

    def expect(self, sign: str) -> None:
        """Step over a sign that has to be there."""
        if not self.take(sign):
            raise self.fail(f"expected {sign!r} but found {self.token or 'the end'!r}")

    def name(self, what: str) -> str:
        """Step over a name, and return it."""
        if self.token_class != "name":
            raise self.fail(f"expected {what} but found {self.token or 'the end'!r}")
        name = self.token
        self.advance()
        return name

    def parse(self) -> FunctionSchema:
        """schema: name[.overload] ( arguments ) -> results"""
        name = self.name("the operator's name")
        overload = self.name("the overload's name") if self.take(".") else ""
        arguments = self.arguments()
        self.expect("->")
        returns = self.returns()
        if self.token_class != "end":
            raise self.fail(f"expected the end but found {self.token!r}")
        return FunctionSchema(name, overload, tuple(arguments), tuple(returns))

    def arguments(self) -> list[Argument]:
        """arguments: ( argument, …, *, argument, … )"""
        arguments: list[Argument] = []
        kwarg_only = False
        self.expect("(")
        while not self.take(")"):
            if arguments or kwarg_only:
                self.expect(",")
            if not kwarg_only and self.take("*"):
                kwarg_only = True
                continue
            argument = self.argument(kwarg_only)
            if any(argument.name == other.name for other in arguments):
                raise self.fail(f"there are two arguments with the name {argument.name!r}")
            arguments.append(argument)
        return arguments

    def argument(self, kwarg_only: bool) -> Argument:
        """argument: type name[=default]"""
        type_, alias = self.type()
        name = self.name("an argument's name")
        default = self.default() if self.take("=") else NO_DEFAULT
        return Argument(name, type_, alias, default, kwarg_only)

    def type(self) -> tuple[Type, AliasInfo | None]:
        """type: base[(a!)][?|[]|[n]]…"""
        if self.token_class == "name" and self.token not in TYPES:
            known = ", ".join(sorted(TYPES.keys() - {"t"}))
            raise self.fail(f"unknown type {self.token!r}; the types are {known}")
        base = self.name("a type")
        alias = None
        suffixes = []
        while True:
            if self.take("?"):
                suffixes.append("?")
            elif self.take("["):
                size = self.token if self.token_class == "number" else ""
                if size:
                    self.advance()
                self.expect("]")
                suffixes.append(f"[{size}]")
            elif alias is None and self.take("("):
                alias = self.alias()
            else:
                return Type(base, tuple(suffixes)), alias

    def alias(self) -> AliasInfo:
        """alias: a[|b…][!][ -> c] )"""
        names = set()
        while not self.take(")"):
            if self.token_class == "name":
                names.add(self.name("the name of a memory"))
            elif not self.take("|", "!", "->", "*"):
                raise self.fail(f"expected ')' but found {self.token or 'the end'!r}")
        inside = self.text[: self.start].rpartition("(")[2]
        return AliasInfo(frozenset(names), "!" in inside)

    def default(self) -> Any:
        """default: a number, a text in quotes, a word, or a list of these"""
        if self.take("["):
            values = []
            while not self.take("]"):
                if values:
                    self.expect(",")
                values.append(self.default())
            return values
        if self.token_class not in ("name", "number", "text"):
            raise self.fail(f"expected a default but found {self.token or 'the end'!r}")
        token, token_class = self.token, self.token_class
        self.advance()
        return CONSTANTS.get(token, token) if token_class == "name" else ast.literal_eval(token)

    def returns(self) -> list[Argument]:
        """results: type, or ( type [name], … )"""
        if not self.take("("):
            return [self.result()]
        results: list[Argument] = []
        while not self.take(")"):
            if results:
                self.expect(",")
            results.append(self.result())
        return results

    def result(self) -> Argument:
        """result: type [name]"""
        type_, alias = self.type()
        name = self.name("a result's name") if self.token_class == "name" else ""
        return Argument(name, type_, alias)
