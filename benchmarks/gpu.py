"""A training step on a GPU in eager mode, here and in PyTorch: the workloads of `train`.

Both libraries run the same lines in this process, in turns; the host waits for the GPU once per
sample. `gpu.sh` runs this and the tests on a machine that has a GPU.
"""

from __future__ import annotations

import argparse
import importlib
from time import perf_counter
from types import ModuleType
from typing import Any

from . import report
from .peers import EAGER, US
from .timing import Result, Work, contest
from .workloads import WORKLOADS, Workload, same

CHOSEN = ("mlp", "wide", "cnn", "gpt64", "lstm", "resnet", "vae", "dqn")
DEVICE = "cuda"


class Queued:
    """Work for the GPU, which the host waits for only at the end of a sample."""

    def __init__(self, torch: ModuleType, workload: Workload) -> None:
        self.torch = torch
        torch.set_default_device(DEVICE)
        try:
            self.step = workload.build(torch, same)
        finally:
            torch.set_default_device("cpu")

    def __call__(self) -> Any:
        self.sample(1)

    def sample(self, number: int) -> float:
        """Run the work so many times; return the seconds until the GPU has done it."""
        self.torch.set_default_device(DEVICE)
        try:
            self.torch.cuda.synchronize()
            start = perf_counter()
            for _ in range(number):
                self.step()
            self.torch.cuda.synchronize()
            return perf_counter() - start
        finally:
            self.torch.set_default_device("cpu")


def run(options: argparse.Namespace) -> str:
    """Measure the steps and return the table."""
    import edutorch

    if not edutorch.cuda.is_available():
        return "no GPU here: nothing measured"
    libraries = {US: edutorch, EAGER: importlib.import_module("torch")}
    rows = []
    for key in options.only or CHOSEN:
        works: dict[str, Work] = {}
        for name, library in libraries.items():
            try:
                works[name] = Queued(library, WORKLOADS[key])
                works[name]()
            except Exception as error:  # noqa: BLE001  the other rows are measured all the same
                works.pop(name, None)
                print(f"{key}: {name} fails: {type(error).__name__}: {error}", flush=True)
        result = contest(works, options.rounds, seconds=0.1, budget=options.budget)
        rows.append(row(WORKLOADS[key].name, result))
        print(rows[-1], flush=True)
    name = edutorch.cuda.get_device_name()
    return f"ms for a training step on {name}:\n\n" + report.table(["ms", US, EAGER, "ratio"], rows)


def row(name: str, result: Result) -> list[str]:
    times = [
        f"{result.median(peer) * 1e3:.3f}" if peer in result.samples else "-"
        for peer in (US, EAGER)
    ]
    ratio = f"{result.ratio(US, EAGER):.2f}" if len(result.samples) == 2 else "-"
    return [name, *times, ratio]


def memory(steps: int = 5000) -> None:
    """Print the GPU's memory in use after a tenth of many training steps, and after all."""
    import edutorch

    work = Queued(edutorch, WORKLOADS["mlp"])
    for part, number in (("a tenth", steps // 10), ("all", steps - steps // 10)):
        work.sample(number)
        used = edutorch.cuda.memory_allocated()
        print(f"after {part} of {steps:,} steps: {used:,} bytes in use", flush=True)
