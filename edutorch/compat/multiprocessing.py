"""`torch.multiprocessing`: Python's own `multiprocessing`, and `spawn`.

Tensors travel between processes as their bytes.
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403  (all of it, under PyTorch's name)
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
    """A process that `spawn` started raised an error: its own traceback is in the text."""


def get_all_sharing_strategies() -> set[str]:
    """Return the ways of sharing memory that can be asked for."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """Return what `set_sharing_strategy` was told."""
    return _state["strategy"]


def set_sharing_strategy(new_strategy: str) -> None:
    """Keep how tensors should be shared; they travel as bytes whichever it is.

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
    """Start `nprocs` processes that each call `fn(i, *args)` with their own number `i`.

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


def _call(fn: Callable[..., Any], number: int, args: tuple[Any, ...], errors: Any) -> None:
    """Run in the new process: the error that ends it is sent home as text."""
    try:
        fn(number, *args)
    except Exception:  # noqa: BLE001  (whatever it is, the parent shows it)
        import sys
        import traceback

        errors.put(traceback.format_exc())
        sys.exit(1)


def _wait(running: list[tuple[Any, Any]]) -> None:
    """Wait for all; at the first failure end the others and say what happened."""
    from multiprocessing.connection import wait

    left = {
        process.sentinel: (number, *both)
        for number, both in enumerate(running)
        for process in both[:1]
    }
    while left:
        for sentinel in wait(list(left)):
            number, process, errors = left.pop(sentinel)  # pyright: ignore[reportArgumentType]
            process.join()
            if process.exitcode == 0:
                continue
            for _, other, _ in left.values():
                other.terminate()
                other.join()
            if not errors.empty():
                raise ProcessRaisedException(
                    "spawn", f"process {number} raised an error\n\n{errors.get()}"
                )
            raise ProcessExitedException(
                "spawn", f"process {number} ended with exit code {process.exitcode}"
            )
