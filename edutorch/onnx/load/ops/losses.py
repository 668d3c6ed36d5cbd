"""Losses."""

from __future__ import annotations

from typing import Any

from ..table import onnx_op
from ..values import F, Value, torch


def negative_log_likelihood(
    log_prob: Value, target: Value, weight: Value, options: tuple[int | None, str]
) -> Value:
    """Return the loss of log-probabilities.

    Args:
        options: the class that is ignored, or None; the reduction.
    """
    ignored, reduction = options
    index = -100 if ignored is None else ignored
    return F.nll_loss(
        log_prob, target.to(torch.int64), weight, ignore_index=index, reduction=reduction
    )


@onnx_op("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(
    input: Value, target: Value, weight: Value = None, *, ignore_index: int | None = None,
    reduction: str = "mean",
) -> Value:  # fmt: skip
    """The mean of -log p of the right classes."""
    return negative_log_likelihood(input, target, weight, (ignore_index, reduction))


@onnx_op("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    scores: Value, labels: Value, weights: Value = None, *, ignore_index: int | None = None,
    reduction: str = "mean", outputs: int = 1,
) -> Any:  # fmt: skip
    """The cross entropy of scores, and their log-probabilities."""
    log_prob = torch.log_softmax(scores, 1)
    loss = negative_log_likelihood(log_prob, labels, weights, (ignore_index, reduction))
    return loss if outputs == 1 else (loss, log_prob)
