"""A device's program as one CUDA graph: launched once, captured once, then replayed.

Replaying costs one launch, whatever the number of kernels. What a graph needs is fixed when it is
captured: the kernels, their arguments, and so the addresses of all arrays. Therefore

- intermediate results come from a pool of memory of the graph's own, which nothing else uses;
- an input that is the same array in each call, such as a parameter, is used where it is, and what
  is written into it is written by the graph; any other is copied into an array of the graph;
- numbers that differ from call to call are in an array of the device, not among the arguments;
- results are copied out, because the next replay overwrites them. Gradients are handed out as they
  are, as long as nobody keeps those of the last call.

The host waits for nothing. What the driver refuses to capture is launched in each call instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import ref

import numpy as np

from ..backends import ACCELERATOR, Backend
from ..backends.host_counts import HostCounts
from ..backends.numpy import Array
from ..errors import EdutorchError
from ..fx.traced_array import address

__all__ = [
    "CaptureError", "CaptureMemoryError", "CapturedStep", "GraphDriver", "graph_driver",
    "use_graph_driver",
]  # fmt: skip


class CaptureError(EdutorchError, RuntimeError):
    """A program does something that no graph can hold: it is launched in each call instead."""


class CaptureMemoryError(EdutorchError, MemoryError):
    """The device has not enough memory for a graph of its own pool."""


class Launched(Protocol):
    """A program of a device: `run` launches its kernels.

    Attributes:
        writes: by output, the input that it is written into.
        generators: what it draws random numbers from.
    """

    writes: dict[int, int]
    generators: list[Any]
    run: Callable[[list[Any]], list[Any]]


class GraphDriver(Protocol):
    """The graphs of one device: its streams, pools and graphs for one program."""

    def launch(self, run: Callable[[], list[Any]]) -> list[Any]:
        """Run on the current stream, with memory from the program's own pool."""

    def capture(self, run: Callable[[], list[Any]]) -> tuple[list[Any], Callable[[], None]]:
        """Record what `run` launches; return its results and the function that replays it.

        Raises: CaptureError: it does something that cannot be captured. CaptureMemoryError.
        """

    def upload(self, target: Array, values: np.ndarray) -> None:
        """Copy numbers of the host into an array, without waiting for the device."""


Drivers = dict[str, Callable[[Backend], "GraphDriver | None"]]


def cuda_driver(backend: Backend) -> GraphDriver | None:
    """Return CuPy's graphs, or None on a simulated card, which has none."""
    if getattr(backend, "is_simulated", False):
        return None
    from .cuda_graphs import CupyGraphs

    return CupyGraphs(backend)


drivers: Drivers = {ACCELERATOR: cuda_driver}
"""By the name of a device, the function that makes its driver for one program."""


def graph_driver(backend: Backend) -> GraphDriver | None:
    """Return a driver for one program on this device.

    None: the device has no graphs, or EDUTORCH_CUDA_GRAPHS=off.
    """
    make = drivers.get(backend.name)
    off = os.environ.get("EDUTORCH_CUDA_GRAPHS", "") == "off"
    return None if make is None or off else make(backend)


@contextmanager
def use_graph_driver(name: str, make: Callable[[Backend], GraphDriver | None]) -> Iterator[None]:
    """Use another driver for the programs that are compiled for a device inside the block."""
    before = drivers.get(name)
    drivers[name] = make
    try:
        yield
    finally:
        if before is None:
            del drivers[name]
        else:
            drivers[name] = before


