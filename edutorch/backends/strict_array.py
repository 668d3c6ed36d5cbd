"""The array of the strict device, and its conversion from and to NumPy (see `strict.py`)."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from .. import dtypes
from . import cupy_names
from .array_surface import ArraySurface, Index
from .numpy import Array, writable_view
from .strict_behaviour import DIFFERENT, assign, check_dtype, cupy_index

_waits = 0
_waiting_allowed = True

WAITING = {
    "argwhere", "bincount", "compress", "extract", "flatnonzero", "histogram",
    "nonzero", "tobytes", "unique",
}  # fmt: skip
"""Functions and methods where the host waits for the size of the result."""

BFLOAT16 = "E"
"""What CuPy calls bfloat16 in the list of a ufunc's loops."""


def synchronisations() -> int:
    """Return how often the host has waited for the device so far."""
    return _waits


@contextmanager
def no_synchronisation() -> Iterator[None]:
    """Raise RuntimeError inside the block where the host would wait for the device."""
    global _waiting_allowed
    before, _waiting_allowed = _waiting_allowed, False
    try:
        yield
    finally:
        _waiting_allowed = before


def wait() -> None:
    """Count that the host waits for the device."""
    global _waits
    if not _waiting_allowed:
        raise RuntimeError("strict: the host waits for the device here")
    _waits += 1


# Cards ----------------------------------------------------------------------------------

_thread = threading.local()


def current_card() -> int:
    """Return the card on which this thread makes arrays."""
    return getattr(_thread, "card", 0)


def set_current_card(index: int) -> None:
    """Choose the card on which this thread makes arrays."""
    _thread.card = index


# Conversion -----------------------------------------------------------------------------


def unwrap(value: Array, where: str) -> Any:
    """Return the NumPy value behind an operand; a NumPy array itself is refused."""
    if isinstance(value, StrictArray):
        if value.card != current_card():
            raise RuntimeError(
                f"strict: {where} got an array of card {value.card}, and the current card is "
                f"{current_card()}: a GPU would compute on the wrong one"
            )
        return value._values
    if isinstance(value, np.ndarray):
        raise TypeError(
            f"strict: {where} got a NumPy array; CuPy refuses to mix it with arrays of the device"
        )
    if type(value) in (tuple, list):
        return type(value)(unwrap(item, where) for item in value)
    return value


def wrap_result(result: object, sources: Sequence[Any]) -> Any:
    """Wrap a result of NumPy. A view of a source's memory keeps that source as `base`."""
    if isinstance(result, np.generic):
        result = np.asarray(result)
    if isinstance(result, np.ndarray):
        if not result.flags.writeable:
            with suppress(ValueError):  # CuPy's views are never read-only
                result = writable_view(result)
        memory = owner(result)
        for source in sources:
            if isinstance(source, StrictArray):
                if result is source._values:
                    return source
                if memory is owner(source._values):
                    return StrictArray(result, source if source.base is None else source.base)
        return StrictArray(result)
    if isinstance(result, tuple):
        return tuple(wrap_result(item, sources) for item in result)
    if isinstance(result, list):
        return [wrap_result(item, sources) for item in result]
    return result


def owner(values: Array) -> Any:
    """Return the object at the end of the chain of views: the one that holds the memory."""
    while True:
        below = values.obj if isinstance(values, memoryview) else getattr(values, "base", None)
        if below is None:
            return values
        values = below


def call_numpy(
    function: Callable[..., Any], name: str, args: Sequence[Any], keywords: dict[str, Any]
) -> Any:
    """Call NumPy's `function`. A GPU does not warn of overflow or division by zero."""
    plain = [unwrap(argument, name) for argument in args]
    settings = {key: unwrap(value, name) for key, value in keywords.items()}
    with np.errstate(all="ignore"):
        result = function(*plain, **settings)
    sources: list[Any] = []
    for value in (*args, *keywords.values()):
        sources += value if isinstance(value, (tuple, list)) else [value]
    return wrap_result(result, sources)


