"""Losses as `torch.<name>`, whose reduction is an integer: 0 none, 1 mean, 2 sum."""

from __future__ import annotations

from typing import Any

from edutorch.core.tensor import Tensor
from edutorch.nn import functional as F
from edutorch.nn.functional.loss.reduction import reduce_losses
from edutorch.nn.functional.loss.regression import pointwise_kl_div
from edutorch.nn.functional.op_decorators import SettingError

__all__ = [
    "binary_cross_entropy_with_logits", "cosine_embedding_loss", "ctc_loss",
    "hinge_embedding_loss", "kl_div", "margin_ranking_loss", "poisson_nll_loss",
    "triplet_margin_loss",
]  # fmt: skip


def reduction_name(reduction: int) -> str:
    """Return the name of a reduction.

    Raises: SettingError (a ValueError): there is no such reduction.
    """
    if reduction not in (0, 1, 2):
        raise SettingError("loss", f"{reduction} is not a reduction: 0 none, 1 mean, 2 sum")
    return ("none", "mean", "sum")[reduction]


def kl_div(
    input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    """Kullback–Leibler divergence; see `nn.functional.kl_div`.

    >>> kl_div(log(tensor([0.5, 0.5])), tensor([1.0, 0.0]), 2)
    tensor(0.6931)
    """
    return reduce_losses(pointwise_kl_div(input, target, log_target), reduction_name(reduction))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """Poisson negative log-likelihood; see `nn.functional.poisson_nll_loss`.

    >>> poisson_nll_loss(tensor([0.0]), tensor([3.0]), True, False, 1e-8, 1)
    tensor(1.)
    """
    return F.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=reduction_name(reduction)
    )


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1
) -> Tensor:
    """Hinge embedding loss; see `nn.functional.hinge_embedding_loss`.

    >>> hinge_embedding_loss(tensor([0.5]), tensor([-1]))
    tensor(0.5000)
    """
    return F.hinge_embedding_loss(input, target, margin, reduction=reduction_name(reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """Cosine embedding loss; see `nn.functional.cosine_embedding_loss`.

    >>> cosine_embedding_loss(tensor([[1.0, 0.0]]), tensor([[0.0, 1.0]]), tensor([1]))
    tensor(1.)
    """
    return F.cosine_embedding_loss(
        input1, input2, target, margin, reduction=reduction_name(reduction)
    )


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """Margin ranking loss; see `nn.functional.margin_ranking_loss`.

    >>> margin_ranking_loss(tensor([2.0]), tensor([5.0]), tensor([1.0]))
    tensor(3.)
    """
    return F.margin_ranking_loss(
        input1, input2, target, margin, reduction=reduction_name(reduction)
    )


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: int = 1,
) -> Tensor:  # fmt: skip
    """Triplet loss; see `nn.functional.triplet_margin_loss`.

    >>> a, b = tensor([[0.0]]), tensor([[3.0]])
    >>> triplet_margin_loss(a, b, a)
    tensor(4.0000)
    """
    return F.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=reduction_name(reduction)
    )


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:  # fmt: skip
    """Binary cross entropy; see `nn.functional.binary_cross_entropy_with_logits`.

    >>> binary_cross_entropy_with_logits(tensor([0.0]), tensor([1.0]))
    tensor(0.6931)
    """
    return F.binary_cross_entropy_with_logits(
        input, target, weight, reduction=reduction_name(reduction), pos_weight=pos_weight
    )


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 1, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """CTC loss; see `nn.functional.ctc_loss`.

    >>> ctc_loss(zeros(2, 1, 3).log_softmax(2), tensor([[1]]), (2,), (1,)).exp()
    tensor(3.)
    """
    return F.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        reduction_name(reduction),
        zero_infinity,
    )
