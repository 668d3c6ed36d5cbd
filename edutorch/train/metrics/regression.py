"""Regression metrics, perplexity, and the mean of arbitrary values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ..errors import check_choice
from .base import Metric, check_same_shape, result, to_numpy

__all__ = ["MeanAbsoluteError", "MeanMetric", "MeanSquaredError", "Perplexity", "R2Score"]


class MeanMetric(Metric):
    """The mean of all values, with weights.

    >>> mean = MeanMetric()
    >>> mean.update(tensor([1.0, 2.0])); mean.update(6.0)
    >>> mean.compute()
    tensor(3.)
    """

    total: float
    weight: float

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", 0.0)
        self.add_state("weight", 0.0)

    def update(self, value: Any, weight: Any = 1.0) -> None:
        """Add values, with a common weight or one for each."""
        values, weights = np.broadcast_arrays(
            to_numpy(value).astype(np.float64), to_numpy(weight).astype(np.float64)
        )
        self.total += float((values * weights).sum())
        self.weight += float(weights.sum())
        self.count_update()

    def compute(self) -> Tensor:
        """Return Σ weight · value / Σ weight."""
        self.check_updated()
        return result(self.total / self.weight)


class MeanSquaredError(Metric):
    """The mean of (prediction - target)², or its square root.

    Args:
        squared: False returns the root mean squared error.

    >>> MeanSquaredError()(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(2.)
    """

    total: float
    count: int

    def __init__(self, squared: bool = True) -> None:
        super().__init__()
        self.squared = squared
        self.add_state("total", 0.0)
        self.add_state("count", 0)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch."""
        off = differences(self, preds, target)
        self.total += float((off**2).sum())
        self.count += off.size
        self.count_update()

    def compute(self) -> Tensor:
        """Return Σ (p - t)² / n."""
        self.check_updated()
        mean = self.total / self.count
        return result(mean if self.squared else mean**0.5)


class MeanAbsoluteError(Metric):
    """The mean of |prediction - target|.

    >>> MeanAbsoluteError()(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(1.)
    """

    total: float
    count: int

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", 0.0)
        self.add_state("count", 0)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch."""
        off = differences(self, preds, target)
        self.total += float(np.abs(off).sum())
        self.count += off.size
        self.count_update()

    def compute(self) -> Tensor:
        """Return Σ |p - t| / n."""
        self.check_updated()
        return result(self.total / self.count)


class R2Score(Metric):
    """The coefficient of determination: 1 - Σ (p - t)² / Σ (t - mean t)².

    >>> R2Score()(tensor([1.0, 2.0, 3.0]), tensor([1.0, 2.0, 4.0])).item()  # 1 - 1 / 4.6667
    0.7857...
    """

    def __init__(self, multioutput: str = "uniform_average") -> None:
        super().__init__()
        check_choice("R2Score", "multioutput", multioutput, ("uniform_average", "raw_values"))
        self.multioutput = multioutput
        for name in ("residual", "mean", "spread"):
            self.add_state(name, np.zeros(()))
        self.add_state("count", 0)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch."""
        off, true = differences(self, preds, target), to_numpy(target).astype(np.float64)
        if true.ndim not in (1, 2):
            raise self.error("expects values in a vector, or rows of several", target=target)
        batch = {
            "residual": (off**2).sum(0), "mean": true.mean(0), "count": len(true),
            "spread": ((true - true.mean(0)) ** 2).sum(0), "_updates": 1,
        }  # fmt: skip
        self.merge(batch)

    def merge(self, other: dict[str, Any]) -> None:
        """Add other sums. Means are merged (Chan et al.) so that large values lose no digits."""
        count = self.count + other["count"]
        if other["count"]:
            apart = other["mean"] - self.mean
            self.residual = self.residual + other["residual"]
            self.spread = (
                self.spread + other["spread"] + apart**2 * self.count * other["count"] / count
            )
            self.mean = self.mean + apart * other["count"] / count
        self.count = count
        self._updates += other["_updates"]

    def compute(self) -> Tensor:
        """Return 1 - Σ (p - t)² / Σ (t - mean t)²."""
        self.check_updated()
        if self.count < 2:
            raise self.error("needs at least two samples: one has no variance")
        flat = np.asarray(self.spread == 0)
        score = 1 - self.residual / np.where(flat, 1, self.spread)
        score = np.where(flat, np.where(np.asarray(self.residual) == 0, 1.0, 0.0), score)
        return result(score if self.multioutput == "raw_values" else score.mean())


class Perplexity(Metric):
    """The perplexity of a language model: exp(mean -log p).

    Args:
        ignore_index: targets with this index (padding) are ignored.

    Shape:
        preds: (batch, length, words), logits. target: (batch, length), word indices.

    >>> Perplexity()(zeros(1, 3, 8), tensor([[1, 5, 7]]))
    tensor(8.)
    """

    total: float
    count: int

    def __init__(self, ignore_index: int | None = None) -> None:
        super().__init__()
        self.ignore_index = ignore_index
        self.add_state("total", 0.0)
        self.add_state("count", 0)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch."""
        logits, true = to_numpy(preds).astype(np.float64), to_numpy(target)
        if logits.ndim != true.ndim + 1 or logits.shape[:-1] != true.shape:
            raise self.error(
                "preds must be logits of shape (batch, length, words)", preds=preds, target=target
            )
        logits, true = logits.reshape(-1, logits.shape[-1]), true.reshape(-1)
        if self.ignore_index is not None:
            is_counted = true != self.ignore_index
            logits, true = logits[is_counted], true[is_counted]
        if true.size and not 0 <= true.min() <= true.max() < logits.shape[-1]:
            raise self.error(
                f"targets from {true.min()} to {true.max()}, and there are {logits.shape[-1]} words"
            )
        peak = logits.max(-1, keepdims=True)
        norm = np.log(np.exp(logits - peak).sum(-1)) + peak[:, 0]
        self.total += float((norm - logits[np.arange(len(true)), true]).sum())
        self.count += len(true)
        self.count_update()

    def compute(self) -> Tensor:
        """Return exp(Σ -log p / n)."""
        self.check_updated()
        return result(np.exp(self.total / self.count))


def differences(metric: Metric, preds: Tensor, target: Tensor) -> np.ndarray:
    """Return prediction - target in float64."""
    own, other = to_numpy(preds).astype(np.float64), to_numpy(target).astype(np.float64)
    check_same_shape(metric, own, other)
    return own - other
