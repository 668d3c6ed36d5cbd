"""Gradients gathered over four small batches before each update: https://arxiv.org/abs/1706.02677."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    accumulation_steps = 4
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    batches = [(torch.randn(2, 4), torch.randint(0, 3, (2,))) for _ in range(4 * steps)]
    with watch(model):
        optimizer.zero_grad()
        for i, (inputs, labels) in enumerate(batches):
            loss = F.cross_entropy(model(inputs), labels) / accumulation_steps
            loss.backward()
            if (i + 1) % accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
