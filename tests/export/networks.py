"""Small networks of every sort that is exported, each with an input and its dynamic axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import edutorch as torch
from edutorch import nn
from edutorch.export import Dim
from edutorch.nn import functional as F


class Network(NamedTuple):
    """A module in evaluation mode, example arguments, and the axes that are dynamic."""

    module: nn.Module
    args: tuple[Any, ...]
    shapes: tuple[Any, ...]


BATCH = Dim("batch", min=1, max=64)
LENGTH = Dim("length", min=1, max=24)


class LeNet(nn.Module):
    """Two convolutions and three linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.norm = nn.BatchNorm2d(16)
        self.fc1, self.fc2 = nn.Linear(400, 120), nn.Linear(120, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.avg_pool2d(F.relu(self.norm(self.conv2(x))), 2)
        x = x.view(x.size(0), -1)
        return F.log_softmax(self.fc2(torch.tanh(self.fc1(x))), dim=1)


class Block(nn.Module):
    """A block of a GPT, which takes and returns the keys and values of what came before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor, past: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in parts
        )
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        total = k.size(2)
        mask = torch.tril(torch.ones(total, total))[total - length :, :]
        scores = (q @ k.transpose(-2, -1)) / (width // self.heads) ** 0.5
        weights = F.softmax(scores.masked_fill(mask == 0, float("-inf")), dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x)), torch.stack([k, v])


class GPT(nn.Module):
    """Two blocks over embeddings of tokens and positions, with a cache of keys and values."""

    def __init__(self, words: int = 20, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(2)])
        self.head = nn.Linear(width, words, bias=False)

    def forward(
        self, tokens: torch.Tensor, past: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        start, length = past.size(4), tokens.size(1)
        x = self.words(tokens) + self.positions(torch.arange(start, start + length))
        caches = []
        for index, block in enumerate(self.blocks):
            x, cache = block(x, past[index])
            caches.append(cache)
        return self.head(x), torch.stack(caches)


class VAE(nn.Module):
    """A variational autoencoder; its noise is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(12, 8)
        self.mean, self.log_var = nn.Linear(8, 3), nn.Linear(8, 3)
        self.decoder = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 12), nn.Sigmoid())

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = F.relu(self.encoder(x))
        mean, log_var = self.mean(hidden), self.log_var(hidden)
        return self.decoder(mean + noise * torch.exp(0.5 * log_var)), mean, log_var


class Translator(nn.Module):
    """A Transformer encoder and decoder, with a causal mask made from the length."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 16)
        self.transformer = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
        self.head = nn.Linear(16, 20)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        length = target.size(1)
        mask = torch.triu(torch.full((length, length), float("-inf")), diagonal=1)
        return self.head(self.transformer(self.words(source), self.words(target), tgt_mask=mask))


def vision(name: str, size: int, **settings: Any) -> Callable[[], Network]:
    """Return what makes a network for images of `edutorch.vision`."""

    def make() -> Network:
        from edutorch.vision import models

        module = getattr(models, name)(**settings)
        return Network(module, (torch.randn(2, 3, size, size),), ({0: BATCH},))

    return make


def vit() -> Network:
    """Return a small vision transformer."""
    from edutorch.vision.models import VisionTransformer

    module = VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=10)
    return Network(module, (torch.randn(2, 3, 32, 32),), ({0: BATCH},))


def over_time(module: nn.Module) -> Network:
    """Return a recurrent network with its input, batch first."""
    return Network(module, (torch.randn(3, 7, 4),), ({0: BATCH, 1: LENGTH},))


def translator() -> Network:
    """Return the Transformer with two sequences of tokens."""
    source, target = torch.randint(0, 20, (2, 6)), torch.randint(0, 20, (2, 5))
    lengths = Dim("source", min=1, max=24), Dim("target", min=1, max=24)
    return Network(
        Translator(), (source, target), ({0: BATCH, 1: lengths[0]}, {0: BATCH, 1: lengths[1]})
    )


def gpt() -> Network:
    """Return the GPT with tokens and a cache."""
    past = torch.randn(2, 2, 2, 2, 3, 8)
    axes = {2: BATCH, 4: Dim("past", min=1, max=24)}
    return Network(GPT(), (torch.randint(0, 20, (2, 5)), past), ({0: BATCH, 1: LENGTH}, axes))


NETWORKS: dict[str, Callable[[], Network]] = {
    "mlp": lambda: Network(
        nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3)), (torch.randn(2, 12),),
        ({0: BATCH},),
    ),
    "lenet": lambda: Network(LeNet(), (torch.randn(2, 1, 28, 28),), ({0: BATCH},)),
    "resnet18": vision("resnet18", 32),
    "mobilenet_v3": vision("mobilenet_v3_small", 32),
    "unet": vision("unet", 32),
    "lstm": lambda: over_time(nn.LSTM(4, 5, batch_first=True)),
    "gru": lambda: over_time(nn.GRU(4, 5, batch_first=True)),
    "bilstm": lambda: over_time(nn.LSTM(4, 5, 2, bidirectional=True, batch_first=True)),
    "transformer": translator,
    "gpt": gpt,
    "vit": vit,
    "vae": lambda: Network(
        VAE(), (torch.rand(2, 12), torch.randn(2, 3)), ({0: BATCH}, {0: BATCH})
    ),
}  # fmt: skip
"""The networks by name; calling one makes it anew."""


def network(name: str) -> Network:
    """Return a network with fixed weights, in evaluation mode."""
    torch.manual_seed(0)
    made = NETWORKS[name]()
    with torch.no_grad():
        for parameter in made.module.parameters():  # some begin as zeros, which shows nothing
            parameter += 0.02 * torch.randn_like(parameter)
    measure_statistics(made)
    made.module.eval()
    return made


def measure_statistics(network: Network) -> None:
    """Let the running statistics be those of random images: values stay of ordinary size."""
    norms = [m for m in network.module.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
    if norms:
        images = torch.randn(32, *network.args[0].shape[1:])
        with torch.no_grad():
            network.module.train()(images)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


SIZES = {
    "batch": (1, 3, 8, 2, 5), "length": (1, 4, 9, 24, 13), "past": (2, 1, 6, 24, 11),
    "source": (3, 1, 9, 24, 2), "target": (1, 4, 8, 24, 17),
}  # fmt: skip
"""Five sizes of each dynamic axis, the ends of the range among them."""


def arguments_at(network: Network, number: int) -> tuple[Any, ...]:
    """Return the arguments with every dynamic axis at the given one of its five sizes."""
    sizes = {name: options[number] for name, options in SIZES.items()}
    return resized(network, lambda dim: sizes[dim.__name__])


def arguments_outside(network: Network) -> tuple[Any, ...]:
    """Return the arguments with the first dynamic axis one longer than its range."""
    first = next(dim for axes in network.shapes for dim in axes.values())
    return resized(network, lambda dim: dim.max + 1 if dim is first else SIZES[dim.__name__][0])


def resized(network: Network, size_of: Callable[[Dim], int]) -> tuple[Any, ...]:
    """Return the arguments with every dynamic axis in a size."""
    from edutorch.export.samples import resize

    values = []
    for value, axes in zip(network.args, network.shapes, strict=True):
        for axis, dim in axes.items():
            value = resize(value, axis, size_of(dim))
        values.append(value)
    return tuple(values)
