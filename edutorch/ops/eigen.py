"""Eigenvalues of general square matrices; for symmetric ones see decompositions.py."""

from __future__ import annotations

from typing import Any

from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core import return_types
from ..core.composed import recorded_as, takes_out
from ..core.op import op
from ..core.tensor import Tensor
from ..dtypes import of as dtype_of
from .cholesky import cholesky
from .complex import conj, imag, real
from .decompositions import eigh
from .linalg import matmul
from .linalg_common import (
    adjoint_of,
    check_matrix,
    check_phase_invariance,
    divide_by_gap,
    join_matrices,
    lapack,
    split_matrices,
    used_vectors,
    with_conjugate_gradients,
    zero_diagonal,
)  # fmt: skip
from .rearrange import diag_embed
from .solve import solve_forward, solve_triangular
from .views import diagonal, unsqueeze

__all__ = ["lobpcg"]


@op(method=False, public="linalg.eig")
def eig_forward(xp: Namespace, input: Array) -> Array:
    """Eigenvalues and eigenvectors, joined: see `linalg.eig`."""
    batch = check_matrix("linalg.eig", input, square=True)
    dtype = dtype_of(input.dtype).to_complex().numpy
    w, v = lapack(xp, "eig", input)
    return join_matrices(xp, batch, w.astype(dtype), v.astype(dtype))


@with_conjugate_gradients
def eig_gradient(g: ArrayOrTensor, y: ArrayOrTensor, input_shape: tuple[int, ...]) -> Any:
    """V⁻ᴴ (diag(gw) + (VᴴgV - VᴴV diag(VᴴgV)) / E*) Vᴴ with E[i, j] = w[j] - w[i].

    The second term comes from the normalization of the vectors to length 1.
    """
    n = input_shape[-1]
    (w, v), (g_w, g_v) = split_matrices(y, [(n,), (n, n)]), split_matrices(g, [(n,), (n, n)])
    v_adjoint = adjoint_of(v)
    turning = matmul(v_adjoint, g_v)
    along = diagonal(turning, 0, -2, -1)
    check_phase_invariance("linalg.eig", imag(along))
    turning = turning - matmul(v_adjoint, v) * unsqueeze(real(along), -2)
    gap = conj(unsqueeze(w, -2) - unsqueeze(w, -1))
    inside = divide_by_gap(zero_diagonal(turning), gap, used_vectors(g, g_v)) + diag_embed(g_w)
    return solve_forward(v_adjoint, matmul(inside, v_adjoint))


eig_forward.vjp(
    input=lambda g, y, input_shape: eig_gradient(g, y, input_shape),
    latex=r"V^{-H}\left(\mathrm{diag}(g_w)"
    r" + \tfrac{V^H g_V - V^H V\,\mathrm{diag}(V^H g_V)}{(w_j - w_i)^*}\right)V^H",
)


@takes_out
@recorded_as("LinalgEigBackward0")
def eig(A: Tensor) -> return_types.linalg_eig:
    """A = V diag(w) V⁻¹ for a square A that has as many eigenvectors as rows.

    Both are complex, for real A too: a rotation has no real eigenvectors. The columns of V
    have length 1 and an arbitrary phase: only a loss that does not depend on it has a
    meaningful gradient.

    >>> edutorch.linalg.eig(tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """
    n = A.shape[-1] if A.ndim else 0
    return return_types.linalg_eig(*split_matrices(eig_forward(A), [(n,), (n, n)]))


@takes_out
@recorded_as("LinalgEigBackward0")
def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of square matrices, complex and in no particular order.

    >>> edutorch.linalg.eigvals(tensor([[0.0, -1.0], [1.0, 0.0]]))
    tensor([0.+1.j, 0.-1.j])
    """
    return eig(A).eigenvalues


def lobpcg(
    A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None,
    n: int | None = None, iK: Tensor | None = None, niter: int | None = None,
    tol: float | None = None, largest: bool | None = None, method: str | None = None,
    tracker: Any = None, ortho_iparams: Any = None, ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The k largest (or smallest) eigenvalues of a symmetric A and their vectors.

    With B, those of A x = w B x. PyTorch approximates them iteratively; here all eigenvalues
    are computed, so the k returned ones are exact, and the arguments of the iteration
    (iK, niter, tol, method, …) are ignored.

    Args:
        k: how many; by default as many as X has columns, or 1.
        largest: False for the smallest.

    >>> lobpcg(diag(tensor([1.0, 5.0, 3.0])), 2)[0]
    tensor([5., 3.])
    """
    check_matrix("lobpcg", A, square=True)
    k = k or n or (X.shape[-1] if X is not None else 1)
    lower = None
    if B is not None:  # with B = L Lᴴ: L⁻¹ A L⁻ᴴ has the same eigenvalues
        lower = cholesky(B)
        A = solve_triangular(lower, A, upper=False)
        A = solve_triangular(adjoint_of(lower), A, upper=True, left=False)
    w, v = eigh(A)
    descending = largest is None or largest
    w, v = (w.flip(-1), v.flip(-1)) if descending else (w, v)
    if lower is not None:
        v = solve_triangular(adjoint_of(lower), v, upper=True)
    return w[..., :k], v[..., :, :k]
