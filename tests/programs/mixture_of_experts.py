"""Sparsely gated experts, the best two of four: Shazeer et al. 2017, https://arxiv.org/abs/1701.06538."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class MoE(nn.Module):
    def __init__(self, dim=4, num_experts=4, k=2):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.experts = nn.ModuleList([
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(inplace=True), nn.Linear(2 * dim, dim))
            for _ in range(num_experts)
        ])  # fmt: skip

    def forward(self, x):
        weights, chosen = torch.topk(self.gate(x), self.k)
        weights = F.softmax(weights, dim=1)
        results = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows, nth = torch.where(chosen == i)
            results[rows] += weights[rows, nth, None] * expert(x[rows])
        return results


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), MoE(), nn.Linear(4, 2))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.randn(16, 3), torch.randint(0, 2, (16,))
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
