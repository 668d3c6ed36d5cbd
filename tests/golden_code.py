"""The code that `edutorch.compile` generates for some programs, kept in golden files.

`python -m tests.golden_code` writes the files.

The graph, what is fused and why not, the memory, the code and its kernels. Results cannot
tell whether two steps are one kernel, or whether an array is overwritten: the text can.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import edutorch as torch
from edutorch import nn
from edutorch.backends import blas
from edutorch.compilation import kernel_cache
from edutorch.compilation.pipeline import lower
from edutorch.nn import functional as F
from edutorch.nn.functional.loss.definitions import nll_grad, nll_loss
from edutorch.ops.conversion import convert_dtype
from edutorch.ops.indexing import getitem
from edutorch.ops.reduction import logsumexp
from edutorch.ops.views import expand, reshape, unsqueeze
from tests.compilation.graphs import graph_of

FOLDER = Path(__file__).parent / "golden" / "code"


@contextlib.contextmanager
def written_only() -> Iterator[None]:
    """Generate kernels without compiling them."""
    with (
        mock.patch.object(kernel_cache.compiler, "submit"),
        mock.patch.object(kernel_cache, "_kernels", {}),
        mock.patch.object(blas, "limit_threads"),
        mock.patch.dict(os.environ, {"EDUTORCH_KERNELS": "beside"}),
    ):
        yield


# Graphs by hand -----------------------------------------------------------------------------------

SPECS = [((4, 130), "float32"), ((130,), "float32")]


def rows(call: Any, x: Any, y: Any) -> list[Any]:
    z = call(torch.maximum, call(torch.mul, x, y), call(torch.exp, x))
    softmax = call(torch.softmax, z, dim=1)
    return [z, softmax, call(torch.sum, softmax, dim=(0,)), call(logsumexp, z, dim=(1,))]


def reductions(call: Any, x: Any, y: Any) -> list[Any]:
    z = call(torch.sub, call(torch.mul, x, 2.0), y)
    return [
        call(torch.sum, z, dim=(0, 1)), call(torch.mean, z, dim=(0,)),
        call(torch.amax, z, dim=(1,), keepdim=True), call(torch.amin, z, dim=(0, 1)),
        call(torch.sum, call(torch.exp, x), dim=(0, 1)), call(torch.mean, y, dim=(0,)),
    ]  # fmt: skip


def merged(call: Any, x: Any, y: Any) -> list[Any]:
    """Two kernels along one domain become one when a third reads from both."""
    first = call(torch.exp, call(torch.sub, x, call(torch.amax, x, dim=(1,), keepdim=True)))
    second = call(torch.tanh, y)
    largest = call(torch.amax, y, dim=(1,), keepdim=True)
    third = call(torch.erf, x)
    by_row = call(torch.mul, third, largest)
    return [call(torch.add, call(torch.mul, first, 2.0), second), first, by_row]


def parts(call: Any, x: Any, y: Any) -> list[Any]:
    """Views and broadcast arrays, inside and outside kernels."""
    turned = call(torch.transpose, x, dim0=0, dim1=1)
    column = call(unsqueeze, y, dim=1)
    wide = call(expand, column, size=(130, 4))
    half = call(getitem, x, index=(slice(1, 3),))
    return [
        call(torch.add, call(torch.exp, turned), wide),
        call(torch.relu, call(torch.mul, half, 3.0)),
        call(torch.exp, call(reshape, call(torch.neg, x), shape=(130, 4))),
        call(torch.sum, call(torch.mul, turned, column), dim=(1,)),
        call(torch.relu, call(getitem, x, index=(slice(2, 2),))),
    ]


def types(call: Any, x: Any, n: Any) -> list[Any]:
    odd = call(torch.eq, n, 3)
    number = call(convert_dtype, n, dtype=torch.float64)
    chosen = call(torch.where, odd, x, 0.0)
    return [
        call(torch.mul, chosen, number), call(torch.logical_and, odd, call(torch.gt, x, 0.1)),
        call(torch.add, n, n), call(torch.sum, call(torch.mul, n, n), dim=(0,)),
        call(convert_dtype, call(torch.exp, x), dtype=torch.float32),
        # what kernels have no function for, of these types
        call(torch.bitwise_and, n, n), call(torch.maximum, odd, odd), call(torch.add, odd, odd),
        call(torch.pow, n, n), call(torch.exp, n), call(torch.floor, n),
    ]  # fmt: skip


def functions(call: Any, x: Any) -> list[Any]:
    names = ("sqrt abs square reciprocal sign floor log tanh erf exp2 expm1 log1p sin cos atan "
             "isnan isinf isfinite")  # fmt: skip
    results = [call(getattr(torch, name), call(torch.add, x, 1.0)) for name in names.split()]
    powers = [call(torch.pow, x, power) for power in (1.0, 2.0, 3.0, 0.5, -1.0, 1.7)]
    return [*results, *powers]


def losses(call: Any, x: Any, target: Any) -> list[Any]:
    loss = call(nll_loss, x, target, None, reduction="mean", ignore_index=2)
    spread = call(nll_grad, loss, target=target, weight=None, shape=(6, 4), reduction="mean",
                  ignore_index=2)  # fmt: skip
    apart = call(nll_loss, x, target, None, reduction="none")
    return [loss, spread, apart, call(nll_loss, x, target, None, reduction="sum")]


def chain(call: Any, x: Any, weight: Any) -> list[Any]:
    for _ in range(4):
        x = call(torch.relu, call(torch.mm, x, weight))
    parts = [call(torch.mul, x, 2.0), call(torch.exp, weight)]
    return [x, call(torch.cat, parts, dim=0), call(torch.cat, [x, x], dim=1)]


ROW_SPECS = [((2, 3, 4, 10), "float32"), ((4, 3, 2, 1), "float32"), ((2, 4), "float32")]


def numbers_of_rows(call: Any, x: Any, y: Any, z: Any) -> list[Any]:
    """Per-row values whose memory order differs from that of the rows."""
    turned = call(torch.permute, y, dims=(2, 1, 0, 3))
    some = call(getitem, z, index=(slice(None), None, slice(None), None))
    scaled = call(torch.mul, call(torch.mul, x, turned), some)
    return [call(torch.softmax, scaled, dim=3), call(torch.sum, scaled, dim=(3,))]


SQUARE = [((64, 64), "float32")] * 2
GRAPHS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "rows": (rows, SPECS),
    "rows of float64": (rows, [(shape, "float64") for shape, _ in SPECS]),
    "reductions": (reductions, SPECS),
    "a long row": (reductions, [((2, 9000), "float32"), ((9000,), "float32")]),
    "one axis": (lambda call, x: [call(torch.sum, call(torch.exp, x), dim=(0,)), call(
        torch.amax, x, dim=(0,)), call(torch.neg, x)], [((9000,), "float32")]),
    "one element": (functions, [((), "float64")]),
    "few elements": (functions, [((5,), "float32")]),
    "many elements": (functions, [((500,), "float32")]),
    "merged": (merged, [((4, 130), "float32")] * 2),
    "parts": (parts, [((4, 130), "float32"), ((130,), "float32")]),
    "types": (types, [((6,), "float64"), ((6,), "int64")]),
    "losses": (losses, [((6, 4), "float32"), ((6,), "int64")]),
    "products": (chain, SQUARE),
    "three axes": (lambda call, x, y: [
        call(torch.softmax, call(torch.mul, x, y), dim=2),
        call(torch.sum, call(torch.exp, call(torch.mul, x, 2.0)), dim=(0, 1)),
        call(torch.mean, call(torch.tanh, x), dim=(1, 2))],
        [((2, 3, 40), "float32"), ((3, 1), "float32")]),
    "numbers of rows": (numbers_of_rows, ROW_SPECS),
}  # fmt: skip


def of_graph(name: str) -> str:
    """Return the generated code of a graph built by hand, with and without kernels."""
    build, specs = GRAPHS[name]
    graph = graph_of(build, specs)
    with written_only():
        lowered = lower(graph, wait=False, fuse=True)
        by_numpy = lower(graph, wait=False, fuse=False)
    return "\n\n".join([described(lowered), "# by NumPy", described(by_numpy)])


def described(lowered: Any) -> str:
    """Return the code of a lowered graph, its explanation, and the work of its kernels."""
    works = [f"{kernel.name}: {kernel.text.count} x {kernel.text.work}" for kernel in lowered.fused]
    return "\n\n".join([lowered.code.strip(), str(lowered.explain()), "\n".join(works)])


# Functions that are captured ----------------------------------------------------------------------


def training(model: nn.Module, optimizer: Any, *inputs: Any) -> Any:
    def step(*inputs: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(*inputs[:-1]), inputs[-1])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step, inputs


class Normalized(nn.Module):
    """A layer norm, written from ops: to see how they are fused."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))

    def forward(self, x: Any) -> Any:
        centered = x - x.mean(1, keepdim=True)
        variance = (centered * centered).mean(1, keepdim=True)
        return centered / (variance + 1e-5).sqrt() * self.weight + self.bias


