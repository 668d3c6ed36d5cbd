"""The grader's side of a jail, whatever its walls are made of: asks, waits, explains.

A `Process` is one exercise of one submission behind walls: `factory.py` forks one,
`wasm.py` runs one as WebAssembly.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol

from ...errors import EdutorchError
from ..attempt import Attempt
from .attempts import decode_attempt
from .frames import Ended, FrameError, receive_frame, send_frame
from .settings import Settings
from .values import Encoder

GRACE_SECONDS = 30.0  # for a process to be ended on a busy machine


class JailError(EdutorchError, RuntimeError):
    """A jail cannot be built here: it is no fault of the student's."""


class MissingWalls(JailError):
    """Some walls cannot be raised on this machine."""


class Process(Protocol):
    """Runs one exercise of one submission behind walls."""

    def send(self, header: Any, blobs: list[bytes], deadline: float) -> None: ...

    def receive(self, deadline: float) -> tuple[Any, bytes]: ...

    def end(self, patience: float) -> Mapping[str, Any]:
        """End it, and return why it has ended: see `explain`."""
        ...


class Connection:
    """The half of a process that talks to it, over a socket."""

    def __init__(self, talk: socket.socket, settings: Settings) -> None:
        self.talk, self.settings = talk, settings

    def send(self, header: Any, blobs: list[bytes], deadline: float) -> None:
        send_frame(self.talk, header, blobs, deadline)

    def receive(self, deadline: float) -> tuple[Any, bytes]:
        settings = self.settings
        return receive_frame(self.talk, settings.header_bytes, settings.answer_bytes, deadline)


class Jail:
    """Answers the questions of one submission, each exercise in a process of its own.

    So what one exercise's code breaks, exhausts or leaves behind is gone at the next one.

    Args:
        start_process: starts what runs an exercise; see `Process`.

    Attributes:
        start_seconds: what starting has taken; it is not taken from the student's time.
    """

    def __init__(
        self, start_process: Callable[[], Process], settings: Settings, cells: list[str]
    ) -> None:
        self.start_process, self.settings, self.cells = start_process, settings, cells
        self.seconds_left = self.settings.submission_seconds
        self.question: tuple[str, frozenset[str]] | None = None
        self.process: Process | None = None
        self.failure = ""
        self.exercise_left = self.start_seconds = 0.0

    def ask(
        self, answer_source: str, case: Mapping[str, Any], forbid: frozenset[str] = frozenset(),
        seconds: float | None = None,
    ) -> Attempt:  # fmt: skip
        """Ask the student's code for one answer.

        Args:
            answer_source: of the exercise's `answer`.
            seconds: for all cases of the exercise: what one takes is not there for the next one.

        Returns: the attempt; where the code has ended, hung, or sent something else, its `error`
            says so.
        """
        question = (answer_source, frozenset(forbid))
        if question != self.question:
            self.close()
            self.question, self.failure = question, ""
            self.exercise_left = self.settings.seconds if seconds is None else seconds
        if not self.failure:
            is_new, start = self.process is None, time.monotonic()
            process = self.process = self.process or self.start_process()
            ready = time.monotonic()
            self.start_seconds += ready - start
            left = min(self.exercise_left, self.seconds_left)
            attempt = self._ask(process, is_new, case, ready + left)
            used = time.monotonic() - ready
            self.exercise_left -= used
            self.seconds_left -= used
            if attempt is not None:
                return attempt
        return Attempt(case, error=self.failure)

    def _ask(
        self, process: Process, is_new: bool, case: Mapping[str, Any], deadline: float
    ) -> Attempt | None:
        """Return the attempt; None, and `failure` says why, if there is none."""
        assert self.question is not None
        source, forbid = self.question
        failure, patience = "", 0.0
        try:
            if is_new:
                process.send({"cells": self.cells, "answer": source, "forbid": sorted(forbid)}, [],
                             deadline)  # fmt: skip
            encoder = Encoder()
            process.send(encoder.encode(dict(case)), encoder.blobs, deadline)
            header, body = process.receive(deadline)
            return decode_attempt(header, body, case, forbid)
        except TimeoutError:
            failure = "TimeoutError: the code did not answer in time"
        except Ended:  # the report says why
            patience = 2.0
        except FrameError as error:
            failure = f"RuntimeError: the answer could not be read: {error}"
        report = self.close(patience)
        self.failure = failure or explain(report)
        return None

    def close(self, patience: float = 0.0) -> Mapping[str, Any]:
        """End the process, and return why it ended; what it started has gone, too.

        Args:
            patience: seconds to wait for an end by itself.
        """
        if self.process is None:
            return {}
        process, self.process = self.process, None
        return process.end(patience)

    def __enter__(self) -> Jail:
        return self

    def __exit__(
        self, error_class: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


def explain(report: Mapping[str, Any]) -> str:
    """Return the sentence for a process that ended by itself.

    Args:
        report: its `reason` ("memory", "processes", "released", "ended"), `status` (its exit code;
            minus the signal that ended it), and `trap` (what WebAssembly was stopped by).
    """
    reason, status = report.get("reason"), report.get("status")
    if reason in ("memory", "processes"):
        error = {"memory": "MemoryError", "processes": "BlockingIOError"}[reason]
        return f"{error}: the code used more {reason} than it may"
    if trap := report.get("trap"):
        return f"SystemError: the code crashed its process ({trap})"
    if reason == "released":
        return "SystemExit: the code closed its connection to the grader"
    if isinstance(status, int) and status > 128:  # so `bwrap` says it
        status = 128 - status
    if isinstance(status, int) and status < 0:
        return f"SystemError: the code crashed its process (signal {-status})"
    return "SystemExit: the code ended its process"
