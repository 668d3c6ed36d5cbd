"""Fields say how a column becomes a tensor, iterators make batches of equally long texts."""

from .batch import Batch
from .dataset import Dataset, TabularDataset
from .example import Example
from .field import Field, LabelField, Pipeline, RawField, ReversibleField
from .iterator import BPTTIterator, BucketIterator, Iterator, batch, pool
from ...data.metrics import bleu_score
from ...data.utils import get_tokenizer, interleave_keys, ngrams_iterator

__all__ = [
    "BPTTIterator", "Batch", "BucketIterator", "Dataset", "Example", "Field", "Iterator",
    "LabelField", "Pipeline", "RawField", "ReversibleField", "TabularDataset", "batch",
    "bleu_score", "get_tokenizer", "interleave_keys", "ngrams_iterator", "pool",
]  # fmt: skip
