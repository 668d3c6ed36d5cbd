"""The CPU backend on NumPy, and the interface of all backends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Annotated, Any

import numpy as np

from .addresses import address_of
from .index_width import numpy_with_64_bit_indices
from .kernel_registry import slot
from .philox_numpy import NumpyRandom

ADD_AT = slot("ADD_AT")
FILL, COUNT_UP, LINSPACE = slot("FILL"), slot("COUNT_UP"), slot("LINSPACE")
TAKE_AT, COPY = slot("TAKE_AT"), slot("COPY")
TAKE_MASKED, PUT_MASKED = slot("TAKE_MASKED"), slot("PUT_MASKED")
ROW_STATISTICS = slot("ROW_STATISTICS")
COPY_INTO = slot("COPY_INTO")

Array = Annotated[Any, "Array"]
"""An array of some backend. Rules and forwards are written for all of them, and an
op knows its tensor arguments by this annotation."""

ArrayOrTensor = Annotated[Any, "ArrayOrTensor"]
"""What a derivative rule computes with: arrays, or tensors while its own steps are recorded to be
differentiated again. One text serves both, as the public ops take both."""

Number = Annotated[Any, "Number"]
"""A number of Python or NumPy, or a tensor that holds one."""

Namespace = Annotated[Any, "Namespace"]
"""The NumPy-like module of some backend: `numpy`, `cupy` or an imitation of their functions."""


class Backend:
    """The interface to an array library. `xp` is its NumPy-like module.

    `name` is the device's name, `array_type` the class of its arrays.
    """

    name: str
    is_accelerator = False  # whether it computes beside the CPU, with memory of its own
    is_simulated = False  # whether it only answers for an accelerator, and computes on the CPU
    index: int | None = None  # its number among the cards of its type; None: there is only one
    has_elements = True  # whether its arrays have elements (those of `meta` have shapes only)
    checks_access = True  # whether its arrays refuse wrong indices, and writes into expanded ones
    checks_later = False  # whether indices are checked without waiting (see `pending_checks.py`)
    defers_checks = False  # whether a check of values is told later (see `defer_check`)
    xp: ModuleType | Any
    array_type: type
    half_products: frozenset[str] = frozenset()
    """Ops whose rules take 16-bit floats as they are: one product, added up in float32."""

    kernels = ""  # the device whose kernels compute with its arrays, besides the CPU's
    level = 0  # of `vmap`: a device is outside of all of them (see `batching.py`)

    @property
    def device_name(self) -> str:
        """The name that `tensor.device` shows, with the index of the GPU."""
        return self.name if self.index is None else f"{self.name}:{self.index}"

    def run(self, forward: Callable[..., Any], inputs: Any, settings: dict[str, Any]) -> Any:
        """Run the forward of an op, given its arrays and its settings by name."""
        return forward(self.xp, **inputs, **settings)

    def run_op(self, op: Any, inputs: dict[str, Any], settings: dict[str, Any]) -> Any:
        """Run an op: its forward, unless the device knows the result without it."""
        return self.run(op.forward, inputs, settings)

    cards: Any = None  # all cards of its type, if the current one is switched between them

    def on_card(self, function: Callable[..., Any], *args: Any, **settings: Any) -> Any:
        """Call a function while this card is the current one."""
        if self.cards is None:
            return function(*args, **settings)
        return self.cards.call(self.index, function, *args, **settings)

    def asarray(self, values: Any, dtype: Any = None) -> Array:
        """Make an array of this device from numbers, lists or one of its own arrays."""
        return self.xp.asarray(values, dtype=dtype)

    def from_numpy(self, array: np.ndarray) -> Array:
        """Move a NumPy array to this device (without a copy if it is there already)."""
        raise NotImplementedError

    def to_numpy(self, array: Array) -> np.ndarray:
        """Move an array to the host (without a copy if it is there already)."""
        raise NotImplementedError

    def upload(self, array: np.ndarray) -> Array:
        """Move a NumPy array to this device; the host need not wait for the copy to be done."""
        return self.from_numpy(array)

    def pin(self, array: np.ndarray) -> np.ndarray:
        """Copy an array of the host to page-locked memory, where the device has use for it."""
        return array

    def is_pinned(self, array: np.ndarray) -> bool:
        """Return True if an array of the host is in page-locked memory."""
        return False

    def scatter_add(self, target: Array, index: Any, values: Array) -> None:
        """Do `target[index] += values`, counting an index as often as it occurs."""
        raise NotImplementedError

    def as_strided(
        self, array: Array, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> Array:
        """View the memory of `array` with other strides.

        The view begins `offset` bytes after the array's first element (or before, if negative).
        """
        raise NotImplementedError

    def storage(self, array: Array) -> tuple[int, int]:
        """Return the address and the size in bytes of the storage of `array`."""
        raise NotImplementedError

    def memory(self, array: Array) -> Array:
        """Return the storage of `array` as an array of bytes (uint8)."""
        raise NotImplementedError

    def shares_memory(self, view: Array, of: Array) -> bool:
        """Return True if `view`, the result of an op on `of`, shares its memory."""
        base = view.base
        return base is not None and (base is of or base is of.base)

    def writable(self, array: Array) -> Array:
        """Return a writable view of an array that is read-only because it was broadcast.

        Raises: ValueError: the memory itself is read-only.
        """
        return array

    def broadcast_to(self, array: Array, shape: tuple[int, ...]) -> Array:
        """Expand axes of size 1 without copying; the result may be read-only.

        Raises: ValueError: another axis would have to be expanded.
        """
        return self.xp.broadcast_to(array, shape)

    def diagonal(self, array: Array, offset: int, axis1: int, axis2: int) -> Array:
        """Return a writable view of the diagonal of two axes."""
        return self.xp.diagonal(array, offset, axis1, axis2)

    def address(self, array: Array) -> int:
        """Return the address of the first element."""
        raise NotImplementedError

    def generator(self, seed: int) -> Any:
        """Return a random generator with the interface of `NumpyRandom`."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait until the device has finished all work."""

    def is_capturing(self) -> bool:
        """Return True while work of the current stream is captured as a graph."""
        return False

    def defer_check(self, failed: Array) -> None:
        """Note a check that fails if an element of `failed` is True; it is told later."""
        raise NotImplementedError


