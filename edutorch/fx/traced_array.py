"""Arrays that compute like NumPy's, and record in a graph what they compute.

During a capture every tensor holds one of these. The values are real (`held`), so the function
runs as usual: results, in-place writes and exceptions are those of a normal run. A value may be
converted to a Python number (`item`, `bool`) as well; then the graph cannot represent the
function, and the tracer records where.

Graphs write nothing in place. A `TracedMemory` is shared by all views of it; a write gives it a
new version, and each view creates a new node when its node is next asked for.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import backends
from ..backends.array_surface import DispatchedArray, unpack_axes
from ..backends.numpy import Array
from ..core.tensor import Tensor
from . import primitives
from .node import Node, flatten, map_aggregate

if TYPE_CHECKING:
    from .capture_context import TracedBackend

__all__ = [
    "TracedArray", "TracedMemory", "TracedNumber", "address", "as_array", "covers_whole",
    "flatten_arrays", "is_device_array", "may_share_memory", "memory_layout", "memory_owner",
    "same_view", "to_held",
]  # fmt: skip


class TracedMemory:
    """The memory that several arrays share: `root` covers all of it, `version` counts writes."""

    __slots__ = ("entries", "has_moving_views", "root", "version")

    def __init__(self, root: TracedArray) -> None:
        self.root, self.version = root, 0
        self.has_moving_views = False  # some view depends on values: x[i] with a tensor i
        self.entries: list[TracedArray] = [root]  # arrays from outside


class TracedArray(DispatchedArray):
    """An array of the capturing backend (see the module's docstring)."""

    __slots__ = ("__weakref__", "_node", "backend", "held", "memory", "seen_version")
    __array_priority__ = 500

    def __init__(self, backend: TracedBackend, real: Array, node: Node | None) -> None:
        self.backend, self.held, self._node = backend, real, node
        self.memory, self.seen_version = TracedMemory(self), 0

    @property
    def node(self) -> Node:
        """The node of its current value."""
        memory = self.memory
        if self.seen_version != memory.version:
            self._node = self.backend.tracer.read_view(memory, self.held)
            self.seen_version = memory.version
        if self._node is None:
            self._node = self.backend.tracer.constant(self)
        return self._node

    # Attributes -------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The shape."""
        return self.held.shape

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """The NumPy dtype."""
        return self.held.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides in bytes."""
        return self.held.strides

    @property
    def flags(self) -> Any:
        """The memory layout flags."""
        return self.held.flags

    @property
    def base(self) -> TracedArray | None:
        """The array that it is a view of, or None."""
        return None if self.memory.root is self else self.memory.root

    # Methods -------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.backend.inner.array_type, name, None)
        method = getattr(np.ndarray, name, None) if method is None else method
        if method is None or name.startswith("__"):
            raise AttributeError(f"traced arrays have no {name!r}")
        if not callable(method):
            self.backend.tracer.poison(f"the attribute {name!r} of an array was read")
            return getattr(self.held, name)
        return lambda *args, **kwargs: self.backend.method(name, self, args, kwargs)

    def reshape(self, *shape: int | Sequence[int], order: str = "C") -> TracedArray:
        """Return the elements in another shape."""
        sizes = unpack_axes(shape)
        if order != "C":
            return self.backend.method("reshape", self, (sizes,), {"order": order})
        return self.backend.record_op(
            "reshape", (self,), {"shape": sizes}, self.held.reshape(sizes)
        )

    def transpose(self, *axes: int | Sequence[int] | None) -> TracedArray:
        """Permute the axes."""
        order = unpack_axes(axes) if axes not in ((), (None,)) else tuple(range(self.ndim))[::-1]
        real = self.held.transpose(order)
        return self.backend.record_op("permute", (self,), {"dims": order}, real)

    def swapaxes(self, axis1: int, axis2: int) -> TracedArray:
        """Swap two axes."""
        real = self.held.swapaxes(axis1, axis2)
        return self.backend.record_op("transpose", (self,), {"dim0": axis1, "dim1": axis2}, real)

    def astype(self, dtype: np.dtype | type, copy: bool = True, **settings: Any) -> TracedArray:
        """Convert to another dtype."""
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        return self.backend.cast(self, np.dtype(dtype))

    def copy(self, order: str = "C") -> TracedArray:
        """Return a copy."""
        return self.backend.record_node(primitives.copy, (self,), {}, self.held.copy(order))  # type: ignore[arg-type]

    def __getitem__(self, index: object) -> TracedArray:
        return self.backend.getitem(self, index)

    def __setitem__(self, index: object, value: object) -> None:
        self.backend.setitem(self, index, value)

    def _answer(
        self, function: Callable[..., Any], arguments: Sequence[Any], settings: dict[str, Any]
    ) -> Any:
        return self.backend.call(function, arguments, settings)

    # Conversion to Python numbers -----------------------------------------------------------------

    def number(self) -> TracedNumber:
        """Return the only element as a traced Python number."""
        node = self.backend.tracer.record(primitives.item, (self,), {}, number=True)
        return TracedNumber(self.backend, self.held.item(), node)

    def item(self, *index: Any) -> Any:
        """Return the only element as a Python number; inside an optimizer, a traced one."""
        tracer = self.backend.tracer
        if not index and tracer.is_running() and is_called_by_optimizer():
            return self.number()
        tracer.poison("a number of a tensor is taken for Python with .item()")
        return self.held.item(*index)

    def tolist(self) -> Any:
        """Return the elements as nested lists."""
        self.backend.tracer.poison("the numbers of a tensor are taken for Python")
        return self.held.tolist()

    def _element(self, conversion: str) -> Any:
        self.backend.tracer.poison(
            "the way depends on the numbers of a tensor (if, while, and, or)"
            if conversion == "bool"
            else f"a number of a tensor is taken for Python with {conversion}()"
        )
        return self.held

    def __index__(self) -> int:
        self.backend.tracer.poison("a number of a tensor is used as an index of Python")
        return int(self.held)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        self.backend.tracer.poison("the numbers of a tensor are taken as a NumPy array")
        return np.array(self.held, dtype) if dtype or copy else self.held

    def __repr__(self) -> str:
        return f"TracedArray({self.held!r})"


def is_called_by_optimizer() -> bool:
    """Return True if the code that asks for a number belongs to `edutorch.optim`."""
    frame: Any = sys._getframe(2)
    if frame.f_globals.get("__name__") == "edutorch.core.tensor_interop":
        frame = frame.f_back
    return frame.f_globals.get("__name__", "").startswith("edutorch.optim.")


class TracedNumber:
    """A Python number that depends on tensors: a count of steps, a learning rate."""

    __slots__ = ("backend", "node", "value")
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, backend: TracedBackend, value: int | float, node: Node) -> None:
        self.backend, self.value, self.node = backend, value, node

    def _to_python(self) -> Any:
        tracer = self.backend.tracer
        if tracer.is_running():
            tracer.poison("the way depends on a number that changes from step to step")
        return self.value

    def __float__(self) -> float:
        return float(self._to_python())

    def __int__(self) -> int:
        return int(self._to_python())

    def __bool__(self) -> bool:
        return bool(self._to_python())

    def __repr__(self) -> str:
        return f"TracedNumber({self.value!r})"


TracedArray._operands = (
    TracedArray, TracedNumber, np.ndarray, np.generic, int, float, complex,
)  # fmt: skip


def number_operator(function: Callable[..., Any], is_reflected: bool) -> Callable[..., Any]:
    """Return an operator of traced numbers, which becomes a node of the graph."""

    def operator(self: TracedNumber, *others: object) -> Any:
        operands = (*others, self) if is_reflected else (self, *others)
        if not all(isinstance(other, TracedNumber | int | float) for other in others):
            return NotImplemented
        return self.backend.number(function, operands)

    return operator


for _name, _function in primitives.NUMBERS.items():
    setattr(TracedNumber, f"__{_name}__", number_operator(_function, is_reflected=False))
    setattr(TracedNumber, f"__r{_name}__", number_operator(_function, is_reflected=True))


def number_comparison(function: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    """Return a comparison of traced numbers, which reads them."""
    return lambda self, other: function(self._to_python(), getattr(other, "value", other))


for _function in (operator.eq, operator.lt, operator.le, operator.gt, operator.ge):
    setattr(TracedNumber, f"__{_function.__name__}__", number_comparison(_function))


def to_held(value: object) -> Any:
    """Replace traced arrays by the NumPy arrays that they hold, at any depth."""
    return map_aggregate(value, held_value)


def held_value(value: object) -> Any:
    """Return the NumPy array or number behind a tensor, a traced array or a traced number."""
    if isinstance(value, Tensor):
        value = value._array
    if isinstance(value, TracedArray):
        return value.held
    return value.value if isinstance(value, TracedNumber) else value


def flatten_arrays(value: object) -> list[Any]:
    """Flatten nested containers into a list, with arrays in place of tensors."""
    return [leaf._array if isinstance(leaf, Tensor) else leaf for leaf in flatten(value)]


def as_array(value: object) -> Any:
    """Convert a NumPy scalar to a 0-d array; arrays are returned as they are."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def base_array(array: np.ndarray) -> Any:
    """Return the array at the end of the chain of views."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def is_device_array(array: object) -> bool:
    """Return True for an array with elements on another device than the CPU."""
    if not backends.is_array(array) or isinstance(array, np.ndarray):
        return False
    backend = backends.of(array)
    return backend.level == 0 and backend.has_elements


def memory_owner(array: Array) -> Any:
    """Return what stands for the memory of an array: its views have the same, and no others.

    Arrays of NumPy have their owner's id; those of a device, where their storage begins.
    """
    if isinstance(array, np.ndarray):
        return id(base_array(array))
    backend = backends.of(array)
    return (backend.device_name, backend.storage(array)[0]) if array.size else id(array)


def may_share_memory(first: Array, second: Array) -> bool:
    """Return True if two arrays may have elements in common; on a device: a storage."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.may_share_memory(first, second)
    return memory_owner(first) == memory_owner(second)


def address(array: Array) -> int:
    """Return the address of the first element."""
    return array.ctypes.data if isinstance(array, np.ndarray) else backends.of(array).address(array)


def same_view(first: Array, second: Array) -> bool:
    """Return True if two arrays have the same memory, dtype, shape and strides."""
    return (
        first.shape == second.shape
        and first.dtype == second.dtype
        and first.strides == second.strides
        and first.__class__ is second.__class__
        and address(first) == address(second)
    )


def memory_layout(whole: Array, part: Array) -> tuple[tuple[int, ...], int | None, Any]:
    """Return the memory order of the axes of `whole`, the byte offset of `part` in it, and `whole`.

    The offset is None if `whole` is not dense, or if `part` reaches outside of it.
    """
    order = tuple(sorted(range(whole.ndim), key=lambda axis: -whole.strides[axis]))
    offset = address(part) - address(whole)
    least = offset + sum(min(0, (n - 1) * s) for n, s in zip(part.shape, part.strides, strict=True))
    most = offset + part.itemsize
    most += sum(max(0, (n - 1) * s) for n, s in zip(part.shape, part.strides, strict=True))
    if not whole.transpose(order).flags.c_contiguous or least < 0 or most > whole.nbytes:
        return order, None, whole
    return order, offset, whole


def covers_whole(whole: Array, part: Array, offset: int) -> bool:
    """Return True if both cover all of the same memory contiguously."""
    return (
        offset == 0
        and part.size == whole.size
        and part.dtype == whole.dtype
        and part.flags.c_contiguous
        and whole.flags.c_contiguous
    )
