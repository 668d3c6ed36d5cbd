"""Capsules with dynamic routing: Sabour et al. 2017, https://arxiv.org/abs/1710.09829."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


def squash(s, dim=-1):
    squared_norm = (s**2).sum(dim=dim, keepdim=True)
    return squared_norm / (1 + squared_norm) * s / (torch.sqrt(squared_norm) + 1e-8)


class PrimaryCapsules(nn.Module):
    def __init__(self, in_channels, num_caps, dim):
        super().__init__()
        self.dim = dim
        self.conv = nn.Conv2d(in_channels, num_caps * dim, 3, stride=2)

    def forward(self, x):
        u = self.conv(x)
        return squash(u.view(u.size(0), -1, self.dim))


class DigitCapsules(nn.Module):
    def __init__(self, in_caps, in_dim, num_caps, dim, routings=3):
        super().__init__()
        self.routings = routings
        self.W = nn.Parameter(0.1 * torch.randn(1, num_caps, in_caps, dim, in_dim))

    def forward(self, x):
        u_hat = torch.matmul(self.W, x.unsqueeze(1).unsqueeze(4)).squeeze(-1)
        temp_u_hat = u_hat.detach()
        b = torch.zeros(*u_hat.shape[:3], 1)
        for _ in range(self.routings - 1):
            c = b.softmax(dim=1)
            v = squash((c * temp_u_hat).sum(dim=2))
            b += torch.matmul(temp_u_hat, v.unsqueeze(-1))
        c = b.softmax(dim=1)
        return squash((c * u_hat).sum(dim=2))


class CapsNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.relu = nn.ReLU(inplace=True)
        self.primary_caps = PrimaryCapsules(4, 2, 3)
        self.digit_caps = DigitCapsules(8, 3, 4, 4)

    def forward(self, x):
        return self.digit_caps(self.primary_caps(self.relu(self.conv(x)))).norm(dim=-1)


def margin_loss(lengths, labels):
    left = F.relu(0.9 - lengths) ** 2
    right = F.relu(lengths - 0.1) ** 2
    return (labels * left + 0.5 * (1 - labels) * right).sum(dim=1).mean()


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = CapsNet()
    optimizer = optim.Adam(model.parameters())
    images, labels = torch.rand(3, 1, 8, 8), torch.eye(4).index_select(0, torch.tensor([0, 3, 1]))
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = margin_loss(model(images), labels)
            loss.backward()
            optimizer.step()
