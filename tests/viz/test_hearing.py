"""While a loop is watched, threads take turns quickly; afterwards as before."""

import sys
from collections.abc import Iterator

import pytest

import edutorch
from edutorch import nn
from edutorch.viz import live
from edutorch.viz.live.interpreter import settings


@pytest.fixture
def _usual() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield
    sys.setswitchinterval(before)


def interval() -> float:
    return round(sys.getswitchinterval(), 5)


@pytest.mark.usefixtures("_usual")
def test_threads_take_turns_quickly_only_while_a_loop_is_watched() -> None:
    short = settings.switch_interval
    assert short is not None
    assert 0 < short < 0.005
    with live():
        assert interval() == short
        with live(nn.Linear(2, 1)):
            assert interval() == short
        assert interval() == short
    assert interval() == 0.005


@pytest.mark.usefixtures("_usual")
def test_an_interval_that_is_shorter_stays() -> None:
    sys.setswitchinterval(0.0002)
    with live():
        assert interval() == 0.0002
    assert interval() == 0.0002


@pytest.mark.usefixtures("_usual")
def test_it_is_as_before_also_after_an_error() -> None:
    def run() -> None:
        with live():
            edutorch.ones(2) @ edutorch.ones(3)

    with pytest.raises(RuntimeError):
        run()
    assert interval() == 0.005
