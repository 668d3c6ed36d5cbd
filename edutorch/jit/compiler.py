"""Compiles Python functions and modules into a TorchScript program.

A function becomes a function of the program, with the functions that it calls. A module becomes a
class: its attributes with their types, and its `forward`, exported and called methods. Two modules
whose classes come out alike share one.
"""

from __future__ import annotations

import ast
import inspect
import sys
import types
from dataclasses import dataclass, field
from typing import Any

from ..core.tensor import Tensor
from ..nn.modules.module import Module
from .attention_forms import LAYER_FORMS
from .calls import modifier
from .code_text import class_text, file_texts
from .errors import NotSupportedError
from .functional_forms import FORMS
from .operators import find_operator
from .program import Function, Program, ScriptClass, read_class
from .python_types import named_type, type_node, type_of_value
from .resolution import resolve_program
from .source import FunctionSource, read_source
from .statics import AttributeOf
from .translation import Translation
from .translator import Translator

GRAD_MODES = """
class {name}:
    prev : bool
    def __init__(self) -> None:
        self.prev = False
    def __enter__(self) -> None:
        self.prev = torch.is_grad_enabled()
        torch.set_grad_enabled({mode})
    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        torch.set_grad_enabled(self.prev)
"""


NOT_PROGRAMS = (
    "edutorch.ops", "edutorch.core", "edutorch.nn.functional", "edutorch.serialization",
    "edutorch.random", "edutorch.torch_level", "edutorch.utils", "edutorch.settings",
)  # fmt: skip
"""Modules of ours whose functions are operators, or nothing that a program can call."""


@dataclass
class Draft:
    """A module that is being compiled.

    Args:
        module: the module.
        methods: those compiled so far, None while one is being compiled.
        sources: where their Python stands.
        used: the attributes that they read or write.
    """

    module: Module
    methods: dict[str, ast.FunctionDef | None] = field(default_factory=dict)
    sources: dict[str, FunctionSource] = field(default_factory=dict)
    used: dict[str, Any] = field(default_factory=dict)


