"""Sparse and dense parameters under an optimizer each: Wide & Deep, https://arxiv.org/abs/1606.07792."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class WideAndDeep(nn.Module):
    def __init__(self, fields=(5, 7), dim=3, dense=4):
        super().__init__()
        self.wide = nn.Linear(dense, 1)
        self.embeddings = nn.ModuleList([nn.Embedding(n, dim) for n in fields])
        self.deep = nn.Sequential(
            nn.Linear(dim * len(fields) + dense, 8), nn.ReLU(), nn.Dropout(0.2),
            nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1),
        )  # fmt: skip

    def forward(self, categories, features):
        embedded = [table(categories[:, i]) for i, table in enumerate(self.embeddings)]
        deep = self.deep(torch.cat([*embedded, features], dim=1))
        return (self.wide(features) + deep).squeeze(1)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = WideAndDeep()
    wide_optimizer = optim.SGD(model.wide.parameters(), lr=0.01)
    table_optimizer = optim.Adagrad(model.embeddings.parameters(), lr=0.05)
    deep_optimizer = optim.Adam(model.deep.parameters(), lr=0.001)
    optimizers = [wide_optimizer, table_optimizer, deep_optimizer]
    categories = torch.stack([torch.randint(0, 5, (6,)), torch.randint(0, 7, (6,))], dim=1)
    features, clicks = torch.randn(6, 4), torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
    with watch(model):
        for _ in range(steps):
            for optimizer in optimizers:
                optimizer.zero_grad()
            logits = model(categories, features)
            loss = F.binary_cross_entropy_with_logits(logits, clicks)
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
