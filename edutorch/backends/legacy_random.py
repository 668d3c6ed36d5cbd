"""The generators before Philox4x32: for states that were saved with them, and for nothing else.

`Generator.set_state` makes one of a state of theirs, which goes on in its old stream, until a new
seed or a new state ends it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InvalidValueError
from .numpy import Array, Backend
from .philox import generator_dtype, round_uniform

__all__ = ["LEGACY", "LegacyRandom", "restore"]


class LegacyRandom:
    """Random arrays from NumPy's generator, by the methods of NumPy: its Philox has 64-bit words.

    Its state is a dict, that of NumPy's bit generator.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._generator: Any = np.random.Generator(np.random.Philox(0))

    def uniform(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Uniform samples in [0, 1)."""
        y = np.asarray(self._generator.random(shape, dtype=generator_dtype(dtype)))
        return self._backend.from_numpy(round_uniform(np, y, dtype))

    def normal(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Samples from the standard normal distribution."""
        y = np.asarray(self._generator.standard_normal(shape, dtype=generator_dtype(dtype)))
        return self._backend.from_numpy(y.astype(dtype, copy=False))

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Array:
        """Integers in [low, high), as int64."""
        y = np.asarray(self._generator.integers(low, high, shape, dtype=np.int64))
        return self._backend.from_numpy(y)

    def permutation(self, n: int) -> Array:
        """The integers 0 … n-1 in random order."""
        y = self._generator.permutation(n).astype(np.int64, copy=False)
        return self._backend.from_numpy(y)

    def get_state(self) -> dict[str, Any]:
        """Everything needed to continue from here."""
        return dict(self._generator.bit_generator.state)

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state that `get_state` returned."""
        self._generator.bit_generator.state = state


class LegacyCupyRandom:
    """Random arrays from CuPy's generator, whose state has some megabytes."""

    def __init__(self, cupy: Any, seed: int) -> None:
        self._cupy, self._seed = cupy, seed
        self._generator = cupy.random.Generator(cupy.random.Philox4x3210(seed))

    def uniform(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Uniform samples in [0, 1)."""
        y = self._generator.random(shape, dtype=generator_dtype(dtype))
        return round_uniform(self._cupy, y, dtype)

    def normal(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Samples from the standard normal distribution."""
        y = self._generator.standard_normal(shape, dtype=generator_dtype(dtype))
        return y.astype(dtype, copy=False)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Array:
        """Integers in [low, high), as int64."""
        y = self._generator.integers(low, high, size=shape, dtype=np.int64)
        return y.astype(np.int64, copy=False)

    def permutation(self, n: int) -> Array:
        """The integers 0 … n-1 in random order."""
        keys = self._generator.random((n,), dtype=np.float64)
        return self._cupy.argsort(keys).astype(np.int64, copy=False)

    def get_state(self) -> dict[str, Any]:
        """Everything needed to continue from here, on the host."""
        return {"seed": self._seed, "state": self._generator.bit_generator._state.get()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state that `get_state` returned on a GPU of the same model.

        Raises: ValueError: the state is from another GPU model.
        """
        own = self._generator.bit_generator._state
        if state["state"].shape != own.shape:
            raise InvalidValueError(
                "set_state", "this state of the random generator is of another kind of GPU"
            )
        self._seed = state["seed"]
        own.set(state["state"])


LEGACY = LegacyRandom, LegacyCupyRandom


def restore(backend: Backend, state: dict[str, Any]) -> LegacyRandom | LegacyCupyRandom:
    """Return a generator that goes on from the state of an old one.

    Raises: ValueError: the state of a GPU's generator, for another device.
    """
    generator: Any
    if "bit_generator" in state:
        generator = LegacyRandom(backend)
    elif "state" in state and backend.is_accelerator:
        generator = LegacyCupyRandom(backend.xp, state["seed"])
    else:
        raise InvalidValueError(
            "set_state", f"this state of a GPU's generator does not fit the device {backend.name}"
        )
    generator.set_state(state)
    return generator
