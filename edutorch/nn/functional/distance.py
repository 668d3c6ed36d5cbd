"""How far apart two vectors are, or how alike their directions."""

from __future__ import annotations

from ...core.precision import composed_in_float32
from ...core.tensor import Tensor
from ...errors import DTypeError, InvalidValueError, ShapeError, refuse_complex
from ...modes import no_grad
from ...ops import abs as abs_
from ...ops import amax, broadcast_tensors, index_select, maximum, norm, sum, triu_indices, where

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


@composed_in_float32
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`: x1 · x2 / (|x1| |x2|).

    Args:
        eps: the least length to divide by. A vector shorter than that has the gradient of
            the formula as written; PyTorch's goes on as if nothing had been clamped.

    >>> nn.functional.cosine_similarity(tensor([3.0, 4.0]), tensor([3.0, 0.0]), dim=0)
    tensor(0.6000)
    """
    refuse_complex("cosine_similarity", x1=x1, x2=x2)
    if not (x1.is_floating_point() or x2.is_floating_point()):
        raise DTypeError(
            "cosine_similarity", "expected floating numbers", {"x1": x1.dtype, "x2": x2.dtype},
            "use x1.float()",
        )  # fmt: skip
    x1, x2 = broadcast_tensors(x1, x2)  # an axis that is stretched makes its vector longer
    (x1, length1), (x2, length2) = scaled(x1, dim, eps), scaled(x2, dim, eps)
    return sum(x1 * x2, dim) / (length1 * length2)


def scaled(x: Tensor, dim: int, eps: float) -> tuple[Tensor, Tensor]:
    """Return vectors whose squares do not overflow, and their lengths, which `eps` limits."""
    if not x.numel():
        return x, norm(x, 2, dim)
    with no_grad():
        largest = amax(abs_(x), dim, True)
        largest = where((largest > 0) & (largest < float("inf")), largest, 1.0)
    x = x / largest
    return x, maximum(norm(x, 2, dim), eps / amax(largest, dim))


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
