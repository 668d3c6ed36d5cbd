"""Where experience is kept: a ring of old steps (DQN), the last steps of a policy (A2C, PPO)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.tensor import Tensor
from ..errors import InvalidValueError, ShapeError
from ..ops import from_numpy
from .returns import gae


class Transitions(NamedTuple):
    """Steps as tensors: state, action, reward, next state, and whether the episode ended there."""

    states: Tensor
    actions: Tensor
    rewards: Tensor
    next_states: Tensor
    terminated: Tensor


class ReplayBuffer:
    """The last steps of any policy, from which batches are drawn at random.

    Steps that follow one another resemble each other; a random batch does not.

    Args:
        capacity: so many steps are kept; then the oldest are overwritten.
        observation_shape: the shape of a state.
        seed: of the draws.

    Raises: InvalidValueError: a capacity below 1, or a sample from an empty buffer.

    >>> buffer = rl.ReplayBuffer(100, (4,))
    >>> buffer.add(zeros(2, 4), [0, 1], [1.0, 1.0], ones(2, 4), [False, True])
    >>> len(buffer), buffer.sample(3).states.shape
    (2, torch.Size([3, 4]))
    """

    def __init__(self, capacity: int, observation_shape: Sequence[int], seed: int = 0) -> None:
        if capacity < 1:
            raise InvalidValueError(
                "ReplayBuffer", "capacity must be positive", {"capacity": capacity}
            )
        self.capacity, self.count = capacity, 0
        self.generator = np.random.default_rng(seed)
        states = (capacity, *observation_shape)
        self.columns = (
            np.zeros(states, np.float32), np.zeros(capacity, np.int64),
            np.zeros(capacity, np.float32), np.zeros(states, np.float32),
            np.zeros(capacity, np.float32),
        )  # fmt: skip

    def __len__(self) -> int:
        return min(self.count, self.capacity)

    def add(
        self, states: Any, actions: Any, rewards: Any, next_states: Any, terminated: Any
    ) -> None:
        """Add one step of each of several environments, of shape (environments, …).

        Raises: ShapeError: there are not equally many of all, or states of another shape.
        """
        arrays = [np.asarray(x) for x in (states, actions, rewards, next_states, terminated)]
        count = len(arrays[0])
        for array, column in zip(arrays, self.columns, strict=True):
            if array.shape != (count, *column.shape[1:]):
                raise ShapeError(
                    "ReplayBuffer.add", "expected a step of each environment",
                    {"expected": (count, *column.shape[1:]), "got": array.shape},
                )  # fmt: skip
        rows = (self.count + np.arange(count)) % self.capacity
        for column, array in zip(self.columns, arrays, strict=True):
            column[rows] = array
        self.count += count

    def sample(self, batch_size: int) -> Transitions:
        """Return steps drawn at random, with replacement."""
        if not self.count:
            raise InvalidValueError("ReplayBuffer.sample", "the buffer is empty: add steps first")
        rows = self.generator.integers(0, len(self), batch_size)
        return Transitions(*(from_numpy(column[rows]) for column in self.columns))


class RolloutBuffer:
    """The steps of one policy in several environments at once, in order.

    Args:
        steps: so many steps of each environment.
        envs: the number of environments.
        observation_shape: the shape of a state.

    Attributes:
        columns: states, actions, log probabilities, values, rewards and ends, (steps, envs, …).
    """

    def __init__(self, steps: int, envs: int, observation_shape: Sequence[int]) -> None:
        self.steps, self.envs, self.position = steps, envs, 0
        self.columns = {
            "states": np.zeros((steps, envs, *observation_shape), np.float32),
            "actions": np.zeros((steps, envs), np.int64),
        }
        for name in ("log_probs", "values", "rewards", "dones"):
            self.columns[name] = np.zeros((steps, envs), np.float32)

    def add(self, **step: Any) -> None:
        """Add one step of all environments: each column by its name.

        Raises: ShapeError: the buffer is full. InvalidValueError: a column is missing or unknown.
        """
        if self.position == self.steps:
            raise ShapeError(
                "RolloutBuffer.add", f"the buffer has room for {self.steps} steps, and is full",
                hint="call clear() after an update",
            )  # fmt: skip
        if step.keys() != self.columns.keys():
            raise InvalidValueError(
                "RolloutBuffer.add", f"expected the columns {', '.join(self.columns)}",
                {"got": ", ".join(step)},
            )  # fmt: skip
        for name, values in step.items():
            self.columns[name][self.position] = values
        self.position += 1

    def clear(self) -> None:
        """Begin anew."""
        self.position = 0

    def finish(self, last_values: Any, gamma: float, lam: float) -> dict[str, Tensor]:
        """Return all steps as tensors of shape (steps · envs, …), with advantages and returns.

        Args:
            last_values: the critic's values of the states after the last step, of shape (envs).

        Raises: ShapeError: the buffer is not full yet.
        """
        if self.position < self.steps:
            raise ShapeError(
                "RolloutBuffer.finish", f"{self.position} of {self.steps} steps have been added"
            )
        values = np.concatenate([self.columns["values"], np.asarray(last_values)[None]])
        advantages = gae(self.columns["rewards"], values, self.columns["dones"], gamma, lam)
        columns = {
            **self.columns, "advantages": advantages, "returns": advantages + self.columns["values"]
        }  # fmt: skip
        return {
            name: from_numpy(column.reshape(-1, *column.shape[2:]).copy())
            for name, column in columns.items()
        }


def minibatches(
    data: dict[str, Tensor], batch_size: int, generator: np.random.Generator
) -> Iterator[dict[str, Tensor]]:
    """Yield all steps once, in random batches of this size (the last may be smaller)."""
    order = generator.permutation(len(data["states"]))
    for start in range(0, len(order), batch_size):
        rows = from_numpy(order[start : start + batch_size])
        yield {name: column[rows] for name, column in data.items()}
