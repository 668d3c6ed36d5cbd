"""What all tokenizers have in common: a vocabulary, special tokens, and HuggingFace's files.

A tokenizer turns a text into ids in three steps: special tokens such as "[SEP]" are cut out, the
rest is split into words, and each word is split into tokens of the vocabulary. A subclass has the
second step, `split_words`, and the third, `split_word`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from ...errors import (
    ArgumentError,
    DimError,
    EdutorchError,
    InvalidValueError,
    ValueRangeError,
    missing_extra,
)
from ...utils.atomic_files import write_atomically

MAX_CACHED_WORDS = 50_000

USE_LIBRARY = "tokenizers.Tokenizer.from_file reads it"
"""The hint for a tokenizer.json with more in it than these classes have."""


class TokenizerFileError(EdutorchError, ValueError):
    """A file of a tokenizer is damaged, or belongs to another kind of tokenizer."""


class Tokenizer:
    """A vocabulary and a way to split a text into its tokens.

    Args:
        vocab: the id of each token.
        special_tokens: tokens that are found in a text as they stand, before it is split.
        unk_token: stands for what the vocabulary cannot spell.
    """

    model_type: ClassVar[str] = ""
    """How tokenizer.json calls the model."""

    def __init__(
        self, vocab: Mapping[str, int], special_tokens: Iterable[str] = (),
        unk_token: str | None = None,
    ) -> None:  # fmt: skip
        self.vocab = dict(vocab)
        wrong = [token for token, index in self.vocab.items() if not isinstance(index, int)]
        if wrong:
            raise InvalidValueError(
                type(self).__name__, f"the id of the token {wrong[0]!r} is no integer"
            )
        self.tokens = {index: token for token, index in self.vocab.items()}
        if len(self.tokens) != len(self.vocab):
            raise InvalidValueError(type(self).__name__, "two tokens of the vocabulary have one id")
        self.special_tokens = [token for token in special_tokens if token]
        for token in [*self.special_tokens, *([unk_token] if unk_token else [])]:
            if token not in self.vocab:
                raise InvalidValueError(
                    type(self).__name__, f"the vocabulary has no token {token!r}"
                )
        self.unk_token = unk_token
        # The longest comes first, so that "<s>" does not hide "<s>1".
        longest_first = sorted(self.special_tokens, key=len, reverse=True)
        self.special_pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self.cache: dict[str, list[str]] = {}

    def __len__(self) -> int:
        return len(self.vocab)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} tokens)"

    # Encoding --------------------------------------------------------------------------

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text.

        Raises:
            ArgumentError: it is no text.
            InvalidValueError: it has half of a surrogate pair, which is no character.
        """
        check_text(type(self).__name__, text)
        tokens: list[str] = []
        start = 0
        for match in self.special_pattern.finditer(text):
            tokens += self.tokenize_part(text[start : match.start()])
            tokens.append(match[0])
            start = match.end()
        return tokens + self.tokenize_part(text[start:])

    def tokenize_part(self, text: str) -> list[str]:
        """Return the tokens of a text without special tokens."""
        tokens: list[str] = []
        for word in self.split_words(text):
            parts = self.cache.get(word)
            if parts is None:
                if len(self.cache) >= MAX_CACHED_WORDS:
                    self.cache.clear()
                parts = self.cache[word] = self.split_word(word)
            tokens += parts
        return tokens

    def split_words(self, text: str) -> Iterable[str]:
        """Return the words of a text."""
        raise NotImplementedError

    def split_word(self, word: str) -> list[str]:
        """Return the tokens of a word."""
        raise NotImplementedError

    def encode(
        self, text: str, pair: str | None = None, add_special_tokens: bool = True
    ) -> list[int]:
        """Return the ids of a text, or of two.

        Args:
            pair: a second text, put after the first.
            add_special_tokens: whether to add what the model expects around a text.
        """
        ids = [self.token_to_id(token) for token in self.tokenize(text)]
        if pair is None:
            return self.add_special_ids(ids, None) if add_special_tokens else ids
        second = [self.token_to_id(token) for token in self.tokenize(pair)]
        return self.add_special_ids(ids, second) if add_special_tokens else ids + second

    def encode_batch(
        self, texts: Sequence[str], add_special_tokens: bool = True
    ) -> list[list[int]]:
        """Return the ids of each text."""
        if isinstance(texts, str):
            raise ArgumentError(type(self).__name__, "expected a list of texts, got a single one")
        return [self.encode(text, add_special_tokens=add_special_tokens) for text in texts]

    def add_special_ids(self, first: list[int], second: list[int] | None) -> list[int]:
        """Return the ids with those of special tokens around them; here there are none."""
        return first + (second or [])

    def token_to_id(self, token: str) -> int:
        """Return the id of a token.

        Raises: ValueRangeError: the vocabulary has neither it nor a token for unknown ones.
        """
        index = self.vocab.get(token)
        if index is None:
            if self.unk_token is None:
                raise ValueRangeError(
                    type(self).__name__, f"the vocabulary has no token {token!r}",
                    hint="train it with all characters of the text, or with an unk_token",
                )  # fmt: skip
            index = self.vocab[self.unk_token]
        return index

    # Decoding --------------------------------------------------------------------------

    def id_to_token(self, index: int) -> str:
        """Return the token of an id.

        Raises: DimError: there is no such id.
        """
        try:
            return self.tokens[int(index)]
        except KeyError:
            raise DimError(
                type(self).__name__, f"no token has the id {int(index)}",
                {"ids": f"0 … {max(self.tokens, default=-1)}"},
            ) from None  # fmt: skip

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """Return the text of ids (a list, or a tensor of one dimension)."""
        tokens = [self.id_to_token(index) for index in ids]
        if skip_special_tokens:
            tokens = [token for token in tokens if token not in self.special_tokens]
        return self.join_tokens(tokens)

    def join_tokens(self, tokens: list[str]) -> str:
        """Return the text of tokens."""
        raise NotImplementedError

    # Files -----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return what tokenizer.json holds."""
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {
                    "id": self.vocab[token], "content": token, "single_word": False,
                    "lstrip": False, "rstrip": False, "normalized": False, "special": True,
                }
                for token in sorted(self.special_tokens, key=self.vocab.__getitem__)
            ],
            **self.pipeline(),
            "model": {"type": self.model_type, **self.model_settings()},
        }  # fmt: skip

    def pipeline(self) -> dict[str, Any]:
        """Return the parts of tokenizer.json around the model."""
        raise NotImplementedError

    def model_settings(self) -> dict[str, Any]:
        """Return the model's part of tokenizer.json: its vocabulary and settings."""
        raise NotImplementedError

    @classmethod
    def from_settings(cls, settings: dict[str, Any], special_tokens: list[str]) -> Self:
        """Return the tokenizer that the contents of tokenizer.json describe."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write a tokenizer.json, which HuggingFace's `tokenizers` reads as well."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=2)
        write_atomically(path, text.encode())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a tokenizer.json.

        Raises:
            FileNotFoundError: there is no such file.
            TokenizerFileError: it is damaged, or of another kind of tokenizer.
        """
        settings = read_json(path, cls.__name__)
        try:
            model_type = settings["model"]["type"]
            added = [token["content"] for token in settings.get("added_tokens") or ()]
            special = [
                token["content"] for token in settings.get("added_tokens") or () if token["special"]
            ]
        except (KeyError, TypeError) as error:
            raise TokenizerFileError(
                cls.__name__, f"{path} is no tokenizer.json ({error!r})"
            ) from error
        if model_type != cls.model_type:
            raise TokenizerFileError(
                cls.__name__, f"{path} is of another kind of tokenizer",
                {"expected": repr(cls.model_type), "found": repr(model_type)},
            )  # fmt: skip
        if added != special:
            raise TokenizerFileError(
                cls.__name__, f"{path} has added tokens that are not special",
                {"tokens": sorted(set(added) - set(special))},
                USE_LIBRARY,
            )  # fmt: skip
        unread = [part for part in ("truncation", "padding") if settings.get(part)]
        if unread:
            raise TokenizerFileError(
                cls.__name__, f"{path} has settings for {' and '.join(unread)}",
                hint=f"set them to null; text.transforms does both later, {USE_LIBRARY}",
            )  # fmt: skip
        try:
            return cls.from_settings(settings, special)
        except EdutorchError:
            raise
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise TokenizerFileError(
                cls.__name__, f"{path} is no tokenizer.json ({error!r})"
            ) from error

    def to_fast(self) -> Any:
        """Return the same tokenizer as a `tokenizers.Tokenizer`, HuggingFace's in Rust.

        Raises: MissingExtraError: `tokenizers` is not installed.
        """
        try:
            import tokenizers
        except ImportError as error:
            purpose = f"{type(self).__name__}.to_fast"
            raise missing_extra("text", purpose, "tokenizers is not installed") from error
        return tokenizers.Tokenizer.from_str(json.dumps(self.to_dict()))


