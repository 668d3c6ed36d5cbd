"""The cases that the package `onnx` carries: none wrong, none with an unexpected error."""

from __future__ import annotations

import random
from collections import Counter

import pytest

pytest.importorskip("onnx")

from tests.onnx.node_suite import all_cases, group_of, run_case, table

AT_LEAST = {"plain": 1590, "sequence": 29, "quantized": 24, "low": 76, "domain": 18}
"""Cases of each group that pass; those of strings are refused."""


@pytest.fixture(scope="module")
def cases() -> list:
    return all_cases()


def test_a_sample(cases: list):
    """A hundred cases of tensors of ordinary dtypes, the same each time."""
    plain = [case for case in cases if group_of(case) in ("plain", "sequence")]
    outcomes = [run_case(case) for case in random.Random(33).sample(plain, 100)]
    failed = [outcome for outcome in outcomes if outcome.verdict in ("wrong", "error")]
    assert not failed, "\n".join(map(str, failed))
    assert sum(outcome.verdict == "passed" for outcome in outcomes) >= 95


@pytest.mark.slow
def test_all(cases: list):
    outcomes = [run_case(case) for case in cases]
    failed = [outcome for outcome in outcomes if outcome.verdict in ("wrong", "error")]
    assert not failed, "\n".join(map(str, failed))
    passed = Counter(outcome.group for outcome in outcomes if outcome.verdict == "passed")
    assert all(passed[group] >= count for group, count in AT_LEAST.items()), table(outcomes)
