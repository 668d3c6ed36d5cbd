"""Tokenizers, n-grams, BLEU; and the fields and iterators of old tutorials (see `legacy`)."""

from importlib import import_module as _import_module
from typing import Any as _Any

from . import functional, metrics, utils
from .functional import (
    custom_replace,
    numericalize_tokens_from_iterator,
    simple_space_split,
    to_map_style_dataset,
)
from .metrics import bleu_score
from .utils import get_tokenizer, interleave_keys, ngrams_iterator

_LEGACY = (
    "BPTTIterator", "Batch", "BucketIterator", "Dataset", "Example", "Field", "Iterator",
    "LabelField", "Pipeline", "RawField", "ReversibleField", "TabularDataset", "batch", "pool",
)  # fmt: skip

__all__ = [
    *_LEGACY, "bleu_score", "custom_replace", "functional", "get_tokenizer", "interleave_keys",
    "metrics", "ngrams_iterator", "numericalize_tokens_from_iterator", "simple_space_split",
    "to_map_style_dataset", "utils",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """Load the names of the oldest tutorials when they are asked for: `data.Field`."""
    if name in _LEGACY:
        return getattr(_import_module("..legacy.data", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
