"""The source of a function: its whole block, and each file as a page."""

from __future__ import annotations

import ast
import functools
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "edutorch"
MOST_HELPERS = 6


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
        self.rules: dict[str, list[ast.stmt]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.definitions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                called = node.value.func
                if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                    self.rules.setdefault(called.value.id, []).append(node)

    def span(self, node: ast.stmt) -> tuple[int, int]:
        """Return the lines of a statement, with its decorators and the comment above it."""
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(each.lineno for each in decorators)])
        while first > 1 and self.lines[first - 2].startswith("# ") and "---" not in self.lines[first - 2]:
            first -= 1
        return first, node.end_lineno or node.lineno

    def named_by(self, nodes: list[ast.stmt]) -> list[str]:
        """Return the names of functions in this file that `nodes` use."""
        used = [each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)]
        return [name for name in dict.fromkeys(used) if name in self.definitions]


@functools.cache
def file(path: Path) -> File:
    return File(path)


def source_of(function: Any) -> Source | None:
    """Return the block of a function: its definition, its rules, helpers it names.

    Helpers have no page of their own: they are not public, and begin with `_` or are
    used nowhere else in the file.
    """
    code = getattr(function, "__code__", None)
    where = code.co_filename if code is not None else inspect.getsourcefile(function)
    if not where or not Path(where).is_relative_to(PACKAGE):
        return None
    found = file(Path(where))
    line = code.co_firstlineno if code is not None else inspect.getsourcelines(function)[1]
    own = next((node for node in ast.walk(found.tree) if _begins(node, line)), None)
    if own is None:
        return None
    assert isinstance(own, ast.FunctionDef | ast.ClassDef)
    top = [own, *(found.rules.get(own.name, []) if own in found.tree.body else [])]
    nodes = [*top, *_helpers(found, top)]
    spans = [found.span(node) for node in nodes]
    blocks = []
    for first, last in spans:
        lines = found.lines[first - 1 : last]
        margin = min(len(each) - len(each.lstrip()) for each in lines if each.strip())
        blocks.append((first, last, "\n".join(each[margin:] for each in lines)))
    return Source(found.path.relative_to(ROOT).as_posix(), tuple(_joined(blocks)))


def _joined(blocks: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Put a rule under its function as in the file: two blank lines at most."""
    return [block for index, block in enumerate(blocks) if block not in blocks[:index]]


def _begins(node: ast.AST, line: int) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.ClassDef):
        return False
    return min([node.lineno, *(each.lineno for each in node.decorator_list)]) == line


def _helpers(found: File, nodes: list[ast.stmt]) -> list[ast.stmt]:
    """Return the private functions that `nodes` name, and those that these name."""
    helpers: list[ast.stmt] = []
    waiting = list(nodes)
    while waiting and len(helpers) < MOST_HELPERS:
        for name in found.named_by([waiting.pop(0)]):
            for node in found.definitions[name]:
                if name.startswith("_") and node not in helpers and node not in nodes:
                    helpers.append(node)
                    waiting.append(node)
    return helpers[:MOST_HELPERS]


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
