"""Losses with margins, for several classes and labels, as modules."""

from __future__ import annotations

from collections.abc import Callable

from ...core.tensor import Tensor
from ...errors import InvalidValueError
from .. import functional as F
from ..functional.op_decorators import SettingError
from .distance import PairwiseDistance
from .loss import Loss, WeightedLoss

__all__ = [
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "SoftMarginLoss",
    "TripletMarginWithDistanceLoss",
]  # fmt: skip


class MultiMarginLoss(WeightedLoss):
    """The right class's score should exceed each other one by a margin.

        y = Σᵢ max(0, margin - x[t] + x[i])ᵖ / classes,  i ≠ t

    Args: `p` is 1 or 2; `weight` says how much each class counts.

    >>> nn.MultiMarginLoss()(tensor([[0.1, 0.2, 0.4, 0.8]]), tensor([3]))
    tensor(0.3250)
    """

    def __init__(
        self, p: float = 1, margin: float = 1.0, weight: Tensor | None = None,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average=size_average, reduce=reduce, reduction=reduction)
        if p not in (1, 2):
            raise InvalidValueError(type(self).__name__, "only p == 1 and p == 2 supported")
        if weight is not None and weight.ndim != 1:
            raise SettingError(
                "MultiMarginLoss", f"expected weight to be None or 1D tensor, got {weight.ndim}D "
                "instead", {"weight": tuple(weight.shape)},
            )  # fmt: skip
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare scores with the right classes."""
        return F.multi_margin_loss(
            input, target, self.p, self.margin, self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(Loss):
    """Each right label's score should exceed each wrong one's by 1.

    The target names the right labels in a row that ends at the first -1.

    >>> x, target = tensor([[0.1, 0.2, 0.4, 0.8]]), tensor([[3, 0, -1, 1]])
    >>> nn.MultiLabelMarginLoss()(x, target)
    tensor(0.8500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare scores with the right labels."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(WeightedLoss):
    """Yes or no for each label: the mean of -t · log σ(x) - (1 - t) · log σ(-x).

    >>> nn.MultiLabelSoftMarginLoss()(tensor([[0.0, 0.0]]), tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average=size_average, reduce=reduce, reduction=reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare scores with targets of 0 and 1."""
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class SoftMarginLoss(Loss):
    """For targets of 1 and -1: y = log(1 + exp(-t · x)), averaged.

    >>> nn.SoftMarginLoss()(tensor([0.0]), tensor([1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compare scores with signs."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class TripletMarginWithDistanceLoss(Loss):
    """The anchor should be closer to the positive than to the negative, in any distance.

        y = max(d(a, p) - d(a, n) + margin, 0)

    Args:
        distance_function: d; the Euclidean distance by default.
        swap: compare with d(p, n) where that is smaller than d(a, n).

    Raises: ValueError: the margin is not above 0.

    >>> a, b = tensor([[0.0]]), tensor([[3.0]])
    >>> nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs())(a, b, a)
    tensor(4.)
    """

    def __init__(
        self, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0, swap: bool = False, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise SettingError(
                "TripletMarginWithDistanceLoss",
                f"expected margin to be greater than 0, got {margin} instead",
            )
        self.distance_function = distance_function or PairwiseDistance()
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Compare two distances."""
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function,
            margin=self.margin, swap=self.swap, reduction=self.reduction,
        )  # fmt: skip
