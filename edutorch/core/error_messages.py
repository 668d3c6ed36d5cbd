"""Error messages: errors of array libraries, rewritten with the names of the op and its arguments.

A forward computes with NumPy or CuPy, whose errors speak of "operands" and "ufuncs". Somebody
who called `max` should not read that: `explain` compares the arguments with the op and names
the one that does not fit.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.exceptions import AxisError

from .. import backends, dtypes
from ..backends.memory_counts import format_bytes, physical_memory
from ..backends.numpy import Array
from ..errors import (
    ArgumentError,
    DimError,
    EdutorchError,
    InvalidValueError,
    NotForTypesError,
    OutOfMemory,
    ShapeError,
)  # fmt: skip
from .shapes import no_such_dim, shape_of

if TYPE_CHECKING:
    from .op import Op
    from .tensor import Tensor

ARRAY_ERRORS = (ValueError, IndexError, TypeError, AttributeError, MemoryError, AxisError)
"""What array libraries raise for unsuitable arguments; `explain` rewrites it."""

LIBRARY_WORDS = (
    "array", "ufunc", "core dim", "newaxis", "numpy", "operand", "broadcast", "zip()", "np.",
    "tuple index", "unpack", "convert string", "no len()", "axes don't match", "invalid literal",
)  # fmt: skip
"""Words of messages of array libraries and of Python that do not explain the call."""


def explain(
    op: Op, arrays: Sequence[Any], error: Exception, call_values: Mapping[str, Any] | None = None
) -> Exception:
    """Turn an array library's error into one that names the op, its arguments and shapes.

    Args:
        arrays: the tensor arguments, as arrays.
        given: all that is known of the call by name: the settings, and more.
    """
    if isinstance(error, EdutorchError):
        return memory_error(op.title, error) if isinstance(error, OutOfMemory) else error
    settings = {
        name: call_values[name] for name in op.settings if call_values and name in call_values
    }
    # From the most certain cause to the least: a wrong setting can cause any of the errors below.
    wrong = wrong_setting(op, settings) or contract_error(op, arrays, settings)
    if wrong is not None:
        return wrong
    # The forward asked an argument for a member: it was no array, such as a string.
    if isinstance(error, AttributeError):
        return missing_member(op, settings, error)
    named = arguments_of(op, arrays, settings)
    rows = {name: shape_of(array) for name, array in named.items()}
    if is_too_large(error):
        return memory_error(op.title, error, rows)
    if isinstance(error, TypeError):
        return wrong_types(op, named, error)
    if isinstance(error, AxisError) and error.axis is not None and error.ndim is not None:
        return no_such_dim(op.title, error.axis, error.ndim)
    message = str(error)
    if isinstance(error, IndexError):
        headline = "a dimension is missing" if is_library_message(message) else message
        return DimError(op.title, headline, rows, valid_indices(message))
    # NumPy tried to read a text as a number.
    if "convert string" in message or "invalid literal" in message:
        for name, value in settings.items():
            if isinstance(value, str):
                return wrong_argument(op.title, name, value, "a number")
    # NumPy's message has the shapes without the names of the arguments; ours has both.
    if op.family.broadcasts or "broadcast" in message:
        misfit = _misfit(named)
        if misfit is not None:
            return ShapeError(op.title, misfit, rows, _broadcast_hint(list(named.values())))
        if not is_library_message(message):  # the forward itself objects, for example to a setting
            return InvalidValueError(op.title, message)
    if op.family.reduces and 0 in shape_of(arrays[0]):
        hint = "reduce over an axis that is not empty, or leave empty tensors out"
        return EmptyReductionError(op.title, "there is no number to choose from", rows, hint)
    if is_library_message(message):
        message = "the arguments do not fit together"
        rows |= {name: value for name, value in settings.items() if name not in rows}
    return ShapeError(op.title, message, rows)


def valid_indices(message: str) -> str | None:
    """Return a hint with the valid indices, from NumPy's message about an index."""
    # NumPy's words: if they change, the hint is missing and nothing else.
    size = re.search(r"is out of bounds for \w+ \d+ with size (\d+)", message)
    if size is None:
        return None
    count = int(size[1])
    return f"valid indices are {-count} to {count - 1}" if count else "it has no elements"


