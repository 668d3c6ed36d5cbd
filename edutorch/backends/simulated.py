"""Simulated cards: "cuda" without a GPU, computed on the CPU.

A program that was written for a GPU runs on a laptop, unedited, once the switch is on:

    python -m edutorch run --cuda-as-cpu 2 train.py

or EDUTORCH_CUDA_AS_CPU=2 in the environment. It is never on by itself. Arrays know their card, and
cards refuse to mix with each other and with the CPU, as real ones do. The numbers are those of the
CPU: an op takes the NumPy arrays out of its operands, runs as it does there, with the kernels, and
puts the result back on the card. Only the speed is not that of a GPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import DeviceError, InvalidValueError
from . import CPU, simulate_cards
from .array_surface import DispatchedArray, Index, NamespaceSurface
from .cards import Cards
from .memory_counts import physical_memory
from .numpy import Backend, owner
from .philox_device import CapturedDraws
from .simulated_capture import Recorder, refuse_wait
from .simulated_memory import SimulatedMemory

__all__ = ["VARIABLE", "SimulatedArray", "SimulatedBackend", "card_count", "make_cards"]

VARIABLE = "EDUTORCH_CUDA_AS_CPU"
"""The environment variable with the number of simulated cards; processes hand it on."""

SAID = "_EDUTORCH_CUDA_AS_CPU_SAID"
"""Set in the environment once it was said that cards are simulated."""

MOST = 64
"""More cards than any machine has are a mistake."""


def card_count(text: str, name: str = VARIABLE) -> int:
    """Return the number of cards that a user has written.

    Raises: InvalidValueError: it is none, or not from 1 to 64.

    >>> card_count(" 2 ")
    2
    """
    number = text.strip()
    if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= MOST:
        raise InvalidValueError(
            name,
            f"expected a number of simulated cards from 1 to {MOST}, got {text!r}",
            hint="without simulated cards, leave it out",
        )
    return int(number)


def make_cards(count: int) -> Cards:
    """Return simulated cards that answer for "cuda"."""
    cards = Cards("cuda", count, SimulatedBackend, "simulated card")
    cards.is_simulated = True
    return cards


def start(text: str, name: str = VARIABLE) -> None:
    """Let as many cards answer for "cuda" as a user has written, here and in processes of this one.

    It is said once on stderr, and not again in each process that a program starts.

    Raises: InvalidValueError: it is no number of cards.
    """
    count = card_count(text, name)
    simulate_cards(count)
    if os.environ.get(SAID) != str(count):
        plural = "" if count == 1 else "s"
        said = f'edutorch: "cuda" is {count} simulated card{plural}, computed on the CPU'
        print(said, file=sys.stderr, flush=True)
    os.environ[VARIABLE] = os.environ[SAID] = str(count)


def start_by_environment() -> None:
    """Let simulated cards answer for "cuda" because the environment asks for them."""
    start(os.environ[VARIABLE])


class SimulatedArray(DispatchedArray):
    """An array on a simulated card: a NumPy array that only its card computes with."""

    __slots__ = ("__weakref__", "_values", "backend", "base")

    _values: np.ndarray
    backend: SimulatedBackend
    base: SimulatedArray | None
    """The array whose memory this one views."""

    def __init__(
        self, values: np.ndarray, backend: SimulatedBackend, base: SimulatedArray | None = None
    ) -> None:
        self._values, self.backend, self.base = values, backend, base
        if base is None:
            backend.card_memory.add(self)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The shape."""
        return self._values.shape

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """The dtype."""
        return self._values.dtype

    def _answer(
        self, function: Callable[..., Any], arguments: Sequence[Any], settings: dict[str, Any]
    ) -> Any:
        return self.backend.compute(function, arguments, settings)

    def _operate(self, name: str, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        # What refuses NumPy's functions computes with arrays itself: a step count on a card.
        if any(getattr(operand, "__array_ufunc__", self) is None for operand in operands):
            return NotImplemented
        return super()._operate(name, operands, settings)

    def __getattr__(self, name: str) -> Any:
        # From the class first: of its functions an attribute would be one bound to the values.
        if name.startswith("_"):
            raise AttributeError(name)
        member = getattr(np.ndarray, name)
        if not callable(member):
            return self.backend.lift(getattr(self._values, name), (self,))
        return lambda *args, **settings: self.backend.compute(member, (self, *args), settings)

    def __setattr__(self, name: str, value: object) -> None:
        if name in SimulatedArray.__slots__:
            object.__setattr__(self, name, value)
        else:  # the shape, the parts of complex numbers
            setattr(self._values, name, self.backend.lower(value))

    def reshape(self, *shape: Any, **settings: Any) -> Any:
        return self.backend.compute(np.ndarray.reshape, (self, *shape), settings)

    def transpose(self, *axes: Any) -> Any:
        return self.backend.compute(np.ndarray.transpose, (self, *axes), {})

    def _element(self, conversion: str) -> Any:
        self.backend.check_wait(conversion)
        return self._values

    def item(self, *index: int) -> Any:
        """Return an element as a Python number."""
        self.backend.check_wait("item")
        return self._values.item(*index)

    def tolist(self) -> Any:
        """Return all elements as nested lists."""
        self.backend.check_wait("tolist")
        return self._values.tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """Return the elements as bytes."""
        self.backend.check_wait("tobytes")
        return self._values.tobytes(order)

    def get(self) -> np.ndarray:
        """Return a copy on the host."""
        self.backend.check_wait("get")
        return self._values.copy()

    def __dlpack__(self, *_: Any, **options: Any) -> Any:
        """Export the memory, which is the CPU's."""
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the device of the memory for other libraries: the CPU."""
        return 1, 0

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed: the array is on "
            f"{self.backend.device_name}, a simulated card"
        )

    def __getitem__(self, index: Index) -> SimulatedArray:
        return self.backend.compute(np.ndarray.__getitem__, (self, index), {})

    def __setitem__(self, index: Index, value: object) -> None:
        self.backend.compute(np.ndarray.__setitem__, (self, index, value), {})

    def __repr__(self) -> str:
        return f"SimulatedArray({self._values!r}, {self.backend.device_name!r})"

    def __copy__(self) -> SimulatedArray:
        return SimulatedArray(self._values.copy(), self.backend)

    def __deepcopy__(self, memo: dict[int, Any]) -> SimulatedArray:
        return SimulatedArray(self._values.copy(), self.backend)


class SimulatedFunction:
    """A function of a card's `xp`, with the methods of a ufunc."""

    def __init__(self, backend: SimulatedBackend, function: Callable[..., Any]) -> None:
        self._backend, self._function = backend, function
        self.__name__ = getattr(function, "__name__", "")
        self._takes_host_arrays = self.__name__ in FROM_HOST

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        backend = self._backend
        if self._takes_host_arrays and arguments and type(arguments[0]) is np.ndarray:
            return backend.from_numpy(self._function(*arguments, **settings))
        return backend.compute(self._function, arguments, settings)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._function, name)
        return SimulatedFunction(self._backend, member) if callable(member) else member


