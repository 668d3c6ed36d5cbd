"""Metrics over batches, against scikit-learn on everything at once."""

from __future__ import annotations

import math

import numpy as np
import pytest

import edutorch as torch
from edutorch.errors import ShapeError
from edutorch.train import metrics as M

sklearn = pytest.importorskip("sklearn.metrics", reason="needs the extra `lab`")

RANDOM = np.random.default_rng(0)
TRUE = RANDOM.integers(0, 4, 60)
SCORES = RANDOM.random((60, 4)) + np.eye(5)[TRUE][:, :4] * 0.3
SCORES /= SCORES.sum(1, keepdims=True)
BINARY = RANDOM.integers(0, 2, 60)
CHANCES = np.clip(RANDOM.random(60) * 0.6 + BINARY * 0.3, 0, 1).round(2)  # with equal ones


def over_batches(metric, preds, target):
    """Half by `update`, half by calls."""
    for number, rows in enumerate(np.array_split(np.arange(len(target)), 7)):
        batch = torch.tensor(preds[rows]), torch.tensor(target[rows])
        metric.update(*batch) if number % 2 else metric(*batch)
    return metric.compute().numpy()


AVERAGES = ["micro", "macro", "weighted", None]
OF_CLASSES = {
    M.Precision: sklearn.precision_score, M.Recall: sklearn.recall_score,
    M.F1Score: sklearn.f1_score,
}  # fmt: skip


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("metric_class", OF_CLASSES)
def test_many_classes(metric_class, average):
    value = over_batches(metric_class("multiclass", 4, average=average), SCORES, TRUE)
    expected = OF_CLASSES[metric_class](TRUE, SCORES.argmax(1), average=average)
    np.testing.assert_allclose(value, expected, rtol=1e-6)


@pytest.mark.parametrize("metric_class", OF_CLASSES)
def test_two_classes(metric_class):
    value = over_batches(metric_class("binary", threshold=0.4), CHANCES, BINARY)
    np.testing.assert_allclose(value, OF_CLASSES[metric_class](BINARY, CHANCES > 0.4), rtol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_accuracy(k):
    value = over_batches(M.Accuracy("multiclass", 4, top_k=k), SCORES, TRUE)
    expected = sklearn.top_k_accuracy_score(TRUE, SCORES, k=k)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    macro = over_batches(M.Accuracy("multiclass", 4, average="macro"), SCORES, TRUE)
    np.testing.assert_allclose(macro, sklearn.balanced_accuracy_score(TRUE, SCORES.argmax(1)), 1e-6)
    binary = over_batches(M.Accuracy("binary"), CHANCES, BINARY)
    np.testing.assert_allclose(binary, sklearn.accuracy_score(BINARY, CHANCES > 0.5), rtol=1e-6)


def test_logits_are_told_from_probabilities():
    logits = np.log(CHANCES + 0.01) - np.log(1.01 - CHANCES)
    value = over_batches(M.Accuracy("binary"), logits, BINARY)
    np.testing.assert_allclose(value, sklearn.accuracy_score(BINARY, logits > 0), rtol=1e-6)


@pytest.mark.parametrize("normalize", [None, "true", "pred", "all"])
def test_confusion_matrix(normalize):
    value = over_batches(M.ConfusionMatrix("multiclass", 4, normalize=normalize), SCORES, TRUE)
    expected = sklearn.confusion_matrix(TRUE, SCORES.argmax(1), normalize=normalize)
    np.testing.assert_allclose(value, expected, rtol=1e-6)


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_auroc(average):
    value = over_batches(M.AUROC("multiclass", 4, average=average), SCORES, TRUE)
    expected = sklearn.roc_auc_score(TRUE, SCORES, multi_class="ovr", average=average)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    binary = over_batches(M.AUROC("binary"), CHANCES, BINARY)
    np.testing.assert_allclose(binary, sklearn.roc_auc_score(BINARY, CHANCES), rtol=1e-6)


REGRESSION = {
    M.MeanSquaredError: sklearn.mean_squared_error,
    M.MeanAbsoluteError: sklearn.mean_absolute_error,
    M.R2Score: sklearn.r2_score,
}


@pytest.mark.parametrize("shape", [(60,), (60, 3)])
@pytest.mark.parametrize("metric_class", REGRESSION)
def test_regression(metric_class, shape):
    target = RANDOM.normal(1000, 2, shape)  # far from 0: sums of squares would lose digits
    preds = target + RANDOM.normal(0, 1, shape)
    np.testing.assert_allclose(
        over_batches(metric_class(), preds, target),
        REGRESSION[metric_class](target, preds),
        rtol=1e-5,
    )


def test_the_root():
    error = M.MeanSquaredError(squared=False)(torch.tensor([1.0, 5.0]), torch.tensor([1.0, 1.0]))
    assert error.item() == pytest.approx(math.sqrt(8))


def test_perplexity_is_the_exponential_of_the_cross_entropy():
    logits, target = torch.randn(6, 5, 11), torch.randint(0, 11, (6, 5))
    target[2, 3:] = 0
    metric = M.Perplexity(ignore_index=0)
    metric.update(logits[:2], target[:2])
    metric.update(logits[2:], target[2:])
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, 11), target.reshape(-1), ignore_index=0
    )
    assert metric.compute().item() == pytest.approx(math.exp(loss.item()), rel=1e-5)


