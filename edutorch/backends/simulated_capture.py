"""Capture on a simulated card: each call of the array library is recorded, and replayed.

A CUDA graph records the kernels that are launched on a stream, with the addresses they read and
write, and replays them. So does this: a recorded call is a function of NumPy with the arrays that
it was given; a replay calls it again, and puts its result where the first one was. Python runs only
once, as on a real card: an `if`, a print or a counter is not part of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..errors import EdutorchError
from .numpy import owner

__all__ = ["CaptureError", "Recorder"]


class CaptureError(EdutorchError, RuntimeError):
    """Something that cannot be part of a CUDA graph, or a capture that was broken off."""


class Recorder:
    """Records the calls between the begin and the end of a capture.

    A real card executes nothing while it records. Here each call is executed, since Python needs
    arrays of the right shapes; `end` then restores the memory that existed before.
    """

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[[], Any], Any]] = []
        self._new: dict[int, np.ndarray] = {}  # memory that was allocated during the capture
        self._before: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def run(self, call: Callable[[], Any], inputs: Any) -> Any:
        """Make a call, record it, and return its result (NumPy arrays, or lists of them).

        Args:
            inputs: the arrays that it is given, which it may write to.
        """
        for array in arrays_in(inputs):
            memory = owner(array)
            if id(memory) not in self._new and id(memory) not in self._before:
                self._before[id(memory)] = memory, memory.copy()
        result = as_arrays(call())
        for array in arrays_in(result):
            memory = owner(array)
            if id(memory) not in self._before:
                self._new[id(memory)] = memory
        self._calls.append((call, result))
        return result

    def end(self) -> None:
        """End the capture: earlier memory gets the values back that it had before."""
        for memory, values in self._before.values():
            memory[...] = values
        self._before.clear()

    def replay(self) -> None:
        """Do all recorded work again, on the same memory."""
        for call, result in self._calls:
            for old, new in zip(arrays_in(result), arrays_in(as_arrays(call())), strict=True):
                # A view of the same memory, or what was written in place, is there already.
                if not np.may_share_memory(old, new):
                    old[...] = new


def as_arrays(values: Any) -> Any:
    """Return a result of NumPy with 0-d arrays for its scalars, which have memory to write to."""
    if isinstance(values, np.generic):
        return np.asarray(values)
    if type(values) in (tuple, list):
        return type(values)(map(as_arrays, values))
    return type(values)(*map(as_arrays, values)) if isinstance(values, tuple) else values


def arrays_in(values: Any) -> list[np.ndarray]:
    """Return the arrays among values, and in lists and dictionaries of them."""
    if isinstance(values, np.ndarray):
        return [values]
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, tuple | list):
        return [array for value in values for array in arrays_in(value)]
    return []


def refuse_wait(what: str) -> NoReturn:
    """Raise the error for a wait of the host during a capture. Raises: CaptureError: always."""
    raise CaptureError(
        "CUDAGraph",
        f"{what} waits for the card: operation not permitted when stream is capturing",
        hint="while a graph is captured nothing is computed: read numbers after replay()",
    )
