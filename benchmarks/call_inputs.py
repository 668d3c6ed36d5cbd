"""The tensors that the expressions of `call_list.py` name, for a size n.

x, y, target: n x n, normally distributed; p, share: positive, share below 1; chance: probabilities.
inner: between -1 and 1; above: over 1; thin: n x 8; small: at most 64 x 64, positive definite.
row, column: n and n x 1. mask, index, rows, labels: booleans, and positions along an axis.
system, sides: symmetric, positive definite, and right-hand sides; of at most 1,024 rows.
batch: matrices of n / 8 rows; heads: for attention; images, filters, signals, taps: convolution.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

IMAGES = {32: (1, 4, 16, 16), 512: (16, 16, 32, 32), 2048: (64, 16, 64, 64)}
"""About as many elements as a matrix of that size."""

HEADS = {32: (1, 2, 16, 32), 512: (4, 4, 128, 64), 2048: (8, 8, 512, 64)}
LARGEST_SYSTEM = 1024
SMALL = 64

LEAVES = {
    "x", "y", "p", "share", "row", "column", "slope", "system", "sides", "batch", "heads",
    "images", "filters", "signals", "taps", "inner", "above", "thin", "small", "weights", "turns",
}  # fmt: skip
"""What requires a gradient in rows with backward; the other names are targets and positions."""


def make(name: str, n: int) -> Any:
    """Return the array of a name; equal for both libraries."""
    draw = np.random.default_rng(sum(map(ord, name)))
    if name in SHAPES:
        return draw.standard_normal(SHAPES[name](n), np.float32)
    if name in SPECIAL:
        return SPECIAL[name](draw, n)
    raise KeyError(name)


def matrix(n: int) -> tuple[int, ...]:
    return (n, n)


SHAPES = {
    "x": matrix,
    "y": matrix,
    "target": matrix,
    "buffer": matrix,
    "array": matrix,
    "row": lambda n: (n,),
    "column": lambda n: (n, 1),
    "scalar": lambda n: (),
    "batch": lambda n: (8, n // 8, n // 8),
    "heads": lambda n: HEADS[n],
    "images": lambda n: IMAGES[n],
    "filters": lambda n: (16, IMAGES[n][1], 3, 3),
    "signals": lambda n: (IMAGES[n][0], IMAGES[n][1], IMAGES[n][2] * IMAGES[n][3]),
    "taps": lambda n: (16, IMAGES[n][1], 3),
    "thin": lambda n: (n, 8),
    "weights": lambda n: (4, 8, 8),
    "turns": lambda n: (2, 2, 3),
    "sides": lambda n: matrix(min(n, LARGEST_SYSTEM)),
}


def positive_definite(draw: np.random.Generator, n: int) -> Any:
    n = min(n, LARGEST_SYSTEM)
    half = draw.standard_normal((n, n), np.float32)
    return half @ half.T / n + np.eye(n, dtype=np.float32)


def between(low: float, high: float) -> Any:
    return lambda draw, n: draw.uniform(low, high, (n, n)).astype(np.float32)


SPECIAL = {
    "p": between(0.5, 1.5),
    "share": between(0.01, 0.99),
    "chance": between(0.0, 1.0),
    "slope": lambda draw, n: np.full(1, 0.25, np.float32),
    "inner": between(-0.9, 0.9),
    "above": between(1.5, 2.5),
    "zeros": lambda draw, n: np.zeros(n, np.float32),
    "ones": lambda draw, n: np.ones(n, np.float32),
    "grid": lambda draw, n: draw.uniform(-1, 1, (IMAGES[n][0], 16, 16, 2)).astype(np.float32)[:2],
    "order": lambda draw, n: np.arange(n),
    "small": lambda draw, n: positive_definite(draw, min(n, SMALL)),
    "mask": lambda draw, n: draw.random((n, n)) < 0.5,
    "index": lambda draw, n: draw.integers(0, n, (n, n)),
    "rows": lambda draw, n: draw.integers(0, n, n),
    "labels": lambda draw, n: draw.integers(0, n, n),
    "system": positive_definite,
    "numbers": lambda draw, n: draw.standard_normal((n, n)).tolist(),
}
NAMES = SHAPES.keys() | SPECIAL.keys()
AS_THEY_ARE = {"array", "numbers"}
"""Not tensors: an array of NumPy, and lists of numbers."""


@cache
def tensor(torch: Any, name: str, n: int, requires_grad: bool) -> Any:
    """Return the tensor of a name in one library; kept, because the next rows name it as well."""
    values = make(name, n)
    if name in AS_THEY_ARE:
        return values
    made = torch.tensor(values)  # a copy: what NumPy holds too is another case
    return made.requires_grad_() if requires_grad and name in LEAVES else made
