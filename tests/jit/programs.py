"""Functions and modules of the subset of `torch.jit.script`, each with its inputs.

`save_all` runs in one process and `run_all` in another, which cannot import this file's programs:
there the archives alone have to do. Both write their outputs as `edutorch.save` does.
"""
# ruff: noqa: UP006, UP035, UP045, B905, C416  (as PyTorch's users write)

import math
from typing import Dict, List, NamedTuple, Optional, Tuple

import edutorch as torch
from edutorch import Tensor, nn
from edutorch.nn import functional as F


class Pair(NamedTuple):
    first: Tensor
    count: int = 2


# Functions ----------------------------------------------------------------------------------------


def add(x: Tensor, y: Tensor) -> Tensor:
    return x + y * 2 - 1


def arithmetic(a: int, b: float) -> Tuple[int, float, bool]:
    c = (a // 3) % 5 - a * 2
    return c, float(a) / b + abs(-b) + min(b, 3.0), a > 3 and not b < 1.0


def early(xs: List[int], limit: int) -> Optional[int]:
    total = 0
    for x in xs:
        total += x
        if total > limit:
            return total
        if x < 0:
            break
    return None


def skips(n: int) -> List[int]:
    result: List[int] = []
    i = 0
    while i < n:
        i += 1
        if i % 2 == 0:
            continue
        if i > 7:
            break
        result.append(i)
    return result


def nested_loops(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        for j in range(i, n, 2):
            x = x + i * j
    return x


def branches(x: Tensor, mode: str) -> Tensor:
    if mode == "relu":
        return torch.relu(x)
    elif mode == "tanh":
        y = torch.tanh(x)
    else:
        y = x.abs()
    return y * 2


def choice(x: Tensor) -> Tensor:
    return x if bool(x.sum() > 0) else -x


def optional(x: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    if bias is not None:
        x = x + bias
    return x


def modern(x: Tensor, sizes: list[int], scale: float | None = None) -> tuple[Tensor, int]:
    return x * (1.0 if scale is None else scale), len(sizes)


def lists(xs: List[Tensor]) -> Tuple[Tensor, int]:
    parts = [x * 2 for x in xs if x.dim() == 2]
    parts.append(xs[0])
    parts.reverse()
    return torch.cat(parts[:2], dim=0), len(parts)


def dicts(x: Tensor) -> Dict[str, Tensor]:
    table = {"a": x, "b": x + 1}
    for name, value in table.items():
        table[name] = value.sum(dim=0)
    if "c" not in table:
        table["c"] = table["a"] * table["b"]
    return table


def tuples(x: Tensor) -> Tuple[Tensor, Tuple[int, str]]:
    a, (b, c) = x, (3, "z")
    return a * b, (b + 1, c)


def named(x: Tensor) -> Tensor:
    pair = Pair(x * 2, 5)
    other = Pair(x)
    return pair.first * pair.count + other.count


def texts(x: Tensor, name: str) -> str:
    text = f"{name}: {x.shape[0]} of {x.size(1)}"
    return "{}|{}".format(text.upper(), name.replace("a", "b")) + ",".join(["p", "q"])


def raises(x: Tensor, limit: int) -> Tensor:
    assert limit > 0, f"limit {limit}"
    if x.dim() > limit:
        raise ValueError(f"{x.dim()} dimensions")
    return x + limit


def writes(x: Tensor) -> Tensor:
    y = x.clone()
    y[0] = 1.0
    y[:, 1:2] += 2
    y[..., -1] = y[..., 0]
    y[y > 2] = 0.0
    y.mul_(3)
    y += 1
    return y


def indexing(x: Tensor, i: Tensor) -> Tensor:
    return x[i] + x[:, None, 0] + x[1, -1] + x[::2].sum() + x[i, i]


def shapes(x: Tensor) -> Tensor:
    b, c = x.shape[0], x.size(1)
    y = x.reshape(b, c // 2, 2, -1).permute(0, 2, 1, 3).contiguous().flatten(1)
    first, second = y.chunk(2, dim=1)
    z = torch.stack([first, second]).transpose(0, 1).unsqueeze(-1).squeeze(-1)
    return z.expand(b, 2, -1).repeat(1, 2, 1).view(b, -1)


def dtypes(x: Tensor) -> Tensor:
    y = x.to(torch.int64).float() + torch.arange(3, dtype=torch.float32)
    y = y.to(dtype=torch.float64) + torch.zeros(3, dtype=torch.float64, device=x.device)
    return torch.where(y > 1, y, torch.full([3], 7.0, dtype=y.dtype)).type_as(x)


def mathematics(x: float) -> float:
    return math.sqrt(x) + math.floor(x) * math.pi + math.exp(-x)


def helper(x: Tensor, depth: int = 2) -> Tensor:
    return x.view(-1).cumsum(0) * depth


def calls(x: Tensor) -> Tensor:
    return helper(helper(x, depth=3)) + helper(x, 1)


def no_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x * 2
    return y + x


def annotated(n: int) -> List[float]:
    values = torch.jit.annotate(List[float], [])
    for i in range(n):
        values.append(i * 0.5)
    return values


def while_tensor(x: Tensor) -> Tensor:
    while bool(x.abs().max() > 1):
        x = x / 2
    return x


def zipped(a: List[int], b: List[int]) -> List[int]:
    return [x * y + i for i, (x, y) in enumerate(zip(a, b))]


def closures() -> object:
    scale, sizes = 3, (1, 2)

    def inside(x: Tensor) -> Tensor:
        return x * scale + sizes[1]

    return inside


def scripting(x: Tensor) -> Tensor:
    if not torch.jit.is_scripting():
        return x * 2
    return x + x


def instance(x: Optional[Tensor]) -> int:
    if isinstance(x, Tensor):
        return x.dim()
    return -1


def losses(x: Tensor, t: Tensor) -> Tensor:
    a = F.cross_entropy(x, t, label_smoothing=0.1) + F.nll_loss(F.log_softmax(x, dim=1), t)
    b = F.mse_loss(x, x + 1) + F.smooth_l1_loss(x, x * 2, reduction="sum") + F.l1_loss(x, -x)
    return a + b + F.binary_cross_entropy_with_logits(x, torch.sigmoid(x)) + F.huber_loss(x, -x)


def activations(x: Tensor) -> Tensor:
    y = F.gelu(x) + F.silu(x) + F.elu(x, 0.5) + F.leaky_relu(x, 0.1) + F.softplus(x)
    y = y + F.hardtanh(x) + F.hardswish(x) + F.mish(x) + F.selu(x) + F.relu6(x)
    return y + F.softmax(x, dim=-1) + F.glu(torch.cat([x, x], dim=-1)) + F.softsign(x)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def linear_algebra(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b).t() + torch.einsum("ij,jk->ik", a, b) + torch.linalg.inv(a + torch.eye(3) * 5)


def reductions(x: Tensor) -> Tuple[Tensor, Tensor, int]:
    values, where = x.max(dim=1)
    return values + x.std(dim=1) + x.norm(), where, int(x.argmax())


# Modules ------------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.norm = nn.LayerNorm(3)

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = x + F.gelu(layer(x)) * (i + 1)
        return self.norm(x) + self.layers[0](x)


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 2, bias=False)})

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        result: Dict[str, Tensor] = {}
        for name, head in self.heads.items():
            result[name] = head(x)
        return result


class Attributes(nn.Module):
    sizes: List[int]
    scale: torch.jit.Final[float]

    def __init__(self) -> None:
        super().__init__()
        self.sizes, self.scale, self.names = [1, 2, 3], 2.5, {"a": 1}
        self.register_buffer("table", torch.arange(3.0))
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.table * self.sizes[1] + self.weight * self.names["a"]


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    @torch.jit.export
    def step(self, x: Tensor) -> Tensor:
        self.count += 1
        return x + self.count

    @torch.jit.unused
    def plot(self, x: Tensor) -> None:
        print([y for y in x.numpy()])

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() > 9:
            self.plot(x)
        return self.step(x) * self.count


class MaybeModule(nn.Module):
    def __init__(self, inner: Optional[nn.Module]) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        if self.inner is not None:
            x = self.inner(x)
        return x


class Methods(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = Residual()

    def double(self, x: Tensor, times: int = 1) -> Tensor:
        for _ in range(times):
            x = x * 2
        return x

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        y = self.double(self.body(x), times=2)
        return y, self.body.norm(y) + self.body.norm.eps


class Function(nn.Module):
    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x) + 1


class GPTBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 8), nn.GELU(), nn.Linear(8, width))

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
        q, k, v = [y.view(b, t, self.heads, -1).transpose(1, 2) for y in (q, k, v)]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(3, 4), nn.Linear(2, 3)

    def forward(self, x: Tensor, noise: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        mean, log_var = self.encode(x).chunk(2, dim=-1)
        z = mean + noise * torch.exp(0.5 * log_var)
        return torch.sigmoid(self.decode(z)), mean, log_var


class Recurrent(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.layer(x)
        return y


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.lstm = nn.GRUCell(3, 4), nn.LSTMCell(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(0), 4)
        c = torch.zeros_like(h)
        for step in range(x.size(1)):
            h = self.gru(x[:, step], h)
            h, c = self.lstm(h, (h, c))
        return h + c


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, stride=2),
        nn.BatchNorm2d(4), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.3),
        nn.Linear(4, 3), nn.Softmax(dim=1),
    )  # fmt: skip


