"""What the fuzzer has found in layers, losses, optimizers and distributions: a case each.

`FOUND` has calls that PyTorch answers rightly: both libraries must agree. Where float64 says that
PyTorch is wrong, too, a test of its own has the right number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.errors import ArgumentError
from tests.fuzz.test_findings import assert_alike

F = edutorch.nn.functional
NAN, INF = float("nan"), float("inf")


def second(torch: Any, function: Callable[[Any], Any], values: Any, dtype: str = "float32") -> Any:
    """Return value, gradient and second derivative of a function of numbers."""
    x = torch.tensor(values, dtype=getattr(torch, dtype), requires_grad=True)
    y = function(x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    return y, g, h


def integers(torch: Any, *values: Any, dtype: str = "int64") -> list[Any]:
    return [torch.tensor(value, dtype=getattr(torch, dtype)) for value in values]


KINK = [-2.0, -0.0, 0.0, 1.0]
ROWS, COLUMNS = [[1, 3], [2, 0]], [[2, 1], [1, 2]]

FOUND: dict[str, Callable[[Any], Any]] = {
    "hinge_embedding_loss of integers": lambda torch: torch.nn.functional.hinge_embedding_loss(
        *integers(torch, ROWS, [[1, -1], [-1, 1]]), margin=2.5, reduction="none"
    ),
    "margin_ranking_loss of integers": lambda torch: torch.nn.functional.margin_ranking_loss(
        *integers(torch, ROWS, COLUMNS, [[1, -1], [-1, 1]]), reduction="mean"
    ),
    "margin_ranking_loss of bytes": lambda torch: torch.nn.functional.margin_ranking_loss(
        *integers(torch, ROWS, COLUMNS, [[1, 0], [0, 1]], dtype="uint8"), margin=0.5
    ),
    "soft_margin_loss with bools": lambda torch: torch.nn.functional.soft_margin_loss(
        torch.tensor([1.0, 3.0]), torch.tensor([True, False])
    ),
    "soft_margin_loss with bytes": lambda torch: torch.nn.functional.soft_margin_loss(
        torch.tensor([1.0, 3.0]), torch.tensor([1, 0], dtype=torch.uint8)
    ),
    "soft_margin_loss with doubles": lambda torch: torch.nn.functional.soft_margin_loss(
        torch.tensor([1.0, 3.0]), torch.tensor([1.0, -1.0], dtype=torch.float64)
    ),
    "huber_loss with doubles": lambda torch: torch.nn.functional.huber_loss(
        torch.tensor([1.0, 3.0]), torch.tensor([1.5, -1.0], dtype=torch.float64)
    ),
    "l1_loss of integers": lambda torch: torch.nn.functional.l1_loss(
        *integers(torch, ROWS, COLUMNS), reduction="sum"
    ),
    "cosine_embedding_loss with floats": lambda torch: torch.nn.functional.cosine_embedding_loss(
        *[torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16)] * 2, torch.tensor([1.0])
    ),
    "cosine_embedding_loss of 0": lambda torch: torch.autograd.grad(
        torch.nn.functional.cosine_embedding_loss(
            x := torch.zeros(1, dtype=torch.float64, requires_grad=True),
            torch.ones(1, dtype=torch.float64), torch.tensor(1.0),
        ), x,
    ),
    "cosine_similarity of two 16-bit types": lambda torch: torch.nn.functional.cosine_similarity(
        torch.ones(1, 4, dtype=torch.bfloat16), torch.ones(1, 4, dtype=torch.float16)
    ),
    "cosine_similarity with integers": lambda torch: torch.nn.functional.cosine_similarity(
        torch.ones(1, 2), torch.tensor([[3, 4]])
    ),
    "cosine_similarity of nothing": lambda torch: torch.nn.functional.cosine_similarity(
        torch.zeros(1, 0, 1), torch.ones(1)
    ),
    "elu at 0": lambda torch: second(torch, lambda x: torch.nn.functional.elu(x, 2.0), KINK),
    "celu at 0": lambda torch: second(torch, lambda x: torch.nn.functional.celu(x, 2.0), KINK),
    "selu at 0": lambda torch: second(torch, torch.nn.functional.selu, KINK),
    "prelu with an infinite slope": lambda torch: torch.autograd.grad(
        torch.nn.functional.prelu(
            x := torch.ones(1, 1, requires_grad=True), torch.tensor(INF)
        ).sum(), x,
    ),
    "Cauchy.icdf in the middle": lambda torch: second(
        torch, torch.distributions.Cauchy(0.0, 1.0).icdf, [0.5, 0.25, 0.75, 0.1], "float64"
    ),
    "ContinuousBernoulli.cdf at its ends": lambda torch: second(
        torch, torch.distributions.ContinuousBernoulli(0.75).cdf, [0.0, 1.0, 0.5]
    ),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_is_mended(torch, name):
    assert_alike(FOUND[name], torch, rtol=1e-5, atol=1e-7)


# Lengths -------------------------------------------------------------------------------------

SCALES = [1e-30, 1e-21, 1.0, 1e19, 1e38]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_directions_do_not_depend_on_the_length(dtype, scale):
    """PyTorch's squares overflow, or are 0."""
    x, y = [0.75, -1.0], [1.0, 0.5]
    a = (edutorch.tensor([x]).double() * scale).to(getattr(edutorch, dtype))
    b = edutorch.tensor([y]).to(a.dtype)
    tolerance = 3 * edutorch.finfo(a.dtype).eps
    cosine = F.cosine_similarity(a, b, eps=0.0)
    assert cosine.item() == pytest.approx(0.25 / (1.25 * 1.25**0.5), rel=tolerance)
    unit = F.normalize(a, eps=0.0)
    np.testing.assert_allclose(unit.double(), [[0.6, -0.8]], rtol=tolerance)
    assert F.normalize(a, p=3.0, eps=0.0).isfinite().all()
    loss = F.cosine_embedding_loss(a, a, edutorch.tensor([1]))
    assert loss.item() == pytest.approx(0 if scale > 1e-10 else 1, abs=tolerance)


