"""Gradient checkpointing of residual blocks: Chen et al. 2016, https://arxiv.org/abs/1604.06174."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from edutorch.utils.checkpoint import checkpoint
from tests.programs import unwatched


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class Net(nn.Module):
    def __init__(self, dim=4, depth=4):
        super().__init__()
        self.embed = nn.Linear(3, dim)
        self.blocks = nn.ModuleList([Block(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, 2)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.randn(5, 3), torch.randint(0, 2, (5,))
    with watch(net):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
