"""What compiling gains: whole training steps (forward, backward, optimizer) compiled together.

The steps are those of `workloads.py`. Each is run eager and compiled, by edutorch and by PyTorch in
a process of its own, whose compiler is only asked where `--peers torch.compile` says so: it takes
minutes.
"""

from __future__ import annotations

import argparse

from . import report
from .apart import COMPILED_STEP, EAGER, Apart
from .timing import Result, Work, contest
from .workloads import WORKLOADS, Workload, same

GOALS = {"scalars": 0.05, "mlp": 0.35, "wide": 0.4, "gpt64": 0.5, "lstm-ops": 0.5}
"""The ratio to PyTorch's eager mode that we hold ourselves to, by workload."""
US, OURS, PEER = "edutorch", "compiled", "torch.compile"
WARM = 4
"""The first call captures, and the others run what nothing has to be waited for any more."""


def rivals(key: str, workload: Workload, peers: tuple[str, ...]) -> dict[str, Work]:
    """Return who takes part, each warm."""
    import edutorch

    found = {US: warm(workload.build(edutorch, same)), OURS: compiled(workload)}
    if report.peer() is not None:
        found[EAGER] = warm(Apart(key, EAGER))
        if PEER in peers:
            found[PEER] = warm(Apart(key, COMPILED_STEP))
    return found


def compiled(workload: Workload) -> Work:
    """Return a workload's step, compiled as a whole, with all its kernels there."""
    import edutorch
    from edutorch.compiling.workshop import wait_for_all

    step = warm(edutorch.compile(workload.build(edutorch, same)))
    wait_for_all()
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
        found = rivals(key, workload, options.peers)
        result = contest(found, options.rounds or 9, seconds=0.05, budget=options.budget or 8.0)
        row = [workload.name]
        row += [milliseconds(result, each) for each in (US, OURS, EAGER, PEER)]
        row += [ratio(result, each) for each in (US, PEER, EAGER)]
        rows.append([*row, f"{goal:.2f}"])
        print(f"{workload.name}: {row[2]} ms, {row[-1]} of PyTorch's time", flush=True)
    head = ("ms", US, OURS, EAGER, PEER, "/ edutorch", "/ torch.compile", "/ PyTorch", "goal")
    return report.table(head, rows)


def milliseconds(result: Result, name: str) -> str:
    return f"{result.median(name) * 1e3:.3f}" if name in result.samples else "-"


def ratio(result: Result, against: str) -> str:
    return f"{result.ratio(OURS, against):.2f}" if against in result.samples else "-"
