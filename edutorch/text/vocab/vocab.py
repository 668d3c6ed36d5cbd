"""A vocabulary: tokens and their numbers."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from ... import nn
from ...errors import ArgumentError, EdutorchError, InvalidValueError


class UnknownTokenError(EdutorchError, RuntimeError):
    """A token, or an index, is not in a vocabulary."""


class Vocab(nn.Module):
    """A list of tokens; the index of a token is its position.

    `build_vocab_from_iterator` makes one from texts, `vocab` one from frequencies.

    Args:
        tokens: the tokens, each once.

    Raises: InvalidValueError: a token stands there twice.

    >>> words = Vocab(["<unk>", "to", "be"])
    >>> words(["to", "be"]), words["be"], words.lookup_token(1)
    ([1, 2], 2, 'to')
    >>> words["or"]
    Traceback (most recent call last):
    edutorch.text.vocab.vocab.UnknownTokenError: Vocab: Token or not found and default index is ...
      hint: vocab.set_default_index(vocab["<unk>"]) gives unknown tokens an index
    >>> words.set_default_index(0); words["or"]
    0
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        super().__init__()
        self.itos: list[str] = []
        self.stoi: dict[str, int] = {}
        self.default_index: int | None = None
        for token in tokens:
            if token in self.stoi:
                raise InvalidValueError("Vocab", f"Duplicate token found in tokens list: {token}")
            self.append_token(token)

    def __len__(self) -> int:
        return len(self.itos)

    def __contains__(self, token: str) -> bool:
        return token in self.stoi

    def __getitem__(self, token: str) -> int:
        index = self.stoi.get(token, self.default_index)
        if index is None:
            raise UnknownTokenError(
                "Vocab", f"Token {token} not found and default index is not set",
                hint='vocab.set_default_index(vocab["<unk>"]) gives unknown tokens an index',
            )  # fmt: skip
        return index

    def forward(self, tokens: Sequence[str]) -> list[int]:
        """Return the indices of tokens."""
        return self.lookup_indices(tokens)

    def lookup_indices(self, tokens: Sequence[str]) -> list[int]:
        """Return the indices of tokens."""
        if isinstance(tokens, str):
            raise ArgumentError(
                "Vocab", "expected a list of tokens, got one text", hint="split it: text.split()"
            )
        return [self[token] for token in tokens]

    def lookup_token(self, index: int) -> str:
        """Return the token of an index.

        Raises: UnknownTokenError (a RuntimeError): there is no such index.
        """
        if not 0 <= index < len(self):
            raise UnknownTokenError(
                "Vocab",
                f"Specified index {index} is out of bounds for vocab of size {len(self)}",
            )
        return self.itos[index]

    def lookup_tokens(self, indices: Sequence[int]) -> list[str]:
        """Return the tokens of indices."""
        return [self.lookup_token(int(index)) for index in indices]

    def set_default_index(self, index: int | None) -> None:
        """Give all unknown tokens an index; None: they are an error."""
        self.default_index = index

    def get_default_index(self) -> int | None:
        """Return the index of unknown tokens, None if they are an error."""
        return self.default_index

    def append_token(self, token: str) -> None:
        """Add a token at the end."""
        self.insert_token(token, len(self))

    def insert_token(self, token: str, index: int) -> None:
        """Put a token at an index; those behind it move up.

        Raises: UnknownTokenError (a RuntimeError): the token is there already, or the index is
            out of range.
        """
        if token in self.stoi:
            raise UnknownTokenError(
                "Vocab", f"Token {token} already exists in the Vocab with index: {self.stoi[token]}"
            )
        if not 0 <= index <= len(self):
            raise UnknownTokenError(
                "Vocab",
                f"Specified index {index} is out of bounds for vocab of size {len(self)}",
            )
        self.itos.insert(index, token)
        for position in range(index, len(self.itos)):
            self.stoi[self.itos[position]] = position

    def get_stoi(self) -> dict[str, int]:
        """Return the index of each token."""
        return dict(self.stoi)

    def get_itos(self) -> list[str]:
        """Return the tokens in their order."""
        return list(self.itos)

    def extra_repr(self) -> str:
        return f"{len(self)} tokens"


def vocab(
    ordered_dict: Mapping[str, int], min_freq: int = 1, specials: Sequence[str] | None = None,
    special_first: bool = True,
) -> Vocab:  # fmt: skip
    """Return a vocabulary of tokens with their frequencies, in the order of the mapping.

    Args:
        ordered_dict: how often each token occurs.
        min_freq: tokens that are rarer are left out.
        specials: tokens that are added whatever their frequency.
        special_first: whether they come first, or last.

    >>> vocab({"b": 3, "a": 1, "c": 2}, min_freq=2, specials=["<unk>"]).get_itos()
    ['<unk>', 'b', 'c']
    """
    specials = list(specials or ())
    tokens = [
        token
        for token, count in ordered_dict.items()
        if count >= min_freq and token not in specials
    ]
    return Vocab(specials + tokens if special_first else tokens + specials)


def build_vocab_from_iterator(
    iterator: Iterable[Iterable[str]], min_freq: int = 1, specials: Sequence[str] | None = None,
    special_first: bool = True, max_tokens: int | None = None,
) -> Vocab:  # fmt: skip
    """Return a vocabulary of the tokens of texts, the most frequent first, then by the alphabet.

    Args:
        iterator: yields the tokens of each text.
        min_freq, specials, special_first: see `vocab`.
        max_tokens: how many tokens to keep at most, special ones included.

    >>> texts = [["to", "be", "or"], ["not", "to", "be"], ["be"]]
    >>> build_vocab_from_iterator(texts, specials=["<unk>"]).get_itos()
    ['<unk>', 'be', 'to', 'not', 'or']
    """
    counts: Counter[str] = Counter()
    for tokens in iterator:
        if isinstance(tokens, str):
            raise ArgumentError(
                "build_vocab_from_iterator", f"expected lists of tokens, got the text {tokens!r}",
                hint="map(tokenizer, texts) yields lists",
            )  # fmt: skip
        counts.update(tokens)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if max_tokens is not None:
        room = max_tokens - len(specials or ())
        if room <= 0:
            raise InvalidValueError(
                "build_vocab_from_iterator", "no token fits beside the special ones",
                {"max_tokens": max_tokens, "specials": len(specials or ())},
            )  # fmt: skip
        ranked = ranked[:room]
    return vocab(OrderedDict(ranked), min_freq, specials, special_first)
