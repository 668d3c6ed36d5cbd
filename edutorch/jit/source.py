"""Finds the source of a Python function, and where a line of it stands."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import NotSupportedError


@dataclass
class FunctionSource:
    """A Python function, parsed.

    Args:
        function: the function.
        node: its definition.
        file: the file that it stands in.
        line: the line of the definition's first line in that file.
    """

    function: Any
    node: ast.FunctionDef
    file: str
    line: int

    def place(self, node: ast.AST) -> str:
        """Return "file:line" of a part of the function."""
        return f"{self.file}:{self.line + getattr(node, 'lineno', 1) - 1}"

    def lookup(self, name: str) -> tuple[bool, Any]:
        """Return whether a name means something outside of the function, and what."""
        code = self.function.__code__
        if name in code.co_freevars:
            cell = self.function.__closure__[code.co_freevars.index(name)]
            try:
                return True, cell.cell_contents
            except ValueError:
                return False, None
        if name in self.function.__globals__:
            return True, self.function.__globals__[name]
        if hasattr(builtins, name):
            return True, getattr(builtins, name)
        return False, None

    def fail(self, node: ast.AST, what: str, hint: str | None = None) -> NotSupportedError:
        """Return the error for a part of the function, with its file, line and text."""
        try:
            text = ast.unparse(node).strip().splitlines()[0][:80]
        except (AttributeError, ValueError, RecursionError, IndexError):
            text = type(node).__name__
        return NotSupportedError(
            "jit.script", f"{self.place(node)}: {what}",
            {"in": self.function.__qualname__, "line": text},
            hint or "write it in the subset that edutorch/jit/README.md describes, or mark the "
            "function with @torch.jit.ignore or @torch.jit.unused",
        )  # fmt: skip


def read_source(function: Callable[..., Any]) -> FunctionSource:
    """Return the source of a function.

    Raises: NotSupportedError: it has none, or is not a function of Python.
    """
    function = inspect.unwrap(function)
    if isinstance(function, types.MethodType):
        function = function.__func__
    if not isinstance(function, types.FunctionType):
        raise NotSupportedError(
            "jit.script", f"{getattr(function, '__name__', function)!r} is not a Python function",
            hint="give a function, a method or a module",
        )  # fmt: skip
    code = function.__code__
    try:
        text = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(text)
    except (OSError, SyntaxError, TypeError) as error:
        raise NotSupportedError(
            "jit.script", f"{code.co_filename}:{code.co_firstlineno}: the source of "
            f"{function.__qualname__} cannot be read as a function of its own",
            hint="define it with `def` in a file or a notebook's cell; a lambda has no statements",
        ) from error  # fmt: skip
    node = tree.body[0] if tree.body else None
    if not isinstance(node, ast.FunctionDef):
        what = "an async function" if isinstance(node, ast.AsyncFunctionDef) else "not a `def`"
        raise NotSupportedError(
            "jit.script", f"{code.co_filename}:{code.co_firstlineno}: {function.__qualname__} is "
            f"{what}", hint="define it with `def`",
        )  # fmt: skip
    return FunctionSource(function, node, code.co_filename, code.co_firstlineno)


def is_installed(function: Any) -> bool:
    """Return True if a function or class belongs to an installed library, not to the user.

    Libraries decorate their functions while they are imported, and run them as Python; so what
    they script is compiled when its code is asked for. See `script`.
    """
    function = inspect.unwrap(function) if callable(function) else function
    code = getattr(function, "__code__", None)
    if code is not None:
        file = code.co_filename
    else:
        try:
            file = inspect.getfile(function if inspect.isclass(function) else type(function))
        except (TypeError, OSError):
            return False
    path = Path(file)
    parts = set(path.parts)
    if parts & {"site-packages", "dist-packages"} or is_own(path):
        return True
    return any(
        next(folder.glob("*.dist-info"), None) is not None
        for folder in path.parents[:6]
        if (folder / path.relative_to(folder).parts[0]).is_dir()
    )


def is_own(path: Path) -> bool:
    """Return True for a file of this library."""
    return Path(__file__).parent.parent in path.parents