@pytest.mark.parametrize("scale", [1e19, 1e37])
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_distances_of_far_points(p, scale):
    x = (edutorch.tensor([[0.75, -1.0]]) * scale).requires_grad_()
    zero = edutorch.zeros(1, 2)
    right = (0.75**p + 1) ** (1 / p) * scale
    distance = F.pairwise_distance(x, zero, p)
    assert distance.item() == pytest.approx(right, rel=1e-6)
    assert F.pdist(edutorch.cat([x, zero]), p).item() == pytest.approx(right, rel=1e-6)
    (g,) = edutorch.autograd.grad(distance.sum(), x)
    slopes = np.array([0.75 ** (p - 1), -1]) / (0.75**p + 1) ** ((p - 1) / p)
    np.testing.assert_allclose(g[0], slopes, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_slopes_of_directions(scale):
    """d(x / |x|) / dx is 1 / |x| times what it is at the length 1."""

    def slope(x: Any) -> Any:
        x = edutorch.tensor([x], requires_grad=True)
        (g,) = edutorch.autograd.grad(F.normalize(x, eps=0.0)[0, 0], x)
        return g[0]

    small = slope([0.75, -1.0])
    np.testing.assert_allclose(slope([0.75 * scale, -scale]) * scale, small, rtol=1e-5)


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (4,)])
def test_lengths_are_the_same_when_compiled(shape):
    """What is captured once also meets vectors that are too long later."""
    compiled = edutorch.compile(lambda x, y: F.cosine_similarity(x, y, -1))
    x, y = edutorch.arange(1.0, math.prod(shape) + 1).reshape(shape), edutorch.ones(shape)
    for scale in (1.0, 1e30):
        np.testing.assert_allclose(
            compiled(x * scale, y), F.cosine_similarity(x.double(), y.double(), -1), rtol=1e-5
        )


# Scores and losses ---------------------------------------------------------------------------


def test_gelu_keeps_the_digits_of_its_tail():
    """1 + erf(x) cancels: PyTorch's float32 is right to three digits at -4."""
    x = edutorch.linspace(-5, -2, 301)
    right = [v * 0.5 * math.erfc(-v / math.sqrt(2)) for v in x.double().tolist()]
    np.testing.assert_allclose(F.gelu(x), right, rtol=2e-5)


def test_hidden_keys_weigh_nothing_and_hidden_queries_get_zeros():
    scores = edutorch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    attention = edutorch.nn.functional.attention.attention_weights
    for hidden in ([[False, True], [False, False]], [[False, True], [True, True]]):
        seen = ~edutorch.tensor(hidden)
        mask = edutorch.zeros(2, 2).masked_fill(~seen, -INF)
        for attention_mask in (seen, mask):
            weights = attention(scores, attention_mask)
            (g,) = edutorch.autograd.grad((weights * scores).sum(), scores)
            assert weights[~seen].tolist() == [0.0] * int((~seen).sum())
            assert weights.sum(-1).tolist() == seen.any(-1).float().tolist()
            assert g.isfinite().all()


