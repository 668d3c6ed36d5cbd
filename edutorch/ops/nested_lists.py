"""Conversion of nested lists to arrays: shape, dtype and errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import backends, dtypes
from ..core.tensor import Tensor
from ..errors import ArgumentError, DTypeError, RaggedError, ValueRangeError

SCALAR_TYPES = frozenset((bool, int, float, complex))
SEQUENCES = frozenset((list, tuple))


def is_sequence(data: Any) -> bool:
    """Return True if `data` is a list or a sequence-like object."""
    if data.__class__ in SEQUENCES or isinstance(data, list | tuple | range):
        return True
    if isinstance(data, str | bytes | dict | Tensor | np.ndarray | np.generic):
        return False
    return hasattr(data, "__len__") and hasattr(data, "__getitem__")


def array_from_lists(data: Any, dtype: Any = None) -> np.ndarray:
    """Convert nested lists of numbers, NumPy scalars, arrays and single-element tensors.

    Without `dtype` it is inferred: the default dtype for Python floats, and else the
    promotion of the dtypes of all elements.

    Raises: RaggedError: lists of one depth differ in length. DTypeError, TypeError: not
        numbers. ValueRangeError: a value that the dtype cannot represent.
    """
    element_types: set[Any] = set()
    shape = shape_of(data)
    data_read = read_list(data, shape, 0, "data", element_types)
    result_dtype = (
        common_dtype(element_types) if dtype is None else dtypes.of(dtypes.array_type(dtype))
    )
    if not result_dtype.is_complex and complex in element_types:
        raise ArgumentError("tensor", f"must be real numbers for {result_dtype}, not complex ones")
    try:
        array = np.array(data_read, object if is_too_large(data_read, shape) else None)
        if array.dtype.kind in "Ouif" and not (
            result_dtype.is_floating_point or result_dtype.is_complex
        ):
            check_range(array, result_dtype)
        array = array.astype(result_dtype.numpy, copy=False)
        return array if array.shape == shape else array.reshape(shape)
    except OverflowError:
        raise overflow_error(result_dtype) from None


def scalar_like(op: str, number: Any, array: Any) -> Any:
    """Return a Python scalar as an array of the dtype and on the device of another one.

    uint8 wraps negative values as in PyTorch: -1 is 255.

    Raises: ValueRangeError: the integer dtype cannot represent it.
    """
    backend, dtype = backends.of(array), array.dtype
    try:
        return backend.asarray(number, dtype)
    except (OverflowError, ValueError):
        if not isinstance(number, int | float):
            raise
        if dtype.kind == "u" and isinstance(number, int) and -256 < number < 0:
            return backend.asarray(number % 256, dtype)
        raise ValueRangeError(
            op,
            f"value cannot be converted to {dtypes.of(dtype)} without overflow",
            {"value": number},
        ) from None


def is_too_large(data: Any, shape: tuple[int, ...]) -> bool:
    """Return True for a single integer that exceeds NumPy's integer dtypes."""
    return not shape and isinstance(data, int) and not -(2**63) <= data < 2**64


def shape_of(data: Any) -> tuple[int, ...]:
    """Return the shape, read from the first element of each list."""
    shape: list[int] = []
    while is_sequence(data):
        shape.append(len(data))
        if not shape[-1]:
            return tuple(shape)
        data = data[0]
    if isinstance(data, Tensor) and shape and data.numel() == 1:
        return tuple(shape)  # in a list a single-element tensor counts as a scalar, as in PyTorch
    if isinstance(data, Tensor | np.ndarray):
        shape += data.shape
    return tuple(shape)


def read_list(
    data: Any, shape: tuple[int, ...], depth: int, path: str, element_types: set[Any]
) -> Any:
    """Return `data` with Python scalars and arrays only; add their types to `element_types`."""
    if not is_sequence(data):
        return read_element(data, shape, depth, path, element_types)
    if depth == len(shape):
        raise RaggedError(
            "tensor", "a list stands where a number was expected", {path: short_repr(data)}, HINT
        )
    if len(data) != shape[depth]:
        raise RaggedError(
            "tensor",
            f"expected sequence of length {shape[depth]} at dim {depth} (got {len(data)})",
            {f"len({path})": len(data), f"len({first_path(path)})": shape[depth]},
            HINT,
        )
    if depth == len(shape) - 1:
        types = set(map(type, data))
        if types <= SCALAR_TYPES:  # a row of plain numbers, the usual case
            element_types |= types
            return data if data.__class__ is list else list(data)
    return [
        read_list(item, shape, depth + 1, f"{path}[{i}]", element_types)
        for i, item in enumerate(data)
    ]


