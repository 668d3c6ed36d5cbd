"""A recording stream: CuPy's streams, pools and graphs on the strict device, as far as steps ask.

Between `begin_capture` and `end_capture` each operation on arrays of the strict device is computed
and noted, with the arrays that it read and wrote. Launching the graph does the same operations
again, in the same memory: so a result that is read from an array which no operation of the graph
writes is a stale one, as on a GPU. Refused in between, as CUDA and CuPy refuse it or as it would
go wrong without a word, are

- waits of the host, and copies from the host or to it;
- memory that is not from a pool of the graph's own;
- operations on another stream than the one that records.

Names and arguments are checked against the installed CuPy (`stand_ins.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from edutorch import backends
from edutorch.backends import strict, strict_array
from edutorch.backends.strict_array import StrictArray, no_synchronisation

WRITING = {"copyto", "put", "place", "putmask", "put_along_axis", "fill_diagonal", "at", "assign"}
"""Functions that write into an argument, whatever they return."""

FROM_HOST = {"array", "asarray", "asanyarray", "ascontiguousarray"}


class CUDARuntimeError(RuntimeError):
    """What CuPy raises when the driver refuses something."""


class OutOfMemoryError(MemoryError):
    """What CuPy's pools raise."""


class Recorder:
    """What is being recorded: the operations, and the only stream and pool that may be used."""

    def __init__(self) -> None:
        self.operations: list[Callable[[], None]] | None = None
        self.stream: Stream | None = None

    def check_stream(self, name: str) -> None:
        """Refuse an operation on another stream than the one that records."""
        if current_stream() is not self.stream:
            raise CUDARuntimeError(f"{name} runs on another stream than the one that is captured")

    def launch(self, name: str, stream: int, work: Callable[[], None]) -> None:
        """Do the work of a library's call on a stream or, during a capture, note it."""
        if stream != current_stream().ptr:
            raise CUDARuntimeError(f"{name} is on another stream than the current one")
        if self.operations is None:
            work()
            return
        self.check_stream(name)
        self.operations.append(work)

    def note(self, function: Callable[..., Any], name: str, args: Any, kwargs: Any) -> Any:
        """Compute an operation and, during a capture, note it."""
        result = function(*args, **kwargs)
        if self.operations is None:
            return result
        self.check_stream(name)
        fresh = fresh_arrays(result, (args, kwargs))
        if not fresh:
            return result  # a view: nothing is computed
        if allocator() is None:
            raise CUDARuntimeError(f"{name} takes memory that is not from the graph's own pool")
        allocator_note(sum(array._values.nbytes for array in fresh))

        def again() -> None:
            repeated = fresh_arrays(function(*args, **kwargs), (args, kwargs))
            for target, source in zip(fresh, repeated, strict=True):
                target._values[...] = source._values

        self.operations.append(again)
        return result


RECORDER = Recorder()


class RecordedLauncher:
    """Launches kernels of CUDA text by another launcher or, during a capture, notes them."""

    def __init__(self, launcher: Callable[..., None]) -> None:
        self.launcher, self.kernels = launcher, set[str]()

    def __call__(self, module: Any, kernel: str, *arguments: Any) -> None:
        self.kernels.add(kernel)
        RECORDER.launch(
            kernel, current_stream().ptr, lambda: self.launcher(module, kernel, *arguments)
        )


