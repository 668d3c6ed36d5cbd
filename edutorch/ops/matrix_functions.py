"""Matrix functions: exponential, powers, chain products, tensor inverses, Vandermonde."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..backends.numpy import Array, Namespace
from ..core.op import op
from ..core.out_variants import takes_out
from ..core.precision import composed_in_float32
from ..core.tensor import Tensor
from ..errors import ShapeError
from .lapack import lapack
from .linalg_common import check_floating_or_complex, check_matrix, matrix_transpose

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


def matrix_exp_gradient(g: Any, input: Any) -> Any:
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


from .complex import conj  # noqa: E402
from .cumulative import cumprod  # noqa: E402
from .joining import cat  # noqa: E402
from .like import ones_like  # noqa: E402
from .linalg import matmul, mm  # noqa: E402
from .reduction import sum  # noqa: E402
from .shape import movedim  # noqa: E402  (rules may use any op)
from .solve import eye_like, inv, solve  # noqa: E402
from .views import expand, unsqueeze  # noqa: E402
