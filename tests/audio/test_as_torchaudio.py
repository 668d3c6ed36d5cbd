"""Results, gradients, shapes and argument lists are torchaudio's (`golden.py` wrote them down)."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import audio
from tests.audio.cases import CASES, read_golden, run_case

GOLDEN = read_golden()


@pytest.mark.filterwarnings("ignore:At least one mel filterbank")
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_torchaudio(name):
    ours, theirs = run_case(name, edutorch, audio), GOLDEN[name]
    assert ours["dtype"] == theirs["dtype"]
    assert ours.keys() == theirs.keys()
    for part in set(ours) - {"dtype"}:
        assert ours[part]["shape"] == theirs[part]["shape"]
        tolerance = CASES[name].tolerance * (10 if part == "gradient" else 1)
        scale = max(theirs[part]["largest"], 1e-12)
        errors = np.abs(np.subtract(ours[part]["values"], theirs[part]["values"])) / scale
        assert errors.max() <= tolerance, part
        assert abs(ours[part]["largest"] / scale - 1) <= tolerance