def flat(value: Any) -> list[Any]:
    """Return the leaves of nested containers."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def fresh_arrays(result: Any, arguments: Any) -> list[StrictArray]:
    """Return the arrays of a result that share no memory with the arguments."""
    sources = [leaf for leaf in flat(list(arguments)) if isinstance(leaf, StrictArray)]
    owners = {id(strict_array.owner(source._values)) for source in sources}
    return [
        array for array in flat(result)
        if isinstance(array, StrictArray) and id(strict_array.owner(array._values)) not in owners
    ]  # fmt: skip


# CuPy's objects ------------------------------------------------------------------------------


class Event:
    """An event: nothing runs in the background here."""


class Stream:
    """A stream; as a context it is the current one."""

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False,
        priority: int | None = None,
    ) -> None:  # fmt: skip
        self.null, self.waits = null, 0
        self.ptr = 0 if null else id(self)

    def __enter__(self) -> Stream:
        STREAMS.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        STREAMS.pop()

    def wait_event(self, event: Event) -> None:
        assert isinstance(event, Event)
        self.waits += 1

    def synchronize(self) -> None:
        if RECORDER.operations is not None:
            raise CUDARuntimeError("the host waits while a step is captured")

    def record(self, event: Event | None = None) -> Event:
        return event or Event()

    def begin_capture(self, mode: int | None = None) -> None:
        if self.null:
            raise CUDARuntimeError("the default stream cannot be captured")
        if RECORDER.operations is not None:
            raise CUDARuntimeError("a capture is in progress")
        RECORDER.operations, RECORDER.stream = [], self
        self.forbidden = no_synchronisation()
        self.forbidden.__enter__()

    def end_capture(self) -> Graph:
        if RECORDER.operations is None or RECORDER.stream is not self:
            raise CUDARuntimeError("nothing is being captured on this stream")
        operations, RECORDER.operations, RECORDER.stream = RECORDER.operations, None, None
        self.forbidden.__exit__(None, None, None)
        return Graph(operations)


class Graph:
    """The operations of a capture."""

    def __init__(self, operations: list[Callable[[], None]]) -> None:
        self.operations, self.launches = operations, 0
        GRAPHS.append(self)

    def upload(self, stream: Stream | None = None) -> None:
        assert stream is None or isinstance(stream, Stream)

    def launch(self, stream: Stream | None = None) -> None:
        assert stream is None or isinstance(stream, Stream)
        self.launches += 1
        with no_synchronisation():
            for operation in self.operations:
                operation()


GRAPHS: list[Graph] = []
DEFAULT = Stream(null=True)
STREAMS = [DEFAULT]
ALLOCATORS: list[Any] = [None]


def current_stream() -> Stream:
    return STREAMS[-1]


def allocator() -> Any:
    return ALLOCATORS[-1]


def allocator_note(size: int) -> None:
    """Count memory that is taken from the current pool, which may have a limit."""
    pool = getattr(allocator(), "__self__", None)
    if pool is not None:
        pool.malloc(size)


class MemoryPool:
    """A pool; `limit` makes it run out of memory."""

    limit: int | None = None

    def __init__(self, allocator: Any = None) -> None:
        self.used = 0

    def malloc(self, size: int) -> None:
        self.used += size
        if self.limit is not None and self.used > self.limit:
            raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes")

    def free_all_blocks(self, stream: Stream | None = None) -> None:
        self.used = 0

    def total_bytes(self) -> int:
        return self.used


class Runtime:
    """The part of `cupy.cuda.runtime` that steps use."""

    CUDARuntimeError = CUDARuntimeError
    streamCaptureModeRelaxed = 2


class Memory:
    """The part of `cupy.cuda.memory` that steps use."""

    OutOfMemoryError = OutOfMemoryError


class Cuda:
    """The module `cupy.cuda`."""

    Stream, Event, Graph, MemoryPool = Stream, Event, Graph, MemoryPool
    runtime, memory = Runtime, Memory

    @staticmethod
    @contextmanager
    def using_allocator(allocator: Any = None) -> Iterator[None]:
        ALLOCATORS.append(allocator)
        try:
            yield
        finally:
            ALLOCATORS.pop()

    @staticmethod
    def get_current_stream(device_id: int = -1) -> Stream:
        return current_stream()


# The strict device, recorded -------------------------------------------------------------------


def recorded_call_numpy(before: Callable[..., Any]) -> Callable[..., Any]:
    def call_numpy(function: Any, name: str, args: Any, keywords: dict[str, Any]) -> Any:
        if RECORDER.operations is not None and name in FROM_HOST:
            refuse_host(name, args)
        if keywords.get("out") is not None:
            return note_out(before, function, name, args, keywords)
        if name.rpartition(".")[2] in WRITING:
            return note_write(
                name, lambda *values: before(function, name, values, keywords), args, {}
            )
        return RECORDER.note(before, name, (function, name, args, keywords), {})

    return call_numpy


def note_out(before: Any, function: Any, name: str, args: Any, keywords: Any) -> Any:
    """Note a function that writes into `out`: during a capture nothing is written yet."""
    if RECORDER.operations is None:
        return before(function, name, args, keywords)
    RECORDER.check_stream(name)
    target = keywords["out"][0] if isinstance(keywords["out"], tuple) else keywords["out"]
    # It raises what it would raise.
    before(function, name, args, {**keywords, "out": StrictArray(target._values.copy())})
    RECORDER.operations.append(lambda: before(function, name, args, keywords))
    return target


def refuse_host(name: str, args: Any) -> None:
    if any(isinstance(leaf, np.ndarray | int | float) for leaf in flat(list(args[:1]))):
        raise CUDARuntimeError(f"{name} copies from the host, which a graph would repeat later")


def note_write(name: str, before: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Note a function that writes into its first array: during a capture nothing is written yet."""
    if RECORDER.operations is None:
        return before(*args, **kwargs)
    RECORDER.check_stream(name)
    place = next(i for i, value in enumerate(args) if isinstance(value, StrictArray))
    copied = StrictArray(args[place]._values.copy())
    before(*args[:place], copied, *args[place + 1 :], **kwargs)  # it raises what it would raise
    RECORDER.operations.append(lambda: before(*args, **kwargs))
    return None