def function_cases(x: Tensor) -> dict[str, tuple[object, list[object]]]:
    square, indices = torch.randn(3, 3), torch.tensor([2, 0, 1])
    heads = [torch.randn(1, 2, 4, 3) for _ in range(3)]
    return {
        "add": (add, [x, x]), "numbers": (arithmetic, [7, 2.5]),
        "early": (early, [[1, 2, 3, 4], 4]), "early_none": (early, [[1, -2, 3], 4]),
        "skips": (skips, [20]), "nested_loops": (nested_loops, [x, 4]),
        "branches": (branches, [x, "tanh"]), "branches_else": (branches, [x, "?"]),
        "choice": (choice, [x]), "optional": (optional, [x, torch.ones(3)]),
        "optional_none": (optional, [x]), "modern": (modern, [x, [1, 2], 0.5]),
        "lists": (lists, [[x, x + 1]]), "dicts": (dicts, [x]), "tuples": (tuples, [x]),
        "named": (named, [x]), "texts": (texts, [x, "abc"]), "raises": (raises, [x, 3]),
        "writes": (writes, [square]), "indexing": (indexing, [square, indices]),
        "shapes": (shapes, [torch.randn(2, 4, 3)]), "dtypes": (dtypes, [torch.randn(3) * 3]),
        "mathematics": (mathematics, [2.3]), "calls": (calls, [x]), "no_grad": (no_grad, [x]),
        "annotated": (annotated, [4]), "while_tensor": (while_tensor, [x * 9]),
        "zipped": (zipped, [[1, 2], [3, 4]]), "closures": (closures(), [x]),
        "scripting": (scripting, [x]), "instance": (instance, [x]),
        "losses": (losses, [x, torch.tensor([0, 2])]), "activations": (activations, [x]),
        "attention": (attention, heads), "linear_algebra": (linear_algebra, [square, square + 1]),
        "reductions": (reductions, [x]),
    }  # fmt: skip


