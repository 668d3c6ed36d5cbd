"""REINFORCE: make the actions of good episodes more likely.

    ∇J = E[Σₜ ∇ log π(aₜ|sₜ) · (Gₜ - b)]

Gₜ is the return after step t, and b a baseline, here the mean of all returns, which changes no
expectation and lowers the variance. An episode is played to its end before anything is learnt.

Paper: Williams, Simple statistical gradient-following algorithms for connectionist reinforcement
    learning, 1992.

    python -m edutorch.rl.reinforce --env CartPole-v1 --seed 1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import nn, optim
from ..core.tensor import Tensor
from ..modes import no_grad
from ..ops import from_numpy, multinomial
from ..random import manual_seed
from .environments import check_spaces, make_envs, run_program
from .returns import discounted_returns


class Settings(NamedTuple):
    """The settings of the algorithm."""

    episodes: int = 400
    per_update: int = 8  # episodes that are played at once, and learnt from together
    lr: float = 1e-2
    gamma: float = 0.99
    width: int = 64


class Policy(nn.Module):
    """The probabilities of the actions in a state, as logarithms."""

    def __init__(self, states: int, actions: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(states, width), nn.Tanh(), nn.Linear(width, actions), nn.LogSoftmax(1)
        )

    def forward(self, states: Tensor) -> Tensor:
        return self.layers(states)

    def scores(self, states: Tensor) -> Tensor:
        """Return the score of each action, for `evaluate`."""
        return self(states)


def train(
    env: str = "CartPole-v1", seed: int = 1, settings: Settings | None = None,
    report: Callable[[str], None] | None = None,
) -> Policy:  # fmt: skip
    """Train a policy by REINFORCE, and return it.

    Args:
        env: gymnasium's name of a game with a choice of actions.
        report: called with a line of text now and then.

    Raises: ArgumentError: the game is of another sort. MissingExtraError: gymnasium is missing.
    """
    chosen = settings or Settings()
    envs = make_envs(env, chosen.per_update, seed)
    manual_seed(seed)
    policy = Policy(*check_spaces("reinforce", envs), chosen.width)
    optimizer = optim.Adam(policy.parameters(), lr=chosen.lr)
    for played in range(0, chosen.episodes, chosen.per_update):
        states, actions, returns, lengths = play_episodes(policy, envs, chosen.gamma)
        log_probs = policy(from_numpy(states)).gather(1, from_numpy(actions)[:, None])[:, 0]
        weights = from_numpy((returns - returns.mean()) / (returns.std() + 1e-8))
        loss = -(log_probs * weights).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if report and played // chosen.per_update % 10 == 9:
            report(f"episode {played + chosen.per_update}: mean length {np.mean(lengths):.0f}")
    envs.close()
    return policy


def play_episodes(policy: Policy, envs: Any, gamma: float) -> tuple[Any, Any, Any, list[int]]:
    """Play an episode in each environment; return all steps, their returns, and the lengths."""
    state, _ = envs.reset()
    steps: list[tuple[Any, Any, Any]] = []
    lengths = np.zeros(envs.num_envs, dtype=int)
    is_alive = np.ones(envs.num_envs, dtype=bool)
    while is_alive.any():
        with no_grad():
            action = multinomial(policy(from_numpy(state)).exp(), 1)[:, 0].numpy()
        next_state, reward, terminated, truncated, _ = envs.step(action)
        steps.append((state, action, reward))
        lengths += is_alive
        is_alive &= ~(terminated | truncated)
        state = next_state
    states, actions, rewards = (np.stack(column, 1) for column in zip(*steps, strict=True))
    returns = [discounted_returns(row[:n], gamma) for row, n in zip(rewards, lengths, strict=True)]
    kept = [slice(0, n) for n in lengths]
    return (
        np.concatenate([row[part] for row, part in zip(states, kept, strict=True)]),
        np.concatenate([row[part] for row, part in zip(actions, kept, strict=True)]),
        np.concatenate(returns), lengths.tolist(),
    )  # fmt: skip


if __name__ == "__main__":
    run_program(train, Settings)
