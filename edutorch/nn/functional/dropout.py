"""Dropout: leaving out numbers at random while training, so that none is relied upon."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...modes import no_grad
from ...ops import rand

__all__ = ["dropout", "dropout1d", "dropout2d"]


def masked(
    input: Tensor, shape: tuple[int, ...], p: float, training: bool, inplace: bool
) -> Tensor:
    """Multiply by 0 (probability p) or 1 / (1 - p), drawn for `shape` and broadcast."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    with no_grad():
        kept = rand(*shape, device=input.device) >= p
        mask = kept.to(input.dtype) * (1 / (1 - p) if p < 1 else 0)
    return input.mul_(mask) if inplace else input * mask


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set numbers to 0 with probability p, and scale the others by 1 / (1 - p).

    The expected value stays the same, so nothing has to change for evaluation.

    >>> nn.functional.dropout(ones(3), training=False)
    tensor([1., 1., 1.])
    """
    return masked(input, tuple(input.shape), p, training, inplace)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Leave out whole channels of images: neighbouring pixels say the same anyway.

    >>> nn.functional.dropout2d(ones(1, 1, 2, 2), 0.0).shape
    torch.Size([1, 1, 2, 2])
    """
    shape = (*input.shape[:-2], 1, 1)
    return masked(input, shape, p, training, inplace)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Leave out whole channels of sequences.

    >>> nn.functional.dropout1d(ones(1, 1, 2), 0.0).shape
    torch.Size([1, 1, 2])
    """
    return masked(input, (*input.shape[:-1], 1), p, training, inplace)
