"""The state of all random generators as plain data, for checkpoints."""

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
    """The state of every random generator that a training may use.

    These are edutorch's generators, NumPy's global one, Python's, and those of a loader.

    >>> moment = RandomState.now(); first = rand(2)
    >>> moment.restore(); equal(first, rand(2))
    True
    """

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts

    @classmethod
    def now(cls, loader: Any = None, device: str = "cpu") -> RandomState:
        """Return the current state, which can be saved."""
        version, words, gauss = random.getstate()
        algorithm, keys, position, has_gauss, cached = np.random.get_state()
        parts: dict[str, Any] = {
            "edutorch": default_generator(backends.CPU).get_state(),
            "python": [version, np.array(words, np.uint32), gauss],
            "numpy": [algorithm, np.array(keys), int(position), int(has_gauss), float(cached)],
            "loader": [generator.get_state() for generator in generators_of(loader)],
        }  # fmt: skip
        if device != "cpu":
            parts["device"] = default_generator(backend_for(device)).get_state()
        return cls(parts)

    def restore(self, loader: Any = None, device: str = "cpu") -> None:
        """Set every generator to this state."""
        parts = self.parts
        default_generator(backends.CPU).set_state(parts["edutorch"])
        version, words, gauss = parts["python"]
        random.setstate((version, tuple(words.tolist()), gauss))
        np.random.set_state(tuple(parts["numpy"]))
        for generator, state in zip(generators_of(loader), parts["loader"], strict=False):
            generator.set_state(state)
        if device != "cpu" and "device" in parts:
            default_generator(backend_for(device)).set_state(parts["device"])


def generators_of(loader: Any) -> list[Generator]:
    """Return the generators of a loader and its samplers, without duplicates."""
    sampler = getattr(loader, "sampler", None)
    batch_sampler = getattr(loader, "batch_sampler", None)
    holders = (loader, sampler, batch_sampler, getattr(batch_sampler, "sampler", None))
    generators: list[Generator] = []
    for holder in holders:
        generator = getattr(holder, "generator", None)
        if isinstance(generator, Generator) and all(generator is not known for known in generators):
            generators.append(generator)
    return generators