class Running(nn.Module):
    """Divides by a running maximum: a buffer that each call writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("largest", torch.ones(2, 1, 1))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            self.largest.mul_(0.9).add_(x.abs().amax((0, 2, 3)).reshape(2, 1, 1), alpha=0.1)
            self.count += 1
        return x / self.largest


def classifier() -> Any:
    model = nn.Sequential(nn.Linear(12, 8, bias=False), Normalized(), nn.GELU(),
                          nn.Linear(8, 3, bias=False))  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return training(model, optimizer, torch.randn(16, 12), torch.arange(16) % 3)


def loop() -> Any:
    from tests.compilation.test_batch_matmul_pass import Recurrent

    model = Recurrent()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return training(model, optimizer, torch.randn(3, 4, 5), torch.arange(3))


def attention() -> Any:
    from tests.compilation.test_batch_matmul_pass import Attention

    model = Attention()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, (torch.randn(2, 6, 16),)


def convolution() -> Any:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), Running(), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(18, 3))  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01)
    return training(model, optimizer, torch.randn(4, 1, 8, 8), torch.arange(4) % 3)


def differentiable() -> Any:
    def part(a: Any, b: Any) -> Any:
        return (a * b).sin(), (a @ b.t()).sum(), b.detach() * 2

    return part, (torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True))


def written() -> Any:
    state = torch.zeros(4, 2)

    def function(x: Any, at: Any) -> Any:
        state[at] = x
        state[:, 1].mul_(2)
        return state.sum(0), x.clamp(min=0), x.flip(0).cumsum(0)

    return function, (torch.ones(2), torch.tensor(1))


PROGRAMS: dict[str, Callable[[], Any]] = {
    "classifier": classifier, "loop": loop, "attention": attention, "convolution": convolution,
    "differentiable": differentiable, "written": written,
}  # fmt: skip


def of_program(name: str) -> str:
    """Return the graphs of a captured function, its code, and its explanation."""
    torch.manual_seed(0)
    with written_only():
        function, inputs = PROGRAMS[name]()
        compiled = torch.compile(function, fullgraph=True)
        for _ in range(3):
            compiled(*inputs)
        (entry,) = compiled.entries
        captured = entry.captured
        graphs = [captured.graph, *([captured.backward.graph] if captured.backward else [])]
        texts = ["\n".join(map(noted, graph.nodes)) for graph in graphs]
        return "\n\n".join([*texts, compiled.code, compiled.explain()])


def noted(node: Any) -> str:
    """Return a node with the known properties of its result."""
    known = {
        name: node.meta[name]
        for name in ("shape", "dtype", "phase", "number", "tuple", "random")
        if name in node.meta
    }
    facts = " ".join(f"{name}={value}" for name, value in known.items())
    target = getattr(node.target, "__name__", node.target)
    return f"{node.name} = {node.op} {target} {node.args} {node.kwargs} {facts}"


def text_of(name: str) -> str:
    """Return the content of a golden file."""
    text = of_graph(name) if name in GRAPHS else of_program(name)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def path_of(name: str) -> Path:
    return FOLDER / f"{name.replace(' ', '_')}.txt"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in (*GRAPHS, *PROGRAMS):
        path_of(name).write_text(text_of(name), encoding="utf-8")


if __name__ == "__main__":
    main()
