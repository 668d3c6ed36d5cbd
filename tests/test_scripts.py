"""Scripts written for PyTorch run unmodified, and their losses are PyTorch's.

`tests/scripts` holds whole programs in the style of the repositories that students copy from.
Each starts from the same weights and draws the same numbers under both libraries; its 20 steps
are compared with what a PyTorch has left in `golden/scripts.json`, and so are those of a
PyTorch that runs here, in a slow test. (Both against the same curves: then each runs once.)
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.golden_scripts import (
    FOLDER,
    GOLDEN,
    RUNS,
    Curves,
    curves_from_command_line,
    curves_with,
)  # fmt: skip
from tests.oracle import require_torch

RELATIVE = 1e-4


def assert_same(curves: dict[str, Curves]) -> None:
    expected = json.loads(GOLDEN.read_text())
    different = []
    for name, run in curves.items():
        assert run.keys() == expected[name].keys()
        assert max(len(values) for values in run.values()) >= 20
        for curve, values in run.items():
            # Pixels and probabilities may be 0; a loss never is.
            if values != pytest.approx(expected[name][curve], rel=RELATIVE, abs=1e-7):
                different.append(f"{name}, {curve}: {values}, expected {expected[name][curve]}")
    assert not different, "\n".join(different)


def test_the_losses_are_those_that_pytorch_has_left(tmp_path):
    assert_same(curves_with("edutorch", tmp_path))


def test_from_the_command_line(tmp_path):
    assert_same({name: curves_from_command_line(name, tmp_path) for name in ("vae", "dqn")})


@pytest.mark.oracle
@pytest.mark.slow
def test_so_are_those_of_a_pytorch_that_runs_here(tmp_path):
    require_torch()
    assert_same(curves_with("torch", tmp_path))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_the_scripts_know_nothing_of_edutorch(path: Path):
    text = path.read_text()
    assert "edutorch" not in text
    assert re.search(r"^(import|from) torch\b", text, re.MULTILINE)


def test_every_script_is_run():
    helpers = {"repeatable.py", "gpt_model.py", "long_training.py"}
    assert {path.name for path in FOLDER.glob("*.py")} - helpers == {
        run[0] for run in RUNS.values()
    }
