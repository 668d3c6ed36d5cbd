"""The lookup of rows whose gradient is sparse: `nn.Embedding(sparse=True)`.

A vocabulary has 100,000 rows and a batch uses 100 of them. The dense gradient of the table is zero
nearly everywhere, and computing it takes longer than all else. This op returns the rows that were
used and their gradients, no more (`RowGradient`, which the engine carries to the leaf).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.numpy import Array, ArrayOrTensor, Namespace
from ...core.fast.lazy_gradients import RowGradient
from ...core.op import op
from ...core.tensor import Tensor
from ..gather_scatter import checked_range, index_array, kept_in_range
from ..indexing import Index, index_put_forward


def row_cases(some: Any) -> list[dict[str, Any]]:
    return [{"weight": some(3, 2), "index": np.array([2, 0, 2])}]


@op(linear=True, method=False, public="embedding", node="EmbeddingBackward0", sample=row_cases)
def embedding_rows(
    xp: Namespace, weight: Array, index: Index, padding_idx: int | None = None
) -> Array:
    """The rows of a matrix at an index of one axis; the gradient of the matrix is sparse.

    Args:
        weight: of shape (rows, d).
        index: of shape (n).
        padding_idx: a row that gets no gradient.
    """
    index = index_array("embedding", index)
    return weight[checked_range("embedding", index, weight.shape[0])]


def _weight_rule(
    g: ArrayOrTensor, weight_shape: tuple[int, ...], index: Index, padding_idx: int | None
) -> Any:
    rows = kept_in_range(index_array("embedding", index), weight_shape[0])
    if padding_idx is not None:
        kept = rows != padding_idx
        rows, g = rows[kept], g[kept]
    if isinstance(g, Tensor):  # backward is recorded: the gradient is dense
        return index_put_forward(g, (rows,), weight_shape)
    return RowGradient(weight_shape, rows, g)


embedding_rows.vjp(weight=_weight_rule, latex=r"g\ \text{at the rows that were used}")
