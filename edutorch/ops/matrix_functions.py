"""Functions of matrices: exponential, powers, chain products, determinants, tensor inverses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core import return_types
from ..core.composed import composed_in_float32, recorded_as, takes_out
from ..core.error_messages import is_any_true
from ..core.op import op
from ..core.tensor import Tensor, array_of
from ..errors import ShapeError
from .comparison import logical_and
from .complex import abs, conj, has_complex_dtype, imag, polar, real
from .creation import ones_like, zeros_like
from .cumulative import cumprod, cumsum, prod
from .decompositions import svd
from .joining import cat
from .linalg import matmul, mm
from .linalg_common import (
    check_floating_or_complex,
    check_matrix,
    lapack,
    matrix_transpose,
    zero_diagonal,
)
from .masking import where
from .rearrange import diag_embed
from .reduction import sum
from .shape import movedim
from .solve import eye_like, inv, solve
from .statistics import vector_norm
from .views import diagonal, expand, reshape, unsqueeze

# The exponential --------------------------------------------------------------------------------

PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0,
    40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
"""The Padé approximant: exp(x) ≈ p(x) / p(-x) for the polynomial p with these coefficients."""

MAX_NORM = 5.371920351148152
"""The norm up to which the Padé approximant is accurate to float64."""


WIDE = {
    "float16": "float64", "bfloat16": "float64", "float32": "float64", "complex64": "complex128",
}  # fmt: skip


@op(method=False, node="LinalgMatrixExpBackward0")
def matrix_exp(xp: Namespace, input: Array) -> Array:
    """The exponential of a matrix: 1 + A + A²/2 + A³/6 + …

    Scaling and squaring: A is halved until its norm is small, a Padé approximant gives its
    exponential, and repeated squaring undoes the halving: exp(A) = exp(A / 2)².

    Paper: Higham 2005, The Scaling and Squaring Method for the Matrix Exponential
    Revisited, https://doi.org/10.1137/04061101X

    >>> matrix_exp(tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    wide_dtype = WIDE.get(input.dtype.name)
    if wide_dtype:  # the coefficients span too large a range for shorter dtypes
        return matrix_exp.op.forward(xp, input.astype(wide_dtype)).astype(input.dtype)
    check_matrix("linalg.matrix_exp", input, square=True)
    n = input.shape[-1]
    if n < 2 or not input.size:
        return xp.exp(input)
    norm = xp.max(xp.sum(xp.abs(input), axis=-2), axis=-1)[..., None, None]
    halvings = xp.ceil(xp.log2(xp.maximum(norm / MAX_NORM, xp.ones_like(norm))))
    halvings = xp.where(xp.isfinite(halvings), halvings, xp.zeros_like(halvings))
    a = input / (2**halvings).astype(norm.dtype)
    square = xp.matmul(a, a)
    power, even, odd = xp.eye(n, dtype=a.dtype), 0 * a, 0 * a
    for i in range(0, len(PADE), 2):
        even, odd = even + PADE[i] * power, odd + PADE[i + 1] * power
        power = xp.matmul(power, square)
    odd = xp.matmul(a, odd)
    y = lapack(xp, "solve", even - odd, even + odd)
    for step in range(int(xp.max(halvings))):
        y = xp.where(step < halvings, xp.matmul(y, y), y)
    return y


def matrix_exp_gradient(g: ArrayOrTensor, input: ArrayOrTensor) -> Any:
    """The upper right block of exp [[Aᵀ, g], [0, Aᵀ]], the Fréchet derivative."""
    n = input.shape[-1]
    transposed = matrix_transpose(input)
    above = cat([transposed, g], -1)
    below = cat([transposed * 0, transposed], -1)
    return matrix_exp(cat([above, below], -2))[..., :n, n:]


matrix_exp.vjp(
    input=lambda g, input: matrix_exp_gradient(g, input),
    latex=r"\exp\begin{pmatrix}A^\top & g\\ 0 & A^\top\end{pmatrix}_{12}",
)


# Chain products -------------------------------------------------------------------------------


@takes_out
def matrix_power(A: Tensor, n: int) -> Tensor:
    """The n-th power of a matrix, of its inverse for negative n.

    >>> edutorch.linalg.matrix_power(tensor([[1.0, 1.0], [0.0, 1.0]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    check_matrix("linalg.matrix_power", A, square=True, any_dtype=n >= 0)
    if n < 0:
        return matrix_power(inv(A), -n)
    if n == 0:
        return A.clone().copy_(eye_like(A))  # keeps A in the graph, with a gradient of 0
    result: Tensor | None = None
    while n:  # squaring: A¹³ = A⁸ A⁴ A
        if n % 2:
            result = A if result is None else matmul(result, A)
        n //= 2
        A = matmul(A, A) if n else A
    assert result is not None
    return result


@takes_out
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices, in the cheapest order; the first or last may be a vector.

    >>> edutorch.linalg.multi_dot([ones(2, 3), ones(3, 4), ones(4)]).shape
    torch.Size([2])
    """
    if len(tensors) < 2:
        raise ShapeError("linalg.multi_dot", f"expected at least 2 tensors, got {len(tensors)}")
    row, column = tensors[0].ndim == 1, tensors[-1].ndim == 1
    chain = list(tensors)
    chain[0] = unsqueeze(chain[0], 0) if row else chain[0]
    chain[-1] = unsqueeze(chain[-1], -1) if column else chain[-1]
    y = _cheapest_order(chain, {})[1]()
    y = y.squeeze(-1) if column else y
    return y.squeeze(0) if row else y


def _cheapest_order(chain: list[Tensor], memo: dict[tuple[int, int], Any], start: int = 0) -> Any:
    """Return (cost, function) of the cheapest product of a chain; `known` is the memo table."""
    key = (start, len(chain))
    if len(chain) == 1:
        return 0, lambda: chain[0]
    if key not in memo:
        choices = []
        for cut in range(1, len(chain)):
            left = _cheapest_order(chain[:cut], memo, start)
            right = _cheapest_order(chain[cut:], memo, start + cut)
            cost_here = chain[0].shape[0] * chain[cut].shape[0] * chain[-1].shape[1]
            choices.append((left[0] + right[0] + cost_here, left[1], right[1]))
        cost, left, right = min(choices, key=lambda choice: choice[0])
        memo[key] = cost, lambda: mm(left(), right())
    return memo[key]


# Tensors as matrices ------------------------------------------------------------------------------


@takes_out
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of `x ↦ tensordot(A, x)`: the first `ind` axes of A are the rows.

    >>> edutorch.linalg.tensorinv(eye(6).reshape(2, 3, 6), ind=2).shape
    torch.Size([6, 2, 3])
    """
    if ind <= 0:
        raise ShapeError("linalg.tensorinv", f"expected a strictly positive integer, got {ind}")
    rows, columns = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if math.prod(rows) != math.prod(columns):
        raise ShapeError(
            "linalg.tensorinv",
            f"the first {ind} axes must have as many numbers as the others: "
            f"{math.prod(rows)} and {math.prod(columns)}",
            {"A": tuple(A.shape)},
        )
    return inv(A.reshape(math.prod(rows), math.prod(columns))).reshape((*columns, *rows))


@takes_out
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """The X with tensordot(A, X) = B.

    Args:
        dims: axes of A that are moved to its end first.

    >>> edutorch.linalg.tensorsolve(eye(6).reshape(2, 3, 6), ones(2, 3)).shape
    torch.Size([6])
    """
    if dims is not None:
        A = movedim(A, tuple(dims), tuple(range(-len(dims), 0)))
    rest = tuple(A.shape[B.ndim :])
    if math.prod(rest) != math.prod(B.shape) or math.prod(A.shape) != math.prod(rest) ** 2:
        raise ShapeError(
            "linalg.tensorsolve", "the axes of `A` behind those of `B` must have B's size",
            {"A": tuple(A.shape), "B": tuple(B.shape)},
        )  # fmt: skip
    size = math.prod(rest)
    return solve(A.reshape(size, size), B.reshape(-1)).reshape(rest)


# Vectors ----------------------------------------------------------------------------------------


@takes_out
@composed_in_float32
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The dot product of vectors along `dim`: Σ x̄ᵢ yᵢ, the first one conjugated.

    >>> edutorch.linalg.vecdot(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    check_floating_or_complex("linalg.vecdot", x)
    check_floating_or_complex("linalg.vecdot", y)
    return sum(conj(x) * y, dim)


@takes_out
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The Vandermonde matrix: y[i, j] = x[i]ʲ, for j below N.

    >>> edutorch.linalg.vander(tensor([2, 3]), N=3)
    tensor([[1, 2, 4],
            [1, 3, 9]])
    """
    columns = (x.shape[-1] if x.ndim else 1) if N is None else N
    if columns <= 1 and (N is not None or not x.ndim):
        raise ShapeError(
            "linalg.vander", f"N must be greater than 1, got {columns}", {"x": tuple(x.shape)}
        )
    x = x.long() if x.dtype.category < 2 else x
    x = x if x.ndim else x.reshape(1)
    steps = expand(unsqueeze(x, -1), (*x.shape, columns - 1))
    return cat([unsqueeze(ones_like(x), -1), cumprod(steps, -1)], -1)


# Determinants --------------------------------------------------------------------------------


@op(method=False, out=True, node="LinalgDetBackward0")
def det(xp: Namespace, A: Array) -> Array:
    """The determinant.

    >>> edutorch.linalg.det(tensor([[2.0, 1.0], [0.0, 4.0]]))
    tensor(8.)
    """
    check_matrix("linalg.det", A, square=True)
    return lapack(xp, "det", A)


def adjugate(A: Tensor) -> Tensor:
    """det(A) A⁻¹ from products and traces only, so it is differentiable everywhere.

    Faddeev and LeVerrier: M₁ = 1, Mₖ₊₁ = A Mₖ - tr(A Mₖ) / k. Accurate for small matrices only.
    """
    unit = eye_like(A)
    M = unit
    for k in range(1, A.shape[-1]):
        product = matmul(A, M)
        trace = sum(diagonal(product, 0, -2, -1), -1)
        M = product - unsqueeze(unsqueeze(trace / k, -1), -1) * unit
    return M if A.shape[-1] % 2 else -M


SMALL = 8
"""Up to this size the rounding errors of `adjugate` stay small."""


def cofactor_matrix(A: ArrayOrTensor) -> Any:
    """det(A) A⁻ᵀ, for singular matrices too: with A = U S Vᴴ, the product of all other s.

    It is accurate where the inverse is not. Where it has to be differentiable itself, small
    matrices use `adjugate`: U and V have no derivative where singular values are equal.
    """
    if isinstance(A, Tensor) and A.shape[-1] <= SMALL:
        return matrix_transpose(adjugate(A))
    u, s, vh = svd(A, full_matrices=False)
    n = s.shape[-1]
    grid = expand(unsqueeze(s, -2), (*s.shape[:-1], n, n))
    others = prod(zero_diagonal(grid) + diag_embed(s * 0 + 1), -1)
    sign = reshape(det(u) * det(vh), (*s.shape[:-1], 1, 1))
    return sign * conj(matmul(u * unsqueeze(others, -2), vh))


def det_gradient(y: ArrayOrTensor, A: ArrayOrTensor) -> Any:
    """The derivative of the determinant: y A⁻ᵀ where that is accurate, else the cofactors."""
    rows = vector_norm(A, 2, -1)
    tiny = math.sqrt(dtypes.finfo(dtypes.of(array_of(A).dtype)).eps)
    bound = prod(rows, -1)  # Hadamard's bound: the determinant for orthogonal rows
    flat = (abs(y) <= tiny * bound) & (bound < math.inf)
    column = reshape(y, (*y.shape, 1, 1))
    if not is_any_true(flat):
        return column * matrix_transpose(inv(A))
    flat, ones = reshape(flat, column.shape), rows * 0 + 1
    regular = where(flat, diag_embed(ones), A)  # regular placeholders for the other matrices
    others = where(flat, A, diag_embed(cumsum(ones, -1)))
    return where(flat, cofactor_matrix(others), column * matrix_transpose(inv(regular)))


det.vjp(
    A=lambda g, y, A: reshape(g, (*g.shape, 1, 1)) * det_gradient(y, A),
    latex=r"g\,y\,A^{-\top}",
)


@op(
    outputs=("logarithm", "sign"), method=False,
    public="linalg.slogdet linalg.det logdet det slogdet", node="LinalgSlogdetBackward0",
)  # fmt: skip
def slogdet_forward(xp: Namespace, input: Array) -> tuple[Array, Array]:
    """log det A = log |det A| + i · angle (real: without the angle), and the sign of det A."""
    check_matrix("linalg.slogdet", input, square=True)
    sign, logarithm = lapack(xp, "slogdet", input)
    if input.dtype.kind == "c":
        logarithm = (logarithm + 1j * xp.angle(sign)).astype(input.dtype)
    else:  # NumPy's sign of NaN is that of its factors
        sign = xp.where(xp.isnan(logarithm), logarithm, sign)
    return xp.asarray(logarithm), xp.asarray(sign)


def log_det_gradient(g: ArrayOrTensor, input: ArrayOrTensor, sign: ArrayOrTensor) -> Any:
    """g A⁻ᵀ; for a singular matrix the cofactors over 0: infinite, or NaN."""
    column = reshape(g, (*g.shape, 1, 1))
    singular = reshape(sign == 0, column.shape)
    if not is_any_true(singular):
        return column * matrix_transpose(inv(input))
    ones = ones_like(diagonal(input, 0, -2, -1))
    slopes = matrix_transpose(inv(where(singular, diag_embed(ones), input)))
    regular = diag_embed(cumsum(ones, -1))  # distinct singular values for `cofactor_matrix`
    slopes = where(singular, cofactor_matrix(where(singular, input, regular)) * math.inf, slopes)
    return where(logical_and(singular, column == 0), 0.0, slopes * column)


slogdet_forward.vjp(
    input=lambda g, input, sign: log_det_gradient(g, input, sign), latex=r"g\,A^{-\top}"
)


@takes_out
@recorded_as("LinalgSlogdetBackward0")
def slogdet(A: Tensor) -> return_types.linalg_slogdet:
    """The determinant's sign and log |det A|, where the determinant itself would overflow.

    The sign of a complex determinant is det / |det|. Singular matrices have 0 and -inf, and
    infinite derivatives (NaN where a cofactor is 0). With NaN in a matrix both results are NaN.

    >>> edutorch.linalg.slogdet(tensor([[0.0, 1.0], [1.0, 0.0]])).sign
    tensor(-1.)
    """
    logarithm, sign = slogdet_forward(A)
    if not has_complex_dtype(A):
        if logarithm.requires_grad:  # so does PyTorch's sign; its gradient is 0
            sign = where(zeros_like(sign, dtype=dtypes.bool), logarithm, sign)
        return return_types.linalg_slogdet(sign, logarithm)
    size, angle = real(logarithm), imag(logarithm)
    sign = where(sign == 0, 0, polar(ones_like(angle), angle))
    return return_types.linalg_slogdet(sign, size)
