"""Pages of classes (modules, optimizers, …): one page per file, a section per name."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

from .docstring import fenced, paragraphs, plain, section, take_apart
from .example import run
from .facts import signature
from .source import PACKAGE, source_of

GUIDES = {
    "modules": ("Modules", ("edutorch.nn.modules", "edutorch.nn.parameter", "edutorch.nn.init")),
    "optimizers": ("Optimizers", ("edutorch.optim",)),
    "transforms": ("Derivatives of functions", ("edutorch.autograd", "edutorch.func")),
    "data": ("Data", ("edutorch.utils.data",)),
}
"""A page for each: its address, its title, the packages whose files it shows."""


def files_of(package: str) -> list[str]:
    """Return the modules in a package that say what is public in them."""
    found = importlib.import_module(package)
    where = Path(found.__file__ or "")
    if where.name != "__init__.py":
        return [package]
    names = sorted(path.stem for path in where.parent.glob("*.py") if path.stem[0] != "_")
    return [f"{package}.{name}" for name in names]


def public_here(module: str) -> dict[str, Any]:
    """Return the public classes and functions that a file defines."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None) or [
        name
        for package in (module.rpartition(".")[0], "edutorch.nn")
        for name in getattr(sys.modules.get(package), "__all__", ())
    ]
    values = {name: getattr(found, name, None) for name in dict.fromkeys(names)}
    return {
        name: value
        for name, value in values.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module
    }


def page(title: str, packages: tuple[str, ...], wrong: list[str]) -> tuple[str, dict[str, str]]:
    """Return the index of a guide and, by address, the page of each of its files."""
    pages: dict[str, str] = {}
    lines = []
    for package in packages:
        for module in files_of(package):
            inside = public_here(module)
            if not inside:
                continue
            pages[module] = file_page(module, inside, wrong)
            names = ", ".join(f"`{name}`" for name in inside)
            doc = take_apart(inspect.getdoc(importlib.import_module(module)) or "").sentence
            lines.append(f"- {{doc}}`{module.partition('.')[2]} <{module}>`: {plain(doc)} {names}")
    return f"# {title}\n\n" + "\n".join(lines) + "\n", pages


def file_page(module: str, inside: dict[str, Any], wrong: list[str]) -> str:
    """Return the page of one file; what its examples get wrong is added to `wrong`."""
    first = take_apart(inspect.getdoc(importlib.import_module(module)) or "")
    title = module.removeprefix("edutorch.")
    path = str(Path(importlib.import_module(module).__file__ or "").relative_to(PACKAGE.parent))
    parts = [
        f"---\norphan: true\n---\n\n# {title}",
        paragraphs(first.sentence),
        paragraphs(first.body),
        f"{{source}}`{Path(path).as_posix()}`",
        *(_part(name, value, module, wrong) for name, value in inside.items()),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _part(name: str, value: Any, module: str, wrong: list[str]) -> str:
    doc = inspect.getdoc(value) or ""
    parts = take_apart(doc)
    outcome = run(f"{module}.{name}", doc, module, name)
    wrong += outcome.wrong
    source = source_of(value)
    kind = "class" if inspect.isclass(value) else "function"
    public = module.replace("edutorch.nn.modules", "edutorch.nn").replace("edutorch", "torch", 1)
    rows = [
        f"## {name}",
        f"```{{py:{kind}}} {public}.{name}\n:no-typesetting:\n```",
        fenced(signature(value, name), "python"),
        plain(parts.sentence),
        paragraphs(parts.body),
        *(section(title, lines) for title, lines in parts.sections),
        fenced(outcome.session.rstrip("\n"), "pycon") if outcome.session else "",
    ]
    if source is not None:
        rows.append(_folded(f"{source.path}:{source.first}", source.text))
    return "\n\n".join(row for row in rows if row)


def _folded(where: str, text: str) -> str:
    """Return source that opens at a click."""
    raw = "~~~~~~~~{raw} html\n%s\n~~~~~~~~"
    return "\n\n".join(
        (
            raw % '<details class="source"><summary>Source</summary>',
            f"{{source}}`{where}`",
            fenced(text, "python"),
            raw % "</details>",
        )
    )
