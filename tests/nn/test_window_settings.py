"""Window sizes may be NumPy integers or one-element tensors; 16-bit layers round once."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import nn

F = nn.functional
IMAGE = edutorch.arange(36.0).reshape(1, 1, 6, 6)
KERNEL = edutorch.ones(1, 1, 3, 3)

CALLS = {
    "max_pool2d": lambda n: F.max_pool2d(IMAGE, n(2), n(1), n(1), n(1)),
    "avg_pool2d": lambda n: F.avg_pool2d(IMAGE, n(2), n(1), n(1)),
    "conv2d": lambda n: F.conv2d(IMAGE, KERNEL, None, n(2), n(1), n(1)),
    "conv_transpose2d": lambda n: F.conv_transpose2d(IMAGE, KERNEL, None, n(2), n(1), n(1)),
    "adaptive_avg_pool2d": lambda n: F.adaptive_avg_pool2d(IMAGE, n(4)),
    "adaptive_max_pool2d": lambda n: F.adaptive_max_pool2d(IMAGE, n(4)),
    "unfold": lambda n: F.unfold(IMAGE, n(2), n(1), n(1), n(2)),
}


@pytest.mark.parametrize("integer", [np.int64, np.int32, edutorch.tensor])
@pytest.mark.parametrize("name", CALLS)
def test_other_integers_are_integers(name, integer):
    assert CALLS[name](integer).tolist() == CALLS[name](int).tolist()


def test_an_empty_stride_is_the_kernel():
    assert F.avg_pool2d(IMAGE, 2, []).tolist() == F.avg_pool2d(IMAGE, 2).tolist()


def widen(tensor):
    return tensor.double()


def random(*shape):
    return edutorch.randn(*shape).to(edutorch.bfloat16)


HALVES = {
    "batch norm by its averages": lambda to, x, w, b: F.batch_norm(
        to(x), to(w[0]), to(w[1].abs() + 1), to(w[2]), to(b[0]), eps=0.5
    ),
    "a bag with factors": lambda to, x, w, b: F.embedding_bag(
        edutorch.arange(8).reshape(2, 4), to(x), mode="sum", per_sample_weights=to(x[:2, :4])
    ),
    "the loss of features": lambda to, x, w, b: F.linear_cross_entropy(
        to(x), to(w), edutorch.arange(8) % 5, linear_bias=to(b[0, :5]), reduction="none"
    ),
}


@pytest.mark.parametrize("name", HALVES)
def test_16_bits_round_once(name):
    edutorch.manual_seed(0)
    x, w, b = random(8, 8), random(5, 8), random(2, 8)
    exact = HALVES[name](widen, x, w, b)
    actual = HALVES[name](lambda tensor: tensor, x, w, b)
    assert actual.dtype is edutorch.bfloat16
    error = ((widen(actual) - exact) / exact.abs().clamp(min=1e-2)).abs().max().item()
    assert error <= 2**-8
