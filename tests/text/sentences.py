"""Sentences of the standard library's texts: Python's manual, and docstrings of its modules."""

from __future__ import annotations

import ast
import re
import sysconfig
from functools import cache
from itertools import islice
from pathlib import Path

from edutorch.datasets import load_manual

HARD = [
    "", " ", "   ", "\n", "\t\tx  y\r\n z", "it's I'LL they'd've don't 'tis ''s", "a_b __init__ _",
    "x²+½ Ⅷ ٣٤ 一二 3.14e-5", "naïve Ångström café cafe\u0301 Ñandú", "ΣΑΣ İstanbul ǅ ß ﬁ",
    "日本語のテキスト 中文 한국어 ไทย", "👍🏽 👩‍👩‍👧 🇩🇪 ‽…—“”",
    "\x1c\x1d\x85\u2028\u3000\u200b\ufeff\xa0x",
    "\x00\x07 a\x0bb\x0cc\x85d \ufffd \ue000",
    "supercalifragilistic" * 8, "[CLS] <unk> <|endoftext|> [SEP] ##x ▁a",
    "!?.,;:'\"`~@#$%^&*()-+=[]{}|\\/<>", "  two  spaces   three    four ", "ＡＢＣ１２３ ①② ªº",
]  # fmt: skip
"""What tokenizers get wrong: white space, endings, digits, accents, scripts, control characters."""


@cache
def manual() -> tuple[str, ...]:
    """Return the texts of Python's manual."""
    return tuple(load_manual().values())


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, roughly."""
    parts = re.split(r"(?<=[.:!?])\s+|\n\n+", text)
    return [part.strip() for part in parts if part.strip()]


def load_sentences(count: int) -> list[str]:
    """Return different sentences: the hard ones, the manual's, then docstrings'."""
    sentences = dict.fromkeys(HARD)
    for text in iterate_texts():
        sentences.update(dict.fromkeys(split_sentences(text)))
        if len(sentences) >= count:
            break
    return list(islice(sentences, count))


def iterate_texts():
    """Yield the manual's texts, then the docstrings of the standard library."""
    yield from manual()
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield ast.get_docstring(node) or ""
