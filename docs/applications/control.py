"""Control: a cart balances a pole, and brings it back to the middle of the track.

The physics is differentiable: where the cart is after three seconds is a function of the
controller's weights, and the gradient goes back through all 150 steps. The equations are those of
gymnasium's CartPole-v1; the force may have any strength up to its 10 N, and the poles begin up to
30° away from upright. Without a model of the physics one learns from rewards:
`python -m edutorch.rl.ppo`.

Papers: Barto, Sutton and Anderson, Neuronlike adaptive elements, 1983,
    https://doi.org/10.1109/TSMC.1983.6313077 (the cart); Nguyen and Widrow, Neural networks for
    self-learning control systems, 1990, https://doi.org/10.1109/37.55119 (the gradient).

    python -m edutorch run docs/applications/control.py
"""

import math

import torch
from torch import nn

GRAVITY, CART, POLE, HALF_LENGTH = 9.8, 1.0, 0.1, 0.5  # m/s², kg, kg, m
STRONGEST, SECONDS, STEPS = 10.0, 0.02, 150  # N, of a step, of an episode


class Controller(nn.Module):
    """The force on the cart for a state: position, speed, angle, speed of the angle.

    Shape: (batch, 4) → (batch).
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        return STRONGEST * torch.tanh(self.layers(state))[:, 0]


def move(state: torch.Tensor, force: torch.Tensor) -> torch.Tensor:
    """Return the state (batch, 4) 0.02 seconds later; at an angle of 0 the pole is upright."""
    _, speed, angle, turning = state.unbind(1)
    sine, cosine, total = angle.sin(), angle.cos(), CART + POLE
    pushed = (force + POLE * HALF_LENGTH * turning**2 * sine) / total
    inertia = HALF_LENGTH * (4 / 3 - POLE * cosine**2 / total)
    falling = (GRAVITY * sine - cosine * pushed) / inertia
    acceleration = pushed - POLE * HALF_LENGTH * falling * cosine / total
    return state + SECONDS * torch.stack([speed, acceleration, turning, falling], 1)


def simulate(controller: nn.Module, state: torch.Tensor, steps: int) -> torch.Tensor:
    """Return the states (steps, batch, 4) under a controller."""
    states = []
    for _ in range(steps):
        state = move(state, controller(state))
        states.append(state)
    return torch.stack(states)


def random_start(count: int) -> torch.Tensor:
    """Return states: up to 1 m away from the middle, 30° from upright, and at rest."""
    states = torch.zeros(count, 4)
    states[:, 0] = torch.rand(count) * 2 - 1
    states[:, 2] = (torch.rand(count) * 2 - 1) * math.radians(30)
    return states


def control_loss(states: torch.Tensor) -> torch.Tensor:
    """Return how far the cart is from the middle, and the pole from upright, on average."""
    position, _, angle, _ = states.unbind(2)
    # Where a pole has fallen, a bounded loss keeps it from drowning all others.
    return (1 - angle.cos()).mean() + 0.1 * (position**2 / (1 + position**2)).mean()


def main() -> None:
    torch.manual_seed(0)
    controller, updates = Controller(), 150
    optimizer = torch.optim.Adam(controller.parameters(), lr=2e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    for update in range(updates):
        # It learns to save the pole first: a long fall only hides what was wrong at its start.
        steps = min(STEPS, 25 + STEPS * update // updates)
        loss = control_loss(simulate(controller, random_start(64), steps))
        optimizer.zero_grad()
        loss.backward()
        # Through many steps of physics, a gradient can be huge.
        nn.utils.clip_grad_norm_(controller.parameters(), 0.1)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        position, _, angle, _ = simulate(controller, random_start(500), STEPS)[-25:].unbind(2)
    is_held = (angle.abs() < math.radians(5)) & (position.abs() < 0.3)
    held = is_held.all(0).float().mean().item()
    print(f"control: {held:.1%} of 500 poles are upright, in the middle, after 2.5 seconds")


if __name__ == "__main__":
    main()
