"""A normalizing flow of coupling layers: Dinh et al. 2016, https://arxiv.org/abs/1605.08803."""

import edutorch as torch
from edutorch import nn, optim
from edutorch.distributions import Normal
from tests.programs import unwatched


class CouplingLayer(nn.Module):
    def __init__(self, mask, hidden=6):
        super().__init__()
        self.register_buffer("mask", mask)
        self.s = nn.Sequential(
            nn.Linear(2, hidden), nn.LeakyReLU(), nn.Linear(hidden, 2), nn.Tanh()
        )
        self.t = nn.Sequential(nn.Linear(2, hidden), nn.LeakyReLU(), nn.Linear(hidden, 2))

    def forward(self, x):
        kept = x * self.mask
        s = self.s(kept) * (1 - self.mask)
        t = self.t(kept) * (1 - self.mask)
        return kept + (1 - self.mask) * (x * torch.exp(s) + t), s.sum(dim=1)


class RealNVP(nn.Module):
    def __init__(self, layers=6):
        super().__init__()
        masks = [torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0])]
        self.layers = nn.ModuleList([CouplingLayer(masks[i % 2].clone()) for i in range(layers)])

    def log_prob(self, x):
        log_det = torch.zeros(x.shape[0])
        for layer in self.layers:
            x, ldj = layer(x)
            log_det += ldj
        prior = Normal(torch.zeros(2), torch.ones(2))
        return prior.log_prob(x).sum(dim=1) + log_det


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    flow = RealNVP()
    optimizer = optim.Adam(flow.parameters(), lr=1e-3)
    x = torch.randn(8, 2) * torch.tensor([1.0, 0.3]) + 0.5
    with watch(flow):
        for _ in range(steps):
            loss = -flow.log_prob(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
