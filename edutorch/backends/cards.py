"""The cards of one type of device: their backends, and which of them is the current one.

Where a machine has several GPUs, each is a `Backend` of its own, with an `index`: "cuda:1" is
`backends.get("cuda", 1)`. What is created on "cuda", without a number, goes to the current card,
which each thread chooses for itself (`torch.cuda.set_device`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import DeviceError
from .numpy import Backend

__all__ = ["Cards"]


class Cards:
    """All cards of one type of device.

    Args:
        name: the type, such as "cuda".
        count: how many there are.
        make: makes the backend of the card with an index; it is called at the card's first use.
        what: what they are called in errors.
    """

    def __init__(
        self, name: str, count: int, make: Callable[[int], Backend], what: str = "card"
    ) -> None:
        self.name, self.count, self.what = name, count, what
        self.is_simulated = False
        self._make = make
        self._made: dict[int, Backend] = {}
        self._thread = threading.local()

    def current_index(self) -> int:
        """Return the index of this thread's current card: 0, until another one is selected."""
        return getattr(self._thread, "index", 0)

    def select(self, index: int) -> None:
        """Make a card the current one of this thread.

        Raises: DeviceError: there is none with this index.
        """
        self.check(index)
        self._thread.index = index

    @contextmanager
    def selected(self, index: int) -> Iterator[None]:
        """Make a card the current one inside of a block."""
        before = self.current_index()
        self.select(index)
        try:
            yield
        finally:
            self.select(before)

    def get(self, index: int | None = None) -> Backend:
        """Return the backend of a card; None is the current one.

        Raises: DeviceError: there is no such card.
        """
        if index is None:
            index = self.current_index()
        backend = self._made.get(index)
        if backend is None:
            self.check(index)
            backend = self._made.setdefault(index, self._make(index))
        return backend

    def check(self, index: Any) -> None:
        """Raise DeviceError unless there is a card with this index."""
        if isinstance(index, int) and 0 <= index < self.count:
            return
        names = [f"{self.name}:{number}" for number in range(self.count)]
        known = ", ".join(names) if self.count <= 4 else f"{names[0]} to {names[-1]}"
        plural = "" if self.count == 1 else "s"
        raise DeviceError(
            "device",
            f"there is no {self.name}:{index}: invalid device ordinal",
            hint=f"this machine has {self.count} {self.what}{plural}: {known}",
        )
