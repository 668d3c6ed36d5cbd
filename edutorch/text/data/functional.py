"""Small functions over texts and data sets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...utils.data import Dataset


class MapStyleDataset(Dataset):
    """A data set that holds all items of another, so that they have numbers and a count."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._data = list(items)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> Any:
        return self._data[index]


def to_map_style_dataset(iter_data: Iterable[Any]) -> MapStyleDataset:
    """Return a data set with indices, from one that can only be iterated over.

    >>> to_map_style_dataset(iter("abc"))[1]
    'b'
    """
    return MapStyleDataset(iter_data)


def simple_space_split(iterator: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words of each text, split at white space."""
    for line in iterator:
        yield line.split()


def numericalize_tokens_from_iterator(
    vocab: Mapping[str, int], iterator: Iterable[Iterable[str]],
    removed_tokens: Iterable[str] | None = None,
) -> Iterator[Iterator[int]]:  # fmt: skip
    """Yield, for each text, an iterator over the ids of its tokens.

    >>> ids = numericalize_tokens_from_iterator({"to": 0, "be": 1}, [["to", "be"], ["be"]])
    >>> [list(text) for text in ids]
    [[0, 1], [1]]
    """
    removed = frozenset(removed_tokens or ())
    for tokens in iterator:
        yield iter([vocab[token] for token in tokens if token not in removed])


def custom_replace(replace_pattern: Iterable[tuple[str, str]]) -> Any:
    """Return a function that replaces regular expressions in each text.

    >>> list(custom_replace([(r"S", "s"), (r"\\s+", " ")])(["Sentencepiece  and S"]))
    ['sentencepiece and s']
    """
    patterns = [(re.compile(pattern), text) for pattern, text in replace_pattern]

    def replace(iterator: Iterable[str]) -> Iterator[str]:
        for line in iterator:
            for pattern, text in patterns:
                line = pattern.sub(text, line)
            yield line

    return replace
