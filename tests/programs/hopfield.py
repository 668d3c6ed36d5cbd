"""A Hopfield retrieval loop over learned patterns: Ramsauer et al. 2020, https://arxiv.org/abs/2008.02217."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class Hopfield(nn.Module):
    def __init__(self, patterns=6, dim=4, beta=2.0, updates=5):
        super().__init__()
        self.patterns = nn.Parameter(torch.randn(patterns, dim))
        self.beta, self.updates = beta, updates

    def forward(self, state):
        for _ in range(self.updates):
            attention = torch.softmax(self.beta * state @ self.patterns.T, dim=-1)
            state = attention @ self.patterns
        return state


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    memory = Hopfield()
    optimizer = optim.Adam(memory.parameters(), lr=0.01)
    clean = torch.randn(5, 4)
    with watch(memory):
        for _ in range(steps):
            mask = (torch.rand_like(clean) > 0.5).float()
            optimizer.zero_grad()
            loss = F.mse_loss(memory(clean * mask), clean)
            loss.backward()
            optimizer.step()
