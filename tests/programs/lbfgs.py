"""A small net fitted by L-BFGS, whose closure runs several times per step: Liu and Nocedal 1989."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 12).unsqueeze(1)
    y = torch.sin(3 * x)
    model = nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 1))
    optimizer = optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
    with watch(model):
        for _ in range(steps):

            def closure():
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                loss.backward()
                return loss

            optimizer.step(closure)
