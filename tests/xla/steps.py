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
    "RNN": (lambda: First(nn.RNN(6, 5, batch_first=True)), (2, 4, 6)),
    "LSTM": (lambda: First(nn.LSTM(6, 5, batch_first=True)), (2, 4, 6)),
    "GRU": (lambda: First(nn.GRU(6, 5, batch_first=True)), (2, 4, 6)),
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
