"""A = L D Lᵀ for symmetric indefinite matrices, with Bunch-Kaufman pivoting.

The row exchanges and the sizes of the pivot blocks (1 x 1 or 2 x 2) depend on the values: so
matrices are factorized one by one, and on a GPU the host synchronizes at each pivot.

Paper: Bunch, Kaufman 1977, Some Stable Methods for Calculating Inertia and Solving
Symmetric Linear Systems, https://doi.org/10.1090/S0025-5718-1977-0428694-0
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from ..backends.numpy import Array, Namespace
from ..core import return_types
from ..core.composed import takes_out
from ..core.error_messages import is_any_true
from ..core.op import op
from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor
from ..errors import LinAlgError, ShapeError
from .linalg_common import batch_text, check_matrix
from .lu import check_pivots, pivot_magnitude

ALPHA = (1 + math.sqrt(17)) / 8
"""The Bunch-Kaufman threshold: a pivot is kept if it is at least ALPHA times its column."""


def transpose_of(xp: Namespace, x: Array, hermitian: bool) -> Array:
    """The transpose, or with `hermitian` the conjugate transpose."""
    return xp.conj(x.T) if hermitian else x.T


def choose_pivot(xp: Namespace, a: Array, k: int) -> tuple[int, int]:
    """Return the row to move to the diagonal, and the size of the pivot block, 1 or 2."""
    column = pivot_magnitude(xp, a[k:, k])
    own, largest = float(column[0]), 0.0
    if k + 1 < a.shape[0]:
        other = k + 1 + int(xp.argmax(column[1:]))
        largest = float(column[other - k])
    if k + 1 == a.shape[0] or math.isnan(own + largest) or own >= ALPHA * largest:
        return k, 1  # also for a column of zeros
    row = pivot_magnitude(xp, a[other, k:])
    on_diagonal = float(row[other - k])
    row[other - k] = 0
    reach = float(xp.max(row))
    if own >= ALPHA * largest * (largest / reach):
        return k, 1
    return (other, 1) if on_diagonal >= ALPHA * reach else (other, 2)


def try_inverse(xp: Namespace, block: Array) -> Array | None:
    """Return the inverse of a pivot block, or None if it is singular."""
    if block.shape[0] == 1 and not float(pivot_magnitude(xp, block)[0, 0]) > 0:  # 0 or NaN
        return None
    try:
        return xp.linalg.inv(block)
    except xp.linalg.LinAlgError:
        return None


def factorize(xp: Namespace, a: Array, hermitian: bool) -> tuple[Array, list[int], int]:
    """Return L and D in one matrix, the rows exchanged, and the first zero block of D."""
    a = xp.tril(a) + transpose_of(xp, xp.tril(a, -1), hermitian)
    pivots: list[int] = []
    info, k, n = 0, 0, a.shape[0]
    while k < n:
        other, size = choose_pivot(xp, a, k)
        last = k + size - 1
        if other != last:  # exchange rows and columns of the remaining matrix
            for part in (a[k:, k:], a[k:, k:].T):
                row = part[last - k].copy()
                part[last - k] = part[other - k]
                part[other - k] = row
        block, below = a[k : k + size, k : k + size], a[k + size :, k : k + size]
        inverse = try_inverse(xp, block)
        if inverse is None:
            info = info or k + 1
        else:
            factor = xp.matmul(below, inverse)
            a[k + size :, k + size :] -= xp.matmul(factor, transpose_of(xp, below, hermitian))
            a[k + size :, k : k + size] = factor
        pivots += [other + 1] if size == 1 else [-(other + 1)] * 2
        k += size
    return xp.tril(a), pivots, info


@op(outputs=("LD", "pivots", "info"), method=False, public="linalg.ldl_factor linalg.ldl_factor_ex")
def ldl_factor_forward(xp: Namespace, input: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    """L and D in one matrix, the pivots, the first zero of D: see `linalg.ldl_factor_ex`."""
    batch = check_matrix("linalg.ldl_factor", input, square=True)
    hermitian = hermitian and input.dtype.kind == "c"
    y = input.copy()
    pivots, infos = xp.zeros(input.shape[:-1], "int32"), xp.zeros(batch, "int32")
    for index in product(*map(range, batch)):
        y[index], order, info = factorize(xp, input[index], hermitian)
        pivots[index], infos[index] = xp.asarray(order, "int32"), info
    return y, pivots, infos


@takes_out
def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False
) -> return_types.linalg_ldl_factor_ex:
    """As `ldl_factor`, with an error code per matrix instead of an exception.

    `info` is 0, or the position (from 1) of the first zero block of D.

    >>> edutorch.linalg.ldl_factor_ex(zeros(2, 2)).info
    tensor(1, dtype=torch.int32)
    """
    LD, pivots, info = ldl_factor_forward(A, hermitian)
    if check_errors and is_any_true(info > 0):
        for index in product(*map(range, info.shape)):
            if int(info[index]):
                raise LinAlgError(
                    "linalg.ldl_factor",
                    f"{batch_text(index)}D[{int(info[index])},{int(info[index])}] is zero and "
                    "using it on ldl_solve would divide by zero: a matrix is singular",
                    {"A": tuple(A.shape)},
                )
    return return_types.linalg_ldl_factor_ex(LD, pivots, info)


@takes_out
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> return_types.linalg_ldl_factor:
    """A = L D Lᵀ for a symmetric A: L below the diagonal of `LD`, and D on it.

    D is block diagonal; in a 2 x 2 block both `pivots` are negative. A pivot is the row
    (counted from 1) that was exchanged with its own. Not differentiable, as in PyTorch.

    Args:
        hermitian: for a complex A, A = L D Lᴴ.

    Raises: LinAlgError: a matrix is singular.

    >>> edutorch.linalg.ldl_factor(tensor([[4.0, 2.0], [2.0, 3.0]])).LD
    tensor([[4.0000, 0.0000],
            [0.5000, 2.0000]])
    """
    LD, pivots, _ = ldl_factor_ex(A, hermitian=hermitian, check_errors=True)
    return return_types.linalg_ldl_factor(LD, pivots)


def solve_factored(xp: Namespace, a: Array, pivots: list[int], b: Array, hermitian: bool) -> Array:
    """Solve L D Lᵀ x = b factor by factor."""
    n, x = a.shape[0], b.copy()
    steps, k = [], 0
    while k < n:
        size = 1 if pivots[k] > 0 else 2
        steps.append((k, size))
        k += size

    def exchange(k: int, size: int) -> None:
        last, other = k + size - 1, abs(pivots[k]) - 1
        x[[last, other]] = x[[other, last]]

    for k, size in steps:
        exchange(k, size)
        x[k + size :] -= xp.matmul(a[k + size :, k : k + size], x[k : k + size])
        block = a[k : k + size, k : k + size]
        block = xp.tril(block) + transpose_of(xp, xp.tril(block, -1), hermitian)
        x[k : k + size] = xp.linalg.solve(block, x[k : k + size])
    for k, size in reversed(steps):
        above = transpose_of(xp, a[k + size :, k : k + size], hermitian)
        x[k : k + size] -= xp.matmul(above, x[k + size :])
        exchange(k, size)
    return x


@op(method=False, public="linalg.ldl_solve")
def ldl_solve_forward(
    xp: Namespace, input: Array, other: Array, pivots: list[Any], hermitian: bool
) -> Array:
    """The X with A X = B, given the factors of A: see `linalg.ldl_solve`."""
    y = other.copy()
    for index in product(*map(range, input.shape[:-2])):
        order: Any = pivots
        for position in index:
            order = order[position]
        y[index] = solve_factored(xp, input[index], order, other[index], hermitian)
    return y


@takes_out
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """The X with A X = B, given `ldl_factor` of A.

    >>> edutorch.linalg.ldl_solve(*edutorch.linalg.ldl_factor(eye(2)), ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    check_matrix("linalg.ldl_solve", LD, square=True)
    check_matrix("linalg.ldl_solve", B)
    check_pivots("linalg.ldl_solve", pivots)
    if B.shape[-2] != LD.shape[-1]:
        raise ShapeError(
            "linalg.ldl_solve", f"axis -2 of `B` must have A's size, {LD.shape[-1]}",
            {"LD": tuple(LD.shape), "B": tuple(B.shape)},
        )  # fmt: skip
    batch = tuple(broadcast_shapes(tuple(LD.shape[:-2]), tuple(B.shape[:-2])))
    LD, B = LD.expand((*batch, *LD.shape[-2:])), B.expand((*batch, *B.shape[-2:]))
    order = pivots.expand((*batch, pivots.shape[-1])).tolist()
    return ldl_solve_forward(LD, B, order, hermitian and LD.is_complex())