def module_cases(x: Tensor) -> dict[str, tuple[object, list[object]]]:
    image, series = torch.randn(2, 1, 8, 8), torch.randn(2, 5, 3)
    upsample = nn.Sequential(
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.ConvTranspose2d(1, 2, 3),
        nn.Conv2d(2, 1, 1),
    )
    norms = nn.Sequential(nn.GroupNorm(1, 3), nn.Conv1d(3, 4, 3, padding="same"), nn.ELU())
    embedding = nn.Sequential(nn.Embedding(7, 3), nn.LayerNorm(3), nn.Linear(3, 2))
    return {
        "linear": (nn.Linear(3, 4), [x]), "lenet": (lenet().eval(), [image]),
        "batch_norm": (nn.BatchNorm1d(3), [x]), "norms": (norms, [torch.randn(2, 3, 6)]),
        "upsample": (upsample, [image]), "embedding": (embedding, [torch.arange(4)]),
        "residual": (Residual(), [x]), "module_dict": (Named(), [x]),
        "attributes": (Attributes(), [x]), "counts": (Counts(), [x]),
        "maybe": (MaybeModule(nn.Linear(3, 3)), [x]), "maybe_none": (MaybeModule(None), [x]),
        "methods": (Methods(), [x]), "function": (Function(torch.tanh), [x]),
        "own_function": (Function(choice), [x]), "gpt": (GPTBlock(4, 2), [torch.randn(2, 5, 4)]),
        "vae": (VAE(), [x, torch.randn(2, 2)]),
        "lstm": (Recurrent(nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True)), [series]),
        "gru": (Recurrent(nn.GRU(3, 4)), [series]), "rnn": (Recurrent(nn.RNN(3, 4)), [series]),
        "lstm_single": (Recurrent(nn.LSTM(3, 4)), [series[0]]), "cells": (Cells(), [series]),
        "prelu": (nn.Sequential(nn.PReLU(), nn.Tanh(), nn.LeakyReLU(0.1), nn.Sigmoid()), [x]),
        "pool": (nn.Sequential(nn.AvgPool2d(2), nn.MaxPool2d(2), nn.Flatten(1)), [image]),
    }  # fmt: skip


def cases() -> dict[str, tuple[object, list[object]]]:
    torch.manual_seed(0)
    x = torch.randn(2, 3)
    return function_cases(x) | module_cases(x)
