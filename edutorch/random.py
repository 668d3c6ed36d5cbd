"""The random generators of all devices, by PyTorch's names: `edutorch.random.fork_rng()`."""

from __future__ import annotations

from .ops.random import initial_seed, manual_seed, seed
from .ops.random_state import fork_rng, get_rng_state, set_rng_state

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
