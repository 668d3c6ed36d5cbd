"""Data sets of texts, read from their published files; nothing is downloaded.

    train, test = text.datasets.AG_NEWS(root=".data")
    for label, line in train: ...

The oldest tutorials write `datasets.IMDB.splits(TEXT, LABEL)`: see `text.legacy`.
"""

from collections.abc import Callable as _Callable
from importlib import import_module as _import_module
from typing import Any as _Any

from .classification import (
    AG_NEWS,
    IMDB,
    SST2,
    AmazonReviewFull,
    AmazonReviewPolarity,
    DBpedia,
    SogouNews,
    YahooAnswers,
    YelpReviewFull,
    YelpReviewPolarity,
)
from .corpora import (
    UDPOS,
    CoNLL2000Chunking,
    Multi30k,
    PennTreebank,
    SQuAD1,
    SQuAD2,
    WikiText2,
    WikiText103,
)
from .files import DataFileError

_LEGACY = ("LanguageModelingDataset", "TranslationDataset")

__all__ = [
    "AG_NEWS", "AmazonReviewFull", "AmazonReviewPolarity", "CoNLL2000Chunking", "DBpedia",
    "DataFileError", "IMDB", "LanguageModelingDataset", "Multi30k", "PennTreebank", "SQuAD1",
    "SQuAD2", "SST2", "SogouNews", "TranslationDataset", "UDPOS", "WikiText103", "WikiText2",
    "YahooAnswers", "YelpReviewFull", "YelpReviewPolarity",
]  # fmt: skip


def _add_legacy_calls(dataset: _Callable[..., _Any]) -> None:
    """Give a function the calls that the class of this name in `legacy.datasets` has."""

    def call(method: str) -> _Callable[..., _Any]:
        def forward(*args: _Any, **kwargs: _Any) -> _Any:
            old = _import_module("..legacy.datasets", __name__)
            return getattr(getattr(old, dataset.__name__), method)(*args, **kwargs)

        return forward

    vars(dataset).update(splits=call("splits"), iters=call("iters"))


for _dataset in (IMDB, Multi30k, PennTreebank, WikiText2, WikiText103):
    _add_legacy_calls(_dataset)


def __getattr__(name: str) -> _Any:
    """Load the classes of the oldest tutorials when they are asked for."""
    if name in _LEGACY:
        return getattr(_import_module("..legacy.datasets", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
