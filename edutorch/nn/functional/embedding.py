"""Embedding lookup, embedding bags and one-hot encoding."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backends, dtypes
from ...backends.kernel_registry import run_on_device, slot
from ...backends.numpy import Array
from ...backends.pending_checks import check_later
from ...core.composed import recorded_as
from ...core.error_messages import check_memory, is_any_true
from ...core.precision import composed_in_float32
from ...core.tensor import Tensor, wrap
from ...errors import DimError, DTypeError, EdutorchError, ShapeError
from ...modes import DEFAULT, current, no_grad
from ...ops import (
    arange,
    bincount,
    clamp,
    eye,
    index_add,
    index_select,
    norm,
    ones_like,
    reshape,
    scatter_reduce,
    searchsorted,
    unique,
    unsqueeze,
    where,
    zeros,
)  # fmt: skip
from ...ops.gather_scatter import is_below
from ...ops.sparse.row_gradient import embedding_rows

__all__ = ["embedding", "embedding_bag", "one_hot"]

ONE_HOT = slot("ONE_HOT")
"""The kernel of a device that writes one-hot vectors at once."""


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Encode class indices as one-hot vectors along a new last axis.

    Args:
        num_classes: the length of the vectors; by default the largest class + 1.

    Raises: DTypeError: not int64. DimError: a class that does not exist.

    >>> nn.functional.one_hot(tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if tensor.dtype is not dtypes.int64:
        raise DTypeError(
            "one_hot", "is only applicable to index tensor of type LongTensor",
            {"tensor": tensor.dtype}, "use tensor.long()",
        )  # fmt: skip
    if num_classes == -1:
        num_classes = int(tensor.max()) + 1
    classes = tensor._array
    if classes.__class__ is np.ndarray and classes.size and current() is DEFAULT:
        y = encode_on_cpu(classes, num_classes)
        if y is not None:
            return wrap(y)

    def error(lowest: int, highest: int) -> DimError:
        return DimError(
            "one_hot", f"Class values must be from 0 to {max(num_classes, 1) - 1}.",
            {"tensor": f"from {lowest} to {highest}"}, "num_classes counts the class 0, too",
        )  # fmt: skip

    backend = backends.of(classes)
    if backend.checks_later and classes.size and num_classes > 0:
        known = check_later(backend, "one_hot", classes, 0, num_classes - 1, lambda n: error(n, n))
        tensor = wrap(known)
    elif not are_classes(classes, num_classes):
        raise error(int(tensor.min()), int(tensor.max()))
    if backend.kernels:
        values = tensor._array, num_classes
        y = backend.on_card(run_on_device, backend.kernels, "ONE_HOT", tensor.numel(), values)
        if y is not None:
            return wrap(y)
    if classes.__class__ is np.ndarray and current() is DEFAULT:  # nobody records the ops below
        shape = classes.size, max(num_classes, 0)
        check_memory("one_hot", shape, np.dtype(np.int64))
        rows = np.zeros(shape, np.int64)
        rows[np.arange(classes.size), classes.reshape(-1)] = 1
        return wrap(rows.reshape(*classes.shape, rows.shape[1]))
    if num_classes > tensor.numel():  # few of the rows of a large identity are wanted
        return (unsqueeze(tensor, -1) == arange(num_classes, device=tensor.device)).long()
    rows = eye(num_classes, dtype=dtypes.int64, device=tensor.device)
    result = index_select(rows, 0, reshape(tensor, (-1,)))
    return reshape(result, (*tensor.shape, num_classes))


def encode_on_cpu(classes: np.ndarray, num_classes: int) -> Any:
    """Return one-hot vectors by the CPU's kernel; None: there is none, or no such class."""
    if num_classes.__class__ is not int or num_classes < 1:
        return None
    check_memory("one_hot", (classes.size, num_classes), classes.dtype)
    return ONE_HOT(classes, num_classes)


def are_classes(classes: Array, count: int) -> bool:
    """Return True if all elements are classes, from 0 to count - 1."""
    if classes.__class__ is np.ndarray:
        return is_below(classes, count)
    return not is_any_true((classes < 0) | (classes >= count))


