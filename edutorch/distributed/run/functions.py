"""Starts a function in several processes: what `multiprocessing.spawn` does where MPI is installed.

Processes that were started one by one cannot join an MPI job afterwards, so mpirun starts them. The
function travels by value, as cloudpickle writes it, in a file that only this user can read: it may
be one of a notebook.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import threading
from collections import ChainMap
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any

from ..errors import missing_mpi
from .agent import Attempt
from .monitor import Fault
from .options import Options
from .report import format_fault

__all__ = ["FunctionJob", "NeedsChildError", "run_function"]

FILE = "function.pickle"
OF_AN_MPI_JOB = ("OMPI_", "PMIX_", "PRTE_", "PMI_", "HYDI_", "HYDRA_")
"""Variables of a process that mpirun has started: they must not reach another mpirun."""


class NeedsChildError(Exception):
    """An argument is of use only to children of this process, as a queue of `multiprocessing`."""


class FunctionAttempt(Attempt):
    """One start of a function in all processes.

    Attributes:
        failures: the tracebacks of the ranks that have raised.
        pids: of the ranks that have begun.
    """

    def __init__(self, options: Options, call: bytes) -> None:
        super().__init__(options, 0)
        # A cell of a notebook shows what is printed.
        self.copies_stdout = sys.stdout is not sys.__stdout__
        os.chmod(self.folder, 0o700)
        (self.folder / FILE).write_bytes(call)
        self.failures: dict[int, dict[str, Any]] = {}
        self.pids: dict[int, int] = {}

    def environment(self) -> dict[str, str]:
        made = super().environment()
        return {name: made[name] for name in made if not name.startswith(OF_AN_MPI_JOB)}

    def child(self) -> list[str]:
        return [*super().child(), str(self.folder / FILE)]

    def watch(self) -> Fault | None:
        fault = super().watch()
        self.pids = {rank.number: rank.pid for rank in self.monitor.ranks()}
        for number in self.pids:
            path = self.folder / f"rank{number}.error"
            if path.exists():
                self.failures[number] = json.loads(path.read_text())
        return fault


class FunctionJob:
    """A function that runs in several processes, which mpirun has started.

    Args:
        call: the function and its arguments, as `write_call` returns them.
        processes: how many.
    """

    def __init__(self, call: bytes, processes: int) -> None:
        options = Options(processes=processes, program=(), how="function", monitor_interval=0.05)
        self.processes = processes
        self.attempt = FunctionAttempt(options, call)
        self.fault: Fault | None = None
        self.code: int | None = None
        self.problem: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True, name="edutorch-spawn")
        self.thread.start()

    def _run(self) -> None:
        try:
            self.code, self.fault = self.attempt.run()
        except BaseException as error:  # noqa: BLE001 (shown by the thread that waits)
            self.problem = error

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all processes have ended, or so many seconds. Returns whether they have."""
        try:
            self.thread.join(timeout)
        except BaseException:  # Ctrl-C ends them as well
            self.end()
            raise
        if self.problem is not None:
            raise self.problem
        return not self.thread.is_alive()

    def end(self) -> None:
        """End all processes."""
        if self.thread.is_alive():
            self.attempt.end_processes()
            self.thread.join(timeout=10)

    def message(self) -> str:
        """Return what went wrong, as the launcher says it."""
        assert self.fault is not None
        return format_fault(self.fault, self.processes)


def write_call(fn: Any, args: tuple[Any, ...]) -> bytes:
    """Return a function and its arguments as bytes.

    Raises:
        MissingExtraError: cloudpickle is not installed.
        NeedsChildError: a queue, lock or event of `multiprocessing` is among them.
        TypeError: something cannot be written; it is named.
    """
    try:
        import cloudpickle
    except ImportError as error:
        raise missing_mpi("multiprocessing.spawn", error) from None
    has_alias = any(type(finder).__module__ == "edutorch.alias" for finder in sys.meta_path)
    start = {
        "path": list(sys.path), "folder": os.getcwd(), "arguments": list(sys.argv),
        "alias": has_alias, "main": main_file(),
    }  # fmt: skip
    try:
        return pickle.dumps((start, with_files(cloudpickle, (fn, args))))
    except RuntimeError as error:
        if "through inheritance" in str(error):
            raise NeedsChildError from error
        raise


def with_files(cloudpickle: Any, value: Any) -> bytes:
    """Return a value as cloudpickle writes it, but let code keep its file: tracebacks name it."""

    class Pickler(cloudpickle.CloudPickler):
        pass

    table = cloudpickle.CloudPickler.dispatch_table

    def reduce(code: CodeType) -> tuple[Any, tuple[Any, ...]]:
        make, parts = table[CodeType](code)
        own = [code.co_filename if part == "<dynamic-code>" else part for part in parts]
        return make, tuple(own)

    Pickler.dispatch_table = ChainMap({CodeType: reduce}, table)
    file = io.BytesIO()
    Pickler(file).dump(value)
    return file.getvalue()


def main_file() -> str | None:
    """Return the file of the program, for tracebacks; None in a notebook."""
    return getattr(sys.modules.get("__main__"), "__file__", None)


def run_function(path: str, rank: int) -> int:
    """Call the function of a file in this process. Returns 0."""
    # The file is of this user and in a folder that nobody else can write: see FunctionAttempt.
    start, call = pickle.loads(Path(path).read_bytes())
    sys.path[:], sys.argv[:] = start["path"], start["arguments"]
    os.chdir(start["folder"])
    if start["main"]:
        sys.modules["__main__"].__file__ = start["main"]
    if start["alias"]:
        import_module("edutorch.alias").install()
    fn, args = pickle.loads(call)
    fn(rank, *args)
    return 0
