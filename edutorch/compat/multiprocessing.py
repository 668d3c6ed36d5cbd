"""`torch.multiprocessing`: Python's `multiprocessing`, and `spawn`.

Tensors are sent between processes by copying their bytes.
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
import re
import signal
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import *  # noqa: F403  (all of it, under PyTorch's name)
from multiprocessing import queues as _queues
from typing import Any

from edutorch.errors import EdutorchError

__all__ = [
    *_multiprocessing.__all__,
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
    "SpawnContext", "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy",
    "spawn", "start_processes",
]  # fmt: skip

_STRATEGIES = {"file_descriptor", "file_system"}
_state = {"strategy": "file_descriptor"}


class ProcessException(EdutorchError):
    """A process that `spawn` started has failed.

    Attributes:
        msg: what happened, with the traceback.
        error_index, error_pid: which process.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__("spawn", msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process that `spawn` started raised an error: the message contains its traceback."""


class ProcessExitedException(ProcessException):
    """A process that `spawn` started ended by a signal, or with an exit code other than 0."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int,
        signal_name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (*super().__reduce__()[1], self.exit_code, self.signal_name)


def get_all_sharing_strategies() -> set[str]:
    """Return the names of the strategies for sharing memory."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """Return the value of `set_sharing_strategy`."""
    return _state["strategy"]


def set_sharing_strategy(new_strategy: str) -> None:
    """Store the strategy for sharing tensors; they are copied whichever it is.

    Raises: ValueError: an unknown strategy.
    """
    if new_strategy not in _STRATEGIES:
        known = ", ".join(sorted(_STRATEGIES))
        raise ValueError(
            f"set_sharing_strategy: there is no strategy {new_strategy!r}; there are {known}"
        )
    _state["strategy"] = new_strategy


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | MpiContext | None:  # fmt: skip
    """Start `nprocs` processes that call `fn(i, *args)` with their index `i`.

    Where MPI is installed they can train together: `torch.distributed.init_process_group` in `fn`.

    Args:
        join: wait for all; otherwise their context is returned, which has `join`.
        daemon: they end with this process.
        start_method: as in Python's `multiprocessing`.

    Raises: ProcessRaisedException, ProcessExitedException: one of them failed; the others
        have been ended.
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | MpiContext | None:  # fmt: skip
    """Start processes as `spawn` does."""
    context = start_by_mpi(fn, args, nprocs) or start_children(
        fn, args, nprocs, daemon, start_method
    )
    if not join:
        return context
    while not context.join():
        pass
    return None


# Under mpirun -------------------------------------------------------------------------------------


def start_by_mpi(fn: Callable[..., Any], args: tuple[Any, ...], nprocs: int) -> MpiContext | None:
    """Start processes that can form a process group, or return None where that is of no use.

    Whether `fn` will call `init_process_group` cannot be known beforehand, and a process cannot
    join an MPI job afterwards: so mpirun starts all functions, where it is installed. It is not
    needed for one process; and a queue or a lock of `multiprocessing` only reaches children of
    this process, so a program that hands one over gets such children, as without MPI.
    """
    if nprocs < 2 or find_spec("mpi4py") is None or find_spec("cloudpickle") is None:
        return None
    functions = import_module("edutorch.distributed.run.functions")
    try:
        call = functions.write_call(fn, args)
    except functions.NeedsChildError:
        return None
    return MpiContext(functions.FunctionJob(call, nprocs))


class MpiContext:
    """The processes that mpirun has started, as `spawn(join=False)` returns them."""

    def __init__(self, job: Any) -> None:
        self._job = job

    def pids(self) -> list[int]:
        """Return the numbers of the processes that have begun, by which the system knows them."""
        return [rank.pid for rank in self._job.attempt.monitor.ranks()]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until all have ended, at most `timeout` seconds. Returns whether they have.

        Raises: ProcessRaisedException, ProcessExitedException: one of them failed.
        """
        if not self._job.wait(timeout):
            return False
        fault, attempt = self._job.fault, self._job.attempt
        if fault is None:
            return True
        failure = attempt.failures.get(fault.rank, {})
        who = fault.rank if fault.rank is not None else 0
        pid = attempt.pids.get(who, 0)
        if failure.get("traceback"):
            raise ProcessRaisedException(raised(who, failure["traceback"]), who, pid)
        by_signal = re.search(r"signal (\d+)", fault.cause)
        code = -int(by_signal[1]) if by_signal else failure.get("code", 1)
        name = signal.Signals(-code).name if by_signal else None
        raise ProcessExitedException(self._job.message(), who, pid, code, name)


def raised(number: int, trace: str) -> str:
    """Return PyTorch's message for an error in a process."""
    return f"\n\n-- Process {number} terminated with the following error:\n{trace}"


# As children of this process ----------------------------------------------------------------------


def start_children(
    fn: Callable[..., Any], args: tuple[Any, ...], nprocs: int, daemon: bool, start_method: str
) -> ProcessContext:
    """Start processes by Python's `multiprocessing`."""
    context = _multiprocessing.get_context(start_method)
    processes, errors = [], []
    for number in range(nprocs):
        errors.append(context.SimpleQueue())
        process = context.Process(target=_call, args=(fn, number, args, errors[-1]), daemon=daemon)  # pyright: ignore[reportAttributeAccessIssue]
        process.start()
        processes.append(process)
    return ProcessContext(processes, errors)


def _call(
    fn: Callable[..., Any], number: int, args: tuple[Any, ...], errors: _queues.SimpleQueue[str]
) -> None:
    """Run `fn` in the new process; an exception is sent to the parent as text."""
    try:
        fn(number, *args)
    except Exception:  # noqa: BLE001  (whatever it is, the parent shows it)
        import sys
        import traceback

        errors.put(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes that `spawn(join=False)` returns.

    Args:
        processes: those of `multiprocessing`.
        errors: for each one the queue that its traceback comes by.
    """

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes, self._errors = processes, errors
        self._waiting = {process.sentinel: number for number, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Return the numbers by which the system knows the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one has ended, at most `timeout` seconds. Returns whether all have.

        Raises: ProcessRaisedException, ProcessExitedException: one failed; the others are ended.
        """
        from multiprocessing.connection import wait

        for sentinel in wait(list(self._waiting), timeout=timeout) if self._waiting else ():
            number = self._waiting.pop(sentinel)  # pyright: ignore[reportArgumentType]
            self.processes[number].join()
            if self.processes[number].exitcode:
                self._end_others(grace_period)
                raise self._failure(number)
        return not self._waiting

    def _end_others(self, grace_period: float | None) -> None:
        # They may wait for the failed one for ever, in a barrier or a collective.
        others = [self.processes[number] for number in self._waiting.values()]
        for process in others:
            if grace_period is not None:
                process.join(grace_period)
            process.terminate()
            process.join(30 if grace_period is None else grace_period)
            if process.is_alive():
                process.kill()
                process.join()

    def _failure(self, number: int) -> ProcessException:
        process, errors = self.processes[number], self._errors[number]
        if not errors.empty():
            return ProcessRaisedException(raised(number, errors.get()), number, process.pid)
        if process.exitcode < 0:
            name = signal.Signals(-process.exitcode).name
            message = f"process {number} terminated with signal {name}"
            return ProcessExitedException(message, number, process.pid, process.exitcode, name)
        message = f"process {number} terminated with exit code {process.exitcode}"
        return ProcessExitedException(message, number, process.pid, process.exitcode)


SpawnContext = ProcessContext
