"""Dtype promotion: the operands of an op are converted to one dtype, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import backends, dtypes
from ..errors import DTypeError, NotForTypesError, TooLargeError
from .error_messages import conversion_hint, describe_array, operand_names
from .precision import SCALING, is_half

if TYPE_CHECKING:
    from .op import Op


EXTENSION_DTYPES = {dtypes.bfloat16.numpy}
"""Dtypes that NumPy does not know by itself: a Python number next to them becomes float64."""


NEGATIVE_EXPONENTS = {"pow"}
"""Ops whose last operand may be a negative int, which differs from a tensor of it: x ** -1 is
refused for integers."""

NO_BOOLS = {"sub"}
"""Ops that refuse a bool as any of their operands, as in PyTorch, whatever the common dtype."""


def refuse_bools(op: Op, operands: Sequence[Any]) -> None:
    """Raise NotForTypesError if one of the operands is a bool."""
    rows = tuple(zip(op.inputs, operands, strict=False))
    for operand in operands:
        if isinstance(operand, bool) or getattr(operand, "dtype", None) == np.bool_:
            raise NotForTypesError(
                op.title,
                "Subtraction, the `-` operator, with a bool tensor is not supported",
                {
                    name: describe_array(value) if hasattr(value, "dtype") else value
                    for name, value in rows
                },
                "~mask or logical_not(mask) inverts a mask; mask.int() computes with 0 and 1",
            )


def promote(
    op: Op, operands: list[Any], settings: dict[str, Any], backend: backends.Backend
) -> list[Any]:
    """Convert the operands to the one dtype in which the op computes."""
    promotion = op.promotion(settings) if callable(op.promotion) else op.promotion
    if promotion == "none":
        return operands
    kept = (
        [name in op.no_promotion for name in op.inputs]
        if op.no_promotion
        else [False] * len(operands)
    )
    deciding = [operand for operand, keep in zip(operands, kept, strict=True) if not keep]
    arrays = [operand for operand in deciding if hasattr(operand, "dtype")]
    dtype = dtypes.result_of(
        [dtypes.of(array.dtype) for array in arrays if array.ndim],
        [dtypes.of(array.dtype) for array in arrays if not array.ndim],
        [operand for operand in deciding if operand is not None and not hasattr(operand, "dtype")],
    )
    if promotion == "same":
        check_same_dtype(op, operands)
        if op.family != "elementwise":
            return operands
    if promotion == "float" and dtype.category < 2:
        dtype = dtypes.get_default_dtype()

    scales = op.name in SCALING and is_half(dtype.numpy)  # by numbers in full precision
    scales = scales and any(array.dtype == dtype.numpy for array in arrays)
    following = {array.dtype for array in arrays} - {np.dtype(bool)} - EXTENSION_DTYPES
    wraps = dtype.category == 1 and promotion != "compare"  # uint8 + 300, as in PyTorch

    def converted(operand: Any) -> Any:
        if (
            scales
            and not getattr(operand, "ndim", 0)
            and getattr(operand, "dtype", None) != dtype.numpy
        ):
            return backend.asarray(operand).astype("float32")
        if hasattr(operand, "dtype"):
            return operand.astype(dtype.numpy) if operand.dtype != dtype.numpy else operand
        # Python numbers follow the arrays, except where they decide the dtype themselves
        # and NumPy would decide otherwise.
        follows = operand is None or (arrays and dtype.numpy in following and not wraps)
        if (
            op.name in NEGATIVE_EXPONENTS
            and operand is operands[-1]
            and type(operand) is int
            and operand < 0
        ):
            return operand
        try:
            return operand if follows else backend.asarray(operand).astype(dtype.numpy)
        except OverflowError:
            raise TooLargeError(
                op.title,
                f"value cannot be converted to {dtype} without overflow",
                {"value": operand},
            ) from None

    return [
        operand if keep else converted(operand)
        for operand, keep in zip(operands, kept, strict=True)
    ]


DTYPE_LETTERS = {0: "b", 1: "i", 2: "f", 3: "c"}
REFUSED = {
    "b": ("bools", "x.int() computes with 0 and 1"),
    "i": ("integers", "convert them first, for example with x.float()"),
    "f": ("floating numbers", "convert them first, for example with x.long()"),
    "c": ("complex numbers", "they have no order; compute with z.abs(), z.real or z.imag"),
}


def refuse_dtypes(op: Op, operands: Sequence[Any]) -> None:
    """Raise DTypeError if the op is not defined for these dtypes."""
    array_dtypes = [dtypes.of(operand.dtype) for operand in operands if hasattr(operand, "dtype")]
    dtype = (
        max(array_dtypes, key=lambda dtype: dtype.category)
        if op.promotion == "float"
        else array_dtypes[0]
    )
    if DTYPE_LETTERS[dtype.category] not in op.dtypes:
        what, hint = REFUSED[DTYPE_LETTERS[dtype.category]]
        rows = {
            name: describe_array(operand)
            for name, operand in zip(op.inputs, operands, strict=False)
            if hasattr(operand, "dtype")
        }
        raise NotForTypesError(op.title, f"not implemented for {what}", rows, hint)


def check_same_dtype(op: Op, operands: list[Any]) -> None:
    """Raise DTypeError unless all operands have one dtype: products do not convert."""
    pairs = zip(operand_names(op, operands), operands, strict=True)
    arrays = {name: operand for name, operand in pairs if hasattr(operand, "dtype")}
    if len({array.dtype for array in arrays.values()}) > 1:
        raise DTypeError(
            op.title,
            f"expected {'both' if len(arrays) == 2 else 'all'} arguments to have the same dtype",
            {name: describe_array(array) for name, array in arrays.items()},
            conversion_hint(arrays),
        )
