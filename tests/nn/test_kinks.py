"""First and second derivatives where a function has a corner, or two elements are equal.

Activations and losses are tried exactly there, every one by every setting, against PyTorch. Where a
curvature has a step both sides are right: `ONE_SIDED` says where ours is the other one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import edutorch
from tests.nn.compare import assert_close

POINTS = [-20.0, -6.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 6.0, 20.0]
ROWS = [0.0, 0.0, 1.0, 1.0, -1.0, 2.0, 1.0, 1.0, -1.0, 0.0, 0.0, -1.0, 1.0, -1.0]
ACTIVATIONS: list[tuple[str, dict[str, Any]]] = [
    ("relu", {}), ("relu6", {}), ("leaky_relu", {"negative_slope": 0.2}), ("elu", {"alpha": 1.5}),
    ("selu", {}), ("celu", {"alpha": 2.0}), ("hardtanh", {}), ("hardswish", {}), ("rrelu", {}),
    ("hardshrink", {}), ("softshrink", {}), ("tanhshrink", {}), ("softsign", {}), ("mish", {}),
    ("threshold", {"threshold": 1.0, "value": 2.0}), ("softplus", {}), ("logsigmoid", {}),
    ("gelu", {}), ("silu", {}), ("softplus", {"beta": 2.0, "threshold": 2.0}),
]  # fmt: skip
PAIRS: list[tuple[str, dict[str, Any]]] = [
    ("huber_loss", {}), ("huber_loss", {"delta": 0.5}), ("smooth_l1_loss", {}),
    ("smooth_l1_loss", {"beta": 0.5}), ("smooth_l1_loss", {"beta": 0.0}), ("l1_loss", {}),
    ("mse_loss", {}), ("hinge_embedding_loss", {}), ("hinge_embedding_loss", {"margin": 2.0}),
    ("soft_margin_loss", {}), ("poisson_nll_loss", {}),
]  # fmt: skip
ONE_SIDED = {"elu": "that below 0", "selu": "that below 0", "celu": "that below 0",
             "softplus": "that below the threshold"}  # fmt: skip


def derivatives(library: Any, call: Any, values: Any, orders: int = 2) -> list[np.ndarray]:
    """Return the values of a function, and the derivatives of their sum."""
    x = library.tensor(values, dtype=library.float64, requires_grad=True)
    y = call(library.nn.functional, x)
    results = [y.detach().numpy()]
    for _ in range(orders):
        y = y.sum()
        (y,) = library.autograd.grad(y, x, create_graph=True) if y.requires_grad else (x * 0,)
        results.append((y + x.detach() * 0 if y.ndim else y).detach().numpy())
    return results


def compare(torch: Any, call: Any, values: Any, orders: int = 2) -> None:
    ours = derivatives(edutorch, call, values, orders)
    theirs = derivatives(torch, call, values, orders)
    for order, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-12, err_msg=f"derivative {order}")


@pytest.mark.parametrize(("name", "settings"), ACTIVATIONS)
def test_activations(name, settings, torch):
    compare(
        torch, lambda f, x: getattr(f, name)(x, **settings), POINTS, 1 if name in ONE_SIDED else 2
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("name", "settings"), PAIRS)
def test_losses_of_pairs(name, settings, reduction, torch):
    for value in (-1.0, 1.0):

        def call(f, x, value=value):
            target = x.detach() * 0 + value
            return getattr(f, name)(x, target, reduction=reduction, **settings)

        compare(torch, call, POINTS)


@pytest.mark.parametrize("name", ["huber_loss", "smooth_l1_loss"])
def test_the_curvature_of_a_right_prediction(name):
    loss = getattr(edutorch.nn.functional, name)
    for swap in (False, True):

        def call(x, swap=swap):
            pair = (edutorch.zeros(2), x) if swap else (x, edutorch.zeros(2))
            return loss(*pair, reduction="sum")

        hessian = edutorch.autograd.functional.hessian(call, edutorch.tensor([0.0, 0.1]))
        assert hessian.tolist() == [[1, 0], [0, 1]]
        hessian = edutorch.func.hessian(call)(edutorch.tensor([0.0, 2.0]))
        assert hessian.tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize("margin", [0.0, 1.0])
@pytest.mark.parametrize("target", [1.0, -1.0])
def test_ranking(margin, target, torch):
    compare(
        torch,
        lambda f, x: f.margin_ranking_loss(x, x.detach() * 0, x.detach() * 0 + target, margin),
        POINTS,
    )


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("p", [1, 2])
def test_triplets(swap, p, torch):
    def call(f, x):
        anchor = x.reshape(7, 2)
        positive = anchor.detach() * 0
        return f.triplet_margin_loss(anchor, positive, positive + 1, swap=swap, p=p)

    compare(torch, call, ROWS)


def test_a_triplet_exactly_at_its_margin(torch):
    def call(f, x):
        return f.triplet_margin_with_distance_loss(
            x, x.detach(), x.detach() + 1, distance_function=lambda a, b: (a - b).sum(-1).abs()
        )

    compare(torch, call, [[1.0], [2.0]], 1)


@pytest.mark.parametrize("margin", [0.0, 0.5])
@pytest.mark.parametrize("target", [1, -1])
def test_cosine_embedding(margin, target, torch):
    def call(f, x):
        rows = x.reshape(7, 2)
        axis = rows.detach() * 0
        axis[:, 0] = 1
        return f.cosine_embedding_loss(rows, axis, axis[:, 0].long() * target, margin)

    compare(torch, call, ROWS)


@pytest.mark.parametrize("name", ["multi_margin_loss", "multilabel_margin_loss"])
def test_margins_of_classes(name, torch):
    classes = {"multi_margin_loss": [0, 3], "multilabel_margin_loss": [[0, 3, -1, 0, 0, 0, 0]] * 2}
    for library_values in (ROWS, POINTS + [1.0]):

        def call(f, x):
            target = (edutorch if isinstance(x, edutorch.Tensor) else torch).tensor(classes[name])
            return getattr(f, name)(x.reshape(2, 7), target)

        compare(torch, call, library_values, 1)


# Roots of zeros --------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("p", [2, 3.0, float("inf")])
def test_powers_pooled_of_zeros(rank, p, torch):
    image = np.zeros((1, 2) + (4,) * rank)
    image[..., 2:] = 1.0  # windows of zeros, of zeros and ones, of ones
    image[:, :, 3:] = 2.0
    compare(torch, lambda f, x: getattr(f, f"lp_pool{rank}d")(x, p, 2), image)
    x = edutorch.zeros(1, 2, 4, requires_grad=True)
    edutorch.nn.functional.lp_pool1d(x, 1, 2).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[[1.0] * 4] * 2]  # a sum has no corner


# Infinite logits -------------------------------------------------------------------------------

INFINITE = [math.inf, -math.inf, math.inf, -math.inf, math.inf, math.nan]
ANSWERS = [1.0, 0.0, 0.0, 1.0, 0.5, 1.0]
DTYPES = ["float64", "float32", "bfloat16", "float16"]


def binary_losses(x, target, **settings):
    return edutorch.nn.functional.binary_cross_entropy_with_logits(
        x, target, reduction="none", **settings
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pos_weight", [None, 0.5, 2.0])
def test_infinite_scores(dtype, pos_weight):
    dtype_object = getattr(edutorch, dtype)
    x = edutorch.tensor(INFINITE, dtype=dtype_object, requires_grad=True)
    target = edutorch.tensor(ANSWERS, dtype=dtype_object)
    settings = (
        {}
        if pos_weight is None
        else {"pos_weight": edutorch.tensor(pos_weight, dtype=dtype_object)}
    )
    losses = binary_losses(x, target, **settings)
    np.testing.assert_array_equal(losses.tolist(), [0, 0, math.inf, math.inf, math.inf, math.nan])
    losses[:5].sum().backward()
    slopes = [0, 0, 1, -(pos_weight or 1), 0.5]
    assert x.grad is not None and x.grad.dtype is dtype_object and x.grad[:5].tolist() == slopes
    soft = edutorch.nn.functional.multilabel_soft_margin_loss
    assert soft(x[:2], target[:2]).item() == 0


@pytest.mark.parametrize("dtype", DTYPES[:3])
def test_slopes_of_scores_that_are_nearly_certain(dtype):
    x = edutorch.tensor([40.0, -40.0, 30.0], dtype=getattr(edutorch, dtype), requires_grad=True)
    target = edutorch.tensor([1.0, 0.0, 1.0], dtype=x.dtype)
    losses = binary_losses(x, target)
    (slopes,) = edutorch.autograd.grad(losses.sum(), x, create_graph=True)
    (curves,) = edutorch.autograd.grad(slopes.sum(), x)
    near = {"rtol": 0.01 if dtype == "bfloat16" else 1e-6}
    tails = np.exp([-40.0, -40.0, -30.0])
    np.testing.assert_allclose(losses.tolist(), tails, **near)
    np.testing.assert_allclose(slopes.tolist(), tails * [-1, 1, -1], **near)
    np.testing.assert_allclose(curves.tolist(), tails, **near)


@pytest.mark.parametrize("pos_weight", [None, 3.0])
def test_all_derivatives_of_scores(pos_weight, torch):
    x = edutorch.tensor([-2.0, 0.0, 0.3, 5.0], dtype=edutorch.float64, requires_grad=True)
    target = edutorch.tensor([0.0, 1.0, 0.3, 1.0], dtype=x.dtype, requires_grad=True)
    weight = None if pos_weight is None else edutorch.tensor(pos_weight, dtype=x.dtype)
    results = []
    for library in (edutorch, torch):
        inputs = [library.tensor(tensor.tolist(), dtype=library.float64, requires_grad=True)
                  for tensor in (x, target)]  # fmt: skip
        weights = None if weight is None else library.tensor(pos_weight, dtype=library.float64)
        y = library.nn.functional.binary_cross_entropy_with_logits(*inputs, pos_weight=weights)
        results.append((y, *library.autograd.grad(y, inputs)))
    assert_close(*results)
    assert edutorch.autograd.gradgradcheck(lambda x, t: binary_losses(x, t, pos_weight=weight),
                                           (x, target))  # fmt: skip


# Vectors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shapes", "dim"),
    [(((1, 4), (1, 1)), 1), (((3, 4), (1,)), 1), (((3, 1), (3, 4)), -1), (((3, 4), (4,)), 0)],
)
def test_cosines_of_stretched_vectors(shapes, dim, torch):
    random = np.random.default_rng(0)
    first, second = (random.normal(size=shape) for shape in shapes)

    def call(f, x):
        library = edutorch if isinstance(x, edutorch.Tensor) else torch
        return f.cosine_similarity(x, library.tensor(second), dim)

    compare(torch, call, first)


@pytest.mark.parametrize("size", [1e-30, 1e-10, 1.0, 1e19, 1e25, 8e37])
def test_cosines_of_very_long_and_short_vectors(size):
    x = edutorch.tensor([[3.0, 4.0]]) * size
    cosine = edutorch.nn.functional.cosine_similarity(x, edutorch.tensor([[1e30, 0.0]]), eps=0.0)
    assert abs(cosine.item() - 0.6) < 1e-6
    with pytest.raises(RuntimeError, match="floating"):
        edutorch.nn.functional.cosine_similarity(x.long(), x.long())