def check_text(op: str, text: object) -> None:
    """Raise an error for what is no text, and for text that has no UTF-8."""
    if not isinstance(text, str):
        raise ArgumentError(op, f"expected a str, got {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidValueError(
            op, f"character {error.start} of the text is half of a surrogate pair",
            hint='text.encode("utf-16", "surrogatepass").decode("utf-16") joins the halves',
        ) from error  # fmt: skip


def read_json(path: str | Path, op: str) -> dict[str, Any]:
    """Return the object in a JSON file."""
    try:
        value = json.loads(Path(path).read_text("utf-8"))
    except ValueError as error:
        raise TokenizerFileError(op, f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise TokenizerFileError(op, f"{path} holds a {type(value).__name__}, not an object")
    return value


def read_lines(path: str | Path, op: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers, from 1."""
    try:
        text = Path(path).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerFileError(op, f"{path} is no text in UTF-8: {error}") from error
    # Not splitlines(): a token may hold what Unicode calls a line separator.
    yield from enumerate(text.removesuffix("\n").split("\n") if text else (), start=1)


def number_tokens(tokens: Iterable[str]) -> dict[str, int]:
    """Return ids for tokens, in their order; the same token counts once."""
    return {token: index for index, token in enumerate(dict.fromkeys(tokens))}


def check_vocab_size(op: str, vocab_size: int, least: int) -> None:
    """Raise InvalidValueError for a vocabulary too small for the characters alone."""
    if vocab_size < least:
        raise InvalidValueError(
            op, "the vocabulary is too small for the characters and special tokens",
            {"vocab_size": vocab_size, "needed": least},
        )  # fmt: skip
