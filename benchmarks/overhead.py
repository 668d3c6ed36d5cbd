"""What an op costs when the tensors are tiny: everything but the arithmetic.

A case is an expression of the leaf or last result `x`, a second leaf `w` and a plain
tensor `c`. It runs 20 times: as a chain where the result can be put in again
(`x = x * w`), else side by side. Reported is the time of one:

    forward     build and record, then let the graph go
    backward    the same and one backward through all 20

Everything that can require a gradient does. Beside it is what NumPy takes to compute the numbers,
on bare arrays, in the same rounds: no library that computes with NumPy is faster than that.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy

from . import report
from .timing import Result, Work, contest, geometric_mean

LENGTH = 20
SIZES = {1: (1, 1), 64: (8, 8)}  # how many numbers, and the matrix that holds them


@dataclass(frozen=True)
class Case:
    """One op: an expression, the same for NumPy, and whether its results can form a chain."""

    name: str
    expression: str
    numpy: str = ""
    chain: bool = True
    matrix: bool = False


CASES = (
    Case("add", "x + w"),
    Case("sub", "x - w"),
    Case("mul", "x * w"),
    Case("div", "x / w"),
    Case("mul by a number", "x * 1.0"),
    Case("pow 2", "x ** 2"),
    Case("exp", "torch.exp(x)", "numpy.exp(x)", chain=False),
    Case("tanh", "torch.tanh(x)", "numpy.tanh(x)"),
    Case("sigmoid", "torch.sigmoid(x)", "1 / (1 + numpy.exp(-x))"),
    Case("relu", "torch.relu(x)", "numpy.maximum(x, 0)"),
    Case("sum", "x.sum()", chain=False),
    Case("mean", "x.mean()", chain=False),
    Case("matmul", "x @ w", matrix=True),
    Case("linear", "torch.nn.functional.linear(x, w, b)", "x @ w.T + b", matrix=True),
    Case("reshape", "x.reshape(shape)"),
    Case("transpose", "x.transpose(0, 1)", matrix=True),
    Case("getitem", "x[0]", chain=False),
    Case("cat", "torch.cat((x, c))", "numpy.concatenate((x, c))", chain=False),
)


def source(case: Case) -> str:
    """Write the two functions that are timed, as one would by hand."""
    step = f"x = {case.expression}" if case.chain else f"ys.append({case.expression})"
    start = "" if case.chain else "    ys = []\n"
    end = "x.backward(g)" if case.chain else "backward(ys, gs)"
    body = f"{start}    for _ in range({LENGTH}):\n        {step}\n"
    return (
        f"def forward(x=x):\n{body}\n"
        f"def both(x=x):\n    x.grad = w.grad = b.grad = None\n{body}    {end}\n"
    )


def prepare(torch: ModuleType, case: Case, size: int) -> dict[str, Work]:
    """Compile the case for one library."""
    shape = SIZES[size] if case.matrix else (size,)
    scope: dict[str, Any] = {"torch": torch, "shape": shape, "backward": torch.autograd.backward}
    scope["x"] = torch.ones(shape, requires_grad=True)
    scope["w"] = torch.eye(*shape) if case.matrix else torch.ones(shape)
    scope["w"].requires_grad_()
    scope["b"] = torch.zeros(shape[-1], requires_grad=True)
    scope["c"] = torch.ones(shape)
    exec(source(case), scope)
    result = eval(case.expression, scope)
    scope["g"] = torch.ones(tuple(result.shape))
    scope["gs"] = [scope["g"]] * LENGTH
    return {"forward": scope["forward"], "backward": scope["both"]}


def prepare_numpy(case: Case, size: int) -> Work:
    """Compile the case for bare arrays."""
    shape = SIZES[size] if case.matrix else (size,)
    scope: dict[str, Any] = {"numpy": numpy, "shape": shape}
    scope |= {name: numpy.ones(shape, "f4") for name in ("x", "w", "c")}
    scope["b"] = numpy.zeros(shape[-1], "f4")
    alone = Case(case.name, case.numpy or case.expression, chain=case.chain)
    exec(source(alone).partition("def both")[0], scope)
    return scope["forward"]


def measure(case: Case, size: int, rounds: int, torch: ModuleType | None) -> dict[str, Result]:
    """Let both libraries run a case: one result for each direction."""
    import edutorch

    libraries = {"edutorch": edutorch} | ({"PyTorch": torch} if torch else {})
    prepared = {name: prepare(library, case, size) for name, library in libraries.items()}
    prepared["NumPy"] = dict.fromkeys(("forward", "backward"), prepare_numpy(case, size))
    return {
        direction: contest(
            {name: works[direction] for name, works in prepared.items()}, rounds, seconds=0.002
        )
        for direction in ("forward", "backward")
    }


def run(options: argparse.Namespace) -> str:
    """Measure all cases and return the report."""
    torch = report.peer()
    chosen = [case_ for case_ in CASES if not options.only or case_.name in options.only]
    parts = []
    for size in options.sizes:
        rows, ratios = [], {"forward": [], "backward": []}
        for case in chosen:
            results = measure(case, size, options.rounds, torch)
            row = [case.name, f"`{case.expression}`", of_one(results["forward"], "NumPy")]
            for direction, result in results.items():
                row.append(of_one(result, "edutorch"))
                if torch is None:
                    row += ["-", "-"]
                    continue
                ratios[direction].append(result.ratio("edutorch", "PyTorch"))
                row += [of_one(result, "PyTorch"), f"{ratios[direction][-1]:.2f}"]
            rows.append(row)
        if torch is not None:
            rows += summary(ratios)
        parts.append(f"{size} number{'s' if size > 1 else ''} per tensor, µs per op:\n")
        parts[-1] += "\n" + report.table(HEADER, rows)
    return "\n\n".join(parts)


HEADER = (
    "op", "expression", "NumPy alone", "forward", "PyTorch", "ratio", "forward + backward",
    "PyTorch", "ratio",
)  # fmt: skip


def of_one(result: Result, name: str) -> str:
    """The time of one op in µs."""
    return f"{result.median(name) / LENGTH * 1e6:.2f}"


def summary(ratios: dict[str, list[float]]) -> list[list[str]]:
    """Return the last two rows: the middle of all ratios."""
    rows = []
    for name, middle in (("median", statistics.median), ("geometric mean", geometric_mean)):
        values = [f"{middle(ratio):.2f}" for ratio in ratios.values()]
        rows.append([f"**{name}**", "", "", "", "", values[0], "", "", values[1]])
    return rows
