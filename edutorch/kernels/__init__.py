"""Fast paths that stand in for definitions, compiled by numba (the extra `fast`).

A kernel is made the first time that something large enough asks for it, in a thread beside the
program, and kept on the disk: the next process only loads it. Until it is ready the definition
runs. So that this never shows in a result, a kernel here gives the very bits of its definition.
"""

from __future__ import annotations

import importlib.util
import queue
import threading
from importlib import import_module

from ..backends import stand_in
from ..backends.stand_in import Slot, slots
from ..errors import warn

__all__ = ["available", "warm_up"]

PLACES = {"adam": "optimizers", "sgd": "optimizers"}
"""By slot: the file in `cpu/` whose function of this name makes the kernel."""

_wanted: queue.SimpleQueue[Slot] = queue.SimpleQueue()
_lock = threading.Lock()
_thread: threading.Thread | None = None


def available() -> bool:
    """Say whether there is something to make kernels with.

    >>> kernels.available() in (True, False)
    True
    """
    return importlib.util.find_spec("numba") is not None


def make_beside(slot: Slot) -> None:
    """Have the kernel of a slot made in a thread of its own."""
    global _thread
    if not available():
        return
    _wanted.put(slot)
    with _lock:
        if _thread is None or not _thread.is_alive():  # also in a forked process: it has none
            _thread = threading.Thread(target=_make_all, name="edutorch-kernels", daemon=True)
            _thread.start()


def _make_all() -> None:
    while True:
        slot = _wanted.get()
        try:
            make(slot)
        except (ImportError, OSError, RuntimeError) as error:  # the definition goes on
            warn(f"no kernel for {slot.name} ({error}): slower, the same results; try `doctor`")


def make(slot: Slot) -> None:
    """Make the kernel of a slot and put it there."""
    module = import_module(f".cpu.{PLACES[slot.name]}", __name__)
    slot.fill(getattr(module, slot.name)())


def warm_up() -> list[str]:
    """Make all kernels now, and return their names: what `python -m edutorch warmup` does."""
    if not available():
        return []
    for slot in slots():
        slot.asked = True
        make(slot)
    return [slot.name for slot in slots()]


stand_in.maker = make_beside
