"""Byte-level BPE, the tokenizer of GPT-2: any text, spelled with 256 bytes and what was merged.

Paper: Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
"""

from __future__ import annotations

import json
import math
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from ...errors import InvalidValueError
from ...utils.atomic_files import write_atomically
from .merges import Pair, learn_merges, merge_pair
from .tokenizer import (
    USE_LIBRARY,
    Tokenizer,
    TokenizerFileError,
    check_text,
    check_vocab_size,
    number_tokens,
    read_json,
    read_lines,
)

WHITE_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode's white space. (Python's `\\s` has four control characters more.)"""


@cache
def word_pattern() -> re.Pattern[str]:
    r"""Return GPT-2's pattern of words: an ending after ', letters, digits, others, white space.

    A space before a word belongs to it. The original needs the package `regex` for \p{L} and
    \p{N}, Unicode's letters and numbers. Python's `\w` is these and "_"; its `\d` are the decimal
    digits alone, so the other numbers, such as "²" and "Ⅷ", are listed.
    """
    other_numbers = re.escape(
        "".join(
            chr(code)
            for code in range(sys.maxunicode + 1)
            if unicodedata.category(chr(code)) in ("Nl", "No")
        )
    )
    letter, number = rf"[^\W\d_{other_numbers}]", rf"[\d{other_numbers}]"
    neither = rf"(?:[^\w{WHITE_SPACE}]|_)"
    space = f"[{WHITE_SPACE}]"
    return re.compile(
        rf"'(?:s|t|re|ve|m|ll|d)| ?{letter}+| ?{number}+| ?{neither}+"
        rf"|{space}+(?![^{WHITE_SPACE}])|{space}+"
    )


@cache
def byte_characters() -> list[str]:
    """Return a visible character for each of the 256 bytes; that of a space is "Ġ".

    Printable bytes stand for themselves, the others are moved behind them: so a vocabulary is
    a text file without spaces.
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    moved = iter(range(256, 512))
    return [chr(byte if byte in printable else next(moved)) for byte in range(256)]


