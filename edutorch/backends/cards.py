"""The cards of one type of device: their backends, and which of them is the current one.

Where a machine has several GPUs, each is a `Backend` of its own, with an `index`: "cuda:1" is
`backends.get("cuda", 1)`. What is created on "cuda", without a number, goes to the current card,
which each thread chooses for itself (`torch.cuda.set_device`).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import backends
from ..errors import DeviceError
from .numpy import Array, Backend

__all__ = ["CardNamespace", "CardRandom", "Cards", "restored_cards", "select_card_of"]


class Cards:
    """All cards of one type of device.

    Args:
        name: the type, such as "cuda".
        count: how many there are.
        make: makes the backend of the card with an index; it is called at the card's first use.
        what: what they are called in errors.
    """

    def __init__(
        self, name: str, count: int, make: Callable[[int, Cards], Backend], what: str = "card"
    ) -> None:
        self.name, self.count, self.what = name, count, what
        self.is_simulated = False
        self.is_switched = False  # whether more than one of them is in use
        self._make = make
        self._made: dict[int, Backend] = {}
        self._thread = threading.local()

    def in_use(self) -> list[Backend]:
        """Return the cards that have been used."""
        return list(self._made.values())

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
            backend = self._made.setdefault(index, self._make(index, self))
            self._register(backend)
        return backend

    def _register(self, backend: Backend) -> None:
        """Let the arrays of a card find its backend.

        As long as one card is in use, their class tells it, and nothing is ever switched.
        """
        if backend.is_simulated:  # its arrays know it, and need no current card
            return
        self.is_switched = len(self._made) > 1
        if not self.is_switched:
            backends.register_array(backend)
            return
        backends.switched_cards = True
        backends.register_type(backend.array_type, lambda array: self.get(self.index_of(array)))
        for made in self._made.values():
            if not isinstance(made.xp, CardNamespace):
                made.xp = CardNamespace(made.xp, made)

    def index_of(self, array: Any) -> int:
        """Return the index of the card that an array is on."""
        raise NotImplementedError

    def is_elsewhere(self, index: int) -> bool:
        """Whether another card than the one with this index is the current one."""
        return self.is_switched and self.current_index() != index

    def call(self, index: int, function: Callable[..., Any], *args: Any, **settings: Any) -> Any:
        """Call a function while a card is the current one."""
        if not self.is_elsewhere(index):
            return function(*args, **settings)
        with self.selected(index):
            return function(*args, **settings)

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


class CardNamespace:
    """The module `xp` of one of several cards: its functions run while the card is the current one.

    Args:
        library: the functions: the module, or one of its functions, which has methods.
        backend: the card.
    """

    def __init__(self, library: Any, backend: Any) -> None:
        self._library, self._backend = library, backend

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._library, name)
        is_plain = isinstance(member, type) or not (callable(member) or name in ("linalg", "fft"))
        if not is_plain:
            member = CardNamespace(member, self._backend)
        setattr(self, name, member)
        return member

    def __call__(self, *args: Any, **settings: Any) -> Any:
        backend = self._backend
        return backend.cards.call(backend.index, self._library, *args, **settings)


class CardRandom:
    """The random generator of one of several cards: it draws while the card is the current one."""

    def __init__(self, generator: Any, backend: Backend) -> None:
        self._generator, self._backend = generator, backend

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        member = getattr(self._generator, name)
        return functools.partial(self._backend.on_card, member) if callable(member) else member


def select_card_of(array: Array) -> None:
    """Make the card of an array the current one."""
    backend = backends.of(array) if backends.is_array(array) else backends.CPU
    if backend.cards is not None and backend.cards.current_index() != backend.index:
        backend.cards.select(backend.index)


@contextmanager
def restored_cards() -> Iterator[None]:
    """Restore the current cards of this thread after a block that has selected others."""
    before = [(cards, cards.current_index()) for cards in backends.all_cards() if cards.is_switched]
    try:
        yield
    finally:
        for cards, index in before:
            cards.select(index)
