"""Where CuPy 14.2 answers otherwise than NumPy: imitated for the strict device (see `strict.py`).

Each function takes NumPy's arrays and returns what CuPy would on a GPU, as its source says. What
the library needs to be right in spite of them is in `cupy_corrections.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .cupy_corrections import HALVES
from .numpy import Array

ATOMIC = {"int32", "int64", "float16", "float32", "float64", "uint32", "uint64"}
"""The dtypes of `add.at`."""

UNDEFINED_BYTE = 0x5A
"""The bytes of an integer that CUDA leaves undefined: a division by 0, and the integer of a NaN.
They are 90 as int8 and 6510615555426900570 as int64: a result that nobody takes for a right one.
What a GPU gives there depends on the dtypes, the kernel and the compiler."""

NOT_AN_INDEX = "arrays used as indices must be of integer or boolean type. (actual: {})"


# Indices: CuPy does not read them on the host, so it cannot refuse one that is out of range ----


def cupy_index(parts: Sequence[Any], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return an index for NumPy that selects what CuPy selects: arrays wrap around.

    Raises: IndexError: CuPy refuses it; numbers and masks are checked. ValueError: the index
        arrays do not broadcast.
    """
    arrays = [np.asarray(part) if is_array_like(part) else None for part in parts]
    widths = [index_width(part, array) for part, array in zip(parts, arrays, strict=True)]
    if sum(part is Ellipsis for part in parts) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if sum(widths) > len(shape):
        raise IndexError(
            f"too many indices for array: array is {len(shape)}-dimensional, "
            f"but {sum(widths)} were indexed"
        )
    result: list[Any] = []
    axis = 0
    for part, array, width in zip(parts, arrays, widths, strict=True):
        sizes = shape[axis : axis + width]
        if array is not None:
            result.append(wrapped(array, sizes, axis))
        elif part is None or part is Ellipsis or isinstance(part, slice):
            result.append(part)
        else:
            result.append(checked_number(part, sizes[0], axis))
        axis += len(shape) - sum(widths) if part is Ellipsis else width
    check_broadcast([part for part in result if isinstance(part, np.ndarray)])
    return tuple(result)


def is_array_like(part: Any) -> bool:
    return isinstance(part, (np.ndarray, list, tuple, bool, np.bool_))


def index_width(part: Any, array: np.ndarray | None) -> int:
    """Return how many axes a part of an index selects from."""
    if array is None:
        return 0 if part is None or part is Ellipsis else 1
    if array.size == 0 and not isinstance(part, np.ndarray):
        return 1  # an empty list is an empty array of integers
    if array.dtype.kind not in "iub":
        raise IndexError(NOT_AN_INDEX.format(array.dtype.type))
    return array.ndim if array.dtype.kind == "b" else 1


def wrapped(array: np.ndarray, sizes: tuple[int, ...], axis: int) -> np.ndarray:
    if array.dtype.kind == "b":
        for i, (size, mask_size) in enumerate(zip(sizes, array.shape, strict=True)):
            if mask_size not in (0, size):
                raise IndexError(
                    f"boolean index did not match indexed array along dimension {axis + i}; "
                    f"dimension is {size} but corresponding boolean dimension is {mask_size}"
                )
        return array
    if array.size and not sizes[0]:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    whole = array.astype(np.int64)
    return np.asarray(whole % sizes[0]) if array.size else whole


def checked_number(part: Any, size: int, axis: int) -> int:
    number = int(part)  # a float is rounded, a text is read
    if not -size <= number < size:
        raise IndexError(f"Index {part} is out of bounds for axis {axis} with size {size}")
    return number


def check_broadcast(arrays: Sequence[np.ndarray]) -> None:
    if any(array.dtype.kind == "b" for array in arrays):
        return  # the number of true elements is not known yet
    shapes = [array.shape for array in arrays]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        text = " ".join(map(str, shapes))
        raise ValueError(f"operands could not be broadcast together with shapes{text}") from None


def take(a: Array, indices: Array, axis: int | None = None, out: Array = None) -> Any:
    """Indices out of range wrap around."""
    if np.size(indices) and not (a.size if axis is None else a.shape[axis]):
        raise IndexError("cannot do a non-empty take from an empty axes.")
    return np.take(a, indices, axis, out, mode="wrap")


# Assignment --------------------------------------------------------------------------------------


def assign(target: np.ndarray, index: tuple[Any, ...], value: Any) -> None:
    """Write `value` at an index."""
    is_number = not isinstance(value, np.ndarray)
    if is_number:
        value = np.asarray(value, target.dtype)
        region = target[index]
        if is_basic(index) and region.flags.c_contiguous:
            value = cleared(value)
    elif value.dtype != target.dtype:
        value = astype(value, target.dtype)
    try:
        target[index] = value
    except ValueError as error:
        if "broadcast" not in str(error):
            raise
        shapes = f"{np.shape(value)} {target[index].shape}"
        text = f"operands could not be broadcast together with shapes {shapes}"
        raise ValueError(text) from None


