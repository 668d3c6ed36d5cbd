"""The backend on which XLA traces definitions: arrays of JAX behind NumPy's surface.

One trace is one `XlaBackend`. Its arrays (`xla_array.py`) are a registered type, so the public ops,
`backends.of` and the derivative rules take them. What needs a value, such as the check of an index,
becomes a flag that leaves the program as an output (`defer_check`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import register_type, xla_array
from .array_surface import Index, NamespaceSurface
from .batching import BatchedBackend
from .numpy import Array, Backend
from .philox import PhiloxRandom, blocks, integers_from_words
from .xla_array import XlaArray, XlaError, dtype_beside, unwrap

__all__ = ["XlaBackend", "XlaRandom", "import_jax", "positions"]

LEAST_VERSION = (0, 7)
"""The oldest JAX whose functions are those used here."""


def import_jax() -> Any:
    """Return the module `jax`, imported at its first use: it takes half a second."""
    import jax

    return jax


# The functions ------------------------------------------------------------------------------------


class XlaNamespace(NamespaceSurface):
    """The namespace `jax.numpy` on the arrays of a trace: the `xp` that definitions get."""

    ndarray = XlaArray
    allocates = False

    def _member(self, name: str) -> Any:
        member = operator.attrgetter(name)(np)
        if isinstance(member, type) or not callable(member):
            return member
        own = OWN.get(name)
        if own is not None:
            return lambda *args, **settings: own(self._owner, *args, **settings)
        return XlaFunction(self._owner, operator.attrgetter(name)(import_jax().numpy))


class XlaFunction:
    """A function of JAX's NumPy on arrays of a trace, with the methods of a ufunc."""

    def __init__(self, backend: XlaBackend, function: Callable[..., Any]) -> None:
        self._backend, self._function = backend, function

    def __call__(self, *args: Any, **settings: Any) -> Any:
        out = settings.pop("out", None)
        for name in ("order", "kind", "casting", "subok"):  # XLA has one layout, and one sort
            settings.pop(name, None)
        dtype = dtype_beside(args)
        result = self._function(*unwrap(args, dtype), **unwrap(settings, dtype))
        if out is None:
            return self._backend.wrap_all(result)
        target = out[0] if isinstance(out, tuple) else out
        if not np.can_cast(result.dtype, target.dtype, "same_kind"):  # as NumPy refuses it
            raise TypeError(f"cannot write {result.dtype} into {target.dtype}")
        target[...] = self._backend.wrap(result)
        return target

    def __getattr__(self, name: str) -> Any:
        if name == "at":
            return lambda target, index, values: self._backend.apply_at(
                self._function, target, index, values
            )
        return XlaFunction(self._backend, getattr(self._function, name))


def as_array(
    backend: XlaBackend, values: Any, dtype: Any = None, copy: bool | None = None, **_: Any
) -> XlaArray:  # fmt: skip
    """Make an array of the trace from numbers, lists or arrays."""
    if isinstance(values, XlaArray):
        array = values if dtype is None else values.astype(dtype, copy=False)
        return array.copy() if copy and array is values else array
    plain = unwrap(values)
    if not isinstance(plain, np.ndarray | np.generic) and not hasattr(plain, "aval"):
        has_traced = isinstance(plain, list | tuple) and plain and hasattr(plain[0], "aval")
        if not has_traced:
            plain = np.asarray(plain, dtype)  # with the dtypes that NumPy gives to numbers
    return backend.wrap(import_jax().numpy.asarray(plain, dtype))


def new_array(backend: XlaBackend, values: Any, *args: Any, **settings: Any) -> XlaArray:
    """Make a new array: `xp.array`."""
    return as_array(backend, values, *args, **{"copy": True, **settings})


def copy_into(backend: XlaBackend, target: XlaArray, source: Any, where: Any = True) -> None:
    """Write an array into another, where a mask is True: `xp.copyto`."""
    target[...] = source if where is True else backend.xp.where(where, source, target)


def result_type(backend: XlaBackend, *values: Any) -> np.dtype:
    """Return the dtype that NumPy gives to a result: `xp.result_type`."""
    return np.result_type(*(getattr(value, "dtype", value) for value in values))


def take(
    backend: XlaBackend, array: XlaArray, indices: Any, axis: int | None = None, **_: Any
) -> XlaArray:  # fmt: skip
    """Return elements along an axis; an index out of range is found by the check before."""
    library = import_jax().numpy
    index = library.asarray(unwrap(indices))
    return backend.wrap(library.take(unwrap(array), index, axis=axis, mode="clip"))


def writing(name: str) -> Callable[..., None]:
    """Return a function of NumPy that writes into its first argument, as JAX has it."""

    def write(backend: XlaBackend, target: XlaArray, *args: Any, **settings: Any) -> None:
        function = getattr(import_jax().numpy, name)
        target.store(
            function(target.values, *unwrap(args, target.dtype), **settings, inplace=False)
        )

    return write


