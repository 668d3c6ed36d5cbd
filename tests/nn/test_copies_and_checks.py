"""Results are copies, misfits are refused by name, and tiny values are not lost."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import edutorch
from edutorch import nn
from edutorch.nn import functional as F
from edutorch.nn.utils import parametrizations

UNCHANGED = {
    "batch_norm": lambda x: F.batch_norm(x[:0, 0], None, None, training=True),
    "native_dropout": lambda x: edutorch.native_dropout(x, 0.5, False)[0],
    "native_dropout of none": lambda x: edutorch.native_dropout(x, 0.0, True)[0],
    "embedding": lambda x: F.embedding(edutorch.arange(3), x),
    "conv of 1": lambda x: F.conv1d(x[None], edutorch.eye(3)[..., None]),
    "prune": lambda x: nn.utils.prune.L1Unstructured(0).compute_mask(x, x),
}
"""Calls that return the elements of x (3, 4) unchanged."""


@pytest.mark.parametrize("name", UNCHANGED)
def test_a_copy_is_returned_not_the_argument(name):
    x = edutorch.arange(12.0).reshape(3, 4)
    y = UNCHANGED[name](x)
    assert y is not x and y.numel() in (0, 12)
    y.fill_(7.0)
    assert x.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_an_empty_batch_is_copied():
    x = edutorch.zeros(0)
    assert F.batch_norm(x, None, None, training=True) is not x


LAYOUTS = [
    (cls, layout, convert)
    for classes, layout, convert in [
        ((nn.Conv2d, nn.ConvTranspose2d), "channels_last", "convert_conv2d_weight_memory_format"),
        (
            (nn.Conv3d, nn.ConvTranspose3d),
            "channels_last_3d",
            "convert_conv3d_weight_memory_format",
        ),
    ]
    for cls in classes
]


@pytest.mark.parametrize(("cls", "layout", "convert"), LAYOUTS)
def test_weights_get_another_memory_format(cls, layout, convert):
    layer, memory_format = cls(3, 4, 2), getattr(edutorch, layout)
    model, weight = nn.Sequential(layer, nn.Linear(2, 2)), layer.weight
    shared, before = weight.detach(), weight.tolist()
    assert getattr(nn.utils, convert)(model, memory_format) is model
    assert layer.weight is weight and weight.tolist() == before
    assert weight.is_contiguous(memory_format=memory_format) and not weight.is_contiguous()
    with edutorch.no_grad():
        weight.zero_()
    assert shared.tolist() == before


@pytest.mark.parametrize("name", ["orthogonal", "spectral_norm", "weight_norm"])
def test_which_parametrizations_are_unsafe(name, torch):
    def is_unsafe(library):
        layer = library.nn.Linear(3, 3)
        getattr(library.nn.utils.parametrizations, name)(layer)
        return layer.parametrizations.weight.unsafe

    assert parametrizations is nn.utils.parametrizations
    assert is_unsafe(edutorch) == is_unsafe(torch)


RANKS = [
    ranks for ranks in product((1, 2, 3, 4), repeat=3) if len({*ranks}) > 1 or ranks[0] in (1, 4)
]


@pytest.mark.parametrize("ranks", RANKS, ids=str)
def test_attention_names_inputs_of_different_ranks(ranks):
    inputs = [edutorch.ones((4,) * rank) for rank in ranks]
    with pytest.raises(RuntimeError, match=r"expected \(l n e\) or, without a batch, \(l e\)"):
        nn.MultiheadAttention(4, 2)(*inputs)


@pytest.mark.parametrize(
    ("first", "second"), [*product([1e-25, 1e-8, 1e-5, 1e-3, 1.0, 1e25], repeat=2)]
)
def test_the_angle_of_tiny_and_huge_vectors(first, second):
    """x · y / √((|x|² + ε) (|y|² + ε)), in float32 as in float64; ε matters for tiny vectors."""
    generator = np.random.default_rng(0)
    x, y = (size * generator.normal(size=(4, 5)) for size in (first, second))
    epsilon = 1e-12  # PyTorch's
    lengths = np.sqrt(((x * x).sum(-1) + epsilon) * ((y * y).sum(-1) + epsilon))
    expected = 1 - (x * y).sum(-1) / lengths
    tensors = (edutorch.tensor(vector, dtype=edutorch.float32) for vector in (x, y))
    result = F.cosine_embedding_loss(*tensors, edutorch.ones(4), reduction="none")
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)
