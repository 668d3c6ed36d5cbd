"""Margin losses for multi-class, multi-label and binary (±1) targets.

`size_average` and `reduce` are deprecated forms of `reduction`.
"""

from __future__ import annotations

from ....core.autograd.node_names import recorded_as
from ....core.precision import composed_in_float32
from ....core.tensor import Tensor
from ....errors import DTypeError, InvalidValueError, ShapeError, ShapeValueError
from ....ops import (
    cumprod,
    gather,
    index_select,
    mean,
    relu,
    reshape,
    scatter_add,
    softplus,
    sum,
    unsqueeze,
    where,
    zeros_like,
)
from .pointwise import bce_with_logits_forward
from .reduction import REDUCTIONS, reduce_losses, reduction_error, resolve_reduction

__all__ = [
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
    "soft_margin_loss",
]  # fmt: skip


@recorded_as("SoftMarginLossBackward0")
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Soft margin loss of binary targets ±1: y = log(1 + exp(-t · x)), averaged.

    >>> nn.functional.soft_margin_loss(tensor([0.0, 2.0]), tensor([1.0, 1.0]), reduction="none")
    tensor([0.6931, 0.1269])
    """
    reduction = resolve_reduction(size_average, reduce, reduction)
    losses = softplus(-(target * input))
    if losses.shape != input.shape:
        raise shape_error("soft_margin_loss", "expected a target for each score", input, target)
    if losses.dtype is not input.dtype and input.is_floating_point():
        losses = losses.to(input.dtype)  # a float64 target does not widen it, as in PyTorch
    return reduce_losses(losses, reduction)


@recorded_as("MultiMarginLossBackward0")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: float = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Multi-class hinge loss with margin m: Σ max(0, m - x[t] + x[i])ᵖ / c over i ≠ t.

    Args:
        input: scores, (n, c) or (c).
        target: the class indices, (n) or ().
        p: 1 or 2.
        weight: the weight of each target class, (c).

    Raises: ShapeError, DTypeError: input and target do not fit.

    >>> nn.functional.multi_margin_loss(tensor([[0.0, 0.5]]), tensor([1]))
    tensor(0.2500)
    """
    reduction = resolve_reduction(size_average, reduce, reduction)
    if p not in (1, 2):
        raise InvalidValueError("multi_margin_loss", f"only p == 1 and p == 2 supported, got {p}")
    if weight is not None and weight.ndim != 1:
        raise ShapeValueError(
            "multi_margin_loss", "weight must be one-dimensional", {"weight": tuple(weight.shape)}
        )
    if reduction not in REDUCTIONS:
        raise reduction_error(reduction)
    check_class_dtype("multi_margin_loss", target)
    scores = reshape(input, (1, -1)) if input.ndim < 2 else input
    if scores.ndim != 2 or target.ndim > 1 or target.numel() != scores.shape[0]:
        raise shape_error(
            "multi_margin_loss", "expected scores (n, c) and classes (n)", input, target
        )
    if weight is not None and weight.numel() != scores.shape[1]:
        raise ShapeError(
            "multi_margin_loss", f"`weight` needs one number for each of {scores.shape[1]} classes",
            {"input": tuple(input.shape), "weight": tuple(weight.shape)},
        )  # fmt: skip
    classes = reshape(target, (-1, 1))
    margins = relu(margin - gather(scores, 1, classes) + scores)
    losses = margins if p == 1 else margins * margins
    if weight is not None:
        losses = losses * unsqueeze(index_select(weight, 0, reshape(target, (-1,))), 1)
    is_other = scatter_add(zeros_like(scores), 1, classes, zeros_like(scores) + 1) == 0
    losses = mean(where(is_other, losses, 0.0), 1)
    return reduce_losses(reshape(losses, target.shape) if input.ndim < 2 else losses, reduction)


@composed_in_float32
@recorded_as("MultilabelMarginLossBackward0")
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Multi-label hinge loss: Σ max(0, 1 - x[i] + x[j]) / c over labels i and other classes j.

    Args:
        input: scores, (n, c) or (c).
        target: the label indices of each sample, then a -1, then arbitrary values.

    Raises: ShapeError, DTypeError: input and target do not fit.

    >>> nn.functional.multilabel_margin_loss(tensor([0.1, 0.2, 0.4, 0.8]), tensor([3, 0, -1, 1]))
    tensor(0.8500)
    """
    reduction = resolve_reduction(size_average, reduce, reduction)
    if reduction not in REDUCTIONS:
        raise reduction_error(reduction)
    check_class_dtype("multilabel_margin_loss", target)
    if input.shape != target.shape or input.ndim > 2:
        raise shape_error("multilabel_margin_loss", "expected (n, c) and (n, c)", input, target)
    width = input.shape[-1] if input.ndim else 1
    scores, labels = reshape(input, (-1, width)), reshape(target, (-1, width))
    counts = cumprod((labels >= 0).long(), 1)  # 1 up to the first -1
    indices = where(counts != 0, labels, 0)
    right = scatter_add(zeros_like(indices), 1, indices, counts) != 0
    margins = 1 - unsqueeze(gather(scores, 1, indices), 2) + unsqueeze(scores, 1)
    matters = unsqueeze(counts != 0, 2) & unsqueeze(~right, 1)
    losses = sum(where(matters, relu(margins), 0.0), (1, 2)) / width
    return reduce_losses(losses if input.ndim == 2 else losses[0], reduction)


@composed_in_float32
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Multi-label binary cross entropy of logits: -t · log σ(x) - (1 - t) · log σ(-x), averaged.

    Args:
        weight: the weight of each class.

    >>> nn.functional.multilabel_soft_margin_loss(tensor([[0.0, 0.0]]), tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    reduction = resolve_reduction(size_average, reduce, reduction)
    losses = bce_with_logits_forward(input, target)
    totals = sum(losses if weight is None else losses * weight, -1)  # autocast makes it float32
    return reduce_losses(totals / (input.shape[-1] if input.ndim else 1), reduction)


def check_class_dtype(op: str, target: Tensor) -> None:
    if target.dtype.category != 1 or target.element_size() != 8:
        raise DTypeError(
            op, "expected scalar type Long for the target's classes", {"target": target.dtype},
            "use target.long()",
        )  # fmt: skip


def shape_error(op: str, message: str, input: Tensor, target: Tensor) -> ShapeError:
    shapes = {"input": tuple(input.shape), "target": tuple(target.shape)}
    return ShapeError(op, message, shapes)
