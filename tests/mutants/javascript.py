"""Mutation operators for JavaScript, based on tokens, since Python has no parser for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .operators import Mutant

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|import[^;]*;", re.DOTALL)
TEXT = re.compile(r"`[^`]*`|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'")
FUNCTION = re.compile(r"^(?:export )?(?:async )?function (\w+)|^  (?:async )?(\w+)\(.*\{$", re.M)

RULES: tuple[tuple[str, str, str], ...] = (
    ("unescaped text", r"\.textContent =", ".innerHTML ="),
    ("comparison", r" === ", " !== "),
    ("comparison", r" !== ", " === "),
    ("comparison", r" < ", " <= "),
    ("comparison", r" > ", " >= "),
    ("missing condition", r" && ", " || "),
    ("missing condition", r" \|\| ", " && "),
    ("sign", r" \+ ", " - "),
    ("sign", r" - ", " + "),
    ("sign", r" \* ", " / "),
    ("negation", r"\bif \(!", "if ("),
    ("missing guard", r"\bif \([^()]*\) return", "if (false) return"),
    ("flag", r"\btrue\b", "false"),
    ("flag", r"\bfalse\b", "true"),
    ("missing copy", r"\[\.\.\.(\w+)\]", r"\1"),
    ("off by one", r"(?<=[\[ (])1(?=[\]),; ])", "2"),
    ("off by one", r"(?<=[\[(])0(?=[\]),;])", "1"),
    ("dropped statement", r"(?m)^ +this\.\w+(?:\.\w+)*\([^;{}]*\);$", ";"),
)


def blank_comments(source: str) -> str:
    """Return the source with comments and texts replaced by blanks of the same length."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    return TEXT.sub(blank, COMMENT.sub(blank, source))


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield the faults that can be planted in a JavaScript file."""
    source = path.read_text()
    code = blank_comments(source)
    starts = [(match.start(), match[1] or match[2]) for match in FUNCTION.finditer(code)]
    for operator, pattern, replacement in RULES:
        for match in re.finditer(pattern, code):
            old = source[match.start() : match.end()]
            scope = next((name for at, name in reversed(starts) if at <= match.start()), "")
            start = len(source[: match.start()].encode())
            line = source.count("\n", 0, match.start()) + 1
            new = match.expand(replacement)
            yield Mutant(path, operator, line, start, start + len(old.encode()), old, new, scope)
