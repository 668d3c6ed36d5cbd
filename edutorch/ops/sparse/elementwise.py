"""Functions of single elements: of the values alone, as far as f(0) = 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.registry import op_function
from ...core.storage import sparse_coo
from ...core.tensor import Tensor
from ...errors import ShapeError, ValueRangeError
from ..joining import cat
from ..views import expand
from .conversion import change_layout, coalesced, to_dense, values_at
from .tensor import SparseTensor, make_sparse, not_for_sparse

KEEP_ZERO = (
    "abs angle asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan isneginf "
    "isposinf log1p nan_to_num rad2deg relu round sgn sign signbit sin sinh sqrt square tan tanh "
    "trunc conj_physical real imag"
).split()
"""The functions with f(0) = 0: the elements that are not stored stay 0."""

LINEAR = "neg positive clone convert_dtype to_device".split()
"""Those that need no coalesced tensor: f(a + b) = f(a) + f(b)."""


def of_values(name: str) -> Callable[..., SparseTensor]:
    """Make the function of sparse tensors that applies an op to each stored element."""

    def function(input: SparseTensor, *args: Any, **named: Any) -> SparseTensor:
        if name not in LINEAR and input._layout is sparse_coo:
            input = coalesced(input)
        return input.with_entries(op_function(name)(input.entries, *args, **named))

    function.__name__ = name
    return function


def power(input: SparseTensor, exponent: Any) -> SparseTensor:
    """Return each element to the power of a positive number.

    Raises: SparseLayoutError: 0 to that power is not 0.
    """
    if isinstance(exponent, Tensor) or not exponent > 0:
        raise not_for_sparse("pow")
    input = coalesced(input) if input._layout is sparse_coo else input
    return input.with_entries(op_function("pow")(input.entries, exponent))


def is_number(value: Any) -> bool:
    """Return True for a number, or a dense tensor of one element without axes."""
    return not isinstance(value, Tensor) or (
        not isinstance(value, SparseTensor) and value.ndim == 0
    )


def mul(input: Any, other: Any) -> SparseTensor:
    """Return the product: with a number, a dense or a sparse tensor. It is sparse."""
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if is_number(other):
        return input.with_entries(input.entries * other)
    if not isinstance(other, SparseTensor):
        shape = input._array.shape
        if len(other.shape) > len(shape) or input.dense_dim():
            raise not_for_sparse("mul")
        # The dense factor is read only where the sparse one has elements.
        factors = values_at(expand(other, shape), input.pattern, "SparseMaskBackward0")
        return input.with_entries(input.entries * factors)
    check_same_shape("mul", input, other)
    left, right = coalesced(input), coalesced(other)
    keys, at_left, at_right = left.pattern.xp.intersect1d(
        left.pattern.keys, right.pattern.keys, assume_unique=True, return_indices=True
    )
    pattern = left.pattern.at_keys(keys, left.pattern.shape)
    entries = left.entries[at_left] * right.entries[at_right]
    return change_layout(make_sparse(pattern, entries), input._layout)


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> SparseTensor:
    """Return the quotient of a sparse tensor and a number.

    Raises: ValueRangeError: by anything else; 0 / 0 would not be 0.
    """
    if not isinstance(input, SparseTensor) or not is_number(other):
        shape = list(getattr(other, "shape", ()))
        raise ValueRangeError(
            "div", "Sparse division requires a scalar or zero-dim dense tensor divisor "
            f"(got shape {shape} for divisor)",
            {"input": tuple(getattr(input, "shape", ())), "other": tuple(shape)},
        )  # fmt: skip
    if rounding_mode is not None and input._layout is sparse_coo:
        input = coalesced(input)
    quotient = op_function("div")(input.entries, other, rounding_mode=rounding_mode)
    return input.with_entries(quotient)


def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """Return the sum: two sparse tensors give a sparse one, dense + sparse a dense one.

    Raises: ValueRangeError: sparse + dense, or a number.
    """
    if not isinstance(other, SparseTensor) and isinstance(input, SparseTensor):
        raise ValueRangeError(
            "add", "add(sparse, dense) is not supported. Use add(dense, sparse) instead.",
            {"input": tuple(input.shape), "other": tuple(getattr(other, "shape", ()))},
            "the result is dense: write y + x for a dense y, or x.to_dense() + y",
        )  # fmt: skip
    if not isinstance(input, SparseTensor):
        return op_function("add")(input, to_dense(other), alpha=alpha)
    check_same_shape("add", input, other)
    scaled = other.entries if alpha == 1 else other.entries * alpha
    if input.pattern is other.pattern:
        return input.with_entries(input.entries + scaled)
    if input.sparse_dim() != other.sparse_dim():
        raise ShapeError(
            "add", "the tensors have different numbers of sparse axes",
            {"input": input.sparse_dim(), "other": other.sparse_dim()},
        )  # fmt: skip
    indices = input.pattern.xp.concatenate((input.pattern.indices, other.pattern.indices), axis=1)
    both = type(input.pattern)(indices, input.pattern.shape)
    total = make_sparse(both, cat([input.entries, scaled]))
    if input._layout is not sparse_coo:
        return change_layout(total, input._layout)
    in_order = input.pattern.is_coalesced and other.pattern.is_coalesced
    return coalesced(total) if in_order else total


def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """Return the difference: see `add`."""
    return add(input, other, alpha=-alpha)


def check_same_shape(name: str, input: SparseTensor, other: SparseTensor) -> None:
    """Raise ShapeError if two sparse tensors differ in shape: they do not broadcast."""
    if input._array.shape != other._array.shape:
        raise ShapeError(
            name, f"expected sizes of 'self' and 'other' to match, but {list(input.shape)} != "
            f"{list(other.shape)}",
            {"input": tuple(input.shape), "other": tuple(other.shape)},
        )  # fmt: skip
