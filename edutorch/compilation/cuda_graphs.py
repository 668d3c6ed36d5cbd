"""CUDA graphs by CuPy: a stream, a pool of memory and a graph for one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..backends import Backend
from ..backends.numpy import Array
from .captured_step import CaptureError, CaptureMemoryError

__all__ = ["CupyGraphs"]


class CupyGraphs:
    """The graphs of one program (see `GraphDriver`).

    The pool lives as long as the graph: CuPy's own would hand out freed memory to others while the
    graph still writes into it. The stream is none that the host's other work waits for.
    """

    def __init__(self, backend: Backend) -> None:
        self.cuda = backend.xp.cuda
        self.pool = self.cuda.MemoryPool()
        self.stream = self.cuda.Stream(non_blocking=True)

    def launch(self, run: Callable[[], list[Any]]) -> list[Any]:
        """Run on the program's stream, between what the current one has done and what it will."""
        current = self.cuda.get_current_stream()
        self.stream.wait_event(current.record())
        with self.on_stream():
            outputs = run()
        current.wait_event(self.stream.record())
        return outputs

    def capture(self, run: Callable[[], list[Any]]) -> tuple[list[Any], Callable[[], None]]:
        """Record what `run` launches; return its results and the function that replays it.

        Raises: CaptureError: it does something that cannot be captured. CaptureMemoryError: there
            is not enough memory.
        """
        with self.on_stream():
            self.stream.begin_capture()
            try:
                outputs = run()
            except BaseException as error:
                self.abandon()
                raise self.explain(error) from error
            try:
                graph = self.stream.end_capture()
            except self.cuda.runtime.CUDARuntimeError as error:
                raise self.explain(error) from error
        graph.upload(self.stream)

        def replay() -> None:
            graph.launch(self.cuda.get_current_stream())

        return outputs, replay

    def upload(self, target: Array, values: np.ndarray) -> None:
        """Copy numbers of the host into an array; so few are copied into the call itself."""
        target.set(values, self.cuda.get_current_stream())

    @contextmanager
    def on_stream(self) -> Iterator[None]:
        """Take memory from the program's pool, and launch on its stream, inside the block."""
        with self.cuda.using_allocator(self.pool.malloc), self.stream:
            yield

    def abandon(self) -> None:
        """End a capture that has failed; the driver has invalidated it, and says so again."""
        try:
            self.stream.end_capture()
        except self.cuda.runtime.CUDARuntimeError:
            self.stream = self.cuda.Stream(non_blocking=True)

    def explain(self, error: BaseException) -> BaseException:
        """Return the error to raise in place of one that came up during a capture."""
        if isinstance(error, self.cuda.memory.OutOfMemoryError):
            self.pool.free_all_blocks()
            return CaptureMemoryError(
                "compile", "out of memory while the step was captured as one CUDA graph",
                {"memory of the graph": f"{self.pool.total_bytes():,} bytes"},
                'take a smaller batch, or compile with mode="max-autotune-no-cudagraphs"',
            )  # fmt: skip
        if not isinstance(error, Exception):  # Ctrl-C
            return error
        reason = str(error).partition("\n")[0]
        return CaptureError("compile", f"it cannot be captured ({type(error).__name__}: {reason})")
