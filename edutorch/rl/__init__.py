"""Reinforcement learning: four algorithms, a file each, that play the games of gymnasium.

>>> from edutorch.rl import gae
>>> gae(tensor([1.0, 1.0]), tensor([0.0, 0.0, 5.0]), tensor([0.0, 1.0]), gamma=0.5, lam=1.0)
tensor([1.5000, 1.0000])
"""

from __future__ import annotations

from .buffers import ReplayBuffer, RolloutBuffer, Transitions
from .environments import evaluate, make_envs
from .returns import discounted_returns, gae
from .rendering import watch

__all__ = [
    "ReplayBuffer", "RolloutBuffer", "Transitions", "discounted_returns", "evaluate", "gae",
    "make_envs", "watch",
]  # fmt: skip
