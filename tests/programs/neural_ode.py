"""A neural ODE, by fixed steps of Euler: Chen et al. 2018, https://arxiv.org/abs/1806.07366."""

from itertools import pairwise

import edutorch as torch
from edutorch import nn, optim
from tests.programs import unwatched


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, t, y):
        return self.net(y**3)


def odeint(func, y0, t):
    solution = [y0]
    for t0, t1 in pairwise(t):
        solution.append(solution[-1] + (t1 - t0) * func(t0, solution[-1]))
    return torch.stack(solution)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    true_A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    t = torch.linspace(0.0, 1.0, 16)
    y0 = torch.tensor([[0.9, 0.1]])
    with torch.no_grad():
        true_y = odeint(lambda t, y: torch.mm(y**3, true_A), y0, t)
    func = ODEFunc()
    optimizer = optim.RMSprop(func.parameters(), lr=1e-3)
    with watch(func):
        for _ in range(steps):
            optimizer.zero_grad()
            pred_y = odeint(func, y0, t)
            loss = torch.mean(torch.abs(pred_y - true_y))
            loss.backward()
            optimizer.step()
