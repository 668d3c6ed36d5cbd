"""Margin, likelihood and CTC losses, embeddings and deprecated arguments, against PyTorch."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import nn
from edutorch.nn import functional as F
from tests.nn.compare import assert_close

REDUCTIONS = ("mean", "sum", "none")
RANDOM = np.random.default_rng(0)
X, Y, W = RANDOM.normal(size=(5, 4)) * 2, RANDOM.normal(size=(5, 4)), RANDOM.uniform(size=4)
P, Q = RANDOM.uniform(0.1, 0.9, (5, 4)), RANDOM.uniform(0.1, 0.9, (5, 4))
CLASSES = np.array([0, 3, 2, 1, 3])
COUNTS = RANDOM.poisson(2, (5, 4)).astype(float)
LABELS = np.array([[3, 0, -1, 1], [-1, 0, 0, 0], [0, 1, 2, 3], [2, -1, -1, -1], [1, 0, -1, 3]])
HEADS, BIAS = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=3)


def compare(name: str, *arguments: Any, device: str, torch: Any, grads: tuple[int, ...] = (0,),
            **settings: Any) -> None:  # fmt: skip
    """Compare value and gradients of a function of nn.functional with PyTorch's."""
    results = []
    for library in (torch, edutorch):
        place = {} if library is torch else {"device": device}

        def made(value: Any, library: Any = library, place: Any = place) -> Any:
            return library.tensor(value, **place) if isinstance(value, np.ndarray) else value

        tensors = [made(argument) for argument in arguments]
        for number in grads:
            tensors[number].requires_grad_()
        named = {key: made(value) for key, value in settings.items()}
        y = getattr(library.nn.functional, name)(*tensors, **named)
        weights = np.cos(np.arange(y.numel())).reshape(tuple(y.shape))
        if grads:
            (y * made(weights)).sum().backward()
        results.append((y, [tensors[number].grad for number in grads]))
    (expected, gradients), (y, actual) = results
    assert_close(y, expected, name)
    assert_close(actual, gradients, f"gradients of {name}")


LOSSES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("soft_margin_loss", (X, np.sign(Y)), {}),
    ("multi_margin_loss", (X, CLASSES), {}),
    ("multi_margin_loss", (X, CLASSES), {"p": 2, "margin": 0.5, "weight": W}),
    ("multi_margin_loss", (X[0], np.array(2)), {}),
    ("multilabel_margin_loss", (X, LABELS), {}),
    ("multilabel_margin_loss", (X[0], LABELS[0]), {}),
    ("multilabel_soft_margin_loss", (X, P), {}),
    ("multilabel_soft_margin_loss", (X, P), {"weight": W}),
    ("gaussian_nll_loss", (X, Y, P), {"grads": (0, 1, 2)}),
    ("gaussian_nll_loss", (X, Y, P[:, 0]), {"full": True, "grads": (0, 1, 2)}),
    ("gaussian_nll_loss", (X, Y, P[:, :1]), {"eps": 0.3, "grads": (0, 2)}),
    ("gaussian_nll_loss", (X, Y, 0.7), {}),
    ("poisson_nll_loss", (X, COUNTS), {}),
    ("poisson_nll_loss", (P, COUNTS), {"log_input": False, "full": True}),
    ("triplet_margin_with_distance_loss", (X, Y, P), {"swap": True, "grads": (0, 1, 2)}),
    ("linear_cross_entropy", (X, HEADS, CLASSES % 3), {"linear_bias": BIAS, "grads": (0, 1)}),
    ("linear_cross_entropy", (X[0], HEADS, np.array(1)), {"grads": (0, 1)}),
    ("linear_cross_entropy", (X, RANDOM.normal(size=(3, 2, 4)), RANDOM.integers(0, 3, (5, 2))),
     {"grads": (0, 1)}),
    ("mse_loss", (X, Y), {"weight": P}), ("l1_loss", (X, Y), {"weight": P}),
    ("huber_loss", (X, Y), {"weight": P, "delta": 0.7}),
    ("binary_cross_entropy", (P, Q), {"grads": (0, 1)}),
]  # fmt: skip


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("name", "arguments", "settings"), LOSSES, ids=lambda value: str(value)[:40]
)
def test_losses(name, arguments, settings, reduction, device, torch):
    compare(name, *arguments, **settings, reduction=reduction, device=device, torch=torch)


