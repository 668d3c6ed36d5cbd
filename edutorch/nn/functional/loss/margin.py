"""Margin losses: of classes and labels, and of pairs and triplets of vectors.

`size_average` and `reduce` are deprecated forms of `reduction`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ....core.composed import composed_in_float32, recorded_as
from ....core.tensor import Tensor
from ....errors import DTypeError, InvalidValueError, ShapeError, ShapeValueError
from ....ops import (
    clamp,
    cumprod,
    gather,
    index_select,
    mean,
    minimum,
    relu,
    reshape,
    scatter_add,
    softplus,
    sqrt,
    squeeze,
    sum,
    unsqueeze,
    where,
    zeros_like,
)
from ....ops.products import subtract_widened
from ..distance import max_abs, pairwise_distance, promote_pair, shortest
from .definitions import bce_with_logits_forward
from .reduction import REDUCTIONS, reduce_losses, reduction_error, resolve_reduction

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


# Of classes and labels ------------------------------------------------------------------------


@recorded_as("SoftMarginLossBackward0")
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
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
    input: Tensor, target: Tensor, p: float = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
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
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
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
    if scores.dtype.category == 1:  # small integers, whose differences leave their range
        scores = scores.long()
    counts = cumprod((labels >= 0).long(), 1)  # 1 up to the first -1
    indices = where(counts != 0, labels, 0)
    right = scatter_add(zeros_like(indices), 1, indices, counts) != 0
    margins = 1 - unsqueeze(gather(scores, 1, indices), 2) + unsqueeze(scores, 1)
    matters = unsqueeze(counts != 0, 2) & unsqueeze(~right, 1)
    losses = sum(where(matters, relu(margins), 0.0), (1, 2)) / width
    return reduce_losses(losses if input.ndim == 2 else losses[0], reduction)


@composed_in_float32
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
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


# Of pairs and triplets ------------------------------------------------------------------------


COSINE_EPS = 9.999999960041972e-13
"""ε in the cosine of two vectors: 1e-12 as a float32."""


def hinge(x: Tensor) -> Tensor:
    """max(0, x) with the derivative 1 at 0, so that equal scores have a gradient."""
    return clamp(x, min=0)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Margin ranking loss: x1 should be larger (t = 1) or smaller (t = -1) than x2 by m.

    y = max(0, m - t · (x1 - x2)), averaged.

    >>> one = tensor([1.0])
    >>> nn.functional.margin_ranking_loss(tensor([2.0]), tensor([5.0]), one)
    tensor(3.)
    """
    reduction = resolve_reduction(size_average, reduce, reduction)
    shapes = {
        "input1": tuple(input1.shape),
        "input2": tuple(input2.shape),
        "target": tuple(target.shape),
    }
    if len({len(shape) for shape in shapes.values()}) > 1:
        raise ShapeError(
            "margin_ranking_loss", "all should have the same number of axes", shapes
        )  # fmt: skip
    # The difference is negated, not the target, which may have an unsigned dtype.
    return reduce_losses(
        hinge(target * subtract_widened(input2, input1) + float(margin)), reduction
    )


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Hinge embedding loss of distances: small for pairs (t = 1), above m for others (t = -1).

    y = x, or max(0, m - x), averaged.

    >>> nn.functional.hinge_embedding_loss(tensor([0.5, 0.2]), tensor([1, -1]), reduction="none")
    tensor([0.5000, 0.8000])
    """
    reduction = resolve_reduction(size_average, reduce, reduction)
    margin = (
        margin if input.is_floating_point() else int(margin)
    )  # integer tensors keep their dtype
    near = where(target != -1, input, 0)
    far = where(target != 1, hinge(margin - input), 0)
    return reduce_losses(near + far, reduction)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Cosine embedding loss: vectors should be parallel (t = 1), or not (t = -1).

    y = 1 - cos(x1, x2), or max(0, cos(x1, x2) - m), averaged.

    Raises: ShapeError: vectors (or rows of them) and targets that do not fit.

    >>> x = tensor([[1.0, 0.0]])
    >>> nn.functional.cosine_embedding_loss(x, tensor([[0.0, 1.0]]), tensor([1]))
    tensor(1.)
    """
    reduction = resolve_reduction(size_average, reduce, reduction)
    if target.ndim not in (0, 1) or input1.ndim != target.ndim + 1 or input2.ndim != input1.ndim:
        raise ShapeError(
            "cosine_embedding_loss", "expected one target for each row of the inputs",
            {"input1": tuple(input1.shape), "input2": tuple(input2.shape),
             "target": tuple(target.shape)},
            "inputs (n, d) need targets (n)",
        )  # fmt: skip
    return reduce_losses(
        cosine_losses(input1, input2, target == 1, target == -1, margin), reduction
    )


