"""DDPM, a small net that predicts the noise: Ho et al. 2020, https://arxiv.org/abs/2006.11239."""

import math

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class ResidualBlock(nn.Module):
    def __init__(self, channels, time_dim):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(2, channels), nn.GroupNorm(2, channels)
        self.time = nn.Linear(time_dim, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        h += self.time(F.silu(t))[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(h)))


class Denoiser(nn.Module):
    def __init__(self, channels=4, time_dim=8):
        super().__init__()
        self.time_dim = time_dim
        self.time_mlp = nn.Sequential(nn.Linear(time_dim, time_dim), nn.SiLU())
        self.inp = nn.Conv2d(1, channels, 3, padding=1)
        self.down = ResidualBlock(channels, time_dim)
        self.mid = ResidualBlock(channels, time_dim)
        self.up = ResidualBlock(channels, time_dim)
        self.merge = nn.Conv2d(2 * channels, channels, 1)
        self.out = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x, t):
        half = self.time_dim // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half) / (half - 1))
        args = t[:, None].float() * freqs[None]
        t = self.time_mlp(torch.cat([torch.sin(args), torch.cos(args)], dim=-1))
        skip = self.down(self.inp(x), t)
        h = self.mid(F.avg_pool2d(skip, 2), t)
        h = F.interpolate(h, scale_factor=2, mode="nearest")
        h = self.merge(torch.cat([h, skip], dim=1))
        return self.out(self.up(h, t))


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    timesteps = 20
    betas = torch.linspace(1e-4, 0.02, timesteps)
    alphas_cumprod = torch.cumprod(1 - betas, dim=0)
    model = Denoiser()
    optimizer = optim.AdamW(model.parameters(), lr=2e-4)
    x0 = torch.rand(3, 1, 8, 8) * 2 - 1
    with watch(model):
        for _ in range(steps):
            t = torch.randint(0, timesteps, (x0.shape[0],))
            noise = torch.randn_like(x0)
            a = alphas_cumprod[t].view(-1, 1, 1, 1)
            xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
            loss = F.mse_loss(model(xt, t), noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