class BPE(Tokenizer):
    """Byte pair encoding of bytes: a word is spelled in bytes, then pairs are merged.

    The pair that was learned first is merged first, until no neighbours can be merged.

    Args:
        vocab: the id of each token, spelled with the characters of `byte_characters`.
        merges: the pairs, in the order in which they were learned.
        special_tokens: such as "<|endoftext|>".
        add_prefix_space: whether a text that begins with a word gets a space before it.

    >>> bpe = BPE.train(["low lower lowest", "slow"], vocab_size=259)
    >>> bpe.tokenize("lower slows")
    ['low', 'e', 'r', 'Ġ', 's', 'low', 's']
    >>> bpe.decode(bpe.encode("lower slows, naïve"))
    'lower slows, naïve'
    """

    model_type = "BPE"

    def __init__(
        self, vocab: Mapping[str, int], merges: Iterable[Pair], special_tokens: Iterable[str] = (),
        add_prefix_space: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(vocab, special_tokens)
        merges = list(merges)
        missing = [left + right for left, right in merges if left + right not in self.vocab]
        if missing:
            raise InvalidValueError(
                "BPE", f"the vocabulary has no token {missing[0]!r}, which a merge makes"
            )
        self.merges = [(left, right) for left, right in merges]
        self.ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self.add_prefix_space = add_prefix_space

    @classmethod
    def train(
        cls, texts: Iterable[str], vocab_size: int, special_tokens: Sequence[str] = (),
        min_frequency: int = 0,
    ) -> Self:  # fmt: skip
        """Learn a vocabulary.

        The special tokens come first in it, then the bytes, then one token for each merge.

        Args:
            texts: to learn from.
            vocab_size: how many tokens, at least 256 and the special ones.
            min_frequency: a pair that is rarer is not merged.
        """
        check_vocab_size("BPE.train", vocab_size, 256 + len(special_tokens))
        counts: Counter[str] = Counter()
        for text in texts:
            check_text("BPE.train", text)
            counts.update(word_pattern().findall(text))
        vocab = number_tokens([*special_tokens, *sorted(byte_characters())])
        spelled = {tuple(spell_in_bytes(word)): count for word, count in counts.items()}
        merges = learn_merges(spelled, vocab, vocab_size, min_frequency)
        return cls(vocab, merges, special_tokens)

    def split_words(self, text: str) -> Iterable[str]:
        """Return the words, each spelled in bytes."""
        if self.add_prefix_space and text and not text[0].isspace():
            text = " " + text
        return [spell_in_bytes(word) for word in word_pattern().findall(text)]

    def split_word(self, word: str) -> list[str]:
        """Return the tokens of a word."""
        parts = list(word)
        while len(parts) > 1:
            pair = min(pairwise(parts), key=lambda pair: self.ranks.get(pair, math.inf))
            if pair not in self.ranks:
                break
            parts = merge_pair(parts, pair, pair[0] + pair[1])
        return parts

    def join_tokens(self, tokens: list[str]) -> str:
        """Return the text; bytes that are no UTF-8 become "�"."""
        byte_of = {character: byte for byte, character in enumerate(byte_characters())}
        data = bytearray()
        for token in tokens:
            if token in self.special_tokens:  # as it stands, it is not spelled in bytes
                data += token.encode()
            else:
                data += bytes(byte_of[character] for character in token)
        return data.decode(errors="replace")

    # Files -----------------------------------------------------------------------------

    def pipeline(self) -> dict[str, Any]:
        """Return the parts of tokenizer.json around the model."""
        bytes_ = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
        return {
            "normalizer": None,
            "pre_tokenizer": {**bytes_, "add_prefix_space": self.add_prefix_space},
            "post_processor": None,
            "decoder": {**bytes_, "add_prefix_space": True},
        }

    def model_settings(self) -> dict[str, Any]:
        """Return the model's part of tokenizer.json."""
        return {
            "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "vocab": self.vocab, "merges": [list(pair) for pair in self.merges],
        }  # fmt: skip

    @classmethod
    def from_settings(cls, settings: dict[str, Any], special_tokens: list[str]) -> Self:
        """Return the tokenizer that tokenizer.json describes; it must be one of bytes."""
        splitter = settings.get("pre_tokenizer") or {}
        after = (settings.get("post_processor") or {}).get("type", "ByteLevel")
        if {splitter.get("type"), after} != {"ByteLevel"} or settings.get("normalizer"):
            raise TokenizerFileError(
                "BPE", "the tokenizer does not split a text as GPT-2's does",
                {
                    "normalizer": settings.get("normalizer"),
                    "pre_tokenizer": splitter.get("type"), "post_processor": after,
                },
                USE_LIBRARY,
            )  # fmt: skip
        model = settings["model"]
        added = {token["content"]: token["id"] for token in settings.get("added_tokens") or ()}
        merges: list[Any] = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
        add_prefix_space = splitter.get("add_prefix_space", False)
        return cls({**model["vocab"], **added}, merges, special_tokens, add_prefix_space)

    @classmethod
    def from_files(
        cls, vocab: str | Path, merges: str | Path, special_tokens: Sequence[str] = ()
    ) -> Self:
        """Read GPT-2's own two files, vocab.json and merges.txt.

        Raises: TokenizerFileError: a file is damaged; the line is named.
        """
        ids = read_json(vocab, "BPE")
        pairs: list[Pair] = []
        for number, line in read_lines(merges, "BPE"):
            parts = line.split(" ")
            if (number == 1 and line.startswith("#version")) or (not line and number > 1):
                continue
            if len(parts) != 2 or "" in parts:
                raise TokenizerFileError(
                    "BPE", f"line {number} of {merges} is no merge of two tokens",
                    {"line": repr(line)},
                )  # fmt: skip
            pairs.append((parts[0], parts[1]))
        return cls(ids, pairs, special_tokens)

    def save_files(self, folder: str | Path) -> None:
        """Write vocab.json and merges.txt into a folder."""
        lines = ["#version: 0.2", *(" ".join(pair) for pair in self.merges)]
        write_atomically(
            Path(folder) / "vocab.json", json.dumps(self.vocab, ensure_ascii=False).encode()
        )
        write_atomically(Path(folder) / "merges.txt", ("\n".join(lines) + "\n").encode())


def spell_in_bytes(word: str) -> str:
    """Return a word's bytes in UTF-8, each as its visible character.

    >>> spell_in_bytes(" né")
    'ĠnÃ©'
    """
    characters = byte_characters()
    return "".join(characters[byte] for byte in word.encode())
