"""MLP-Mixer, eight layers: Tolstikhin et al. 2021, https://arxiv.org/abs/2105.01601."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class MlpBlock(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class MixerBlock(nn.Module):
    def __init__(self, tokens, channels):
        super().__init__()
        self.norm1, self.token_mixing = nn.LayerNorm(channels), MlpBlock(tokens, 2 * tokens)
        self.norm2, self.channel_mixing = nn.LayerNorm(channels), MlpBlock(channels, 2 * channels)

    def forward(self, x):
        y = self.token_mixing(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + y
        return x + self.channel_mixing(self.norm2(x))


class MlpMixer(nn.Module):
    def __init__(self, channels=4, depth=8, num_classes=5):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 4, stride=4)
        self.blocks = nn.Sequential(*[MixerBlock(4, channels) for _ in range(depth)])
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, num_classes)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(dim=1))


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = MlpMixer()
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    x, y = torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
