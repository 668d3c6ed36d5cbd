"""What the server can do: `python -m benchmarks serving`.

16 clients ask for a small network and for one that is bound by memory, whose weights are read once
for a whole batch. Each row is a server of its own. On a busy machine "CPU per request" counts: the
time of the server's process, which does not grow when others want the same cores.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from pathlib import Path

import numpy as np

from tests.serve.load import Load, Report, infer_request
from tests.serve.running import Running, running, write_handler

from .report import table

NETWORK = """
    from edutorch import nn, manual_seed
    INPUTS = [("x", "FP32", (-1, {sizes[0]}))]
    def load(folder):
        manual_seed(0)
        sizes = {sizes}
        layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]
        return nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())][:-1])
"""

SMALL, LARGE = (64, 32, 10), (784, 4096, 4096, 10)

CASES = (
    ("64-32-10, binary", SMALL, True, ()),
    ("64-32-10, JSON", SMALL, False, ()),
    ("64-32-10, binary, no batching", SMALL, True, ("--max-batch", "1")),
    ("784-4096-4096-10, no batching", LARGE, True, ("--max-batch", "1")),
    ("784-4096-4096-10, batching", LARGE, True, ()),
)

HEADER = ("network", "requests/s", "p50 ms", "p99 ms", "rows a batch", "CPU ms a request", "failed")


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def mean_batch(server: Running) -> float:
    """Return the mean number of rows of a batch."""
    text = server.client.get("/metrics").text
    total, count = (
        float(re.search(rf"^edutorch_batch_rows_{key}{{.*}} (\S+)$", text, re.M)[1])
        for key in ("sum", "count")
    )
    return total / count


def measure(server: Running, request: bytes, seconds: float, clients: int) -> tuple[Report, float]:
    """Return what clients have seen, and the server's seconds of processor time per request."""
    Load(server.url, request, seconds / 4, clients).result()
    before = cpu_seconds(server.process.pid)
    report = Load(server.url, request, seconds, clients).result()
    used = cpu_seconds(server.process.pid) - before
    return report, used / max(1, report.statuses.total())


def run(options: argparse.Namespace) -> str:
    """Measure all cases, and return the table."""
    rows = []
    for label, sizes, binary, arguments in CASES:
        with tempfile.TemporaryDirectory() as folder:
            models = Path(folder) / "models"
            write_handler(models, "net", NETWORK.format(sizes=sizes))
            with running(models, "--log-level", "warning", *arguments) as server:
                one = np.random.default_rng(0).standard_normal((1, sizes[0]))
                request = infer_request("net", one, "127.0.0.1", binary=binary)
                report, cpu = measure(server, request, options.seconds, options.clients)
                good = report.statuses[200]
                failed = report.statuses.total() - good + len(report.broken)
                rows.append(
                    (label, f"{good / report.seconds:,.0f}", f"{report.quantile(0.5) * 1e3:.1f}",
                     f"{report.quantile(0.99) * 1e3:.1f}", f"{mean_batch(server):.1f}",
                     f"{cpu * 1e3:.2f}", str(failed))
                )  # fmt: skip
                print(table(HEADER, rows[-1:]).splitlines()[-1], flush=True)
    return table(HEADER, rows)
