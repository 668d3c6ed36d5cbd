"""What compiling gains: whole training steps (forward, backward, optimizer) compiled together.

The steps are those of `workloads.py`. Each is run eager and compiled, by edutorch and by PyTorch,
whose compiler is only asked where `--peers torch.compile` says so: it takes minutes.
"""

from __future__ import annotations

import argparse
import importlib
from types import ModuleType

from . import report
from .timing import Result, Work, contest
from .workloads import WORKLOADS, Workload, same

GOALS = {"scalars": 0.05, "mlp": 0.35, "wide": 0.4, "gpt64": 0.5, "lstm-ops": 0.5}
"""The ratio to PyTorch's eager mode that we hold ourselves to, by workload."""
US, OURS, EAGER, PEER = "edutorch", "compiled", "PyTorch", "torch.compile"
WARM = 4
"""The first call captures, and the others run what nothing has to be waited for any more."""


def rivals(workload: Workload, peers: tuple[str, ...]) -> dict[str, Work]:
    """Return who takes part, each warm."""
    import edutorch

    found = {US: warm(workload.build(edutorch, same))}
    found[OURS] = compiled(edutorch, workload)
    torch = report.peer()
    if torch is not None:
        found[EAGER] = warm(workload.build(torch, same))
        if PEER in peers:
            found[PEER] = compiled(torch, workload)
    return found


def compiled(library: ModuleType, workload: Workload) -> Work:
    """Return a workload's step, compiled as a whole, with all its kernels there."""
    step = warm(library.compile(workload.build(library, same)))
    if library.__name__ == "edutorch":
        importlib.import_module("edutorch.compiling.workshop").wait_for_all()
    return warm(step)


def warm(step: Work) -> Work:
    for _ in range(WARM):
        step()
    return step


def run(options: argparse.Namespace) -> str:
    """Measure all steps and return the report."""
    rows = []
    for key, goal in GOALS.items():
        if options.only and key not in options.only:
            continue
        workload = WORKLOADS[key]
        found = rivals(workload, options.peers)
        result = contest(found, options.rounds or 9, seconds=0.05, budget=options.budget or 8.0)
        row = [workload.name]
        row += [milliseconds(result, each) for each in (US, OURS, EAGER, PEER)]
        row += [ratio(result, each) for each in (US, PEER, EAGER)]
        rows.append([*row, f"{goal:.2f}"])
        print(f"{workload.name}: {row[2]} ms, {row[-2]} of PyTorch's time", flush=True)
    head = ("ms", US, OURS, EAGER, PEER, "/ edutorch", "/ torch.compile", "/ PyTorch", "goal")
    return report.table(head, rows)


def milliseconds(result: Result, name: str) -> str:
    return f"{result.median(name) * 1e3:.3f}" if name in result.samples else "-"


def ratio(result: Result, against: str) -> str:
    return f"{result.ratio(OURS, against):.2f}" if against in result.samples else "-"