@pytest.mark.parametrize("score", [INF, 80.0, -INF])
def test_a_label_that_fills_a_row_up_may_have_any_score(score):
    """An infinite one reached the gradients of the others."""
    steps = edutorch.zeros(2, 2, 3).log_softmax(-1)
    targets = edutorch.tensor([[1, 1], [1, 2]])

    def slopes(score: float) -> Any:
        x = steps.clone()
        x[1, 1, 2] = score
        x.requires_grad_()
        loss = F.ctc_loss(x, targets, (2, 2), (2, 1), reduction="none")[1]
        return loss.item(), edutorch.autograd.grad(loss, x)[0][:, :, :2].tolist()

    assert slopes(score) == slopes(-1.0)


@pytest.mark.parametrize("layout", ["rows", "one after the other", "without a batch"])
@pytest.mark.parametrize("label", [-1, 3, 7])
def test_a_label_that_is_no_class_is_refused(label, layout):
    """PyTorch reads beyond the scores; here it was taken for the nearest class."""
    steps = edutorch.zeros(5, 2, 3).log_softmax(-1)
    targets, lengths = edutorch.tensor([[1, 2], [label, 1]]), (2, 2)
    if layout == "one after the other":
        targets = targets.flatten()
    if layout == "without a batch":
        steps, targets, lengths = steps[:, 1], targets[1], (2,)
    with pytest.raises(IndexError, match=f"Target {label} is out of bounds"):
        F.ctc_loss(steps, targets, (5,) * len(lengths), lengths)