def is_basic(index: tuple[Any, ...]) -> bool:
    return not any(isinstance(part, np.ndarray) for part in index)


def cleared(value: np.ndarray) -> np.ndarray:
    """Return the number that CuPy writes: it clears the memory for any zero, so -0.0 is 0.0."""
    return np.zeros((), value.dtype) if value.ndim == 0 and value == 0 else value


# Arithmetic --------------------------------------------------------------------------------------


def undefined(dtype: np.dtype[Any]) -> Any:
    """Return the marker in place of an integer that is not defined."""
    return np.frombuffer(bytes([UNDEFINED_BYTE]) * dtype.itemsize, dtype)[0]


def marked(y: Array, b: Array) -> Any:
    """Return quotients or remainders of integers with the marker where the divisor `b` is 0."""
    return np.where(np.equal(b, 0), undefined(y.dtype), y) if y.dtype.kind in "iu" else y


def floor_divide(a: Array, b: Array) -> Any:
    """The quotient is rounded to the dtype before it is rounded down."""
    if np.result_type(a, b).kind in "iub":
        return marked(np.floor_divide(a, b), b)
    dtype = np.result_type(a, b)
    if dtype.name in HALVES:
        a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    return np.floor(np.true_divide(a, b)).astype(dtype)


def remainder(a: Array, b: Array) -> Any:
    """a - ⌊a / b⌋ · b as it stands: NaN if `b` is infinite, noise if the quotient is large."""
    if np.result_type(a, b).kind in "iub":
        return marked(np.remainder(a, b), b)
    return a - floor_divide(a, b) * b


def fmod(a: Array, b: Array) -> Any:
    """Of integers, computed in float64."""
    dtype = np.result_type(a, b)
    if dtype.kind not in "iub":
        return np.fmod(a, b)
    wide = np.fmod(np.asarray(a, np.float64), np.asarray(b, np.float64))
    return marked(np.where(np.equal(b, 0), 0, wide).astype(dtype), b)


def divide_with_remainder(a: Array, b: Array) -> Any:
    """NumPy's, of floats."""
    if np.result_type(a, b).kind in "iub":
        return floor_divide(a, b), remainder(a, b)
    return np.divmod(a, b)


def angle(z: Array, deg: bool = False) -> Any:
    """Of a real NaN it is π, and of -0.0 it is 0."""
    z = np.asarray(z)
    if z.dtype.kind == "c":
        return np.angle(z, deg)
    dtype = z.dtype if z.dtype.kind in "fV" else np.float64
    return np.where(z >= 0, 0.0, 180.0 if deg else np.pi).astype(dtype)


