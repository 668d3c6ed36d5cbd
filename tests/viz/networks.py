"""Networks as their authors write them, depth and topology as published, widths tiny.

Each function of `NETWORKS` returns a model (or function) and the inputs that it is called with;
the result is a loss.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import edutorch
from edutorch import Tensor, nn
from edutorch.nn import functional as F

# ResNet ------------------------------------------------------------------------------


class BasicBlock(nn.Module):
    def __init__(self, inplanes: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(
                nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out = out + identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, layers: tuple[int, ...], width: int = 2) -> None:
        super().__init__()
        self.inplanes = width
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self._make_layer(width, layers[0])
        self.layer2 = self._make_layer(2 * width, layers[1], 2)
        self.layer3 = self._make_layer(4 * width, layers[2], 2)
        self.layer4 = self._make_layer(8 * width, layers[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8 * width, 10)

    def _make_layer(self, planes: int, blocks: int, stride: int = 1) -> nn.Sequential:
        made = []
        for number in range(blocks):
            made.append(BasicBlock(self.inplanes, planes, stride if number == 0 else 1))
            self.inplanes = planes
        return nn.Sequential(*made)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(edutorch.flatten(self.avgpool(x), 1))


# GPT ---------------------------------------------------------------------------------


class CausalSelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.resid_dropout = nn.Dropout(0.1)
        self.register_buffer("mask", edutorch.tril(edutorch.ones(length, length)))

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        v = v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) / (C // self.heads) ** 0.5
        att = att.masked_fill(self.mask[:T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class MLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.c_proj(self.gelu(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads, length)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = MLP(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, layers: int = 12, width: int = 4, length: int = 6, vocab: int = 11) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(length, width)
        self.drop = nn.Dropout(0.1)
        self.h = nn.ModuleList([Block(width, 2, length) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def forward(self, idx: Tensor, targets: Tensor) -> Tensor:
        pos = edutorch.arange(idx.shape[1])
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


# Loops over time ---------------------------------------------------------------------


class CellLoop(nn.Module):
    """An LSTMCell or GRUCell that is called for each time, with a loss at each."""

    def __init__(self, cell_class: str = "LSTMCell") -> None:
        super().__init__()
        self.cell = getattr(nn, cell_class)(3, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        state = None
        loss = 0.0
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
            h = state[0] if isinstance(state, tuple) else state
            loss = loss + F.mse_loss(self.head(h), y[:, t])
        return loss / x.shape[1]


class ByHand(nn.Module):
    """A recurrence written out: no module inside."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(edutorch.randn(3, 4))
        self.u = nn.Parameter(edutorch.randn(4, 4))
        self.b = nn.Parameter(edutorch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        h = edutorch.zeros(x.shape[0], 4)
        for t in range(x.shape[1]):
            h = (x[:, t] @ self.w + h @ self.u + self.b).tanh() * 0.9
        return h.square().mean()


# DenseNet ----------------------------------------------------------------------------


class DenseLayer(nn.Module):
    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(width), nn.Conv2d(width, 2 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(2 * growth)
        self.conv2 = nn.Conv2d(2 * growth, growth, 3, padding=1, bias=False)

    def forward(self, features: list[Tensor]) -> Tensor:
        x = self.conv1(F.relu(self.norm1(edutorch.cat(features, 1))))
        return self.conv2(F.relu(self.norm2(x)))


class DenseBlock(nn.ModuleDict):
    def __init__(self, layers: int, width: int, growth: int) -> None:
        super().__init__()
        for number in range(layers):
            self[f"denselayer{number + 1}"] = DenseLayer(width + number * growth, growth)

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.values():
            features.append(layer(features))
        return edutorch.cat(features, 1)


class DenseNet(nn.Module):
    def __init__(self, blocks: tuple[int, ...] = (6, 12, 24, 16), growth: int = 1) -> None:
        super().__init__()
        width = 2
        layers: list[tuple[str, nn.Module]] = [("conv0", nn.Conv2d(3, width, 3, padding=1))]
        for number, count in enumerate(blocks, start=1):
            layers.append((f"denseblock{number}", DenseBlock(count, width, growth)))
            width += count * growth
            if number < len(blocks):
                layers += [(f"transition{number}", nn.Sequential(
                    nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1),
                    nn.AvgPool2d(2)))]  # fmt: skip
                width //= 2
        self.features = nn.Sequential()
        for name, layer in layers:
            self.features.add_module(name, layer)
        self.norm, self.classifier = nn.BatchNorm2d(width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.features(x)))
        return self.classifier(edutorch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


# U-Net -------------------------------------------------------------------------------


class DoubleConv(nn.Module):
    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(into, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.double_conv(x)


class UNet(nn.Module):
    def __init__(self, depth: int = 4, width: int = 2) -> None:
        super().__init__()
        self.inc = DoubleConv(1, width)
        sizes = [width * 2**level for level in range(depth + 1)]
        self.downs = nn.ModuleList(
            [nn.Sequential(nn.MaxPool2d(2), DoubleConv(a, b)) for a, b in itertools.pairwise(sizes)]
        )
        self.ups = nn.ModuleList(
            [nn.ConvTranspose2d(a, b, 2, 2) for a, b in itertools.pairwise(sizes[::-1])]
        )
        self.convs = nn.ModuleList([DoubleConv(a, b) for a, b in itertools.pairwise(sizes[::-1])])
        self.outc = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = [self.inc(x)]
        for down in self.downs:
            kept.append(down(kept[-1]))
        x = kept.pop()
        for up, conv in zip(self.ups, self.convs, strict=True):
            x = conv(edutorch.cat([kept.pop(), up(x)], dim=1))
        return self.outc(x)


# Chains of ops, without a module ------------------------------------------------------


def long_chain(x: Tensor) -> Tensor:
    """90 ops of which no three neighbours repeat."""
    names = ["sin", "tanh", "sigmoid", "cos", "exp"]
    for step in range(90):
        x = getattr(x, names[(step * step + step // 7) % 5])()
    return x.sum()


def many_leaves(*leaves: Tensor) -> Tensor:
    """One op of many inputs."""
    return edutorch.stack(leaves).sum()


class VGG(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        into = 3
        for width in (1, "M", 2, "M", 3, 3, "M", 4, 4, "M", 4, 4, "M"):
            if width == "M":
                layers.append(nn.MaxPool2d(2, 2))
            else:
                layers += [nn.Conv2d(into, width, 3, padding=1), nn.ReLU()]
                into = width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(4, 5), nn.ReLU(), nn.Dropout(), nn.Linear(5, 5), nn.ReLU(), nn.Dropout(),
            nn.Linear(5, 3),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(edutorch.flatten(self.features(x), 1))


def small_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))


def with_loss(model: nn.Module, classes: int = 10) -> Callable[[Tensor], Tensor]:
    target = edutorch.tensor([1, 2])

    def compute(x: Tensor) -> Tensor:
        return F.cross_entropy(model(x), target)

    return compute


def whole_mean(model: nn.Module) -> Callable[[Tensor], Tensor]:
    return lambda x: model(x).square().mean()


def ids(*shape: int, below: int = 11) -> Tensor:
    return edutorch.arange(edutorch.ones(*shape).numel()).view(*shape) % below


NETWORKS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "resnet18": lambda: (with_loss(ResNet((2, 2, 2, 2))), edutorch.randn(2, 3, 32, 32)),
    "resnet50": lambda: (with_loss(ResNet((3, 4, 6, 3))), edutorch.randn(2, 3, 32, 32)),
    "gpt": lambda: (GPT(), ids(2, 6), ids(2, 6)),
    "gpt2": lambda: (GPT(2), ids(2, 6), ids(2, 6)),
    "lstm_cell": lambda: (CellLoop(), edutorch.randn(2, 20, 3), edutorch.randn(2, 20, 2)),
    "gru_cell": lambda: (CellLoop("GRUCell"), edutorch.randn(2, 20, 3), edutorch.randn(2, 20, 2)),
    "by_hand": lambda: (ByHand(), edutorch.randn(2, 25, 3)),
    "densenet": lambda: (with_loss(DenseNet()), edutorch.randn(2, 3, 16, 16)),
    "small_densenet": lambda: (with_loss(DenseNet((2, 2))), edutorch.randn(2, 3, 16, 16)),
    "unet": lambda: (whole_mean(UNet()), edutorch.randn(2, 1, 32, 32)),
    "vgg": lambda: (with_loss(VGG()), edutorch.randn(2, 3, 32, 32)),
    "long_chain": lambda: (long_chain, edutorch.randn(3)),
    "many_leaves": lambda: (many_leaves, *[edutorch.randn(3) for _ in range(30)]),
    "mlp": lambda: (small_mlp(), edutorch.randn(2, 4)),
}  # fmt: skip
"""By name: a model or function, and what it is called with."""
