"""What is faster, a program or the function as it is written, is measured in the first calls."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import edutorch
from edutorch.compilation import trial
from edutorch.compilation.kernel_cache import wait_for_all

CALLS = trial.WARM_CALLS + len(trial.TURNS) + 2


def add_time(clock, seconds, function):
    """Return the function; a call of it moves the clock."""

    def timed(*args):
        clock[0] += seconds
        return function(*args)

    return timed


@pytest.mark.parametrize(
    ("written", "program", "is_written"),
    [(1e-4, 2e-4, True), (1e-4, 1.01e-4, False), (2e-4, 1e-4, False), (0.1, 0.05, False)],
)
def test_the_faster_way_is_used(written, program, is_written, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(trial, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(trial, "compiler", SimpleNamespace(is_busy=False))
    compiled = edutorch.compile(lambda x: (x.exp() + 1).tanh() * x)
    x = edutorch.rand(4, 100)
    expected = compiled(x)
    wait_for_all()
    (version,) = compiled.entries
    compiled.function = add_time(clock, written, compiled.function)
    version.entry.call = add_time(clock, program, version.entry.call)
    for _ in range(CALLS):
        edutorch.testing.assert_close(compiled(x), expected)
    assert version.runs_function == is_written
    assert ("as it is written" in compiled.explain()) == is_written


def test_nothing_that_writes_is_measured():
    compiled = edutorch.compile(lambda x: x.add_(1) * 2)
    x = edutorch.zeros(3)
    compiled(x)
    compiled.function = None
    for _ in range(CALLS):
        compiled(x)
    assert x.tolist() == [CALLS + 1] * 3


def test_a_call_after_a_pause_returns_the_compiled_graph(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(trial, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(trial, "compiler", SimpleNamespace(is_busy=False))
    compiled = edutorch.compile(lambda x: (x.exp() + 1).tanh() * x)
    x = edutorch.rand(4, 100, requires_grad=True)

    def op_of_call(seconds):
        clock[0] += seconds
        return compiled(x).grad_fn.name()

    in_loop = [op_of_call(1e-4) for _ in range(trial.WARM_CALLS + 12)]
    assert in_loop[-1] == "MulBackward0"  # the turn of the function as it is written
    assert op_of_call(0.05) == in_loop[1] != "MulBackward0"
    assert op_of_call(1e-4) == "MulBackward0"  # the pause was no measurement


def test_timed_calls_the_program_in_a_trial(monkeypatch):
    monkeypatch.setattr(trial, "compiler", SimpleNamespace(is_busy=False))
    compiled = edutorch.compile(lambda x: (x.exp() + 1).tanh() * x)
    x = edutorch.rand(4, 100)
    for _ in range(trial.WARM_CALLS + 12):
        compiled(x)
    compiled.function = None
    assert "tanh" in compiled.timed(x)
