"""Simulated cards for a test, which are taken away again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from edutorch import backends
from edutorch.ops import random


@contextmanager
def simulated(count: int) -> Iterator[None]:
    """Let as many simulated cards answer for "cuda" inside of a block."""
    before, drawn = backends.simulated_cards(), dict(random._GENERATORS)
    backends.simulate_cards(count)
    try:
        yield
    finally:
        backends.simulate_cards(before)
        random._GENERATORS.clear()
        # Those of cards are bound to the cards that are no more.
        kept = {name: own for name, own in drawn.items() if not name.startswith("cuda")}
        random._GENERATORS.update(kept)
