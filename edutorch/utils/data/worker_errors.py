"""What is said of a worker that fails: its number, the sample, the line, the cause."""

from __future__ import annotations

import linecache
import os
import pickle
import signal
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from ...errors import EdutorchError

PACKAGE = str(Path(__file__).parents[2]) + os.sep
LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})
"""Where no line of the user's own lies."""


class WorkerDied(EdutorchError, RuntimeError):
    """A worker process of a DataLoader has ended, and nobody had asked it to."""


class WorkerTimeout(EdutorchError, RuntimeError):
    """A worker process did not deliver a batch within the DataLoader's `timeout`."""


class Failure:
    """An exception on its way from a worker: its class, its text, what was set on it."""

    def __init__(self, error: Exception, text: str) -> None:
        self.name, self.text = type(error).__name__, text
        self.kind = next(cls for cls in type(error).__mro__ if can_travel(cls))
        self.state = {key: value for key, value in vars(error).items() if can_travel(value)}
        self.state.pop("__notes__", None)  # the traceback in the text shows them

    def rebuilt(self) -> Exception:
        """Make an exception that the same `except` catches, and that says everything."""
        text = Verbatim(self.text)
        try:
            error = self.kind(None, text) if is_ours(self.kind) else self.kind(text)
            if self.text not in str(error):
                raise TypeError
        except Exception:  # noqa: BLE001  (a constructor of the user's, or one with more arguments)
            error = self._of_a_subclass()
        vars(error).update(self.state)
        return error

    def _of_a_subclass(self) -> Exception:
        parts = {"__init__": lambda self, *any: None, "__str__": lambda _: self.text}
        try:
            cls = type(self.name, (self.kind,), {**parts, "__module__": self.kind.__module__})
            return cls.__new__(cls)
        except Exception:  # noqa: BLE001  (it cannot be made without its arguments)
            return RuntimeError(self.text)


class Verbatim(str):
    """Text that shows itself without quotes: a KeyError shows its argument by `repr`."""

    __slots__ = ()
    __repr__ = str.__str__


def is_ours(cls: type) -> bool:
    return issubclass(cls, EdutorchError) and cls.__init__ is EdutorchError.__init__


def can_travel(value: Any) -> bool:
    """Say whether `value` can be pickled and unpickled."""
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:  # noqa: BLE001  (whatever the user's class raises: then it stays here)
        return False
    return True


# An exception in a worker ------------------------------------------------------------------------


def failure(error: Exception, worker: int, workers: int, doing: dict[str, str]) -> Failure:
    """Describe an exception that was just caught in a worker.

    Args:
        doing: what the worker was at, in words: {"sample": "3"}.
    """
    rows = {"worker": f"{worker} of {workers} (pid {os.getpid()})", **doing}
    line = own_line(error.__traceback__)
    if line:
        rows["line"] = line
    width = max(map(len, rows))
    told = "".join(f"  {name:<{width}} = {value}\n" for name, value in rows.items())
    own = from_first_own(error.__traceback__) or error.__traceback__
    trace = "".join(traceback.format_exception(type(error), error, own))
    headline = f"Caught {type(error).__name__} in DataLoader worker process {worker}.\n"
    return Failure(error, f"{headline}{told}Original {trace}")


def is_own(path: str) -> bool:
    """Say whether a file is the user's: neither ours, nor Python's, nor an installed library's."""
    return not path.startswith((PACKAGE, *LIBRARIES, "<frozen", "<edutorch"))


def from_first_own(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the first line of the user's on; None if there is none."""
    while trace is not None and not is_own(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def own_line(trace: TracebackType | None) -> str:
    """Return the last line of the user's code in a traceback: "data.py:12: x / 0"."""
    location = ""
    for frame, number in traceback.walk_tb(trace):
        path = frame.f_code.co_filename
        if is_own(path):
            text = linecache.getline(path, number, frame.f_globals).strip()
            cell = "ipykernel" in path  # a file that Jupyter names by a number
            place = f"number {number} of the cell" if cell else f"{Path(path).name}:{number}"
            location = f"{place}: {text}"
    return location


# A worker that is gone, or hangs -----------------------------------------------------------------

HINTS = {
    "SIGKILL": "if memory ran out: fewer workers, a smaller prefetch_factor or smaller batches; "
    "open large data in the worker (in worker_init_fn) instead of copying it into each",
    "SIGBUS": "memory or a disk is full: use fewer workers or smaller batches",
    "exit": "something in the dataset ended its process (sys.exit, os._exit, a library); "
    "run once with num_workers=0 to see where",
    "signal": "compiled code crashed in the worker; run once with num_workers=0 and "
    "`python -X faulthandler` to see where",
}


def cause_of_death(code: int | None) -> tuple[str, str]:
    """Say in words how a process ended, and what to do about it.

    >>> cause_of_death(3)[0]
    'exited with exit code 3'
    """
    if code is None or code >= 0:
        return f"exited with exit code {'unknown' if code is None else code}", HINTS["exit"]
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    likely = ", likely out of memory" if name == "SIGKILL" else ""
    return f"is killed by signal: {name}{likely}", HINTS.get(name, HINTS["signal"])


def died(worker: int, workers: int, pid: Any, code: int | None, batch: str) -> WorkerDied:
    """Make the error for a worker that has ended by itself."""
    cause, hint = cause_of_death(code)
    rows = {"worker": f"{worker} of {workers}", "pid": pid, "batch": batch}
    return WorkerDied(None, f"DataLoader worker (pid {pid}) {cause}", rows, hint)


def timed_out(worker: int, workers: int, pid: Any, seconds: float, batch: str) -> WorkerTimeout:
    """Make the error for a worker that takes too long."""
    return WorkerTimeout(
        None,
        f"DataLoader timed out after {seconds:g} seconds: worker {worker} (pid {pid}) hangs",
        {"worker": f"{worker} of {workers}", "pid": pid, "batch": batch},
        "load these samples with num_workers=0 to see where it waits, or raise `timeout`",
    )


def shortened(indices: Any) -> str:
    """Write the numbers of a batch on one line.

    >>> shortened(list(range(20)))
    '[0, 1, 2, 3, 4, 5, 6, 7, … 20 in all]'
    """
    if not isinstance(indices, list) or len(indices) <= 10:
        return repr(indices)[:200]
    return f"[{', '.join(map(repr, indices[:8]))}, … {len(indices)} in all]"[:300]
