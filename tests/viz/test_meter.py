"""What looking at a step costs, as `viz/live/throttle.py` finds out."""

import pytest

from edutorch.viz.live.throttle import AFTERWARDS, OverheadMeter


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_a_look_costs_is_how_much_longer_its_step_takes():
    clock = Clock()
    meter = OverheadMeter(clock)

    def step(seconds, sampled, own=0.0):
        meter.begin()
        clock.now += seconds
        return meter.end(sampled, own)

    assert step(0.5, True, own=0.1) == 0.2  # nothing to compare with yet
    for _ in range(5):
        assert step(0.5, False) == 0
    assert step(0.8, True, own=0.1) == pytest.approx(0.3)
    assert step(0.5, True, own=0.1) == 0.1  # never less than its own clock says
    assert step(60, True, own=0.1) == pytest.approx(0.4)  # a step may be long for other reasons


def test_steps_of_which_nothing_else_is_known_are_compared_with_as_well():
    clock = Clock()
    meter = OverheadMeter(clock)
    meter.begin()
    for count in (3, 40):
        ends = [clock.now + 0.1 * step for step in range(1, count + 1)]
        meter.record_idle(ends)
        clock.now = ends[-1]
        assert list(meter._plain) == pytest.approx([0.1] * min(count, OverheadMeter.KEPT))
    clock.now += 0.15
    assert meter.end(False, 0.01, sampler_type="so") == pytest.approx(0.02)  # one alone is not sure
    assert meter.end(True, 0.02) == pytest.approx(0.05)


def test_one_glance_into_which_something_came_does_not_stop_the_picture():
    now = [0.0]
    meter = OverheadMeter(lambda: now[0])

    def step(seconds, sampler_type):
        meter.begin()
        now[0] += seconds
        return meter.end(False, 1e-4, sampler_type)

    for _ in range(5):
        step(0.01, False)
    assert step(0.9, True) <= OverheadMeter.MOST_YET  # the first one, while a module was imported
    for _ in range(5):
        cost = step(0.012, True)
    assert cost == pytest.approx(0.002)


def passes(meter: OverheadMeter, clock: Clock, slow: int, usual: int, step: float = 1e-3) -> None:
    """Let so many steps pass that take twice as long, and then so many as ever."""
    meter.begin()
    ends = []
    for seconds in [2 * step] * slow + [step] * usual:
        clock.now += seconds
        ends.append(clock.now)
    meter.record_idle(ends)


def test_the_steps_after_a_message_are_slower_and_that_is_counted():
    clock = Clock()
    meter = OverheadMeter(clock)
    for message in range(OverheadMeter.SURE + 1):
        assert meter.record_message() == pytest.approx(
            4e-3 if message >= OverheadMeter.SURE else 0.0
        )
        passes(meter, clock, slow=4, usual=20)
    assert max(meter._plain) == pytest.approx(1e-3)  # the slow ones are no measure of the others


def test_only_steps_right_after_a_message_count_as_its_own():
    clock = Clock()
    meter = OverheadMeter(clock)
    for _ in range(OverheadMeter.SURE + 1):
        meter.record_message()
        passes(meter, clock, slow=0, usual=round(2e3 * AFTERWARDS))
        passes(meter, clock, slow=9, usual=9)  # there was no message before these
    assert meter.record_message() == pytest.approx(0.0)


def test_a_loop_that_becomes_slower_does_not_make_its_messages_cheaper():
    clock = Clock()
    meter = OverheadMeter(clock)
    for _ in range(OverheadMeter.SURE + 1):
        meter.record_message()
        meter.begin()
        ends = [clock.now + 1e-3 * (step if step < 12 else 2 * step - 12) for step in range(1, 30)]
        meter.record_idle(ends)
        clock.now = ends[-1]
    assert meter.record_message() == 0.0


def test_a_kind_of_glance_that_costs_more_is_not_lost_among_the_others():
    clock = Clock()
    meter = OverheadMeter(clock)

    def step(seconds: float, sampler_type: str = "") -> float:
        meter.begin()
        clock.now += seconds
        return meter.end(False, 1e-4, sampler_type)

    for _ in range(30):
        step(0.01)
        part = step(0.012, "part")
        step(0.012, "part")
        whole = step(0.015, "whole")
    assert (part, whole) == (pytest.approx(0.002), pytest.approx(0.005))