def needs_axis(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a scan of CuPy from NumPy's, which takes a 0-d array as a vector."""

    def scan(a: Array, axis: int | None = None, *args: Any, **settings: Any) -> Any:
        if axis is not None and not np.ndim(a):
            raise np.exceptions.AxisError(axis, 0)
        return function(a, axis, *args, **settings)

    return scan


def broadcast_arrays(*arrays: Array) -> list[Any]:
    """NumPy's arrays warn when it is asked whether they are read-only."""
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    return [np.broadcast_to(array, shape) for array in arrays]


# bfloat16: multiplied by cuBLAS in two dimensions only, and not sorted ---------------------------


def is_bfloat16(*arrays: Any) -> bool:
    return any(getattr(array, "dtype", np.dtype("f4")).name == "bfloat16" for array in arrays)


def products(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a product of CuPy, which is bfloat16 for such operands; NumPy's is float32."""

    def product(a: Array, b: Array, *args: Any, **settings: Any) -> Any:
        y = function(a, b, *args, **settings)
        return y.astype(np.result_type(a, b)) if is_bfloat16(a, b) else y

    return product


@products
def matmul(a: Array, b: Array, *args: Any, **settings: Any) -> Any:
    """Batches of bfloat16 have no kernel."""
    if max(np.ndim(a), np.ndim(b)) > 2 and np.size(a) and np.size(b) and is_bfloat16(a, b):
        raise TypeError("CuPy has no batched product of bfloat16")
    return np.matmul(a, b, *args, **settings)


def widening(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of CuPy that chooses elements: those of bfloat16 become float32."""

    def choose(*args: Any, **settings: Any) -> Any:
        y = function(*args, **settings)
        return y.astype(np.float32) if is_bfloat16(y) else y

    return choose


def nextafter(a: Array, b: Array) -> Any:
    """The neighbour of an infinite float16 is NaN."""
    y = np.nextafter(a, b)
    infinite = np.isinf(a) & (y != a)
    return np.where(infinite, np.nan, y).astype(y.dtype) if y.dtype == np.float16 else y


def einsum(*operands: Any, **settings: Any) -> Any:
    """Several operands are multiplied as batches of matrices."""
    arrays = [operand for operand in operands if isinstance(operand, np.ndarray)]
    if len(arrays) > 1 and is_bfloat16(*arrays) and all(array.size for array in arrays):
        raise TypeError("CuPy has no batched product of bfloat16, which einsum needs")
    return np.einsum(*operands, **settings)


def unsorted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of CuPy that sorts, which refuses bfloat16, from NumPy's."""

    def sort(*args: Any, **settings: Any) -> Any:
        arrays = args[0] if isinstance(args[0], (tuple, list)) else args
        if is_bfloat16(*arrays):
            raise ValueError("Unsupported dtype (bfloat16)")
        return function(*args, **settings)

    return sort


SORTING = (
    "argpartition", "argsort", "lexsort", "median", "partition", "percentile", "quantile",
    "searchsorted", "sort", "unique",
)  # fmt: skip


# Types -------------------------------------------------------------------------------------------

SUPPORTED = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128",
}  # fmt: skip
"""The dtypes of CuPy: those of C on a GPU, float16 and bfloat16."""


def check_dtype(dtype: np.dtype[Any]) -> None:
    if dtype.name not in SUPPORTED:
        raise ValueError(f"Unsupported dtype {dtype}")


def astype(array: np.ndarray, dtype: Any, *args: Any, **settings: Any) -> Any:
    """Floats become integers as on a GPU: they saturate; of a NaN the integer is undefined."""
    dtype = np.dtype(dtype)
    check_dtype(dtype)
    if array.dtype.kind in "fV" and dtype.kind in "iu":
        limits = np.iinfo(dtype if dtype.itemsize > 2 else np.int32)
        wide = np.asarray(array, np.float64)
        is_nan = np.isnan(wide)
        whole = np.clip(np.where(is_nan, 0, np.trunc(wide)), limits.min, limits.max)
        large = wide >= float(limits.max)  # float64 has no digits for the largest integer itself
        small = np.where(large, 0, whole).astype(limits.dtype)
        y = np.where(large, np.asarray(limits.max, limits.dtype), small).astype(dtype)
        return np.where(is_nan, undefined(dtype), y)
    return array.astype(dtype, *args, **settings)


def casting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of CuPy that may cast an array to the dtype of its second argument."""

    def make(a: Any, dtype: Any = None, *args: Any, **settings: Any) -> Any:
        if isinstance(a, np.ndarray) and dtype is not None and np.dtype(dtype) != a.dtype:
            a = astype(a, dtype)
        return function(a, dtype, *args, **settings)

    return make


def arange(*bounds: Any, **settings: Any) -> Any:
    """The bounds are numbers of the host."""
    if any(isinstance(bound, np.ndarray) for bound in bounds):
        raise TypeError("CuPy's arange takes numbers, no arrays of the device")
    return np.arange(*bounds, **settings)


def repeat(a: Array, repeats: Any, axis: int | None = None) -> Any:
    """The numbers of repetitions are numbers of the host: they determine a shape."""
    if isinstance(repeats, np.ndarray):
        raise ValueError("cupy.ndarray cannot be specified as `repeats` argument.")
    return np.repeat(a, repeats, axis)


def linspace(start: Any, stop: Any, num: Any = 50, *args: Any, **settings: Any) -> Any:
    """How many they are is a number of the host."""
    if isinstance(num, np.ndarray):
        raise TypeError("CuPy's linspace takes a number as `num`, no array of the device")
    return np.linspace(start, stop, num, *args, **settings)


DIFFERENT: dict[str, Callable[..., Any]] = {
    "angle": angle, "arange": arange, "astype": astype, "broadcast_arrays": broadcast_arrays,
    "array": casting(np.array), "asanyarray": casting(np.asanyarray),
    "asarray": casting(np.asarray), "divmod": divide_with_remainder,
    "cumprod": needs_axis(np.cumprod), "cumsum": needs_axis(np.cumsum), "dot": products(np.dot),
    "einsum": einsum, "floor_divide": floor_divide, "fmod": fmod, "matmul": matmul,
    "linspace": linspace, "mod": remainder, "nextafter": nextafter, "remainder": remainder,
    "repeat": repeat, "take": take,
    "tensordot": products(np.tensordot), "tril": widening(np.tril), "triu": widening(np.triu),
    "where": widening(np.where),
} | {name: unsorted(getattr(np, name)) for name in SORTING}  # fmt: skip
"""The functions and ufuncs of CuPy that have other results than NumPy's."""
