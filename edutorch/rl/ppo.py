"""PPO, proximal policy optimization: learn several times from the same steps, in small changes.

    r = π(a|s) / π_old(a|s)
    loss = -mean(min(r · A, clip(r, 1 - ε, 1 + ε) · A)) + c · mean((V(s) - G)²) - e · mean(H(π))

Once the ratio r has left 1 ± ε in the direction that A asks for, its gradient is 0: the new policy
stays near the one that played.

Paper: Schulman et al., Proximal policy optimization algorithms, 2017.

    python -m edutorch.rl.ppo --env CartPole-v1 --seed 1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .. import nn, optim
from ..core.tensor import Tensor
from ..modes import no_grad
from ..ops import clamp, from_numpy, minimum
from ..random import manual_seed
from .a2c import ActorCritic, play
from .buffers import RolloutBuffer, minibatches
from .environments import check_spaces, make_envs, run_program


class Settings(NamedTuple):
    """The settings of the algorithm."""

    total_timesteps: int = 100_000
    num_envs: int = 8
    num_steps: int = 64  # of each environment between two updates
    epochs: int = 10  # over these steps
    batch_size: int = 128
    lr: float = 1e-3  # decreases to 0
    gamma: float = 0.99
    lam: float = 0.9
    clip: float = 0.2
    entropy: float = 0.0
    value: float = 0.5
    max_grad_norm: float = 0.5
    width: int = 64


def ppo_loss(agent: ActorCritic, batch: dict[str, Tensor], settings: Settings) -> Tensor:
    """Return the loss of a batch of steps.

    Args:
        batch: states, actions, log_probs, advantages and returns.
    """
    log_probs, values = agent(batch["states"])
    taken = log_probs.gather(1, batch["actions"][:, None])[:, 0]
    ratio = (taken - batch["log_probs"]).exp()
    advantages = batch["advantages"]
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    clipped = clamp(ratio, 1 - settings.clip, 1 + settings.clip)
    policy_loss = -minimum(ratio * advantages, clipped * advantages).mean()
    critic_loss = ((values - batch["returns"]) ** 2).mean()
    loss = policy_loss + settings.value * critic_loss
    if settings.entropy:
        loss = loss + settings.entropy * (log_probs.exp() * log_probs).sum(1).mean()
    return loss


def train(
    env: str = "CartPole-v1", seed: int = 1, settings: Settings | None = None,
    report: Callable[[str], None] | None = None,
) -> ActorCritic:  # fmt: skip
    """Train an actor and a critic by PPO, and return them.

    Args:
        env: gymnasium's name of a game with a choice of actions.
        report: called with a line of text now and then.

    Raises: ArgumentError: the game is of another sort. MissingExtraError: gymnasium is missing.
    """
    chosen = settings or Settings()
    envs = make_envs(env, chosen.num_envs, seed)
    states, actions = check_spaces("ppo", envs)
    manual_seed(seed)
    generator = np.random.default_rng(seed)
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
        for _ in range(chosen.epochs):
            for batch in minibatches(data, chosen.batch_size, generator):
                loss = ppo_loss(agent, batch, chosen)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), chosen.max_grad_norm)
                optimizer.step()
        if report and update % (updates // 10 or 1) == 0:
            ends = max(float(data["dones"].sum()), 1.0)
            report(f"update {update}: {len(data['dones']) / ends:.0f} steps per end of an episode")
    envs.close()
    return agent


if __name__ == "__main__":
    run_program(train, Settings)
