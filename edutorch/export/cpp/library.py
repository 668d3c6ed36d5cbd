"""The functions of `runtime/`, of which a header gets those that it needs.

A block begins with a comment line "// name: …" and ends before the next one.
"""

from __future__ import annotations

import functools
import itertools
import re
from pathlib import Path

from .elementwise import EXPRESSIONS, PREDICATES, function_text

__all__ = ["needed_blocks"]

RUNTIME = Path(__file__).with_name("runtime")
FILES = (
    "tensor", "safetensors", "elementwise", "movement", "products", "reductions", "convolution",
    "pooling", "networks",
)  # fmt: skip
"""In this order: what a block uses stands before it."""

ALWAYS = {"Index", "Shape", "text", "Tensor", "Weights", "check_shape"}
"""The blocks that every header has."""

BLOCK = re.compile(r"^// (\w+): ", re.MULTILINE)
WORD = re.compile(r"\w+")


@functools.cache
def all_blocks() -> dict[str, str]:
    """Return the text of every block by its name, in order."""
    blocks: dict[str, str] = {}
    for file in FILES:
        if file == "reductions":  # the elementwise functions stand before what may use them
            blocks |= {name: function_text(name) for name in (*EXPRESSIONS, *PREDICATES)}
        text = (RUNTIME / f"{file}.hpp").read_text(encoding="utf-8")
        starts = [*BLOCK.finditer(text), None]
        for match, following in itertools.pairwise(starts):
            assert match is not None
            end = len(text) if following is None else following.start()
            blocks[match[1]] = text[match.start() : end].rstrip() + "\n"
    return blocks


@functools.cache
def uses_of(name: str) -> frozenset[str]:
    """Return the blocks that a block names. In its text the elementwise functions are std's."""
    words = set(WORD.findall(without_comments(all_blocks()[name])))
    return frozenset((words & set(all_blocks())) - set(EXPRESSIONS) - set(PREDICATES) - {name})


def without_comments(text: str) -> str:
    """Return code without its comments."""
    return re.sub(r"//.*", "", text)


def needed_blocks(code: str) -> list[str]:
    """Return the blocks that code names as `edu::name`, and those that they use, in order.

    >>> from edutorch.export.cpp.library import needed_blocks
    >>> "// linear: " in "".join(needed_blocks("edu::linear(x, w, {})"))
    True
    """
    waiting = set(re.findall(r"edu::(\w+)", without_comments(code))) & set(all_blocks()) | ALWAYS
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        needed.add(name)
        waiting |= uses_of(name) - needed
    return [text for name, text in all_blocks().items() if name in needed]
