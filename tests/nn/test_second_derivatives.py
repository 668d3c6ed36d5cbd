"""First and second derivatives of composed functions against finite differences, in float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.autograd import gradcheck, gradgradcheck
from edutorch.nn import functional as F

RANDOM = np.random.default_rng(5)
CLASSES, LABELS = np.array([0, 2, 1]), np.array([[2, 0, -1, 1], [0, 1, 2, 3], [1, -1, 0, 0]])
SIGNS, WEIGHTS = np.array([1.0, -1.0, 1.0]), np.array([0.5, 1.0, 2.0, 0.1])


def rand(*shape: int) -> np.ndarray:
    """Return values away from the kinks that losses have at 0 and ±1."""
    return RANDOM.uniform(0.1, 0.8, shape) * RANDOM.choice((-1.0, 1.0), shape)


def positive(*shape: int) -> np.ndarray:
    return RANDOM.uniform(0.2, 0.9, shape)


FACES: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "mse_loss": (F.mse_loss, [rand(3, 4), rand(3, 4)]),
    "weighted mse_loss": (
        lambda x, t, w: F.mse_loss(x, t, weight=w), [rand(3, 4), rand(3, 4), positive(3, 4)]),
    "smooth_l1_loss": (lambda x, t: F.smooth_l1_loss(x, t, beta=0.55), [rand(3, 4), rand(3, 4)]),
    "huber_loss": (lambda x, t: F.huber_loss(x, t, delta=0.55), [rand(3, 4), rand(3, 4)]),
    "kl_div": (
        lambda x, t: F.kl_div(x, t, reduction="batchmean"), [rand(3, 4), positive(3, 4)]),
    "kl_div of logarithms": (
        lambda x, t: F.kl_div(x, t, reduction="sum", log_target=True), [rand(3, 4), rand(3, 4)]),
    "binary_cross_entropy": (F.binary_cross_entropy, [positive(3, 4), positive(3, 4)]),
    "binary_cross_entropy_with_logits": (
        lambda x, t, w: F.binary_cross_entropy_with_logits(x, t, pos_weight=w),
        [rand(3, 4), positive(3, 4), positive(4)]),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, edutorch.tensor(CLASSES), label_smoothing=0.1), [rand(3, 4)]),
    "cross_entropy of probabilities": (F.cross_entropy, [rand(3, 4), positive(3, 4)]),
    "nll_loss": (
        lambda x: F.nll_loss(x, edutorch.tensor(CLASSES), edutorch.tensor(WEIGHTS)),
        [rand(3, 4)]),
    "linear_cross_entropy": (
        lambda x, w: F.linear_cross_entropy(x, w, edutorch.tensor(CLASSES)),
        [rand(3, 5), rand(4, 5)]),
    "gaussian_nll_loss": (
        lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=True),
        [rand(3, 4), rand(3, 4), positive(3, 4)]),
    "poisson_nll_loss": (F.poisson_nll_loss, [rand(3, 4), positive(3, 4)]),
    "poisson_nll_loss of counts": (
        lambda x, t: F.poisson_nll_loss(x, t + 1, log_input=False, full=True),
        [positive(3, 4), positive(3, 4)]),
    "soft_margin_loss": (lambda x: F.soft_margin_loss(x, edutorch.tensor(SIGNS)), [rand(3)]),
    "multi_margin_loss": (
        lambda x: F.multi_margin_loss(x, edutorch.tensor(CLASSES), p=2), [rand(3, 4)]),
    "multilabel_margin_loss": (
        lambda x: F.multilabel_margin_loss(x, edutorch.tensor(LABELS)), [rand(3, 4)]),
    "multilabel_soft_margin_loss": (
        F.multilabel_soft_margin_loss, [rand(3, 4), positive(3, 4)]),
    "margin_ranking_loss": (
        lambda x, y: F.margin_ranking_loss(x, y, edutorch.tensor(SIGNS), 0.05),
        [rand(3), rand(3)]),
    "hinge_embedding_loss": (
        lambda x: F.hinge_embedding_loss(x, edutorch.tensor(SIGNS)), [rand(3)]),
    "cosine_embedding_loss": (
        lambda x, y: F.cosine_embedding_loss(x, y, edutorch.tensor(SIGNS)),
        [rand(3, 4), rand(3, 4)]),
    "triplet_margin_loss": (
        lambda x, y, z: F.triplet_margin_loss(x, y, z, margin=2.0),
        [rand(3, 4), rand(3, 4), rand(3, 4)]),
    "ctc_loss": (
        lambda x: F.ctc_loss(
            x.log_softmax(2), edutorch.tensor([[1, 2], [2, 2]]), (4, 4), (2, 2), reduction="sum"
        ), [rand(4, 2, 3)]),
    "cosine_similarity": (F.cosine_similarity, [rand(3, 4), rand(3, 4)]),
    "pairwise_distance": (F.pairwise_distance, [rand(3, 4), rand(3, 4)]),
    "pairwise_distance, p=3": (
        lambda x, y: F.pairwise_distance(x, y, p=3.0), [rand(3, 4), rand(3, 4)]),
    "normalize": (F.normalize, [rand(3, 4)]),
    "attention": (
        F.scaled_dot_product_attention, [rand(1, 2, 3, 2), rand(1, 2, 3, 2), rand(1, 2, 3, 2)]),
    "causal attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [rand(1, 3, 2), rand(1, 3, 2), rand(1, 3, 2)]),
    "attention with a mask": (F.scaled_dot_product_attention,
        [rand(1, 2, 2), rand(1, 3, 2), rand(1, 3, 2), rand(1, 2, 3)]),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2).sin(), [rand(1, 4, 2, 2)]),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2).sin(), [rand(1, 1, 4, 4)]),
    "bilinear": (F.bilinear, [rand(2, 3), rand(2, 2), rand(4, 3, 2), rand(4)]),
    "embedding": (
        lambda w: F.embedding(edutorch.tensor(CLASSES), w).sin(), [rand(4, 2)]),
    "embedding_bag": (
        lambda w, f: F.embedding_bag(
            edutorch.tensor([[1, 2], [2, 0]]), w, mode="sum", per_sample_weights=f
        ).sin(), [rand(4, 2), rand(2, 2)]),
    "embedding_bag, largest": (
        lambda w: F.embedding_bag(edutorch.tensor([[1, 2], [2, 0]]), w, mode="max").sin(),
        [rand(4, 2)]),
    "lstm_cell": (
        lambda x, h, c, w, u: edutorch.lstm_cell(x, (h, c), w, u)[0],
        [rand(2, 3), rand(2, 1), rand(2, 1), rand(4, 3), rand(4, 1)]),
    "gru_cell": (edutorch.gru_cell, [rand(2, 3), rand(2, 1), rand(3, 3), rand(3, 1)]),
}  # fmt: skip
FACES |= {
    name: (getattr(F, name), [rand(3, 4)])
    for name in "celu selu mish hardswish hardsigmoid hardtanh tanhshrink softsign logsigmoid "
    "softmin glu softshrink hardshrink".split()
}


@pytest.mark.parametrize("name", FACES)
def test_derivatives(name):
    function, values = FACES[name]
    inputs = [edutorch.tensor(value, requires_grad=True) for value in values]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert gradcheck(function, inputs)
        assert gradgradcheck(function, inputs)