@recorded_as("EmbeddingBackward0")
def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Look up rows of `weight` by index; the row `padding_idx` gets no gradient.

    Args:
        input: the indices, of any shape.
        weight: the embedding matrix, (rows, d).
        max_norm: first renormalize, in place, the used rows whose norm is larger.
        norm_type: the p of that norm.
        scale_grad_by_freq: divide each row's gradient by how often it is used.
        sparse: whether the gradient of `weight` is a sparse tensor of the rows that were used.

    Raises: DTypeError: the indices are not integers. DimError: there is no such row.

    >>> nn.functional.embedding(tensor([1, 0]), tensor([[1.0], [2.0]]))
    tensor([[2.],
            [1.]])
    """
    if weight._array.ndim != 2:
        shape = {"weight": tuple(weight.shape)}
        raise ShapeError("embedding", "'weight' must be 2-D: a row for each number", shape)
    if max_norm is not None:
        renormalize_rows(weight, input, max_norm, norm_type)
    try:
        padding_row = None if padding_idx is None else resolve_padding_idx(weight, padding_idx)
        is_vector = input._array.ndim == 1
        indices = input if is_vector else reshape(input, (-1,))
        result = select_rows(weight, indices, scale_grad_by_freq, sparse, padding_row)
    except (DimError, DTypeError) as error:
        raise row_error(input, weight, error) from None
    if not is_vector:
        result = reshape(result, (*input.shape, *weight.shape[1:]))
    if padding_row is None or sparse:  # a sparse gradient leaves the row out
        return result
    padding = reshape(input == padding_row, (*input.shape, 1))
    return where(padding, result.detach(), result)


def row_error(input: Tensor, weight: Tensor, error: EdutorchError) -> EdutorchError:
    """Return the error for invalid row indices, naming the valid range."""
    if isinstance(error, DTypeError):
        by_argument = {"input": input.dtype, "weight": weight.dtype}
        return DTypeError(
            "embedding", "expected the numbers of rows, int64", by_argument, "use input.long()"
        )
    rows = {"input": tuple(input.shape), "weight": tuple(weight.shape)}
    return DimError(
        "embedding", f"index out of range: {error.message}", rows,
        f"the rows are 0 to {weight.shape[0] - 1}; num_embeddings must exceed the largest number",
    )  # fmt: skip


def resolve_padding_idx(weight: Tensor, padding_idx: int) -> int:
    """Return `padding_idx` as a non-negative index.

    Raises: PaddingError (an AssertionError, as in PyTorch): there is no such row.
    """
    rows = weight.shape[0]
    if not -rows <= padding_idx < rows:
        raise PaddingError(
            "embedding", "Padding_idx must be within num_embeddings",
            {"padding_idx": padding_idx, "weight": tuple(weight.shape)},
        )  # fmt: skip
    return padding_idx % rows


class PaddingError(EdutorchError, AssertionError):
    """The padding index is out of range."""


class BagError(EdutorchError, ValueError):
    """The arguments of `embedding_bag` do not go together."""


def select_rows(
    weight: Tensor, indices: Tensor, by_frequency: bool, sparse: bool = False,
    padding_row: int | None = None,
) -> Tensor:  # fmt: skip
    """Select rows; with `by_frequency` a row used n times gets 1/n of each gradient.

    Args: sparse, padding_row: the gradient is a sparse tensor, without that row.
    """
    if sparse:
        selected = embedding_rows(weight, indices, padding_row)
    else:
        selected = index_select(weight, 0, indices)
    if by_frequency and selected.requires_grad and not indices.is_meta:
        counts = bincount(indices, minlength=weight.shape[0])
        scale = unsqueeze(1 / index_select(counts, 0, indices).to(weight.dtype), 1)
        selected.register_hook(lambda g: g * scale)
    return selected


def renormalize_rows(
    weight: Tensor, indices: Tensor, max_norm: float, norm_type: float = 2.0
) -> Tensor:
    """Renormalize, in place, the used rows whose norm is larger than `max_norm`."""
    if weight.is_meta:
        return weight
    with no_grad():
        used: Any = unique(reshape(indices, (-1,)))
        rows = index_select(weight, 0, used)
        lengths = norm(rows, norm_type, -1, True)
        renormalized = where(lengths > max_norm, rows * (max_norm / (lengths + 1e-7)), rows)
        return weight.index_copy_(0, used, renormalized)


# Bags --------------------------------------------------------------------------------------


@recorded_as("EmbeddingBagBackward0")
def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean",
    sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or maximum of the embedding rows of each bag of indices.

    Args:
        input: bags of the same size, (n, size), or all bags concatenated.
        offsets: for concatenated bags, where each begins.
        max_norm, norm_type, scale_grad_by_freq, sparse: as for `embedding`.
        mode: "sum", "mean" or "max". An empty bag gives 0.
        per_sample_weights: a factor for each row (`mode="sum"` only), in the shape of input.
        include_last_offset: the last of the offsets is where the last bag ends.
        padding_idx: a row that is left out.

    Raises: BagError (a ValueError): invalid combination. DimError: there is no such row.

    >>> table = tensor([[1.0], [2.0], [4.0]])
    >>> nn.functional.embedding_bag(tensor([0, 1, 2, 2]), table, tensor([0, 3]), mode="sum")
    tensor([[7.],
            [4.]])
    """
    check_bags(input, weight, offsets, mode, per_sample_weights, scale_grad_by_freq)
    starts: Any = offsets
    if starts is None:
        starts = arange(input.shape[0], device=input.device) * input.shape[1]
        include_last_offset = False
    check_first_offset(starts)
    if include_last_offset:
        starts = starts[:-1]
    indices = reshape(input, (-1,))
    if max_norm is not None:
        renormalize_rows(weight, indices, max_norm, norm_type)
    positions = arange(indices.numel(), device=input.device)
    bag = searchsorted(starts.long(), positions, right=True) - 1
    vectors = select_rows(weight, indices, scale_grad_by_freq, sparse)
    if padding_idx is not None and not input.is_meta:
        not_padding = (indices != resolve_padding_idx(weight, padding_idx)).nonzero()[:, 0]
        vectors, bag = index_select(vectors, 0, not_padding), index_select(bag, 0, not_padding)
        if per_sample_weights is not None:
            per_sample_weights = index_select(reshape(per_sample_weights, (-1,)), 0, not_padding)
    if per_sample_weights is not None:
        per_sample_weights = reshape(per_sample_weights, (-1, 1))
    return reduce_bags(vectors, bag, starts.numel(), mode, per_sample_weights)


