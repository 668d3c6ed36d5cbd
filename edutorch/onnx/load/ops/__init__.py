"""The entries of the table, by family."""

from __future__ import annotations

from . import (
    activations, attention, casting, convolution, creation, elementwise, images, indexing,
    interpolation, losses, matrices, movement, normalization, pooling, quantization, random,
    recurrent, reductions, sequences, signal, training,
)  # fmt: skip

__all__ = [
    "activations", "attention", "casting", "convolution", "creation", "elementwise", "images",
    "indexing", "interpolation", "losses", "matrices", "movement", "normalization", "pooling",
    "quantization", "random", "recurrent", "reductions", "sequences", "signal", "training",
]  # fmt: skip
