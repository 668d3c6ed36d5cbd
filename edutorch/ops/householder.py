"""QR by Householder reflections, as LAPACK stores them: H = 1 - τ v vᴴ, v[i] = 1 in row i.

Householder 1958: a reflection maps a column to a multiple of (1, 0, 0, …); one reflection
per column reduces the matrix to triangular form.
"""

from __future__ import annotations

import math

from ..backends.numpy import Array, Namespace
from ..core import return_types
from ..core.composed import recorded_as, takes_out
from ..core.op import op
from ..core.tensor import Tensor
from ..errors import ShapeError
from .complex import conj
from .creation import eye
from .linalg import matmul
from .linalg_common import adjoint_of, check_matrix
from .rearrange import tril
from .reduction import sum


@op(outputs=("a", "tau"), method=False, public="geqrf")
def apply_householder(xp: Namespace, input: Array) -> tuple[Array, Array]:
    """R with the reflectors below its diagonal, and their factors: see `geqrf`."""
    batch = check_matrix("geqrf", input)
    m, n = input.shape[-2:]
    a = input.reshape((math.prod(batch), m, n)).copy()
    factors = xp.zeros((a.shape[0], min(m, n)), a.dtype)
    for j in range(min(m, n)):
        scale = xp.max(xp.abs(a[:, j:, j]), axis=-1)  # so that no square over- or underflows
        scale = xp.where((scale > 0) & xp.isfinite(scale), scale, xp.ones_like(scale))
        column = a[:, j:, j] / scale[:, None]
        first, rest = column[:, 0].copy(), column[:, 1:]
        tail = xp.sum(xp.abs(rest) ** 2, axis=-1)
        length = xp.sqrt(xp.abs(first) ** 2 + tail)
        length = xp.where(first.real >= 0, -length, length)  # away from `first`: nothing cancels
        is_reduced = (tail == 0) & (first.imag == 0)
        safe = xp.where(is_reduced, xp.ones_like(length), length)
        tau = xp.where(is_reduced, xp.zeros_like(first), (safe - first) / safe)
        v = xp.ones((a.shape[0], m - j), a.dtype)
        v[:, 1:] = rest / xp.where(is_reduced, xp.ones_like(first), first - safe)[:, None]
        right = a[:, j:, j + 1 :]
        along = xp.matmul(xp.conj(v)[:, None, :], right)
        right -= xp.conj(tau)[:, None, None] * v[:, :, None] * along
        a[:, j, j] = xp.where(is_reduced, first, length) * scale
        a[:, j + 1 :, j] = v[:, 1:]
        factors[:, j] = tau
    return a.reshape(input.shape), factors.reshape((*batch, min(m, n)))


@takes_out
def geqrf(input: Tensor) -> return_types.geqrf:
    """QR as LAPACK stores it: R on and above the diagonal, the reflectors of Q below it.

    `householder_product` computes Q from them, `ormqr` multiplies by it. Not differentiable,
    as in PyTorch: see `linalg.qr`.

    >>> geqrf(tensor([[3.0, 1.0], [4.0, 2.0]])).tau
    tensor([1.6000, 0.0000])
    """
    return return_types.geqrf(*apply_householder(input))


def reflectors(name: str, input: Tensor, tau: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return v and τ of each reflection, as a column and a scalar per matrix."""
    check_matrix(name, input)
    m, n = input.shape[-2:]
    k = tau.shape[-1] if tau.ndim else 0
    if k > n or tuple(tau.shape[:-1]) != tuple(input.shape[:-2]):
        raise ShapeError(
            name, "expected as many factors in `tau` as reflectors, at most one per column",
            {"input": tuple(input.shape), "tau": tuple(tau.shape)},
        )  # fmt: skip
    unit = eye(m, n, dtype=input.dtype, device=input.device)
    columns = tril(input, -1) + unit
    return [(columns[..., :, i : i + 1], tau[..., i, None, None]) for i in range(k)]


@takes_out
@recorded_as("LinalgHouseholderProductBackward0")
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first columns of Q = H₁ H₂ …, from the reflectors that `geqrf` returns.

    >>> Q = edutorch.linalg.householder_product(*geqrf(tensor([[3.0], [4.0]])))
    >>> Q
    tensor([[-0.6000],
            [-0.8000]])
    """
    name = "linalg.householder_product"
    steps = reflectors(name, A, tau)
    m, n = A.shape[-2:]
    if m < n:
        raise ShapeError(name, "expected at least as many rows as columns", {"A": tuple(A.shape)})
    Q = eye(m, n, dtype=A.dtype, device=A.device).expand(A.shape)
    for v, factor in reversed(steps):
        Q = Q - factor * matmul(v, matmul(adjoint_of(v), Q))
    return Q if steps else A.clone().copy_(Q)  # keeps A in the graph, with a gradient of 0


@takes_out
def orgqr(input: Tensor, tau: Tensor) -> Tensor:
    """The old name of `linalg.householder_product`.

    >>> orgqr(*geqrf(tensor([[3.0], [4.0]])))
    tensor([[-0.6000],
            [-0.8000]])
    """
    return householder_product(input, tau)


@takes_out
@recorded_as("OrmqrBackward0")
def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """Q C from the reflectors that `geqrf` returns, without forming Q.

    Args:
        left: False for C Q.
        transpose: Qᴴ instead of Q.

    >>> ormqr(*geqrf(tensor([[3.0], [4.0]])), tensor([[3.0], [4.0]]), transpose=True)
    tensor([[-5.],
            [ 0.]])
    """
    steps = reflectors("ormqr", input, tau)
    axis = -2 if left else -1
    if other.ndim < 2 or other.shape[axis] != input.shape[-2]:
        raise ShapeError(
            "ormqr", f"axis {axis} of `other` must have as many numbers as `input` has rows",
            {"input": tuple(input.shape), "other": tuple(other.shape)},
        )  # fmt: skip
    y = other
    if not steps:  # keeps the other two in the graph, with gradients of 0
        y = other + (sum(input[..., :0]) + sum(tau[..., :0]))
    for v, factor in steps if left == transpose else reversed(steps):
        factor = conj(factor) if transpose else factor
        if left:
            y = y - factor * matmul(v, matmul(adjoint_of(v), y))
        else:
            y = y - factor * matmul(matmul(y, v), adjoint_of(v))
    return y
