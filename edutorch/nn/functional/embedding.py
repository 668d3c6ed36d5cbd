"""Rows of a table, found by number."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...errors import DimError, DTypeError
from ...ops import eye, index_select, reshape, where

__all__ = ["embedding", "one_hot"]


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Write each class as a row of zeros with a 1 at its place.

    Args:
        num_classes: how long the rows are; by default just long enough.

    Raises: DTypeError: not int64. DimError: a class that does not exist.

    >>> nn.functional.one_hot(tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    from ... import dtypes

    if tensor.dtype is not dtypes.int64:
        raise DTypeError(
            "one_hot", "is only applicable to index tensor of type LongTensor",
            {"tensor": tensor.dtype}, "use tensor.long()",
        )  # fmt: skip
    if num_classes == -1:
        num_classes = int(tensor.max()) + 1
    if tensor.numel() and (int(tensor.min()) < 0 or int(tensor.max()) >= num_classes):
        raise DimError("one_hot", f"Class values must be from 0 to {num_classes - 1}.")
    rows = eye(num_classes, dtype=dtypes.int64, device=tensor.device)
    found = index_select(rows, 0, reshape(tensor, (-1,)))
    return reshape(found, (*tensor.shape, num_classes))


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Rows of `weight` by number; the row `padding_idx` gets no gradient.

    Raises: DTypeError: the numbers are not integers. DimError: there is no such row.

    >>> nn.functional.embedding(tensor([1, 0]), tensor([[1.0], [2.0]]))
    tensor([[2.],
            [1.]])
    """
    found = index_select(weight, 0, reshape(input, (-1,)))
    found = reshape(found, (*input.shape, *weight.shape[1:]))
    if padding_idx is None:
        return found
    padding = reshape(input == padding_idx % weight.shape[0], (*input.shape, 1))
    return where(padding, found.detach(), found)
