"""Losses as modules: made once with their settings, called with prediction and target."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from .. import functional as F
from ..functional.loss.reduction import reduction_of
from .module import Module

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "MSELoss", "NLLLoss", "SmoothL1Loss",
]  # fmt: skip


class Loss(Module):
    """What all losses share: how the losses of the elements are combined."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = reduction_of(size_average, reduce, reduction)


class WeightedLoss(Loss):
    """A loss in which classes or elements count differently: `weight` is a buffer."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.register_buffer("weight", weight)


class L1Loss(Loss):
    """The distance: y = |x - t|, averaged.

    >>> nn.L1Loss()(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare prediction and target."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(Loss):
    """The squared difference: y = (x - t)², averaged.

    >>> nn.MSELoss()(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare prediction and target."""
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(Loss):
    """Squared for small differences, straight for large ones.

    >>> nn.SmoothL1Loss()(tensor([0.0]), tensor([3.0]))
    tensor(2.5000)
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", beta: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare prediction and target."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(Loss):
    """Squared for small differences, straight for large ones.

    >>> nn.HuberLoss()(tensor([0.0]), tensor([3.0]))
    tensor(2.5000)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare prediction and target."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(Loss):
    """How far probabilities are from others: Σ t · (log t - x).

    >>> nn.KLDivLoss(reduction="sum")(log(tensor([0.5, 0.5])), tensor([1.0, 0.0]))
    tensor(0.6931)
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", log_target: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare log-probabilities with probabilities."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class NLLLoss(WeightedLoss):
    """Minus the log-probability of the right class: y = -wₜ · x[t], averaged.

    >>> nn.NLLLoss()(log(tensor([[0.5, 0.5]])), tensor([0]))
    tensor(0.6931)
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average=size_average, reduce=reduce, reduction=reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare log-probabilities with the right classes."""
        return F.nll_loss(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class CrossEntropyLoss(WeightedLoss):
    """How surprised the scores are by the right class: -log softmax(x)[t], averaged.

    Args:
        weight: how much each class counts.
        ignore_index: a target that does not count.
        reduction: "mean", "sum" or "none".
        label_smoothing: the part of each target that is spread over all classes.

    Shape: scores (n, c) or (n, c, d1, …), targets (n) or (n, d1, …) of int64; or
    probabilities in the shape of the scores.

    >>> nn.CrossEntropyLoss()(tensor([[0.0, 0.0]]), tensor([1]))
    tensor(0.6931)
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average=size_average, reduce=reduce, reduction=reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare scores with the right classes."""
        return F.cross_entropy(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )  # fmt: skip


class BCELoss(WeightedLoss):
    """For probabilities of "yes": -t · log x - (1 - t) · log(1 - x), averaged.

    >>> nn.BCELoss()(tensor([0.5]), tensor([1.0]))
    tensor(0.6931)
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average=size_average, reduce=reduce, reduction=reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare probabilities with targets from 0 to 1."""
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(Loss):
    """The same for scores (logits): the sigmoid is part of the loss, which keeps it exact.

    >>> nn.BCEWithLogitsLoss()(tensor([0.0]), tensor([1.0]))
    tensor(0.6931)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare scores with targets from 0 to 1."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )
