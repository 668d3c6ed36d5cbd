"""Training steps for the tests of captured steps: small networks of four kinds, on any device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import edutorch as torch
from edutorch import Tensor, nn, optim
from edutorch.nn import functional as F


class Block(nn.Module):
    """A block of a GPT: attention and a small MLP, each with a norm and a way around it."""

    def __init__(self, width: int, heads: int, approximate: str = "none") -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        # Without a bias: the keys' would have a gradient of 0, of which Adam sees the rounding.
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, time, width))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """Two blocks over 11 characters."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(11, 16), nn.Embedding(8, 16)
        self.blocks = nn.Sequential(*(Block(16, 2, approximate) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 11, bias=False)

    def forward(self, index: Tensor) -> Tensor:
        positions = torch.arange(index.shape[1], device=index.device)
        x = self.token(index) + self.place(positions)
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


class Rnn(nn.Module):
    """An LSTM and a layer on its last output."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(5, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def mlp(approximate: str = "none") -> nn.Module:
    return nn.Sequential(
        nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16), nn.GELU(approximate), nn.Linear(16, 3)
    )


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3),
    )  # fmt: skip


def batch(name: str, count: int) -> tuple[Tensor, Tensor]:
    """Return a batch of the size `count` for a network, on the CPU."""
    name = name.partition(" ")[0]
    if name == "gpt":
        return torch.randint(0, 11, (count, 8)), torch.randint(0, 11, (count * 8,))
    shape = {"mlp": (12,), "cnn": (1, 8, 8), "lstm": (6, 5)}[name]
    return torch.randn(count, *shape), torch.randint(0, 3, (count,))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[..., Any]]] = {
    "mlp": (mlp, lambda parameters: optim.Adam(parameters, lr=0.01)),
    "cnn": (cnn, lambda parameters: optim.SGD(parameters, lr=0.05, momentum=0.9)),
    "gpt": (Gpt, lambda parameters: optim.AdamW(parameters, lr=0.003)),
    "mlp tanh": (lambda: mlp("tanh"), lambda parameters: optim.Adam(parameters, lr=0.01)),
    "gpt tanh": (lambda: Gpt("tanh"), lambda parameters: optim.AdamW(parameters, lr=0.003)),
    "lstm": (Rnn, lambda parameters: optim.Adam(parameters, lr=0.01)),
}
"""By name, a network and its optimizer."""


class Training:
    """A network, its optimizer and the function that makes one step."""

    def __init__(self, name: str, device: str, seed: int = 0) -> None:
        make, optimizer = NETWORKS[name]
        torch.manual_seed(seed)
        self.model = make().to(device)
        self.optimizer = optimizer(self.model.parameters())
        model, chosen = self.model, self.optimizer

        def step(x: Tensor, y: Tensor) -> Tensor:
            chosen.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            chosen.step()
            return loss

        self.step = step

    def values(self) -> list[Any]:
        """Return the parameters, buffers and gradients as NumPy arrays."""
        tensors = [*self.model.parameters(), *self.model.buffers()]
        grads = [parameter.grad for parameter in self.model.parameters()]
        return [tensor.detach().cpu().numpy() for tensor in (*tensors, *grads)]
