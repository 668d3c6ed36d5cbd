"""Embeddings as `torch.<name>`: the weight comes first, the modes are integers."""

from __future__ import annotations

from edutorch.core.tensor import Tensor
from edutorch.nn import functional as F
from edutorch.nn.functional.embedding import renormalize_rows
from edutorch.ops import arange, argmax, bincount, searchsorted, stack, zeros

__all__ = ["embedding", "embedding_bag", "embedding_renorm_"]


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Look up rows by index; see `nn.functional.embedding`, which takes the indices first.

    Args:
        padding_idx: a row without a gradient; -1 for none.

    >>> embedding(tensor([[1.0], [2.0]]), tensor([1, 0]))
    tensor([[2.],
            [1.]])
    """
    padding = None if padding_idx < 0 else padding_idx
    return F.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq)


def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Renormalize, in place, the used rows whose norm is larger than `max_norm`.

    >>> embedding_renorm_(tensor([[3.0, 4.0], [3.0, 4.0]]), tensor([1]), 1.0, 2.0)
    tensor([[3.0000, 4.0000],
            [0.6000, 0.8000]])
    """
    return renormalize_rows(weight, indices, max_norm, norm_type)


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sum (mode 0), mean (1) or maximum (2) of the rows of each bag of indices.

    Returns the vectors, the bag of each index, the size of each bag, and for the maximum the row
    from which each element comes.

    >>> table = tensor([[1.0], [2.0], [4.0]])
    >>> embedding_bag(table, tensor([0, 1, 2]), tensor([0, 2]))[0]
    tensor([[3.],
            [4.]])
    """
    y = F.embedding_bag(
        indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode], per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset, padding_idx=padding_idx,
    )  # fmt: skip
    positions = arange(indices.numel(), device=indices.device)
    starts = offsets[:-1] if include_last_offset else offsets
    bag = searchsorted(starts.long(), positions, right=True) - 1
    counted_bags = bag if padding_idx is None else bag[indices != padding_idx % weight.shape[0]]
    sizes = bincount(counted_bags, minlength=y.shape[0])
    if mode != 2:
        return y, bag, sizes, zeros(y.shape[0], dtype=indices.dtype, device=indices.device)
    return y, bag, sizes, argmax_rows(y, weight, indices, bag)


def argmax_rows(y: Tensor, weight: Tensor, indices: Tensor, bag: Tensor) -> Tensor:
    """Return the row from which each maximum comes, 0 for an empty bag."""
    rows = weight.detach()[indices]
    result = []
    for bag_index in range(y.shape[0]):
        largest = y.detach()[bag_index]
        equal = (rows == largest) & (bag == bag_index).unsqueeze(1)
        if not indices.numel():
            return zeros(*y.shape, dtype=indices.dtype, device=indices.device)
        rows_of_maximum = indices[argmax(equal.long(), 0)]
        result.append(rows_of_maximum * equal.any(0).to(indices.dtype))
    return stack(result)