OWN: dict[str, Callable[..., Any]] = {
    "asarray": as_array,
    "array": new_array,
    "ascontiguousarray": as_array,
    "asfortranarray": as_array,
    "asanyarray": as_array,
    "copyto": copy_into,
    "result_type": result_type,
    "take": take,
    "can_cast": lambda _, source, *args, **named: np.can_cast(
        getattr(source, "dtype", source), *args, **named
    ),
    "promote_types": lambda _, *types: np.promote_types(*types),
    "shape": lambda _, array: np.shape(unwrap(array)),
    "ndim": lambda _, array: np.ndim(unwrap(array)),
    "size": lambda _, array, *axis: np.size(unwrap(array), *axis),
    "iscomplexobj": lambda _, array: getattr(array, "dtype", np.dtype(float)).kind == "c",
    "isrealobj": lambda _, array: getattr(array, "dtype", np.dtype(float)).kind != "c",
    "may_share_memory": lambda backend, view, of: backend.shares_memory(view, of),
    "shares_memory": lambda backend, view, of: backend.shares_memory(view, of),
    "broadcast_shapes": lambda _, *shapes: np.broadcast_shapes(*shapes),
    "reshape": lambda _, array, shape, order="C": array.reshape(shape, order=order),
    "transpose": lambda _, array, axes=None: array.transpose(axes),
    "swapaxes": lambda _, array, *axes: array.swapaxes(*axes),
    "squeeze": lambda _, array, axis=None: array.squeeze(axis),
    "ravel": lambda _, array, order="C": array.ravel(order),
    "broadcast_to": lambda backend, array, shape: backend.broadcast_to(array, shape),
    "empty": lambda backend, *args, **settings: backend.xp.zeros(*args, **settings),
    "empty_like": lambda backend, *args, **settings: backend.xp.zeros_like(*args, **settings),
    **{name: writing(name) for name in ("put", "place", "put_along_axis", "fill_diagonal")},
}
"""Functions that are not JAX's: views, writes, and what a trace knows without computing."""


# The backend --------------------------------------------------------------------------------------


