"""Products with a sparse matrix, as ops on its values.

Two ops, each the derivative of the other:

    sparse_mm     y[i, :] = Σₑ v[e] · x[j(e), :]     over the elements e of row i
    sampled_mm    y[e] = Σₖ a[i(e), k] · b[j(e), k]  the product a bᵀ where the pattern has elements

The first is the message passing of a graph network, Σ over the neighbours j of i; the second is
what each edge learns from the two vertices it connects.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from ...backends.kernel_registry import is_reference_only
from ...backends.numpy import Array, Namespace
from ...core.op import op
from ..indexing import index_put_forward
from .pattern import Pattern

ROWS_AT_ONCE = 1 << 16
"""So many elements of a pattern are looked up at once: memory for all of them would be k times that
of the values."""


def sample(some: Any) -> Any:
    indices = np.array([[0, 2, 0, 1], [1, 0, 1, 2]])
    pattern = Pattern(indices, (3, 4))
    return pattern, some(4)


def product_cases(some: Any) -> list[dict[str, Any]]:
    pattern, values = sample(some)
    return [
        {"values": values, "dense": some(4, 2, seed=1), "pattern": pattern},
        {"values": values, "dense": some(3, 2), "pattern": pattern, "transposed": True},
    ]


def sampled_cases(some: Any) -> list[dict[str, Any]]:
    pattern, _ = sample(some)
    return [{"rows": some(3, 2), "columns": some(4, 2, seed=1), "pattern": pattern}]


@op(
    promotion="same", method=False, accumulates=True, public="sparse.mm mm matmul spmm",
    node="SparseAddmmBackward0", sample=product_cases,
)  # fmt: skip
def sparse_mm(
    xp: Namespace, values: Array, dense: Array, pattern: Pattern, transposed: bool = False
) -> Array:
    """A sparse matrix times a dense one: y[i, :] = Σ v · x[j, :] over the elements (i, j, v).

    Args:
        values: of shape (n).
        dense: of shape (columns, k).
        pattern: the positions of the values.
        transposed: multiply by the transposed matrix; dense has the shape (rows, k).
    """
    if values.__class__ is np.ndarray and has_scipy() and not is_reference_only():
        return scipy_matrix(values, pattern, transposed) @ dense
    pattern = pattern.on_device_of(values)
    rows, columns = pattern.indices[int(transposed)], pattern.indices[1 - transposed]
    size = pattern.shape[1 if transposed else 0]
    messages = values.reshape(-1, 1) * dense[columns]
    return index_put_forward.op.forward(xp, messages, (rows,), (size, dense.shape[1]))


def _values_rule(g: Any, dense: Any, pattern: Pattern, transposed: bool) -> Any:
    rows, columns = (dense, g) if transposed else (g, dense)
    return sampled_mm(rows, columns, pattern)


sparse_mm.vjp(
    values=_values_rule,
    dense=lambda g, values, pattern, transposed: sparse_mm(values, g, pattern, not transposed),
    latex={"values": r"(g\,x^\top)[i, j]", "dense": r"A^\top g"},
)


@op(
    promotion="same", method=False, accumulates=True, public="sparse.sampled_addmm",
    node="SparseSampledAddmmBackward0", sample=sampled_cases,
)  # fmt: skip
def sampled_mm(xp: Namespace, rows: Array, columns: Array, pattern: Pattern) -> Array:
    """The product of two dense matrices, at the positions of a pattern: y[e] = a[i(e)] · b[j(e)].

    Args:
        rows: a, of shape (rows, k).
        columns: b, of shape (columns, k).
    """
    pattern = pattern.on_device_of(rows)
    parts = [
        slice(start, start + ROWS_AT_ONCE) for start in range(0, pattern.count or 1, ROWS_AT_ONCE)
    ]
    products = [
        (rows[pattern.indices[0, part]] * columns[pattern.indices[1, part]]).sum(1)
        for part in parts
    ]
    return products[0] if len(parts) == 1 else xp.concatenate(products)


sampled_mm.vjp(
    rows=lambda g, columns, pattern: sparse_mm(g, columns, pattern),
    columns=lambda g, rows, pattern: sparse_mm(g, rows, pattern, True),
    latex={"rows": r"g\,b", "columns": r"g^\top a"},
)


# SciPy ----------------------------------------------------------------------------------


def has_scipy() -> bool:
    """Return True if SciPy is installed: it multiplies faster than the definition."""
    global _HAS_SCIPY
    if _HAS_SCIPY is None:
        _HAS_SCIPY = importlib.util.find_spec("scipy") is not None
    return _HAS_SCIPY


_HAS_SCIPY: bool | None = None


def scipy_matrix(values: np.ndarray, pattern: Pattern, transposed: bool) -> Any:
    """Return SciPy's matrix of a pattern and values: no element is copied if they are in order."""
    from scipy.sparse import csc_array, csr_array

    order, pointers, columns = pattern.by_row
    arrays = (values if order is None else values[order], columns, pointers)
    # The rows of a matrix are the columns of its transpose: the same three arrays.
    if transposed:
        return csc_array(arrays, shape=pattern.shape[::-1])
    return csr_array(arrays, shape=pattern.shape)
