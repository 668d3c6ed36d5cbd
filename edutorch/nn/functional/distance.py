"""How far apart two vectors are, or how alike their directions."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeError, refuse_complex
from ...ops import clamp, index_select, norm, sum, triu_indices

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`: x1 · x2 / (|x1| |x2|).

    Args:
        eps: the least length to divide by. A vector shorter than that has the gradient of
            the formula as written; PyTorch's goes on as if nothing had been clamped.

    >>> nn.functional.cosine_similarity(tensor([3.0, 4.0]), tensor([3.0, 0.0]), dim=0)
    tensor(0.6000)
    """
    refuse_complex("cosine_similarity", x1=x1, x2=x2)
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


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows, each pair once: of row 0 to 1, 2, …, of row 1 to 2, ….

    Raises: ShapeError: not a matrix. ValueError: p is negative.

    >>> nn.functional.pdist(tensor([[0.0], [3.0], [7.0]]))
    tensor([3., 7., 4.])
    """
    refuse_complex("pdist", input=input)
    if input.ndim != 2:
        raise ShapeError(
            "pdist", f"only supports 2D tensors, got: {input.ndim}D", {"input": tuple(input.shape)}
        )
    if p < 0:
        raise InvalidValueError("pdist", f"pdist only supports non-negative p values, got {p}")
    first, second = triu_indices(input.shape[0], input.shape[0], 1, device=input.device).unbind()
    return norm(index_select(input, 0, first) - index_select(input, 0, second), p, -1)
