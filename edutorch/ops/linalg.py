"""Products of vectors and matrices."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .. import dtypes
from ..backends.blas import LONG, LONG_SIDE, interruptible
from ..backends.kernel_registry import slot
from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core.composed import as_method, composed_in_float32, recorded_as, takes_out, with_twin
from ..core.op import op
from ..core.shapes import distinct_dims
from ..core.tensor import PLAIN_TENSORS, Tensor
from ..errors import ArgumentError, DTypeError, InvalidValueError, ShapeError, warn
from ..modes import DEFAULT, NO_GRAD, current
from .arithmetic import add, mul
from .elementwise import safe_sqrt
from .rearrange import roll
from .statistics import vector_norm
from .views import diagonal, transpose, unsqueeze

__all__ = [
    "addmm", "addmv", "baddbmm", "bmm", "cdist", "cross", "dot", "inner", "kron", "matmul", "mm",
    "mv", "tensordot", "trace",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

ROW_PRODUCT = slot("ROW_PRODUCT")
"""The kernel of the product of one row and a large matrix."""


@op(
    promotion="same", dtypes="ifc", out=True,
    node="MmBackward0 if a_input.ndim == 2 == a_other.ndim else "
    "MatmulBackward0 if a_other.ndim != 1 or a_input.ndim > 2 else "
    "MvBackward0 if a_input.ndim == 2 else DotBackward0",
)  # fmt: skip
def matmul(xp: Namespace, input: Array, other: Array) -> Array:
    """The matrix product: y[i, j] = Σₖ a[i, k] · b[k, j].

    A vector on the left is a row, on the right a column; the axes before the last two
    are batch axes and broadcast.

    >>> matmul(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    if not input.ndim or not other.ndim:
        raise ShapeError(
            "matmul", "both arguments need at least one axis",
            {"input": input.shape, "other": other.shape}, "use input * other for a number",
        )  # fmt: skip
    try:
        return matrix_product(xp, input, other)
    except ValueError:
        raise no_product_error(input.shape, other.shape) from None


def no_product_error(left: ArrayOrTensor, right: ArrayOrTensor) -> ShapeError:
    """Make the error for shapes without a matrix product, with a hint at what may be meant."""
    row = ("k", "n k", "... n k")[min(len(left), 3) - 1]
    column = ("k", "k m", "... k m")[min(len(right), 3) - 1]
    rows = {f"input ({row})": left, f"other ({column})": right}
    rows_of_right = right[-2] if len(right) > 1 else right[0]
    if left[-1] == rows_of_right:
        batches = f"{left[:-2]} and {right[:-2]}"
        return ShapeError("matmul", f"the batch axes {batches} cannot be broadcast together", rows)
    hint = None
    if len(right) > 1 and left[-1] == right[-1]:
        hint = "did you mean input @ other.mT?"
    elif len(left) > 1 and left[-2] == rows_of_right:
        hint = "did you mean input.mT @ other?"
    message = f"axis k is {left[-1]} in `input` but {rows_of_right} in `other`"
    return ShapeError("matmul", message, rows, hint)


def matrix_product(xp: Namespace, left: Array, right: Array) -> Array:
    """The matrix product. 16-bit floats are accumulated in float32 and rounded once."""
    if left.itemsize == 2 and left.dtype.kind not in "iu":
        y = matrix_product(xp, left.astype("float32"), right.astype("float32"))
        return y.astype(left.dtype)
    if left.size > LONG_SIDE or right.size > LONG_SIDE:
        return long_product(xp, left, right)
    if left.ndim == right.ndim == 2:
        if left.shape[1] == 1 and (left.size == 1 or right.size == 1):
            return left * right  # BLAS skips a factor of 0, which would hide 0 · NaN
        return left.dot(right)  # the same for matrices, in half the time for small ones
    if left.ndim == right.ndim == 1:
        return left.dot(right)
    return xp.matmul(left, right)


def long_product(xp: Namespace, left: Array, right: Array) -> Array:
    """The product of large factors, in another thread if it may take a second."""
    if left.size == left.shape[-1] and right.ndim == 2:  # one row
        y = ROW_PRODUCT(left.reshape(1, -1), right)
        if y is not None:
            return y.reshape(*left.shape[:-1], -1)
    rows = left.shape[-2] if left.ndim > 1 else 1
    columns = right.shape[-1] if right.ndim > 1 else 1
    work = max(left.size * columns, right.size * rows)
    multiply = left.dot if left.ndim == right.ndim == 2 else functools.partial(xp.matmul, left)
    if work < (LONG // 16 if left.dtype.kind in "iu" else LONG):  # BLAS has no integers
        return multiply(right)
    return interruptible(multiply, right)


def matmul_left_gradient(
    g: ArrayOrTensor, input_shape: tuple[int, ...], other: ArrayOrTensor
) -> Any:
    """The gradient of the left factor: g · bᵀ (the engine sums broadcast batches)."""
    if len(other.shape) == 1:
        return mul(unsqueeze(g, -1), other) if len(input_shape) > 1 else g * other
    if len(input_shape) == 1:
        if len(other.shape) == 2:
            return matmul(other, g)
        return matmul(other, unsqueeze(g, -1))[..., 0]
    return matmul(g, transpose(other, -2, -1))


def matmul_right_gradient(
    g: ArrayOrTensor, input: ArrayOrTensor, other_shape: tuple[int, ...]
) -> Any:
    """The gradient of the right factor: aᵀ · g (the engine sums broadcast batches)."""
    if len(input.shape) == 1:
        if len(other_shape) == 1:
            return g * input
        return mul(unsqueeze(input, -1), unsqueeze(g, -2))
    if len(other_shape) == 1:
        if len(input.shape) == 2:
            return matmul(g, input)  # one row: gᵀ a
        return matmul(transpose(input, -2, -1), unsqueeze(g, -1))[..., 0]
    return matmul(transpose(input, -2, -1), g)


matmul.vjp(
    input=lambda g, input_shape, other: matmul_left_gradient(g, input_shape, other),
    other=lambda g, input, other_shape: matmul_right_gradient(g, input, other_shape),
    latex={"input": r"g\,B^\top", "other": r"A^\top g"},
)


@op("n k, k m -> n m", promotion="same", dtypes="ifc", out=True)
def mm(xp: Namespace, input: Array, mat2: Array) -> Array:
    """The product of two matrices.

    >>> mm(tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    return matrix_product(xp, input, mat2)


mm.vjp(
    input=lambda g, mat2: mm(g, mat2.T),
    mat2=lambda g, input: mm(input.T, g),
    latex={"input": r"g\,B^\top", "mat2": r"A^\top g"},
)


@op("b n k, b k m -> b n m", promotion="same", dtypes="ifc", out=True)
def bmm(xp: Namespace, input: Array, mat2: Array) -> Array:
    """The products of two batches of matrices.

    >>> bmm(ones(2, 1, 3), ones(2, 3, 1)).shape
    torch.Size([2, 1, 1])
    """
    return matrix_product(xp, input, mat2)


bmm.vjp(
    input=lambda g, mat2: bmm(g, transpose(mat2, -2, -1)),
    mat2=lambda g, input: bmm(transpose(input, -2, -1), g),
    latex={"input": r"g\,B^\top", "mat2": r"A^\top g"},
)


@op("n k, k -> n", promotion="same", dtypes="ifc", out=True)
def mv(xp: Namespace, input: Array, vec: Array) -> Array:
    """The product of a matrix and a vector.

    >>> mv(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    return matrix_product(xp, input, vec)


mv.vjp(
    input=lambda g, vec: mul(unsqueeze(g, -1), vec),
    vec=lambda g, input: mv(input.T, g),
    latex={"input": r"g\,v^\top", "vec": r"A^\top g"},
)


@op("n, n ->", promotion="same", dtypes="ifc", out=True)
def dot(xp: Namespace, input: Array, tensor: Array) -> Array:
    """The product of two vectors: y = Σ aᵢ bᵢ.

    >>> dot(tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor(11.)
    """
    return matrix_product(xp, input, tensor)


dot.vjp(
    input=lambda g, tensor: g * tensor,
    tensor=lambda g, input: g * input,
    latex={"input": r"g\,b", "tensor": r"g\,a"},
)


# A product added to a tensor ---------------------------------------------------------------------


@op(
    promotion="same", dtypes="f", method=False, public="addmm baddbmm addmv",
    node="AddmmBackward0 if a_left.ndim == 2 == a_right.ndim else "
    "BaddbmmBackward0 if a_left.ndim == 3 else AddmvBackward0",
)  # fmt: skip
def add_product(
    xp: Namespace, left: Array, right: Array, input: Array, beta: float, alpha: float
) -> Array:
    """A product added to a tensor, in one op: y = beta · input + alpha · left @ right."""
    y = matrix_product(xp, left, right)
    y = y if alpha == 1 else scale(y, alpha)
    return y if beta == 0 else y + (input if beta == 1 else scale(input, beta))


def scale(x: Any, factor: float) -> Any:
    """Return factor · x in the dtype of x: an array of bfloat16 times a float has float32."""
    if factor == 1:
        return x
    return x * factor if isinstance(x, Tensor) else x * x.dtype.type(factor)


add_product.vjp(
    input=lambda g, beta: scale(g, beta),
    left=lambda g, left_shape, right, alpha: matmul_left_gradient(
        scale(g, alpha), left_shape, right
    ),
    right=lambda g, left, right_shape, alpha: matmul_right_gradient(
        scale(g, alpha), left, right_shape
    ),
    latex={
        "input": r"\beta\,g", "left": r"\alpha\,g\,B^\top", "right": r"\alpha\,A^\top g"
    },
)  # fmt: skip


def in_one_op(*dimensions: int) -> Callable[[F], F]:
    """Let a function call `add_product` for a product of ordinary tensors of these dimensions.

    All else, and every error, is left to the function: other dtypes, modes, subclasses.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def called(*args: Any, **named: Any) -> Any:
            if len(args) != 3 or not can_add_product(*args, dimensions):
                return function(*args, **named)
            input, left, right = args
            if not named:
                return add_product(left, right, input, 1, 1)
            if named.keys() <= SCALES and NUMBERS.issuperset(map(type, named.values())):
                beta, alpha = named.get("beta", 1), named.get("alpha", 1)
                return add_product(left, right, input, beta, alpha)
            return function(*args, **named)

        return called  # type: ignore[return-value]

    return decorate


SCALES, NUMBERS = {"alpha", "beta"}, {int, float}


def can_add_product(input: Any, left: Any, right: Any, dimensions: tuple[int, ...]) -> bool:
    """Return True if three operands are ordinary tensors whose shapes fit `add_product`."""
    mode = current()
    if mode is not DEFAULT and mode is not NO_GRAD:
        return False
    if not PLAIN_TENSORS.issuperset((input.__class__, left.__class__, right.__class__)):
        return False
    a, b, y = left._array, right._array, input._array
    if not a.__class__ is b.__class__ is y.__class__ is np.ndarray:
        return False
    if not a.dtype is b.dtype is y.dtype or a.dtype.char not in "fd":
        return False
    if (a.ndim, b.ndim) != dimensions or a.shape[:-2] != b.shape[:-2]:
        return False
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        return False
    shape = (*a.shape[:-1], b.shape[-1]) if b.ndim > 1 else a.shape[:-1]
    if y.shape == shape or y.shape == shape[-1:]:  # as usual: a matrix, or a bias
        return True
    sizes = zip(reversed(y.shape), reversed(shape), strict=False)
    return y.ndim <= len(shape) and all(size in (1, whole) for size, whole in sizes)


# Composed of the products above ------------------------------------------------------------------


def add_scaled_product(
    name: str, input: Tensor, product: Tensor, beta: float, alpha: float
) -> Tensor:
    """beta · input + alpha · product; with beta = 0 the input is ignored, even if it is NaN.

    `input` is broadcast to the shape of the product, never the other way round. For integers
    `beta` and `alpha` are truncated to integers (for bools converted to bool).
    """
    if not any(tensor.is_floating_point() or tensor.is_complex() for tensor in (product, input)):
        cut = bool if product.dtype is dtypes.bool else int
        alpha, beta = cut(alpha), cut(beta)
    sizes = zip(reversed(input.shape), reversed(product.shape), strict=False)
    if input.ndim > product.ndim or not all(size in (1, whole) for size, whole in sizes):
        raise ShapeError(
            name, "input does not broadcast to the shape of the product",
            {"input": tuple(input.shape), "product": tuple(product.shape)},
        )  # fmt: skip
    scaled = product if alpha == 1 else product * alpha
    return scaled if beta == 0 else add(scaled, input, alpha=beta)


@with_twin
@as_method
@in_one_op(2, 2)
@takes_out
@composed_in_float32
@recorded_as("AddmmBackward0")
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """A matrix product added to `input`: y = beta · input + alpha · mat1 @ mat2.

    >>> addmm(tensor([1.0]), tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]]))
    tensor([[12.]])
    """
    return add_scaled_product("addmm", input, mm(mat1, mat2), beta, alpha)


@with_twin
@as_method
@in_one_op(2, 1)
@takes_out
@composed_in_float32
@recorded_as("AddmvBackward0")
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """A matrix-vector product added to `input`: y = beta · input + alpha · mat @ vec.

    >>> addmv(tensor([1.0]), tensor([[1.0, 2.0]]), tensor([3.0, 4.0]))
    tensor([12.])
    """
    return add_scaled_product("addmv", input, mv(mat, vec), beta, alpha)


@with_twin
@as_method
@in_one_op(3, 3)
@takes_out
@composed_in_float32
@recorded_as("BaddbmmBackward0")
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """A batched matrix product added to `input`: y = beta · input + alpha · b1 @ b2.

    >>> baddbmm(tensor(1.0), ones(1, 1, 2), ones(1, 2, 1))
    tensor([[[3.]]])
    """
    return add_scaled_product("baddbmm", input, bmm(batch1, batch2), beta, alpha)


@as_method
@takes_out
def inner(input: Tensor, other: Tensor) -> Tensor:
    """The products summed over the last axis of both.

    >>> inner(tensor([1.0, 2.0]), tensor([[3.0, 4.0], [5.0, 6.0]]))
    tensor([11., 17.])
    """
    if not input.ndim or not other.ndim:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise ShapeError(
            "inner", "the last dimension must match on both input tensors",
            {"input": tuple(input.shape), "other": tuple(other.shape)},
        )  # fmt: skip
    return tensordot(input, other, ([-1], [-1]))


@takes_out
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """A contraction of the last `dims` axes of a with the first of b, or of two lists of axes.

    >>> tensordot(ones(2, 3, 4), ones(3, 4, 5)).shape
    torch.Size([2, 5])
    """
    left, right = contracted_dims(a, b, dims)
    for position, (axis, other) in enumerate(zip(left, right, strict=True)):
        sizes = a.shape[axis], b.shape[other]
        if sizes[0] != sizes[1] and 1 not in sizes:
            raise ShapeError(
                "tensordot",
                f"contracted dimensions need to match, but the sizes of pair {position} are "
                f"{sizes[0]} (axis {axis} of `a`) and {sizes[1]} (axis {other} of `b`)",
                {"a": tuple(a.shape), "b": tuple(b.shape)},
            )
        if sizes[0] != sizes[1]:  # one of them broadcasts: the other may be summed first
            a = a.sum(axis, keepdim=True, dtype=a.dtype) if sizes[1] == 1 else a
            b = b.sum(other, keepdim=True, dtype=b.dtype) if sizes[0] == 1 else b
    kept = [axis for axis in range(a.ndim) if axis not in left]
    others = [axis for axis in range(b.ndim) if axis not in right]
    rows, columns = ([x.shape[axis] for axis in axes] for x, axes in ((a, kept), (b, others)))
    inner_size = math.prod(a.shape[axis] for axis in left)
    first = a.permute((*kept, *left)).reshape(math.prod(rows), inner_size)
    second = b.permute((*right, *others)).reshape(inner_size, math.prod(columns))
    return mm(first, second).reshape((*rows, *columns))


def contracted_dims(a: Tensor, b: Tensor, dims: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes of both tensors that `tensordot` sums over.

    Raises: ShapeError, DimError, ArgumentError: there are no such axes.
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.ndim else dims.item()
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ShapeError(
                "tensordot", f"expected dims >= 0 and at most as many as both have, got {dims}",
                {"a": tuple(a.shape), "b": tuple(b.shape)},
            )  # fmt: skip
        return tuple(range(a.ndim - dims, a.ndim)), tuple(range(dims))
    lists = (list, tuple, range)
    if not isinstance(dims, lists) or [isinstance(axes, lists) for axes in dims] != [True] * 2:
        error = ArgumentError if isinstance(dims, lists) else InvalidValueError
        raise error(
            "tensordot", f"expected dims to be an int or two lists of ints, got {dims!r}",
            hint="dims=([1], [0]) sums over axis 1 of `a` with axis 0 of `b`",
        )  # fmt: skip
    left, right = (
        distinct_dims("tensordot", axes, tensor.ndim)
        for axes, tensor in zip(dims, (a, b), strict=True)
    )
    if len(left) != len(right):
        raise ShapeError(
            "tensordot", "both dimension lists should have the same length",
            {"of a": left, "of b": right},
        )  # fmt: skip
    return left, right


@as_method
@takes_out
@recorded_as("LinalgCrossBackward0")
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors with three elements along `dim`.

    Args:
        dim: without it (not recommended) the first axis of size 3.

    >>> cross(tensor([1.0, 0.0, 0.0]), tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    if dim is None:
        dim = first_axis_of_size_3(input)
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise ShapeError(
            "cross", f"axis {dim} must have size 3",
            {"input": tuple(input.shape), "other": tuple(other.shape)},
        )  # fmt: skip
    return roll(input, -1, dim) * roll(other, -2, dim) - roll(input, -2, dim) * roll(other, -1, dim)


def first_axis_of_size_3(input: Tensor) -> int:
    """Return the axis that `cross` uses by default, with PyTorch's warning."""
    if 3 not in input.shape:
        raise ShapeError("cross", "no dimension of size 3 in input", {"input": tuple(input.shape)})
    if input.ndim > 1:
        warn(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass "
            "the dim explicitly or simply use torch.linalg.cross."
        )
    return input.shape.index(3)


