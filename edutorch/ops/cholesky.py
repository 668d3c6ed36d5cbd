"""The Cholesky factor of a positive-definite matrix, and solving with it."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from .. import backends, dtypes
from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core import return_types
from ..core.composed import recorded_as, takes_out
from ..core.error_messages import is_any_true
from ..core.op import op
from ..core.tensor import Tensor
from ..errors import LinAlgError
from .arithmetic import add
from .linalg import matmul
from .linalg_common import adjoint_of, batch_text, check_matrix, lapack, with_conjugate_gradients
from .masking import where
from .rearrange import tril
from .solve import eye_like, solve_triangular, solve_triangular_forward


@op(method=False, out=True, node="LinalgCholeskyExBackward0")
def cholesky(xp: Namespace, input: Array, *, upper: bool = False) -> Array:
    """The lower triangle L with A = L Lᴴ, for a symmetric (complex: Hermitian) positive A.

    Only the lower triangle of A is read (the upper one with `upper`, and Lᴴ returned).

    Raises: LinAlgError: a matrix is not positive-definite.

    >>> edutorch.linalg.cholesky(tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    check_matrix("linalg.cholesky", input, square=True)
    if upper:
        input = xp.conj(xp.swapaxes(input, -1, -2))
    lower = try_cholesky(xp, input)
    if lower is None:
        raise not_positive_definite(xp, input)
    return xp.conj(xp.swapaxes(lower, -1, -2)) if upper else lower


def try_cholesky(xp: Namespace, input: Array) -> Array | None:
    """Return the lower Cholesky factors, or None if a matrix is not positive-definite."""
    try:
        lower = lapack(xp, "cholesky", input)
    except xp.linalg.LinAlgError:
        return None
    pivots = xp.diagonal(lower, 0, -2, -1)
    return None if is_any_true(xp.isnan(pivots)) else lower  # LAPACK does not report every failure


def first_failing_minor(xp: Namespace, matrix: Array) -> int:
    """Return the order of the first leading minor that is not positive-definite, 0 if none."""
    if try_cholesky(xp, matrix) is not None:
        return 0
    good, bad = 0, matrix.shape[-1]  # binary search: a minor that contains a failing one fails too
    while bad - good > 1:
        order = (good + bad) // 2
        if try_cholesky(xp, matrix[:order, :order]) is None:
            bad = order
        else:
            good = order
    return bad


def not_positive_definite(xp: Namespace, input: Array) -> LinAlgError:
    """Make the error that names the first matrix that is not positive-definite."""
    where_found, order = (), 0
    for index in product(*map(range, input.shape[:-2])):
        order = first_failing_minor(xp, input[index])
        if order:
            where_found = index
            break
    return LinAlgError(
        "linalg.cholesky",
        f"{batch_text(where_found)}a matrix is not positive-definite "
        f"(the leading minor of order {order} is not positive-definite)",
        {"input": input.shape},
        "x @ x.mT + eps * eye(n) is; look at the smallest of linalg.eigvalsh",
    )


@with_conjugate_gradients
def cholesky_gradient(g: ArrayOrTensor, y: ArrayOrTensor, upper: bool) -> Any:
    """½ (S + Sᴴ) with S = L⁻ᴴ Φ(Lᴴ g) L⁻¹, where Φ takes the lower triangle, half the diagonal."""
    g, lower = (adjoint_of(g), adjoint_of(y)) if upper else (g, y)
    inner = matmul(adjoint_of(lower), tril(g))
    quarter = (tril(inner) + tril(inner, -1)) / 4  # Φ and the ½: the rest is linear
    solved = solve_triangular_forward(adjoint_of(lower), quarter, True, False)
    gradient = solve_triangular_forward(adjoint_of(lower), adjoint_of(solved), True, False)
    return add(gradient, adjoint_of(gradient))


cholesky.vjp(
    input=lambda g, y, upper: cholesky_gradient(g, y, upper),
    latex=r"L^{-H}\,\Phi(L^H g)\,L^{-1}",
)


@takes_out
def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False
) -> return_types.linalg_cholesky_ex:
    """As `cholesky`, with an error code per matrix instead of an exception.

    `info` is 0, or the order of the first leading minor that is not positive-definite:
    the factor of such a matrix is NaN.

    >>> edutorch.linalg.cholesky_ex(tensor([[1.0, 2.0], [2.0, 1.0]])).info
    tensor(2, dtype=torch.int32)
    """
    batch = check_matrix("linalg.cholesky_ex", A, square=True)
    info = A.new_zeros(batch, dtype=dtypes.int32)
    try:
        return return_types.linalg_cholesky_ex(cholesky(A, upper=upper), info)
    except LinAlgError:
        if check_errors:
            raise
    array = (adjoint_of(A) if upper else A).detach()._array
    xp = backends.of(array).xp
    orders = [first_failing_minor(xp, array[index]) for index in product(*map(range, batch))]
    info = info.new_tensor(orders).reshape(batch)
    failed = (info > 0)[..., None, None]
    factor = cholesky(where(failed, eye_like(A), A), upper=upper)
    return return_types.linalg_cholesky_ex(where(failed, math.nan, factor), info)


# Solving with the factor --------------------------------------------------------------------------


@takes_out
@recorded_as("CholeskySolveBackward0")
def cholesky_solve(input: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """The X with A X = B, given the Cholesky factor of A: two triangular systems.

    >>> cholesky_solve(tensor([[8.0], [4.0]]), tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([[2.],
            [4.]])
    """
    check_matrix("cholesky_solve", L, square=True)
    check_matrix("cholesky_solve", input)
    lower = adjoint_of(L) if upper else L
    intermediate = solve_triangular(lower, input, upper=False)
    return solve_triangular(adjoint_of(lower), intermediate, upper=True)


@takes_out
@recorded_as("CholeskyInverseBackward0")
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A, given its Cholesky factor.

    >>> cholesky_inverse(tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([[0.2500, 0.0000],
            [0.0000, 1.0000]])
    """
    check_matrix("cholesky_inverse", input, square=True)
    return cholesky_solve(eye_like(input), input, upper)
