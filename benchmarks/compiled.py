"""What compiling gains: whole training steps (forward, backward, optimizer) compiled together.

Where JAX is installed, they are compiled by XLA, too. The steps are those of `workloads.py`, each
run eager and compiled, by edutorch and by PyTorch in a process of its own, whose compiler is only
asked where `--peers torch.compile` says so: it takes minutes. Of a step that misses its goal it is
shown how long its slowest parts take.

With `--calls` it is the everyday calls of `call_list.py` instead, each as a function of its own,
beside eager: what compiling costs where there is nothing to gain.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import statistics
from collections import Counter
from contextlib import ExitStack
from time import sleep
from typing import Any

from . import calls, report
from .apart import COMPILED_STEP, EAGER, Apart
from .floors import floor, operations_of, products
from .timing import Result, Work, contest
from .train import two_digits
from .workloads import WORKLOADS, Change, Workload, same

GOALS = {"scalars": 0.05, "mlp": 0.35, "wide": 0.4, "gpt64": 0.5, "lstm-ops": 0.5}
"""The ratio to PyTorch's eager mode that we hold ourselves to, by workload."""
US, OURS, PEER, XLA = "edutorch", "compiled", "torch.compile", "by XLA"
SLOWEST, STEPS = 8, 20
"""Of a step that misses its goal, so many parts are shown, timed in so many steps."""

CHECKED_CALLS = 3
"""So many times four calls are made before single calls are timed."""

WARM = 4
"""The first call captures, and the others run what nothing has to be waited for any more."""


def rivals(key: str, workload: Workload, peers: tuple[str, ...]) -> dict[str, Work]:
    """Return who takes part, each warm."""
    import edutorch

    steps = {US: warm(workload.build(edutorch, same)), OURS: compiled(workload)}
    if importlib.util.find_spec("jax") is not None:
        steps[XLA] = warm(edutorch.compile(workload.build(edutorch, same), backend="jax"))
    if report.peer() is not None:
        steps[EAGER] = warm(Apart(key, EAGER))
        if PEER in peers:
            steps[PEER] = warm(Apart(key, COMPILED_STEP))
    return steps


def compiled(workload: Workload) -> Work:
    """Return a workload's step, compiled as a whole, with all its kernels there."""
    import edutorch
    from edutorch.compilation.kernel_cache import wait_for_all

    step = warm(edutorch.compile(workload.build(edutorch, same)))
    wait_for_all()
    return warm(step)


def warm(step: Work) -> Work:
    for _ in range(WARM):
        step()
    return step


def run(options: argparse.Namespace) -> str:
    """Measure all steps, or single calls, and return the report."""
    if options.calls:
        return measure_calls(options)
    rows, missed = [], []
    for key, goal in GOALS.items():
        if options.only and key not in options.only:
            continue
        workload = WORKLOADS[key]
        steps = rivals(key, workload, options.peers)
        operations = operations_of(steps.get(EAGER))
        everyone = steps | products(steps, operations)
        result = contest(everyone, options.rounds or 9, seconds=0.05, budget=options.budget or 8.0)
        row = [workload.name]
        row += [milliseconds(result, rival) for rival in (US, OURS, XLA, EAGER, PEER)]
        row += [ratio(result, rival) for rival in (US, PEER, EAGER)]
        row.append(ratio(result, EAGER, XLA))
        print(f"{workload.name}: {row[2]} ms, {row[-2]} of PyTorch's time", flush=True)
        rows.append([*row, two_digits(floor(result, operations)), two_digits(goal)])
        if EAGER in result.samples and result.ratio(OURS, EAGER) > goal:
            missed.append(slowest(workload.name, steps[OURS]))
    head = ("ms", US, OURS, XLA, EAGER, PEER, "/ edutorch", "/ torch.compile", "/ PyTorch",
            "XLA / PyTorch", "floor", "goal")  # fmt: skip
    return "\n\n".join([report.table(head, rows), *missed])


