"""DQN, deep Q-learning: learn what each action is worth, from any steps, also old ones.

    target = r + γ · max Q_old(s', ·) · (1 - d)
    loss = mean((Q(s, a) - target)²)

Steps are kept in a buffer and drawn at random. Q_old is a copy of the network that is renewed now
and then: a target that moved with every update would be chased in vain. With a probability ε,
which decreases, an action is tried at random. A network that plays well may play badly after a
hundred updates more: so now and then it is examined, and the best one is returned.

Paper: Mnih et al., Human-level control through deep reinforcement learning, 2015. The action of
    the target is chosen by Q itself: van Hasselt et al., Double Q-learning, 2016.

    python -m edutorch.rl.dqn --env CartPole-v1 --seed 1
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

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

    total_timesteps: int = 80_000
    num_envs: int = 16
    learning_starts: int = 1_000  # steps before the first update
    updates_per_step: int = 1  # after each step of all environments
    renew_every: int = 50  # updates, then the target network is renewed
    capacity: int = 20_000
    batch_size: int = 256
    lr: float = 1e-3  # decreases to 0
    gamma: float = 0.99
    explore_until: float = 0.15  # of all steps: then ε has decreased from 1 to
    epsilon: float = 0.04
    examinations: int = 20
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
        best = network(batch.next_states).argmax(1)[:, None]
        future = target(batch.next_states).gather(1, best)[:, 0]
        wanted = batch.rewards + gamma * future * (1 - batch.terminated)
    worth = network(batch.states).gather(1, batch.actions[:, None])[:, 0]
    return F.mse_loss(worth, wanted)


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
    generator = np.random.default_rng(seed)
    network = QNetwork(states, actions, chosen.width)
    target = copy.deepcopy(network)
    optimizer = optim.Adam(network.parameters(), lr=chosen.lr)
    buffer = ReplayBuffer(chosen.capacity, (states,), seed)
    state, _ = envs.reset(seed=seed)
    updates, steps = 0, chosen.total_timesteps // chosen.num_envs
    best_reward, best = -np.inf, network.state_dict()
    for step in range(steps):
        epsilon = max(chosen.epsilon, 1 - step / (chosen.explore_until * steps))
        with no_grad():
            greedy = network(from_numpy(state)).argmax(1).numpy()
        tried = generator.integers(0, actions, chosen.num_envs)
        action = np.where(generator.random(chosen.num_envs) < epsilon, tried, greedy)
        next_state, reward, terminated, _, infos = envs.step(action)
        buffer.add(state, action, reward, final_states(next_state, infos), terminated)
        state = next_state
        if len(buffer) < chosen.learning_starts:
            continue
        optimizer.param_groups[0]["lr"] = chosen.lr * (1 - step / steps)
        for _ in range(chosen.updates_per_step):
            if updates % chosen.renew_every == 0:
                target.load_state_dict(network.state_dict())
            loss = q_loss(network, target, buffer.sample(chosen.batch_size), chosen.gamma)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 10.0)
            optimizer.step()
            updates += 1
        if (step + 1) % max(steps // chosen.examinations, 1) == 0:
            reward = float(np.mean(evaluate(network.scores, env, episodes=10, seed=seed)))
            if reward >= best_reward:
                best_reward, best = reward, copy.deepcopy(network.state_dict())
            if report:
                report(f"step {(step + 1) * chosen.num_envs}: mean reward {reward:.1f}")
    envs.close()
    network.load_state_dict(best)
    return network


if __name__ == "__main__":
    run_program(train, Settings)
