"""A matrix as a product of simpler ones: Cholesky, QR, eigenvectors, singular values.

A node has one output, but these have several, each with a gradient. So the op returns
its parts joined into one long vector per matrix, and `parts` cuts them out again:
their gradients then meet in the vector's, and nothing else has to know about it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..backends.numpy import Array
from ..core.op import op
from ..core.tensor import Tensor
from ..errors import DTypeError, GradientError, LinAlgError, ShapeError

# What all of them share --------------------------------------------------------------------------


def need_matrix(name: str, input: Any, square: bool = False) -> tuple[int, ...]:
    """Return the axes in front of the matrices.

    Raises: ShapeError: not matrices, or not square. DTypeError: not float32 or float64.
    """
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise ShapeError(
            name, "expected a matrix or a batch of matrices", {"input": shape},
            "x.unsqueeze(-1) makes a column of a vector",
        )  # fmt: skip
    if square and shape[-1] != shape[-2]:
        raise ShapeError(
            name, f"expected square matrices, got {shape[-2]} rows and {shape[-1]} columns",
            {"input (... n n)": shape},
            "linalg.pinv, lstsq and svd take any shape",
        )  # fmt: skip
    dtype = getattr(input, "_array", input).dtype
    if dtype.name not in ("float32", "float64"):
        raise DTypeError(
            name, f"needs float32 or float64, got {dtype.name}", hint="convert with .float()"
        )
    return shape[:-2]


def singular(name: str, input: Any) -> LinAlgError:
    """The error for a matrix without an inverse."""
    return LinAlgError(
        name, "a matrix is singular: it has no inverse", {"input": tuple(input.shape)},
        "linalg.pinv and lstsq take any matrix; adding a little to the diagonal also helps",
    )  # fmt: skip


def joined(xp: Any, batch: tuple[int, ...], *matrices: Array) -> Array:
    """The numbers of several matrices (or vectors), as one vector per element of the batch."""
    rows = [each.reshape((*batch, math.prod(each.shape[len(batch) :]))) for each in matrices]
    return xp.concatenate(rows, axis=-1)


def parts(y: Any, shapes: Sequence[tuple[int, ...]]) -> Iterator[Any]:
    """Cut what `joined` has joined into matrices of these shapes."""
    batch, start = tuple(y.shape[:-1]), 0
    for shape in shapes:
        size = math.prod(shape)
        yield reshape(narrow(y, -1, start, size), (*batch, *shape))
        start += size


def turned(x: Any) -> Any:
    """The transpose of each matrix."""
    return transpose(x, -2, -1)


def divided(x: Any, gap: Any) -> Any:
    """x / gap, where 0 / 0 is 0: what does not count may be undetermined."""
    return x / where((gap == 0) & (x == 0), 1.0, gap)


def without_diagonal(x: Any) -> Any:
    return tril(x, -1) + triu(x, 1)


# Cholesky ----------------------------------------------------------------------------------------


@op(method=False)
def cholesky(xp: Any, input: Array, *, upper: bool = False) -> Array:
    """The lower triangle L with A = L Lᵀ, for a symmetric positive-definite A.

    Only the lower triangle of A is read (the upper one with `upper`, and Lᵀ returned).

    Raises: LinAlgError: a matrix is not positive-definite.

    >>> edutorch.linalg.cholesky(tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    need_matrix("linalg.cholesky", input, square=True)
    try:
        lower = xp.linalg.cholesky(xp.swapaxes(input, -1, -2) if upper else input)
    except xp.linalg.LinAlgError:
        raise LinAlgError(
            "linalg.cholesky", "a matrix is not positive-definite", {"input": input.shape},
            "x @ x.mT + eps * eye(n) is; look at the smallest of linalg.eigvalsh",
        ) from None  # fmt: skip
    return xp.swapaxes(lower, -1, -2) if upper else lower


def cholesky_gradient(g: Any, y: Any, upper: bool) -> Any:
    """½ (S + Sᵀ) with S = L⁻ᵀ Φ(Lᵀ g) L⁻¹, where Φ takes the lower triangle, half the diagonal."""
    g, lower = (turned(g), turned(y)) if upper else (g, y)
    both = matmul(turned(lower), tril(g))
    half = (tril(both) + tril(both, -1)) / 2
    left = solve_matrices(turned(lower), half)
    whole = solve_matrices(turned(lower), turned(left))
    return (whole + turned(whole)) / 2


cholesky.vjp(
    input=lambda g, y, upper: cholesky_gradient(g, y, upper),
    latex=r"L^{-\top}\,\Phi(L^\top g)\,L^{-1}",
)


# QR ----------------------------------------------------------------------------------------------


class QR(NamedTuple):
    """A = Q R."""

    Q: Tensor
    R: Tensor


def qr_shapes(shape: Sequence[int], complete: bool) -> list[tuple[int, ...]]:
    m, n = shape[-2:]
    k = m if complete else min(m, n)
    return [(m, k), (k, n)]


@op(method=False)
def qr_joined(xp: Any, input: Array, complete: bool) -> Array:
    """Q and R, joined: see `linalg.qr`."""
    batch = need_matrix("linalg.qr", input)
    return joined(xp, batch, *xp.linalg.qr(input, "complete" if complete else "reduced"))


def qr_gradient(g: Any, y: Any, input: Any, complete: bool) -> Any:
    """(gQ + Q M) R⁻ᵀ, where M mirrors the lower triangle of R gRᵀ - gQᵀ Q."""
    m, n = input.shape[-2:]
    if complete and m > n:
        raise GradientError(
            "linalg.qr", "mode 'complete' has no derivative for more rows than columns",
            {"A": tuple(input.shape)}, "use mode 'reduced'",
        )  # fmt: skip
    shapes = qr_shapes(input.shape, complete)
    (q, r), (g_q, g_r) = parts(y, shapes), parts(g, shapes)
    k = min(m, n)
    if n > k:  # A = [X Y] and R = [U W] with X = Q U, Y = Q W
        g_rest = g_r[..., :, k:]
        g_q = g_q + matmul(input[..., :, k:], turned(g_rest))
        r, g_r = r[..., :, :k], g_r[..., :, :k]
    both = matmul(r, turned(g_r)) - matmul(turned(g_q), q)
    mirrored = tril(both) + turned(tril(both, -1))
    g_a = turned(solve_matrices(r, turned(g_q + matmul(q, mirrored))))
    return cat([g_a, matmul(q, g_rest)], -1) if n > k else g_a


qr_joined.vjp(
    input=lambda g, y, input, complete: qr_gradient(g, y, input, complete),
    latex=r"(g_Q + Q\,M)\,R^{-\top}",
)


def qr(A: Tensor, mode: str = "reduced") -> QR:
    """A = Q R: Q has orthonormal columns, R is an upper triangle.

    Args:
        mode: "reduced" (Q is m × min(m, n)), "complete" (m × m), or "r" (Q is left empty).

    >>> Q, R = edutorch.linalg.qr(tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> allclose(Q @ R, tensor([[3.0, 1.0], [4.0, 2.0]]), atol=1e-6)
    True
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"linalg.qr: mode must be 'reduced', 'complete' or 'r', got {mode!r}")
    complete = mode == "complete"
    q, r = parts(qr_joined(A, complete), qr_shapes(A.shape, complete))
    return QR(q.new_empty(0) if mode == "r" else q, r)


# Eigenvectors ------------------------------------------------------------------------------------


class Eigh(NamedTuple):
    """A = V diag(w) Vᵀ."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@op(method=False)
def eigh_joined(xp: Any, input: Array, UPLO: str) -> Array:
    """Eigenvalues and eigenvectors, joined: see `linalg.eigh`."""
    batch = need_matrix("linalg.eigh", input, square=True)
    return joined(xp, batch, *xp.linalg.eigh(input, UPLO))


def eigh_gradient(g: Any, y: Any, input_shape: tuple[int, ...]) -> Any:
    """V (diag(gw) + VᵀgV / E) Vᵀ with E[i, j] = w[j] - w[i]."""
    n = input_shape[-1]
    (w, v), (g_w, g_v) = parts(y, [(n,), (n, n)]), parts(g, [(n,), (n, n)])
    gap = unsqueeze(w, -2) - unsqueeze(w, -1)
    inside = divided(without_diagonal(matmul(turned(v), g_v)), gap)
    return matmul(matmul(v, inside + diag_embed(g_w)), turned(v))


eigh_joined.vjp(
    input=lambda g, y, input_shape: eigh_gradient(g, y, input_shape),
    latex=r"V\left(\mathrm{diag}(g_w) + \tfrac{V^\top g_V}{w_j - w_i}\right)V^\top",
)


def eigh(A: Tensor, UPLO: str = "L") -> Eigh:
    """A = V diag(w) Vᵀ for a symmetric A, the eigenvalues w in ascending order.

    Only the lower triangle is read (with `UPLO="U"` the upper). The sign of each column
    of V is open, so only what does not depend on it has a meaningful gradient.

    >>> edutorch.linalg.eigh(tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    n = A.shape[-1] if A.ndim else 0
    return Eigh(*parts(eigh_joined(A, UPLO), [(n,), (n, n)]))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric matrices, ascending.

    >>> edutorch.linalg.eigvalsh(tensor([[0.0, 1.0], [1.0, 0.0]]))
    tensor([-1.,  1.])
    """
    return eigh(A, UPLO).eigenvalues


# Singular values ---------------------------------------------------------------------------------


class SVD(NamedTuple):
    """A = U diag(S) Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def svd_shapes(shape: Sequence[int], full_matrices: bool) -> list[tuple[int, ...]]:
    m, n = shape[-2:]
    k = min(m, n)
    return [(m, m), (k,), (n, n)] if full_matrices else [(m, k), (k,), (k, n)]


@op(method=False)
def svd_joined(xp: Any, input: Array, full_matrices: bool) -> Array:
    """U, S and Vh, joined: see `linalg.svd`."""
    batch = need_matrix("linalg.svd", input)
    return joined(xp, batch, *xp.linalg.svd(input, full_matrices))


def svd_gradient(g: Any, y: Any, input_shape: tuple[int, ...], full_matrices: bool) -> Any:
    """U (skew(UᵀgU)/E S + S skew(VᵀgV)/E + diag(gS)) Vᵀ with E[i, j] = s[j]² - s[i]²,
    and what leaves the space of the columns of U and V."""
    m, n = input_shape[-2:]
    k = min(m, n)
    shapes = svd_shapes(input_shape, full_matrices)
    (u, s, vh), (g_u, g_s, g_vh) = parts(y, shapes), parts(g, shapes)
    if full_matrices and bool((g_u[..., :, k:] != 0).any() or (g_vh[..., k:, :] != 0).any()):
        raise GradientError(
            "linalg.svd", f"the columns of U and V beyond the first {k} have no derivative",
            {"A": tuple(input_shape)}, "use full_matrices=False",
        )  # fmt: skip
    u, g_u, vt, g_vt = u[..., :, :k], g_u[..., :, :k], vh[..., :k, :], g_vh[..., :k, :]
    row, column = unsqueeze(s, -2), unsqueeze(s, -1)
    gap = (row - column) * (row + column)
    of_u, of_v = matmul(turned(u), g_u), matmul(vt, turned(g_vt))
    inside = divided(of_u - turned(of_u), gap) * row + column * divided(of_v - turned(of_v), gap)
    g_a = matmul(matmul(u, inside + diag_embed(g_s)), vt)
    if m > k:
        g_a = g_a + matmul(divided(g_u - matmul(u, of_u), row), vt)
    if n > k:
        g_a = g_a + matmul(u, divided(g_vt - matmul(turned(of_v), vt), column))
    return g_a


svd_joined.vjp(
    input=lambda g, y, input_shape, full_matrices: svd_gradient(g, y, input_shape, full_matrices),
    latex=r"U\left(\tfrac{\mathrm{skew}(U^\top g_U)}{s_j^2 - s_i^2}S"
    r" + S\tfrac{\mathrm{skew}(V^\top g_V)}{s_j^2 - s_i^2} + \mathrm{diag}(g_S)\right)V^\top",
)


def svd(A: Tensor, full_matrices: bool = True) -> SVD:
    """A = U diag(S) Vh: U and V have orthonormal columns, S descends and is not negative.

    The signs of the columns are open, and so is all of U and V beyond min(m, n) columns:
    only what does not depend on them has a meaningful gradient.

    >>> edutorch.linalg.svd(tensor([[0.0, 2.0], [3.0, 0.0]])).S
    tensor([3., 2.])
    """
    need_matrix("linalg.svd", A)
    return SVD(*parts(svd_joined(A, full_matrices), svd_shapes(A.shape, full_matrices)))


def svdvals(A: Tensor) -> Tensor:
    """The singular values of matrices, descending.

    >>> edutorch.linalg.svdvals(tensor([[0.0, 2.0], [3.0, 0.0]]))
    tensor([3., 2.])
    """
    return svd(A, full_matrices=False).S


from .arrange import diag_embed, tril, triu  # noqa: E402  (rules may use any op)
from .joining import cat  # noqa: E402
from .linalg import matmul  # noqa: E402
from .masks import where  # noqa: E402
from .movement import narrow, reshape, transpose, unsqueeze  # noqa: E402
from .solving import solve_matrices  # noqa: E402
