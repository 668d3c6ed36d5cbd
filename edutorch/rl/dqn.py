"""DQN, deep Q-learning: learn what each action is worth, from any steps, also old ones.

    target = (1 - γ) · r + γ · max Q_old(s', ·) · (1 - d)
    loss = mean((Q(s, a) - target)²)

The factor 1 - γ changes no choice: with it Q is an average of the rewards to come, and of their
size, in place of a sum that is a hundred times as large, which a fresh network is far away from.

A round plays some steps, and then learns from steps that are drawn from all that were kept. Q_old
is the network before the round: a target that moved with every update would be chased in vain.
With a probability ε, which decreases, an action is tried at random. A network that plays well may
play badly after the next round: so now and then it is examined, and the best one is returned.

Paper: Mnih et al., Human-level control through deep reinforcement learning, 2015.

    python -m edutorch.rl.dqn --env CartPole-v1 --seed 1
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import nn, optim
from ..core.tensor import Tensor
from ..modes import no_grad
from ..nn import functional as F
from ..ops import from_numpy
from ..random import manual_seed
from .buffers import ReplayBuffer, Transitions
from .environments import check_spaces, evaluate, final_states, make_envs, run_program


class Settings(NamedTuple):
    """The settings of the algorithm."""

    total_timesteps: int = 50_000
    num_envs: int = 16
    steps_per_round: int = 50  # of each environment
    updates_per_round: int = 50
    learning_starts: int = 1_000  # steps before the first update
    capacity: int = 100_000
    batch_size: int = 256
    lr: float = 1e-3  # decreases to 0
    gamma: float = 0.98
    explore_until: float = 0.12  # of all rounds: then ε has decreased from 1 to
    epsilon: float = 0.04
    examine_every: int = 2  # rounds
    width: int = 64


class QNetwork(nn.Module):
    """What each action is worth in a state."""

    def __init__(self, states: int, actions: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(states, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, actions),
        )  # fmt: skip

    def forward(self, states: Tensor) -> Tensor:
        return self.layers(states)

    def scores(self, states: Tensor) -> Tensor:
        """Return the score of each action, for `evaluate`."""
        return self(states)


def q_loss(network: QNetwork, target: QNetwork, batch: Transitions, gamma: float) -> Tensor:
    """Return the loss of a batch of steps."""
    with no_grad():
        future = target(batch.next_states).max(1).values
        wanted = (1 - gamma) * batch.rewards + gamma * future * (1 - batch.terminated)
    worth = network(batch.states).gather(1, batch.actions[:, None])[:, 0]
    return F.mse_loss(worth, wanted)


class Player:
    """Plays in all environments, and keeps the steps.

    Args:
        envs: a vector environment.
        buffer: where the steps are kept.
        seed: of the actions that are tried at random.
    """

    def __init__(self, envs: Any, buffer: ReplayBuffer, seed: int) -> None:
        self.envs, self.buffer = envs, buffer
        self.generator = np.random.default_rng(seed)
        self.state, _ = envs.reset(seed=seed)

    def play(self, network: QNetwork, epsilon: float, steps: int) -> None:
        """Play so many steps, an action at random with a probability ε."""
        count = self.envs.num_envs
        for _ in range(steps):
            with no_grad():
                action = network(from_numpy(self.state)).argmax(1).numpy()
            is_trial = self.generator.random(count) < epsilon
            trials = self.generator.integers(0, self.envs.single_action_space.n, count)
            action = np.where(is_trial, trials, action)
            state, reward, terminated, _, infos = self.envs.step(action)
            ends = final_states(state, infos)
            self.buffer.add(self.state, action, reward, ends, terminated)
            self.state = state


def train(
    env: str = "CartPole-v1", seed: int = 1, settings: Settings | None = None,
    report: Callable[[str], None] | None = None,
) -> QNetwork:  # fmt: skip
    """Train a network by DQN, and return it.

    Args:
        env: gymnasium's name of a game with a choice of actions.
        report: called with a line of text now and then.

    Raises: ArgumentError: the game is of another sort. MissingExtraError: gymnasium is missing.
    """
    chosen = settings or Settings()
    envs = make_envs(env, chosen.num_envs, seed)
    states, actions = check_spaces("dqn", envs)
    manual_seed(seed)
    network = QNetwork(states, actions, chosen.width)
    optimizer = optim.Adam(network.parameters(), lr=chosen.lr)
    buffer = ReplayBuffer(chosen.capacity, (states,), seed)
    player = Player(envs, buffer, seed)
    rounds = chosen.total_timesteps // (chosen.steps_per_round * chosen.num_envs)
    best_reward, best = -np.inf, network
    for index in range(rounds):
        epsilon = max(chosen.epsilon, 1 - index / (chosen.explore_until * rounds))
        player.play(network, epsilon, chosen.steps_per_round)
        if len(buffer) >= chosen.learning_starts:
            target = copy.deepcopy(network)
            optimizer.param_groups[0]["lr"] = chosen.lr * (1 - index / rounds)
            for _ in range(chosen.updates_per_round):
                loss = q_loss(network, target, buffer.sample(chosen.batch_size), chosen.gamma)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 10.0)
                optimizer.step()
        if (index + 1) % chosen.examine_every == 0 or index + 1 == rounds:
            reward = float(np.mean(evaluate(network.scores, env, episodes=10, seed=seed)))
            if reward >= best_reward:
                best_reward, best = reward, copy.deepcopy(network)
            if report:
                report(f"round {index + 1} of {rounds}: mean reward {reward:.1f}, ε {epsilon:.2f}")
    envs.close()
    return best


if __name__ == "__main__":
    run_program(train, Settings)
