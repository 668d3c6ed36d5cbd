"""How time grows with batch, width, depth and length, and with which power in the end."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from . import report, workloads
from .peers import EAGER, US
from .train import measure
from .workloads import Build, Workload

HALF = 3  # the exponent is fitted to so many of the largest sizes


@dataclass
class Curve:
    """Seconds per step of each rival, by size."""

    what: str
    sizes: list[int]
    times: dict[str, list[float]]

    def exponent(self, rival: str) -> float:
        """Return the p of time ~ sizeᵖ, fitted where the sizes are large."""
        x, y = np.log(self.sizes[-HALF:]), np.log(self.times[rival][-HALF:])
        return float(np.polyfit(x, y, 1)[0])


CURVES: dict[str, tuple[str, tuple[int, ...], Callable[[int], Build]]] = {
    "MLP, 256 wide, by batch": (
        "batch", (1, 8, 64, 256, 1024), lambda n: workloads.mlp(n, 784, 256, 256, 10),
    ),
    "MLP, batch 64, by width": (
        "width", (16, 64, 256, 512, 1024), lambda n: workloads.mlp(64, 784, n, n, 10),
    ),
    "MLP, 64 wide, by depth": (
        "layers", (2, 8, 32, 64, 128), lambda n: workloads.mlp(64, *([64] * n), 10),
    ),
    "GPT, batch 4, by length": (
        "tokens", (16, 32, 64, 128, 256), lambda n: workloads.gpt(n, batch=4),
    ),
    "LSTM of cells, by length": (
        "steps", (4, 8, 16, 32, 64), lambda n: workloads.lstm("cell", n),
    ),
}  # fmt: skip


def run(options: argparse.Namespace) -> str:
    """Measure all curves, draw them, and return the report."""
    report.peer()
    report.ready()
    curves, rows = {}, []
    for title, (what, sizes, build) in CURVES.items():
        chosen = list(sizes[-HALF:] if options.quick else sizes)
        curve = Curve(what, chosen, {})
        ratios = []
        for size in chosen:
            workload = Workload(f"{title} {size}", build(size))
            result, _ = measure("", workload, (US, EAGER), 7, options.budget / 4)
            for rival in result.samples:
                curve.times.setdefault(rival, []).append(result.median(rival))
            ratios.append(result.ratio(US, EAGER) if EAGER in result.samples else float("nan"))
        curves[title] = curve
        row = [title, ", ".join(map(str, chosen)), ", ".join(f"{ratio:.2f}" for ratio in ratios)]
        row += [f"{curve.exponent(time):.2f}" for time in curve.times]
        rows.append(row + ["-"] * (5 - len(row)))
        print(*row, sep="; ", flush=True)
    from . import charts

    charts.curves("scaling", curves)
    header = ["time of a step", "sizes", "ratios to PyTorch", "our exponent", "PyTorch's"]
    return report.table(header, rows)
