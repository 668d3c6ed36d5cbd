"""`record`: the error of a process, in a file that whoever started the job can read."""

from __future__ import annotations

import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

__all__ = ["ChildFailedError", "ErrorHandler", "get_error_handler", "record"]

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
P = ParamSpec("P")
T = TypeVar("T")


class ChildFailedError(Exception):
    """A process of a job has failed."""


class ErrorHandler:
    """Writes an error into the file that the variable TORCHELASTIC_ERROR_FILE names."""

    def initialize(self) -> None:
        """Let Python show where each thread is, if it crashes: `faulthandler`."""
        import faulthandler

        try:
            faulthandler.enable(all_threads=True)
        except (OSError, ValueError, RuntimeError):  # stderr is no file, as in a notebook
            return

    def record_exception(self, error: BaseException) -> None:
        """Write an exception, with its traceback and the time, as JSON."""
        path = os.environ.get(ERROR_FILE)
        if not path:
            return
        lines = "".join(traceback.format_exception(error))
        more = {"py_callstack": lines, "timestamp": str(int(time.time()))}
        message = {"message": f"{type(error).__name__}: {error}", "extraInfo": more}
        Path(path).write_text(json.dumps({"message": message}))


def get_error_handler() -> ErrorHandler:
    """Return the handler of `record`."""
    return ErrorHandler()


def record(
    fn: Callable[P, T], error_handler: ErrorHandler | None = None
) -> Callable[P, T | None]:  # fmt: skip
    """Decorate the main function of a program: an exception is written into a file, and raised.

    The launcher shows the first error of a job in any case. The file, which the variable
    TORCHELASTIC_ERROR_FILE names, is for other programs, such as an operator of Kubernetes.

    >>> @distributed.elastic.multiprocessing.errors.record
    ... def main():
    ...     return "trained"
    >>> main()
    'trained'
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def recorded(*args: P.args, **kwargs: P.kwargs) -> T | None:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as stop:
            if stop.code == 0:
                return None
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return recorded
