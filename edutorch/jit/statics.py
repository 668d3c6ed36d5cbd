"""What is known of an expression before a function runs: modules, functions, constants.

`self.layers[0]` is a module that exists, `torch.nn.functional.relu` a function, `math.pi` a number.
The compiler follows such names without calling anything, so that it can replace a call by what is
called, unroll a loop over modules, and leave out a branch that is never taken.
"""

from __future__ import annotations

import ast
import inspect
import types
from typing import Any, NamedTuple

from ..core.tensor import Tensor
from ..nn.modules.container import ModuleDict, ModuleList, Sequential
from ..nn.modules.module import Module
from .source import FunctionSource

CONTAINERS = (ModuleList, ModuleDict, Sequential)
VALUES = (int, float, str, bool, complex, list, tuple, dict, Tensor)


class Static(NamedTuple):
    """A value that is known.

    Args:
        value: the value.
        node: how the program reaches it, for a module: `self.conv`, `getattr(self.layers, "0")`.
    """

    value: Any
    node: ast.expr | None = None


class AttributeOf(NamedTuple):
    """An attribute of a module that a program reads when it runs."""

    owner: Module
    name: str
    node: ast.expr
    value: Any


def member_node(owner: ast.expr, name: str) -> ast.expr:
    """Return `owner.name`, or `getattr(owner, "0")` where the name is no identifier."""
    if name.isidentifier():
        return ast.Attribute(owner, name, ast.Load())
    return ast.Call(ast.Name("getattr", ast.Load()), [owner, ast.Constant(name)], [])


class Statics:
    """Answers for one function.

    Args:
        source: the function.
        module: the module of a method, whose first parameter is `self`.
    """

    def __init__(self, source: FunctionSource, module: Module | None) -> None:
        self.source, self.module = source, module
        arguments = source.node.args
        names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.locals = {argument.arg for argument in names} | {
            part.id
            for part in ast.walk(source.node)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        }
        self.self_name = names[0].arg if module is not None and names else None
        self.known: dict[str, Static] = {}
        """Variables of loops that are being unrolled."""

    def find(self, node: ast.expr) -> Static | AttributeOf | None:
        """Return what is known of an expression, or None."""
        if isinstance(node, ast.Name):
            return self.find_name(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.find(node.value)
            if isinstance(owner, Static):
                return self.find_member(owner, node.attr)
            return None
        if isinstance(node, ast.Subscript):
            return self.find_element(node)
        return None

    def find_name(self, name: str) -> Static | None:
        if name in self.known:
            return self.known[name]
        if name == self.self_name:
            return Static(self.module, ast.Name(name, ast.Load()))
        if name in self.locals:
            return None
        exists, value = self.source.lookup(name)
        return Static(value) if exists else None

    def find_member(self, owner: Static, name: str) -> Static | AttributeOf | None:
        """Return an attribute of a known value."""
        value = owner.value
        if isinstance(value, Module) and owner.node is not None:
            return self.find_module_member(value, owner.node, name)
        if isinstance(value, types.ModuleType | type):
            missing = object()
            member = getattr(value, name, missing)
            return None if member is missing else Static(member)
        return Static(getattr(value, name)) if hasattr(value, "aten_names") else None

    def find_module_member(
        self, owner: Module, node: ast.expr, name: str
    ) -> Static | AttributeOf | None:
        path = member_node(node, name)
        if name in owner._modules:
            return Static(owner._modules[name], path)
        for table in (owner._parameters, owner._buffers):
            if name in table:
                if table[name] is None:
                    return Static(None)
                return AttributeOf(owner, name, path, table[name])
        if name in vars(owner):
            value = vars(owner)[name]
            if value is None and not is_optional(type(owner), name):
                return Static(None)
            return AttributeOf(owner, name, path, value) if is_value(value) else Static(value)
        member = getattr(type(owner), name, None)
        if isinstance(member, property) or not hasattr(type(owner), name):
            return None
        if is_value(member):
            return AttributeOf(owner, name, path, member)
        return Static(member, path)

    def find_element(self, node: ast.Subscript) -> Static | None:
        """Return `self.layers[0]`, or `self.heads["a"]`."""
        owner = self.find(node.value)
        if not isinstance(owner, Static) or not isinstance(owner.value, CONTAINERS):
            return None
        try:
            key = ast.literal_eval(node.slice)
        except ValueError:
            return None
        names = list(owner.value._modules)
        if isinstance(key, int) and -len(names) <= key < len(names):
            key = names[key]
        if key not in owner.value._modules or owner.node is None:
            return None
        return Static(owner.value._modules[key], member_node(owner.node, key))

    def members(self, node: ast.expr) -> list[tuple[Static, ...]] | None:
        """Return the rounds of a loop over modules, each with what its variables are, or None.

        It understands a container of modules, its `items`, `values`, `keys` and `children`, and
        `enumerate` and `zip` of these.
        """
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in self.locals:
                return None
            inner = [self.members(argument) for argument in node.args]
            if node.func.id == "enumerate" and len(inner) == 1 and inner[0] is not None:
                return [(Static(i), *item) for i, item in enumerate(inner[0])]
            if node.func.id == "zip" and inner and None not in inner:
                rounds = zip(*[part for part in inner if part is not None], strict=False)
                return [tuple(part for item in items for part in item) for items in rounds]
            return None
        method = "iter"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            method, node = node.func.attr, node.func.value
        owner = self.find(node)
        if not isinstance(owner, Static) or not isinstance(owner.value, CONTAINERS):
            return None
        if method == "iter" and isinstance(owner.value, ModuleDict):
            method = "keys"
        return container_rounds(owner, method)


def container_rounds(owner: Static, method: str) -> list[tuple[Static, ...]] | None:
    """Return the keys, values or items of a container of modules."""
    node = owner.node
    assert node is not None
    rounds = [
        (Static(name), Static(module, member_node(node, name)))
        for name, module in owner.value._modules.items()
    ]
    if method == "items":
        return list(rounds)
    if method in ("values", "children", "iter"):
        return [(module,) for _, module in rounds]
    return [(name,) for name, _ in rounds] if method == "keys" else None


def is_value(value: Any) -> bool:
    """Return True for a value that a program can hold."""
    return isinstance(value, VALUES) or value is None


def is_optional(cls: type, name: str) -> bool:
    """Return True if a class declares an attribute that may be None."""
    for base in cls.__mro__:
        hint = inspect.get_annotations(base).get(name)
        if hint is not None:
            return "None" in str(hint) or "Optional" in str(hint)
    return False
