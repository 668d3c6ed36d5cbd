"""What seed 3003 found: losses of small integers, infinite variances, slopes beside a 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.nn import functional

LARGEST = {"int8": 127, "int16": 32767, "int32": 2**31 - 1, "uint8": 255}

OF_DIFFERENCES: dict[str, Callable[..., Any]] = {
    "margin_ranking_loss": lambda a, b: functional.margin_ranking_loss(
        a, b, edutorch.tensor([-1]), 0.5
    ),
    "gaussian_nll_loss": lambda a, b: functional.gaussian_nll_loss(a, b, edutorch.ones(1)),
    "pairwise_distance": functional.pairwise_distance,
    "triplet_margin_loss": lambda a, b: functional.triplet_margin_loss(a, b, a),
    "multilabel_margin_loss": lambda a, b: functional.multilabel_margin_loss(
        edutorch.cat([a, b]), edutorch.tensor([1, -1])
    ),
    "multi_margin_loss": lambda a, b: functional.multi_margin_loss(
        edutorch.cat([a, b]), edutorch.tensor(1)
    ),
    "dist": edutorch.dist,
}


@pytest.mark.parametrize("name", OF_DIFFERENCES)
@pytest.mark.parametrize("dtype", LARGEST)
def test_differences_of_small_integers_do_not_wrap(name, dtype):
    """100 - (-100) is -56 in int8: a loss was small where the two were farthest apart."""
    top = LARGEST[dtype]
    for values in ((top, 0 if dtype == "uint8" else -top), (0, top)):
        small, wide = (
            [edutorch.tensor([value]).to(getattr(edutorch, to)) for value in values]
            for to in (dtype, "float64")
        )
        loss, right = OF_DIFFERENCES[name](*small), OF_DIFFERENCES[name](*wide)
        assert loss.dtype is edutorch.float32
        np.testing.assert_allclose(loss.item(), right.item(), rtol=1e-6)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16"])
def test_a_loss_of_integers_has_the_dtype_of_pytorch(torch, dtype):
    losses = []
    for library in (edutorch, torch):
        a, b = (library.tensor([value], dtype=library.int8) for value in (3, 1))
        one = library.tensor([1], dtype=getattr(library, dtype))
        variance = library.ones(1) if dtype == "int16" else one
        losses.append([
            library.nn.functional.margin_ranking_loss(a, b, one, 4.5),
            library.nn.functional.gaussian_nll_loss(a, b, variance),
        ])  # fmt: skip
    for ours, theirs in zip(*losses, strict=True):
        assert str(ours.dtype) == str(theirs.dtype) and ours.item() == theirs.item()


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_infinite_variance_has_an_infinite_loss(torch, dtype):
    """The variance was moved to eps by a difference, ∞ - ∞; its gradient goes past the bound."""
    results = []
    for library in (edutorch, torch):
        var = library.tensor([math.inf, 2.0, 1e-9, 0.0, math.nan], dtype=getattr(library, dtype))
        var.requires_grad_()
        x = library.ones(5, dtype=var.dtype)
        losses = library.nn.functional.gaussian_nll_loss(x, 2 * x, var, reduction="none")
        (g,) = library.autograd.grad(losses.sum(), var)
        results.append((losses.detach().numpy(), g.numpy()))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.oracle
@pytest.mark.parametrize("ord", [-0.5, -1, -2, -3.5])
def test_a_norm_of_a_negative_order_has_no_slope_beside_a_zero(torch, ord):
    """(1/a + 1/b)⁻¹ = ab / (a + b), whose slope by b is a² / (a + b)²: 0 for a = 0."""
    computations = (
        lambda library, x: library.linalg.vector_norm(x, ord, 1),
        lambda library, x: library.norm(x, ord, 1),
        lambda library, x: library.dist(x, library.zeros_like(x), ord),
    )
    for compute in computations:
        gradients = []
        for library in (edutorch, torch):
            x = library.tensor([[0.0, 1.0], [2.0, -3.0], [0.0, 0.0]], dtype=library.float64)
            x.requires_grad_()
            gradients.append(library.autograd.grad(compute(library, x).sum(), x)[0].numpy())
        np.testing.assert_allclose(*gradients, rtol=1e-12)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
@pytest.mark.parametrize("a", [0.5, 1.0, 2.0, 3.0])
def test_left_of_zero_the_incomplete_gamma_functions_have_no_slope(name, a):
    """At a whole a the density xᵃ⁻¹ e⁻ˣ goes on below 0, where the function is NaN."""
    x = edutorch.tensor([-1.0, -3.0, 2.0], requires_grad=True)
    y = getattr(edutorch, name)(edutorch.tensor(a), x)
    (g,) = edutorch.autograd.grad(y.sum(), x)
    assert y.isnan().tolist() == g.isnan().tolist() == [True, True, False]


def test_one_hot_of_few_among_many_classes_takes_no_square_matrix():
    """An identity of 200,000 rows would take 320 GB."""
    classes = edutorch.tensor([[3, 199_999], [0, 3]])
    y = functional.one_hot(classes, 200_000)
    assert tuple(y.shape) == (2, 2, 200_000) and y.dtype is edutorch.int64
    assert y.sum().item() == 4 and y.argmax(-1).tolist() == classes.tolist()
    few = functional.one_hot(classes.clamp(max=4), 5)
    assert few.tolist() == functional.one_hot(classes.clamp(max=4).repeat(2, 1), 5)[:2].tolist()
