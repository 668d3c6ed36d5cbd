"""A two-tower recommender, softmax over the batch: Yi et al. 2019, https://doi.org/10.1145/3298689.3346996."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class Tower(nn.Module):
    def __init__(self, ids, features, dim=4):
        super().__init__()
        self.table = nn.EmbeddingBag(ids, dim, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(dim + features, 6), nn.ReLU(), nn.Linear(6, dim))

    def forward(self, ids, features):
        x = torch.cat([self.table(ids), features], dim=-1)
        return F.normalize(self.mlp(x), dim=-1)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = Tower(9, 2), Tower(12, 3)
        self.logit_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, users, user_features, items, item_features):
        u = self.user(users, user_features)
        v = self.item(items, item_features)
        return self.logit_scale.exp() * u @ v.T


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = TwoTower()
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    users, items = torch.randint(0, 9, (5, 3)), torch.randint(0, 12, (5, 2))
    user_features, item_features = torch.randn(5, 2), torch.randn(5, 3)
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            logits = model(users, user_features, items, item_features)
            labels = torch.arange(len(logits))
            loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
            loss.backward()
            optimizer.step()