FROM_HOST = {"array", "asarray", "asanyarray", "ascontiguousarray"}
"""Functions that take a NumPy array: they copy it to the card."""


class SimulatedNamespace(NamespaceSurface):
    """The module `xp` of a simulated card: NumPy's functions, whose results are on the card."""

    ndarray = SimulatedArray

    def _member(self, name: str) -> Any:
        member: Any = self._owner.cpu.xp
        for part in name.split("."):
            member = getattr(member, part)
        is_function = callable(member) and not isinstance(member, type)
        return SimulatedFunction(self._owner, member) if is_function else member


class SimulatedRandom:
    """A generator of the CPU, whose samples are on a card. Its state is on the host, as a GPU's."""

    def __init__(self, backend: SimulatedBackend, generator: Any) -> None:
        self._backend, self.on_host = backend, generator

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        member = getattr(self.on_host, name)
        if name not in DRAWS:  # the state
            return member
        return lambda *args, **settings: self._backend.compute(member, args, settings)

    @contextmanager
    def captured(self) -> Iterator[CapturedDraws]:
        """Take back what is drawn while a graph is captured: only replays draw, on a real card."""
        draws, before = CapturedDraws(), self.on_host.get_state()
        try:
            yield draws
        finally:
            draws.blocks = int(not np.array_equal(before, self.on_host.get_state()))
            self.on_host.set_state(before)

    def replayed(self, draws: CapturedDraws) -> None:
        """Nothing to count: the generator itself draws in each replay."""