def test_certain_probabilities_have_finite_slopes(device, torch):
    p, t = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0, 0.0])
    x = edutorch.tensor(p, device=device, requires_grad=True)
    F.binary_cross_entropy(x, edutorch.tensor(t, device=device), reduction="sum").backward()
    other = torch.tensor(p, requires_grad=True)
    loss = torch.nn.functional.binary_cross_entropy(other, torch.tensor(t), reduction="sum")
    loss.backward()
    assert_close(x.grad, other.grad, rtol=1e-7)


# Deprecated arguments ------------------------------------------------------------------------

TWO = {"input": X, "target": Q}
OLD: dict[str, dict[str, Any]] = {
    "mse_loss": TWO, "l1_loss": TWO, "smooth_l1_loss": TWO, "kl_div": TWO,
    "soft_margin_loss": TWO, "binary_cross_entropy": {"input": P, "target": Q},
    "binary_cross_entropy_with_logits": TWO, "multilabel_soft_margin_loss": TWO,
    "poisson_nll_loss": TWO, "cross_entropy": {"input": X, "target": CLASSES},
    "nll_loss": {"input": X, "target": CLASSES}, "multi_margin_loss": {"input": X,
    "target": CLASSES}, "multilabel_margin_loss": {"input": X, "target": LABELS},
    "margin_ranking_loss": {"input1": X, "input2": Y, "target": np.sign(Q - 0.5)},
    "hinge_embedding_loss": {"input": X, "target": np.sign(Q - 0.5)},
    "cosine_embedding_loss": {"input1": X, "input2": Y, "target": np.array([1, -1, 1, 1, -1])},
    "triplet_margin_loss": {"anchor": X, "positive": Y, "negative": P},
}  # fmt: skip


@pytest.mark.parametrize("reduce", [True, False, None])
@pytest.mark.parametrize("size_average", [True, False, None])
@pytest.mark.parametrize("name", OLD)
def test_the_old_arguments(name, size_average, reduce, torch):
    if size_average is None and reduce is None:
        pytest.skip("the new form")
    old = {"size_average": size_average, "reduce": reduce}
    function = getattr(F, name)
    with pytest.warns(UserWarning, match="size_average and reduce args will be deprecated"):
        y = function(**{key: edutorch.tensor(value) for key, value in OLD[name].items()}, **old)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = {key: torch.tensor(value) for key, value in OLD[name].items()}
        assert_close(y, getattr(torch.nn.functional, name)(**arguments, **old))


@pytest.mark.parametrize("name", [*OLD, "huber_loss", "gaussian_nll_loss", "ctc_loss",
    "triplet_margin_with_distance_loss", "linear_cross_entropy", "embedding", "embedding_bag",
    "dropout3d", "alpha_dropout", "celu", "rrelu", "softmin", "gumbel_softmax"])  # fmt: skip
def test_arguments_stand_in_pytorchs_order(name, torch):
    ours, theirs = (
        inspect.signature(getattr(library, name)) for library in (F, torch.nn.functional)
    )
    assert list(ours.parameters) == list(theirs.parameters)
    for one, other in zip(ours.parameters.values(), theirs.parameters.values(), strict=True):
        assert one.kind == other.kind
        assert one.default == other.default


def test_old_arguments_of_modules():
    for make in (nn.L1Loss, nn.TripletMarginLoss, nn.CrossEntropyLoss, nn.KLDivLoss):
        with pytest.warns(UserWarning, match="please use reduction='sum'"):
            assert make(size_average=False).reduction == "sum"


