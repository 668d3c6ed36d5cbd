"""Exported C++ beside eager mode: `python -m benchmarks cpp`.

Forward passes of networks, the program of `edutorch.export.cpp` compiled by g++ -O3 without further
flags. It computes in one thread.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import edutorch
from edutorch.export import cpp, export

from . import networks, report
from .timing import Result, contest

CASES = {
    "LeNet, 8 images": (networks.lenet, (8, 1, 28, 28)),
    "MLP 784-256-10, 64 rows": (lambda torch: networks.mlp(torch, 784, 256, 10), (64, 784)),
}
"""Each network, made by either library, and the shape of its input."""

HEADER = ("network", "C++ ms", "with OpenBLAS", "edutorch ms", "PyTorch ms", "C++ / PyTorch")


class Compiled:
    """An exported program in its own process, as a rival."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder, self.program = folder, folder / f"main{len(flags)}"
        source = str(folder / "main.cpp")
        command = ["g++", "-std=c++17", "-O3", source, "-o", str(self.program), *flags]
        subprocess.run(command, check=True, capture_output=True)

    def __call__(self) -> None:
        self.sample(1)

    def sample(self, number: int) -> float:
        """Run the program so often, and return the seconds."""
        command = [str(self.program), str(self.folder), str(number)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return float(printed.splitlines()[-1].split()[0]) / 1e3 * number


def forward(torch: ModuleType, model: Any, *shape: int) -> Any:
    """Return what computes a model's result without gradients."""
    x = torch.randn(*shape)

    def work() -> None:
        with torch.no_grad():
            model(x)

    return work


def rivals(make: Any, shape: tuple[int, ...], folder: Path) -> dict[str, Any]:
    """Return the rivals for one network."""
    model = make(edutorch).eval()
    cpp(export(model, (edutorch.randn(*shape),)), folder, name="net")
    rival_works: dict[str, Any] = {"C++": Compiled(folder)}
    try:
        rival_works["with OpenBLAS"] = Compiled(folder, "-DEDU_USE_CBLAS", "-lopenblas")
    except subprocess.CalledProcessError:
        print("no OpenBLAS with cblas.h here: its column is left empty")
    rival_works["edutorch"] = forward(edutorch, model, *shape)
    torch = report.peer()
    if torch is not None:
        rival_works["PyTorch"] = forward(torch, make(torch).eval(), *shape)
    return rival_works


def row(label: str, result: Result) -> tuple[str, ...]:
    """Return the row of a network."""
    names = ("C++", "with OpenBLAS", "edutorch", "PyTorch")
    times = [f"{result.median(n) * 1e3:.3f}" if n in result.samples else "" for n in names]
    has_peer = "PyTorch" in result.samples
    return label, *times, f"{result.ratio('C++', 'PyTorch'):.2f}" if has_peer else ""


def run(options: argparse.Namespace) -> str:
    """Measure all networks, and return the table."""
    if shutil.which("g++") is None:
        return "there is no g++ here"
    report.ready()
    rows = []
    for label, (make, shape) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            result = contest(rivals(make, shape, Path(folder)), options.rounds, 0.2)
        rows.append(row(label, result))
    return report.table(HEADER, rows)
