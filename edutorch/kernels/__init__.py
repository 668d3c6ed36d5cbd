"""Fast paths that stand in for definitions, compiled by numba (the extra `fast`).

A kernel is made the first time that something large enough asks for it, in a thread beside the
program, and kept on the disk: the next process only loads it. Until it is ready the definition
runs, whose last digits may be others: sums are taken in another order. After
`use_deterministic_algorithms(True)`, and with EDUTORCH_KERNELS=wait, whoever asks waits instead.
EDUTORCH_KERNELS=off makes none.
"""

from __future__ import annotations

import importlib.util
import os
import queue
import threading
from importlib import import_module

from ..backends import stand_in
from ..backends.kernel_table import KERNELS
from ..backends.stand_in import Slot, slot_of, slots
from ..errors import warn
from ..settings import are_deterministic_algorithms_enabled

__all__ = ["available", "warm_up"]

_wanted: queue.SimpleQueue[Slot] = queue.SimpleQueue()
_lock = threading.Lock()
_thread: threading.Thread | None = None


def available() -> bool:
    """Say whether there is something to make kernels with.

    >>> kernels.available() in (True, False)
    True
    """
    return importlib.util.find_spec("numba") is not None


def make_wanted(slot: Slot) -> None:
    """Have the kernel of a slot made: beside the program, or now where results must not change."""
    wish = os.environ.get("EDUTORCH_KERNELS", "beside")
    if wish == "off" or not available():
        return
    if wish == "wait" or are_deterministic_algorithms_enabled():
        make_or_warn(slot)
    else:
        make_beside(slot)


def make_beside(slot: Slot) -> None:
    """Have the kernel of a slot made in a thread of its own."""
    global _thread
    _wanted.put(slot)
    with _lock:
        if _thread is None or not _thread.is_alive():  # also in a forked process: it has none
            _thread = threading.Thread(target=_make_all, name="edutorch-kernels", daemon=True)
            _thread.start()


def _make_all() -> None:
    while True:
        make_or_warn(_wanted.get())


def make_or_warn(slot: Slot) -> None:
    """Make a kernel; where that fails, the definition goes on."""
    try:
        make(slot)
    except (ImportError, OSError, RuntimeError) as error:
        warn(f"no kernel for {slot.name} ({error}): slower, the same results; try `doctor`")


def make(slot: Slot) -> None:
    """Make the kernel of a slot and put it there."""
    file, maker = slot.name.split(".")
    slot.fill(getattr(import_module(f".cpu.{file}", __name__), maker)())


def warm_up() -> list[str]:
    """Make all kernels now, and return their names: what `python -m edutorch warmup` does."""
    if not available():
        return []
    for key in KERNELS:
        slot_of(key)  # also of ops that have not run yet
    for slot in slots():
        slot.asked = True
        make(slot)
    return [slot.name for slot in slots()]


stand_in.maker = make_wanted
