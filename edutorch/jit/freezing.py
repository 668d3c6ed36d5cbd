"""`torch.jit.freeze`: a program whose attributes are constants.

Each module of the program gets a class of its own, in whose methods `self.weight` is a constant
and `self.training` is False; branches that are never taken are left out. What the program writes
stays an attribute.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable
from typing import Any, TypeVar

from ..core.tensor import Tensor
from ..nn.modules.module import Module
from .code_text import file_texts
from .compiler import file_of
from .errors import Error
from .program import Function, Program, ScriptClass
from .resolution import resolve_program
from .script_module import RecursiveScriptModule, ScriptModule
from .scripting import ScriptedModule
from .trace_writer import number
from .tracing import fill

T = TypeVar("T")
LOAD = ast.Load()
PLAIN = (bool, int, float, str, type(None))


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """Return a scripted module with its parameters and attributes as constants of the program.

    Args:
        mod: what `script`, `trace` or `load` returned, in eval mode.
        preserved_attrs: the names of attributes and methods of `mod` that stay.
        optimize_numerics: accepted; results stay equal bit by bit.

    Raises: RuntimeError: it is in training mode, or no script.

    >>> frozen = freeze(edutorch.jit.script(nn.ReLU().eval()))
    >>> print(frozen.code, end="")
    def forward(self: __torch__.torch.nn.modules.activation.ReLU, input: Tensor) -> Tensor:
      return torch.relu(input)
    """
    if isinstance(mod, Module) and mod.training:
        raise Error("freeze", "the module is in training mode", hint="call module.eval() first")
    if not isinstance(mod, ScriptModule):
        raise Error(
            "freeze", f"a {type(mod).__name__} is not a script",
            hint="script it first: torch.jit.freeze(torch.jit.script(model.eval()))",
        )  # fmt: skip
    return Freezer(as_program_module(mod), set(preserved_attrs or ())).run()


def optimize_for_inference(mod: T, other_methods: Any = None) -> T:
    """Return the module frozen, if it is a script in eval mode; any other module unchanged."""
    is_script = isinstance(mod, ScriptModule) and not mod.training
    return freeze(mod, other_methods) if is_script else mod


def as_program_module(mod: Any) -> RecursiveScriptModule:
    """Return a scripted module as one that runs its program."""
    if not isinstance(mod, ScriptedModule):
        return mod
    compiler, cls = mod.compile_program()
    module = fill(RecursiveScriptModule(cls), mod, compiler)
    module.__dict__["program"] = compiler.program
    return module


class Freezer:
    """Freezes one module.

    Args:
        root: the module.
        preserved: the names of its attributes and methods that stay.
    """

    def __init__(self, root: RecursiveScriptModule, preserved: set[str]) -> None:
        self.root, self.preserved = root, preserved
        self.program = Program()
        self.constants: list[Any] = list(root.program.constants)
        self.constant_index: dict[int, int] = {}
        self.names = set(root.program.functions)
        self.written = written_attributes(root.program)

    def run(self) -> RecursiveScriptModule:
        """Return the frozen module."""
        old = self.root.program
        self.program.functions = {
            name: Function(name, copy.deepcopy(function.node), function.file, None, function.source)
            for name, function in old.functions.items()
        }
        self.program.classes = {
            name: copy_class(cls) for name, cls in old.classes.items() if cls.base != "Module"
        }
        self.names |= self.program.classes.keys()
        frozen = self.module(self.root, self.preserved)
        self.program.constants = tuple(self.constants)
        resolve_program(self.program)
        self.program.files = file_texts(self.program)
        for part in frozen.modules():
            part.__dict__["program"] = self.program
        return frozen

    def module(self, module: Any, preserved: set[str]) -> RecursiveScriptModule:
        """Return a module frozen, with a class of its own."""
        old: ScriptClass = module.script_class
        cls = ScriptClass(self.free_name(old.name), "Module")
        frozen = RecursiveScriptModule(cls)
        frozen.__dict__["training"] = False
        kept = {*old.attributes} & (preserved | self.written | {"training"})
        for name, annotation in old.attributes.items():
            child = module._modules.get(name)
            if isinstance(child, RecursiveScriptModule):
                frozen._modules[name] = self.module(child, set())
                class_name = frozen._modules[name].script_class.name  # type: ignore[union-attr]
                cls.attributes[name] = ast.parse(str(class_name), mode="eval").body
            elif name in kept or not self.is_constant(getattr(module, name, None)):
                self.keep(module, frozen, name, annotation)
        self.program.classes[cls.name] = cls
        for name, method in old.methods.items():
            node = Replace(self, module, set(cls.attributes) - {"training"}).visit(
                copy.deepcopy(method.node)
            )
            node.args.args[0].annotation = ast.parse(cls.name, mode="eval").body
            ast.fix_missing_locations(node)
            file = file_of(cls.name)
            cls.methods[name] = Function(f"{cls.name}.{name}", node, file, cls, method.source)
        return frozen

    def keep(self, module: Any, frozen: RecursiveScriptModule, name: str, hint: ast.expr) -> None:
        """Keep an attribute as it is."""
        cls = frozen.script_class
        cls.attributes[name] = hint
        if name in module._parameters:
            cls.parameters.append(name)
            frozen._parameters[name] = module._parameters[name]
        elif name in module._buffers:
            cls.buffers.append(name)
            frozen._buffers[name] = module._buffers[name]
        elif name != "training":
            frozen.__dict__[name] = getattr(module, name)

    def free_name(self, name: str) -> str:
        space, _, short = name.rpartition(".")
        count, result = 0, name
        while result in self.names:
            result = f"{space}.___torch_mangle_{count}.{short}"
            count += 1
        self.names.add(result)
        return result

    def is_constant(self, value: Any) -> bool:
        """Return True for a value that the program can hold as a constant."""
        if isinstance(value, list | tuple):
            return all(self.is_constant(item) for item in value)
        return isinstance(value, (*PLAIN, Tensor))

    def constant(self, value: Any) -> ast.expr:
        """Return a value as a constant of the program."""
        if isinstance(value, Tensor):
            if id(value) not in self.constant_index:
                self.constant_index[id(value)] = len(self.constants)
                self.constants.append(value.detach())
            name = f"c{self.constant_index[id(value)]}"
            return ast.Attribute(ast.Name("CONSTANTS", LOAD), name, LOAD)
        if isinstance(value, list):
            return ast.List([self.constant(item) for item in value], LOAD)
        if isinstance(value, tuple):
            return ast.Tuple([self.constant(item) for item in value], LOAD)
        return number(value)


def copy_class(cls: ScriptClass) -> ScriptClass:
    """Return a class with functions of its own, which can be resolved anew."""
    result = copy.copy(cls)
    result.methods = {
        name: Function(method.name, copy.deepcopy(method.node), method.file, result, method.source)
        for name, method in cls.methods.items()
    }
    return result


def written_attributes(program: Program) -> set[str]:
    """Return the names of all attributes that a program assigns, or changes in place."""
    names: set[str] = set()
    for function in program.all_functions():
        for node in ast.walk(function.node):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
            if isinstance(node, ast.AugAssign):
                names |= attributes_in(node.target)
            if isinstance(node, ast.Call) and is_in_place(node.func):
                names |= attributes_in(node)
    return names


def is_in_place(target: ast.expr) -> bool:
    """Return True for the name of an op that writes into its first argument: `torch.add_`."""
    name = target.attr if isinstance(target, ast.Attribute) else ""
    return name.endswith("_") and not name.endswith("__")


def attributes_in(node: ast.AST) -> set[str]:
    return {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)} - {"training"}


class Replace(ast.NodeTransformer):
    """Replaces attributes in a method by their values, and leaves out branches never taken.

    Args:
        freezer: that keeps the constants.
        module: the module whose method it is.
        kept: the names of its attributes that stay.
    """

    def __init__(self, freezer: Freezer, module: Any, kept: Iterable[str]) -> None:
        self.freezer, self.module, self.kept = freezer, module, set(kept)
        self.own = ""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Visit the body; the first parameter is the module."""
        self.own = node.args.args[0].arg
        node.body = self.block(node.body) or [ast.Pass()]
        return node

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            visited: Any = self.visit(statement)
            result += visited if isinstance(visited, list) else [visited]
        return result

    def visit_If(self, node: ast.If) -> Any:
        """Keep only the branch that is taken, where that is known."""
        test = self.visit(node.test)
        if isinstance(test, ast.Constant):
            return self.block(node.body if test.value else node.orelse)
        return ast.If(test, self.block(node.body) or [ast.Pass()], self.block(node.orelse))

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """Keep only the value that is taken, where that is known."""
        test = self.visit(node.test)
        if isinstance(test, ast.Constant):
            return self.visit(node.body if test.value else node.orelse)
        return ast.IfExp(test, self.visit(node.body), self.visit(node.orelse))

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """Replace `self.weight` and `self.conv.weight`."""
        owner = self.owner(node.value)
        if owner is None or not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        if node.attr == "training":
            return ast.Constant(False)
        is_kept = node.attr in (self.kept if owner is self.module else self.freezer.written)
        is_there = node.attr in owner.script_class.attributes and node.attr not in owner._modules
        if is_kept or not is_there or not self.freezer.is_constant(getattr(owner, node.attr)):
            return node
        return self.freezer.constant(getattr(owner, node.attr))

    def owner(self, node: ast.expr) -> Any:
        """Return the module that an expression is, if it is `self` or a submodule of it."""
        if isinstance(node, ast.Name):
            return self.module if node.id == self.own else None
        name: Any = None
        if isinstance(node, ast.Attribute):
            outer, name = self.owner(node.value), node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id != "getattr" or not isinstance(node.args[1], ast.Constant):
                return None
            outer, name = self.owner(node.args[0]), node.args[1].value
        else:
            return None
        return None if outer is None else outer._modules.get(name)