def test_what_fills_a_row_of_labels_up_may_be_anything():
    steps = edutorch.zeros(5, 2, 3).log_softmax(-1)
    losses = [
        F.ctc_loss(steps, edutorch.tensor([[1, 2], [1, filler]]), (5, 5), (2, 1)).item()
        for filler in (0, 2, -1, 7)
    ]
    assert len(set(losses)) == 1


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 4, 3), (0, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_weight_of_one_axis_is_one_output(shape, dtype, torch):
    def results(library: Any) -> tuple[Any, ...]:
        torch_dtype = getattr(library, dtype)
        x = (library.ones(shape, dtype=torch_dtype) * 2).requires_grad_()
        w = library.arange(3, dtype=torch_dtype).requires_grad_()
        y = library.nn.functional.linear(x, w)
        return y, *library.autograd.grad(y.sum(), (x, w))

    assert_alike(results, torch)
    one = F.linear(edutorch.ones(2, 3), edutorch.arange(3.0), edutorch.tensor(0.5))
    assert one.tolist() == [3.5, 3.5]
    with pytest.raises(RuntimeError, match="`weight` has 1 axes"):
        F.linear(edutorch.ones(2, 3), edutorch.arange(3.0), edutorch.ones(2))


@pytest.mark.parametrize("rank", [1, 2])
def test_the_last_nan_of_a_window_wins(rank, torch):
    values = [[[1.0, NAN, 3.0, NAN, 2.0, 9.0]]] if rank == 1 else [[[1.0, NAN], [NAN, 4.0]]]
    for name in (f"adaptive_max_pool{rank}d", f"max_pool{rank}d"):
        size = (2 if rank == 1 else 1) if "adaptive" in name else (3 if rank == 1 else 2)
        ours, theirs = (
            getattr(lib.nn.functional, name)(lib.tensor(values), size, return_indices=True)
            for lib in (edutorch, torch)
        )
        assert ours[1].tolist() == theirs[1].tolist()
        np.testing.assert_array_equal(ours[0], theirs[0])


# Distributions and optimizers ----------------------------------------------------------------

WITH_16_BITS: dict[str, tuple[str, ...]] = {
    "Normal": ("loc", "scale"), "Gumbel": ("loc", "scale"), "LogNormal": ("loc", "scale"),
    "Pareto": ("scale", "alpha"), "Exponential": ("rate",),
    "ContinuousBernoulli": ("probs",), "GeneralizedPareto": ("loc", "scale", "concentration"),
    "Kumaraswamy": ("concentration1", "concentration0"), "StudentT": ("df",),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", WITH_16_BITS)
def test_16_bit_parameters_are_computed_in_float32(name, dtype):
    """Each step of a formula rounded: second derivatives were off by 30 %."""

    def answers(wide: bool) -> list[Any]:
        parameters = {
            key: edutorch.tensor([0.6, 0.3], dtype=getattr(edutorch, dtype))
            for key in WITH_16_BITS[name]
        }
        if wide:
            parameters = {key: value.double() for key, value in parameters.items()}
        leaves = [value.requires_grad_() for value in parameters.values()]
        distribution = getattr(edutorch.distributions, name)(**parameters)
        value = edutorch.tensor(0.75, dtype=leaves[0].dtype)
        results = []
        for question in ("log_prob", "mean", "variance"):
            y = getattr(distribution, question)
            y = y(value) if callable(y) else y
            results.append(y.detach())
            if y.requires_grad:
                gradients = edutorch.autograd.grad(
                    y.sum(), leaves, allow_unused=True, retain_graph=True
                )
                results += [g for g in gradients if g is not None]
        return results

    eps = edutorch.finfo(getattr(edutorch, dtype)).eps
    for narrow, right in zip(answers(wide=False), answers(wide=True), strict=True):
        assert str(narrow.dtype).endswith(dtype)
        np.testing.assert_allclose(narrow.double(), right.double(), rtol=2 * eps, atol=1e-4)


@pytest.mark.parametrize("name", ["Cauchy", "HalfCauchy", "Normal", "Laplace"])
def test_quantiles_at_the_ends_are_infinite(name):
    parameters = (1.0,) if name.startswith("Half") else (0.0, 1.0)
    distribution = getattr(edutorch.distributions, name)(*parameters)
    low, high = distribution.icdf(edutorch.tensor([0.0, 1.0], dtype=edutorch.float64)).tolist()
    assert (low, high) == (0.0 if name.startswith("Half") else -INF, INF)


def test_limits_of_integers_are_asked_of_iinfo():
    with pytest.raises(ArgumentError, match="use iinfo"):
        edutorch.finfo(edutorch.int8)


def test_a_step_beside_an_infinite_average_is_0():
    """NAdam summed up before it divided: -∞ / ∞."""
    p = edutorch.nn.Parameter(edutorch.ones(1, dtype=edutorch.float64))
    optimizer = edutorch.optim.NAdam([p])
    for gradient in (-1.7e308, 1.0, 1.0):
        p.grad = edutorch.tensor([gradient], dtype=edutorch.float64)
        optimizer.step()
    assert p.item() == 1.0


def test_a_complex_number_that_is_real_is_a_float():
    assert float(edutorch.tensor(2 + 0j)) == 2.0 and int(edutorch.tensor(3 + 0j)) == 3
    with pytest.raises(RuntimeError, match="imaginary"):
        float(edutorch.tensor(1j))


def test_a_module_that_is_converted_leaves_the_tensors_of_others():
    """The weights of a loss are the user's tensor: half() turned that into float16, too."""
    weight = edutorch.ones(1)
    loss = edutorch.nn.MultiLabelSoftMarginLoss(weight=weight).half()
    assert weight.dtype is edutorch.float32 and loss.weight.dtype is edutorch.float16


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_a_column_or_a_row_times_0_keeps_nan(dtype):
    """NumPy's `dot` scales by 0 without a look at the numbers."""
    torch_dtype = getattr(edutorch, dtype)
    number = edutorch.zeros(1, 1, dtype=torch_dtype)
    assert (edutorch.full((2, 1), NAN, dtype=torch_dtype) @ number).isnan().all()
    assert (number @ edutorch.full((1, 2), NAN, dtype=torch_dtype)).isnan().all()


def test_a_causal_query_takes_nothing_that_it_may_not_see():
    """A key that is hidden once had a higher score than one whose score is -∞."""
    query, value = edutorch.ones(1, 1, 2), edutorch.ones(1, 2, 2)
    key = edutorch.tensor([[[1.0, -INF], [1.0, 1.0]]])
    y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert y.isnan().all()


def test_the_slope_of_expm1_keeps_its_digits():
    x = edutorch.tensor([-12.0, -5.0], requires_grad=True)
    (g,) = edutorch.autograd.grad(edutorch.expm1(x).sum(), x)
    np.testing.assert_allclose(g, [math.exp(-12), math.exp(-5)], rtol=1e-6)


@pytest.mark.parametrize("name", ["mish", "hardswish"])
def test_slopes_at_infinity_are_0_and_1(name):
    x = edutorch.tensor([-INF, INF, -1e38, 1e38], requires_grad=True)
    (g,) = edutorch.autograd.grad(getattr(F, name)(x).sum(), x)
    assert g.tolist() == [0.0, 1.0, 0.0, 1.0]


def test_averages_of_windows_of_infinities():
    x = edutorch.tensor([[1.0, 2.0, INF, INF, 5.0]])
    assert F.adaptive_avg_pool1d(x, 3).tolist() == [[1.5, INF, INF]]


def test_pad_with_a_value_under_autocast():
    with edutorch.autocast("cpu", dtype=edutorch.bfloat16):
        assert F.pad(edutorch.ones(1), (1, 0), value=2.0).tolist() == [2.0, 1.0]
