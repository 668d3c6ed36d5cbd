"""Errors of worker processes: with the worker's index, the sample, the line and the cause."""

from __future__ import annotations

import functools
import linecache
import os
import pickle
import signal
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

from ...errors import EdutorchError

PACKAGE = str(Path(__file__).parents[2]) + os.sep


@functools.cache
def library_folders() -> tuple[str, ...]:
    """Return the folders without code of the user."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    return (PACKAGE, *(path + os.sep for path in paths))


class WorkerDied(EdutorchError, RuntimeError):
    """A worker process of a DataLoader has ended unexpectedly."""


class WorkerTimeout(EdutorchError, RuntimeError):
    """A worker process did not deliver a batch within the DataLoader's `timeout`."""


class Failure:
    """A picklable description of an exception in a worker: class, message, attributes."""

    def __init__(self, error: Exception, text: str) -> None:
        self.name, self.text = type(error).__name__, text
        self.error_class = next(cls for cls in type(error).__mro__ if is_picklable(cls))
        self.state = {key: value for key, value in vars(error).items() if is_picklable(value)}
        self.state.pop("__notes__", None)  # the traceback in the text shows them

    def rebuild(self) -> Exception:
        """Return an exception that the same `except` catches, with the full message."""
        text = Verbatim(self.text)
        try:
            error = (
                self.error_class(None, text)
                if is_edutorch_error(self.error_class)
                else self.error_class(text)
            )
            if self.text not in str(error):
                raise TypeError
        except Exception:  # noqa: BLE001  (a constructor of the user's, or one with more arguments)
            error = self._rebuild_as_subclass()
        vars(error).update(self.state)
        return error

    def _rebuild_as_subclass(self) -> Exception:
        parts = {"__init__": lambda self, *any: None, "__str__": lambda _: self.text}
        try:
            cls = type(
                self.name, (self.error_class,), {**parts, "__module__": self.error_class.__module__}
            )
            return cls.__new__(cls)
        except Exception:  # noqa: BLE001  (it cannot be made without its arguments)
            return RuntimeError(self.text)


class Verbatim(str):
    """A string whose `repr` has no quotes: a KeyError shows its argument by `repr`."""

    __slots__ = ()
    __repr__ = str.__str__


def is_edutorch_error(cls: type) -> bool:
    return issubclass(cls, EdutorchError) and cls.__init__ is EdutorchError.__init__


def is_picklable(value: object) -> bool:
    """Return True if `value` can be pickled and unpickled."""
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:  # noqa: BLE001  (whatever the user's class raises: then it stays here)
        return False
    return True


# Exceptions in a worker --------------------------------------------------------------------------


def make_failure(error: Exception, worker: int, workers: int, progress: dict[str, str]) -> Failure:
    """Describe an exception that was just caught in a worker.

    Args:
        progress: what the worker was doing, such as {"sample": "3"}.
    """
    rows = {"worker": f"{worker} of {workers} (pid {os.getpid()})", **progress}
    line = user_line(error.__traceback__)
    if line:
        rows["line"] = line
    width = max(map(len, rows))
    table = "".join(f"  {name:<{width}} = {value}\n" for name, value in rows.items())
    user_trace = trim_to_user_code(error.__traceback__) or error.__traceback__
    trace = "".join(traceback.format_exception(type(error), error, user_trace))
    headline = f"Caught {type(error).__name__} in DataLoader worker process {worker}.\n"
    return Failure(error, f"{headline}{table}Original {trace}")


def is_user_file(path: str) -> bool:
    """Return True for a file of the user: not of this package, Python or another library."""
    return not path.startswith((*library_folders(), "<frozen", "<edutorch"))


def trim_to_user_code(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the first line of the user's code on; None if there is none."""
    while trace is not None and not is_user_file(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def user_line(trace: TracebackType | None) -> str:
    """Return the last line of the user's code in a traceback: "data.py:12: x / 0"."""
    location = ""
    for frame, number in traceback.walk_tb(trace):
        path = frame.f_code.co_filename
        if is_user_file(path):
            text = linecache.getline(path, number, frame.f_globals).strip()
            cell = "ipykernel" in path  # Jupyter names cells by a hash
            position = f"number {number} of the cell" if cell else f"{Path(path).name}:{number}"
            location = f"{position}: {text}"
    return location


# Workers that have died, or hang -----------------------------------------------------------------

HINTS = {
    "SIGKILL": "if memory ran out: fewer workers, a smaller prefetch_factor or smaller batches; "
    "open large data in the worker (in worker_init_fn) instead of copying it into each",
    "SIGBUS": "memory or a disk is full: use fewer workers or smaller batches",
    "exit": "something in the dataset ended its process (sys.exit, os._exit, a library); "
    "run once with num_workers=0 to see where",
    "signal": "compiled code crashed in the worker; run once with num_workers=0 and "
    "`python -X faulthandler` to see where",
}


def describe_exit(code: int | None) -> tuple[str, str]:
    """Return how a process ended, and a hint what to do about it.

    >>> describe_exit(3)[0]
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


def worker_died_error(
    worker: int, workers: int, pid: int | None, code: int | None, batch: str
) -> WorkerDied:
    """Return the error for a worker that has ended by itself."""
    cause, hint = describe_exit(code)
    rows = {"worker": f"{worker} of {workers}", "pid": pid, "batch": batch}
    return WorkerDied(None, f"DataLoader worker (pid {pid}) {cause}", rows, hint)


def timeout_error(
    worker: int, workers: int, pid: int | None, seconds: float, batch: str
) -> WorkerTimeout:
    """Return the error for a worker that takes too long."""
    return WorkerTimeout(
        None,
        f"DataLoader timed out after {seconds:g} seconds: worker {worker} (pid {pid}) hangs",
        {"worker": f"{worker} of {workers}", "pid": pid, "batch": batch},
        "load these samples with num_workers=0 to see where it waits, or raise `timeout`",
    )


def format_indices(indices: object) -> str:
    """Return the indices of a batch as one line of text.

    >>> format_indices(list(range(20)))
    '[0, 1, 2, 3, 4, 5, 6, 7, … 20 in all]'
    """
    if not isinstance(indices, list) or len(indices) <= 10:
        return repr(indices)[:200]
    return f"[{', '.join(map(repr, indices[:8]))}, … {len(indices)} in all]"[:300]
