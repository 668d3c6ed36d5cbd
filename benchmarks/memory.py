"""The peak memory of a training step, each measurement in a process of its own.

requested   the most that lived at once of what the library asked for, from the making of
            the model on: parameters, gradients, optimizer state, activations, scratch.
            Ours: `tracemalloc` (NumPy's arrays, and every Python object). PyTorch's: its
            profiler's memory events, without what oneDNN and MKL take for themselves.
resident    the most that the kernel counted (VmHWM) in later steps, less what the process
            had after importing the library and loading its kernels.
process     that peak as a whole: what the machine has to have.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from importlib import import_module
from typing import Any

from . import report
from .peers import EAGER, US

KEYS = ("mlp", "wide", "cnn", "gpt64", "lstm-cell", "lstm", "resnet", "vae")
STEPS = 4
MODULES = {US: "edutorch", EAGER: "torch"}


def status(field: str) -> float:
    """Return a field of this process's status in MiB."""
    with open("/proc/self/status") as lines:
        line = next(line for line in lines if line.startswith(field))
    return int(line.split()[1]) / 2**10


def resident(torch: Any, key: str) -> dict[str, float]:
    """Take some steps, then ask the kernel for the most that the next ones had."""
    from . import networks
    from .workloads import WORKLOADS, classifier, mlp, same

    if torch.__name__ == "edutorch":
        report.ready()
    tiny = classifier(lambda torch: networks.resnet(torch, (4, 8), 1), 2, 3, 8, 8)
    for build in (mlp(2, 4, 4), tiny):
        build(torch, same)()
    before = status("VmRSS")
    step = WORKLOADS[key].build(torch, same)
    for _ in range(STEPS):
        step()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # VmHWM begins anew
    for _ in range(STEPS):
        step()
    peak = status("VmHWM")
    return {"resident": peak - before, "process": peak}


def requested_by_us(torch: Any, key: str) -> dict[str, float]:
    import tracemalloc

    from .workloads import WORKLOADS, same

    report.ready()
    tracemalloc.start()
    step = WORKLOADS[key].build(torch, same)
    for _ in range(STEPS):
        step()
    tracemalloc.reset_peak()
    step()
    return {"requested": tracemalloc.get_traced_memory()[1] / 2**20}


def requested_by_pytorch(torch: Any, key: str) -> dict[str, float]:
    from .workloads import WORKLOADS, same

    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        step = WORKLOADS[key].build(torch, same)
        for _ in range(STEPS):
            step()
    events = [
        (event.start_ns(), event.nbytes())
        for event in profile.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    live = peak = 0
    for _, size in sorted(events, key=lambda event: event[0]):
        live += size
        peak = max(peak, live)
    return {"requested": peak / 2**20}


def alone(library: str, what: str, key: str) -> dict[str, float]:
    """Measure in a new process."""
    command = [sys.executable, "-m", "benchmarks.memory", library, what, key]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    return json.loads(done.stdout.splitlines()[-1])


def run(options: argparse.Namespace) -> str:
    """Measure each workload with each library and return the report."""
    if sys.platform != "linux":
        return "not measured: the peak is read from Linux's /proc"
    libraries = (US, EAGER) if report.peer() is not None else (US,)
    keys = KEYS[1:4:2] if options.quick else KEYS
    rows, bars = [], {}
    for key in keys:
        sizes = {library: alone(library, "resident", key) for library in libraries}
        for library in libraries:
            sizes[library] |= alone(library, "requested", key)
        row = [key]
        for what in ("requested", "resident", "process"):
            values = [sizes[library][what] for library in libraries]
            row += [f"{value:.1f}" for value in values]
            row += [f"{values[0] / values[1]:.2f}"] if len(values) == 2 else []
        rows.append(row)
        bars[key] = {library: sizes[library]["requested"] for library in libraries}
        print(*row, flush=True)
    from . import charts

    charts.bars("memory", "Peak memory of a training step, requested", bars, "MiB")
    columns = [*libraries, "ratio"][: len(libraries) + (len(libraries) == 2)]
    header = ["MiB", *(f"{what}, {column}" for what in ("requested", "resident", "process")
                       for column in columns)]  # fmt: skip
    return report.table(header, rows)


def main() -> None:
    library, what, key = sys.argv[1:]
    torch = import_module(MODULES[library])
    if what == "resident":
        result = resident(torch, key)
    else:
        result = (requested_by_us if library == US else requested_by_pytorch)(torch, key)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