LIMIT = 1.03
"""So much of eager's time a compiled call may take."""


def measure_calls(options: argparse.Namespace) -> str:
    """Time each everyday call compiled beside eager, and return those that take longer."""
    ratios, lines = [], []
    for row in calls.rows(tuple(options.calls), options.only):
        result = contest_of_call(row, options)
        if result.ratio(OURS, US) > LIMIT:  # new tensors lie elsewhere: the median of three counts
            results = [result, contest_of_call(row, options), contest_of_call(row, options)]
            result = sorted(results, key=lambda result: result.ratio(OURS, US))[1]
        ratios.append(result.ratio(OURS, US))
        if ratios[-1] > LIMIT:
            times = [f"{result.median(rival) * 1e6:.1f}" for rival in (US, OURS)]
            lines.append([f"`{row.removeprefix('calls/')}`", *times, f"{ratios[-1]:.2f}"])
    lines.sort(key=lambda line: -float(line[-1]))
    head = ["call, µs", US, OURS, "/ edutorch"]
    share = sum(ratio <= LIMIT for ratio in ratios) / len(ratios)
    text = f"{len(ratios)} calls: median {statistics.median(ratios):.3f}, {share:.0%} <= {LIMIT}"
    return f"{text}\n\n{report.table(head, lines)}"


def contest_of_call(row: str, options: argparse.Namespace) -> Result:
    """Time a call compiled beside eager."""
    import edutorch

    steps = {US: warm_call(row, as_written), OURS: warm_call(row, edutorch.compile)}
    return contest(steps, options.rounds or 5, calls.SECONDS, calls.BUDGET)


def as_written(function: Work) -> Work:
    return function


def warm_call(row: str, change: Change) -> Work:
    """Return a call as a function, compiled or not, with its kernels, and with the checks over."""
    import edutorch
    from edutorch.compilation.kernel_cache import wait_for_all
    from edutorch.utils.process import compiler

    step = calls.work_of(edutorch, row, change)
    for _ in range(CHECKED_CALLS):
        warm(step)
    wait_for_all()
    while compiler.is_busy:  # with a kernel of eager's
        sleep(0.01)
    return warm(step)


def slowest(name: str, step: Any) -> str:
    """Return which functions the code of a compiled step calls, and how long they take."""
    calls, seconds = Counter[str](), Counter[str]()
    with ExitStack() as stack:
        runs = [run for entry in step.entries[:1] for _, run in entry.runs()]
        timings = [stack.enter_context(run.wait().timed()) for run in runs]
        for _ in range(STEPS):
            step()
    for line, time in (pair for timing in timings for pair in timing.medians.items()):
        function = called(line)
        calls[function] += 1
        seconds[function] += time
    whole = sum(seconds.values())
    rows = [
        [f"`{function}`", str(calls[function]), f"{time * 1e6:.0f}", f"{time / whole:.0%}"]
        for function, time in seconds.most_common(SLOWEST)
    ]
    head = ["of a step, compiled", "calls", "µs", "share"]
    return f"{name}, compiled, misses its goal:\n\n{report.table(head, rows)}"


def called(line: str) -> str:
    """Return the function that a line of compiled code calls, without the number in its name.

    >>> called("attend_3 = attend_1(q.transpose(), k)"), called("fused_2(x, y)  # tanh mul")
    ('attention_forward', 'fused')
    """
    match = re.match(r"(?:[\w, ]+ = )?([\w.]+)\(", line)
    return re.sub(r"_\d+$", "", match[1]) if match else "views and numbers"


def milliseconds(result: Result, name: str) -> str:
    return f"{result.median(name) * 1e3:.3f}" if name in result.samples else "-"


def ratio(result: Result, against: str, name: str = OURS) -> str:
    known = against in result.samples and name in result.samples
    return f"{result.ratio(name, against):.2f}" if known else "-"