def noted(name: str, before: Callable[..., Any], writes: bool) -> Callable[..., Any]:
    """Return a method of arrays that is noted."""

    def method(*args: Any, **kwargs: Any) -> Any:
        if not writes:
            return RECORDER.note(before, name, args, kwargs)
        return note_write(name, before, args, kwargs)

    return method


def refused(name: str, before: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a generator that draws on the host: not during a capture."""

    def draw(*args: Any, **kwargs: Any) -> Any:
        if RECORDER.operations is not None:
            raise CUDARuntimeError(f"{name} draws on the host: each replay would have the same")
        return before(*args, **kwargs)

    return draw


def set_from_host(array: StrictArray, arr: np.ndarray, stream: Stream | None = None) -> None:
    """Copy from the host, as `cupy.ndarray.set` does."""
    if RECORDER.operations is not None:
        raise CUDARuntimeError("set copies from the host, which a graph would repeat later")
    assert isinstance(arr, np.ndarray)
    assert arr.dtype == array.dtype
    assert arr.shape == array.shape
    array._values[...] = arr


@contextmanager
def recording() -> Iterator[None]:
    """Let the strict device be recorded inside the block, and give it CuPy's `cuda`."""
    changes: list[tuple[Any, str, Any]] = []

    def change(owner: Any, name: str, value: Any) -> None:
        changes.append((owner, name, inspect.getattr_static(owner, name, None)))
        setattr(owner, name, value)

    call = recorded_call_numpy(strict_array.call_numpy)
    change(strict_array, "call_numpy", call)
    change(strict, "call_numpy", call)
    change(StrictArray, "__getitem__", noted("getitem", StrictArray.__getitem__, False))
    change(StrictArray, "__setitem__", noted("setitem", StrictArray.__setitem__, True))
    change(StrictArray, "set", set_from_host)
    change(strict.StrictUfunc, "at", noted("at", strict.StrictUfunc.at, True))
    change(strict.StrictNamespace, "cuda", Cuda)
    for name in ("uniform", "normal", "integers", "permutation"):
        if name in vars(strict.StrictRandom):  # it draws on the host
            change(strict.StrictRandom, name, refused(name, vars(strict.StrictRandom)[name]))
    GRAPHS.clear()
    device = backends.get("strict")
    cached = vars(device.xp).pop("cuda", None)  # a namespace keeps its members
    assert cached is None
    try:
        yield
    finally:
        vars(device.xp).pop("cuda", None)
        for owner, name, value in reversed(changes):
            if value is None:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        assert RECORDER.operations is None, "a capture was begun and never ended"
