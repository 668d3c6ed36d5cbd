"""Conversions of a tensor to Python numbers, lists, NumPy arrays and text."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .. import backends, dtypes
from ..backends.numpy import Array, as_plain_array
from ..backends.pending_checks import raise_pending
from ..errors import (
    NO_ELEMENTS,
    ArgumentError,
    GradientError,
    ShapeError,
    ShapeValueError,
    ValueRangeError,
)
from ..modes import is_grad_enabled
from .autograd.graph import LEAF
from .formatting import tensor_text, visible_part
from .shapes import Index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..backends.device import Device
    from ..dtypes import dtype as DType
    from .tensor import Tensor


Operand: TypeAlias = "Tensor | np.ndarray | np.generic | complex"
"""What an operator computes with. (For type checkers an int or a float is a complex, too.)"""


class OperatorTypes:
    """Types for checkers and editors: of `x + y`, `x[0]`, … and what other classes define.

    Operators and methods are attached when the ops are defined (`tensor_methods.py`), where a
    checker cannot see them. At run time this class is empty.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        @property
        def dtype(self) -> DType: ...
        @property
        def device(self) -> Device: ...
        @property
        def is_leaf(self) -> bool: ...
        def backward(
            self,
            gradient: Tensor | None = None,
            retain_graph: bool | None = None,
            create_graph: bool = False,
            inputs: Sequence[Tensor] | Tensor | None = None,
        ) -> None: ...
        def __add__(self, other: Operand) -> Tensor: ...
        def __radd__(self, other: Operand) -> Tensor: ...
        def __iadd__(self, other: Operand) -> Tensor: ...
        def __sub__(self, other: Operand) -> Tensor: ...
        def __rsub__(self, other: Operand) -> Tensor: ...
        def __isub__(self, other: Operand) -> Tensor: ...
        def __mul__(self, other: Operand) -> Tensor: ...
        def __rmul__(self, other: Operand) -> Tensor: ...
        def __imul__(self, other: Operand) -> Tensor: ...
        def __truediv__(self, other: Operand) -> Tensor: ...
        def __rtruediv__(self, other: Operand) -> Tensor: ...
        def __itruediv__(self, other: Operand) -> Tensor: ...
        def __floordiv__(self, other: Operand) -> Tensor: ...
        def __mod__(self, other: Operand) -> Tensor: ...
        def __pow__(self, other: Operand) -> Tensor: ...
        def __rpow__(self, other: Operand) -> Tensor: ...
        def __matmul__(self, other: Operand) -> Tensor: ...
        def __and__(self, other: Operand) -> Tensor: ...
        def __or__(self, other: Operand) -> Tensor: ...
        def __xor__(self, other: Operand) -> Tensor: ...
        def __lshift__(self, other: Operand) -> Tensor: ...
        def __rshift__(self, other: Operand) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __lt__(self, other: Operand) -> Tensor: ...
        def __le__(self, other: Operand) -> Tensor: ...
        def __gt__(self, other: Operand) -> Tensor: ...
        def __ge__(self, other: Operand) -> Tensor: ...
        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __getitem__(self, index: Index) -> Tensor: ...
        def __setitem__(self, index: Index, value: Operand) -> None: ...