class Compiler:
    """Makes one program."""

    def __init__(self) -> None:
        self.program = Program()
        self.drafts: dict[int, Draft] = {}
        self.classes: dict[int, ScriptClass] = {}
        self.functions: dict[Any, Function | None] = {}
        self.tuples: dict[type, str] = {}
        self.keys: dict[str, ScriptClass] = {}
        """Classes by their text without the name, so that equal ones are shared."""

    # Functions --------------------------------------------------------------------------------

    def operator_name(self, value: Any) -> str | None:
        """Return the operator that a function of ours is, or None."""
        home, name = str(getattr(value, "__module__", "")), str(getattr(value, "__name__", ""))
        if not home.startswith("edutorch") or self.form(value) is not None:
            return None
        for prefix in ("linalg", "fft", "special"):
            is_there = getattr(sys.modules[f"edutorch.{prefix}"], name, None) is value
            if is_there and find_operator(f"torch.{prefix}_{name}") is not None:
                return f"{prefix}_{name}"
        return name if find_operator(f"torch.{name}") is not None else None

    def form(self, value: Any) -> Any:
        """Return the form of a function of `nn.functional`, or None."""
        home = str(getattr(value, "__module__", ""))
        if home.startswith("edutorch.nn.functional"):
            return FORMS.get(getattr(value, "__name__", ""))
        return None

    def function(
        self, value: Any, translation: Translation | None = None, node: ast.AST | None = None
    ) -> Function:
        """Return a Python function as one of the program.

        Raises: NotSupportedError: it is outside of the subset, or calls itself.
        """
        form = self.form(value)
        value = value if form is None else form
        if value in self.functions:
            function = self.functions[value]
            if function is None:
                raise self.fail(translation, node, f"{value.__name__} calls itself",
                                "TorchScript has no recursion: write a loop")  # fmt: skip
            return function
        home = str(getattr(value, "__module__", ""))
        if not isinstance(value, types.FunctionType) or home.startswith(NOT_PROGRAMS):
            name = getattr(value, "__name__", type(value).__name__)
            raise self.fail(
                translation, node, f"`{name}` is not a function that a program can call",
                "call torch's functions and methods, or functions of your own",
            )  # fmt: skip

        self.functions[value] = None
        source = read_source(value)
        definition = Translator(self, source).run()
        name = self.free_name(qualified_name(value), self.program.functions)
        definition.name = name.rpartition(".")[2]
        place = f"{source.file}:{source.line}"
        function = Function(name, definition, file_of(name), None, place)
        self.functions[value] = self.program.functions[name] = function
        return function

    def fail(
        self, translation: Translation | None, node: ast.AST | None, what: str, hint: str
    ) -> NotSupportedError:
        if translation is None or node is None:
            return NotSupportedError("jit.script", what, hint=hint)
        return translation.fail(node, what, hint)

    def free_name(self, name: str, taken: Any) -> str:
        """Return a name that nothing else has, as PyTorch mangles it."""
        space, _, short = name.rpartition(".")
        count, result = 0, name
        while result in taken or result in self.program.classes:
            result = f"{space}.___torch_mangle_{count}.{short}"
            count += 1
        return result

    def class_name(self, cls: type) -> str | None:
        """Return the full name of a named tuple's class in the program; None for other classes."""
        if cls in self.tuples:
            return self.tuples[cls]
        if not (issubclass(cls, tuple) and hasattr(cls, "_fields")):
            return None
        name = self.free_name(qualified_name(cls), self.program.functions)
        self.tuples[cls] = name
        hints = inspect.get_annotations(cls)
        fields = {}
        for part in cls._fields:  # type: ignore[attr-defined]
            hint = hints.get(part, Tensor)
            hint = resolve_hint(hint, cls) if isinstance(hint, str) else hint
            fields[part] = type_node(named_type(hint, self.class_name) or "Tensor")
        script_class = ScriptClass(name, "NamedTuple", fields)  # type: ignore[arg-type]
        self.program.classes[name] = script_class
        return name

    def grad_mode(self, name: str) -> ast.expr:
        """Return the class of `torch.no_grad`, which becomes part of the program."""
        full = f"__torch__.torch.autograd.grad_mode.{name}"
        if full not in self.program.classes:
            text = GRAD_MODES.format(name=name, mode=name == "enable_grad")
            definition = ast.parse(text).body[0]
            assert isinstance(definition, ast.ClassDef)
            self.program.classes[full] = read_class(definition, full, file_of(full))
        return ast.parse(full, mode="eval").body

    # Modules ----------------------------------------------------------------------------------

    def draft(self, module: Module) -> Draft:
        """Return what is known of a module so far."""
        return self.drafts.setdefault(id(module), Draft(module))

    def method(
        self, module: Module, name: str, translation: Translation | None = None,
        node: ast.AST | None = None,
    ) -> None:  # fmt: skip
        """Compile a method of a module.

        Raises: NotSupportedError: it is outside of the subset, or calls itself.
        """
        draft = self.draft(module)
        if name in draft.methods:
            if draft.methods[name] is None:
                what = f"{type(module).__name__}.{name} calls itself"
                raise self.fail(translation, node, what, "TorchScript has no recursion: use a loop")
            return

        draft.methods[name] = None
        source = read_source(find_method(module, name))
        draft.sources[name] = source
        definition = Translator(self, source, module).run()
        definition.name = name
        draft.methods[name] = definition

    def use_attribute(self, resolved: AttributeOf, translation: Translation, node: ast.AST) -> None:
        """Note that a program reads an attribute; its type has to be known."""
        if type_of_value(resolved.value, self.class_name) is None:
            raise translation.fail(
                node, f"the attribute {resolved.name} is a {type(resolved.value).__name__} that "
                "has no type in TorchScript", "annotate it in the class, or use numbers, texts, "
                "tensors, and lists, tuples and dicts of one type",
            )  # fmt: skip
        self.draft(resolved.owner).used[resolved.name] = resolved.value

    def module(self, module: Module) -> ScriptClass:
        """Compile a module: its `forward`, its exported methods, and all that they call.

        Raises: NotSupportedError: something of it is outside of the subset.
        """
        if has_forward(module):
            self.method(module, "forward")
        for name in exported_methods(type(module)):
            self.method(module, name)
        cls = self.finish(module)
        self.complete()
        return cls

    def finish(self, module: Module) -> ScriptClass:
        """Return the class of a module, after those of its submodules."""
        if id(module) in self.classes:
            return self.classes[id(module)]
        draft = self.draft(module)
        cls = ScriptClass("", "Module")
        cls.parameters = [name for name, value in module._parameters.items() if value is not None]
        cls.buffers = [name for name, value in module._buffers.items() if value is not None]
        for name in (*cls.parameters, *cls.buffers):
            cls.attributes[name] = ast.Name("Tensor", ast.Load())
        self.add_values(cls, draft)
        for name, child in module._modules.items():
            if child is not None:
                cls.attributes[name] = ast.parse(self.finish(child).name, mode="eval").body
        for name, definition in draft.methods.items():
            assert definition is not None
            source = draft.sources[name]
            place = f"{source.file}:{source.line}"
            cls.methods[name] = Function(name, definition, "", cls, place)
        return self.share(cls, module)

    def share(self, cls: ScriptClass, module: Module) -> ScriptClass:
        """Return the class itself, named, or one with the same text that exists already."""
        key = f"{qualified_name(type(module))}\n{class_text(cls)}"
        if key not in self.keys:
            cls.name = self.free_name(qualified_name(type(module)), self.program.functions)
            for name, method in cls.methods.items():
                method.name, method.file = f"{cls.name}.{name}", file_of(cls.name)
                first = method.node.args.args[0]
                first.annotation = ast.parse(cls.name, mode="eval").body
            self.program.classes[cls.name] = self.keys[key] = cls
        self.classes[id(module)] = self.keys[key]
        return self.keys[key]

    def add_values(self, cls: ScriptClass, draft: Draft) -> None:
        """Add the attributes that are neither tensors nor modules, with their types."""
        module = draft.module
        cls.attributes["training"] = ast.Name("bool", ast.Load())
        hints = class_hints(type(module))
        values = {
            name: value
            for name, value in vars(module).items()
            if not name.startswith("_") and name != "training"
        } | draft.used
        for name, value in values.items():
            if name in cls.attributes:
                continue
            hint = hints.get(name)
            text = None if hint is None else named_type(hint, self.class_name)
            if text is None or text.startswith("Final"):
                text = type_of_value(value, self.class_name)
            if text is not None and (value is not None or text.startswith("Optional")):
                cls.attributes[name] = ast.parse(text, mode="eval").body

    def complete(self) -> Program:
        """Resolve the names of the whole program, and write its files."""
        resolve_program(self.program)
        self.program.files = file_texts(self.program)
        return self.program


