"""The random generators of all devices, by PyTorch's names: `edutorch.random.fork_rng()`."""

from __future__ import annotations

from typing import Any

from . import backends
from .ops.random import default_generator as _default_generator
from .ops.random import fork_rng, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = [
    "default_generator",  # noqa: F822  (created by __getattr__)
    "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed",
    "set_rng_state",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Create the CPU's `default_generator` on first access."""
    if name == "default_generator":
        return _default_generator(backends.CPU)
    raise AttributeError(f"module 'edutorch.random' has no attribute {name!r}")
