"""PyTorch's own samples of ops and modules (`op_db`, `module_db`), each run on edutorch.

The first three samples per op and type: `make test-samples`. All: `make test-long PART=samples`.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest

from tests.oracle import require_torch

pytestmark = [pytest.mark.samples, pytest.mark.slow, pytest.mark.oracle]

ALL = os.environ.get("EDUTORCH_ALL_SAMPLES") == "1"
FIRST = None if ALL else 3


@pytest.fixture(scope="module")
def runner() -> Any:
    """The module that runs the samples; it needs PyTorch and what PyTorch's tests need."""
    require_torch()
    pytest.importorskip("expecttest")
    return importlib.import_module("tests.slow.sample_runner")


@pytest.fixture(scope="module")
def results(runner: Any) -> list[Any]:
    """What came of each name; the table is printed."""
    chosen = list(runner.entries())
    done = list(runner.run(chosen, FIRST, os.cpu_count() or 1, timeout=1800 if ALL else 300))
    print("\n" + runner.table(done))
    return sorted(done)


def test_every_name_passes_entirely(runner: Any, results: list[Any]) -> None:
    """Values, types, shapes, gradients, `out=` and in-place forms; what is known is listed."""
    failed = {
        f"{result.kind} {result.name}": result.failures[:3] for result in results if result.failures
    }
    assert not failed, "\n".join(
        f"{name}: {failure}" for name, failures in failed.items() for failure in failures
    )
    assert sum(result.checks for result in results) > 10_000


def test_little_is_left_out(results: list[Any]) -> None:
    """Each reason is printed with the table."""
    left_out = sum(sum(result.excluded.values()) for result in results)
    assert left_out <= 0.03 * sum(result.samples for result in results)


def test_bad_calls_are_refused_clearly(results: list[Any]) -> None:
    """An error of edutorch, of the class that PyTorch raises."""
    answers = [
        (answer, result.name, call)
        for result in results
        for answer, calls in result.answers.items()
        for call in calls
    ]
    wrong = [
        f"{answer}: {name}{call}"
        for answer, name, call in answers
        if answer not in ("clear", "known")
    ]
    assert len(wrong) <= 0.02 * len(answers), "\n".join(wrong)
    assert not [line for line in wrong if line.startswith("unclear")]


def test_a_fault_is_noticed(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite itself: a wrong sign, type or distribution and a hang each fail their name."""
    import edutorch

    entry = named(runner, "sub")
    sub = edutorch.sub
    monkeypatch.setattr(edutorch, "sub", lambda *args, **kwargs: -sub(*args, **kwargs))
    (wrong,) = runner.run([entry], 1, 1)
    assert any("forward: value" in failure for failure in wrong.failures)
    monkeypatch.setattr(edutorch, "sub", lambda *args, **kwargs: sub(*args, **kwargs).cfloat())
    (wrong,) = runner.run([entry], 1, 1)
    assert any("forward: type" in failure for failure in wrong.failures)
    monkeypatch.setattr(
        edutorch, "sub", lambda *args, **kwargs: importlib.import_module("time").sleep(60)
    )
    (wrong,) = runner.run([entry], 1, 1, timeout=2)
    assert "no answer in time" in wrong.failures[0]
    functional = edutorch.nn.functional
    dropout = functional.dropout
    monkeypatch.setattr(
        functional, "dropout", lambda input, p=0.5, *rest, **more: dropout(input, p / 2, **more)
    )
    (wrong,) = runner.run([named(runner, "nn.functional.dropout")], 3, 1)
    assert any("distribution: " in failure for failure in wrong.failures)


def named(runner: Any, name: str) -> Any:
    """Return the entry of a name."""
    return next(entry for entry in runner.entries() if entry.name == name)
