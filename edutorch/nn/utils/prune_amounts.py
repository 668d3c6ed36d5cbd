"""Checks of pruning amounts, and norms of channels."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...errors import DimError
from ...ops import norm


def check_amount(amount: Any) -> Any:
    """Return an amount: a count (int) or a fraction (float). Raise if it is neither."""
    if not isinstance(amount, int | float):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )
    return amount


def resolve_count(amount: float, size: int) -> int:
    """Return how many of `size` elements to prune. Raise if there are not as many."""
    if isinstance(amount, float):
        return round(amount * size)
    if amount > size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={size}"
        )
    return amount


def check_matrix(t: Tensor, dim: int) -> None:
    """Raise unless a tensor has channels along `dim`."""
    if t.ndim <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.ndim} dims"
        )
    if dim >= t.ndim:
        raise DimError("prune", f"Invalid index {dim} for tensor of size {t.shape}")


def channel_norms(t: Tensor, n: Any, dim: int) -> Tensor:
    """Return the Lₙ norm of each channel along `dim`."""
    return norm(t, n, [index for index in range(t.ndim) if index != dim % t.ndim])
