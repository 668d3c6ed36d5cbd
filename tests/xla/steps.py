"""Training steps for the tests of `backend="jax"`: one per type of layer, and whole networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import edutorch as torch
from edutorch import nn
from edutorch.nn import functional as F

Case = tuple[Callable[[], nn.Module], tuple[int, ...]]
"""A function that makes a module, and the shape of its input."""


class First(nn.Module):
    """The first result of a layer that returns several, such as an LSTM."""

    def __init__(self, layer: nn.Module, copies: int = 1) -> None:
        super().__init__()
        self.layer, self.copies = layer, copies

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Call the layer with the input, as often as it wants it."""
        return self.layer(*(x,) * self.copies)[0]


class Behind(nn.Module):
    """A layer without parameters behind one that has some."""

    def __init__(self, layer: nn.Module, first: nn.Module) -> None:
        super().__init__()
        self.first, self.layer = first, layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Call one after the other."""
        return self.layer(self.first(x))


class Words(nn.Module):
    """An embedding of the signs of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(3, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Look up a row per element."""
        return self.table((x > 0).long() + (x > 1).long())


def dense(layer: nn.Module) -> nn.Module:
    return Behind(layer, nn.Linear(6, 8))


LAYERS: dict[str, Case] = {
    "linear": (lambda: nn.Linear(6, 8), (4, 6)),
    "relu": (lambda: dense(nn.ReLU()), (4, 6)),
    "tanh and sigmoid": (lambda: dense(nn.Sequential(nn.Tanh(), nn.Sigmoid())), (4, 6)),
    "softmax": (lambda: dense(nn.Softmax(-1)), (4, 6)),
    "gelu": (lambda: dense(nn.GELU()), (4, 6)),
    "gelu by tanh": (lambda: dense(nn.GELU("tanh")), (4, 6)),
    "embedding": (Words, (4, 6)),
    "batch norm": (lambda: Behind(nn.BatchNorm1d(8), nn.Linear(6, 8)), (4, 6)),
    "layer norm": (lambda: dense(nn.LayerNorm(8)), (4, 6)),
    "group norm": (lambda: dense(nn.GroupNorm(2, 8)), (4, 6)),
    "dropout": (lambda: dense(nn.Dropout(0.3)), (4, 6)),
    "conv1d": (lambda: nn.Conv1d(3, 4, 3, padding=1), (2, 3, 9)),
    "conv2d": (lambda: nn.Conv2d(3, 4, 3, stride=2, padding=1), (2, 3, 8, 8)),
    "conv and max pool": (lambda: Behind(nn.MaxPool2d(2), nn.Conv2d(3, 4, 3)), (2, 3, 8, 8)),
    "conv and average pool": (lambda: Behind(nn.AvgPool2d(2), nn.Conv2d(3, 4, 3)), (2, 3, 8, 8)),
    "transposed conv": (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2), (2, 3, 5, 5)),
    "upsample": (
        lambda: Behind(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(3, 4, 3)),
        (2, 3, 6, 6),
    ),
    "RNN": (lambda: First(nn.RNN(6, 5, batch_first=True)), (2, 3, 6)),
    "LSTM": (lambda: First(nn.LSTM(6, 5, batch_first=True)), (2, 3, 6)),
    "GRU": (lambda: First(nn.GRU(6, 5, batch_first=True)), (2, 3, 6)),
    "attention": (lambda: First(nn.MultiheadAttention(8, 2, batch_first=True), 3), (2, 4, 8)),
    "Transformer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True),
        (2, 4, 8),
    ),
}
"""The 22 types of layers."""


def training_step(
    model: nn.Module, optimizer: torch.optim.Optimizer
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return a whole training step of a model, with the mean square as its loss."""

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def example(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return a model, an input and a target, the same in every call."""
    torch.manual_seed(0)
    model, x = make(), torch.randn(*shape)
    return model, x, torch.randn(*model(x).shape)


# Networks -----------------------------------------------------------------------------------------


class Block(nn.Module):
    """A block of a ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.second = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.BatchNorm2d(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add to the input what two convolutions make of it."""
        y = self.norms[0](self.first(x)).relu()
        return (x + self.norms[1](self.second(y))).relu()


class GPT(nn.Module):
    """A small GPT with one block: it reads the signs of its input as tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(3, 8), nn.Embedding(6, 8)
        self.norms = nn.ModuleList([nn.LayerNorm(8) for _ in range(3)])
        self.attention = nn.Linear(8, 24, bias=False)
        self.out = nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8), nn.Dropout(0.1))
        self.head = nn.Linear(8, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a logit per token and place."""
        tokens = (x > 0).long() + (x > 1).long()
        h = self.tokens(tokens) + self.places(torch.arange(x.shape[1]))
        parts = self.attention(self.norms[0](h)).chunk(3, -1)
        q, k, v = (part.reshape(*x.shape, 2, 4).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(y.transpose(1, 2).reshape(h.shape))
        h = h + self.mlp(self.norms[1](h))
        return self.head(self.norms[2](h))


class Last(nn.Module):
    """A recurrent network that judges by its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the judgement after the last element."""
        return self.head(self.lstm(x)[0][:, -1])


NETWORKS: dict[str, Case] = {
    "MLP": (
        lambda: nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(),
                              nn.Linear(16, 3)),
        (8, 6),
    ),
    "CNN": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3),
                              nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)),
        (4, 1, 12, 12),
    ),
    "LSTM": (Last, (4, 3, 6)),
    "Transformer": (
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), 1
        ),
        (2, 4, 8),
    ),
    "GPT": (GPT, (2, 6)),
    "ResNet block": (Block, (4, 4, 6, 6)),
}  # fmt: skip
"""Networks whose whole steps are compiled."""

OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "SGD": lambda model: torch.optim.SGD(model.parameters(), 0.05, momentum=0.9),
    # A larger eps: the gradient of a key's bias is zero but for rounding, which Adam would enlarge.
    "Adam": lambda model: torch.optim.Adam(model.parameters(), 1e-2, eps=1e-4),
}
