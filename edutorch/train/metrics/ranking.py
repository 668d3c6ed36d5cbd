"""Ranking metrics, which are independent of a threshold."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ..errors import check_at_least, check_choice
from .base import Metric, check_same_shape, result, to_numpy

__all__ = ["AUROC"]


class AUROC(Metric):
    """The area under the ROC curve.

    It is the probability that a positive sample gets a higher score than a negative one; ties
    count half.

    Args:
        task: "binary": a score for each sample; "multiclass": scores (n, classes), each class
            against the rest.
        num_classes: the number of classes, for "multiclass".
        average: "macro": the mean over classes; "weighted": by their samples; None: each.

    >>> AUROC(task="binary")(tensor([0.1, 0.4, 0.35, 0.8]), tensor([0, 0, 1, 1]))
    tensor(0.7500)
    """

    scores: list[Any]
    targets: list[Any]

    def __init__(
        self, task: str, num_classes: int | None = None, average: str | None = "macro"
    ) -> None:
        super().__init__()
        check_choice("AUROC", "task", task, ("binary", "multiclass"))
        check_choice("AUROC", "average", average, ("macro", "weighted", None))
        if task == "multiclass":
            check_at_least("AUROC", "num_classes", num_classes, 2)
        self.task, self.num_classes, self.average = task, num_classes, average
        self.add_state("scores", [])
        self.add_state("targets", [])

    def update(self, preds: Any, target: Any) -> None:
        """Store a batch: the ranks of all scores are needed."""
        scores, true = to_numpy(preds), to_numpy(target)
        if self.task == "binary":
            check_same_shape(self, scores, true)
            scores, true = scores.ravel(), true.ravel()
        elif scores.shape != (*true.shape, self.num_classes):
            raise self.error(
                f"preds must be scores of shape (n, {self.num_classes})", preds=preds, target=target
            )
        self.scores.append(scores.copy())
        self.targets.append(true.astype(np.int64))
        self.count_update()

    def compute(self) -> Tensor:
        """Return the area for each class, or the average."""
        self.check_updated()
        scores, true = np.concatenate(self.scores), np.concatenate(self.targets)
        if self.task == "binary":
            return result(self.area(scores, true == 1, "positive"))
        areas = np.array([
            self.area(scores[:, label], true == label, f"class {label}")
            for label in range(self.num_classes or 0)
        ])  # fmt: skip
        if self.average is None:
            return result(areas)
        counts = np.bincount(true, minlength=self.num_classes or 0)
        return result(np.average(areas, weights=counts if self.average == "weighted" else None))

    def area(self, scores: np.ndarray, positive: np.ndarray, name: str) -> float:
        """Return the area of one class, from the ranks of its samples (Mann–Whitney U)."""
        positives = int(positive.sum())
        negatives = len(positive) - positives
        if not positives or not negatives:
            raise self.error(
                f"needs samples that are {name} and samples that are not; there are "
                f"{positives} and {negatives}",
            )  # fmt: skip
        _, rank_index, count = np.unique(scores, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(count) - (count - 1) / 2)[rank_index]
        u_statistic = ranks[positive].sum() - positives * (positives + 1) / 2
        return float(u_statistic / (positives * negatives))
