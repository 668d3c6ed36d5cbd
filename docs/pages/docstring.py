"""Parses a docstring: a sentence, text, sections such as `Args:`, examples."""

from __future__ import annotations

import ast
import doctest
import re
import textwrap
from dataclasses import dataclass

SECTION = re.compile(r"(Args|Shape|Raises|Paper|Returns|Attributes):(?: |$)(.*)")


@dataclass(frozen=True)
class Docstring:
    """Its parts as plain text; `sections` holds (name, lines) in their order."""

    sentence: str
    body: str
    sections: tuple[tuple[str, tuple[str, ...]], ...]
    has_example: bool


def parse_docstring(text: str) -> Docstring:
    """Return the parts of a docstring whose margin is gone (see `inspect.getdoc`)."""
    pieces = doctest.DocTestParser().parse(text)
    lines = "".join(piece for piece in pieces if isinstance(piece, str)).splitlines()
    body: list[str] = []
    sections: list[tuple[str, list[str]]] = []
    inside = False
    for line in lines:
        match = SECTION.match(line)
        if match:
            sections.append((match[1], [match[2]] if match[2] else []))
            inside = True
        elif inside and (line.startswith(" ") or not line):
            sections[-1][1].append(line)
        else:
            inside = False
            body.append(line)
    sentence, _, rest = "\n".join(body).strip().partition("\n\n")
    return Docstring(
        sentence,
        rest.strip("\n"),
        tuple((name, tuple(inner)) for name, inner in sections),
        any(isinstance(piece, doctest.Example) for piece in pieces),
    )


# As Markdown -------------------------------------------------------------------------

MARKS = re.compile(r"([\\*_<>\[\]{}$|~^#])")


def plain(text: str) -> str:
    """Escape what Markdown would take for markup; `code` stays code.

    A sentence may break anywhere, so single line breaks become spaces.
    """
    parts = re.split(r"(``?[^`]+``?)", " ".join(text.split()))
    shown = [part if part.startswith("`") else MARKS.sub(r"\\\1", part) for part in parts]
    return re.sub(r"^([-+]|\d+\.)(?= )", r"\\\1", "".join(shown))


def cell(text: str) -> str:
    """Escape text for a cell of a table, where a bar in code would end the cell too."""
    return re.sub(r"(?<!\\)\|", r"\\|", plain(text))


def paragraphs(text: str) -> str:
    """Return text as Markdown: paragraphs, lists, and indented lines as code."""
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.splitlines()
        if lines and all(line.startswith("    ") for line in lines):
            code = "\n".join(line[4:] for line in lines)
            blocks.append(code_fence(code, language_of(code)))
        elif lines and lines[0].lstrip().startswith(("- ", "* ")):
            items = re.split(r"\n(?=\s*[-*] )", block)
            blocks.append("\n".join(f"- {plain(item.strip()[2:])}" for item in items))
        elif re.match(r"\d+\. ", lines[0] if lines else ""):
            items = re.split(r"\n(?=\d+\. )", block)
            blocks.append("\n".join(f"1. {plain(item.partition('. ')[2])}" for item in items))
        else:
            text_lines, code = split_code(lines)
            blocks += [plain(" ".join(text_lines))] if text_lines else []
            blocks += [code_fence(code, language_of(code))] if code else []
    return "\n\n".join(blocks)


def split_code(lines: list[str]) -> tuple[list[str], str]:
    """Split a paragraph from the indented lines at its end."""
    start = len(lines)
    while start and lines[start - 1].startswith("    "):
        start -= 1
    return lines[:start], "\n".join(line[4:] for line in lines[start:])


def language_of(text: str) -> str:
    """Whether indented lines are Python, not a formula or a table."""
    try:
        ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return "text"
    return "python"


def code_fence(text: str, language: str = "") -> str:
    """Return a block of code, in a fence longer than any inside."""
    longest = max((len(fence) for fence in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def section(name: str, lines: tuple[str, ...]) -> str:
    """Return one section as Markdown: a list where its lines are `name: text`."""
    items: list[tuple[str, list[str]]] = []
    loose: list[str] = []
    margin = min((len(line) - len(line.lstrip()) for line in lines[:] if line.strip()), default=0)
    for line in lines:
        match = re.match(r"(\*{0,2}[\w., ]+): (.*)", line[margin:])
        if match and (name in ("Args", "Attributes")):
            items.append((match[1], [match[2]]))
        elif items:
            items[-1][1].append(line)
        else:
            loose.append(line)
    title = {"Args": "Arguments"}.get(name, name)
    text = f"**{title}.** {plain(' '.join(loose))}".rstrip()
    listed = "\n".join(f"- `{key}`: {plain(' '.join(value))}" for key, value in items)
    return f"{text}\n\n{listed}" if listed else text


def index_entry(directive: str, name: str) -> str:
    """Put a name into the index and in front in the search.

    Args:
        kind: "function", "class", "method" or "property".
    """
    parts = name.split(".")
    own = 2 if directive in ("method", "property") else 1
    module, shown = ".".join(parts[:-own]), ".".join(parts[-own:])
    return f"```{{py:{directive}}} {shown}\n:module: {module}\n:no-typesetting:\n```"
