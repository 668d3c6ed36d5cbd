"""Results with several parts: named tuples that print as PyTorch's do.

>>> max(tensor([[1, 5], [7, 3]]), 1)
torch.return_types.max(
values=tensor([5, 7]),
indices=tensor([1, 0]))
"""

from __future__ import annotations

from typing import Any, NamedTuple


class ValuesIndices(NamedTuple):
    """Values and their indices."""

    values: Any
    indices: Any

    def __repr__(self) -> str:
        return format_result(self)

    # `max(x, 1).sum()` is a frequent slip: a bare AttributeError would name a tuple.
    def __getattr__(self, name: str) -> Any:
        class_name = type(self).__name__
        raise AttributeError(
            f"{class_name}: the result is a pair (values, indices) and has no attribute {name!r}; "
            f"take a part first: {class_name}(…).values"
        )


class SmallestLargest(NamedTuple):
    """The smallest and the largest element."""

    min: Any
    max: Any

    def __repr__(self) -> str:
        return format_result(self)


def format_result(result: Any) -> str:
    """Format the fields of a named tuple, one per line."""
    parts = ",\n".join(
        f"{name}={part!r}" for name, part in zip(result._fields, result, strict=True)
    )
    return f"torch.return_types.{type(result).__name__}(\n{parts})"


class aminmax(SmallestLargest):
    """What `aminmax` returns."""


class frexp(NamedTuple):
    """What `frexp` returns."""

    mantissa: Any
    exponent: Any

    def __repr__(self) -> str:
        return format_result(self)


class histogram(NamedTuple):
    """What `histogram` returns."""

    hist: Any
    bin_edges: Any

    def __repr__(self) -> str:
        return format_result(self)


class histogramdd(NamedTuple):
    """What `histogramdd` returns."""

    hist: Any
    bin_edges: Any

    def __repr__(self) -> str:
        return format_result(self)


class cummax(ValuesIndices):
    """What `cummax` returns."""


class cummin(ValuesIndices):
    """What `cummin` returns."""


class kthvalue(ValuesIndices):
    """What `kthvalue` returns."""


class max(ValuesIndices):
    """What `max` with a dim returns."""


class median(ValuesIndices):
    """What `median` with a dim returns."""


class min(ValuesIndices):
    """What `min` with a dim returns."""


class mode(ValuesIndices):
    """What `mode` returns."""


class nanmedian(ValuesIndices):
    """What `nanmedian` with a dim returns."""


class sort(ValuesIndices):
    """What `sort` returns."""


class topk(ValuesIndices):
    """What `topk` returns."""


# Of linear algebra ----------------------------------------------------------------------


class EigenPairs(NamedTuple):
    """A = V diag(w) V⁻¹: the eigenvalues w and the eigenvectors, the columns of V."""

    eigenvalues: Any
    eigenvectors: Any

    def __repr__(self) -> str:
        return format_result(self)


class Slogdet(NamedTuple):
    """det = sign · exp(logabsdet)."""

    sign: Any
    logabsdet: Any

    def __repr__(self) -> str:
        return format_result(self)


class OrthogonalTriangle(NamedTuple):
    """A = Q R."""

    Q: Any
    R: Any

    def __repr__(self) -> str:
        return format_result(self)


class PermutedTriangles(NamedTuple):
    """A = P L U."""

    P: Any
    L: Any
    U: Any

    def __repr__(self) -> str:
        return format_result(self)


class linalg_eig(EigenPairs):
    """What `linalg.eig` returns."""


class linalg_eigh(EigenPairs):
    """What `linalg.eigh` returns."""


class linalg_slogdet(Slogdet):
    """What `linalg.slogdet` returns."""


class slogdet(Slogdet):
    """What `slogdet` returns."""


class linalg_qr(OrthogonalTriangle):
    """What `linalg.qr` returns."""


class qr(OrthogonalTriangle):
    """What `qr` returns."""


class linalg_lu(PermutedTriangles):
    """What `linalg.lu` returns."""


class lu_unpack(PermutedTriangles):
    """What `lu_unpack` returns."""


class linalg_svd(NamedTuple):
    """A = U diag(S) Vh."""

    U: Any
    S: Any
    Vh: Any

    def __repr__(self) -> str:
        return format_result(self)


class svd(NamedTuple):
    """A = U diag(S) Vᴴ: the old form, with V itself."""

    U: Any
    S: Any
    V: Any

    def __repr__(self) -> str:
        return format_result(self)


class linalg_lstsq(NamedTuple):
    """The least-squares solution X, and its residuals."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any

    def __repr__(self) -> str:
        return format_result(self)


# From here on the fields have LAPACK's names and counting, as in PyTorch.
class linalg_lu_factor(NamedTuple):
    """L below the diagonal, U on and above it, and the exchanged rows, counted from 1."""

    LU: Any
    pivots: Any

    def __repr__(self) -> str:
        return format_result(self)


class linalg_lu_factor_ex(NamedTuple):
    """As `linalg_lu_factor`, and which diagonal element of U is the first 0 (0: none)."""

    LU: Any
    pivots: Any
    info: Any

    def __repr__(self) -> str:
        return format_result(self)


class linalg_ldl_factor(NamedTuple):
    """L below the diagonal, the blocks of D on it, and the exchanged rows, counted from 1."""

    LD: Any
    pivots: Any

    def __repr__(self) -> str:
        return format_result(self)


class linalg_ldl_factor_ex(NamedTuple):
    """As `linalg_ldl_factor`, and which block of D is the first 0 (0: none)."""

    LD: Any
    pivots: Any
    info: Any

    def __repr__(self) -> str:
        return format_result(self)


class linalg_cholesky_ex(NamedTuple):
    """The factor, and which leading minor is the first that is not positive-definite (0: none)."""

    L: Any
    info: Any

    def __repr__(self) -> str:
        return format_result(self)


class linalg_inv_ex(NamedTuple):
    """The inverse, and which pivot is the first 0 (0: none)."""

    inverse: Any
    info: Any

    def __repr__(self) -> str:
        return format_result(self)


class linalg_solve_ex(NamedTuple):
    """The solution, and which pivot is the first 0 (0: none)."""

    result: Any
    info: Any

    def __repr__(self) -> str:
        return format_result(self)


class geqrf(NamedTuple):
    """R on and above the diagonal, the reflectors below it, and their factors."""

    a: Any
    tau: Any

    def __repr__(self) -> str:
        return format_result(self)


class triangular_solve(NamedTuple):
    """The solution, and a copy of the coefficients."""

    solution: Any
    cloned_coefficient: Any

    def __repr__(self) -> str:
        return format_result(self)


PUBLIC_MODULE = "edutorch.return_types"
"""The module under which PyTorch's code and checkpoints find these classes."""

for _class in list(vars().values()):
    # pickle looks a class up by this name; the file itself may move.
    if isinstance(_class, type) and _class.__module__ == __name__:
        _class.__module__ = PUBLIC_MODULE