@composed_in_float32
@recorded_as("CdistBackward0")
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:  # fmt: skip
    """The distance of each row of x1 from each row of x2.

    Args:
        p: the exponent of the norm.
        compute_mode: for p = 2, when to use |a|² + |b|² - 2 a·b: a matrix product, which is
            fast, but inaccurate for rows that are close together. With more than 25 rows
            ("…_if_necessary"), always ("use_mm_for_euclid_dist") or never ("donot_…").

    >>> cdist(tensor([[0.0, 0.0]]), tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    for name, tensor in (("x1", x1), ("x2", x2)):
        if tensor.dtype.category != 2:
            raise DTypeError(
                "cdist", "only supports floating-point dtypes", {name: str(tensor.dtype)},
            )  # fmt: skip
    product = "use_mm_for_euclid_dist"
    if compute_mode not in (product, f"{product}_if_necessary", f"donot_{product}"):
        raise InvalidValueError("cdist", f"unknown compute_mode {compute_mode!r}")
    many = x1.ndim > 1 < x2.ndim and max(x1.shape[-2], x2.shape[-2]) > 25
    if p == 2 and (compute_mode == product or (many and compute_mode[0] == "u")):
        squares = [(tensor * tensor).sum(-1, keepdim=True) for tensor in (x1, x2)]
        squared = squares[0] + transpose(squares[1], -1, -2) - 2 * matmul(x1, transpose(x2, -1, -2))
        return safe_sqrt(squared)
    return vector_norm(unsqueeze(x1, -2) - unsqueeze(x2, -3), p, -1)


@as_method
@recorded_as("TraceBackward0")
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal.

    >>> trace(tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    if input.ndim != 2:
        raise ShapeError("trace", "expected a matrix", {"input": tuple(input.shape)})
    return diagonal(input).sum()


@as_method
@takes_out
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: each element of `input` times a copy of `other`.

    >>> kron(tensor([1.0, 10.0]), tensor([1.0, 2.0]))
    tensor([ 1.,  2., 10., 20.])
    """
    ndim = max(input.ndim, other.ndim)
    a = input.reshape((1,) * (ndim - input.ndim) + tuple(input.shape))
    b = other.reshape((1,) * (ndim - other.ndim) + tuple(other.shape))
    sizes = [x * y for x, y in zip(a.shape, b.shape, strict=True)]
    for axis in range(ndim):
        a, b = a.unsqueeze(2 * axis + 1), b.unsqueeze(2 * axis)
    return (a * b).reshape(tuple(sizes))
