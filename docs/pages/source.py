"""The source of a function: its whole block, and each file as a page."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edutorch.core.op import Op

from .entries import has_page

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "edutorch"
MOST_HELPERS = 6
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Source:
    """Lines of a file: the block of a function and the helpers in the file that it names."""

    path: str  # from the root of the repository
    blocks: tuple[tuple[int, int, str], ...]  # (first line, last line, text)

    @property
    def first(self) -> int:
        return self.blocks[0][0]

    @property
    def text(self) -> str:
        return "\n\n\n".join(text for _, _, text in self.blocks)


class File:
    """One file of the package, taken apart once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = path.read_text(encoding="utf-8").splitlines()
        self.tree = ast.parse("\n".join(self.lines))
        self.definitions: dict[str, list[ast.stmt]] = {}
        for node in self.tree.body:
            if isinstance(node, DEFINITIONS):
                self.definitions.setdefault(node.name, []).append(node)

    def starts(self, node: ast.stmt) -> int:
        """Return the first line of a statement, with its decorators."""
        decorators = getattr(node, "decorator_list", [])
        return min([node.lineno, *(decorator.lineno for decorator in decorators)])

    def span(self, node: ast.stmt) -> tuple[int, int]:
        """Return the lines of a statement, with the comment above it."""
        first = self.starts(node)
        while (
            first > 1
            and self.lines[first - 2].startswith("# ")
            and "---" not in self.lines[first - 2]
        ):
            first -= 1
        return first, node.end_lineno or node.lineno

    def block(self, node: ast.stmt) -> tuple[int, int, str]:
        """Return the lines of a statement and their text."""
        first, last = self.span(node)
        return first, last, textwrap.dedent("\n".join(self.lines[first - 1 : last]))

    def statement(self, function: Any) -> ast.stmt | None:
        """Return the statement of the file in which a rule is written, None if elsewhere."""
        code = getattr(function, "__code__", None)
        if code is None or code.co_filename != str(self.path):
            return None
        for node in self.tree.body:
            if self.starts(node) <= code.co_firstlineno <= (node.end_lineno or node.lineno):
                return node
        return None

    def registration(self, name: str) -> ast.stmt | None:
        """Return the statement `name.vjp(…)` at the top level, None if there is none."""
        for node in self.tree.body:
            called = getattr(getattr(node, "value", None), "func", None)
            if isinstance(called, ast.Attribute) and ast.unparse(called) == f"{name}.vjp":
                return node
        return None

    def named_by(self, nodes: list[ast.stmt]) -> list[str]:
        """Return the names of functions in this file that `nodes` use."""
        used = [name.id for node in nodes for name in ast.walk(node) if isinstance(name, ast.Name)]
        return [name for name in dict.fromkeys(used) if name in self.definitions]


@functools.cache
def file(path: Path) -> File:
    return File(path)


def source_of(function: Any, op: Op | None = None) -> list[Source]:
    """Return the block of a function: its definition, its rules, helpers without a page.

    Args:
        op: what the function is the face of; its block is shown too, from its own file.
    """
    place = definition(function)
    if place is None:
        return []
    nodes: dict[File, list[ast.stmt]] = {place[0]: [place[1]]}
    if op is not None:
        block = definition(inspect.unwrap(op.forward))
        if block is not None and block != place:
            nodes.setdefault(block[0], []).append(block[1])
        for rule in op.rules.values():
            for source_file, inside in nodes.items():
                statement = source_file.statement(rule.function)
                for candidate in (statement, statement and source_file.registration(op.name)):
                    if candidate is not None and candidate not in inside:
                        inside.append(candidate)
    return [
        Source(
            source_file.path.relative_to(ROOT).as_posix(),
            tuple(source_file.block(node) for node in [*inside, *helpers(source_file, inside)]),
        )
        for source_file, inside in nodes.items()
    ]


def definition(function: Any) -> tuple[File, ast.stmt] | None:
    """Return where a function or class is defined, None if that is not in the package."""
    code = getattr(function, "__code__", None)
    where = code.co_filename if code is not None else inspect.getsourcefile(function)
    if not where or not Path(where).is_relative_to(PACKAGE):
        return None
    source_file = file(Path(where))
    line = code.co_firstlineno if code is not None else inspect.getsourcelines(function)[1]
    for node in ast.walk(source_file.tree):
        if isinstance(node, DEFINITIONS) and source_file.starts(node) == line:
            return source_file, node
    return None


def helpers(source_file: File, nodes: list[ast.stmt]) -> list[ast.stmt]:
    """Return the functions of the file without a page that `nodes` name, and so on."""
    # Files of `compat` are imported under their public names: "edutorch.compiler".
    path = str(source_file.path)
    loaded = [module for module in list(sys.modules.values())
              if getattr(module, "__file__", None) == path]  # fmt: skip
    module = loaded[0] if loaded else None
    chosen: list[ast.stmt] = []
    waiting = list(nodes)
    while waiting and len(chosen) < MOST_HELPERS:
        for name in source_file.named_by([waiting.pop(0)]):
            if has_page(getattr(module, name, None)):
                continue
            for node in source_file.definitions[name]:
                if isinstance(node, ast.FunctionDef) and node not in [*chosen, *nodes]:
                    chosen.append(node)
                    waiting.append(node)
    return chosen[:MOST_HELPERS]


# A file as a page --------------------------------------------------------------------


def file_page(path: str) -> str:
    """Return the page that shows a whole file, each line with an address."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    formatter = HtmlFormatter(linenos="inline", lineanchors="line", anchorlinenos=True)
    text = (ROOT / path).read_text(encoding="utf-8")
    shown = highlight(text, PythonLexer(), formatter)
    return f"---\norphan: true\n---\n\n# {path}\n\n~~~~~~~~{{raw}} html\n{shown}\n~~~~~~~~\n"


def files() -> list[str]:
    """Return every file of the package, from the root of the repository."""
    return [path.relative_to(ROOT).as_posix() for path in sorted(PACKAGE.rglob("*.py"))]