def test_a_mean_has_weights():
    metric = M.MeanMetric()
    metric.update(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 3.0]))
    assert metric(5.0, 4).item() == 5.0
    assert metric.compute().item() == pytest.approx((1 + 9 + 20) / 8)
    metric.reset()
    metric.update(7)
    assert metric.compute().item() == 7.0


def test_states_are_plain_and_go_on():
    first, second = M.AUROC("binary"), M.AUROC("binary")
    first.update(torch.tensor([0.1, 0.9]), torch.tensor([0, 1]))
    second.load_state(first.state())
    for metric in (first, second):
        metric.update(torch.tensor([0.3, 0.2]), torch.tensor([0, 1]))
    assert first.compute().item() == second.compute().item() == 0.75
    assert list(first.state_dict()) == []


def computed(metric, *batch):
    assert math.isnan(metric(*batch).item())  # the batch alone has no value
    return metric.compute()


@pytest.mark.parametrize(
    ("call", "error_class", "text"),
    [
        (lambda: M.Accuracy("binary").compute(), M.MetricError, "before any update"),
        (lambda: M.Accuracy("many"), ValueError, "task must be one of 'binary', 'multiclass'"),
        (lambda: M.Accuracy("multiclass"), ValueError, "num_classes must be a whole number"),
        (
            lambda: M.Accuracy("binary")(torch.zeros(3, 1), torch.zeros(3).long()),
            ShapeError, r"(?s)one prediction for each target.*\(3, 1\).*preds.squeeze",
        ),
        (
            lambda: M.Accuracy("multiclass", 3)(torch.zeros(4, 5), torch.zeros(4).long()),
            M.MetricError, r"preds must be scores of shape \(n, 3, …\)",
        ),
        (
            lambda: M.Accuracy("multiclass", 3)(torch.zeros(4, 3), torch.full((4,), 3)),
            M.MetricError, r"target has classes from 3 to 3, and there are 3",
        ),
        (
            lambda: M.Accuracy("binary")(torch.zeros(2), torch.zeros(2)),
            M.MetricError, "targets must be whole numbers",
        ),
        (
            lambda: computed(M.AUROC("binary"), torch.zeros(2), torch.ones(2).long()),
            M.MetricError, "there are 2 and 0",
        ),
        (
            lambda: computed(M.R2Score(), torch.zeros(1), torch.zeros(1)),
            M.MetricError, "at least two",
        ),
        (
            lambda: M.Perplexity()(torch.zeros(2, 3), torch.zeros(2, 3).long()),
            M.MetricError, "logits of shape",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_named(call, error_class, text):
    with pytest.raises(error_class, match=text):
        call()