@composed_in_float32
def cosine_losses(x1: Tensor, x2: Tensor, alike: Tensor, apart: Tensor, margin: float) -> Tensor:
    """1 - cos for similar pairs, max(0, cos - m) for dissimilar ones."""
    cosine = safe_cosine(x1, x2)
    return where(alike, 1 - cosine, 0.0) + where(apart, hinge(cosine - margin), 0.0)


def safe_cosine(x1: Tensor, x2: Tensor) -> Tensor:
    """x1 · x2 / √((|x1|² + ε) (|x2|² + ε)) along the last axis."""
    x1, x2 = promote_pair(x1, x2)
    squares = [sum(x * x, -1) + COSINE_EPS for x in (x1, x2)]
    if not any(math.isnan(shortest(square)) for square in squares):
        return sum(x1 * x2, -1) / sqrt(squares[0] * squares[1])
    scales = [max_abs(x, -1, COSINE_EPS**0.5) for x in (x1, x2)]
    x1, x2 = x1 / scales[0], x2 / scales[1]
    floors = [squeeze(COSINE_EPS / (scale * scale), -1) for scale in scales]
    lengths = [sqrt(sum(x * x, -1) + y) for x, y in zip((x1, x2), floors, strict=True)]
    return sum(x1 * x2, -1) / (lengths[0] * lengths[1])


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Triplet loss: the anchor should be closer to the positive than to the negative by m.

    y = max(0, d(anchor, positive) - d(anchor, negative) + m), averaged.

    Args:
        p, eps: as for `pairwise_distance`.
        swap: use the positive as anchor of the negative, where that is closer.

    >>> a, b = tensor([[0.0]]), tensor([[3.0]])
    >>> nn.functional.triplet_margin_loss(a, b, a)
    tensor(4.0000)
    """
    reduction = resolve_reduction(size_average, reduce, reduction)
    if margin <= 0:
        raise InvalidValueError(
            "triplet_margin_loss", f"margin must be greater than 0, got {margin}"
        )

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, p, eps)

    return triplet_losses(anchor, positive, negative, distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Triplet loss with any function of two tensors as the distance.

    >>> a, b = tensor([[0.0]]), tensor([[3.0]])
    >>> far = lambda x, y: (x - y).abs().sum(-1)
    >>> nn.functional.triplet_margin_with_distance_loss(a, b, a, distance_function=far)
    tensor(4.)
    """
    if margin <= 0:
        raise InvalidValueError(
            "triplet_margin_with_distance_loss", f"margin must be greater than 0, got {margin}"
        )
    distance = distance_function or pairwise_distance
    return triplet_losses(anchor, positive, negative, distance, margin, swap, reduction)


def triplet_losses(
    anchor: Tensor, positive: Tensor, negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor], margin: float, swap: bool, reduction: str,
) -> Tensor:  # fmt: skip
    """max(0, near - far + m); `swap` uses the positive as anchor where that is closer."""
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(
            "triplet_margin_loss", "all should have the same number of axes",
            {"anchor": tuple(anchor.shape), "positive": tuple(positive.shape),
             "negative": tuple(negative.shape)},
        )  # fmt: skip
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduce_losses(hinge(near - far + margin), reduction)
