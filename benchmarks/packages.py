"""The real transformers, torchvision, timm and torchaudio: on edutorch, and on PyTorch.

Each library has a process of its own, the two run in turns. The packages are those of the second
environment (tests/ecosystem).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from . import report

ROOT = Path(__file__).parents[1]
SCRIPT = "benchmarks/package_programs.py"
GOALS = (1.0, 0.9, 1.0, 1.0)


class Programs:
    """A process that runs the programs with one library."""

    def __init__(self, command: list[str], threads: int) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
        self.process = subprocess.Popen(
            [*command, SCRIPT, str(threads)], text=True, cwd=ROOT, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._read_until("ready")

    def seconds(self, name: str) -> float:
        """Run a program once, and return how long it took."""
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return float(self._read_until(""))

    def _read_until(self, word: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == word or (not word and is_number(line)):
                return line
        raise RuntimeError(f"a program ended: {self.process.args}")


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def run(options: argparse.Namespace) -> str:
    """Time each program with both libraries and return the table."""
    from tests.ecosystem.oracle import ENVIRONMENT

    from .package_programs import PROGRAMS

    ours = [str(ENVIRONMENT / "bin" / "python"), "-m", "edutorch", "run"]
    theirs = [sys.executable, "-m", "tests.ecosystem.oracle"]
    sides = [Programs(command, options.threads) for command in (ours, theirs)]
    rows = []
    for name, goal in zip(PROGRAMS, GOALS, strict=True):
        times = [[side.seconds(name) for side in sides] for _ in range(options.rounds)]
        own, other = (statistics.median(column) for column in zip(*times, strict=True))
        ratio = statistics.median(mine / theirs for mine, theirs in times)
        rows.append([name, f"{own * 1e3:.1f}", f"{other * 1e3:.1f}", f"{ratio:.2f}", f"{goal}"])
    for side in sides:
        side.process.communicate()
    return report.table(["program", "edutorch, ms", "PyTorch, ms", "ratio", "goal"], rows)
