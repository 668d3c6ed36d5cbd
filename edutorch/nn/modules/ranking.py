"""Losses that compare, as modules."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...errors import InvalidValueError
from .. import functional as F
from .loss import Loss

__all__ = [
    "CosineEmbeddingLoss", "HingeEmbeddingLoss", "MarginRankingLoss", "TripletMarginLoss",
]  # fmt: skip


class MarginLoss(Loss):
    """A loss with a margin."""

    usual_margin = 0.0

    def __init__(
        self, margin: float | None = None, size_average: bool | None = None,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.margin = self.usual_margin if margin is None else margin


class MarginRankingLoss(MarginLoss):
    """Of two numbers, the first should be larger (t = 1) or smaller (t = -1) by `margin`.

    >>> nn.MarginRankingLoss()(tensor([2.0]), tensor([5.0]), tensor([1.0]))
    tensor(3.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Compare two numbers."""
        return F.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(MarginLoss):
    """Distances should be small for pairs (t = 1), beyond `margin` for others (t = -1).

    >>> nn.HingeEmbeddingLoss()(tensor([0.5]), tensor([-1.0]))
    tensor(0.5000)
    """

    usual_margin = 1.0

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Judge distances."""
        return F.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(MarginLoss):
    """Vectors should point the same way (t = 1), or not (t = -1).

    >>> x = tensor([[1.0, 0.0]])
    >>> nn.CosineEmbeddingLoss()(x, tensor([[0.0, 1.0]]), tensor([1]))
    tensor(1.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Compare directions."""
        return F.cosine_embedding_loss(
            input1, input2, target, self.margin, reduction=self.reduction
        )


class TripletMarginLoss(Loss):
    """The anchor should be closer to the positive than to the negative, by `margin`.

    >>> a, b = tensor([[0.0]]), tensor([[3.0]])
    >>> nn.TripletMarginLoss()(a, b, a)
    tensor(4.0000)
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise InvalidValueError(
                type(self).__name__, f"margin must be greater than 0, got {margin}"
            )
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Compare two distances."""
        return F.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap,
            reduction=self.reduction,
        )  # fmt: skip
