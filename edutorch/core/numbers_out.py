"""How numbers leave a tensor: as Python numbers, lists, NumPy arrays, text and copies."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..backends.shared import plain
from ..errors import GradientError, ShapeError
from .autograd import LEAF
from .operator_types import OperatorTypes


class NumbersOut(OperatorTypes):
    """The part of `Tensor` that hands its numbers to the rest of Python."""

    __slots__ = ()

    _array: Any
    _node: Any
    _grad: Any

    def item(self) -> Any:
        """Return the only number as a Python number.

        Raises: ShapeError: there is not exactly one.
        """
        if self._array.size != 1:
            raise ShapeError(
                "item",
                f"a Tensor with {self._array.size} elements cannot be converted to Scalar",
                {"input": tuple(self._array.shape)},
                "use x.tolist() for all numbers, or x.mean().item() for one of them",
            )
        return self._array.item()

    def tolist(self) -> Any:
        """Return the numbers as nested lists."""
        return backends.of(self._array).to_numpy(self._array).tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """Return a NumPy array of the same memory (with `force`, a copy where needed).

        While it lives, what is saved of the tensor for backward is copied, because writes
        to the array do not go through the tensor: see `core/sharing.py`.

        Raises: GradientError: it needs a gradient. TypeError: it is on a GPU.
        """
        from .sharing import lend

        array = self._readable(force)
        return lend(self) if array is self._array else array

    def _readable(self, force: bool = False) -> np.ndarray:
        """Return the numbers as an array to read, if NumPy may have them.

        Raises: GradientError, TypeError: as for `numpy`.
        """
        if self._node is not None and not force:
            raise GradientError(
                "numpy",
                "can't call numpy() on a Tensor that requires grad",
                hint="use x.detach().numpy()",
            )
        backend = backends.of(self._array)
        if backend.name != "cpu" and not force:
            raise TypeError(
                f"can't convert a {backend.name} tensor to numpy; use x.cpu() to copy it first"
            )
        return backend.to_numpy(self._array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the numbers as NumPy asks for them: `np.asarray(x)` shares memory."""
        if copy or (dtype is not None and np.dtype(dtype) != self._array.dtype):
            if copy is False:
                raise ValueError("Unable to avoid copy while creating an array as requested.")
            return np.array(plain(self._readable()), dtype)
        return self.numpy()

    def __array_wrap__(
        self, array: np.ndarray, context: Any = None, return_scalar: bool = False
    ) -> Any:
        """Make a tensor of what a NumPy function has computed from this one: `np.sin(x)`."""
        from .tensor import wrap

        return wrap(np.asarray(array))

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self._array.dtype.kind not in "iub":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        if self._array.size != 1:
            raise ShapeError(
                "bool",
                "Boolean value of Tensor with more than one value is ambiguous",
                {"input": tuple(self._array.shape)},
                "use x.any() or x.all()",
            )
        array = self._array
        return bool(array.item() if backends.of(array).level == 0 else array.truth())

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def __format__(self, spec: str) -> str:
        """Format a 0-d tensor as its number: f"{loss:.3f}"; any other only without a spec."""
        return format(self.item(), spec) if not self._array.ndim else object.__format__(self, spec)

    def __contains__(self, value: Any) -> bool:
        """Say whether one of the numbers equals `value`."""
        return bool((self == value).any())  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        from .printing import tensor_text, visible_part

        backend = backends.of(self._array)
        if backend.level:
            return batched_text(self._array)
        return tensor_text(
            backend.to_numpy(visible_part(self._array, backend.xp)),
            shape=tuple(self._array.shape),
            dtype_name=self.dtype.name,
            default_dtype_name=dtypes.get_default_dtype().name,
            device_name=backend.device_name,
            requires_grad=self._node is LEAF,
            grad_fn_name=None if self.is_leaf else self._node.name(),
        )

    # Copies -----------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._node is not None and self._node is not LEAF:
            raise GradientError(
                "deepcopy",
                "only leaf tensors can be copied with their place in the graph",
                hint="use x.clone(), which stays in the graph, or x.detach().clone()",
            )
        made = rebuild(type(self), copied_with_storage(self._array, memo), self._node is LEAF, None)
        memo[id(self)] = made
        made._grad = copy.deepcopy(self._grad, memo)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._node is not None and self._node is not LEAF:
            raise GradientError(
                "pickle", "only leaf tensors can be pickled", hint="use x.detach() first"
            )
        array = backends.of(self._array).to_numpy(self._array)
        device = backends.of(self._array).name
        if device == "cpu" and isinstance(array.base, np.ndarray):
            whole = array.base  # it is stored once, for all tensors that lie in it
            if whole.flags.c_contiguous and whole.flags.owndata:
                place = array.shape, array.strides, array.ctypes.data - whole.ctypes.data
                return rebuild_part, (type(self), whole, array.dtype, place, self._node is LEAF)
        return rebuild, (type(self), np.ascontiguousarray(array), self._node is LEAF, device)


def copied_with_storage(array: Any, memo: dict[int, Any]) -> Any:
    """Copy an array; arrays that share memory share it in the copy, too."""
    whole = array.base
    if type(whole) is not type(array):
        return copy.deepcopy(array, memo)
    backend, made = backends.of(array), copy.deepcopy(whole, memo)
    offset = backend.address(array) - backend.address(whole)
    if whole.dtype != array.dtype:
        return array.copy()
    return backend.as_strided(made, array.shape, array.strides, offset)


def rebuild_part(kind: type, whole: Any, dtype: Any, place: Any, requires_grad: bool) -> Any:
    """Make a tensor again that lies somewhere in an array, which other tensors may share."""
    shape, strides, offset = place
    flat = whole.reshape(-1).view(np.uint8)
    return rebuild(kind, np.ndarray(shape, dtype, flat, offset, strides), requires_grad, None)


def batched_text(array: Any) -> str:
    """Write a tensor inside of `vmap`: its own shape, and the numbers of all examples."""
    from .tensor import wrap

    numbers = repr(wrap(array._values)).replace("\n", "\n    ")
    level, shape = array.backend.depth, list(array.shape)
    return f"BatchedTensor(lvl={level}, bdim=0, shape={shape}, value=\n    {numbers}\n)"


def rebuild(kind: type, array: Any, requires_grad: bool, device: str | None) -> Any:
    """Make a tensor of class `kind` again from what `copy` and `pickle` keep of it."""
    from .tensor import fill

    if device is not None:
        array = backends.get(device).from_numpy(array)
    made = fill(object.__new__(kind), array)
    made._node = LEAF if requires_grad else None
    return made
