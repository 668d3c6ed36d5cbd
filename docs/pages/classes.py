"""Pages of classes (modules, optimizers, …): one page per file, a section per name."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from .docstring import code_fence, index_entry, paragraphs, parse_docstring, plain, section
from .entries import has_page
from .example import run
from .facts import signature
from .source import PACKAGE, source_of

GUIDES = {
    "modules": ("Modules", ("edutorch.nn.modules", "edutorch.nn.parameter", "edutorch.nn.init")),
    "optimizers": ("Optimizers", ("edutorch.optim",)),
    "transforms": (
        "Derivatives of functions",
        ("edutorch.autograd", "edutorch.func", "edutorch.utils.checkpoint"),
    ),
    "data": ("Data", ("edutorch.utils.data",)),
    "datasets": ("Real data from installed packages", ("edutorch.datasets",)),
    "training": (
        "Training without the loop",
        (
            "edutorch.train",
            "edutorch.train.callbacks",
            "edutorch.train.metrics",
            "edutorch.utils.tensorboard",
        ),
    ),
    "distributions": ("Distributions", ("edutorch.distributions",)),
}
"""A page for each: its address, its title, the packages whose files it shows."""


def files_of(package: str) -> list[str]:
    """Return the modules in a package that say what is public in them."""
    try:
        imported = importlib.import_module(package)
    except ModuleNotFoundError:
        return []
    where = Path(imported.__file__ or "")
    if where.name != "__init__.py":
        return [package]
    names = sorted(path.stem for path in where.parent.glob("*.py") if path.stem[0] != "_")
    return [f"{package}.{name}" for name in names]


def public_members(module: str) -> dict[str, Any]:
    """Return the public classes and functions that a file defines."""
    imported = importlib.import_module(module)
    names = getattr(imported, "__all__", None) or [
        name
        for package in (module.rpartition(".")[0], "edutorch.nn")
        for name in getattr(sys.modules.get(package), "__all__", ())
    ]
    values = {name: getattr(imported, name, None) for name in dict.fromkeys(names)}
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
            inside = public_members(module)
            if not inside:
                continue
            pages[module] = file_page(module, inside, wrong)
            names = ", ".join(f"[`{name}`](files/{module}.md#{name.lower()})" for name in inside)
            doc = parse_docstring(inspect.getdoc(importlib.import_module(module)) or "").sentence
            lines.append(
                f"- {{doc}}`{module.partition('.')[2]} <files/{module}>`: {plain(doc)} {names}"
            )
    return f"# {title}\n\n" + "\n".join(lines) + "\n", pages


def file_page(module: str, inside: dict[str, Any], wrong: list[str]) -> str:
    """Return the page of one file; what its examples get wrong is added to `wrong`."""
    first = parse_docstring(inspect.getdoc(importlib.import_module(module)) or "")
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


def public_name(module: str, name: str, value: Any) -> str:
    """Return the shortest name under which users reach it: torch.nn.Linear."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        package = sys.modules[".".join(parts[:count])]
        if getattr(package, name, None) is value:
            return ".".join(["torch", *parts[1:count], name])
    return f"{module}.{name}"


def _part(name: str, value: Any, module: str, wrong: list[str]) -> str:
    doc = inspect.getdoc(value) or ""
    parts = parse_docstring(doc)
    outcome = run(f"{module}.{name}", doc, module, name)
    wrong += outcome.wrong
    directive = "class" if inspect.isclass(value) else "function"
    public = public_name(module, name, value)
    rows = [
        f"## {name}",
        "" if has_page(value) else index_entry(directive, public),
        code_fence(without_forward_references(signature(value, public)), "python"),
        plain(parts.sentence),
        paragraphs(parts.body),
        *(section(title, lines) for title, lines in parts.sections),
        code_fence(outcome.session.rstrip("\n"), "pycon") if outcome.session else "",
    ]
    for snippet in source_of(value):
        rows.append(_folded(f"{snippet.path}:{snippet.first}", snippet.text))
    return "\n\n".join(row for row in rows if row)


def without_forward_references(text: str) -> str:
    """Return the signature of a class as a reader writes it.

    >>> without_forward_references("Images(labels: ForwardRef('Tensor')) -> None")
    'Images(labels: Tensor)'
    """
    return re.sub(r"ForwardRef\('([^']+)'\)", r"\1", text).removesuffix(" -> None")


def _folded(where: str, text: str) -> str:
    """Return a collapsible block of source."""
    raw = "~~~~~~~~{raw} html\n%s\n~~~~~~~~"
    return "\n\n".join(
        (
            raw % '<details class="source"><summary>Source</summary>',
            f"{{source}}`{where}`",
            code_fence(text, "python"),
            raw % "</details>",
        )
    )
