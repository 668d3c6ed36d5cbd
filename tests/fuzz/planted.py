"""Faults planted into PyTorch, which a whole session must find: `python -m tests.fuzz.planted`.

A process of its own, since a session forks: what forks must not have computed before.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import torch

from tests.fuzz import session, worker
from tests.fuzz.report import format_findings
from tests.fuzz.session import Session
from tests.fuzz.targets import all_targets


def wrong_beyond_two(input: Any, *args: Any, **settings: Any) -> Any:
    """A sum that is wrong for rows of more than two numbers."""
    result = torch.cumsum(input, *args, **settings)
    return result * 1.5 if input.ndim and input.shape[-1] > 2 else result


def endless(input: Any) -> Any:
    """A trace that never comes back from C for more than one row."""
    return sum(iter(int, 1)) if input.shape[0] > 1 else torch.trace(input)


def deadly(input: Any, *args: Any) -> Any:
    """A difference that ends the process for floats."""
    if input.is_floating_point():
        os.kill(os.getpid(), signal.SIGSEGV)
    return torch.frac(input, *args)


FAULTS = {"cumsum": wrong_beyond_two, "trace": endless, "frac": deadly}
HEALTHY = ("mul", "sort", "nn.Linear")


class Planted:
    """PyTorch with faults."""

    def __getattr__(self, name: str) -> Any:
        return FAULTS.get(name) or getattr(torch, name)


def main() -> None:
    """Print the findings of a short session."""
    torch.set_num_threads(1)
    worker.CPU_SECONDS_PER_CALL = session.CPU_SECONDS_PER_CALL = 4.0  # with first imports
    session.TRIALS_OF_A_HANG = 3
    targets = [target for target in all_targets(torch) if target.path in (*FAULTS, *HEALTHY)]
    report = Session((Planted(), torch), targets, seed=3).run(16.0)
    print(format_findings(report.findings))
    print(report.valid.total(), "valid calls")


if __name__ == "__main__":
    main()
