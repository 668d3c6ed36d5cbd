"""WordPiece, the tokenizer of BERT: words, cut into the longest pieces that the vocabulary has.

Paper: Schuster and Nakajima, Japanese and Korean Voice Search, 2012; Devlin et al.,
arXiv:1810.04805.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ...utils.atomic_files import write_atomically
from .merges import learn_merges
from .tokenizer import (
    USE_LIBRARY,
    Tokenizer,
    TokenizerFileError,
    check_text,
    check_vocab_size,
    number_tokens,
    read_lines,
)

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PREFIX = "##"
"""Begins a piece that does not begin a word."""
MAX_CHARACTERS = 100
"""A longer word is unknown as a whole."""

IDEOGRAPHS = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
"""Chinese characters: each is a word, since no spaces stand between the words.

The bounds are those of `tokenizers`; in BERT's own program the sixth begins at 0x2B820.
"""


class WordPiece(Tokenizer):
    """Greedy longest match: from the left, the longest piece that the vocabulary has, and again.

    A word of which a rest cannot be spelled is "[UNK]" as a whole.

    Args:
        vocab: the id of each token; a piece inside of a word begins with "##".
        lowercase: whether case, and with it accents, are removed.
        strip_accents: whether accents are removed, if not as `lowercase` says.
        special_tokens: default: BERT's, as far as the vocabulary has them.
        unk_token: stands for a word that cannot be spelled.
        add_cls_and_sep: whether `encode` puts [CLS] before a text and [SEP] after it.

    >>> vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##afford", "##able", "!"]
    >>> tokenizer = WordPiece({token: index for index, token in enumerate(vocab)})
    >>> tokenizer.tokenize("Unaffordable! Unbelievable")
    ['un', '##afford', '##able', '!', '[UNK]']
    >>> tokenizer.encode("unaffordable")
    [2, 5, 6, 7, 3]
    """

    model_type = "WordPiece"

    def __init__(
        self, vocab: Mapping[str, int], lowercase: bool = True, strip_accents: bool | None = None,
        special_tokens: Iterable[str] | None = None, unk_token: str = "[UNK]",
        add_cls_and_sep: bool = True,
    ) -> None:  # fmt: skip
        if special_tokens is None:
            special_tokens = [token for token in SPECIAL_TOKENS if token in vocab]
        super().__init__(vocab, special_tokens, unk_token)
        self.lowercase, self.strip_accents = lowercase, strip_accents
        self.add_cls_and_sep = add_cls_and_sep and {"[CLS]", "[SEP]"} <= self.vocab.keys()

    @classmethod
    def train(
        cls, texts: Iterable[str], vocab_size: int, lowercase: bool = True, min_frequency: int = 0
    ) -> Self:
        """Learn a vocabulary: characters, and the most frequent pairs of pieces, merged.

        (As `tokenizers` does it; the original's own rule for choosing a pair was not published.)
        """
        counts: Counter[str] = Counter()
        for text in texts:
            check_text("WordPiece.train", text)
            counts.update(split_punctuation(normalize(text, lowercase, lowercase)))
        words = {
            tuple(c if i == 0 else PREFIX + c for i, c in enumerate(word)): count
            for word, count in counts.items()
        }
        characters = sorted({piece for word in words for piece in word})
        vocab = number_tokens([*SPECIAL_TOKENS, *characters])
        check_vocab_size("WordPiece.train", vocab_size, len(vocab))
        learn_merges(
            words, vocab, vocab_size, min_frequency, lambda left, right: left + right[len(PREFIX) :]
        )
        return cls(vocab, lowercase)

    def split_words(self, text: str) -> Iterable[str]:
        """Return the words and punctuation marks of a normalized text."""
        strip_accents = self.lowercase if self.strip_accents is None else self.strip_accents
        return split_punctuation(normalize(text, self.lowercase, strip_accents))

    def split_word(self, word: str) -> list[str]:
        """Return the pieces of a word."""
        if len(word) > MAX_CHARACTERS:
            return [self.unk_token or ""]
        pieces: list[str] = []
        start = 0
        while start < len(word):
            prefix = PREFIX if start else ""
            for end in range(len(word), start, -1):
                if (piece := prefix + word[start:end]) in self.vocab:
                    pieces.append(piece)
                    start = end
                    break
            else:
                return [self.unk_token or ""]
        return pieces

    def add_special_ids(self, first: list[int], second: list[int] | None) -> list[int]:
        """Return [CLS] first [SEP], or [CLS] first [SEP] second [SEP]."""
        if not self.add_cls_and_sep:
            return super().add_special_ids(first, second)
        start, end = self.vocab["[CLS]"], self.vocab["[SEP]"]
        return [start, *first, end] if second is None else [start, *first, end, *second, end]

    def token_type_ids(self, ids: Sequence[int]) -> list[int]:
        """Return 0 for each id of the first text, with its [SEP], and 1 for each of the second."""
        end = self.vocab.get("[SEP]")
        if end is None or end not in ids:
            return [0] * len(ids)
        first = list(ids).index(end) + 1
        return [0] * first + [1] * (len(ids) - first)

    def join_tokens(self, tokens: list[str]) -> str:
        """Return the text, with a space between words and none before punctuation."""
        text = ""
        for index, token in enumerate(tokens):
            if index and token.startswith(PREFIX):
                text += token.removeprefix(PREFIX)
            else:
                is_mark = token in (".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re")
                text += token if index == 0 or is_mark else " " + token
        return text

    # Files -----------------------------------------------------------------------------

    def pipeline(self) -> dict[str, Any]:
        """Return the parts of tokenizer.json around the model."""
        return {
            "normalizer": {
                "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                "strip_accents": self.strip_accents, "lowercase": self.lowercase,
            },
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": self.template() if self.add_cls_and_sep else None,
            "decoder": {"type": "WordPiece", "prefix": PREFIX, "cleanup": True},
        }  # fmt: skip

    def template(self) -> dict[str, Any]:
        """Return how special tokens stand around a text, and around two."""
        start, end, second_end = (
            {"SpecialToken": {"id": token, "type_id": number}}
            for token, number in (("[CLS]", 0), ("[SEP]", 0), ("[SEP]", 1))
        )
        first, second = ({"Sequence": {"id": name, "type_id": n}} for n, name in enumerate("AB"))
        return {
            "type": "TemplateProcessing",
            "single": [start, first, end],
            "pair": [start, first, end, second, second_end],
            "special_tokens": {
                token: {"id": token, "ids": [self.vocab[token]], "tokens": [token]}
                for token in ("[CLS]", "[SEP]")
            },
        }

    def model_settings(self) -> dict[str, Any]:
        """Return the model's part of tokenizer.json."""
        return {
            "unk_token": self.unk_token, "continuing_subword_prefix": PREFIX,
            "max_input_chars_per_word": MAX_CHARACTERS, "vocab": self.vocab,
        }  # fmt: skip

    @classmethod
    def from_settings(cls, settings: dict[str, Any], special_tokens: list[str]) -> Self:
        """Return the tokenizer that tokenizer.json describes; it must split as BERT's does."""
        normalizer, splitter = settings.get("normalizer") or {}, settings.get("pre_tokenizer") or {}
        is_bert = normalizer.get("type") == "BertNormalizer" and normalizer.get("clean_text")
        model = settings["model"]
        fixed = (model.get("continuing_subword_prefix"), model.get("max_input_chars_per_word"))
        if not is_bert or splitter.get("type") != "BertPreTokenizer" or fixed != (PREFIX, 100):
            raise TokenizerFileError(
                "WordPiece", "the tokenizer does not split a text as BERT's does",
                {"normalizer": normalizer.get("type"), "pre_tokenizer": splitter.get("type")},
                USE_LIBRARY,
            )  # fmt: skip
        added = {token["content"]: token["id"] for token in settings.get("added_tokens") or ()}
        template = settings.get("post_processor")
        tokenizer = cls(
            {**model["vocab"], **added}, normalizer["lowercase"], normalizer.get("strip_accents"),
            special_tokens, model["unk_token"], template is not None,
        )  # fmt: skip
        if template and template["type"] == "TemplateProcessing":
            own = tokenizer.template()
            if [template["single"], template["pair"]] != [own["single"], own["pair"]]:
                raise TokenizerFileError(
                    "WordPiece", "the special tokens do not stand as BERT's do", hint=USE_LIBRARY
                )
        elif template and template["type"] != "BertProcessing":
            raise TokenizerFileError(
                "WordPiece",
                f"there is no post_processor {template['type']!r} here",
                hint=USE_LIBRARY,
            )
        return tokenizer

    @classmethod
    def from_files(cls, vocab: str | Path, lowercase: bool = True) -> Self:
        """Read BERT's own file, vocab.txt: a token in each line.

        Raises: TokenizerFileError: a token stands there twice; the line is named.
        """
        ids: dict[str, int] = {}
        for number, token in read_lines(vocab, "WordPiece"):
            if token in ids:
                raise TokenizerFileError(
                    "WordPiece",
                    f"line {number} of {vocab} repeats line {ids[token] + 1}: {token!r}",
                )
            ids[token] = number - 1
        return cls(ids, lowercase)

    def save_files(self, folder: str | Path) -> None:
        """Write vocab.txt into a folder."""
        lines = sorted(self.vocab, key=self.vocab.__getitem__)
        write_atomically(Path(folder) / "vocab.txt", ("\n".join(lines) + "\n").encode())


# BERT's words ----------------------------------------------------------------------------


def normalize(text: str, lowercase: bool, strip_accents: bool) -> str:
    """Return a text without control characters, and with spaces around Chinese characters.

    >>> normalize("Ça\\tva?", lowercase=True, strip_accents=True)
    'ca va?'
    """
    characters = []
    for character in text:
        if character in "\t\n\r" or unicodedata.category(character)[0] == "Z":
            characters.append(" ")
        elif character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Co"):
            continue  # what could not be decoded, and control characters
        elif is_ideograph(character):
            characters.append(f" {character} ")
        else:
            characters.append(character)
    text = "".join(characters)
    if strip_accents:  # "é" is taken apart into "e" and an accent
        parts = unicodedata.normalize("NFD", text)
        text = "".join(part for part in parts if unicodedata.category(part) != "Mn")
    # Letter by letter: the lower form of a Greek sigma does not depend on where it stands.
    return "".join(character.lower() for character in text) if lowercase else text


def is_ideograph(character: str) -> bool:
    """Whether a character is a Chinese one."""
    return any(first <= ord(character) <= last for first, last in IDEOGRAPHS)


def is_punctuation(character: str) -> bool:
    """Whether a character is a word of its own: punctuation, and all signs of ASCII."""
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character)[0] == "P"


def split_punctuation(text: str) -> Iterator[str]:
    """Yield the words and the punctuation marks of a text.

    >>> list(split_punctuation("don't panic"))
    ['don', "'", 't', 'panic']
    """
    for word in text.split():
        start = 0
        for index, character in enumerate(word):
            if is_punctuation(character):
                if start < index:
                    yield word[start:index]
                yield character
                start = index + 1
        if start < len(word):
            yield word[start:]
