"""What `import edutorch` costs, in time and memory, each time in a fresh process."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys

from . import report

HEAVY = ("cupy", "numba", "jupyter_client", "IPython", "matplotlib", "anywidget", "torch")
PROGRAM = """
import json, sys, time
start = time.perf_counter()
import {name}
took = time.perf_counter() - start
memory = float("nan")
if sys.platform == "linux":
    lines = open("/proc/self/status").read().splitlines()
    memory = int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 2**10
heavy = [each for each in {heavy} if each in sys.modules]
print(json.dumps([took, memory, len(sys.modules), heavy]))
"""


def once(name: str) -> tuple[float, float, int, list[str]]:
    """Import `name` in a new process: seconds, MiB, modules, and which heavy ones came along."""
    command = [sys.executable, "-c", PROGRAM.format(name=name, heavy=HEAVY)]
    environment = {
        key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
    }
    answer = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment
    ).stdout
    return tuple(json.loads(answer))  # type: ignore[return-value]


def run(options: argparse.Namespace) -> str:
    """Import each library in turns and return the report."""
    names = [name for name in ("numpy", "edutorch", "torch") if importlib.util.find_spec(name)]
    samples = {name: [] for name in names}
    for name in names:
        once(name)  # files into the disk cache, bytecode written
    for turn in range(options.rounds):
        for name in names if turn % 2 else reversed(names):
            samples[name].append(once(name))
    rows = []
    for name in names:
        times, memory, modules, heavy = zip(*samples[name], strict=True)
        row = [name, f"{statistics.median(times) * 1e3:.0f}", f"{statistics.median(memory):.0f}"]
        others = ", ".join(module for module in heavy[0] if module != name)
        row += [str(modules[0]), others or "none"]
        if "torch" in samples:
            pairs = zip(times, (sample[0] for sample in samples["torch"]), strict=True)
            row.append(f"{statistics.median(mine / other for mine, other in pairs):.2f}")
            theirs = statistics.median(sample[1] for sample in samples["torch"])
            row.append(f"{statistics.median(memory) / theirs:.2f}")
        rows.append(row)
    header = ["import", "ms", "resident MiB", "modules", "heavy ones among them"]
    header += ["time / PyTorch", "memory / PyTorch"] if "torch" in samples else []
    return report.table(header, rows)
