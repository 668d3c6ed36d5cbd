"""The chapters of the reference: which file belongs where, and what introduces it.

The chapters of ops are the rows of the table in `edutorch/ops/README.md`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re

from .docstring import paragraphs, parse_docstring
from .entries import NAMESPACES, TENSOR, Entry, members
from .facts import sentence_cell
from .source import PACKAGE

OTHERS = (
    ("edutorch.nn.functional", "layers as functions"),
    ("edutorch.torch_level", "layers as functions"),
    ("edutorch.fft", "faces of the ops"),
    ("edutorch.linalg", "faces of the ops"),
    ("edutorch.special", "faces of the ops"),
    ("edutorch.signal", "signals"),
    ("edutorch.ops", "more ops"),
    ("edutorch.core", "what a tensor knows of itself"),
    ("edutorch", "settings, types, files"),
)
NAMESPACE_TITLES = {TENSOR: "methods and properties of a tensor"}


@functools.cache
def chapters_of_ops() -> dict[str, str]:
    """Return the chapter of each file of ops, from the table in their README."""
    text = (PACKAGE / "ops" / "README.md").read_text(encoding="utf-8")
    titles: dict[str, str] = {}
    for title, names in re.findall(r"^\| ([^|`]+?) \| (.+) \|$", text, re.MULTILINE):
        for name in re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", names)):
            titles.setdefault(f"edutorch.ops.{name}", title)
    return titles


def family_of(module: str) -> tuple[str, str]:
    """Return the address and the title of the chapter that a file belongs to."""
    title = chapters_of_ops().get(module)
    if title is None:
        title = next(t for prefix, t in OTHERS if f"{module}.".startswith(f"{prefix}."))
    return re.sub(r"\W+", "-", title).strip("-"), title


def titles() -> dict[str, str]:
    """Return every chapter's title by its address, in the order in which to read them."""
    modules = [*chapters_of_ops(), *(prefix for prefix, _ in OTHERS)]
    return dict(family_of(module) for module in modules)


def chapter_page(title: str, entries: list[Entry]) -> str:
    """Return the page of a chapter: each file with its introduction and its functions."""
    by_module: dict[str, list[Entry]] = {}
    order = list(chapters_of_ops())
    for entry in sorted(
        entries,
        key=lambda entry: (
            order.index(entry.module) if entry.module in order else len(order),
            entry.module,
        ),
    ):
        by_module.setdefault(entry.module, []).append(entry)
    parts = [f"# {title[0].upper()}{title[1:]}"]
    for module, inside in by_module.items():
        doc = inspect.getdoc(importlib.import_module(module)) or ""
        path = importlib.import_module(module).__file__ or ""
        where = path[path.rindex("edutorch/") :].replace("\\", "/")
        first = parse_docstring(doc)
        parts += [
            f"## {module.removeprefix('edutorch.').rpartition('.')[2]}",
            paragraphs(first.sentence),
            paragraphs(first.body),
            f"{{source}}`{where}`",
            listing([(entry, entry.name) for entry in inside]),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def listing(rows: list[tuple[Entry, str]]) -> str:
    """Return a table of functions: a link and a sentence each."""
    lines = [
        f"| {{doc}}`{shown.removeprefix('inside.')} <../ops/{entry.name}>` | "
        f"{'' if entry.public else '*Inside:* '}"
        f"{sentence_cell(parse_docstring(entry.doc).sentence)} |"
        for entry, shown in rows
    ]
    return "| | |\n|:--|:--|\n" + "\n".join(lines)


def namespace_page(namespace: str, entries: dict[str, Entry]) -> str:
    """Return the alphabetical list of a namespace."""
    owners = {name: entry for entry in entries.values() for name in entry.names}
    rows = [
        (owners[full], name)
        for name in sorted(members(namespace), key=str.lower)
        if (full := f"{namespace}.{name}") in owners
    ]
    return f"# {namespace}\n\n{len(rows)} names.\n\n{listing(rows)}\n"


def reference_page(chapters: list[str]) -> str:
    """Return the entrance to the reference."""
    spaces = "\n".join(f"names/{namespace}" for namespace in (*NAMESPACES, TENSOR))
    inside = "\n".join(f"families/{chapter}" for chapter in chapters)
    return (
        "# Reference\n\nEvery page is made from the source: the docstring, the derivative rules "
        "and the contract\nof the block it shows. The examples were run when it was built.\n\n"
        "## By family\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{inside}\n```\n\n"
        f"## By name\n\n```{{toctree}}\n:maxdepth: 1\n\n{spaces}\n../genindex\n```\n"
    )