HINT = "pad the shorter ones (nn.utils.rnn.pad_sequence), or keep a list of tensors"


def first_path(path: str) -> str:
    """Return the path of the first list of the same depth: "data[0][0]" for "data[1][2]"."""
    return "data" + "[0]" * path.count("[")


def short_repr(data: Any) -> str:
    """Return `repr(data)`, at most 60 characters long."""
    text = repr(data)
    return text if len(text) < 60 else text[:57] + "..."


def read_element(
    data: Any, shape: tuple[int, ...], depth: int, path: str, element_types: set[Any]
) -> Any:
    """Return a scalar, an array or a tensor as Python scalar or array."""
    if data.__class__ in SCALAR_TYPES:
        element_types.add(data.__class__)
    elif isinstance(data, Tensor):
        if depth and data.numel() != 1:
            raise RaggedError(
                "tensor", "only one element tensors can be converted to Python scalars",
                {path: f"a tensor of shape {tuple(data.shape)}"},
                "torch.stack(list) puts tensors of one shape together, torch.cat joins them",
            )  # fmt: skip
        element_types.add(data.dtype)
        data = backends.of(data._array).to_numpy(data._array)
        data = data.reshape(()) if depth and depth == len(shape) else data
    elif isinstance(data, np.generic | np.ndarray):
        element_types.add(dtypes.of(data.dtype))
        data = np.asarray(data)
    elif isinstance(data, bool | int | float | complex):
        element_types.add(
            next(
                number_type
                for number_type in (bool, int, float, complex)
                if isinstance(data, number_type)
            )
        )
    else:
        raise not_numbers_error(data, path)
    shape_here = data.shape if isinstance(data, np.ndarray) else ()
    if tuple(shape_here) != shape[depth:]:
        raise RaggedError(
            "tensor", f"a sequence was expected at dim {depth}: not a sequence",
            {path: short_repr(data), "shape expected": shape[depth:]}, HINT,
        )  # fmt: skip
    return data.tolist() if isinstance(data, np.ndarray) and data.dtype.kind == "V" else data


def not_numbers_error(data: Any, path: str) -> Exception:
    """Make the error for something that is neither a number nor a list."""
    type_name = type(data).__name__
    if isinstance(data, str | bytes):
        return TypeError(
            f"tensor: invalid data type '{type_name}': {path} is {short_repr(data)}\n"
            "  hint: give each word a number first, for example its place in a list of all words"
        )
    hints = {"generator": "list(...) of it", "dict": "list(x.values())", "set": "sorted(x)"}
    hint = hints.get(type_name)
    return DTypeError(
        "tensor", f"Could not infer dtype of {type_name}", {path: short_repr(data)},
        f"a tensor is made of numbers: {hint}" if hint else None,
    )  # fmt: skip


def common_dtype(element_types: set[Any]) -> dtypes.dtype:
    """Return the dtype to which these types are promoted in PyTorch."""
    default = dtypes.get_default_dtype()
    dtype_of_type = {
        bool: dtypes.bool,
        int: dtypes.int64,
        float: default,
        complex: default.to_complex(),
    }
    result = None
    for element_type in element_types:
        element_type = dtype_of_type.get(element_type, element_type)
        result = element_type if result is None else dtypes.promote_types(result, element_type)
    return default if result is None else result


def check_range(array: np.ndarray, dtype: dtypes.dtype) -> None:
    """Raise ValueRangeError if an integer dtype cannot represent one of the values.

    Negative values wrap around in unsigned dtypes, as in PyTorch.
    """
    if dtype.numpy.kind == "b" or not array.size:
        return
    limits = np.iinfo(dtype.numpy)
    low = limits.min if limits.min else -limits.max
    least, most = array.min(), array.max()
    if not (low <= least and most <= limits.max):  # also if it is NaN
        raise overflow_error(dtype)


def overflow_error(dtype: dtypes.dtype) -> ValueRangeError:
    """Make the error for a value that a dtype cannot represent."""
    return ValueRangeError(
        "tensor", f"value cannot be converted to type {dtype.name} without overflow",
        hint="a type with more bits, or float64, holds larger numbers",
    )  # fmt: skip