def add_at(target: np.ndarray, index: Any, values: Array) -> None:
    """Do `target[index] += values`, counting an index as often as it occurs.

    Sums of 16-bit floats are computed in float32 and rounded once.
    """
    if target.itemsize == 2 and target.dtype.kind not in "iu":
        wide = target.astype(np.float32)
        add_at(wide, index, np.asarray(values, np.float32))
        target[...] = wide
    elif values.size < ADD_AT.min_size or ADD_AT(target, index, values) is None:
        np.add.at(target, index, values)


def make_full(xp: Namespace, shape: Any, value: Any, dtype: Any) -> Array:
    """Return a new array filled with a value: `xp.full`, on all threads where it is large."""
    if xp is not np:
        return xp.full(shape, value, dtype)
    size = shape if shape.__class__ is int else math.prod(shape)
    is_small = size < FILL.min_size
    # `zeros` is faster than `fill`, where no kernel is to be had.
    without_kernel = is_small or (FILL.requested and FILL.run is None)
    if without_kernel and value.__class__ is int and not value:
        return np.zeros(shape, dtype)
    array = np.empty(shape, dtype)
    if not is_small and FILL(array, value) is not None:
        return array
    if value.__class__ is int or (value.__class__ is float and array.dtype.kind == "f"):
        array.fill(value)
    else:  # which converts a fraction to an integer, as `full` does, and not as an assignment
        np.copyto(array, value, casting="unsafe")
    return array


def make_range(count: int) -> Any:
    """Return the integers from 0 to `count - 1`: `numpy.arange`, on all threads if many."""
    counted = COUNT_UP(count) if count >= COUNT_UP.min_size else None
    return np.arange(count) if counted is None else counted


def take_at(array: Array, index: Any) -> Any:
    """Return `array[index]`, an index with arrays in it."""
    taken = None
    if array.__class__ is np.ndarray:
        if index.__class__ is np.ndarray and index.dtype is MASK_TYPE:
            if array.size >= TAKE_MASKED.min_size:
                taken = TAKE_MASKED(array, index)
        elif array.size >= TAKE_AT.min_size:
            taken = TAKE_AT(array, index)
    return array[index] if taken is None else taken


def put_at(array: Array, index: Any, values: Array) -> None:
    """Do `array[index] = values`, which shares no memory with the array."""
    if index.__class__ is tuple and len(index) == 1:
        (index,) = index
    if (
        index.__class__ is np.ndarray
        and index.dtype is MASK_TYPE
        and array.__class__ is np.ndarray
        and array.size >= PUT_MASKED.min_size
        and PUT_MASKED(array, index, values) is not None
    ):
        return
    array[index] = values


MASK_TYPE = np.dtype(bool)
"""The dtype of a mask."""


def undispatched(name: str) -> Any:
    """Return a function of NumPy that does not look for `__array_function__`, 0.2 µs faster."""
    function = getattr(np, name)
    return getattr(function, "_implementation", function)


def broadcast_strides(array: np.ndarray, shape: tuple[int, ...]) -> list[int] | None:
    """Return the strides of an array that is expanded to a shape, or None if it does not fit."""
    own = array.shape
    missing = len(shape) - len(own)
    if missing < 0:
        return None
    strides = [0] * missing
    if shape[missing:] == own:  # only new axes
        return strides + [*array.strides]
    for size, wanted, step in zip(own, shape[missing:], array.strides, strict=True):
        if size != wanted and size != 1:
            return None
        strides.append(step if size == wanted else 0)
    return strides


def copy_row_major(array: Array) -> Any:
    """Return a copy in row-major order, such as of the transpose of a gradient."""
    copied = None
    if array.__class__ is np.ndarray and array.size >= COPY.min_size:
        copied = COPY(array)
    return array.copy() if copied is None else copied


