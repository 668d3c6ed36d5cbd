"""How far apart two vectors are, or how alike their directions."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...ops import clamp, norm, sum

__all__ = ["cosine_similarity", "pairwise_distance"]


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`: x1 · x2 / (|x1| |x2|).

    Args:
        eps: the least length to divide by. A vector shorter than that has the gradient of
            the formula as written; PyTorch's goes on as if nothing had been clamped.

    >>> nn.functional.cosine_similarity(tensor([3.0, 4.0]), tensor([3.0, 0.0]), dim=0)
    tensor(0.6000)
    """
    lengths = (clamp(norm(each, 2, dim), min=eps) for each in (x1, x2))
    first, second = lengths
    return sum(x1 * x2, dim) / (first * second)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The distance of vectors along the last axis: y = (Σ |x1 - x2 + ε|ᵖ)^(1/p).

    Args:
        p: 2 for the usual distance, 1 for the sum of the differences.
        eps: keeps the derivative finite where both are the same.

    >>> nn.functional.pairwise_distance(tensor([[3.0, 4.0]]), tensor([[0.0, 0.0]]))
    tensor([5.0000])
    """
    return norm(x1 - x2 + eps, p, -1, keepdim)
