"""Starts programs in several processes, by the launcher, as users do."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"


def require_mpi() -> None:
    """Skip a test where the extra `dist` is not installed."""
    if importlib.util.find_spec("mpi4py") is None:
        assert not os.environ.get("EDUTORCH_REQUIRE_MPI"), "the extra `dist` is not installed"
        pytest.skip("needs the extra `dist`")


def run_ranks(
    program: str, *arguments: str, ranks: int = 2, options: tuple[str, ...] = (),
    timeout: float = 120, **environment: str,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run a program of `programs/` in several processes."""
    require_mpi()
    return subprocess.run(
        [
            sys.executable, "-m", "edutorch.distributed.run", "--nproc-per-node", str(ranks),
            *options, str(PROGRAMS / program), *arguments,
        ],
        capture_output=True, text=True, timeout=timeout, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "EDUTORCH_KERNELS": "off", **environment},
    )  # fmt: skip


def check_ranks(program: str, *arguments: str, ranks: int = 2, **options: object) -> str:
    """Run a program, which has to succeed. Returns what it printed."""
    done = run_ranks(program, *arguments, ranks=ranks, **options)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
