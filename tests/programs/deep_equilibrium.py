"""A deep equilibrium layer, with its implicit gradient in a hook: https://arxiv.org/abs/1909.01377."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import autograd, nn, optim
from tests.programs import unwatched


class Cell(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, z, x):
        return self.norm(torch.tanh(self.linear2(F.relu(self.linear1(z)) + x)))


def solve(f, z, max_iter=6):
    for _ in range(max_iter):
        z = f(z)
    return z


class DEQFixedPoint(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        with torch.no_grad():
            z = solve(lambda z: self.f(z, x), torch.zeros_like(x))
        z = self.f(z, x)
        z0 = z.clone().detach().requires_grad_()
        f0 = self.f(z0, x)

        def backward_hook(grad):
            return solve(lambda y: autograd.grad(f0, z0, y, retain_graph=True)[0] + grad, grad, 3)

        z.register_hook(backward_hook)
        return z


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), DEQFixedPoint(Cell()), nn.Linear(4, 2))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.randn(6, 3), torch.randint(0, 2, (6,))
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