DRAWS = {"uniform", "normal", "integers", "permutation"}
"""The methods of a generator that return samples."""


class SimulatedBackend(Backend):
    """A simulated card. Args: index: its number."""

    name = "cuda"
    is_accelerator = True
    is_simulated = True
    array_type = SimulatedArray
    cpu = CPU

    def __init__(self, index: int, _: Cards) -> None:
        self.index = index
        self.recorder: Recorder | None = None  # of the CUDA graph that is being captured
        self.card_memory = SimulatedMemory(index, physical_memory())
        self.xp = SimulatedNamespace(self)

    # Onto the card, and off it ------------------------------------------------------------------

    def lower(self, value: Any, numpy_too: bool = False) -> Any:
        """Return the NumPy arrays behind arrays of this card; other values unchanged.

        Args:
            numpy_too: let NumPy arrays pass: settings of ops, such as lists of indices.

        Raises: DeviceError: an array of another card. TypeError: one of the CPU.
        """
        if value.__class__ is SimulatedArray:
            if value.backend is not self:
                raise DeviceError(
                    "cuda", "Expected all arrays to be on the same device",
                    {"here": self.device_name, "other": value.backend.device_name},
                    "move one of them with .to(device)",
                )  # fmt: skip
            return value._values
        if value.__class__ is tuple or value.__class__ is list:
            return value.__class__([self.lower(item, numpy_too) for item in value])
        if isinstance(value, np.ndarray) and not numpy_too:
            raise TypeError(
                f"{self.device_name}: got a NumPy array; arrays of the CPU do not mix with a card's"
            )
        array = getattr(value, "_array", None)  # a tensor among the settings of an op: an index
        return self.lower(array, numpy_too) if array.__class__ is SimulatedArray else value

    def lift(self, result: Any, sources: Sequence[Any] = ()) -> Any:
        """Return a result of NumPy as an array of this card.

        Args:
            sources: the values it was computed from. A view has as its base the array among them
                whose memory it is.
        """
        if isinstance(result, np.ndarray):
            memory = None if result.base is None else owner(result)
            for source in list_arrays(sources):
                if source._values is result:  # written in place, by `out`
                    return source
                if memory is not None and owner(source._values) is memory:
                    base = source if source.base is None else source.base
                    return SimulatedArray(result, self, base)
            return SimulatedArray(result, self)
        if isinstance(result, np.generic):  # a GPU has no scalars
            return SimulatedArray(np.asarray(result), self)
        if isinstance(result, tuple | list):
            parts = [self.lift(item, sources) for item in result]
            if type(result) in (tuple, list):
                return type(result)(parts)
            return type(result)(*parts)  # the named tuple of `linalg.eigh`
        return result

    def compute(
        self, function: Callable[..., Any], arguments: Sequence[Any], settings: dict[str, Any]
    ) -> Any:
        """Call a function of NumPy with arrays of this card."""
        plain = [self.lower(argument) for argument in arguments]
        named = {name: self.lower(value) for name, value in settings.items()}
        result = self.execute(lambda: function(*plain, **named), (plain, named))
        return self.lift(result, (*arguments, *settings.values()))

    def execute(self, call: Callable[[], Any], inputs: Any) -> Any:
        """Make a call of NumPy; while a CUDA graph is captured, record it as well."""
        return call() if self.recorder is None else self.recorder.run(call, inputs)

    def is_capturing(self) -> bool:
        return self.recorder is not None

    def check_wait(self, what: str) -> None:
        """Refuse to wait for a number while a CUDA graph is captured, as a real card does."""
        if self.recorder is not None:
            refuse_wait(what)

    # The interface of every backend ------------------------------------------------------------

    def run_op(self, op: Any, inputs: dict[str, Any], settings: dict[str, Any]) -> Any:
        """Run an op on the CPU, by its kernel or its definition."""
        if not op.fast:  # it goes to another device, or into `vmap`
            return op.forward(self.xp, **inputs, **settings)
        plain = {name: self.lower(value) for name, value in inputs.items()}
        named = {name: self.lower(value, numpy_too=True) for name, value in settings.items()}
        first = plain[op.inputs[0]]

        def call() -> Any:
            y, slot = None, op.slot
            if slot is not None and isinstance(first, np.ndarray) and first.size >= slot.min_size:
                values = {**plain, **named}
                y = slot(*(values[name] for name in op.signature.parameters))
            return op.forward(self.cpu.xp, **plain, **named) if y is None else y

        y = self.execute(call, (plain, named))
        return self.lift(y, (*inputs.values(), *settings.values()))

    def asarray(self, values: Any, dtype: Any = None) -> SimulatedArray:
        if isinstance(values, np.ndarray):  # of the host: it is copied to the card
            return self.from_numpy(values if dtype is None else values.astype(dtype))
        return self.lift(self.cpu.xp.asarray(self.lower(values), dtype=dtype), (values,))

    def from_numpy(self, array: np.ndarray) -> SimulatedArray:
        return SimulatedArray(np.array(array), self)  # with memory of its own, as on a GPU

    def to_numpy(self, array: SimulatedArray) -> np.ndarray:
        return array.get()

    def pin(self, array: np.ndarray) -> np.ndarray:
        return self.card_memory.pin(array)

    def is_pinned(self, array: np.ndarray) -> bool:
        return self.card_memory.is_pinned(array)

    def scatter_add(self, target: SimulatedArray, index: Any, values: Any) -> None:
        arguments = target._values, self.lower(index), self.lower(values)
        self.execute(lambda: self.cpu.scatter_add(*arguments), arguments)

    def as_strided(
        self, array: SimulatedArray, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> SimulatedArray:
        return self._view(array, self.cpu.as_strided(array._values, shape, strides, offset))

    def _view(self, array: SimulatedArray, values: np.ndarray) -> SimulatedArray:
        return SimulatedArray(values, self, array if array.base is None else array.base)

    def storage(self, array: SimulatedArray) -> tuple[int, int]:
        return self.cpu.storage(array._values)

    def memory(self, array: SimulatedArray) -> SimulatedArray:
        return self._view(array, self.cpu.memory(array._values))

    def writable(self, array: SimulatedArray) -> SimulatedArray:
        return self._view(array, self.cpu.writable(array._values))

    def broadcast_to(self, array: SimulatedArray, shape: tuple[int, ...]) -> SimulatedArray:
        return self._view(array, self.cpu.broadcast_to(array._values, shape))

    def diagonal(self, array: SimulatedArray, offset: int, axis1: int, axis2: int) -> Any:
        return self._view(array, self.cpu.diagonal(array._values, offset, axis1, axis2))

    def address(self, array: SimulatedArray) -> int:
        return self.cpu.address(array._values)

    def generator(self, seed: int) -> SimulatedRandom:
        return SimulatedRandom(self, self.cpu.generator(seed))

    def synchronize(self) -> None:
        """Nothing runs in the background here."""


def list_arrays(values: Sequence[Any]) -> list[SimulatedArray]:
    """Return the arrays of a card among values, and in the lists among them."""
    arrays: list[SimulatedArray] = []
    for value in values:
        if value.__class__ is SimulatedArray:
            arrays.append(value)
        elif value.__class__ is tuple or value.__class__ is list:
            arrays += list_arrays(value)
    return arrays