class TensorInterop(OperatorTypes):
    """The members of `Tensor` that convert it for the rest of Python."""

    __slots__ = ("_saved_at",)

    _saved_at: int  # the order of the last node that saved it; unset before the first
    _array: Any
    _node: Any
    _grad: Any
    _export_array: Callable[[], np.ndarray]  # attached by `numpy_aliasing.py`

    def item(self) -> Any:
        """Return the only element as a Python number.

        Raises: ShapeError: there is not exactly one.
        """
        if self._array.size != 1 and not backends.of(self._array).level:
            raise ShapeValueError(
                "item",
                f"a Tensor with {self._array.size} elements cannot be converted to Scalar",
                {"input": tuple(self._array.shape)},
                "use x.tolist() for all numbers, or x.mean().item() for one of them",
            )
        array = self._array
        if array.__class__ is not np.ndarray:
            raise_pending(backends.of(array))
        return array.item()

    def tolist(self) -> Any:
        """Return the elements as nested lists."""
        return backends.of(self._array).to_numpy(self._array).tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """Return a NumPy array of the same memory (with `force`, a copy where needed).

        While it exists, what is saved of the tensor for backward is copied, because writes
        to the array do not go through the tensor: see `core/numpy_aliasing.py`.

        Raises: GradientError: it needs a gradient, and recording is on. TypeError: it is on a GPU.
        """
        if self._array.__class__ is np.ndarray and self._node is None:
            return self._export_array()
        array = self._readable(force)
        # A copy needs no watch.
        return self._export_array() if array is self._array else array

    def _readable(self, force: bool = False) -> np.ndarray:
        """Return the elements as a NumPy array to read.

        Raises: GradientError, TypeError: as for `numpy`.
        """
        # Where nothing is recorded, no gradient can be missed: PyTorch allows it too.
        if self._node is not None and not force and is_grad_enabled():
            raise GradientError(
                "numpy",
                "can't call numpy() on a Tensor that requires grad",
                hint="use x.detach().numpy()",
            )
        backend = backends.of(self._array)
        if backend.name != "cpu" and not (force or backend.level):
            raise ArgumentError(
                "numpy", f"can't convert a {backend.name} tensor to numpy",
                {"input": f"{tuple(self._array.shape)} on {backend.device_name}"},
                "use x.cpu().numpy() to copy it first" if backend.has_elements else NO_ELEMENTS,
            )  # fmt: skip
        return backend.to_numpy(self._array)

    def __array__(
        self, dtype: np.typing.DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray:
        """Convert to a NumPy array: `np.asarray(x)` shares memory."""
        # NumPy 2 asks for the copy itself.
        if copy or (dtype is not None and np.dtype(dtype) != self._array.dtype):
            if copy is False:
                raise ValueError("Unable to avoid copy while creating an array as requested.")
            return np.array(as_plain_array(self._readable()), dtype)
        return self.numpy()

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export the memory to another library, without a copy: `numpy.from_dlpack(x)`.

        Raises: BufferError: it requires grad, or the other library lacks the dtype.
        """
        if self._node is not None:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self._array.dtype.isbuiltin != 1:  # but of ml_dtypes
            name = self.dtype.name
            raise BufferError(f"numpy, which does the export, has no {name}; use x.float()")
        backend = backends.of(self._array)
        if backend.is_accelerator:
            return self._array.__dlpack__(stream)
        options = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
        wanted = {name: value for name, value in options.items() if value is not None}
        return self.numpy().__dlpack__(stream=stream, **wanted)  # NumPy 2.0 knows none of them

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the type (1: CPU, 2: CUDA) and the index of the device."""
        if backends.of(self._array).is_accelerator:
            return self._array.__dlpack_device__()
        return 1, 0

    def __float__(self) -> float:
        value = self.item()
        return float(real_part(value) if value.__class__ is complex else value)

    def __int__(self) -> int:
        value = self.item()
        return int(real_part(value) if value.__class__ is complex else value)

    def __index__(self) -> int:
        # Python calls it for x[tensor]: a float index is a mistake.
        if self._array.dtype.kind not in "iub":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        if self._array.size != 1 and not backends.of(self._array).level:
            raise ShapeError(
                "bool",
                "Boolean value of Tensor with more than one value is ambiguous",
                {"input": tuple(self._array.shape)},
                "use x.any() or x.all(); torch.where(x, a, b) chooses for each number by itself",
            )
        if backends.of(self._array).level:
            # Within vmap there are many truths: the array says whose line has to be rewritten.
            return self._array.truth(sys._getframe(1).f_globals.get("__name__", ""))
        return bool(self.item())

    def __len__(self) -> int:
        # Python's own words: `len(5)` says the same.
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def __format__(self, spec: str) -> str:
        """Format a 0-d tensor as its element: f"{loss:.3f}"; any other only without a spec."""
        return format(self.item(), spec) if not self._array.ndim else object.__format__(self, spec)

    def __contains__(self, value: object) -> bool:
        """Return True if one of the elements equals `value`."""
        return bool((self == value).any())  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        grad_fn_name = None if self.is_leaf else self._node.name()
        return array_text(self._array, self._node is LEAF, grad_fn_name)


def array_text(array: Array, requires_grad: bool = False, grad_fn_name: str | None = None) -> str:
    """Format a tensor; inside of `vmap` its own shape, and the elements of all examples."""
    backend = backends.of(array)
    if backend.level and backend.depth:  # type: ignore[attr-defined]
        values_text = array_text(array._values).replace("\n", "\n    ")
        level, shape = backend.depth, list(array.shape)  # type: ignore[attr-defined]
        return f"BatchedTensor(lvl={level}, bdim=0, shape={shape}, value=\n    {values_text}\n)"
    part = backend.to_numpy(visible_part(array, backend.xp)) if backend.has_elements else None
    return tensor_text(
        part,
        shape=tuple(array.shape),
        dtype_name=dtypes.of(array.dtype).name,
        default_dtype_name=dtypes.get_default_dtype().name,
        device_name=backend.device_name,
        requires_grad=requires_grad,
        grad_fn_name=grad_fn_name,
    )


def real_part(value: complex) -> float:
    """Return a complex number as a float. Raises: ValueRangeError: it is not real."""
    if value.imag:
        raise ValueRangeError(
            "float", "a complex number with an imaginary part is no real number", {"input": value},
            "take x.real, x.imag or x.abs()",
        )  # fmt: skip
    return value.real
