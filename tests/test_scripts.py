"""Scripts written for PyTorch run unmodified, and their losses are PyTorch's.

`tests/scripts` holds whole programs in the style of the repositories that students copy from.
Each starts from the same weights and draws the same numbers under both libraries; its 20 steps
are compared with a PyTorch that runs here and with what one has left in `golden/scripts.json`.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import pytest

from tests.golden_scripts import FOLDER, GOLDEN, RUNS, Curves, with_edutorch, with_pytorch
from tests.oracle import require_torch

RELATIVE = 1e-4
EACH_RUN = pytest.mark.parametrize("name", RUNS)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """Run a script on edutorch, once for all tests of this file."""
    folder = tmp_path_factory.mktemp("edutorch")
    return functools.cache(lambda name: with_edutorch(name, folder))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """All curves of a PyTorch that runs here."""
    require_torch()
    return with_pytorch(tmp_path_factory.mktemp("pytorch"))


def assert_same(found: Curves, expected: Curves) -> None:
    assert found.keys() == expected.keys()
    for curve, values in expected.items():
        # Pixels and probabilities may be 0; a loss never is.
        assert found[curve] == pytest.approx(values, rel=RELATIVE, abs=1e-7), curve


@EACH_RUN
def test_the_losses_are_those_that_pytorch_has_left(name, ours):
    assert_same(ours(name), json.loads(GOLDEN.read_text())[name])


@pytest.mark.oracle
@EACH_RUN
def test_the_losses_follow_pytorch(name, ours, theirs):
    assert_same(ours(name), theirs[name])
    longest = max(len(values) for values in theirs[name].values())
    assert longest >= 20


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
