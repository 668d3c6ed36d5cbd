"""What `notebooks/20_reinforcement.ipynb` promises."""

from __future__ import annotations

from typing import Any

from tests.lessons.outputs import drawn_by_graphviz, ends_with_step, percent, pictures_of

PACKAGES = ["gymnasium"]
PROMISES = [
    r"exact: +\[-0\.444, -0\.111, 0\.556\]",
    r"goal in the last 100 episodes: (100|[89]\d) of 100",
    r"largest difference to gymnasium: [1-9]e-(0[6-9]|[1-9]\d)",
]


def check(cell_outputs: list[Any]) -> None:
    """The pole stands for 500 steps; a baseline makes the gradient less noisy."""
    assert drawn_by_graphviz(cell_outputs) == 5, "two losses, two advantages, and a live view"
    assert ends_with_step(cell_outputs, 60)
    assert "mse_loss" in pictures_of(cell_outputs)[-1]
    assert percent(r"20 greedy episodes: mean ([\d.]+)", cell_outputs) >= 475
    assert percent(r"20 greedy ones have a mean length of ([\d.]+)", cell_outputs) >= 100
    plain = percent(r"baseline +0\.0: .* deviation ([\d.]+)", cell_outputs)
    assert percent(r"baseline +12\.3: .* deviation ([\d.]+)", cell_outputs) < plain / 5


STRICT = """
agent = ActorCritic(width=8).to(device)
states = torch.randn(6, 4, device=device)
actions = torch.randint(0, 2, (6,), device=device)
returns = torch.randn(6, device=device)
log_chances, value = agent(states)
actor_loss(agent, states, actions, returns, is_cut=True).backward()
assert agent.value[0].weight.grad is None and agent.policy[0].weight.grad.isfinite().all()
F.mse_loss(agent(states)[1], returns).backward()
assert agent.value[0].weight.grad.isfinite().all()

network, frozen = QNetwork(width=8).to(device), QNetwork(width=8).to(device)
q_loss(network, frozen, states, actions, returns, states + 1, torch.zeros_like(returns)).backward()
assert all(parameter.grad.isfinite().all() for parameter in network.parameters())
assert all(parameter.grad is None for parameter in frozen.parameters())
"""
