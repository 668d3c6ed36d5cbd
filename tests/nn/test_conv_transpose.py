"""Transposed convolutions whose `output_padding` is longer than their stride.

Dilation allows it. The output then ends in rows that no filter reaches, and where a convolution
over it, as the gradient is one, would find room for more windows than the input has elements.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.nn import functional as F
from tests.nn.compare import assert_close
from tests.nn.functions import assert_refused

SETTINGS = [
    {"stride": s, "padding": p, "dilation": d, "output_padding": e}
    for s, p, d, e in itertools.product((1, 2, 3), (0, 1, 2), (1, 2, 3, 4), (0, 1, 2, 3))
    if s <= e < max(s, d)
]


def results(library: Any, rank: int, arrays: Any, settings: dict[str, Any]) -> list[Any]:
    """Return the output, its gradients, and those of the sum of their squares."""
    x, weight = (library.tensor(array, requires_grad=True) for array in arrays)
    y = getattr(library.nn.functional, f"conv_transpose{rank}d")(x, weight, **settings)
    factors = library.tensor(np.cos(np.arange(y.numel())).reshape(tuple(y.shape)))
    first = library.autograd.grad((y * factors).sum(), (x, weight), create_graph=True)
    second = library.autograd.grad(sum((g * g).sum() for g in first), (x, weight))
    return [y, *first, *second]


def compare(torch: Any, rank: int, size: int, kernel: int, settings: dict[str, Any]) -> bool:
    """Compare with PyTorch; False where it says that the output would be empty."""
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(2, 2) + (n,) * rank) for n in (size, kernel)]
    try:
        expected = results(torch, rank, arrays, settings)
    except RuntimeError:
        assert_refused(lambda: results(edutorch, rank, arrays, settings), "too small")
        return False
    assert_close(results(edutorch, rank, arrays, settings), expected, str(settings))
    return True


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_of_sequences(size, kernel, torch):
    compared = [compare(torch, 1, size, kernel, settings) for settings in SETTINGS]
    assert sum(compared) > len(SETTINGS) / 3


@pytest.mark.parametrize("rank", [2, 3])
def test_of_images_and_volumes(rank, torch):
    several = [settings for settings in SETTINGS if settings["stride"] < 3][:: rank * 2]
    assert all(compare(torch, rank, 3, 2, settings) for settings in several)
    uneven = {
        "stride": (1, 2, 1)[:rank], "dilation": (2, 1, 3)[:rank], "padding": (1, 0, 1)[:rank],
        "output_padding": (1, 0, 2)[:rank], "groups": 2,
    }  # fmt: skip
    assert compare(torch, rank, 3, 2, uneven)


def test_an_output_of_nothing():
    x, weight = edutorch.ones(1, 1, 1), edutorch.ones(1, 1, 1)
    assert_refused(lambda: F.conv_transpose1d(x, weight, padding=1), "too small")