def test_warnings_of_kl_div_and_sizes():
    with pytest.warns(UserWarning, match="'batchmean' divides only by the batch size"):
        F.kl_div(edutorch.zeros(2, 2), edutorch.ones(2, 2))
    words = r"target size \(torch.Size\(\[3\]\)\) that is different to the input size"
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        with pytest.warns(UserWarning, match=words) as caught:
            loss(edutorch.ones(2, 3), edutorch.ones(3))
        assert len(caught) == 1
        assert caught[0].filename == __file__


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda t: F.multi_margin_loss(t(X), t(CLASSES), p=3), ValueError, "p == 1 and p == 2"),
    (lambda t: F.multi_margin_loss(t(X), t(X)), RuntimeError, "Long"),
    (lambda t: F.multi_margin_loss(t(X), t(CLASSES[:2])), RuntimeError, r"classes \(n\)"),
    (lambda t: F.multilabel_margin_loss(t(X), t(LABELS[:2])), RuntimeError, r"\(n, c\)"),
    (lambda t: F.gaussian_nll_loss(t(X), t(Y), t(-P)), ValueError, "negative"),
    (lambda t: F.gaussian_nll_loss(t(X), t(Y), t(P[:2])), ValueError, "incorrect size"),
    (lambda t: F.mse_loss(t(X), t(Y), weight=t(W)), ValueError, "same size"),
    (lambda t: F.binary_cross_entropy(t(P), t(Q[0])), ValueError, "same shape"),
    (lambda t: F.soft_margin_loss(t(X), t(Y), reduction="all"), ValueError, "not a valid value"),
    (lambda t: F.triplet_margin_with_distance_loss(t(X), t(Y), t(P), margin=0), ValueError,
     "greater than 0"),
    (lambda t: F.linear_cross_entropy(t(X), t(X[0]), t(CLASSES)), RuntimeError, "weight"),
    (lambda t: F.bilinear(t(X), t(X), t(X)), RuntimeError, "do not fit"),
], ids=lambda value: str(value)[:20])  # fmt: skip
def test_mistakes(call, error, text):
    with pytest.raises(error, match=text):
        call(edutorch.tensor)


# CTC -----------------------------------------------------------------------------------------

SCORES = RANDOM.normal(size=(8, 4, 5))
TARGETS = np.array([[2, 2, 1], [1, 3, 4], [4, 1, 2], [3, 2, 4]])
TIMES, LENGTHS = (8, 7, 6, 5), (3, 2, 0, 2)
CONCATENATED = np.concatenate([row[:n] for row, n in zip(TARGETS, LENGTHS, strict=True)])


def ctc(
    library: Any, scores: Any, targets: Any, *arguments: Any, **settings: Any
) -> tuple[Any, Any]:
    """Return the loss of logits after a log_softmax, and the logits' gradient."""
    x = library.tensor(scores, requires_grad=True)
    steps = x.log_softmax(-1)
    y = library.nn.functional.ctc_loss(steps, library.tensor(targets), *arguments, **settings)
    weights = np.cos(np.arange(y.numel())).reshape(tuple(y.shape))
    (y * library.tensor(weights)).sum().backward()
    return y, x.grad


