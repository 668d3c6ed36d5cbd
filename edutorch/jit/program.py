"""A TorchScript program in memory: its functions, classes and constants.

The names are those of the archive: `__torch__.vad.model.Encoder` is the class `Encoder` of the file
`code/__torch__/vad/model.py`. Functions are kept as `ast`, which `interpreter.py` runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .errors import ArchiveError
from .type_expressions import dotted_name


@dataclass
class Function:
    """A function or method.

    Args:
        name: its full name, `__torch__.a.f`, or `__torch__.a.Class.f`.
        node: the definition.
        file: the file that it stands in, for errors.
        owner: the class of a method.
        source: the line of Python that it was made from, "model.py:12", where that is known.
        resolved: what the names in it stand for, by node: operators, functions, classes, constants
            (see `resolution.py`).
        program: the program that it is part of.
    """

    name: str
    node: ast.FunctionDef
    file: str
    owner: ScriptClass | None = None
    source: str | None = None
    resolved: dict[ast.AST, Any] = field(default_factory=dict, repr=False)
    program: Program | None = field(default=None, repr=False)

    @property
    def short_name(self) -> str:
        """The name without the path."""
        return self.node.name

    def parameters(self) -> list[ast.arg]:
        """Return the parameters; `self` is the first of a method."""
        return self.node.args.args

    def defaults(self) -> dict[str, ast.expr]:
        """Return the default of each parameter that has one."""
        named = [parameter.arg for parameter in self.parameters()]
        values = self.node.args.defaults
        return dict(zip(named[len(named) - len(values) :], values, strict=True))

    def __repr__(self) -> str:
        return f"<function {self.name}>"


@dataclass
class ScriptClass:
    """A class of a program.

    Args:
        name: its full name.
        base: "Module", "NamedTuple", "" for a class of the program's own, or "Interface".
        attributes: the type of each attribute; of a NamedTuple, its fields in order.
        constants: the values of its `Final` attributes.
        methods: its methods by name.
        parameters, buffers: the names of the attributes that are registered as such.
        defaults: of the fields of a NamedTuple.
    """

    name: str
    base: str
    attributes: dict[str, ast.expr] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    methods: dict[str, Function] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)

    @property
    def short_name(self) -> str:
        """The name without the path."""
        return self.name.rpartition(".")[2]

    def __repr__(self) -> str:
        return f"<class {self.name}>"


@dataclass
class Program:
    """All that a program consists of.

    Args:
        functions, classes: by their full names.
        constants: the tensors that the code calls `CONSTANTS.c0`, ….
        files: the text of each file of code, by its path below `code/`.
    """

    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, ScriptClass] = field(default_factory=dict)
    constants: tuple[Any, ...] = ()
    files: dict[str, str] = field(default_factory=dict)

    def all_functions(self) -> Iterator[Function]:
        """Yield every function and every method."""
        yield from self.functions.values()
        for cls in self.classes.values():
            yield from cls.methods.values()


def file_prefix(path: str) -> str:
    """Return the full name that the definitions of a file begin with.

    >>> file_prefix("__torch__/torch/nn.py")
    '__torch__.torch.nn'
    """
    return path.removesuffix(".py").replace("/", ".")


def add_file(program: Program, path: str, text: str) -> None:
    """Parse a file of code, and add what it defines.

    Raises: ArchiveError: it is not Python, or holds something other than definitions.
    """
    try:
        tree = ast.parse(text, path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        raise ArchiveError("jit.load", f"{path}:{line}: not TorchScript ({error})") from error
    program.files[path] = text
    prefix = file_prefix(path)
    for statement in tree.body:
        name = f"{prefix}.{getattr(statement, 'name', '')}"
        if name in program.functions or name in program.classes:
            raise problem(path, statement, f"{name} is defined twice")
        if isinstance(statement, ast.FunctionDef):
            program.functions[name] = Function(name, statement, path)
        elif isinstance(statement, ast.ClassDef):
            program.classes[name] = read_class(statement, name, path)
        else:
            raise problem(path, statement, "only functions and classes stand at the top of a file")


def problem(path: str, node: ast.AST, what: str) -> ArchiveError:
    """Return the error for a place in a file of code."""
    return ArchiveError(
        "jit.load", f"{path}:{getattr(node, 'lineno', 1)}: {what}",
        hint="a TorchScript file can only call ops on its own data; nothing of it was run",
    )  # fmt: skip


def read_class(statement: ast.ClassDef, name: str, path: str) -> ScriptClass:
    """Return a class from its definition.

    Raises: ArchiveError: it is more than attributes and methods.
    """
    bases = [dotted_name(base) for base in statement.bases]
    if statement.decorator_list or statement.keywords or len(bases) > 1:
        raise problem(path, statement, f"the class {name} has decorators, keywords or many bases")
    base = bases[0] if bases else ""
    if base not in ("Module", "NamedTuple", "Interface", ""):
        raise problem(path, statement, f"a class derives from {base}, which is not supported")
    cls = ScriptClass(name, base)
    for part in statement.body:
        if isinstance(part, ast.FunctionDef):
            if part.name in cls.methods:
                raise problem(path, part, f"{part.name} is defined twice")
            cls.methods[part.name] = Function(f"{name}.{part.name}", part, path, cls)
        elif not isinstance(part, ast.Pass):
            read_attribute(cls, part, path)
    return cls


LISTS = ("__parameters__", "__buffers__", "__forward_hooks__", "__forward_pre_hooks__")


def read_attribute(cls: ScriptClass, part: ast.stmt, path: str) -> None:
    """Add an attribute: `x : int`, `x : Final[int] = 3`, or `__annotations__["0"] = …`."""
    if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
        name = part.target.id
        cls.attributes[name] = part.annotation
        if part.value is not None:
            table = cls.defaults if cls.base == "NamedTuple" else cls.constants
            table[name] = literal(part.value, path)
        return
    target = part.targets[0] if isinstance(part, ast.Assign) and len(part.targets) == 1 else None
    if isinstance(target, ast.Name) and target.id in LISTS:
        names = literal(part.value, path)  # type: ignore[attr-defined]
        if not isinstance(names, list) or not all(type(name) is str for name in names):
            raise problem(path, part, f"{target.id} is not a list of names")
        if target.id == "__parameters__":
            cls.parameters = names
        elif target.id == "__buffers__":
            cls.buffers = names
        elif names:
            raise problem(path, part, "modules with hooks are not supported")
    elif isinstance(target, ast.Subscript) and dotted_name(target.value) == "__annotations__":
        cls.attributes[str(literal(target.slice, path))] = part.value  # type: ignore[attr-defined]
    else:
        raise problem(path, part, "a class has something other than attributes and methods")


SPECIAL_NUMBERS = {"inf": float("inf"), "nan": float("nan")}


def literal(node: ast.expr, path: str) -> Any:
    """Return the value of a constant expression: numbers, texts, and lists and tuples of these.

    Raises: ArchiveError: it is something else.
    """
    if isinstance(node, ast.Constant) and isinstance(
        node.value, int | float | str | complex | None
    ):
        return node.value
    if isinstance(node, ast.Name) and node.id in SPECIAL_NUMBERS:
        return SPECIAL_NUMBERS[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = literal(node.operand, path)
        if isinstance(value, int | float):
            return -value
    if isinstance(node, ast.List):
        return [literal(item, path) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(literal(item, path) for item in node.elts)
    if isinstance(node, ast.Dict):
        keys = [literal(key, path) for key in node.keys if key is not None]
        return dict(zip(keys, [literal(value, path) for value in node.values], strict=True))
    if isinstance(node, ast.Call) and dotted_name(node.func) == "annotate" and len(node.args) == 2:
        return literal(node.args[1], path)
    raise problem(path, node, f"{ast.unparse(node)[:60]} is not a constant")
