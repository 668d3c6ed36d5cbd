"""Ranking and embedding losses, which compare pairs or triplets.

`size_average` and `reduce` are deprecated forms of `reduction`.
"""

from __future__ import annotations

from collections.abc import Callable

from ....core.precision import composed_in_float32
from ....core.tensor import Tensor
from ....errors import InvalidValueError, ShapeError
from ....ops import clamp, minimum, sqrt, squeeze, sum, where
from ..distance import is_extreme, max_abs, pairwise_distance, promote_pair
from .reduction import reduce_losses, resolve_reduction

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip


COSINE_EPS = 9.999999960041972e-13
"""ε in the cosine of two vectors: 1e-12 as a float32."""


def hinge(x: Tensor) -> Tensor:
    """max(0, x) with the derivative 1 at 0, so that equal scores have a gradient."""
    return clamp(x, min=0)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
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
    return reduce_losses(hinge(target * (input2 - input1) + float(margin)), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
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
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
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
    if not any(map(is_extreme, squares)):
        return sum(x1 * x2, -1) / sqrt(squares[0] * squares[1])
    scales = [max_abs(x, -1, COSINE_EPS**0.5) for x in (x1, x2)]
    x1, x2 = x1 / scales[0], x2 / scales[1]
    floors = [squeeze(COSINE_EPS / (scale * scale), -1) for scale in scales]
    lengths = [sqrt(sum(x * x, -1) + y) for x, y in zip((x1, x2), floors, strict=True)]
    return sum(x1 * x2, -1) / (lengths[0] * lengths[1])


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
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
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
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
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
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