def qualified_name(value: Any) -> str:
    """Return the full name of a function or class in a program.

    >>> qualified_name(edutorch.nn.Linear)
    '__torch__.torch.nn.modules.linear.Linear'
    """
    home = value.__module__
    if home == "edutorch.jit.functional_forms":
        home = "torch.nn.functional"
    parts = [part if part.isidentifier() else "unnamed" for part in home.split(".")]
    if parts[0] == "edutorch":
        parts[0] = "torch"
    if parts == ["__main__"] or parts == ["unnamed"]:
        parts = []
    return ".".join(["__torch__", *parts, value.__name__])


def file_of(name: str) -> str:
    """Return the file that a function or class is written to."""
    return name.rpartition(".")[0].replace(".", "/") + ".py"


def find_method(module: Module, name: str) -> Any:
    """Return the function of a method; for layers of ours, its form in TorchScript."""
    for cls in type(module).__mro__:
        if name == "forward" and cls in LAYER_FORMS:
            return LAYER_FORMS[cls]
        if name in vars(cls):
            return vars(cls)[name]
    raise NotSupportedError("jit.script", f"{type(module).__name__} has no method {name}")


def has_forward(module: Module) -> bool:
    """Return True if a module defines a forward method."""
    return getattr(type(module), "forward", None) is not Module.forward


def exported_methods(cls: type) -> list[str]:
    """Return the names of the methods that are marked `@torch.jit.export`."""
    return [name for name in dir(cls) if modifier(getattr(cls, name, None)) == "export"]


def resolve_hint(hint: str, cls: type) -> Any:
    """Return the object of an annotation that is a text, or None where it is not known."""
    names = vars(sys.modules.get(cls.__module__, types.ModuleType("")))
    source = FunctionSource(type_scope(names), ast.parse("def f(): pass").body[0], "", 1)  # type: ignore[arg-type]

    translator = Translator(Compiler(), source)
    try:
        return translator.annotation(ast.parse(hint, mode="eval").body)
    except (NotSupportedError, SyntaxError):
        return None


def type_scope(names: dict[str, Any]) -> Any:
    """Return a function that sees these global names."""

    def scope() -> None: ...

    return types.FunctionType(scope.__code__, names)


def class_hints(cls: type) -> dict[str, Any]:
    """Return the annotations of a class and its bases, those of the class first."""
    hints: dict[str, Any] = {}
    for base in cls.__mro__:
        if base is Module:
            break
        for name, hint in inspect.get_annotations(base).items():
            hints.setdefault(name, resolve_hint(hint, base) if isinstance(hint, str) else hint)
    return hints
