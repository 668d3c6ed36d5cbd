"""Comparisons, logical and bitwise ops, `where`, and questions about a tensor."""

from __future__ import annotations

import operator

from numpy import ndarray

from ..backends.numpy import Array, Namespace, Number, undispatched
from ..core.composed import as_method
from ..core.error_messages import need_tensor
from ..core.op import comparison, elementwise
from ..core.tensor import Tensor
from ..errors import DTypeError, ShapeError, ValueRangeError

__all__ = [
    "allclose", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "eq", "equal", "ge", "get_device", "gt", "is_complex",
    "is_distributed", "is_floating_point", "is_inference", "is_nonzero", "is_same_size",
    "is_signed", "is_tensor", "isclose", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "le",
    "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "ne", "numel", "signbit",
]  # fmt: skip


@comparison(scalars="other", reference=operator.eq)
def eq(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether input = other, elementwise.

    >>> eq(tensor([1, 2]), tensor([1, 3]))
    tensor([ True, False])
    """
    return xp.equal(input, other)


@comparison(scalars="other", reference=operator.ne)
def ne(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether input ≠ other, elementwise.

    >>> ne(tensor([1, 2]), 1)
    tensor([False,  True])
    """
    return xp.not_equal(input, other)


@comparison(dtypes="bif", scalars="other", reference=operator.lt)
def lt(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether input < other, elementwise.

    >>> lt(tensor([1, 2]), 2)
    tensor([ True, False])
    """
    return xp.less(input, other)


@comparison(dtypes="bif", scalars="other", reference=operator.le)
def le(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether input ≤ other, elementwise.

    >>> le(tensor([1, 2, 3]), 2)
    tensor([ True,  True, False])
    """
    return xp.less_equal(input, other)


@comparison(dtypes="bif", scalars="other", reference=operator.gt)
def gt(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether input > other, elementwise.

    >>> gt(tensor([1, 2]), 1)
    tensor([False,  True])
    """
    return xp.greater(input, other)


@comparison(dtypes="bif", scalars="other", reference=operator.ge)
def ge(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether input ≥ other, elementwise.

    >>> ge(tensor([1, 2, 3]), 2)
    tensor([False,  True,  True])
    """
    return xp.greater_equal(input, other)


@comparison
def isnan(xp: Namespace, input: Array) -> Array:
    """Whether each element is NaN.

    >>> isnan(tensor([1.0, math.nan]))
    tensor([False,  True])
    """
    return xp.isnan(input)


@comparison
def isinf(xp: Namespace, input: Array) -> Array:
    """Whether each element is plus or minus infinity.

    >>> isinf(tensor([1.0, math.inf]))
    tensor([False,  True])
    """
    return xp.isinf(input)


@comparison
def isfinite(xp: Namespace, input: Array) -> Array:
    """Whether each element is neither infinite nor NaN.

    >>> isfinite(tensor([1.0, math.inf]))
    tensor([ True, False])
    """
    return xp.isfinite(input)


@comparison(dtypes="bif", out="exact")
def isposinf(xp: Namespace, input: Array) -> Array:
    """Whether each element is plus infinity.

    >>> isposinf(tensor([math.inf, -math.inf]))
    tensor([ True, False])
    """
    return xp.equal(input, float("inf"))


@comparison(dtypes="bif", out="exact")
def isneginf(xp: Namespace, input: Array) -> Array:
    """Whether each element is minus infinity.

    >>> isneginf(tensor([math.inf, -math.inf]))
    tensor([False,  True])
    """
    return xp.equal(input, float("-inf"))


@comparison(dtypes="bif", out="exact")
def signbit(xp: Namespace, input: Array) -> Array:
    """Whether the sign bit of each element is set (it is for -0.0).

    >>> signbit(tensor([-0.0, 1.0]))
    tensor([ True, False])
    """
    return xp.signbit(input) if input.dtype.kind not in "iub" else xp.less(input, 0)


@comparison(promotion="same", scalars="")
def isclose(
    xp: Namespace, input: Array, other: Array, rtol: float = 1e-05, atol: float = 1e-08,
    equal_nan: bool = False,
) -> Array:  # fmt: skip
    """Whether |input - other| ≤ atol + rtol · |other|, elementwise.

    >>> isclose(tensor([1.0, 2.0]), tensor([1.0 + 1e-9, 2.1]))
    tensor([ True, False])
    """
    for name, tolerance in {"rtol": rtol, "atol": atol}.items():
        if tolerance < 0:
            raise ValueRangeError("isclose", f"`{name}` must not be negative, got {tolerance}")
    if input.dtype.kind != "c":
        return xp.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)
    near = xp.abs(input - other) <= atol + rtol * xp.abs(other)
    close = (input == other) | (near & xp.isfinite(other))  # ∞ is near to ∞ only
    return close | (xp.isnan(input) & xp.isnan(other)) if equal_nan else close


@comparison(scalars="")
def logical_and(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether both elements are true (nonzero).

    >>> logical_and(tensor([True, True]), tensor([True, False]))
    tensor([ True, False])
    """
    return (input != 0) & (other != 0)


@comparison(scalars="")
def logical_or(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether at least one of the elements is true (nonzero).

    >>> logical_or(tensor([True, False]), tensor([False, False]))
    tensor([ True, False])
    """
    return (input != 0) | (other != 0)


@comparison(scalars="")
def logical_xor(xp: Namespace, input: Array, other: Array) -> Array:
    """Whether exactly one of the elements is true (nonzero).

    >>> logical_xor(tensor([True, False]), tensor([True, True]))
    tensor([False,  True])
    """
    return (input != 0) ^ (other != 0)


@comparison
def logical_not(xp: Namespace, input: Array) -> Array:
    """Whether each element is false (zero).

    >>> logical_not(tensor([True, False]))
    tensor([False,  True])
    """
    return input == 0


@elementwise(promotion="promote")
def bitwise_and(xp: Namespace, input: Array, other: Array) -> Array:
    """The bitwise AND; for bools the logical one.

    >>> bitwise_and(tensor([6]), tensor([3]))
    tensor([2])
    """
    return xp.bitwise_and(input, other)


@elementwise(promotion="promote")
def bitwise_or(xp: Namespace, input: Array, other: Array) -> Array:
    """The bitwise OR; for bools the logical one.

    >>> bitwise_or(tensor([6]), tensor([3]))
    tensor([7])
    """
    return xp.bitwise_or(input, other)


@elementwise(promotion="promote")
def bitwise_xor(xp: Namespace, input: Array, other: Array) -> Array:
    """The bitwise XOR.

    >>> bitwise_xor(tensor([6]), tensor([3]))
    tensor([5])
    """
    return xp.bitwise_xor(input, other)


@elementwise(promotion="none")
def bitwise_not(xp: Namespace, input: Array) -> Array:
    """The bitwise NOT; for bools the logical one.

    >>> bitwise_not(tensor([True, False]))
    tensor([False,  True])
    """
    return xp.invert(input)


@elementwise(promotion="promote", dtypes="i")
def bitwise_left_shift(xp: Namespace, input: Array, other: Array) -> Array:
    """The bits shifted left by `other`: y = input · 2^other.

    >>> bitwise_left_shift(tensor([1, 3]), tensor([4, 1]))
    tensor([16,  6])
    """
    return xp.left_shift(input, other)


@elementwise(promotion="promote", dtypes="i")
def bitwise_right_shift(xp: Namespace, input: Array, other: Array) -> Array:
    """The bits shifted right by `other`, with the sign extended: y = ⌊input / 2^other⌋.

    >>> bitwise_right_shift(tensor([16, -7]), 1)
    tensor([ 8, -4])
    """
    return xp.right_shift(input, other)


@elementwise(promotion="promote", no_promotion=("condition",), scalars="input other", out="exact")
def where(xp: Namespace, condition: Array, input: Array, other: Array) -> Array:
    """Choose per element: y = input where `condition` is true, else other.

    >>> where(tensor([True, False]), tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if condition.dtype.kind != "b":
        raise DTypeError(
            "where", "expected condition to be a boolean tensor", {"condition": condition.dtype},
            "compare first, for example x > 0",
        )  # fmt: skip
    choose = np_where if condition.__class__ is ndarray else xp.where
    return choose(condition, input, other)


np_where = undispatched("where")

where.vjp(
    input=lambda g, condition: where(condition, g, 0.0),
    other=lambda g, condition: where(logical_not(condition), g, 0.0),
    latex={"input": r"g\,[condition]", "other": r"g\,[not\ condition]"},
)


def _where_method(self: Tensor, condition: Tensor, other: Tensor | Number) -> Tensor:
    """Choose per element: this tensor where `condition` is true, else `other`."""
    return where(condition, self, other)


Tensor.where = _where_method  # type: ignore[attr-defined]


@as_method
def equal(input: Tensor, other: Tensor) -> bool:
    """Return True if two tensors have the same shape and equal elements.

    >>> equal(tensor([1, 2]), tensor([1, 2]))
    True
    """
    return tuple(input.shape) == tuple(other.shape) and bool(eq(input, other).all())


@as_method
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Return True if all elements are close: |input - other| ≤ atol + rtol · |other|.

    >>> allclose(tensor([1.0]), tensor([1.0 + 1e-9]))
    True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


# Questions about a tensor --------------------------------------------------------------------


def is_tensor(obj: object) -> bool:
    """Return True if `obj` is a tensor.

    >>> is_tensor(ones(2)), is_tensor([1, 2])
    (True, False)
    """
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:
    """Return the number of elements.

    >>> numel(ones(2, 3))
    6
    """
    return input.numel()


def is_floating_point(input: Tensor) -> bool:
    """Return True if the dtype is floating-point (and not complex).

    >>> is_floating_point(ones(2))
    True
    """
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Return True if the dtype is complex.

    >>> is_complex(ones(2))
    False
    """
    return input.is_complex()


@as_method
def is_nonzero(input: Tensor) -> bool:
    """Return True if the only element is not zero.

    Raises: ShapeError: there is not exactly one element.

    >>> is_nonzero(tensor(5))
    True
    """
    if input.numel() != 1:
        raise ShapeError("is_nonzero", "needs a single number", {"input": tuple(input.shape)})
    return bool(input)


def is_signed(input: Tensor) -> bool:
    """Return True if the dtype is signed.

    >>> is_signed(tensor([1])), is_signed(tensor([True]))
    (True, False)
    """
    return input.is_signed()


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return True if two tensors have the same shape.

    >>> is_same_size(zeros(2, 3), ones(2, 3))
    True
    """
    need_tensor("is_same_size", "other", other)
    return tuple(input.shape) == tuple(other.shape)


def is_distributed(input: Tensor) -> bool:
    """Return False: tensors are never distributed over processes here.

    >>> is_distributed(ones(2))
    False
    """
    return input.is_distributed()


def get_device(input: Tensor) -> int:
    """Return the index of the GPU that holds the tensor, -1 for the CPU.

    >>> get_device(ones(2, device="cpu"))
    -1
    """
    return input.get_device()


def is_inference(input: Tensor) -> bool:
    """Return True if the tensor was created in inference mode.

    >>> is_inference(ones(2))
    False
    """
    return input.is_inference()


def refuse_bools(name: str, input: Tensor) -> None:
    """Raise DTypeError for bools, as PyTorch does."""
    if input._array.dtype.kind == "b":
        rows = {"input": f"{tuple(input.shape)} {input.dtype}"}
        raise DTypeError(name, "not implemented for bools", rows, "x.int() computes with 0 and 1")
