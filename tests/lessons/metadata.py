"""What a notebook says of itself, and the names of edutorch that its cells use.

A notebook's metadata has a dict `edutorch`:

    part: "II", the part of the course
    introduces: the names of edutorch that are new in this lesson, as `names_used` writes them
    seconds, megabytes: what it takes on one core
    browser: whether it can run in a browser tab
    needs: more than a CPU: "gpu", "dist", "onnx"
    packages: those it reads data from, as they are imported
"""

from __future__ import annotations

import ast
import functools
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
KEYS = {"part", "introduces", "seconds", "megabytes", "browser", "needs", "packages"}
EVERYWHERE = {"check", "Tensor"}  # names that need no introduction


@functools.cache
def read(stem: str) -> dict[str, Any]:
    return json.loads((NOTEBOOKS / f"{stem}.ipynb").read_text("utf-8"))


def stems() -> list[str]:
    """Return the notebooks in the order of the course, which is that of the README's table."""
    text = (NOTEBOOKS / "README.md").read_text("utf-8")
    listed = dict.fromkeys(re.findall(r"`?(\d\d_\w+)\.ipynb`?", text))
    return [stem for stem in listed if (NOTEBOOKS / f"{stem}.ipynb").exists()]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def names_used(code: str, modules: dict[str, ModuleType]) -> Iterator[str]:
    """Yield the public names that a cell takes from edutorch: "nn.Linear", "F.relu", "stack".

    Args:
        modules: the names that stand for modules of edutorch; the cell's imports are added.
    """
    tree = ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", code))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from names_imported(node, modules)
    for node in outermost_attributes(tree):
        parts = ast.unparse(node).split(".")
        if parts[0] in modules:
            name = public_name(modules[parts[0]], parts[1:])
            if name:
                yield name


def names_imported(
    node: ast.Import | ast.ImportFrom, modules: dict[str, ModuleType]
) -> Iterator[str]:
    for alias in node.names:
        source = alias.name if isinstance(node, ast.Import) else node.module or ""
        if source.split(".")[0] != "edutorch":
            continue
        module = importlib.import_module(source)
        if isinstance(node, ast.Import):
            modules[alias.asname or "edutorch"] = (
                module if alias.asname else importlib.import_module("edutorch")
            )
            continue
        value = getattr(module, alias.name, None)
        if value is None:
            value = importlib.import_module(f"{source}.{alias.name}")
        if isinstance(value, ModuleType):
            modules[alias.asname or alias.name] = value
        else:
            name = public_name(module, [alias.name])
            if name:
                yield name


def outermost_attributes(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Yield the dotted names of a program, each once, in the order of the text."""
    nodes: list[tuple[int, int, ast.Attribute]] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Attribute) and re.fullmatch(r"[\w.]+", ast.unparse(node)):
            nodes.append((node.lineno, node.col_offset, node))
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return (node for *_, node in sorted(nodes, key=lambda row: row[:2]))


def public_name(module: ModuleType, parts: list[str]) -> str:
    """Return the name of what these attributes lead to; "" if it is a module."""
    path = module.__name__.split(".")[1:]
    value: Any = module
    for part in parts:
        value = getattr(value, part)
        path.append(part)
        if not isinstance(value, ModuleType):
            break
    else:
        return ""
    name = ".".join(path)
    return re.sub(r"^nn\.functional\.", "F.", re.sub(r"^ops\.\w+\.", "", name))


def is_mentioned(name: str, text: str) -> bool:
    """Return whether a text in Markdown has this name between backticks, or part of a path."""
    last = re.escape(name.split(".")[-1])
    return any(
        re.search(rf"(?<!\w){last}(?!\w)", code) for code in re.findall(r"`+([^`]+)`+", text)
    )
