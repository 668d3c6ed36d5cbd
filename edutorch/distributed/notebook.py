"""Training in several processes from a cell of a notebook."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from ..cuda import device_count
from .errors import DistError
from .process_group import destroy_process_group, is_initialized

__all__ = ["notebook_launcher"]


def notebook_launcher(
    function: Callable[..., Any], args: Sequence[Any] = (), num_processes: int | None = None,
    nprocs: int | None = None, use_port: str = "29500", **others: Any,
) -> None:  # fmt: skip
    """Call `function(*args)` in several processes, from a notebook, and wait for them.

    The function may be one of a cell: it travels by value, with what it uses. In it,
    `init_process_group()` forms the group. What the processes print appears below the cell.

    Args:
        function: is called without the rank, which `get_rank()` returns.
        args: its arguments.
        num_processes, nprocs: how many processes; by default one for each GPU, or two.
        use_port: accepted, as further arguments of accelerate's function of this name.

    Raises:
        ProcessRaisedException: one of them failed; the message has its traceback.
        DistError: this process is in a group itself.

    >>> distributed.notebook_launcher(print, ("one process",), nprocs=1)
    one process
    """
    if is_initialized():
        raise DistError(
            "notebook_launcher", "this process is in a process group itself",
            hint="call destroy_process_group() first, and init_process_group in the function only",
        )  # fmt: skip
    count = nprocs if nprocs is not None else num_processes
    count = (device_count() or 2) if count is None else count
    if count == 1:
        run_here(function, args)
        return
    spawn = import_module("edutorch.multiprocessing").start_processes
    spawn(partial(without_rank, function), tuple(args), count)


def run_here(function: Callable[..., Any], args: Sequence[Any]) -> None:
    """Call a function in this process, as the only one of its group."""
    names = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        function(*args)
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        if is_initialized():  # the cell can be run again
            destroy_process_group()


def without_rank(function: Callable[..., Any], rank: int, *args: Any) -> None:
    """Call a function that asks for its rank by itself."""
    function(*args)
