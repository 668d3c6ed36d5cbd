"""The strict device for tests: NumPy, restricted to the interface and behaviour of CuPy.

Most machines have no GPU, yet code that works only with NumPy should fail there.
On this device it does. Its arrays

* have only the functions, arguments and methods in CuPy's list (`cupy_names.py`);
* never convert to NumPy arrays implicitly, nor mix with them;
* give 0-d arrays where NumPy gives scalars (from a sum, from `x[0, 0]`);
* answer as CuPy does where it differs from NumPy (`strict_behaviour.py`);
* count how often the host waits for an element (`synchronisations`).

Only the speed differs from a GPU, and the rounding of sums.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import cupy_names, kernel_registry
from .array_surface import NamespaceSurface
from .cards import CardRandom, Cards
from .cupy_corrections import CorrectedNamespace, scatter_add
from .numpy import Backend, in_memory_order
from .pending_checks import raise_pending
from .philox_numpy import NumpyRandom
from .strict_array import (
    WAITING,
    StrictArray,
    call_numpy,
    call_ufunc,
    check_index,
    current_card,
    no_synchronisation,
    owner,
    set_current_card,
    synchronisations,
    unwrap,
    wait,
)
from .strict_behaviour import ATOMIC, DIFFERENT, cleared

__all__ = [
    "StrictArray", "StrictBackend", "StrictRandom", "no_synchronisation", "synchronisations", "xp",
]  # fmt: skip

_FROM_HOST = {"array", "asarray", "asanyarray", "ascontiguousarray"}
"""Functions that accept a NumPy array: they copy it to the device."""

_ON_DEVICE = {"allclose", "array_equal", "count_nonzero"}
"""Functions that return a Python number in NumPy but a 0-d array in CuPy."""

_ARRAY_FIRST = {"A", "a", "ar", "arr", "array", "ary", "condition", "m", "x"}
"""The names of a first parameter of CuPy that has to be one of its arrays."""

_NUMBERS_ALLOWED = _FROM_HOST | {"allclose", "isclose", "iscomplexobj", "isrealobj", "isscalar"}


class StrictNamespace(NamespaceSurface):
    """The module `xp` for generic code: NumPy, as far as CuPy has it."""

    ndarray = StrictArray

    def _member(self, name: str) -> Any:
        known, find = cupy_names.known(), operator.attrgetter(name)
        if name in known["constants"]:
            return find(np)
        if name in known["ufuncs"]:
            return StrictUfunc(name)
        if name in known["functions"]:
            return _strict_function(name, find(np))
        raise AttributeError(f"CuPy has no {name!r}, so generic code must do without it")


class StrictUfunc:
    """A ufunc such as `xp.add`. CuPy reduces and accumulates only by `add` and `multiply`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        cupy_names.check_call(self._name, len(args), frozenset(keywords))
        return call_ufunc(self._name, args, keywords)

    def reduce(
        self, array: StrictArray, axis: int | tuple[int, ...] | None = 0,
        dtype: np.dtype | None = None, out: StrictArray | None = None, keepdims: bool = False,
    ) -> Any:  # fmt: skip
        return self._method("reduce", sum=array.sum, prod=array.prod)(axis, dtype, out, keepdims)

    def accumulate(
        self, array: StrictArray, axis: int = 0, dtype: np.dtype | None = None,
        out: StrictArray | None = None,
    ) -> Any:  # fmt: skip
        how = self._method("accumulate", sum=array.cumsum, prod=array.cumprod)
        return how(axis, dtype, out)

    def at(self, a: StrictArray, indices: Any, b: Any = None) -> None:
        """Apply it to the elements at `indices`, each as often as it occurs."""
        if self._name != "add":
            raise NotImplementedError(f"the strict device has no {self._name}.at")
        parts = check_index(indices, a.shape)
        has_arrays = any(isinstance(part, np.ndarray) and part.dtype != bool for part in parts)
        if has_arrays and a.dtype.name not in ATOMIC:
            raise TypeError(f"cupy.add.at only supports {', '.join(sorted(ATOMIC))} as data type")
        values = np.asarray(unwrap(b, "add.at")).astype(a.dtype)
        np.add.at(a._values, parts, values)

    def _method(self, method: str, sum: Callable[..., Any], prod: Callable[..., Any]) -> Any:
        if self._name not in cupy_names.REDUCING:
            raise NotImplementedError(f"CuPy has no {self._name}.{method}")
        return sum if self._name == "add" else prod