class XlaBackend(Backend):
    """The backend of one trace.

    Attributes:
        failures: for each check that was deferred, a bool of JAX that is True if it fails.
    """

    name = "cpu"
    array_type = XlaArray
    checks_access = False
    defers_checks = checks_later = True
    depth = 0

    def __init__(self) -> None:
        # Among the levels of `vmap`, so that arrays of NumPy enter it: the newest level computes.
        self.level = next(BatchedBackend._level_counter)
        self.xp = XlaNamespace(self)
        self.failures: list[Any] = []

    def wrap(self, values: Any) -> XlaArray:
        """Return an array of JAX as one of this trace."""
        return XlaArray(values, self)

    def wrap_all(self, result: Any) -> Any:
        """Return a result with its arrays wrapped; qr and eigh return named tuples."""
        if hasattr(result, "dtype") and hasattr(result, "shape"):
            return self.wrap(result)
        if isinstance(result, tuple):
            parts = [self.wrap_all(part) for part in result]
            return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
        return [self.wrap_all(part) for part in result] if isinstance(result, list) else result

    def defer_check(self, failed: Any) -> None:
        """Let the program tell whether any element of `failed` is True."""
        self.failures.append(unwrap(failed).any())

    def enter(self, array: Array, dim: int | None) -> XlaArray:
        """Make an array from outside an array of this backend."""
        return self.asarray(array)

    def asarray(self, values: Any, dtype: Any = None) -> XlaArray:
        return as_array(self, values, dtype)

    def from_numpy(self, array: np.ndarray) -> XlaArray:
        return as_array(self, array)

    def to_numpy(self, array: XlaArray) -> np.ndarray:
        raise XlaError("compile", "its definition reads the elements of an array")

    def scatter_add(self, target: XlaArray, index: Index, values: Array) -> None:
        """Do `target[index] += values`; sums of 16-bit floats are computed in float32."""
        plain, dtype = unwrap(index), target.dtype
        added = unwrap(values, dtype)
        whole = target.values
        if dtype.itemsize == 2 and dtype.kind not in "iu":
            whole, added = whole.astype("float32"), added.astype("float32")
        target.store(whole.at[plain].add(added.astype(whole.dtype)).astype(dtype))

    def apply_at(
        self, function: Callable[..., Any], target: XlaArray, index: Index, values: Any
    ) -> None:
        """Apply a ufunc at an index, as often as a position occurs: `xp.maximum.at`.

        Raises: XlaError: XLA has no such scatter.
        """
        methods = {"add": "add", "multiply": "multiply", "maximum": "max", "minimum": "min"}
        method = methods.get(getattr(function, "__name__", ""))
        if method is None:
            raise XlaError("compile", f"XLA has no {function}.at")
        place = target.values.at[unwrap(index)]
        target.store(getattr(place, method)(unwrap(values, target.dtype)))

    def as_strided(
        self, array: XlaArray, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> XlaArray:
        """Return elements by their positions in a row-major array."""
        size = array.itemsize

        def read(base: Any) -> Any:
            where = positions(shape, [step // size for step in strides], offset // size)
            return base.reshape(-1)[where]

        def write(base: Any, values: Any) -> Any:
            where = positions(shape, [step // size for step in strides], offset // size)
            return base.reshape(-1).at[where].set(values).reshape(base.shape)

        return array.view_by(read, write)

    def storage(self, array: XlaArray) -> tuple[int, int]:
        whole = array
        while whole.base is not None:
            whole = whole.base
        return id(whole), whole.nbytes

    def memory(self, array: XlaArray) -> Array:
        raise XlaError("compile", "its definition reads the bytes of an array")

    def address(self, array: XlaArray) -> int:
        return self.storage(array)[0]

    def shares_memory(self, view: object, of: object) -> bool:
        if not (isinstance(view, XlaArray) and isinstance(of, XlaArray)) or view is of:
            return False
        return self.storage(view) == self.storage(of)

    def broadcast_to(self, array: Array, shape: tuple[int, ...]) -> XlaArray:
        library = import_jax().numpy
        return self.asarray(array).view_by(lambda base: library.broadcast_to(base, shape), None)

    def diagonal(self, array: XlaArray, offset: int, axis1: int, axis2: int) -> XlaArray:
        return array.view_by(lambda base: base.diagonal(offset, axis1, axis2), None)

    def generator(self, seed: int) -> Any:
        raise XlaError("compile", "its definition makes a generator of random numbers")

    def synchronize(self) -> None:
        """Do nothing: nothing is computed during a trace."""


class XlaRandom(PhiloxRandom):
    """The random numbers of a program: seed and offset are its inputs.

    Attributes:
        reserved: how many blocks a call of the program draws, as far as it has been traced.
    """

    def __init__(self, backend: XlaBackend, state: Any) -> None:
        """Take them from an array of JAX, of shape (2) and uint64: seed and offset."""
        super().__init__(backend.xp, 0)
        self.backend, self.reserved = backend, 0
        self.seed, self.start = backend.wrap(state[0]), backend.wrap(state[1])

    def reserve(self, words: int) -> tuple[Any, Any]:
        first = self.start + np.uint64(self.reserved)
        self.reserved += (words + 3) // 4
        return self.seed, first

    def words(self, seed: Any, first: Any, count: int) -> XlaArray:
        return self.words_of_attempt(seed, first, count, 0)

    def words_of_attempt(self, seed: Any, first: Any, count: int, attempt: Any) -> XlaArray:
        """Return the words of the blocks from `first` on, of a later attempt if there was one."""
        index = self.xp.arange((count + 3) // 4, dtype=np.uint64) + first
        return blocks(self.xp, seed, index, attempt).reshape(-1)

    def integers_at(self, seed: Any, first: Any, low: int, values: int, count: int) -> XlaArray:
        """Return integers: all elements are drawn again while one of them is refused."""
        jax = import_jax()
        size = count if values <= 2**32 else 2 * count

        def drawn(attempt: Any) -> tuple[Any, Any]:
            words = self.words_of_attempt(seed, first, size, self.backend.wrap(attempt))[:size]
            y, refused = integers_from_words(self.xp, words, values)
            return y.values, jax.numpy.zeros(count, bool) if refused is None else refused.values

        def again(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            attempt, y, refused = state
            new, still = drawn(attempt)
            return attempt + 1, jax.numpy.where(refused, new, y), refused & still

        state = (jax.numpy.uint64(1), *drawn(jax.numpy.uint64(0)))
        y = self.backend.wrap(jax.lax.while_loop(lambda now: now[2].any(), again, state)[1])
        return (y + np.uint64(low % 2**64)).view(np.int64)


def positions(shape: Sequence[int], steps: Sequence[int], first: int) -> Any:
    """Return the positions of a strided view's elements in flat memory, computed by XLA itself."""
    library = import_jax().numpy
    where = library.full((1,) * len(shape), first, "int64")
    for axis, (size, step) in enumerate(zip(shape, steps, strict=True)):
        along = library.arange(size, dtype="int64") * step
        where = where + along.reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return where


register_type(XlaArray)

# Their annotations name it: `typing.get_type_hints` looks it up in their globals.
xla_array.XlaBackend = XlaBackend  # type: ignore[attr-defined]