def call_ufunc(name: str, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Call a ufunc after comparing the dtypes with those CuPy has compiled."""
    known = cupy_names.known()["ufuncs"][name]
    inputs = args[: known["nin"]]
    input_dtypes = tuple(
        input_.dtype if isinstance(input_, (StrictArray, np.generic)) else None for input_ in inputs
    )
    if not has_loop(name, input_dtypes):
        shown = ", ".join(str(dtype) for dtype in input_dtypes)
        raise TypeError(f"CuPy's ufunc {name} is not supported for the input types {shown}")
    different = DIFFERENT.get(name)
    if different is None:
        return call_numpy(getattr(np, name), name, args, keywords)
    result = call_numpy(different, name, inputs, {})
    out = keywords.get("out", args[known["nin"]] if len(args) > known["nin"] else None)
    if out is None:
        return result
    np.copyto(out._values, result._values, "same_kind")
    return out


@functools.cache
def has_loop(name: str, input_dtypes: tuple[np.dtype | None, ...]) -> bool:
    """Return True if CuPy has compiled a ufunc for these dtypes."""
    return any(
        _accepts(loop, input_dtypes) for loop in cupy_names.known()["ufuncs"][name]["types"].split()
    )


def _accepts(loop: str, input_dtypes: Sequence[np.dtype | None]) -> bool:
    """Return True if a loop such as "ff->f" takes these dtypes (None: a Python number)."""
    return all(
        dtype is None or can_cast(dtype, wanted)
        for dtype, wanted in zip(input_dtypes, loop, strict=False)
    )


def can_cast(dtype: np.dtype, wanted: str) -> bool:
    """Return whether a dtype can be cast safely to that of a character."""
    if wanted == BFLOAT16:
        return dtypes.bfloat16 in dtypes.ALL and np.can_cast(dtype, dtypes.bfloat16.numpy)
    return np.can_cast(dtype, wanted)


# The array ------------------------------------------------------------------------------


class Flags:
    """The memory layout of an array, as far as CuPy reports it."""

    __slots__ = ("c_contiguous", "f_contiguous", "owndata")

    def __init__(self, array: StrictArray) -> None:
        self.c_contiguous = array._values.flags.c_contiguous
        self.f_contiguous = array._values.flags.f_contiguous
        self.owndata = array.base is None


class StrictArray(ArraySurface):
    """An array of the strict device. Members that are not defined here come from CuPy's list."""

    __slots__ = ("__weakref__", "_values", "base", "card")
    __array_ufunc__ = None  # NumPy's operators defer to ours, which refuse NumPy arrays

    _values: np.ndarray
    base: StrictArray | None
    """The array whose memory this one views, as CuPy's `base`."""

    def __init__(self, values: np.ndarray, base: StrictArray | None = None) -> None:
        check_dtype(values.dtype)
        self._values, self.base = values, base
        self.card = current_card() if base is None else base.card

    def _call(self, name: str, arguments: Sequence[Any], settings: dict[str, Any]) -> Any:
        return call_numpy(DIFFERENT.get(name, getattr(np, name)), name, arguments, settings)

    def _operate(self, name: str, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        if name == "matmul":  # the one operator that is no ufunc in CuPy
            return self._call(name, operands, settings)
        return call_ufunc(name, operands, settings)

    def __imatmul__(self, other: object) -> Any:
        return self @ other  # CuPy has no @=, and then Python takes @

    def _element(self, conversion: str) -> Any:
        wait()
        return self._values

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The shape."""
        return self._values.shape

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """The dtype."""
        return self._values.dtype

    def __getattr__(self, name: str) -> Any:
        if name in cupy_names.known()["attributes"]:
            return wrap_result(getattr(self._values, name), (self,))
        how = cupy_names.method_signature(name)
        if how is None:
            raise AttributeError(f"CuPy's arrays have no {name!r}")

        def method(*args: Any, **keywords: Any) -> Any:
            cupy_names.bind(how, f"method {name}", len(args), frozenset(keywords))
            if name in WAITING:
                wait()
            unbound = DIFFERENT.get(name, getattr(np.ndarray, name))
            return call_numpy(unbound, name, (self, *args), keywords)

        return method

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("_values", "base", "card"):
            object.__setattr__(self, name, value)
        elif name in ("real", "imag", "shape"):
            setattr(self._values, name, unwrap(value, name))
        else:
            raise AttributeError(f"CuPy's arrays do not let {name!r} be set")

    @property
    def flags(self) -> Flags:
        """Its memory layout."""
        return Flags(self)

    def get(self, *_: Any, **__: Any) -> np.ndarray:
        """Copy to the host: the only conversion to NumPy."""
        wait()
        return self._values.copy()

    def item(self) -> Any:
        """Return the only element, on the host."""
        wait()
        return self._values.item()

    def tolist(self) -> Any:
        """Return all elements as nested lists, on the host."""
        wait()
        return self._values.tolist()

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def __array_function__(self, function: Callable[..., Any], *_: Any) -> Any:
        raise TypeError(
            f"strict: numpy.{function.__name__} was called with an array of the device; use xp"
        )

    def __getitem__(self, index: Index) -> StrictArray:
        parts = check_index(index, self.shape)
        if any(isinstance(part, np.ndarray) for part in parts):
            return StrictArray(np.array(self._values[parts]))  # a copy, of a 0-d index too
        if not any(part is Ellipsis for part in parts):
            parts = (*parts, Ellipsis)  # keeps a single element a 0-d view
        return wrap_result(self._values[parts], (self,))

    def __setitem__(self, index: Index, value: object) -> None:
        if isinstance(value, (list, tuple)):
            raise TypeError("strict: assign a number or an array of the device, not a list")
        parts = check_index(index, self.shape)
        with np.errstate(all="ignore"):
            # Between cards as well: it is a copy.
            is_array = isinstance(value, StrictArray)
            assign(self._values, parts, value._values if is_array else unwrap(value, "assignment"))

    def __repr__(self) -> str:
        return f"StrictArray({self._values!r})"

    def __copy__(self) -> StrictArray:
        copied = StrictArray(self._values.copy())
        copied.card = self.card  # as CuPy's
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> StrictArray:
        return self.__copy__()


def check_index(index: Index, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return an index for NumPy after the checks of CuPy, which wraps arrays that are too large."""
    index_parts = index if isinstance(index, tuple) else (index,)
    for part in index_parts:
        if isinstance(part, slice):
            bounds = (part.start, part.stop, part.step)
            if any(isinstance(bound, StrictArray) for bound in bounds):
                raise TypeError("CuPy's arrays cannot be the bounds of a slice")
    parts = cupy_index([unwrap(part, "an index") for part in index_parts], shape)
    masks = [part for part in parts if isinstance(part, np.ndarray) and part.dtype == bool]
    if len(masks) > 1:
        raise IndexError("CuPy does not take more than one boolean array in an index")
    if masks:
        wait()  # the number of selected elements depends on the mask
    return parts


StrictArray._operands = (StrictArray, np.ndarray, np.generic, int, float, complex)
