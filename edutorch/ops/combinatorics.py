"""Combinations, Cartesian products, and the conversion of flat indices to coordinates."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.out_variants import takes_out
from ..core.shapes import Size
from ..core.tensor import Tensor
from ..core.tensor_methods import as_method
from ..errors import DTypeError, InvalidValueError, ShapeError


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of a vector, in its order, one per row.

    >>> combinations(tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.ndim != 1:
        raise ShapeError("combinations", "expects a vector", {"input": tuple(input.shape)})
    if r < 0:
        raise InvalidValueError("combinations", f"r cannot be negative, got {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(input.shape[0]), r))
    positions = np.array(rows, np.int64).reshape(len(rows), r)
    if not r:
        return input.new_empty(0)
    elements = index_select(input, 0, tensor(positions.reshape(-1), device=input.device))
    return elements.reshape(len(rows), r)


def cartesian_prod(*tensors: Any) -> Tensor:
    """The Cartesian product of vectors, one combination per row.

    >>> cartesian_prod(tensor([1, 2]), tensor([5, 6]))
    tensor([[1, 5],
            [1, 6],
            [2, 5],
            [2, 6]])
    """
    vectors: Sequence[Tensor] = tensors[0] if isinstance(tensors[0], list | tuple) else tensors
    if any(vector.ndim != 1 for vector in vectors):
        rows = {f"tensor {i}": tuple(vector.shape) for i, vector in enumerate(vectors)}
        raise ShapeError("cartesian_prod", "expects vectors", rows)
    if len(vectors) == 1:
        return vectors[0]
    return stack(meshgrid(*vectors, indexing="ij"), -1).reshape(-1, len(vectors))


def unravel_index(indices: Tensor, shape: int | Sequence[int] | Size) -> tuple[Tensor, ...]:
    """Convert flat indices to coordinates, one index tensor per axis.

    Raises: DTypeError: not integers. ValueError: a size is negative.

    >>> unravel_index(tensor([4, 5]), (2, 3))
    (tensor([1, 1]), tensor([1, 2]))
    """
    if indices.dtype.category != 1:
        rows = {"indices": str(indices.dtype)}
        raise DTypeError("unravel_index", "expected integers", rows, "indices.long()")
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if any(size < 0 for size in sizes):
        raise InvalidValueError("unravel_index", f"a size cannot be negative, got {tuple(sizes)}")
    indices, coordinates = indices.long(), []
    for size in reversed(sizes):
        coordinates.append(indices % size)
        indices = indices // size
    return tuple(reversed(coordinates))


@as_method
@takes_out
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The indices of nonzero elements, truncated or padded to `size` rows.

    >>> nonzero_static(tensor([0, 5, 7]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    if size < 0:
        raise InvalidValueError("nonzero_static", f"size cannot be negative, got {size}")
    indices = nonzero(input)
    missing = max(size - indices.shape[0], 0)
    filling = indices.new_full((missing, indices.shape[1]), fill_value)
    return cat([narrow(indices, 0, 0, size - missing), filling])


from .from_data import tensor  # noqa: E402
from .gather_scatter import index_select  # noqa: E402
from .joining import cat, stack  # noqa: E402
from .masking import nonzero  # noqa: E402
from .rearrange import meshgrid  # noqa: E402
from .views import narrow  # noqa: E402