class EmptyReductionError(ShapeError, IndexError):
    """A maximum of an empty tensor. (PyTorch raises an IndexError here.)"""


def is_library_message(text: str) -> bool:
    return any(word in text for word in LIBRARY_WORDS)


def arguments_of(op: Op, arrays: Sequence[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arrays of a call by name, including those among the settings."""
    if op.variadic:
        return {f"{op.inputs[0]}[{i}]": array for i, array in enumerate(arrays[0])}
    named = {name: a for name, a in zip(op.inputs, arrays, strict=False) if a is not None}
    return named | {
        name: setting for name, setting in settings.items() if hasattr(setting, "shape")
    }


def contract_error(op: Op, arrays: Sequence[Any], settings: dict[str, Any]) -> Exception | None:
    if op.contract is None or op.variadic:
        return None
    try:
        op.contract.check(op.inputs, arrays, settings)
    except ShapeError as better:
        return better
    except KeyError:
        pass  # the contract divides by a setting, which is not known here
    return None


def wrong_types(op: Op, named: Mapping[str, Any], error: TypeError) -> Exception:
    """Make the error for dtypes that do not go together."""
    message = str(error)
    if "numpy boolean" in message:
        return NotForTypesError(
            op.title, "not defined for bool tensors",
            {name: shape_of(array) for name, array in named.items()},
            "~x, x ^ y and logical_not answer for bools; x.int() computes with 0 and 1",
        )  # fmt: skip
    # "ufunc 'add' did not contain a loop …" says nothing to its reader.
    if is_library_message(message) or "not supported for the input types" in message:
        dtype_names = {name: _dtype_name(array) for name, array in named.items()}
        return NotForTypesError(op.title, "not implemented for these types", dtype_names)
    return ArgumentError(op.title, message)


def _dtype_name(value: object) -> str:
    return str(getattr(value, "dtype", type(value).__name__))


# Settings -------------------------------------------------------------------------------


def wrong_setting(op: Op, settings: Mapping[str, Any]) -> ArgumentError | None:
    """Return the error for a setting that does not match its annotation, if there is one."""
    for name, value in settings.items():
        if name == "dtype" and not is_dtype(value):
            return wrong_argument(op.title, name, value, "a dtype")
        # As text: see `matches_annotation`.
        wanted = str(op.signature.parameters[name].annotation)
        if value is not op.signature.parameters[name].default and not matches_annotation(
            value, wanted
        ):
            return wrong_argument(op.title, name, value, wanted)
    return None


def is_dtype(value: object) -> bool:
    """Whether a value can stand for a dtype: one of ours, Python's int or float, or None."""
    is_python = value.__class__ is type and value in dtypes.BY_PYTHON
    return value is None or isinstance(value, dtypes.dtype) or is_python


def matches_annotation(value: object, wanted: str) -> bool:
    """Return True if a value may match an annotation; in doubt, it does.

    >>> from edutorch.core.error_messages import matches_annotation as fits
    >>> fits(1, "int | None"), fits(1.5, "int"), fits("x", "float"), fits([1], "Sequence[int]")
    (True, False, False, True)
    >>> fits(["a"], "Sequence[str] | None"), fits([1], "Sequence[str]")
    (True, False)
    >>> fits((0, 1), "Size | str"), fits("same", "Size | str"), fits((0.5, 1), "Size | str")
    (True, True, False)
    """
    # Compared by words: resolving an annotation takes far longer, and circles forbid it.
    words = set(re.findall(r"\w+", wanted))
    if value is None:
        return bool(words & {"None", "Dims", "Index"}) or not words <= KNOWN | {"str"}
    # A str where only numbers are known to be meant. Other words may be any class: in doubt, yes.
    if isinstance(value, str):
        return not words <= KNOWN
    if "Tensor" in words and (hasattr(value, "dtype") or not words & NUMBERS):
        return True
    words -= {"Tensor"}
    if not words <= NUMBERS | SEVERAL | {"None", "str"}:
        return True
    if words & SEVERAL and isinstance(value, list | tuple | range):
        # A `str` outside of the brackets, as in `Size | str`, is none of the items.
        texts = {"str"} if re.search(r"\[[^\]]*\bstr\b", wanted) else set()
        wanted = " | ".join((words & NUMBERS | texts or {"int"}) | words & {"None"})
        return all(
            matches_annotation(item, wanted) for item in value if not isinstance(item, list | tuple)
        )
    if getattr(value, "ndim", 0) or not words & (NUMBERS | SEVERAL):
        return False
    # True is a float for PyTorch, as 1.0, but not an int such as a dim.
    if isinstance(value, bool):
        return "float" in words
    # NumPy's integers and 0-d integer arrays are indices, too.
    return hasattr(value, "__index__") or ("float" in words and hasattr(value, "__float__"))


def flags_of(parameters: Iterable[inspect.Parameter]) -> list[str]:
    """Return the names of the parameters that are True or False and nothing else.

    Flags of which PyTorch only tests the truth take any value, here as there.
    """
    return [
        parameter.name
        for parameter in parameters
        if is_flag(parameter) and parameter.annotation == "bool"
    ]


def is_flag(parameter: inspect.Parameter) -> bool:
    words = set(re.findall(r"\w+", str(parameter.annotation)))
    return parameter.name not in TRUTHS and "bool" in words and words <= {"bool", "None"}


TRUTHS = {
    "as_tuple", "hard", "inplace", "return_indices", "size_average", "reduce",
}  # fmt: skip
"""Flags that PyTorch evaluates in Python."""


def check_flag(name: str, flag: str, value: object) -> None:
    """Raise ArgumentError for a flag that is neither True nor False, such as a NumPy bool."""
    if value.__class__ is not bool:
        raise wrong_argument(name, flag, value, "bool")


NUMBERS = {"int", "float"}
SEVERAL = {"Dims", "Sequence", "tuple", "Counts", "Size"}
KNOWN = NUMBERS | SEVERAL | {"None", "bool", "Tensor", "Array", "Index"}
"""Words of annotations that `matches_annotation` understands."""


READABLE = {"Dims": "an int or a tuple of ints", "Counts": "an int or a tuple of ints",
            "Size": "an int or a tuple of ints",
            "Sequence[int]": "a tuple of ints", "tuple[int, ...]": "a tuple of ints",
            "int | Sequence[int]": "an int or a tuple of ints"}  # fmt: skip


def wrong_argument(op: str, name: str, value: object, wanted: str) -> ArgumentError:
    """Make the error for an argument of a type that the op cannot take."""
    readable = READABLE.get(wanted, wanted.replace("Array", "Tensor").replace(" | ", " or "))
    return ArgumentError(op, f"argument `{name}` must be {readable}, not {type(value).__name__}")


def missing_member(op: Op, settings: Mapping[str, Any], error: AttributeError) -> Exception:
    """Return the error for a setting that lacks a member, such as a number in place of a tensor."""
    for name, value in settings.items():
        if f"'{type(value).__name__}' object" in str(error):
            return wrong_argument(op.title, name, value, "a Tensor")
    return error


# Operands -------------------------------------------------------------------------------


def no_tensor(title: str, name: str, value: object, wanted: str = "a Tensor") -> ArgumentError:
    """Make the error for an argument that is not a tensor."""
    hint = None
    if isinstance(value, list | tuple):
        # A list of tensors and a list of numbers are two different mistakes.
        tensors = bool(value) and all(hasattr(item, "_array") for item in value)
        hint = "stack the tensors first: torch.stack(…)" if tensors else "write torch.tensor(…)"
    elif value is None:
        hint = "a function without `return` gives None"
    elif isinstance(value, int | float | complex):
        hint = "write torch.tensor(…) around the number"
    elif hasattr(value, "__array__"):
        hint = "torch.from_numpy(…) makes a tensor of a NumPy array"
    class_name = type(value).__name__
    return ArgumentError(title, f"argument `{name}` must be {wanted}, not {class_name}", hint=hint)


def wrong_operand(op: Op, name: str, value: object) -> ArgumentError:
    """Make the error for an operand of an op, which may take numbers as well."""
    return no_tensor(
        op.title, name, value, "a Tensor or a number" if name in op.scalars else "a Tensor"
    )


def need_tensor(op: str, name: str, value: object) -> None:
    """Raise ArgumentError for an argument of a composed function that is not a tensor."""
    if not hasattr(value, "dtype"):
        raise no_tensor(op, name, value)


def operand_names(op: Op, operands: Sequence[Any]) -> Sequence[str]:
    return [f"{op.inputs[0]}[{i}]" for i in range(len(operands))] if op.variadic else op.inputs


def conversion_hint(arrays: Mapping[str, Any]) -> str:
    """Return a hint which of several arrays of different dtypes to convert, and how."""
    array_dtypes = {name: dtypes.of(array.dtype) for name, array in arrays.items()}
    for name, dtype in array_dtypes.items():
        if dtype.category < 2 <= max(dtype.category for dtype in array_dtypes.values()):
            return f"`{name}` holds {'integers' if dtype.category else 'bools'}: use {name}.float()"
    # The usual case: data from NumPy or pandas meets a model.
    if {dtypes.float32, dtypes.float64} <= set(array_dtypes.values()):
        double = next(name for name, dtype in array_dtypes.items() if dtype is dtypes.float64)
        return f"`{double}` is float64, which is what NumPy makes: use x.float() or model.double()"
    return "convert one of them, for example with x.to(other.dtype)"


def sequence_of(op: Op, value: Any) -> tuple[Any, ...]:
    """Return the tensors of a variadic op as a tuple."""
    if hasattr(value, "__iter__") and not hasattr(value, "shape") and not isinstance(value, str):
        return tuple(value)
    raise ArgumentError(
        op.title,
        f"argument `{op.inputs[0]}` must be a tuple of Tensors, not {type(value).__name__}",
        hint="put them into a list: [a, b]" if hasattr(value, "shape") else None,
    )


def describe_array(value: Array) -> str:
    """Return the shape and the dtype of an array as errors show them."""
    return f"{shape_of(value)} {dtypes.of(value.dtype)}"


def has_overlap(array: Array) -> bool:
    """Return True if several elements surely share a memory location, as after `expand`."""
    # "Surely": strides that overlap in other ways take a search, and occur with as_strided only.
    return 0 not in array.shape and any(
        step == 0 and size > 1 for size, step in zip(array.shape, array.strides, strict=True)
    )


def is_any_true(condition: Any) -> bool:
    """Whether an element of an array or a tensor is True: the usual question of a check.

    On the device `meta` there are no elements, and so none that a check could object to.
    """
    array = getattr(condition, "_array", condition)
    if isinstance(array, np.generic | bool):
        return bool(array)
    backend = backends.of(array)
    if backend.defers_checks:  # no answer yet: if it is yes, the backend tells later
        backend.defer_check(array)
        return False
    return backend.has_elements and bool(condition.any())


def overlap_error(op: str, target: Tensor) -> ShapeError:
    """Make the error for a write into an expanded tensor."""
    return ShapeError(
        op,
        "unsupported operation: more than one element of the written-to tensor "
        "refers to a single memory location",
        {"input": tuple(target.shape)},
        "x.clone() the expanded tensor first",
    )


# Shapes ---------------------------------------------------------------------------------


def _misfit(named: Mapping[str, Any]) -> str | None:
    """Return a message that names the axis over which the shapes do not broadcast."""
    pairs = list(named.items())
    for i, (name, array) in enumerate(pairs):
        for other, second in pairs[i + 1 :]:
            a, b = shape_of(array), shape_of(second)
            # Broadcasting lines axes up from the last one.
            for axis in range(-1, -min(len(a), len(b)) - 1, -1):
                if a[axis] != b[axis] and 1 not in (a[axis], b[axis]):
                    return (
                        f"the shapes cannot be broadcast together: "
                        f"axis {axis} is {a[axis]} in `{name}` but {b[axis]} in `{other}`"
                    )
    return None


def _broadcast_hint(arrays: Sequence[Any]) -> str:
    # Padded by two empty shapes: an op may have one operand, or three.
    a, b = (shape_of(array) for array in (*arrays, (), ())[:2])
    if len(b) == 1 and b[0] in a:
        behind = len(a) - 1 - a.index(b[0])
        shape = ", ".join([str(b[0]), *"1" * behind])
        return f"to line up with an earlier axis, add axes behind: x.reshape({shape})"
    if a == b[::-1]:
        return "one of them looks transposed: x.T"
    return "from the last axis backwards, sizes must be equal or one of them 1"


# Memory: errors that are raised before allocating -------------------------------------

TOO_LARGE = (
    "array is too big", "Maximum allowed dimension", "maximum supported dimension",
    "iterator is too large", "broadcast dimensions too large", "Maximum allowed size",
)  # fmt: skip
"""NumPy's messages for sizes that it refuses without asking the operating system."""


TOTAL_MEMORY = physical_memory()


def out_of_memory(
    op: str, shape: Sequence[int] | None, dtype: Any, rows: Mapping[str, Any] | None = None
) -> OutOfMemory:
    """Make the error for a result that does not fit into memory; `shape` is None if unknown."""
    rows = dict(rows or {})
    if shape is None or dtype is None:
        return OutOfMemory(op, "out of memory", rows, HINT)
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    rows |= {"result": f"{tuple(shape)} {dtype_name(dtype)}", "needed": format_bytes(size)}
    # Not known on every system.
    if TOTAL_MEMORY < 2**62:
        rows["memory"] = format_bytes(TOTAL_MEMORY)
    return OutOfMemory(op, f"out of memory: tried to allocate {format_bytes(size)}", rows, HINT)


HINT = "was a size or an axis mixed up? smaller batches, or a smaller type, need less"


def dtype_name(dtype: Any) -> str:
    try:
        return dtypes.of(dtype).name
    except TypeError:
        return str(dtype)


def check_memory(op: str, shape: Sequence[int], dtype: Any, xp: Any = None) -> None:
    """Raise OutOfMemory if the computer cannot hold a tensor of this shape.

    Args:
        dtype: its dtype, or an array that has it.
        xp: the namespace of its device; that of `meta` allocates nothing.

    Raises: OutOfMemory: it needs more than the physical memory.
    """
    # Before asking the system: Linux grants the pages, and kills the process when they are used.
    if math.prod(shape) * dtype.itemsize > TOTAL_MEMORY and getattr(xp, "allocates", True):
        raise out_of_memory(op, shape, getattr(dtype, "dtype", dtype))


def is_too_large(error: Exception) -> bool:
    """Return True if an array library has raised an error about a size."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, ValueError) and any(phrase in str(error) for phrase in TOO_LARGE)


def memory_error(op: str, error: Exception, rows: Mapping[str, Any] | None = None) -> OutOfMemory:
    """Turn an array library's out-of-memory error into ours."""
    if isinstance(error, OutOfMemory):  # a card's, which does not know for which op
        return OutOfMemory(error.op or op, error.message, error.arguments, error.hint)
    return out_of_memory(op, getattr(error, "shape", None), getattr(error, "dtype", None), rows)