@composed_in_float32
def reduce_bags(
    rows: Tensor, bag: Tensor, bags: int, mode: str, factors: Tensor | None = None
) -> Tensor:
    """Reduce the rows of each bag, each times its factor."""
    rows = rows if factors is None else rows * factors
    empty = zeros(bags, rows.shape[1], dtype=rows.dtype, device=rows.device)
    if mode == "max":
        index = unsqueeze(bag, 1).expand(-1, rows.shape[1])
        return scatter_reduce(empty, 0, index, rows, "amax", include_self=False)
    total = index_add(empty, 0, bag, rows)
    if mode == "sum" or bag.is_meta:  # a size changes no shape
        return total
    counts = index_add(zeros(bags, dtype=bag.dtype, device=bag.device), 0, bag, ones_like(bag))
    return total / unsqueeze(clamp(counts, min=1).to(rows.dtype), 1)


def check_first_offset(starts: Tensor) -> None:
    """Raise BagError unless the first bag begins at 0; a device says so later."""
    first, error = starts[:1], BagError(
        "embedding_bag", "offsets[0] has to be 0, i.e., the first sequence"
    )  # fmt: skip
    backend = backends.of(first._array)
    if first.numel() and backend.checks_later:
        check_later(backend, "embedding_bag", first._array, 0, 0, lambda wrong: error)
    elif first.numel() and is_any_true(first != 0):
        raise error


def check_bags(
    input: Tensor, weight: Tensor, offsets: Tensor | None, mode: str, factors: Tensor | None,
    by_frequency: bool,
) -> None:  # fmt: skip
    """Raise BagError or NotImplementedError if the arguments do not fit each other."""
    shapes = {"input": tuple(input.shape), "weight": tuple(weight.shape)}
    if input.dtype.category != 1:
        raise DTypeError("embedding_bag", "expected integers as input", {"input": input.dtype})
    if input.ndim not in (1, 2) or weight.ndim != 2:
        raise BagError("embedding_bag", "input has to be 1D or 2D and weight 2D", shapes)
    if input.ndim == 2 and offsets is not None:
        raise BagError(
            "embedding_bag", "if input is 2D, then offsets has to be None", shapes,
            "each row of the input is a bag",
        )  # fmt: skip
    if input.ndim == 1 and (offsets is None or offsets.ndim != 1):
        raise BagError(
            "embedding_bag", f"offsets has to be a 1D Tensor but got {offsets}", shapes,
            "say where each bag begins, or give bags of one size as rows",
        )  # fmt: skip
    if mode not in ("sum", "mean", "max"):
        raise BagError("embedding_bag", "mode has to be one of sum, mean or max", {"mode": mode})
    if mode == "max" and by_frequency:
        raise BagError(
            "embedding_bag", "max mode does not support scaling the gradient by the frequency"
        )
    if factors is None:
        return
    if mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}')."
        )
    if factors.shape != input.shape:
        shapes["per_sample_weights"] = tuple(factors.shape)
        raise BagError("embedding_bag", "per_sample_weights needs the shape of input", shapes)
