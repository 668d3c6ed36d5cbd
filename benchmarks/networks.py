"""The networks that are timed, written once: `nn` and `functional` are either library's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any


def mlp(torch: ModuleType, *sizes: int) -> Any:
    """Linear layers with ReLU between them."""
    layers: list[Any] = []
    for inputs, outputs in pairwise(sizes):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def lenet(torch: ModuleType) -> Any:
    """Two convolutions with pooling, three linear layers: for 28x28 images."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10),
    )  # fmt: skip


def resnet(torch: ModuleType, widths: tuple[int, ...] = (64, 128, 256, 512), depth: int = 2) -> Any:
    """ResNet-18 as it is built for 32x32 images: a 3x3 stem, four stages of two blocks."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.norm1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norm2 = nn.BatchNorm2d(outputs)
            self.short = nn.Identity()
            if stride > 1 or inputs != outputs:
                self.short = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x: Any) -> Any:
            y = self.norm1(self.conv1(x)).relu()
            return (self.norm2(self.conv2(y)) + self.short(x)).relu()

    layers = [nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]
    before = widths[0]
    for stage, width in enumerate(widths):
        for index in range(depth):
            layers.append(Block(before, width, 2 if stage and not index else 1))
            before = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10)]
    return nn.Sequential(*layers)


def gpt(
    torch: ModuleType, length: int, width: int = 128, heads: int = 4, layers: int = 4,
    words: int = 65,
) -> Any:  # fmt: skip
    """A GPT of pre-norm blocks with fused causal attention."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = (
                part.view(batch, length, heads, width // heads).transpose(1, 2)
                for part in self.qkv(self.norm1(x)).split(width, dim=2)
            )
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1]))
            return self.head(self.norm(self.blocks(x))).view(-1, words)

    return Gpt()


def lstm(torch: ModuleType, variant: str, inputs: int = 64, width: int = 128) -> Any:
    """An LSTM over (batch, time, inputs): of ops, of `nn.LSTMCell`, or `nn.LSTM` itself."""
    nn = torch.nn

    def by_ops(net: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        gates = net.of_input(x) + net.of_state(h)
        i, f, g, o = gates.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    class Lstm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if variant == "ops":
                self.of_input, self.of_state = (
                    nn.Linear(inputs, 4 * width),
                    nn.Linear(width, 4 * width),
                )
            elif variant == "cell":
                self.cell = nn.LSTMCell(inputs, width)
            else:
                self.lstm = nn.LSTM(inputs, width, batch_first=True)
            self.head = nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            if variant == "layer":
                return self.head(self.lstm(x)[0][:, -1])
            h = c = torch.zeros(x.shape[0], width)
            for t in range(x.shape[1]):
                if variant == "ops":
                    h, c = by_ops(self, x[:, t], h, c)
                else:
                    h, c = self.cell(x[:, t], (h, c))
            return self.head(h)

    return Lstm()


def word_model(torch: ModuleType, words: int = 2000, width: int = 128) -> Any:
    """A word-level language model: embedding, two LSTM layers with dropout, decoder."""
    nn = torch.nn

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = nn.Embedding(words, width), nn.Linear(width, words)
            self.rnn = nn.LSTM(width, width, 2, dropout=0.2)
            self.drop = nn.Dropout(0.2)

        def forward(self, tokens: Any) -> Any:
            y, _ = self.rnn(self.drop(self.encoder(tokens)))
            return self.decoder(self.drop(y)).view(-1, words)

    return Words()


def vae(torch: ModuleType) -> Any:
    """A variational autoencoder 784-400-20; returns the loss of its batch."""
    nn, functional = torch.nn, torch.nn.functional

    class Vae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside, self.mean, self.log_var = (
                nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
            )  # fmt: skip
            self.out = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))

        def forward(self, x: Any) -> Any:
            h = functional.relu(self.inside(x))
            mean, log_var = self.mean(h), self.log_var(h)
            z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_var)
            y = torch.sigmoid(self.out(z))
            far = -0.5 * torch.sum(1 + log_var - mean.pow(2) - log_var.exp())
            return functional.binary_cross_entropy(y, x, reduction="sum") + far

    return Vae()


def scalars(torch: ModuleType, steps: int = 33) -> Callable[[], Any]:
    """A graph of about 100 ops on single numbers, forward and backward."""
    a = torch.tensor(0.5, requires_grad=True)
    b = torch.tensor(0.3, requires_grad=True)

    def step() -> Any:
        a.grad = b.grad = None
        x = a
        for _ in range(steps):
            x = (x * b + a).tanh()
        x.backward()
        return x

    return step
