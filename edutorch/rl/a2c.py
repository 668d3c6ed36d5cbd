"""A2C, advantage actor-critic: the policy learns from what a critic did not expect.

    loss = -mean(log π(a|s) · A) + c · mean((V(s) - G)²) - e · mean(H(π))

A is the advantage (`gae`), G = A + V the return, H the entropy, which keeps the policy curious.
Some environments are played at once for a few steps, and each of these steps is used once.

Paper: Mnih et al., Asynchronous methods for deep reinforcement learning, 2016.

    python -m edutorch.rl.a2c --env CartPole-v1 --seed 1
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
from .buffers import RolloutBuffer
from .environments import check_spaces, final_states, make_envs, run_program


class Settings(NamedTuple):
    """The settings of the algorithm."""

    total_timesteps: int = 120_000
    num_envs: int = 8
    num_steps: int = 16  # of each environment between two updates
    lr: float = 2e-3  # decreases to 0
    gamma: float = 0.99
    lam: float = 0.95
    entropy: float = 0.0
    value: float = 0.5
    max_grad_norm: float = 0.5
    width: int = 64


class ActorCritic(nn.Module):
    """A policy and a critic: two networks of the same form."""

    def __init__(self, states: int, actions: int, width: int) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(states, width), nn.Tanh(), nn.Linear(width, actions))
        self.critic = nn.Sequential(nn.Linear(states, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return log π(·|s), of shape (n, actions), and V(s), of shape (n)."""
        return self.actor(states).log_softmax(1), self.critic(states)[:, 0]

    def scores(self, states: Tensor) -> Tensor:
        """Return the score of each action, for `evaluate`."""
        return self.actor(states)


def train(
    env: str = "CartPole-v1", seed: int = 1, settings: Settings | None = None,
    report: Callable[[str], None] | None = None,
) -> ActorCritic:  # fmt: skip
    """Train an actor and a critic by A2C, and return them.

    Args:
        env: gymnasium's name of a game with a choice of actions.
        report: called with a line of text now and then.

    Raises: ArgumentError: the game is of another sort. MissingExtraError: gymnasium is missing.
    """
    chosen = settings or Settings()
    envs = make_envs(env, chosen.num_envs, seed)
    states, actions = check_spaces("a2c", envs)
    manual_seed(seed)
    agent = ActorCritic(states, actions, chosen.width)
    optimizer = optim.Adam(agent.parameters(), lr=chosen.lr)
    buffer = RolloutBuffer(chosen.num_steps, chosen.num_envs, (states,))
    updates = chosen.total_timesteps // (chosen.num_steps * chosen.num_envs)
    state, _ = envs.reset(seed=seed)
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = chosen.lr * (1 - update / updates)
        state = play(agent, envs, state, buffer, chosen.gamma)
        with no_grad():
            last_values = agent(from_numpy(state))[1]
        data = buffer.finish(last_values.numpy(), chosen.gamma, chosen.lam)
        log_probs, values = agent(data["states"])
        taken = log_probs.gather(1, data["actions"][:, None])[:, 0]
        entropy = -(log_probs.exp() * log_probs).sum(1).mean()
        critic_loss = ((values - data["returns"]) ** 2).mean()
        loss = -(taken * data["advantages"]).mean() + chosen.value * critic_loss
        loss = loss - chosen.entropy * entropy
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), chosen.max_grad_norm)
        optimizer.step()
        if report and update % (updates // 10 or 1) == 0:
            ends = max(float(data["dones"].sum()), 1.0)
            report(f"update {update}: {len(taken) / ends:.0f} steps per end of an episode")
    envs.close()
    return agent


def play(
    agent: ActorCritic, envs: Any, state: np.ndarray, buffer: RolloutBuffer, gamma: float
) -> np.ndarray:
    """Fill the buffer with steps of the policy, and return the states after them."""
    buffer.clear()
    while buffer.position < buffer.steps:
        with no_grad():
            log_probs, values = agent(from_numpy(state))
            action = multinomial(log_probs.exp(), 1)
        actions = action[:, 0].numpy()
        next_state, reward, terminated, truncated, infos = envs.step(actions)
        if truncated.any():  # cut off, not over: what would have come is added
            with no_grad():
                rest = agent(from_numpy(final_states(next_state, infos)))[1].numpy()
            reward = reward + gamma * rest * (truncated & ~terminated)
        buffer.add(
            states=state, actions=actions, log_probs=log_probs.gather(1, action)[:, 0].numpy(),
            values=values.numpy(), rewards=reward, dones=terminated | truncated,
        )  # fmt: skip
        state = next_state
    return np.asarray(state, np.float32)


if __name__ == "__main__":
    run_program(train, Settings)
