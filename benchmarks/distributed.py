"""Two processes that train together, against PyTorch with gloo: `python -m benchmarks distributed`.

Both jobs run all the time, with one thread for each rank. They get their orders in turns, a few
steps each, so that a slow spell of the machine hits both; while one works the other sleeps. A
figure is the median over the rounds; a ratio that of the ratios within rounds. It needs the extra
`dist`.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .report import table

PROGRAM = str(Path(__file__).with_name("distributed_rank.py"))
RANKS = 2
COUNTS = {
    "mlp": 40, "all_reduce 1 KB": 500, "all_reduce 4 MB": 30, "gpt": 3, "gpt without messages": 3,
    "messages of gpt": 3,
}  # fmt: skip
HEADER = ("work, 2 ranks", "edutorch ms", "torch ms", "edutorch / torch")


class Job:
    """The ranks of one library, which wait for orders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for rank in range(RANKS):
            for end in ("order", "answer"):
                os.mkfifo(folder / f"{rank}.{end}")

    def order(self, name: str, count: int = 0) -> None:
        """Tell all ranks what to do."""
        for rank in range(RANKS):
            (self.folder / f"{rank}.order").write_text(f"{name}|{count}")

    def measure(self, name: str, count: int) -> float:
        """Return the seconds that each run took, on the slowest rank."""
        self.order(name, count)
        return max(float((self.folder / f"{rank}.answer").read_text()) for rank in range(RANKS))


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def jobs() -> Iterator[dict[str, Job]]:
    """Start the ranks of both libraries, and end them."""
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "edutorch", Path(folder) / "torch"
        for place in (ours, theirs):
            place.mkdir()
        made = {"edutorch": Job(ours), "torch": Job(theirs)}
        pools = {f"{pool}_NUM_THREADS": "1" for pool in ("OPENBLAS", "OMP", "MKL")}
        common = {**os.environ, **pools, "EDUTORCH_KERNELS": "wait"}
        launcher = [sys.executable, "-m", "edutorch.distributed.run", "--nproc-per-node"]
        processes = [subprocess.Popen([*launcher, str(RANKS), PROGRAM, str(ours)], env=common)]
        port = str(free_port())
        for rank in range(RANKS):
            place = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_PORT": port}
            environment = {**common, **place, "MASTER_ADDR": "127.0.0.1"}
            command = [sys.executable, PROGRAM, str(theirs)]
            processes.append(subprocess.Popen(command, env=environment))
        try:
            yield made
            for job in made.values():
                job.order("end")
            for process in processes:
                process.wait(60)
        finally:
            for process in processes:
                process.terminate()


def run(options: argparse.Namespace) -> str:
    """Measure, and return the table."""
    load = os.getloadavg()[0]
    samples: dict[tuple[str, str], list[float]] = {}
    with jobs() as both:
        for turn in range(options.rounds):
            order = list(both) if turn % 2 else list(both)[::-1]
            for name, count in COUNTS.items():
                for library in order:
                    took = both[library].measure(name, count)
                    samples.setdefault((name, library), []).append(took)
    rows = []
    for name in COUNTS:
        ours, theirs = samples[name, "edutorch"], samples[name, "torch"]
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        medians = [f"{statistics.median(values) * 1e3:.3f}" for values in (ours, theirs)]
        rows.append((name, *medians, f"{ratio:.2f}"))
    rows.append(("messages hidden by gpt", *hidden_shares(samples), ""))
    return table(HEADER, rows) + f"\n\nload: {load:.1f} before, {os.getloadavg()[0]:.1f} after"


def hidden_shares(samples: dict[tuple[str, str], list[float]]) -> list[str]:
    """Return which share of the messages' time a step hides, for both libraries.

    (step without messages + messages alone - step) / messages alone
    """
    shares = []
    for library in ("edutorch", "torch"):
        parts = [samples[name, library] for name in list(COUNTS)[3:]]
        rounds = zip(*parts, strict=True)
        share = statistics.median((alone + sent - step) / sent for step, alone, sent in rounds)
        shares.append(f"{share:.0%}")
    return shares
