"""The vocabulary that a field builds: words by frequency, with vectors if one wants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...ops import cat, stack, zeros, zeros_like
from ..vocab import CharNGram, FastText, GloVe, Vectors, pretrained_aliases
from ..vocab.vocab import UnknownTokenError

__all__ = ["CharNGram", "FastText", "GloVe", "Vectors", "Vocab", "pretrained_aliases"]

UNK = "<unk>"


class UnknownWords(UnknownTokenError, KeyError):
    """A vocabulary without "<unk>" was asked for a word that it does not have."""

    __str__ = Exception.__str__


class WordIndices(dict[str, int]):
    """The index of each word; unknown words have that of "<unk>"."""

    def __missing__(self, word: str) -> int:
        if UNK in self:
            return self[UNK]
        raise UnknownWords(
            "Vocab", f"the word {word!r} is unknown", hint='the field has no unk_token "<unk>"'
        )


class Vocab:
    """Words, the most frequent first, behind the special ones.

    Args:
        counter: how often each word occurs.
        max_size: how many words to keep at most, special ones apart.
        min_freq: words that are rarer are left out.
        specials: words that always have a place.
        vectors: of `text.vocab`, an alias such as "glove.6B.100d", or several, put side by side.
        unk_init: makes the vector of a word that `vectors` lacks.
        vectors_cache: the folder of the files of vectors.
        specials_first: whether the special words come first.

    >>> words = Vocab(Counter(["to", "be", "to"]), specials=["<unk>"])
    >>> words.itos, words.stoi["to"], words.stoi["or"]
    (['<unk>', 'to', 'be'], 1, 0)
    """

    UNK = UNK

    def __init__(
        self, counter: Mapping[str, int], max_size: int | None = None, min_freq: int = 1,
        specials: Sequence[str] = (UNK, "<pad>"), vectors: Any = None,
        unk_init: Callable[[Tensor], Any] | None = None, vectors_cache: str | None = None,
        specials_first: bool = True,
    ) -> None:  # fmt: skip
        self.freqs = Counter(counter)
        ranked = sorted(self.freqs.items(), key=lambda item: (-item[1], item[0]))
        words = [
            word for word, count in ranked if count >= max(min_freq, 1) and word not in specials
        ][:max_size]
        self.itos = [*specials, *words] if specials_first else [*words, *specials]
        self.stoi = WordIndices((word, index) for index, word in enumerate(self.itos))
        self.vectors: Tensor | None = None
        if vectors is not None:
            self.load_vectors(vectors, unk_init=unk_init, cache=vectors_cache)

    def __len__(self) -> int:
        return len(self.itos)

    def __getitem__(self, token: str) -> int:
        return self.stoi[token]

    def lookup_indices(self, tokens: Sequence[str]) -> list[int]:
        """Return the indices of words."""
        return [self.stoi[token] for token in tokens]

    def extend(self, v: Vocab, sort: bool = False) -> None:
        """Add the words of another vocabulary; `sort`: by the alphabet."""
        for word in sorted(v.itos) if sort else v.itos:
            if word not in self.stoi:
                self.itos.append(word)
                self.stoi[word] = len(self.itos) - 1

    def load_vectors(
        self, vectors: Any, unk_init: Callable[[Tensor], Any] | None = None,
        cache: str | None = None,
    ) -> None:  # fmt: skip
        """Give each word its vectors, those of several sources side by side."""
        sources = [
            self.find_source(source, unk_init, cache)
            for source in (vectors if isinstance(vectors, list) else [vectors])
        ]
        rows = [cat([source[word.strip()].reshape(-1) for source in sources]) for word in self.itos]
        self.vectors = stack(rows)

    def find_source(
        self, source: Any, unk_init: Callable[[Tensor], Any] | None, cache: str | None
    ) -> Vectors:
        """Return vectors, or those of an alias."""
        if isinstance(source, Vectors):
            return source
        if source not in pretrained_aliases:
            raise InvalidValueError(
                "Vocab", f"there are no vectors {source!r}",
                hint=f"Vectors, or one of {', '.join(sorted(pretrained_aliases))}",
            )  # fmt: skip
        return pretrained_aliases[source](unk_init=unk_init, cache=cache)

    def set_vectors(
        self, stoi: Mapping[str, int], vectors: Tensor, dim: int,
        unk_init: Callable[[Tensor], Any] = zeros_like,
    ) -> None:  # fmt: skip
        """Give each word its row of a table of your own; see `Vectors` for `unk_init`."""
        self.vectors = zeros(len(self), dim)
        for index, word in enumerate(self.itos):
            if word in stoi:
                self.vectors[index] = vectors[stoi[word]]
            else:
                self.vectors[index] = unk_init(self.vectors[index])
