"""Writes tests/golden/torchscript with PyTorch 2.13, once: `python -m tests.golden_torchscript`.

Thirty small archives, and `cases.pt` with the inputs and outputs of each. Only this file needs
PyTorch; the tests read what it has written.
"""
# ruff: noqa: UP006, UP032, UP035, UP045  (as PyTorch's users write)

from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FOLDER = Path(__file__).parent / "golden" / "torchscript"


class Point(NamedTuple):
    x: Tensor
    scale: int


class Loops(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        total = torch.zeros_like(x)
        for i in range(n):
            if i == 3:
                continue
            total = total + x * i
        while bool(total.sum() > 10):
            total = total / 2
        return total


class Branches(nn.Module):
    def forward(self, x: Tensor, mode: str) -> Tensor:
        if mode == "relu":
            return torch.relu(x)
        elif mode == "tanh" and x.dim() == 2:
            return torch.tanh(x)
        return x.abs() if bool(x.sum() < 0) else x


class Lists(nn.Module):
    def forward(self, xs: List[Tensor], sizes: List[int]) -> Tuple[Tensor, List[int]]:
        parts: List[Tensor] = []
        for x in xs:
            parts.append(x * len(parts))
        doubled = [s * 2 for s in sizes]
        doubled.extend([1, 2])
        doubled.reverse()
        return torch.cat(parts[1:], 0), doubled[::2]


class Dicts(nn.Module):
    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        table = {"a": x, "b": x + 1}
        result: Dict[str, Tensor] = {}
        for name, value in table.items():
            result[name + "_"] = value.sum(dim=-1)
        if "a_" in result:
            result["both"] = result["a_"] * result["b_"]
        return result


class Optionals(nn.Module):
    def forward(self, x: Tensor, bias: Optional[Tensor] = None, k: Optional[int] = None) -> Tensor:
        if bias is not None:
            x = x + bias
        if k is None:
            k = 2
        return x.topk(k, dim=-1)[0]


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = x + F.gelu(layer(x)) * (i + 1)
        return self.norm(x)


class Constants(nn.Module):
    scale: torch.jit.Final[float]

    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.5
        self.sizes = [1, 2, 3]
        self.register_buffer("table", torch.arange(6.0).reshape(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.table + torch.tensor([1.0, 2.0, 3.0]) * self.sizes[1]


class Tuples(nn.Module):
    def make(self, x: Tensor) -> Point:
        return Point(x * 2, 3)

    def forward(self, x: Tensor) -> Tuple[Tensor, int]:
        point = self.make(x)
        (a, b), c = (point.x, point.scale), 4
        return a * b + c, point.scale


class Writes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y[0] = 1.0
        y[:, 1:2] += 2
        y[..., -1] = y[..., 0]
        y[y > 2] = 0
        y.mul_(3)
        return y


class Indexing(nn.Module):
    def forward(self, x: Tensor, i: Tensor) -> Tensor:
        return x[i] + x[:, None, 0] + x[1, -1] + torch.index_select(x, 0, i)[:, ::2].sum()


class Messages(nn.Module):
    def forward(self, x: Tensor) -> Tuple[str, int]:
        name = f"{x.size(0)} by {x.shape[1]}"
        if len(name) > 100:
            raise ValueError("too long")
        assert x.dim() == 2, "two dimensions"
        return "{}: {}".format(name.upper(), 1.5), name.find("by")


class NoGrad(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = x * 2
        return y + x


class Exported(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    @torch.jit.export
    def step(self, x: Tensor) -> Tensor:
        self.count += 1
        return x + self.count

    def forward(self, x: Tensor) -> Tensor:
        return self.step(self.step(x))


class RNNs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(3, 4, batch_first=True)
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y, h = self.gru(x)
        return self.cell(y[:, -1], h[0])


class Sequences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 2, bidirectional=True)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        return self.lstm(x)


class Attend(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Losses(nn.Module):
    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        a = F.cross_entropy(x, t, label_smoothing=0.1) + F.nll_loss(F.log_softmax(x, 1), t)
        return a + F.mse_loss(x, x + 1) + F.smooth_l1_loss(x, x * 2, reduction="sum")


class Numbers(nn.Module):
    def forward(self, a: int, b: float, x: Tensor) -> Tuple[int, float, bool, Tensor]:
        c = (a // 3) % 5 + int(b) - a * 2
        d = float(a) / b + b**2 + min(b, 3.0) + abs(-b)
        return c, d, (a > 3) and not (b < 1.0), x * c + d + float(x.mean())


class Early(nn.Module):
    def forward(self, xs: List[int], limit: int) -> Optional[int]:
        total = 0
        for x in xs:
            total += x
            if total > limit:
                return total
            if x < 0:
                break
        return None


def nested(x: Tensor, depth: int) -> Tensor:
    return helper(helper(x, depth), depth + 1)


def helper(x: Tensor, depth: int = 2) -> Tensor:
    return x.view(-1).cumsum(0) * depth


def shapes(x: Tensor) -> Tensor:
    b, c = x.shape[0], x.size(1)
    y = x.reshape(b, c // 2, 2, -1).permute(0, 2, 1, 3).contiguous().flatten(1)
    a, z = y.chunk(2, dim=1)
    return torch.stack([a, z]).transpose(0, 1).unsqueeze(-1).squeeze(-1).expand(b, 2, -1)


def types(x: Tensor) -> Tensor:
    y = x.to(torch.int64).float() + torch.arange(3, dtype=torch.float32) + torch.ones(3).to(x.dtype)
    return torch.where(y > 1, y, torch.full([3], 7.0)) + torch.zeros(3, device=x.device)


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, stride=2),
        nn.BatchNorm2d(4), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.3),
        nn.Linear(4, 3), nn.Softmax(dim=1),
    )  # fmt: skip


def cases() -> dict[str, tuple[object, tuple[object, ...]]]:
    x = torch.randn(2, 3)
    image = torch.randn(2, 1, 8, 8)
    heads = [torch.randn(1, 2, 4, 3) for _ in range(3)]
    encoder = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    up = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.ConvTranspose2d(1, 2, 3))
    norms = nn.Sequential(nn.GroupNorm(1, 3), nn.Conv1d(3, 4, 3, padding="same"), nn.ELU())
    return {
        "linear": (nn.Linear(3, 4), (x,)),
        "lenet": (lenet().eval(), (image,)),
        "batch_norm_train": (nn.BatchNorm1d(3), (x,)),
        "lstm": (Sequences(), (torch.randn(5, 2, 3),)),
        "rnns": (RNNs(), (torch.randn(2, 5, 3),)),
        "embedding": (nn.Sequential(nn.Embedding(7, 3), nn.LayerNorm(3)), (torch.arange(4),)),
        "norms": (norms, (torch.randn(2, 3, 6),)),
        "upsample": (up, (image,)),
        "loops": (Loops(), (x, 5)),
        "branches": (Branches(), (x, "tanh")),
        "lists": (Lists(), ([x, x + 1, x * 2], [4, 5])),
        "dicts": (Dicts(), (x,)),
        "optionals": (Optionals(), (x, torch.ones(3), None)),
        "residual": (Residual(3), (x,)),
        "constants": (Constants(), (x,)),
        "tuples": (Tuples(), (x,)),
        "writes": (Writes(), (torch.randn(3, 3),)),
        "indexing": (Indexing(), (torch.randn(3, 3), torch.tensor([2, 0, 1]))),
        "messages": (Messages(), (x,)),
        "no_grad": (NoGrad(), (x,)),
        "exported": (Exported(), (x,)),
        "attention": (Attend(), tuple(heads)),
        "losses": (Losses(), (x, torch.tensor([0, 2]))),
        "numbers": (Numbers(), (7, 2.5, x)),
        "early": (Early(), ([1, 2, 3, 4], 4)),
        "nested": (nested, (x, 3)),
        "shapes": (shapes, (torch.randn(2, 4, 3),)),
        "types": (types, (torch.randn(3),)),
        "traced": ("trace", (lenet().eval(), image)),
        "encoder": ("trace", (encoder, torch.randn(1, 3, 4))),
    }


def main() -> None:
    torch.manual_seed(0)
    FOLDER.mkdir(exist_ok=True)
    results = {}
    for name, (program, inputs) in cases().items():
        if program == "trace":
            module, *inputs = inputs
            scripted = torch.jit.trace(module, tuple(inputs), check_trace=False)
        else:
            scripted = torch.jit.script(program)
        torch.jit.save(scripted, str(FOLDER / f"{name}.pt"))
        loaded = torch.jit.load(FOLDER / f"{name}.pt")
        arguments = [x.clone() if isinstance(x, Tensor) else x for x in inputs]
        with torch.no_grad():
            results[name] = (list(inputs), loaded(*arguments))
    torch.save(results, FOLDER / "cases.pt")


if __name__ == "__main__":
    main()