def owner(array: np.ndarray) -> np.ndarray:
    """Return the array at the end of the chain of views: the one that holds the memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def in_memory_order(array: np.ndarray) -> np.ndarray:
    """View an array with its axes in the order of their strides."""
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    return array.transpose(order)


def writable_view(array: np.ndarray) -> np.ndarray:
    """Return the same view, writable, of an array that is a read-only view."""
    whole = owner(array)
    if not whole.flags.writeable:
        raise ValueError("the memory is read-only")
    memory = in_memory_order(whole).reshape(-1).view(np.uint8)
    offset = address_of(array) - address_of(whole)
    return np.ndarray(array.shape, array.dtype, memory, offset, array.strides)


def is_inside(array: np.ndarray, shape: Sequence[int], strides: Sequence[int], offset: int) -> bool:
    """Return True if a view is within the memory of a contiguous array."""
    if not array.flags.c_contiguous or offset < 0:
        return False
    last = offset + array.itemsize
    for size, step in zip(shape, strides, strict=True):
        if step < 0:
            return False
        last += (size - 1) * step
    return last <= array.nbytes


class NumpyBackend(Backend):
    """The reference backend, with which every other one is compared."""

    name = "cpu"
    xp = numpy_with_64_bit_indices()
    array_type = np.ndarray

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        return array

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        return array

    def scatter_add(self, target: np.ndarray, index: Any, values: Array) -> None:
        add_at(target, index, values)

    def as_strided(
        self, array: np.ndarray, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> np.ndarray:
        if not is_inside(array, shape, strides, offset):
            whole = owner(array)
            offset += self.address(array) - self.address(whole)
            array, dtype = in_memory_order(whole), array.dtype
        else:
            dtype = array.dtype
        memory = array.reshape(-1).view(np.uint8)  # bytes, because bfloat16 makes no buffer
        return np.ndarray(shape, dtype, memory, offset, strides)

    def storage(self, array: np.ndarray) -> tuple[int, int]:
        whole = owner(array)
        return address_of(whole), whole.nbytes

    def memory(self, array: np.ndarray) -> np.ndarray:
        return in_memory_order(owner(array)).reshape(-1).view(np.uint8)

    def writable(self, array: np.ndarray) -> np.ndarray:
        return writable_view(array)

    def broadcast_to(self, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        # The gradient of every sum uses this, and NumPy's function takes 2 µs in Python.
        strides: Sequence[int] | None = None
        if array.size == 1 and array.ndim <= len(shape) and array.dtype.kind == "f":
            strides = (0,) * len(shape)
        elif array.__class__ is not np.ndarray or array.dtype.kind not in "fibuc":
            pass  # bfloat16, for example, has no buffer
        elif array.flags.c_contiguous:
            strides = broadcast_strides(array, shape)
        if strides is None:
            return np.broadcast_to(array, shape)
        y = np.ndarray(shape, array.dtype, array, 0, strides)
        y.flags.writeable = False
        return y

    def diagonal(self, array: np.ndarray, offset: int, axis1: int, axis2: int) -> np.ndarray:
        y = array.diagonal(offset, axis1, axis2)
        y.flags.writeable = array.flags.writeable  # NumPy returns it read-only
        return y

    def address(self, array: np.ndarray) -> int:
        return address_of(array)

    def generator(self, seed: int) -> NumpyRandom:
        return NumpyRandom(seed)


class Shared(np.ndarray):
    """An array from outside, which other code may hold; views of it are shared as well."""

    __slots__ = ()
    backend: Backend  # the CPU, which is registered later

    def __array_wrap__(
        self, array: np.ndarray, context: object = None, return_scalar: bool = False
    ) -> Any:
        """Return a result computed from it as an ordinary array: it has new memory."""
        if array is self:
            return self
        plain = array.view(np.ndarray)
        return plain[()] if return_scalar else plain


class Exported(Shared):
    """The memory of an ordinary tensor while arrays from `.numpy()` share it."""

    __slots__ = ()


class Stored(Shared):
    """An array of a dtype for storage only: ops on it take their general path, which refuses it."""

    __slots__ = ()


def prepare_cast(array: Array, dtype: np.dtype) -> Any:
    """Return an array as `astype(dtype)` converts it like PyTorch: float8 is rounded from float32.

    float8_e4m3fn has no infinity: what is too large becomes its largest value.
    """
    # NumPy computes a dtype's name in a microsecond: asked for where it may be float8 alone.
    if dtype.itemsize == 1 and dtype.name.startswith("float8") and array.dtype != dtype:
        array = array.astype(np.float32)
        if dtype.name == "float8_e4m3fn":
            array = array.clip(-448, 448)
    return array


def as_plain_array(array: Array) -> Any:
    """Return a shared array as an ordinary one of the same memory; others unchanged."""
    return array.view(np.ndarray) if isinstance(array, Shared) else array


def has_same_layout(array: np.ndarray, other: np.ndarray) -> bool:
    """Return True if two arrays have the same address, shape, strides and dtype."""
    return (
        array.shape == other.shape
        and array.dtype == other.dtype
        and array.strides == other.strides
        and address_of(array) == address_of(other)
    )


def mark_shared(array: np.ndarray) -> np.ndarray:
    """Return an array from outside as `Shared`."""
    return array if isinstance(array, Shared) else array.view(Shared)
