"""Classification metrics: from the confusion matrix, and the area under the ROC curve."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends import CPU
from ...core.tensor import Tensor
from ..errors import check_at_least, check_choice
from .base import Metric, check_same_shape, result, to_numpy

__all__ = ["AUROC", "Accuracy", "ConfusionMatrix", "F1Score", "Precision", "Recall"]


class ClassificationMetric(Metric):
    """Accumulates the confusion matrix `counts[true, predicted]`.

    Args:
        task: "binary": a probability (or a logit, or 0 and 1) for each sample; "multiclass":
            scores of shape (samples, classes, …), or a class index for each sample.
        num_classes: the number of classes, for "multiclass".
        threshold: the probability above which a sample counts as positive.
        average: "micro" weights samples equally, "macro" classes equally, "weighted" classes by
            their samples; None returns a value for each class. For "multiclass".
        top_k: a prediction is right if the target is among the k best scores.

    Shape:
        preds: (n, …) or (n, classes, …). target: (n, …), integers.

    Raises: MetricError (a ValueError), ShapeError: the batch does not fit the task.
    """

    counts: np.ndarray
    default_average: str | None = "micro"

    def __init__(
        self, task: str, num_classes: int | None = None, threshold: float = 0.5,
        average: str | None = "default", top_k: int = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        average = self.default_average if average == "default" else average
        check_choice(name, "task", task, ("binary", "multiclass"))
        check_choice(name, "average", average, ("micro", "macro", "weighted", None))
        if task == "multiclass":
            check_at_least(name, "num_classes", num_classes, 2)
        check_at_least(name, "top_k", top_k, 1)
        self.task, self.threshold, self.average, self.top_k = task, threshold, average, top_k
        self.num_classes = 2 if num_classes is None else num_classes
        self.add_state("counts", np.zeros((self.num_classes, self.num_classes), np.int64))

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch."""
        chosen, true = self.labels(to_numpy(preds), to_numpy(target))
        pairs = true.ravel() * self.num_classes + chosen.ravel()
        counts = CPU.xp.bincount(pairs, minlength=self.num_classes**2)
        self.counts = self.counts + counts.reshape(self.num_classes, self.num_classes)
        self.count_update()

    def labels(self, preds: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return predicted and true classes as integers."""
        if target.dtype.kind not in "biu":
            raise self.error("targets must be whole numbers: the classes", "target.long()",
                             target=target)  # fmt: skip
        true = target.astype(np.int64)
        if self.task == "binary":
            check_same_shape(self, preds, target)
            chosen = binarize(preds, self.threshold)
        elif preds.ndim == target.ndim + 1 and preds.shape[1] == self.num_classes:
            chosen = top_class(preds, true, self.top_k)
        else:
            if preds.ndim != target.ndim or preds.dtype.kind == "f":
                raise self.error(
                    f"preds must be scores of shape (n, {self.num_classes}, …) or whole numbers "
                    "like target", preds=preds, target=target,
                )  # fmt: skip
            check_same_shape(self, preds, target)
            chosen = preds.astype(np.int64)
        for name, classes in (("preds", chosen), ("target", true)):
            if classes.size and not 0 <= classes.min() <= classes.max() < self.num_classes:
                raise self.error(
                    f"{name} has classes from {classes.min()} to {classes.max()}, and there are "
                    f"{self.num_classes}", f"num_classes={int(classes.max()) + 1}?",
                )  # fmt: skip
        return chosen, true

    def rates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return for each class the numbers of true positives, predicted and true samples."""
        self.check_updated()
        return np.diag(self.counts), self.counts.sum(0), self.counts.sum(1)

    def average_classes(self, top: np.ndarray, bottom: np.ndarray) -> Tensor:
        """Return top / bottom for each class, with the chosen average."""
        _, chosen, there = self.rates()
        if self.task == "binary":
            return result(safe_divide(top, bottom)[1])
        if self.average == "micro":
            return result(safe_divide(top.sum(), bottom.sum())[()])
        scores = safe_divide(top, bottom)
        if self.average is None:
            return result(scores)
        if self.average == "weighted":
            return result((scores * there).sum() / there.sum())
        return result(scores[(chosen + there) > 0].mean())


class Accuracy(ClassificationMetric):
    """The share of correctly classified samples (with "macro": the mean over classes).

    >>> Accuracy(task="multiclass", num_classes=3)(tensor([0, 2, 1, 1]), tensor([0, 1, 1, 1]))
    tensor(0.7500)
    """

    def compute(self) -> Tensor:
        """Return correct / all."""
        right, _, there = self.rates()
        if self.task == "binary":
            return result(right.sum() / there.sum())
        return self.average_classes(right, there)


class Precision(ClassificationMetric):
    """The share of correct samples among those predicted as a class.

    >>> Precision(task="binary")(tensor([0.9, 0.8, 0.1]), tensor([1, 0, 1]))
    tensor(0.5000)
    """

    def compute(self) -> Tensor:
        """Return correct / predicted."""
        right, chosen, _ = self.rates()
        return self.average_classes(right, chosen)


class Recall(ClassificationMetric):
    """The share of a class's samples that were predicted correctly.

    >>> Recall(task="binary")(tensor([0.9, 0.8, 0.1]), tensor([1, 0, 1]))
    tensor(0.5000)
    """

    def compute(self) -> Tensor:
        """Return correct / true."""
        right, _, there = self.rates()
        return self.average_classes(right, there)


class F1Score(ClassificationMetric):
    """The harmonic mean of precision and recall: 2 · correct / (predicted + true).

    >>> F1Score(task="binary")(tensor([0.9, 0.8, 0.1]), tensor([1, 0, 1]))
    tensor(0.5000)
    """

    def compute(self) -> Tensor:
        """Return 2 · correct / (predicted + true)."""
        right, chosen, there = self.rates()
        return self.average_classes(2 * right, chosen + there)


class ConfusionMatrix(ClassificationMetric):
    """The confusion matrix: how often each true class (row) was predicted as each class (column).

    Args:
        normalize: "true": each row sums to 1; "pred": each column; "all": the whole matrix.

    >>> ConfusionMatrix(task="binary")(tensor([1, 1, 0]), tensor([1, 0, 0]))
    tensor([[1, 1],
            [0, 1]])
    """

    def __init__(
        self, task: str, num_classes: int | None = None, threshold: float = 0.5,
        normalize: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, num_classes, threshold)
        check_choice("ConfusionMatrix", "normalize", normalize, (None, "true", "pred", "all"))
        self.normalize = normalize

    def compute(self) -> Tensor:
        """Return the matrix."""
        self.check_updated()
        if self.normalize is None:
            return result(self.counts)
        axis = {"true": 1, "pred": 0, "all": None}[self.normalize]
        return result(safe_divide(self.counts, self.counts.sum(axis, keepdims=True)))


def safe_divide(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Return top / bottom, and 0 where the divisor is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(top, float), np.asarray(bottom, float))
    return np.divide(top, bottom, out=np.zeros(top.shape), where=bottom != 0)


def binarize(preds: np.ndarray, threshold: float) -> np.ndarray:
    """Return 1 for positive samples, else 0."""
    if preds.dtype.kind in "biu":
        return preds.astype(np.int64)
    return (probabilities(preds) > threshold).astype(np.int64)


def probabilities(preds: np.ndarray) -> np.ndarray:
    """Return probabilities; if values lie outside [0, 1] they are logits: 1 / (1 + exp(-x))."""
    if preds.size and not (preds.min() >= 0 and preds.max() <= 1):
        return 1 / (1 + np.exp(-preds.astype(np.float64)))
    return preds


def top_class(preds: np.ndarray, true: np.ndarray, top_k: int) -> np.ndarray:
    """Return the class with the best score, or the true class if it is among the best k."""
    best = preds.argmax(1)
    if top_k == 1:
        return best
    own = np.take_along_axis(preds, np.expand_dims(true, 1), 1)
    better = (preds > own).sum(1)
    return np.where(better < top_k, true, best)


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

    def update(self, preds: Tensor, target: Tensor) -> None:
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
        counts = CPU.xp.bincount(true, minlength=self.num_classes or 0)
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
