"""What a step costs: whole training steps, and long chains of numbers, by `workloads.py`.

All libraries run the same lines; only the name `torch` stands for another one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from . import report
from .floors import floor, operations_of, products
from .peers import EAGER, NAMES, US, rivals
from .spent import spent
from .timing import Result, contest
from .workloads import CHAIN_WORKLOADS, WORKLOADS, Workload


def measure(
    key: str, workload: Workload, peers: tuple[str, ...], rounds: int, budget: float
) -> tuple[Result, float | None]:
    """Let all peers run one workload in turns; also return its floor, if it has one."""
    steps = rivals(key, workload, peers)
    operations = operations_of(steps.get(EAGER))
    result = contest(steps | products(steps, operations), rounds, seconds=0.05, budget=budget)
    return result, floor(result, operations)


def table(
    results: dict[str, Result],
    workloads: dict[str, Workload],
    floors: Mapping[str, float | None] | None = None,
) -> str:
    """Lay out what was found: ms per step, and each ratio to PyTorch's eager mode."""
    floors = floors or {}
    last = ["ratio", *(["floor"] if any(floors.values()) else []), "goal"]
    others = [
        name for name in NAMES[2:] if any(name in result.samples for result in results.values())
    ]
    rows = []
    for key, result in results.items():
        row = [workloads[key].name, milliseconds(result, US), milliseconds(result, EAGER)]
        row += [milliseconds(result, name) for name in others]
        columns = {"ratio": ratio(result), "floor": two_digits(floors.get(key)),
                 "goal": two_digits(workloads[key].goal)}  # fmt: skip
        rows.append(row + [columns[column] for column in last])
    return report.table(["ms", US, EAGER, *others, *last], rows)


def two_digits(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


def milliseconds(result: Result, name: str) -> str:
    return f"{result.median(name) * 1e3:.3f}" if name in result.samples else "-"


def ratio(result: Result) -> str:
    return two_digits(result.ratio(US, EAGER)) if EAGER in result.samples else "-"


def measure_all(
    options: argparse.Namespace, workloads: dict[str, Workload]
) -> tuple[dict[str, Result], dict[str, float | None], dict[str, float]]:
    """Measure what is chosen; also return the floors, and the ratios, for the chart."""
    report.peer()
    report.ready()
    results, floors = {}, {}
    for key, workload in workloads.items():
        if not options.only or key in options.only:
            results[key], floors[key] = measure(
                key, workload, options.peers, options.rounds, options.budget
            )
            print(f"{workload.name}: {milliseconds(results[key], US)} ms, "
                  f"{ratio(results[key])} of PyTorch's time", flush=True)  # fmt: skip
    ratios = {
        workloads[key].name: result.ratio(US, EAGER)
        for key, result in results.items()
        if EAGER in result.samples
    }
    return results, floors, ratios


def run(options: argparse.Namespace) -> str:
    """Measure the training steps and return the report."""
    return measured_table(options, WORKLOADS, "train", "a training step")


def run_chains(options: argparse.Namespace) -> str:
    """Measure the chains and return the report."""
    return measured_table(options, CHAIN_WORKLOADS, "chains", "forward and backward")


def measured_table(
    options: argparse.Namespace, workloads: dict[str, Workload], name: str, what: str
) -> str:
    results, floors, ratios = measure_all(options, workloads)
    if ratios and not options.only:  # a part must not replace the chart of all
        from . import charts

        goals = {workload.name: workload.goal for workload in workloads.values()}
        charts.ratios(name, f"Time for {what}, PyTorch eager = 1", ratios, goals)
    missed = [
        workloads[key]
        for key, result in results.items()
        if (workloads[key].goal or 99) < ratios.get(workloads[key].name, 0)
    ]
    parts = [f"ms for {what}:", table(results, workloads, floors), *map(spent, missed)]
    return "\n\n".join(parts)