class CapturedStep:
    """Runs a device's program: `outputs = step(arrays, numbers)`.

    Args:
        program: its last inputs are the numbers, as arrays without axes.
        backend: the device.
        count: how many numbers it takes.
        driver: of its graphs; None launches the program in each call.

    Attributes:
        before_gradients: called before a replay overwrites the gradients of the last call.
        uncopied: the outputs that are handed out without a copy.
        refusal: why it was not captured, or "".
    """

    def __init__(
        self, program: Launched, backend: Backend, count: int, driver: GraphDriver | None
    ) -> None:
        self.program, self.backend, self.count, self.driver = program, backend, count, driver
        self.counts = HostCounts(backend, program.generators)
        self.before_gradients: Callable[[], None] = lambda: None
        self.uncopied: set[int] = set()
        self.refusal = "" if driver is not None else "graphs are off, or the device has none"
        self.scalars: Any = None  # the array that the numbers are in
        self.inputs: list[Any] = []  # what the graph reads: fixed arrays, and its own copies
        self.fixed: list[Any] = []  # the array of each input that was the same in two calls
        self.is_moving: list[bool] = []  # inputs that have been another array once
        self.outputs: list[Any] = []
        self.handed_out: dict[int, Any] = {}  # weak references to gradients of the last call
        self.replay: Callable[[], None] | None = None
        self.launches = self.captures = self.replays = 0

    def __call__(self, arrays: Sequence[Any], scalars: Sequence[float]) -> list[Any]:
        """Compute the outputs; an output that is written into an input is that input."""
        self.upload_numbers(scalars)
        if self.driver is None:
            self.launches += 1
            return self.write_back(self.run(arrays), arrays, range(len(arrays)))
        if not self.is_moving:
            return self.launch_first(arrays)
        self.note_moved(arrays)
        self.before_gradients()
        self.keep_gradients()
        if self.replay is None or self.counts.is_stale():
            self.make_graph(arrays)
            if self.driver is None:  # it refused: what was launched while it tried is not run
                self.launches += 1
                return self.write_back(self.run(arrays), arrays, range(len(arrays)))
        for index, array in enumerate(arrays):
            if self.is_moving[index]:
                self.inputs[index][...] = array
        assert self.replay is not None
        self.counts.before_replay()
        self.replay()
        self.counts.after_replay()
        self.replays += 1
        return self.results(arrays)

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Launch the program's kernels."""
        single = [] if self.scalars is None else [self.scalars[i] for i in range(self.count)]
        return self.program.run([*arrays, *single])

    def upload_numbers(self, scalars: Sequence[float]) -> None:
        """Copy the numbers of this call to the device."""
        if not self.count:
            return
        values = np.array(scalars, np.float64)
        if self.scalars is None:
            self.scalars = self.backend.from_numpy(values)
        elif self.driver is not None:
            self.driver.upload(self.scalars, values)
        else:
            self.scalars[...] = self.backend.from_numpy(values)

    # The first call, and the graph ----------------------------------------------------------

    def launch_first(self, arrays: Sequence[Any]) -> list[Any]:
        """Launch the program as it is, from the pool: kernels are compiled, sizes are known."""
        assert self.driver is not None
        self.is_moving = [False] * len(arrays)
        self.fixed = list(arrays)
        outputs = self.driver.launch(lambda: self.run(arrays))
        self.launches += 1
        results = self.write_back(outputs, arrays, range(len(arrays)))
        kept = {id(array) for array in arrays}
        return [array if id(array) in kept else array.copy() for array in results]

    def note_moved(self, arrays: Sequence[Any]) -> None:
        """Find inputs that are other arrays than before; the graph has to be made anew for them."""
        for index, array in enumerate(arrays):
            if self.is_moving[index] or array is self.fixed[index]:
                continue
            if is_same_memory(array, self.fixed[index]):  # another object for the same elements
                self.fixed[index] = array
                continue
            self.is_moving[index], self.replay = True, None

    def keep_gradients(self) -> None:
        """Give up handing out a gradient that somebody has kept: the graph is made anew."""
        for position, reference in self.handed_out.items():
            if reference() is not None:
                self.uncopied.discard(position)
                self.replay, self.outputs = None, []  # its memory stays with who has it
        self.handed_out.clear()

    def make_graph(self, arrays: Sequence[Any]) -> None:
        """Capture the program."""
        assert self.driver is not None
        self.inputs = [
            array.copy() if is_moving else array
            for array, is_moving in zip(arrays, self.is_moving, strict=True)
        ]
        in_place = [index for index, is_moving in enumerate(self.is_moving) if not is_moving]

        def run() -> list[Any]:
            return self.write_back(self.run(self.inputs), self.inputs, in_place)

        try:
            if self.counts.draws_on_host():
                raise CaptureError("compile", "a generator in an old state draws on the host")
            with self.counts.captured():
                self.outputs, self.replay = self.driver.capture(run)
            self.captures += 1
        except CaptureError as error:
            self.refusal, self.driver = str(error).partition("\n")[0], None

    # Results ----------------------------------------------------------------------------------

    def write_back(
        self, outputs: list[Any], arrays: Sequence[Any], in_place: Sequence[int]
    ) -> list[Any]:
        """Write the outputs that are new values of inputs, and return the inputs for them."""
        allowed = set(in_place)
        for position, index in self.program.writes.items():
            if index in allowed:
                if outputs[position] is not arrays[index]:
                    arrays[index][...] = outputs[position]
                outputs[position] = arrays[index]
        return outputs

    def results(self, arrays: Sequence[Any]) -> list[Any]:
        """Return what the replay has computed."""
        results: list[Any] = []
        for position, output in enumerate(self.outputs):
            index = self.program.writes.get(position)
            if index is not None and not self.is_moving[index]:
                results.append(arrays[index])
            elif position in self.uncopied:
                view = output[...]  # an object of its own, whose life can be watched
                self.handed_out[position] = ref(view)
                results.append(view)
            else:
                results.append(output.copy())
        return results

    def explain(self) -> str:
        """Return how it has been run so far, as text."""
        if self.refusal:
            return f"launched in each call ({self.launches}): {self.refusal}"
        return (
            f"one graph: captured {self.captures} times, replayed {self.replays} times, "
            f"launched without it {self.launches} times"
        )


def is_same_memory(first: Array, second: Array) -> bool:
    """Whether two arrays are the same elements in memory."""
    return (
        first.shape == second.shape and first.strides == second.strides
        and first.dtype == second.dtype and address(first) == address(second)
    )  # fmt: skip
