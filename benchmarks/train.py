"""What a training step costs: forward, cross entropy, zero_grad, backward, Adam's step.

Both libraries run the same lines; only the name `torch` stands for another one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

from . import report
from .timing import Work, contest


def mlp(*sizes: int) -> Callable[[Any], Any]:
    """Linear layers with ReLU between them."""

    def build(nn: Any) -> Any:
        layers = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    return build


def cnn(nn: Any) -> Any:
    """Two strided convolutions and a linear layer, for 28x28 images."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
    )  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One network and the shape of its batch. The first one has to be met: see README.md."""

    name: str
    build: Callable[[Any], Any]
    batch: tuple[int, ...]


CASES = {
    "mlp": Case("MLP 784-128-10", mlp(784, 128, 10), (64, 784)),
    "wide": Case("MLP 784-1024-1024-10", mlp(784, 1024, 1024, 10), (256, 784)),
    "cnn": Case("CNN 16-32, 28x28", cnn, (64, 1, 28, 28)),
}


def prepare(torch: ModuleType, case: Case) -> Work:
    """Return a function that takes one training step."""
    torch.manual_seed(0)
    numbers = np.random.default_rng(0)
    images = torch.tensor(numbers.normal(size=case.batch).astype(np.float32))
    labels = torch.tensor(numbers.integers(0, 10, case.batch[0]))
    model = case.build(torch.nn)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_function = torch.nn.CrossEntropyLoss()

    def step() -> None:
        loss = loss_function(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def run(options: argparse.Namespace) -> str:
    """Measure all networks and return the report."""
    import edutorch

    torch = report.peer()
    rows = []
    for name, case in CASES.items():
        if options.only and name not in options.only:
            continue
        rivals = {"edutorch": prepare(edutorch, case)}
        if torch is not None:
            rivals["PyTorch"] = prepare(torch, case)
        result = contest(rivals, options.rounds, seconds=0.1)
        row = [case.name, str(case.batch[0]), f"{result.median('edutorch') * 1e3:.3f}"]
        if torch is not None:
            row += [f"{result.median('PyTorch') * 1e3:.3f}"]
            row += [f"{result.ratio('edutorch', 'PyTorch'):.2f}"]
        rows.append(row + ["-"] * (5 - len(row)))
    return "ms per training step:\n\n" + report.table(
        ("network", "batch", "edutorch", "PyTorch", "ratio"), rows
    )
