"""What the parts of the translation know of each other.

`calls.py` and `translator.py` translate a function; `compiler.py` collects what they need. Each
sees the next only as it is described here.
"""

from __future__ import annotations

import ast
from typing import Any, Protocol

from ..nn.modules.module import Module
from .errors import NotSupportedError
from .program import Function
from .source import FunctionSource
from .statics import AttributeOf, Statics


class ProgramBuilder(Protocol):
    """The program that functions become part of: the `Compiler`."""

    def operator_name(self, value: Any) -> str | None:
        """Return the operator that a function of ours is, or None."""

    def form(self, value: Any) -> Any:
        """Return the form of a function of `nn.functional`, or None."""

    def class_name(self, cls: type) -> str | None:
        """Return the full name of a class in the program, or None."""

    def function(
        self, value: Any, translation: Translation | None = None, node: ast.AST | None = None
    ) -> Function:
        """Return a Python function as one of the program."""
        ...

    def method(
        self, module: Module, name: str, translation: Translation | None = None,
        node: ast.AST | None = None,
    ) -> None:  # fmt: skip
        """Compile a method of a module."""

    def use_attribute(self, resolved: AttributeOf, translation: Translation, node: ast.AST) -> None:
        """Note that a program reads an attribute."""

    def grad_mode(self, name: str) -> ast.expr:
        """Return the class of `torch.no_grad`."""
        ...


class Translation:
    """The translation of one function.

    Args:
        compiler: of the program that it becomes part of.
        source: the function.
        module: the module of a method.
    """

    def __init__(
        self, compiler: ProgramBuilder, source: FunctionSource, module: Module | None = None
    ) -> None:
        self.compiler, self.source, self.module = compiler, source, module
        self.statics = Statics(source, module)

    def fail(self, node: ast.AST, what: str, hint: str | None = None) -> NotSupportedError:
        """Return the error for a part of the function."""
        return self.source.fail(node, what, hint)

    def expression(self, node: ast.expr) -> ast.expr:
        """Return an expression translated."""
        raise NotImplementedError

    def type(self, node: ast.expr) -> ast.expr:
        """Return an annotation as a type of TorchScript."""
        raise NotImplementedError

    def truth(self, node: ast.expr) -> bool | None:
        """Return the answer of a test that is known before the function runs, or None."""
        raise NotImplementedError

    def constant(self, node: ast.AST, value: Any) -> ast.expr:
        """Return a value of Python as a constant of the program."""
        raise NotImplementedError
