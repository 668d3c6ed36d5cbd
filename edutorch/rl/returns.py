"""What a step was worth: discounted returns, and advantages against a critic."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops import as_tensor


def gae(rewards: Any, values: Any, dones: Any, gamma: float = 0.99, lam: float = 0.95) -> Any:
    """Generalized advantage estimation: how much better each action was than expected.

        δₜ = rₜ + γ · V(sₜ₊₁) · (1 - dₜ) - V(sₜ)
        Aₜ = δₜ + γλ · (1 - dₜ) · Aₜ₊₁

    λ = 0 trusts the critic after one step, λ = 1 trusts only the rewards that came.

    Args:
        rewards: rₜ, of shape (steps, …): one axis more for several environments.
        values: V(sₜ), of shape (steps + 1, …): the last is that of the state after all steps.
        dones: dₜ, 1 where the episode ended with step t, of shape (steps, …).
        gamma: the discount of a step.
        lam: λ, from 0 to 1.

    Returns: A, a tensor if the rewards are one, else a NumPy array.

    Raises: ShapeError: the shapes do not match.

    Paper: Schulman et al., High-dimensional continuous control using generalized advantage
        estimation, 2016.

    >>> rl.gae(tensor([0.0, 1.0]), tensor([0.5, 0.5, 9.0]), tensor([0.0, 1.0]), 1.0, 1.0)
    tensor([0.5000, 0.5000])
    """
    reward, value, done = (np.asarray(x) for x in (rewards, values, dones))
    if value.shape != (len(reward) + 1, *reward.shape[1:]) or done.shape != reward.shape:
        raise ShapeError(
            "gae", "expected a value for each step and one more, and rewards and dones alike",
            {"rewards": reward.shape, "values": value.shape, "dones": done.shape},
            "append the critic's value of the last state to the values",
        )  # fmt: skip
    going_on = 1 - done.astype(reward.dtype)
    delta = reward + gamma * value[1:] * going_on - value[:-1]
    advantages, advantage = np.zeros_like(delta), np.zeros_like(delta[:1].sum(0))
    for step in reversed(range(len(reward))):
        advantage = delta[step] + gamma * lam * going_on[step] * advantage
        advantages[step] = advantage
    return as_tensor(advantages) if isinstance(rewards, Tensor) else advantages


def discounted_returns(rewards: Any, gamma: float = 0.99) -> np.ndarray:
    """The return of each step of an episode: Gₜ = rₜ + γ · Gₜ₊₁.

    >>> rl.discounted_returns([0.0, 0.0, 1.0], gamma=0.5).tolist()
    [0.25, 0.5, 1.0]
    """
    returns, total = np.zeros(len(rewards), np.float32), 0.0
    for step in reversed(range(len(rewards))):
        total = rewards[step] + gamma * total
        returns[step] = total
    return returns
