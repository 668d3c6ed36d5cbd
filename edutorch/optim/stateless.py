"""An optimizer's step as a function of parameters and state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.tensor import Tensor
from .optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Swap parameters, state and settings of an optimizer inside a `with` block.

    Args:
        optimizer: an optimizer that has made a step.
        swapin_parameters: other parameters by name, in the order of the optimizer's own.
        swapin_optim_state: a state_dict for them. Its tensors are changed in place by a step.

    Raises: RuntimeError: they do not fit the optimizer.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optimizer = optim.Adam([x], lr=0.1)
    >>> optimizer.step()
    >>> other = tensor(5.0, requires_grad=True)
    >>> other.square().backward()
    >>> state = optimizer.state_dict()
    >>> with optim.swap_in_optimizer_params_and_state(optimizer, {"other": other}, state):
    ...     optimizer.step()
    >>> x, other
    (tensor(0.9000, requires_grad=True), tensor(4.9139, requires_grad=True))
    """
    groups = check_fits(optimizer, swapin_parameters, swapin_optim_state)
    original_groups = [dict(group) for group in optimizer.param_groups]
    original_state = optimizer.state
    params = iter(swapin_parameters.values())
    state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
    try:
        for live, group in zip(optimizer.param_groups, groups, strict=True):
            group_params = [next(params) for _ in group["params"]]
            live.update({**group, "params": group_params})
            for param, number in zip(group_params, group["params"], strict=True):
                state[param] = dict(swapin_optim_state["state"].get(number, {}))
        optimizer.state = state
        yield
    finally:
        for live, original in zip(optimizer.param_groups, original_groups, strict=True):
            live.clear()
            live.update(original)
        optimizer.state = original_state


def check_fits(optimizer: Optimizer, params: dict[str, Tensor], state: Any) -> list[dict[str, Any]]:
    """Return the groups of a state_dict, after checking that it fits the optimizer."""

    def require(condition: bool, text: str) -> None:
        if not condition:
            raise RuntimeError(f"swap_in_optimizer_params_and_state requires {text}")

    require(bool(optimizer.state), "initialized optimizer state: make a step first")
    require(
        isinstance(state, dict) and {"state", "param_groups"} <= set(state),
        "an optimizer state_dict: a dict with 'state' and 'param_groups'",
    )
    groups, live = state["param_groups"], optimizer.param_groups
    require(len(groups) == len(live), f"{len(live)} parameter groups, got {len(groups)}")
    for number, (group, own) in enumerate(zip(groups, live, strict=True)):
        require(set(group) == set(own), f"the live optimizer's settings in group {number}")
        require(
            len(group["params"]) == len(own["params"]),
            f"{len(own['params'])} params in group {number}, got {len(group['params'])}",
        )
    indices = {number for group in groups for number in group["params"]}
    require(len(params) >= len(indices), f"{len(indices)} parameters, got {len(params)}")
    extra = sorted(set(state["state"]) - indices, key=str)
    require(not extra, f"a state keyed only by the numbers of parameters, got {extra}")
    return groups
