"""Losses that are minus the logarithm of a likelihood, as modules."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from .. import functional as F
from .loss import Loss

__all__ = ["CTCLoss", "GaussianNLLLoss", "PoissonNLLLoss"]


class CTCLoss(Loss):
    """How improbable a text is when it is not known which frames each letter covers.

    All ways to spread the letters over the frames, with blanks between them, are summed.

    Args:
        blank: the class that stands for no letter.
        zero_infinity: texts that do not fit into their frames count 0, not ∞.

    Paper: Graves et al., Connectionist temporal classification, 2006.

    >>> scores = zeros(2, 1, 2).log_softmax(2)
    >>> nn.CTCLoss(reduction="sum")(scores, tensor([[1]]), tensor([2]), tensor([1]))
    tensor(0.2877)
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        """Compare log-probabilities (time, n, classes) with texts."""
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
            self.zero_infinity,
        )  # fmt: skip


class GaussianNLLLoss(Loss):
    """The target is drawn around the prediction: y = (log v + (x - t)² / v) / 2.

    The network predicts the variance v too: where it is unsure, errors cost less.

    Args:
        full: with the constant log(2π) / 2.
        eps: the least variance.

    >>> nn.GaussianNLLLoss()(tensor([1.0]), tensor([3.0]), tensor([4.0]))
    tensor(1.1931)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Compare means and variances with targets."""
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class PoissonNLLLoss(Loss):
    """The target counts events at a predicted rate: y = exp(x) - t · x.

    Args:
        log_input: x is the logarithm of the rate; False: the rate, y = x - t · log(x + eps).
        full: with Stirling's approximation of log t!, for t > 1.

    >>> nn.PoissonNLLLoss()(tensor([0.0]), tensor([3.0]))
    tensor(1.)
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, size_average: bool | None = None,
        eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """Compare rates with counts."""
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps,
            reduction=self.reduction,
        )  # fmt: skip
