"""The core runs without threads, processes and compiled libraries: see `as_in_a_browser.py`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("core", "autograd", "optim")
DEEP = "test_a_custom_backward_may_run_backward or test_a_hook_may_run_backward"
"""Deeper than Python's own stack: natively, a new thread has one of its own."""


@pytest.mark.slow
def test_the_core_runs_as_in_a_browser():
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "tests.as_in_a_browser",
        "-m", "not slow and not oracle and not notebooks", "-k", f"not ({DEEP})",
        *(f"tests/{part}" for part in PARTS),
    ]  # fmt: skip
    environment = os.environ | {"EDUTORCH_TEST_DEVICES": "cpu"}
    outcome = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout[-5000:] + outcome.stderr[-2000:]
    passed = re.search(r"(\d+) passed", outcome.stdout.splitlines()[-1])
    assert passed and int(passed[1]) > 500, outcome.stdout[-2000:]
