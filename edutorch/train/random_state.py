"""Where all random generators stand, as plain data: kept in checkpoints, and gone back to."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from .. import backends
from ..backends.device import backend_for
from ..ops import Generator
from ..ops.random import default_generator

__all__ = ["RandomState"]


class RandomState:
    """A moment of every random generator that a training may draw from.

    These are edutorch's generators, NumPy's global one, Python's, and those that a loader
    was given.

    >>> moment = RandomState.now(); first = rand(2)
    >>> moment.restore(); equal(first, rand(2))
    True
    """

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts

    @classmethod
    def now(cls, loader: Any = None, device: str = "cpu") -> RandomState:
        """Return the present moment, as data that can be saved."""
        version, numbers, gauss = random.getstate()
        kind, keys, position, has_gauss, cached = np.random.get_state()
        parts: dict[str, Any] = {
            "edutorch": default_generator(backends.CPU).get_state(),
            "python": [version, np.array(numbers, np.uint32), gauss],
            "numpy": [kind, np.array(keys), int(position), int(has_gauss), float(cached)],
            "loader": [each.get_state() for each in generators_of(loader)],
        }  # fmt: skip
        if device != "cpu":
            parts["device"] = default_generator(backend_for(device)).get_state()
        return cls(parts)

    def restore(self, loader: Any = None, device: str = "cpu") -> None:
        """Let every generator go on from that moment."""
        parts = self.parts
        default_generator(backends.CPU).set_state(parts["edutorch"])
        version, numbers, gauss = parts["python"]
        random.setstate((version, tuple(numbers.tolist()), gauss))
        np.random.set_state(tuple(parts["numpy"]))
        for generator, state in zip(generators_of(loader), parts["loader"], strict=False):
            generator.set_state(state)
        if device != "cpu" and "device" in parts:
            default_generator(backend_for(device)).set_state(parts["device"])


def generators_of(loader: Any) -> list[Generator]:
    """Return the generators that a loader and its samplers draw from, each once."""
    sampler = getattr(loader, "sampler", None)
    batch_sampler = getattr(loader, "batch_sampler", None)
    holders = (loader, sampler, batch_sampler, getattr(batch_sampler, "sampler", None))
    found: list[Generator] = []
    for holder in holders:
        generator = getattr(holder, "generator", None)
        if isinstance(generator, Generator) and all(generator is not each for each in found):
            found.append(generator)
    return found