def _strict_function(name: str, numpys: Callable[..., Any]) -> Callable[..., Any]:
    how = cupy_names.signature(name)
    first_name = next(iter(how.parameters)) if how and how.parameters else ""
    needs_array = first_name in _ARRAY_FIRST and name not in _NUMBERS_ALLOWED

    def function(*args: Any, **keywords: Any) -> Any:
        cupy_names.check_call(name, len(args), frozenset(keywords))
        first = args[0] if args else keywords.get(first_name)
        if name in _FROM_HOST and isinstance(first, np.ndarray):
            return StrictArray(cleared(np.array(numpys(*args, **keywords))))
        if needs_array and not isinstance(first, StrictArray):
            class_name = type(first).__name__
            raise TypeError(f"CuPy's {name} needs an array of the device, got {class_name}")
        if name in WAITING or (name == "where" and len(args) == 1):
            wait()
        result = call_numpy(DIFFERENT.get(name, numpys), name, args, keywords)
        if name in _FROM_HOST and not isinstance(first, StrictArray):
            return StrictArray(cleared(result._values))
        return StrictArray(np.asarray(result)) if isinstance(result, int) and on_device else result

    on_device = name in _ON_DEVICE
    return function


xp = StrictNamespace()


class StrictRandom(NumpyRandom):
    """The same random numbers as on the CPU, as arrays of the strict device."""

    def uniform(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return StrictArray(super().uniform(shape, dtype))

    def normal(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return StrictArray(super().normal(shape, dtype))

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Any:
        return StrictArray(super().integers(low, high, shape))

    def permutation(self, n: int) -> Any:
        return StrictArray(super().permutation(n))


class StrictCards(Cards):
    """Cards of the strict device: as on GPUs, an array is made on the current one."""

    def __init__(self) -> None:
        super().__init__("strict", 4, StrictBackend)

    def get(self, index: int | None = None) -> Backend:
        return super().get(index or 0)  # "strict" is the first one, whichever is the current one

    def current_index(self) -> int:
        return current_card()

    def select(self, index: int) -> None:
        self.check(index)
        set_current_card(index)

    def index_of(self, array: StrictArray) -> int:
        return array.card


def make_cards() -> Cards:
    """Return the cards of the strict device."""
    return StrictCards()


class StrictBackend(Backend):
    """A card of the device called "strict", whose first one has no number in its name.

    See the module docstring.
    """

    name = "strict"
    xp = CorrectedNamespace(xp)
    checks_access = False
    checks_later = True
    array_type = StrictArray

    def __init__(self, index: int, cards: Cards) -> None:
        self.index, self.cards = index, cards

    @property
    def device_name(self) -> str:
        """The name that `tensor.device` shows."""
        return f"strict:{self.index}" if self.index else "strict"

    def run_op(self, op: Any, inputs: dict[str, Any], settings: dict[str, Any]) -> Any:
        return self.on_card(super().run_op, op, inputs, settings)

    def from_numpy(self, array: np.ndarray) -> StrictArray:
        return self.xp.asarray(array)

    def to_numpy(self, array: StrictArray) -> np.ndarray:
        raise_pending(self)
        return array.get()

    def scatter_add(self, target: StrictArray, index: object, values: StrictArray) -> None:
        values_given = (target, index, values)
        if kernel_registry.run_on_device(self.kernels, "ADD_AT", target.size, values_given) is None:
            scatter_add(self.xp, target, index, values)

    def as_strided(
        self, array: StrictArray, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> StrictArray:
        memory = owner(array._values)
        step = memory.itemsize
        flat = np.lib.stride_tricks.as_strided(memory, (memory.size,), (step,)).view(np.uint8)
        start = self.address(array) - memory.ctypes.data + offset
        view = np.ndarray(shape, array.dtype, flat.data, start, strides)
        return StrictArray(view, array if array.base is None else array.base)

    def storage(self, array: StrictArray) -> tuple[int, int]:
        whole = owner(array._values)
        return whole.ctypes.data, whole.nbytes

    def memory(self, array: StrictArray) -> StrictArray:
        flat = in_memory_order(owner(array._values)).reshape(-1).view(np.uint8)
        return StrictArray(flat, array if array.base is None else array.base)

    def address(self, array: StrictArray) -> int:
        return array._values.ctypes.data

    def generator(self, seed: int) -> CardRandom:
        return CardRandom(self.on_card(StrictRandom, seed), self)

    def synchronize(self) -> None:
        """Read the checks of indices; nothing else runs in the background here."""
        raise_pending(self)
