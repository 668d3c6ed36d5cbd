"""Fields, examples and bucket iterators, as torchtext had them up to version 0.11.

Old tutorials import them as `torchtext.data` or `torchtext.legacy.data`. New programs tokenize by
themselves, and give a `collate_fn` to a DataLoader: see `text.vocab` and `text.transforms`.
"""

from . import data, datasets, vocab

__all__ = ["data", "datasets", "vocab"]
