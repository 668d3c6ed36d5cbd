"""Linear algebra under the names of `torch` and `Tensor`, some of them deprecated.

    torch.inverse(A)   A.det()   torch.svd(A)

The implementations are in the files that are imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from .. import dtypes
from ..core import return_types
from ..core.composed import as_method, recorded_as, takes_out, write_into
from ..core.tensor import Tensor
from ..dtypes import DTypeLike
from ..errors import InvalidValueError, ShapeError
from . import cholesky as cholesky_factor
from . import decompositions, matrix_functions
from . import lstsq as least_squares
from . import lu as elimination
from . import solve as solving
from .cholesky import cholesky_inverse, cholesky_solve
from .complex import has_complex_dtype
from .creation import ones_like
from .elementwise import log
from .householder import geqrf, orgqr, ormqr
from .linalg_common import adjoint_of, check_matrix
from .lu import lu_unpack as lu_unpack
from .matrix_functions import matrix_exp, matrix_power, multi_dot
from .norms import matrix_norm, vector_norm
from .reduction import check_inexact
from .solve import triangular_solve
from .statistics import vector_norm as length
from .views import unsqueeze

__all__ = [
    "chain_matmul", "cholesky", "cholesky_inverse", "cholesky_solve", "det", "eig",
    "frobenius_norm", "geqrf", "inverse", "logdet", "lstsq", "lu", "lu_solve", "lu_unpack",
    "matrix_exp", "matrix_power", "matrix_rank", "norm", "nuclear_norm", "orgqr", "ormqr",
    "pinverse", "qr", "slogdet", "solve", "svd", "symeig", "triangular_solve", "vander",
]  # fmt: skip

for _function in (
    cholesky_inverse, cholesky_solve, geqrf, orgqr, ormqr, matrix_exp, matrix_power,
    triangular_solve,
):  # fmt: skip
    as_method(_function)


@as_method
def det(input: Tensor) -> Tensor:
    """The determinant, as `linalg.det`.

    >>> det(tensor([[2.0, 1.0], [0.0, 4.0]]))
    tensor(8.)
    """
    return matrix_functions.det(input)


@as_method
@takes_out
def inverse(input: Tensor) -> Tensor:
    """The inverse of square matrices, as `linalg.inv`.

    >>> inverse(tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return solving.inv(input)


@as_method
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudoinverse, as `linalg.pinv`.

    Args:
        rcond: singular values not above rcond · the largest are treated as 0. What rounding alone
            leaves of a zero, the machine epsilon times √max(m, n), is not above it either
            (PyTorch inverts it).

    >>> pinverse(tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    if input.is_floating_point() or input.is_complex():  # others are refused by `pinv`
        rounding = dtypes.finfo(input.dtype).eps * max(input.shape[-2:], default=1) ** 0.5
        rcond = max(rcond, rounding)
    return least_squares.pinv(input, rcond)


@as_method
def slogdet(input: Tensor) -> return_types.slogdet:
    """The determinant's sign and log |det A|, as `linalg.slogdet`.

    >>> slogdet(tensor([[0.0, 1.0], [1.0, 0.0]])).sign
    tensor(-1.)
    """
    return return_types.slogdet(*matrix_functions.slogdet(input))


@as_method
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant: -inf where it is 0, NaN where it is negative.

    >>> logdet(tensor([[1.0, 0.0], [0.0, 2.0]]))
    tensor(0.6931)
    """
    sign, size = matrix_functions.slogdet(input)
    return size + log(sign) if has_complex_dtype(input) else size + log(sign).detach()


@as_method
@takes_out
@recorded_as("CholeskyBackward0")
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The factor of positive-definite matrices, as `linalg.cholesky`.

    >>> cholesky(tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return cholesky_factor.cholesky(input, upper=upper)


@as_method
@takes_out
@recorded_as("LinalgQrBackward0")
def qr(input: Tensor, some: bool = True) -> return_types.qr:
    """A = Q R: the old form of `linalg.qr`, with `some=False` for its mode "complete".

    >>> qr(tensor([[0.0, 1.0], [2.0, 0.0]])).R.abs()
    tensor([[2., 0.],
            [0., 1.]])
    """
    return return_types.qr(*decompositions.qr(input, "reduced" if some else "complete"))


@as_method
@takes_out
@recorded_as("LinalgSvdBackward0")
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> return_types.svd:
    """A = U diag(S) Vᴴ: the old form of `linalg.svd`, with V itself.

    Args:
        some: False for square U and V.
        compute_uv: False to compute only S; U and V are 0 then.

    >>> svd(tensor([[0.0, 2.0], [3.0, 0.0]])).S
    tensor([3., 2.])
    """
    batch = check_matrix("svd", input)
    if not compute_uv:
        m, n = input.shape[-2:]
        U, V = (input.new_zeros((*batch, size, size)) for size in (m, n))
        return return_types.svd(U, decompositions.svdvals(input), V)
    U, S, Vh = decompositions.svd(input, full_matrices=not some)
    return return_types.svd(U, S, adjoint_of(Vh))


@as_method
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """The LU factors in one matrix, and the pivots: the old `linalg.lu_factor`.

    Args:
        get_infos: whether to return the position of the first zero on U's diagonal too (or 0).

    >>> edutorch.lu(tensor([[1.0, 1.0], [2.0, 4.0]]))[1]
    tensor([2, 2], dtype=torch.int32)
    """
    factors = tuple(elimination.lu_factor_ex(A, pivot=pivot))[: 3 if get_infos else 2]
    return factors if out is None else write_into("lu", out, factors)


@as_method
@takes_out
@recorded_as("LinalgLuSolveBackward0")
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """The X with A X = b, given the factors of A: `linalg.lu_solve` in another order.

    >>> lu_solve(ones(2, 1), *edutorch.lu(2 * eye(2)))
    tensor([[0.5000],
            [0.5000]])
    """
    return elimination.lu_solve(LU_data, LU_pivots, b)


@takes_out
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices in the cheapest order: the old form of `linalg.multi_dot`.

    >>> chain_matmul(ones(2, 3), ones(3, 4), ones(4, 1)).shape
    torch.Size([2, 1])
    """
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices)


@takes_out
def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """The nuclear norm: the sum of the singular values.

    >>> nuclear_norm(tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(7.)
    """
    return matrix_norm(input, "nuc", dim, keepdim)


@takes_out
def frobenius_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """The Frobenius norm: the root of the sum of squares.

    >>> frobenius_norm(tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    return vector_norm(input, 2, dim, keepdim)


@takes_out
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The Vandermonde matrix: powers of each element, highest first unless `increasing`.

    >>> vander(tensor([2, 3]), 3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    if x.ndim != 1:
        raise ShapeError("vander", "expected a vector", {"x": tuple(x.shape)})
    columns = x.shape[0] if N is None else N
    if columns < 0:
        raise ShapeError("vander", f"N must be non-negative, got {columns}")
    if columns < 2:
        return ones_like(
            unsqueeze(x, -1).expand(-1, columns), dtype=dtypes.promote_types(x.dtype, dtypes.int64)
        )
    y = matrix_functions.vander(x, N=columns)
    return y if increasing else y.flip(-1)


# Functions that PyTorch has removed ---------------------------------------------------------------

ADVICE = {
    "symeig": "L, V = torch.symeig(A, eigenvectors=True) should be replaced with:\n"
    "L, V = torch.linalg.eigh(A, UPLO='U' if upper else 'L')\n"
    "and L, _ = torch.symeig(A, upper=upper) with:\n"
    "L = torch.linalg.eigvalsh(A, UPLO='U' if upper else 'L')",
    "eig": "L, V = torch.eig(A, eigenvectors=True) should be replaced with:\n"
    "L_complex, V_complex = torch.linalg.eig(A)\n"
    "and L, _ = torch.eig(A) with:\nL_complex = torch.linalg.eigvals(A)",
    "solve": "X = torch.solve(B, A).solution should be replaced with:\n"
    "X = torch.linalg.solve(A, B)",
    "lstsq": "X, _ = torch.lstsq(B, A).solution[:A.size(1)] should be replaced with:\n"
    "X = torch.linalg.lstsq(A, B).solution",
    "matrix_rank": "Please use the `torch.linalg.matrix_rank` function instead. The parameter "
    "'symmetric' was renamed in `torch.linalg.matrix_rank()` to 'hermitian'.",
}


def make_removed(name: str) -> Callable[..., NoReturn]:
    """Make a function that raises an error with PyTorch's advice on its replacement."""

    def function(*_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(
            "This function was deprecated since version 1.9 and is now removed.\n" + ADVICE[name]
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Removed from PyTorch: calling it says what to use.\n\n{ADVICE[name]}\n\n"
        f">>> {name}()\nTraceback (most recent call last):\nRuntimeError: This function was ..."
    )
    return function


symeig, eig, solve, lstsq, matrix_rank = (make_removed(name) for name in ADVICE)
for _function in (symeig, eig, solve, lstsq):
    as_method(_function)


@as_method
@takes_out
def norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, *,
    dtype: DTypeLike = None,
) -> Tensor:  # fmt: skip
    """The norm of all elements as one vector, or of vectors along `dim`.

    Args:
        p: the exponent; "fro" is 2, and "nuc" the sum of a matrix's singular values.

    >>> norm(tensor([[3.0], [4.0]])), norm(tensor([3.0, -4.0]), 1)
    (tensor(5.), tensor(7.))
    """
    input = input if dtype is None else input.to(dtype)
    check_inexact("norm", input._array)
    dim = tuple(dim) if isinstance(dim, list) else dim
    if p == "nuc":
        if dim is None and input.ndim != 2:
            rows = {"input": tuple(input.shape)}
            raise ShapeError("norm", "the nuclear norm is of two axes: name them", rows)
        return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)
    if p not in ("fro", None) and not isinstance(p, int | float):
        raise InvalidValueError("norm", f"p must be 'fro', 'nuc' or a number, got {p!r}")
    return length(input, 2 if p in ("fro", None) else float(p), dim, keepdim)
