"""Which number a word has, and which vector: torchtext's Vocab, GloVe and FastText."""

from .vectors import CharNGram, FastText, GloVe, Vectors, pretrained_aliases
from .vocab import Vocab, build_vocab_from_iterator, vocab

__all__ = [
    "CharNGram", "FastText", "GloVe", "Vectors", "Vocab", "build_vocab_from_iterator",
    "pretrained_aliases", "vocab",
]  # fmt: skip
