"""The games: gymnasium's environments, several at once, and how well a policy plays them."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ArgumentError, InvalidValueError, missing_extra
from ..modes import no_grad
from ..ops import from_numpy


def load_gymnasium() -> Any:
    """Return the module `gymnasium`.

    Raises: MissingExtraError: it is not installed.
    """
    try:
        return importlib.import_module("gymnasium")
    except ImportError:
        raise missing_extra("games", "edutorch.rl", "gymnasium is not installed") from None


def make_envs(env: str, count: int, seed: int | None = None, **options: Any) -> Any:
    """Make several copies of a game, which are played at once: a gymnasium vector environment.

    An episode that ends begins anew in the same step; its last state is `infos["final_obs"]`.

    Args:
        env: gymnasium's name of the game, such as "CartPole-v1".
        count: so many copies.
        seed: of their random numbers.
        options: further arguments of the game.

    Raises: MissingExtraError: gymnasium is not installed. InvalidValueError: there is no such game.
    """
    gymnasium = load_gymnasium()
    if count < 1:
        raise InvalidValueError("make_envs", "expected at least one environment", {"count": count})
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    try:
        envs = gymnasium.make_vec(
            env, num_envs=count, vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": mode}, **options,
        )  # fmt: skip
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise InvalidValueError(
            "make_envs", f"gymnasium cannot make {env!r}: {error}",
            hint="python -c 'import gymnasium; gymnasium.pprint_registry()' lists all games",
        ) from error  # fmt: skip
    envs.reset(seed=seed)
    envs.action_space.seed(seed)
    return envs


def check_spaces(algorithm: str, envs: Any) -> tuple[int, int]:
    """Return the number of a state's elements and of the actions.

    Raises: ArgumentError: actions or states are not what the algorithm is for.
    """
    spaces = load_gymnasium().spaces
    actions, states = envs.single_action_space, envs.single_observation_space
    if not isinstance(actions, spaces.Discrete):
        raise ArgumentError(
            algorithm, "expected a game with a choice of actions, not with continuous ones",
            {"action space": actions}, "it chooses among n actions, as in CartPole-v1",
        )  # fmt: skip
    if not isinstance(states, spaces.Box) or len(states.shape) != 1:
        raise ArgumentError(
            algorithm, "expected states that are vectors of floats", {"states": states},
            "wrap the game by gymnasium.wrappers.FlattenObservation",
        )  # fmt: skip
    return states.shape[0], int(actions.n)


def final_states(states: np.ndarray, infos: dict[str, Any]) -> np.ndarray:
    """Return the states that the last step led to, also where a new episode began after it."""
    if "final_obs" not in infos:
        return states
    states = states.copy()
    for index in np.flatnonzero(infos["_final_obs"]):
        states[index] = infos["final_obs"][index]
    return states


def evaluate(
    scores: Callable[[Any], Any], env: str, episodes: int = 20, seed: int = 1000
) -> list[float]:
    """Play episodes with the action of the largest score; return the sum of rewards of each.

    Args:
        scores: from states, (n, d), to a score of each action, (n, actions): a policy's
            logarithms of probabilities, or the values of DQN.

    Raises: MissingExtraError, InvalidValueError: as `make_envs`.
    """
    envs = make_envs(env, episodes, seed)
    states, _ = envs.reset(seed=seed)
    total, is_over = np.zeros(episodes), np.zeros(episodes, dtype=bool)
    while not is_over.all():
        with no_grad():
            actions = scores(from_numpy(np.asarray(states, np.float32))).argmax(1).numpy()
        states, rewards, terminated, truncated, _ = envs.step(actions)
        total += rewards * ~is_over
        is_over |= terminated | truncated
    envs.close()
    return total.tolist()


def run_program(
    train: Callable[..., Any], settings: Any, arguments: list[str] | None = None
) -> Any:
    """Train as a program: `--env`, `--seed` and the algorithm's settings; print how it plays."""
    parser = argparse.ArgumentParser(description=train.__doc__)
    parser.add_argument("--env", default="CartPole-v1", help="gymnasium's name of the game")
    parser.add_argument("--seed", type=int, default=1)
    for name, default in settings._field_defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    options = vars(parser.parse_args(arguments))
    env, seed = options.pop("env"), options.pop("seed")
    agent = train(env, seed, settings(**options), report=print)
    rewards = evaluate(agent.scores, env)
    print(f"{env}, seed {seed}: mean of {len(rewards)} greedy episodes {np.mean(rewards):.1f}")
    return agent
