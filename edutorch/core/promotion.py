"""The operands of an op: they are brought to one device and to one dtype, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import backends, dtypes
from ..backends.numpy import Array, Backend, as_plain_array
from ..errors import DeviceError, DTypeError, NotForTypesError, TooLargeError
from ..modes import current
from .autograd.graph import array_of
from .error_messages import conversion_hint, describe_array, operand_names, wrong_operand
from .numpy_aliasing import restore_ordinary
from .precision import SCALING, is_half
from .registry import op_function
from .tensor import Tensor

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


def promote(op: Op, operands: list[Any], settings: dict[str, Any], backend: Backend) -> list[Any]:
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
    # PyTorch's three ranks: tensors with dims decide, then 0-d ones, then numbers.
    dtype = dtypes.result_of(
        [dtypes.of(array.dtype) for array in arrays if array.ndim],
        [dtypes.of(array.dtype) for array in arrays if not array.ndim],
        [operand for operand in deciding if operand is not None and not hasattr(operand, "dtype")],
    )
    if promotion == "same":
        check_same_dtype(op, operands)
        if not op.family.broadcasts:
            return operands
    # 1 / 2 is 0.5: integers become floats before the division.
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


MOVES_ELEMENTS = set(
    """
    cat clone contiguous convert_dtype copy diag diagonal eq fill flip getitem index_select isnan ne
    repeat roll rot90 setitem stack to_device view_dtype where any all
    """.split()
)
"""Ops besides views that take dtypes for storage: they move and compare elements."""

OF_UNSIGNED = set(
    """
    mul true_divide div sum prod cumsum cumprod sort_forward bitwise_and bitwise_or bitwise_xor
    isinf isfinite
    """.split()
)
"""Further ops that PyTorch defines for uint16, uint32 and uint64, besides those of floats."""


OF_FLOAT8 = {"abs", "index_put", "index_put_forward"}
"""Further ops that PyTorch defines for float8."""


def refuse_storage(op: Op, operands: Sequence[Any]) -> None:
    """Raise NotForTypesError if the op is not defined for a dtype that is for storage only."""
    arrays = [array_of(operand) for operand in operands if hasattr(array_of(operand), "dtype")]
    stored = [dtypes.of(array.dtype) for array in arrays if array.dtype in dtypes.STORED]
    if op.name in MOVES_ELEMENTS or op.family.makes_view or op.family.makes_views:
        return
    is_unsigned = all(dtype.category == 1 for dtype in stored)
    if not is_unsigned and op.name in OF_FLOAT8:
        return
    if is_unsigned and (op.name in OF_UNSIGNED or op.promotion == "float"):
        return
    shared = dtypes.result_of(
        [dtypes.of(array.dtype) for array in arrays if array.ndim],
        [dtypes.of(array.dtype) for array in arrays if not array.ndim], [],
    )  # fmt: skip
    if is_unsigned and not shared.is_storage:  # beside a floating dtype they become that
        return
    names = operand_names(op, operands)
    rows = {
        name: describe_array(array_of(operand))
        for name, operand in zip(names, operands, strict=True)
        if hasattr(array_of(operand), "dtype")
    }
    raise NotForTypesError(
        op.title, f"not implemented for {stored[0].name}, which is for storage", rows,
        "convert it first, for example with " + ("x.long()" if is_unsigned else "x.float()"),
    )  # fmt: skip


DTYPE_LETTERS = {0: "b", 1: "i", 2: "f", 3: "c"}
REFUSED = {
    "b": ("bools", "x.int() computes with 0 and 1"),
    "i": ("integers", "convert them first, for example with x.float()"),
    "f": ("floating numbers", "convert them first, for example with x.long()"),
    "c": ("complex numbers", "they have no order; compute with z.abs(), z.real or z.imag"),
}


def refuse_dtypes(op: Op, operands: Sequence[Any]) -> None:
    """Raise DTypeError if the op is not defined for these dtypes."""
    # After promotion all have one dtype; before it the highest kind counts.
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


# One device ----------------------------------------------------------------------------


def choose_backend(
    op: Op, operands: Sequence[Any], settings: dict[str, Any]
) -> tuple[Backend, tuple[Any, ...]]:
    """Return the backend that computes, and the operands as they enter it.

    Inside of `vmap` tensors from outside enter by an op, so that their gradients leave it again.
    """
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    if not tensors:  # within a rule NumPy makes scalars of 0-d results: they are arrays here
        operands = [np.asarray(x) if isinstance(x, np.generic) else x for x in operands]
    backend = common_backend(op, operands, tensors)
    if backend.level or current().batches:
        for value in settings.values():
            for item in value if isinstance(value, tuple | list) else (value,):
                array = array_of(item)
                if backends.is_array(array) and backends.of(array).level > backend.level:
                    backend = backends.of(array)
    if backend.level:
        operands = [enter_level(operand, backend) for operand in operands]
        tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    for tensor in tensors:
        restore_ordinary(tensor)
    return backend, tuple(operands)


def enter_level(operand: Any, backend: Any) -> Any:
    """Return an operand inside of a level of `vmap`."""
    array = array_of(operand)
    if not backends.is_array(array) or backends.of(array) is backend:
        return operand
    if isinstance(operand, Tensor):
        return op_function("batched")(operand, backend, None)
    return backend.enter(array, None)


def common_backend(op: Op, operands: Sequence[Any], tensors: list[Tensor]) -> Backend:
    """Return the backend of the operands; a 0-d CPU tensor may be combined with any device.

    Raises: DeviceError: they are on different devices. TypeError: nothing to compute with.
    """
    arrays = [array_of(operand) for operand in operands]
    arrays = [
        array for array in arrays if backends.is_array(array) or isinstance(array, np.generic)
    ]
    if not arrays:
        names = operand_names(op, operands)
        wrong = [pair for pair in zip(names, operands, strict=True) if pair[0] not in op.optional]
        raise wrong_operand(op, *(wrong or [(op.inputs[0], operands)])[0])
    found_backends = [backends.of(array) for array in arrays if not isinstance(array, np.generic)]
    # A level of vmap wraps arrays of any device: the innermost one computes.
    highest = max(found_backends, key=lambda backend: backend.level, default=backends.CPU)
    if highest.level:
        return highest
    deciding = [
        backends.of(array) for array in arrays if backends.is_array(array) and array.ndim
    ] or found_backends
    if not deciding:
        return backends.CPU
    for other, array in zip(
        found_backends, [a for a in arrays if backends.is_array(a)], strict=True
    ):
        if other is not deciding[0] and (array.ndim or other is not backends.CPU):
            rows = {
                name: f"{tuple(tensor.shape)} on {tensor.device}"
                for name, tensor in zip(operand_names(op, operands), operands, strict=True)
                if isinstance(tensor, Tensor)
            }
            raise DeviceError(
                op.title,
                "Expected all tensors to be on the same device",
                rows,
                "move the tensor, or the model, with .to(device)",
            )
    return deciding[0]


def is_operand(operand: Any) -> bool:
    """Return True if an operator can compute with `operand`."""
    if isinstance(operand, Tensor | bool | int | float | complex) or hasattr(operand, "dtype"):
        return True
    return hasattr(type(operand), "__torch_function__")


# One dtype -----------------------------------------------------------------------------


def convert_operands(
    op: Op, operands: Sequence[Any], settings: dict[str, Any], backend: Backend
) -> list[Any]:
    """Return the operands as the forward takes them: of one device and one dtype.

    Raises: NotForTypesError, DTypeError: the op refuses their dtypes.
    """
    names = operand_names(op, operands)
    if any(getattr(array_of(x), "dtype", None) in dtypes.STORED for x in operands):
        refuse_storage(op, operands)
    values = [as_operand(op, *pair, backend) for pair in zip(names, operands, strict=True)]
    if op.name in NO_BOOLS:
        refuse_bools(op, values)
    arrays = promote(op, values, settings, backend)
    if op.dtypes != "bifc" and settings.get("dtype") is None:
        refuse_dtypes(op, values if op.promotion == "float" else arrays)
    return arrays


def as_operand(op: Op, name: str, value: Any, backend: Backend) -> Any:
    """Return an operand as the forward takes it: an array of the device, a number, or None."""
    value = as_plain_array(array_of(value))
    if isinstance(value, np.generic):
        # A NumPy scalar counts as a Python number, which does not decide the dtype.
        value = value.item()
    if value is None and name in op.optional:
        return None
    if name in op.scalars and isinstance(value, bool | int | float | complex):
        return value
    if backends.is_array(value):
        if backends.of(value) is not backend:
            # Only a 0-d CPU tensor comes here: `common_backend` has refused all others.
            return backend.from_numpy(backends.of(value).to_numpy(value))
        return value
    raise wrong_operand(op, name, value)


def round_result(op: Op, y: Array, arrays: Sequence[Any]) -> Any:
    """Return a result in bfloat16 if it was computed from it: NumPy returns float32."""
    operand_dtypes = {array.dtype for array in arrays if hasattr(array, "dtype")}
    if op.name in SCALING and y.dtype == np.float32:  # a number beside 16-bit floats is float32
        operand_dtypes = {dtype for dtype in operand_dtypes if is_half(dtype)}
        return y.astype(operand_dtypes.pop()) if operand_dtypes else y
    if y.dtype == np.float32 and operand_dtypes and operand_dtypes <= EXTENSION_DTYPES:
        return y.astype(operand_dtypes.pop())
    return y
