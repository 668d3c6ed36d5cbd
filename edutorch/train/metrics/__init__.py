"""Metrics, accumulated over batches (see README.md)."""

from __future__ import annotations

from .base import Metric, MetricError
from .classification import AUROC, Accuracy, ConfusionMatrix, F1Score, Precision, Recall
from .regression import MeanAbsoluteError, MeanMetric, MeanSquaredError, Perplexity, R2Score

__all__ = [
    "AUROC", "Accuracy", "ConfusionMatrix", "F1", "F1Score", "MeanAbsoluteError", "MeanMetric",
    "MeanSquaredError", "Metric", "MetricError", "Perplexity", "Precision", "R2Score", "Recall",
]  # fmt: skip


F1 = F1Score
