"""`torch.multiprocessing`: Python's `multiprocessing`, and `spawn`.

Tensors are sent between processes by copying their bytes.
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403  (all of it, under PyTorch's name)
from multiprocessing import queues as _queues
from typing import Any

from edutorch.errors import EdutorchError

__all__ = [
    *_multiprocessing.__all__,
    "ProcessExitedException", "ProcessRaisedException", "get_all_sharing_strategies",
    "get_sharing_strategy", "set_sharing_strategy", "spawn",
]  # fmt: skip

_STRATEGIES = {"file_descriptor", "file_system"}
_state = {"strategy": "file_descriptor"}


class ProcessExitedException(EdutorchError):
    """A process that `spawn` started ended with an exit code other than 0."""


class ProcessRaisedException(EdutorchError):
    """A process that `spawn` started raised an error: the message contains its traceback."""


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
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Start `nprocs` processes that call `fn(i, *args)` with their index `i`.

    Args: join: wait for all; otherwise the running processes are returned.
    Raises: ProcessRaisedException, ProcessExitedException: one of them failed; the others
        have been ended.
    """
    context = _multiprocessing.get_context(start_method)
    running = []
    for number in range(nprocs):
        errors = context.SimpleQueue()
        process = context.Process(target=_call, args=(fn, number, args, errors), daemon=daemon)  # pyright: ignore[reportAttributeAccessIssue]
        process.start()
        running.append((process, errors))
    if not join:
        return [process for process, _ in running]
    _wait(running)
    return None


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


def _wait(running: list[tuple[Any, Any]]) -> None:
    """Wait for all processes; at the first failure end the others and raise an error."""
    from multiprocessing.connection import wait

    remaining = {
        process.sentinel: (number, *both)
        for number, both in enumerate(running)
        for process in both[:1]
    }
    while remaining:
        for sentinel in wait(list(remaining)):
            number, process, errors = remaining.pop(sentinel)  # pyright: ignore[reportArgumentType]
            process.join()
            if process.exitcode == 0:
                continue
            # The others may wait for the failed one for ever, in a barrier or a collective.
            for _, other, _ in remaining.values():
                other.terminate()
                other.join()
            if not errors.empty():
                raise ProcessRaisedException(
                    "spawn", f"process {number} raised an error\n\n{errors.get()}"
                )
            raise ProcessExitedException(
                "spawn", f"process {number} ended with exit code {process.exitcode}"
            )