@pytest.mark.parametrize("settings", [
    {}, {"reduction": "sum"}, {"reduction": "none"}, {"blank": 4}, {"zero_infinity": True},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("targets", [TARGETS, CONCATENATED], ids=["rows", "in a row"])
def test_ctc_loss(targets, settings, device, torch):
    targets = targets - 1 if "blank" in settings else targets
    ours = ctc(edutorch, SCORES, targets, TIMES, LENGTHS, **settings)
    assert_close(ours, ctc(torch, SCORES, targets, TIMES, LENGTHS, **settings))
    as_tensors = [edutorch.tensor(lengths) for lengths in (TIMES, LENGTHS)]
    assert_close(ctc(edutorch, SCORES, targets, *as_tensors, **settings)[0],
                 ctc(torch, SCORES, targets, TIMES, LENGTHS, **settings)[0])  # fmt: skip


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ctc_loss_without_a_batch(reduction, device, torch):
    arguments = (SCORES[:, 0], TARGETS[0], (8,), (3,))
    ours = ctc(edutorch, *arguments, reduction=reduction)
    assert_close(ours, ctc(torch, *arguments, reduction=reduction))


def test_targets_longer_than_their_input(device, torch):
    arguments = (SCORES[:2], TARGETS, (2, 2, 2, 2), (3, 2, 0, 2))
    losses, slopes = ctc(edutorch, *arguments, reduction="none")
    assert_close(losses, ctc(torch, *arguments, reduction="none")[0])
    assert losses.tolist()[0] == float("inf")
    assert (slopes[:, 0] == 0).all()
    zeroed = ctc(edutorch, *arguments, zero_infinity=True)
    assert_close(zeroed, ctc(torch, *arguments, zero_infinity=True))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ctc_loss_without_a_log_softmax(reduction, torch):
    """Lengths of 0, targets without an alignment, and rows that do not sum to 1."""
    random = np.random.default_rng(1)
    for _ in range(12):
        times, batch, classes, longest = random.integers(1, (7, 4, 5, 4)) + (0, 0, 1, 0)
        lengths = random.integers(0, times + 1, batch), random.integers(0, longest + 1, batch)
        steps = random.normal(size=(times, batch, classes))
        targets = random.integers(1, classes, (batch, longest))
        results = []
        for library in (edutorch, torch):
            x = library.tensor(steps, requires_grad=True)
            y = library.nn.functional.ctc_loss(
                x, library.tensor(targets), *map(library.tensor, lengths), reduction=reduction,
                zero_infinity=True,
            )  # fmt: skip
            y.sum().backward()
            results.append((y, x.grad))
        assert_close(*results)


def test_ctc_loss_sums_over_all_alignments():
    """By hand: every way to say "1" in three steps, out of 27 equally likely ones."""
    alignments = ["1__", "_1_", "__1", "11_", "_11", "111"]
    steps = edutorch.zeros(3, 3).log_softmax(1)
    loss = F.ctc_loss(steps, edutorch.tensor([1]), (3,), (1,))
    assert loss.exp().item() == pytest.approx(27 / len(alignments))


@pytest.mark.parametrize(("change", "error", "text"), [
    ({"input_lengths": (9, 7, 6, 5)}, RuntimeError, "at most 8, but got value 9"),
    ({"target_lengths": (4, 2, 0, 2)}, RuntimeError, "at most 3, but got value 4"),
    ({"input_lengths": (8, 7)}, RuntimeError, "batch_size"), ({"blank": 5}, IndexError, "blank"),
    ({"targets": edutorch.ones(4, 3)}, RuntimeError, "integral"),
    ({"targets": edutorch.tensor([1, 2])}, RuntimeError, "target_lengths"),
    ({"input_lengths": edutorch.ones(4)}, RuntimeError, "integral"),
    ({"log_probs": edutorch.ones(4)}, RuntimeError, r"\(t n c\)"),
    ({"log_probs": edutorch.ones(8, 4, 5).half()}, RuntimeError, "16-bit floats"),
    ({"reduction": "all"}, ValueError, "not a valid"),
], ids=str)  # fmt: skip
def test_mistakes_of_ctc_loss(change, error, text):
    arguments: dict[str, Any] = {
        "log_probs": edutorch.tensor(SCORES), "targets": edutorch.tensor(TARGETS),
        "input_lengths": TIMES, "target_lengths": LENGTHS,
    }  # fmt: skip
    with pytest.raises(error, match=text):
        F.ctc_loss(**{**arguments, **change})


# Embeddings ----------------------------------------------------------------------------------

IDX, TABLE = np.array([[1, 2], [2, 0], [2, 2]]), RANDOM.normal(size=(4, 3))
FLAT, STARTS = np.array([1, 2, 2, 0, 3, 1, 1]), np.array([0, 2, 2, 5])
FACTORS = RANDOM.normal(size=7)


@pytest.mark.parametrize("settings", [
    {}, {"padding_idx": 2}, {"padding_idx": -2, "scale_grad_by_freq": True},
    {"scale_grad_by_freq": True}, {"sparse": False},
], ids=str)  # fmt: skip
def test_embedding(settings, device, torch):
    compare("embedding", IDX, TABLE, grads=(1,), device=device, torch=torch, **settings)


@pytest.mark.parametrize("norm_type", [1.0, 2.0])
def test_rows_are_shortened_in_place(norm_type, device, torch):
    settings = {"max_norm": 0.5, "norm_type": norm_type}
    ours, theirs = edutorch.tensor(TABLE, device=device), torch.tensor(TABLE)
    y = F.embedding(edutorch.tensor(IDX, device=device), ours, **settings)
    expected = torch.nn.functional.embedding(torch.tensor(IDX), theirs, **settings)
    assert_close(y, expected, rtol=1e-6)
    assert_close(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize(("indices", "starts", "settings"), [
    (IDX, None, {}), (FLAT, STARTS, {}), (FLAT, STARTS, {"padding_idx": 1}),
    (FLAT, np.array([0, 2, 5, 7]), {"include_last_offset": True}),
    (IDX, None, {"padding_idx": -2}),
], ids=lambda value: str(value)[:24])  # fmt: skip
def test_embedding_bag(indices, starts, settings, mode, device, torch):
    settings = {**settings, "mode": mode, "grads": (1,), "device": device, "torch": torch}
    compare("embedding_bag", indices, TABLE, starts, **settings)


@pytest.mark.parametrize("settings", [{}, {"padding_idx": 2}], ids=str)
def test_weighted_bags(settings, device, torch):
    compare("embedding_bag", FLAT, TABLE, STARTS, mode="sum", per_sample_weights=FACTORS,
            grads=(1,), device=device, torch=torch, **settings)  # fmt: skip
    compare("embedding_bag", IDX, TABLE, mode="sum", per_sample_weights=FACTORS[:6].reshape(3, 2),
            grads=(1,), device=device, torch=torch, **settings)  # fmt: skip


def test_rows_in_a_bag_share_by_frequency():
    """Not against PyTorch, whose bags divide some rows by the count of others."""
    table = edutorch.ones(3, 1, requires_grad=True)
    indices, starts = edutorch.tensor([2, 2, 0, 2]), edutorch.tensor([0, 2])
    F.embedding_bag(indices, table, starts, mode="sum", scale_grad_by_freq=True).sum().backward()
    assert table.grad.flatten().tolist() == pytest.approx([1.0, 0.0, 1.0])


@pytest.mark.parametrize(("arguments", "settings", "error", "text"), [
    ((IDX, TABLE, STARTS), {}, ValueError, "offsets has to be None"),
    ((FLAT, TABLE), {}, ValueError, "offsets has to be a 1D"),
    ((FLAT, TABLE, STARTS + 1), {}, ValueError, r"offsets\[0\] has to be 0"),
    ((IDX, TABLE), {"mode": "min"}, ValueError, "mode has to be"),
    ((IDX, TABLE), {"mode": "max", "scale_grad_by_freq": True}, ValueError, "max mode"),
    ((TABLE, TABLE), {}, RuntimeError, "integers"),
    ((IDX, TABLE[0]), {}, ValueError, "weight 2D"),
    ((IDX, TABLE), {"padding_idx": 7}, AssertionError, "Padding_idx"),
    ((IDX, TABLE), {"per_sample_weights": IDX * 1.0}, NotImplementedError, "mode='sum'"),
    ((IDX, TABLE), {"per_sample_weights": FACTORS, "mode": "sum"}, ValueError, "shape of input"),
    ((IDX + 5, TABLE), {}, IndexError, ""),
], ids=lambda value: str(value)[:24])  # fmt: skip
def test_mistakes_of_bags(arguments, settings, error, text):
    def made(value: Any) -> Any:
        return edutorch.tensor(value) if isinstance(value, np.ndarray) else value

    with pytest.raises(error, match=text):
        F.embedding_bag(*map(made, arguments), **{k: made(v) for k, v in settings.items()})


def test_bilinear(device, torch):
    random = np.random.default_rng(1).normal
    for batch in ((2, 5), (3,), ()):
        arguments = (random(size=(*batch, 3)), random(size=(*batch, 4)), random(size=(6, 3, 4)))
        compare(
            "bilinear", *arguments, random(size=6), grads=(0, 1, 2, 3), device=device, torch=torch
        )
