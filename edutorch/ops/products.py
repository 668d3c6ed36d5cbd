"""Further products and distances of vectors and matrices, composed of those in linalg.py."""

from __future__ import annotations

import builtins

from .. import dtypes
from ..backends.numpy import Array, Namespace
from ..core.composed import as_method, composed_in_float32, recorded_as, takes_out, with_twin
from ..core.op import op
from ..core.precision import widen
from ..core.shapes import normal_dim
from ..core.tensor import Tensor
from ..errors import DTypeError, ShapeError, ValueRangeError
from .arithmetic import mul
from .complex import conj
from .creation import empty
from .einsum import einsum_forward
from .joining import cat
from .linalg import add_scaled_product, bmm, dot
from .masking import where
from .reduction import check_inexact, sum
from .shape import atleast_2d
from .statistics import vector_norm
from .views import transpose

__all__ = ["addbmm", "addr", "adjoint", "block_diag", "dist", "ger", "outer", "renorm", "vdot"]


@op("n, m -> n m", promotion="promote", out=True)
def outer(xp: Namespace, input: Array, vec2: Array) -> Array:
    """The outer product of two vectors: y[i, j] = aᵢ bⱼ.

    >>> outer(tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    return mul(input[:, None], vec2)


outer.vjp(
    # `einsum` accepts mixed dtypes, as `outer` does
    input=lambda g, vec2: einsum_forward([g, vec2], "nm,m->n"),
    vec2=lambda g, input: einsum_forward([g, input], "nm,n->m"),
    latex={"input": r"g\,b", "vec2": r"g^\top a"},
)


@with_twin
@as_method
@takes_out
@composed_in_float32
@recorded_as("AddbmmBackward0")
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """The sum of a batch of matrix products added to `input`: y = beta · input + alpha · Σ b1 @ b2.

    >>> addbmm(tensor(1.0), ones(3, 1, 2), ones(3, 2, 1))
    tensor([[7.]])
    """
    products = bmm(batch1, batch2)
    return add_scaled_product("addbmm", input, sum(products, 0).to(products.dtype), beta, alpha)


@with_twin
@as_method
@takes_out
@composed_in_float32
@recorded_as("AddrBackward0")
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """An outer product added to `input`: y = beta · input + alpha · vec1 ⊗ vec2.

    >>> addr(tensor(1.0), tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor([[4., 5.],
            [7., 9.]])
    """
    dtype = dtypes.promote_types(dtypes.promote_types(vec1.dtype, vec2.dtype), input.dtype)
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if dtype.category < 2 and isinstance(factor, float):
            raise DTypeError(
                "addr", f"for integral tensors, {name} must not be a float, got {factor}",
                hint="convert the tensors first: x.float()",
            )  # fmt: skip
    if not input.dtype is vec1.dtype is vec2.dtype:  # a 0-d input is promoted as a tensor too
        input, vec1, vec2 = input.to(dtype), vec1.to(dtype), vec2.to(dtype)
    return add_scaled_product("addr", input, outer(vec1, vec2), beta, alpha)


@as_method
@takes_out
def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """The old name of `outer`.

    >>> ger(tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    return outer(input, vec2)


@as_method
@takes_out
@recorded_as("VdotBackward0")
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The dot product of two vectors, the first one conjugated: y = Σ āᵢ bᵢ.

    >>> vdot(tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor(11.)
    """
    return dot(conj(input), other)


@as_method
def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of each matrix; for real ones the transpose.

    >>> adjoint(tensor([[1.0, 2.0]]))
    tensor([[1.],
            [2.]])
    """
    if not input.ndim:
        return conj(input)
    if input.ndim < 2:
        raise ShapeError(
            "adjoint", "only supported on matrices or batches of matrices",
            {"input": tuple(input.shape)}, "make a matrix of a vector with x.unsqueeze(0)",
        )  # fmt: skip
    return conj(transpose(input, -2, -1))


def _matrix_adjoint(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix."""
    if self.ndim not in (0, 2):
        raise ShapeError(
            "H", "only supported on matrices", {"input": tuple(self.shape)},
            "for batches of matrices, use x.mH",
        )  # fmt: skip
    return adjoint(self) if self.ndim else conj(self)


Tensor.H = property(_matrix_adjoint)  # type: ignore[attr-defined]
Tensor.mH = property(adjoint)  # type: ignore[attr-defined]


def subtract_widened(x1: Tensor, x2: Tensor) -> Tensor:
    """x1 - x2, of two integer tensors in int64: 100 - (-100) is -56 in int8."""
    if x1.dtype.category == 1 and x2.dtype.category == 1:
        return x1.long() - x2.long()
    return x1 - x2


@as_method
@recorded_as("DistBackward0")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The distance of two tensors: the p-norm of their difference.

    >>> dist(tensor([3.0, 4.0]), tensor([0.0, 0.0]))
    tensor(5.)
    """
    return vector_norm(subtract_widened(input, other), p)


@with_twin
@as_method
@takes_out
@recorded_as("RenormBackward0")
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Scale each slice along `dim` whose p-norm exceeds `maxnorm` to that norm.

    Raises: DTypeError: integers.

    >>> renorm(tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if input.ndim < 2:
        raise ShapeError(
            "renorm", f"input needs at least 2 dimensions, got {input.ndim}",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    if p <= 0:
        raise ValueRangeError("renorm", f"non-positive norm not supported, got p={p}")
    if maxnorm < 0:
        raise ValueRangeError("renorm", f"expected maxnorm to be >= 0, got {maxnorm}")
    check_inexact("renorm", input._array)
    axis = normal_dim("renorm", dim, input.ndim)
    others = tuple(index for index in range(input.ndim) if index != axis)
    wide = widen(input)  # under autocast, too: the norm may leave the range of 16 bits
    norm = vector_norm(wide, p, others, True)
    is_long = norm > maxnorm
    factor = where(is_long, maxnorm / (where(is_long, norm, 1.0) + 1e-7), 1.0)
    return (wide * factor.to(wide.dtype)).to(input.dtype)


@recorded_as("BlockDiagBackward0")
def block_diag(*tensors: Tensor) -> Tensor:
    """A block-diagonal matrix of the given ones.

    >>> block_diag(tensor([[1, 2]]), tensor([[3]]))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    if any(tensor.ndim > 2 for tensor in tensors):
        raise ShapeError(
            "block_diag", "expected tensors with at most two axes",
            {f"tensors[{i}]": tuple(tensor.shape) for i, tensor in enumerate(tensors)},
        )  # fmt: skip
    blocks = [atleast_2d(tensor) for tensor in tensors]
    if not blocks:
        return empty(1, 0)
    width, start, rows = builtins.sum(block.shape[1] for block in blocks), 0, []
    for block in blocks:
        size, end = block.shape[0], start + block.shape[1]
        rows.append(
            cat([block.new_zeros((size, start)), block, block.new_zeros((size, width - end))], 1)
        )
        start = end
    return cat(rows, 0)
