"""Slots for kernels that replace a definition, and the mode that switches them off.

An op calls its slot first. The slots are filled by `edutorch.kernels`, which is loaded only for an
array that is large enough; this file does not depend on how kernels are made. Without a kernel the
definition runs, as it always can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numpy import ndarray

from .kernel_registry import KERNELS

__all__ = ["Slot", "known_slot", "reference_only", "slot", "slot_of", "slots", "as_ndarray"]


class Slot:
    """The slot of one kernel. `run` is None until it is compiled, and in reference mode.

    Attributes:
        name: "file.maker", the function in `edutorch/kernels/cpu/` that makes it.
        min_size: for fewer elements than this, a kernel is not worth its call.
    """

    __slots__ = ("_filled", "min_size", "name", "requested", "run")

    def __init__(self, name: str, min_size: int) -> None:
        self.name, self.min_size = name, min_size
        self.run: Callable[..., Any] | None = None
        self.requested = False
        self._filled: Callable[..., Any] | None = None

    def request(self) -> None:
        """Request the kernel, which is compiled in the background; done at its first use."""
        if not self.requested and not _references:
            self.requested = True
            maker(self)

    def __call__(self, *arguments: Any) -> Any:
        """Compute by the kernel. None: it is not ready, or does not handle the case."""
        run = self.run
        if run is None:
            self.request()
            run = self.run  # ready already, where the request waits for it
        return None if run is None else run(*arguments)

    def fill(self, kernel: Callable[..., Any]) -> None:
        """Set the kernel."""
        self._filled = kernel
        if not _references:
            self.run = kernel


def slot(name: str, min_size: int) -> Slot:
    """Return the only slot of this name."""
    return _slots.setdefault(name, Slot(name, min_size))


def slot_of(key: str) -> Slot | None:
    """Return the slot of an op, or of a rule (`op/input`), if it is registered."""
    return known_slot(key) if key in KERNELS else None


def known_slot(key: str) -> Slot:
    """Return the slot of a registered kernel."""
    row = KERNELS[key]
    return slot(f"{row.file}.{key.replace('/', '_')}", row.min_size)


def as_ndarray(value: Any) -> Any:
    """Return an array as `numpy.ndarray`, the class that numba supports: the memory is the same."""
    return value.view(ndarray) if isinstance(value, ndarray) else value


def slots() -> tuple[Slot, ...]:
    """Return all slots."""
    return tuple(_slots.values())


@contextmanager
def reference_only() -> Iterator[None]:
    """Compute by definitions alone inside the block, in all threads.

    No kernel runs, an op call takes its general path (`core/dispatch.py`), and backward is that of
    the textbook (`core/autograd/reference.py`). So a breakpoint in a definition is hit.

    >>> with backends.reference_only():
    ...     ones(2).exp()
    tensor([2.7183, 2.7183])
    """
    global _references
    _references += 1
    try:
        if _references == 1:
            switch(True)
        yield
    finally:
        _references -= 1
        if not _references:
            switch(False)


def is_active() -> bool:
    """Return True inside `reference_only()`."""
    return _references > 0


def switch(reference: bool) -> None:
    """Take the kernels out of their slots, or put them back, and tell the ops."""
    for slot in slots():
        slot.run = None if reference else slot._filled
    for function in on_switch:
        function(reference)


on_switch: list[Callable[[bool], None]] = []
"""What else has a fast form: called with True at the beginning of reference mode, else False."""


def no_kernels(slot: Slot) -> None:
    """Make no kernel: `edutorch.kernels` replaces it by its own maker."""


_slots: dict[str, Slot] = {}
_references = 0
maker: Callable[[Slot], None] = no_kernels
