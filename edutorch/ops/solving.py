"""Matrices undone: inverse, determinant, systems of equations, least squares; and powers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..backends.numpy import Array
from ..core.op import op
from ..core.tensor import Tensor
from ..errors import ShapeError
from .decompositions import need_matrix, singular, svdvals, turned


@op(method=False)
def inv(xp: Any, input: Array) -> Array:
    """The inverse: A⁻¹ A = 1.

    Raises: LinAlgError: a matrix is singular.

    >>> edutorch.linalg.inv(tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    need_matrix("linalg.inv", input, square=True)
    try:
        return xp.linalg.inv(input)
    except xp.linalg.LinAlgError:
        raise singular("linalg.inv", input) from None


inv.vjp(
    input=lambda g, y: -matmul(matmul(turned(y), g), turned(y)),
    latex=r"-A^{-\top}\,g\,A^{-\top}",
)


@op(method=False)
def solve_matrices(xp: Any, input: Array, other: Array) -> Array:
    """The X with A X = B: see `linalg.solve`."""
    need_matrix("linalg.solve", input, square=True)
    try:
        return xp.linalg.solve(input, other)
    except xp.linalg.LinAlgError:
        raise singular("linalg.solve", input) from None


solve_matrices.vjp(
    input=lambda g, y, input: -matmul(solve_matrices(turned(input), g), turned(y)),
    other=lambda g, input: solve_matrices(turned(input), g),
    latex={"input": r"-A^{-\top} g\,X^\top", "other": r"A^{-\top} g"},
)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The X with A X = B; with `left=False`, X A = B.

    Args:
        B: matrices, or vectors: one (n,), or one for each matrix of A's batch.

    Raises: LinAlgError: a matrix is singular. ShapeError: the shapes do not fit.

    >>> edutorch.linalg.solve(tensor([[2.0, 0.0], [0.0, 4.0]]), tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    batch = need_matrix("linalg.solve", A, square=True)
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    if vector:
        B = unsqueeze(B, -1)
    axis = -2 if left or vector else -1
    if not B.ndim or B.shape[axis] != A.shape[-1]:
        raise ShapeError(
            "linalg.solve", f"axis {axis} of `B` must have A's size, {A.shape[-1]}",
            {"A": tuple(A.shape), "B": tuple(B.shape)},
        )  # fmt: skip
    batch = tuple(broadcast_shapes(batch, tuple(B.shape[:-2])))
    A = A.expand((*batch, *A.shape[-2:]))
    B = B.expand((*batch, *B.shape[-2:]))
    if not left and not vector:
        return turned(solve_matrices(turned(A), turned(B)))
    X = solve_matrices(A if left else turned(A), B)
    return X.squeeze(-1) if vector else X


# Determinants ------------------------------------------------------------------------------------


@op(method=False)
def det(xp: Any, input: Array) -> Array:
    """The determinant: how much a matrix stretches volumes.

    Its derivative, y A⁻ᵀ, is computed for matrices that have an inverse.

    >>> edutorch.linalg.det(tensor([[2.0, 1.0], [0.0, 4.0]]))
    tensor(8.)
    """
    need_matrix("linalg.det", input, square=True)
    return xp.linalg.det(input)


det.vjp(
    input=lambda g, y, input: reshape(g * y, (*y.shape, 1, 1)) * turned(inv(input)),
    latex=r"g\,y\,A^{-\top}",
)


class Slogdet(NamedTuple):
    """det = sign · exp(logabsdet)."""

    sign: Tensor
    logabsdet: Tensor


@op(outputs=("logabsdet", "sign"), method=False)
def log_abs_det(xp: Any, input: Array) -> tuple[Array, Array]:
    """log |det A| and the sign of det A: see `linalg.slogdet`."""
    need_matrix("linalg.slogdet", input, square=True)
    sign, logarithm = xp.linalg.slogdet(input)
    return xp.asarray(logarithm), xp.asarray(sign)


log_abs_det.vjp(
    input=lambda g, input: reshape(g, (*g.shape, 1, 1)) * turned(inv(input)),
    latex=r"g\,A^{-\top}",
)


def slogdet(A: Tensor) -> Slogdet:
    """The determinant's sign and log |det A|, where the determinant itself would overflow.

    >>> edutorch.linalg.slogdet(tensor([[0.0, 1.0], [1.0, 0.0]]))
    Slogdet(sign=tensor(-1.), logabsdet=tensor(0.))
    """
    logarithm, sign = log_abs_det(A)
    return Slogdet(sign, logarithm)


# Any shape ---------------------------------------------------------------------------------------


@op(method=False)
def pinv(xp: Any, input: Array, rcond: float | None = None) -> Array:
    """The pseudoinverse: the inverse of what a matrix does not send to 0.

    Args:
        rcond: singular values below `rcond` times the largest count as 0
            (by default the larger size times the type's precision).

    >>> edutorch.linalg.pinv(tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    need_matrix("linalg.pinv", input)
    if rcond is None:
        rcond = max(input.shape[-2:]) * float(xp.finfo(input.dtype).eps)
    u, s, vh = xp.linalg.svd(input, False)
    if not s.shape[-1]:
        return xp.zeros((*input.shape[:-2], input.shape[-1], input.shape[-2]), input.dtype)
    counts = s > rcond * xp.max(s, axis=-1, keepdims=True)
    inverse = xp.where(counts, 1 / xp.where(counts, s, 1), 0).astype(input.dtype)
    v, ut = xp.swapaxes(vh, -1, -2), xp.swapaxes(u, -1, -2)
    return xp.matmul(v * inverse[..., None, :], ut)


def pinv_gradient(g: Any, y: Any, input: Any) -> Any:
    """-PᵀgPᵀ + (1 - A P) gᵀ P Pᵀ + PᵀP gᵀ (1 - P A)."""
    turn, gt = turned(y), turned(g)
    outside = matmul(matmul(gt, y), turn)  # in the space of the rows
    inside = matmul(matmul(turn, y), gt)
    first = matmul(matmul(turn, g), turn)
    second = outside - matmul(input, matmul(y, outside))
    third = inside - matmul(matmul(inside, y), input)
    return second + third - first


pinv.vjp(
    input=lambda g, y, input: pinv_gradient(g, y, input),
    latex=r"-P^\top g P^\top + (1 - AP)\,g^\top P P^\top + P^\top P\,g^\top (1 - PA)",
)


class Lstsq(NamedTuple):
    """The best X, and how good it is."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Lstsq:
    """The X for which A X comes closest to B: the least Σ (A X - B)², and the shortest such X.

    Only the solution and the residuals have gradients. There are residuals where A has
    more rows than columns.

    Args:
        rcond: singular values below `rcond` times the largest count as 0.
        driver: any of PyTorch's names; all give what its "gelsd" gives.

    >>> edutorch.linalg.lstsq(tensor([[2.0], [0.0]]), tensor([[4.0], [1.0]])).solution
    tensor([[2.]])
    """
    need_matrix("linalg.lstsq", A)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise ValueError(f"linalg.lstsq: no driver is named {driver!r}")
    m, n = A.shape[-2:]
    if B.ndim < 2 or B.shape[-2] != m:
        raise ShapeError(
            "linalg.lstsq", f"axis -2 of `B` must have as many rows as A, {m}",
            {"A (... m n)": tuple(A.shape), "B (... m k)": tuple(B.shape)},
        )  # fmt: skip
    X = matmul(pinv(A, rcond), B)
    residuals = sum((matmul(A, X) - B) ** 2, -2) if m > n else B.new_empty(0)
    s = svdvals(A).detach()
    if rcond is None:
        rcond = max(m, n) * finfo(A.dtype).eps
    rank = sum(s > rcond * amax(s, -1, True), -1)
    return Lstsq(X, residuals, rank, s)


# Products of many --------------------------------------------------------------------------------


def matrix_power(A: Tensor, n: int) -> Tensor:
    """A · A · … · A, n times; a negative n multiplies inverses.

    >>> edutorch.linalg.matrix_power(tensor([[1.0, 1.0], [0.0, 1.0]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    need_matrix("linalg.matrix_power", A, square=True)
    if n < 0:
        return matrix_power(inv(A), -n)
    result: Tensor | None = None
    while n:  # squaring: A¹³ = A⁸ A⁴ A
        if n % 2:
            result = A if result is None else matmul(result, A)
        n //= 2
        A = matmul(A, A) if n else A
    if result is None:
        return diag_embed(ones_like(A[..., 0]))
    return result


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices, multiplied in the cheapest order; a vector may begin or end it.

    >>> edutorch.linalg.multi_dot([ones(2, 3), ones(3, 4), ones(4)]).shape
    torch.Size([2])
    """
    if len(tensors) < 2:
        raise ShapeError("linalg.multi_dot", f"expected at least 2 tensors, got {len(tensors)}")
    row, column = tensors[0].ndim == 1, tensors[-1].ndim == 1
    chain = list(tensors)
    chain[0] = unsqueeze(chain[0], 0) if row else chain[0]
    chain[-1] = unsqueeze(chain[-1], -1) if column else chain[-1]
    y = _cheapest(chain, {})[1]()
    y = y.squeeze(-1) if column else y
    return y.squeeze(0) if row else y


def _cheapest(chain: list[Tensor], known: dict[tuple[int, int], Any], start: int = 0) -> Any:
    """Return (cost, how to compute it) of a chain; `known` holds those of its pieces."""
    key = (start, len(chain))
    if len(chain) == 1:
        return 0, lambda: chain[0]
    if key not in known:
        choices = []
        for cut in range(1, len(chain)):
            left = _cheapest(chain[:cut], known, start)
            right = _cheapest(chain[cut:], known, start + cut)
            own = chain[0].shape[0] * chain[cut].shape[0] * chain[-1].shape[1]
            choices.append((left[0] + right[0] + own, left[1], right[1]))
        cost, left, right = min(choices, key=lambda choice: choice[0])
        known[key] = cost, lambda: mm(left(), right())
    return known[key]


from ..core.shapes import broadcast_shapes  # noqa: E402
from ..dtypes import finfo  # noqa: E402
from .arrange import diag_embed  # noqa: E402  (rules may use any op)
from .like import ones_like  # noqa: E402
from .linalg import matmul, mm  # noqa: E402
from .movement import reshape, unsqueeze  # noqa: E402
from .reduction import amax, sum  # noqa: E402
