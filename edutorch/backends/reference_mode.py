"""Where a faster path may stand in for a definition.

A definition asks its slot first. What fills the slots is `edutorch.kernels`, which is loaded only
when something large enough comes by; nothing here knows how a kernel is made, and without one
the definition runs, as it always can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numpy import ndarray

from .kernel_registry import KERNELS

__all__ = ["Slot", "known_slot", "reference_only", "slot", "slot_of", "slots", "as_ndarray"]


class Slot:
    """The place of one kernel. `run` is None until it is there, and while none is wanted.

    Attributes:
        name: "file.maker", the function in `edutorch/kernels/cpu/` that makes it.
        least: for fewer numbers than this, a kernel is not worth its call.
    """

    __slots__ = ("_filled", "asked", "least", "name", "run")

    def __init__(self, name: str, least: int) -> None:
        self.name, self.least = name, least
        self.run: Callable[..., Any] | None = None
        self.asked = False
        self._filled: Callable[..., Any] | None = None

    def ask(self) -> None:
        """Have the kernel made, beside whatever runs; the first one who needs it asks."""
        if not self.asked and not _references:
            self.asked = True
            maker(self)

    def __call__(self, *arguments: Any) -> Any:
        """Compute by the kernel. None: there is none yet, or the case is not its own."""
        run = self.run
        if run is None:
            self.ask()
            run = self.run  # there already, where the asking waits for it
        return None if run is None else run(*arguments)

    def fill(self, kernel: Callable[..., Any]) -> None:
        """Put the kernel in its place."""
        self._filled = kernel
        if not _references:
            self.run = kernel


def slot(name: str, least: int) -> Slot:
    """Return the slot of this name, which exists once."""
    return _slots.setdefault(name, Slot(name, least))


def slot_of(key: str) -> Slot | None:
    """Return the slot of an op, or of a rule (`op/input`), if the table of kernels has a row."""
    return known_slot(key) if key in KERNELS else None


def known_slot(key: str) -> Slot:
    """Return the slot of a row of the table of kernels."""
    row = KERNELS[key]
    return slot(f"{row.file}.{key.replace('/', '_')}", row.least)


def as_ndarray(value: Any) -> Any:
    """Return an array as NumPy's own class, which numba knows: the memory is the same."""
    return value.view(ndarray) if isinstance(value, ndarray) else value


def slots() -> tuple[Slot, ...]:
    """Return all slots there are."""
    return tuple(_slots.values())


@contextmanager
def reference_only() -> Iterator[None]:
    """Compute by definitions alone inside the block, in all threads.

    >>> with backends.reference_only():
    ...     ones(2).exp()
    tensor([2.7183, 2.7183])
    """
    global _references
    _references += 1
    try:
        for slot in slots():
            slot.run = None
        yield
    finally:
        _references -= 1
        if not _references:
            for slot in slots():
                slot.run = slot._filled


def no_kernels(slot: Slot) -> None:
    """Make no kernel: `edutorch.kernels` puts its own maker in the place of this one."""


_slots: dict[str, Slot] = {}
_references = 0
maker: Callable[[Slot], None] = no_kernels
