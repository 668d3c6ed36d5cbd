"""A physics-informed net for Burgers' equation: Raissi et al. 2017, https://arxiv.org/abs/1711.10561."""

import math
from itertools import pairwise

import edutorch as torch
from edutorch import autograd, nn, optim
from tests.programs import unwatched


class PINN(nn.Module):
    def __init__(self, hidden=6, layers=3):
        super().__init__()
        sizes = [2] + [hidden] * layers
        parts = []
        for a, b in pairwise(sizes):
            parts += [nn.Linear(a, b), nn.Tanh()]
        self.net = nn.Sequential(*parts, nn.Linear(hidden, 1))

    def forward(self, x, t):
        return self.net(torch.cat([x, t], dim=1))

    def residual(self, x, t, nu=0.01 / math.pi):
        u = self(x, t)
        ones = torch.ones_like(u)
        u_x, u_t = autograd.grad(u, (x, t), ones, create_graph=True)
        u_xx = autograd.grad(u_x, x, ones, create_graph=True)[0]
        return u_t + u * u_x - nu * u_xx


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = PINN()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    x = (torch.rand(8, 1) * 2 - 1).requires_grad_()
    t = torch.rand(8, 1, requires_grad=True)
    x0 = torch.rand(6, 1) * 2 - 1
    u0 = -torch.sin(math.pi * x0)
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            loss_u = torch.mean((model(x0, torch.zeros_like(x0)) - u0) ** 2)
            loss_f = torch.mean(model.residual(x, t) ** 2)
            loss = loss_u + loss_f
            loss.backward()
            optimizer.step()
