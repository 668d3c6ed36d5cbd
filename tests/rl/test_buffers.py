"""Returns and buffers of reinforcement learning, against loops in float64."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import rl
from edutorch.errors import InvalidValueError, ShapeError
from edutorch.rl.buffers import minibatches


def advantages_by_sums(rewards, values, dones, gamma, lam):
    """Return Aₜ = Σₖ (γλ)ᵏ δₜ₊ₖ up to the end of the episode, term by term."""
    steps, envs = rewards.shape
    result = np.zeros((steps, envs))
    for env in range(envs):
        for start in range(steps):
            factor = 1.0
            for step in range(start, steps):
                alive = 1 - dones[step, env]
                delta = rewards[step, env] + gamma * values[step + 1, env] * alive
                result[start, env] += factor * (delta - values[step, env])
                if not alive:
                    break
                factor *= gamma * lam
    return result


@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.95), (0.9, 0.0), (1.0, 1.0)])
def test_gae(gamma, lam):
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(20, 3)), rng.normal(size=(21, 3))
    dones = (rng.random((20, 3)) < 0.2).astype(float)
    expected = advantages_by_sums(rewards, values, dones, gamma, lam)
    np.testing.assert_allclose(rl.gae(rewards, values, dones, gamma, lam), expected, atol=1e-12)
    tensors = [edutorch.tensor(x) for x in (rewards, values, dones)]
    result = rl.gae(*tensors, gamma, lam)
    assert isinstance(result, edutorch.Tensor)
    np.testing.assert_allclose(result, expected, atol=1e-12)
    flat = rl.gae(rewards[:, 0], values[:, 0], dones[:, 0] > 0, gamma, lam)
    np.testing.assert_allclose(flat, expected[:, 0], atol=1e-12)


def test_gae_refuses_other_shapes():
    with pytest.raises(ShapeError, match="a value for each step and one more"):
        rl.gae(np.zeros(3), np.zeros(3), np.zeros(3))
    with pytest.raises(ShapeError, match="dones"):
        rl.gae(np.zeros(3), np.zeros(4), np.zeros(2))


def test_discounted_returns():
    rewards = np.random.default_rng(0).normal(size=9)
    expected = [sum(0.9**k * r for k, r in enumerate(rewards[start:])) for start in range(9)]
    np.testing.assert_allclose(rl.discounted_returns(rewards, 0.9), expected, rtol=1e-6)


def fill(buffer, count, start=0):
    for step in range(start, start + count):
        states = np.full((2, 3), step)
        buffer.add(states, [step, -step], [step / 2] * 2, states + 1, [False, True])


def test_a_replay_buffer_keeps_the_last_steps():
    buffer = rl.ReplayBuffer(10, (3,), seed=0)
    fill(buffer, 3)
    assert len(buffer) == 6
    fill(buffer, 5, start=3)
    assert len(buffer) == 10
    batch = buffer.sample(200)
    assert batch.states.shape == (200, 3) and batch.actions.dtype is edutorch.int64
    assert sorted(set(batch.states[:, 0].tolist())) == [3, 4, 5, 6, 7]  # 8 steps of two, 10 kept
    np.testing.assert_allclose(batch.next_states, batch.states + 1)
    np.testing.assert_allclose(batch.rewards, batch.states[:, 0] / 2)
    np.testing.assert_allclose(batch.terminated, (batch.actions < 0).float())
    again = rl.ReplayBuffer(10, (3,), seed=0)
    fill(again, 8)
    buffer.generator = np.random.default_rng(0)
    assert again.sample(5).states.tolist() == buffer.sample(5).states.tolist()


def test_a_replay_buffer_refuses():
    with pytest.raises(InvalidValueError, match="positive"):
        rl.ReplayBuffer(0, (3,))
    buffer = rl.ReplayBuffer(10, (3,))
    with pytest.raises(InvalidValueError, match="empty"):
        buffer.sample(1)
    with pytest.raises(ShapeError, match="a step of each environment"):
        buffer.add(np.zeros((2, 4)), [0, 1], [0, 0], np.zeros((2, 4)), [0, 0])
    with pytest.raises(ShapeError, match="a step of each environment"):
        buffer.add(np.zeros((2, 3)), [0], [0, 0], np.zeros((2, 3)), [0, 0])
    assert len(buffer) == 0


def rollout(steps=4):
    buffer = rl.RolloutBuffer(steps, 2, (3,))
    for step in range(4):
        buffer.add(
            states=np.full((2, 3), step), actions=[step, step], log_probs=[0.0, 0.0],
            values=[0.5, 0.25], rewards=[1.0, 2.0], dones=[step == 1, False],
        )  # fmt: skip
    return buffer


def test_a_rollout_is_finished_with_advantages():
    buffer = rollout()
    data = buffer.finish([0.5, 0.25], 0.9, 0.8)
    rewards, dones = buffer.columns["rewards"], buffer.columns["dones"]
    values = np.concatenate([buffer.columns["values"], [[0.5, 0.25]]])
    expected = advantages_by_sums(rewards, values, dones, 0.9, 0.8)
    np.testing.assert_allclose(data["advantages"], expected.reshape(-1), rtol=1e-6)
    np.testing.assert_allclose(data["returns"], data["advantages"] + data["values"], rtol=1e-6)
    assert data["states"].shape == (8, 3)
    batches = list(minibatches(data, 3, np.random.default_rng(0)))
    assert [len(batch["actions"]) for batch in batches] == [3, 3, 2]
    seen = np.concatenate([batch["actions"].numpy() for batch in batches])
    assert sorted(seen) == [0, 0, 1, 1, 2, 2, 3, 3]
    buffer.clear()
    assert buffer.position == 0


def test_a_rollout_refuses():
    with pytest.raises(ShapeError, match="room for 4 steps, and is full"):
        rollout().add(states=0, actions=0, log_probs=0, values=0, rewards=0, dones=0)
    with pytest.raises(InvalidValueError, match="expected the columns states"):
        rl.RolloutBuffer(1, 1, (3,)).add(states=0)
    with pytest.raises(ShapeError, match="4 of 5 steps"):
        rollout(5).finish([0.0, 0.0], 0.9, 0.9)
