"""How often a loop is looked at, and how it is held and let go."""

import random
import signal
import threading
import time
from itertools import cycle, pairwise

import pytest

from edutorch.viz.live.messages import MOST_POINTS, Curve
from edutorch.viz.live.throttle import EARLY, FIRST, MOST_SAVED, SHARE, Gate, Throttle


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_a_message_that_cost_much_is_followed_by_a_longer_rest():
    clock = Clock()
    throttle = Throttle(clock)
    assert throttle.is_due()
    for _ in range(FIRST):
        throttle.record_message(0.2 * SHARE)  # these may come sooner
    throttle.record_message(0.2 * SHARE)
    for after, due in ((0.1, False), (0.19, False), (0.21, True)):
        clock.now = 100 + after
        assert throttle.is_due() == due


def test_never_more_than_thirty_messages_a_second():
    clock = Clock()
    throttle, sent = Throttle(clock), 0
    for _ in range(1000):
        clock.now += 0.001
        if throttle.is_due():
            throttle.record_message(0.0)
            sent += 1
    assert 20 <= sent <= 30


def watch(step, *costs, seconds=60):
    """Return when messages were sent about a loop whose steps take so long, of costs in turn."""
    clock, costs = Clock(), cycle(costs)
    throttle, sent = Throttle(clock), []
    clock.now += EARLY
    end = clock.now + seconds
    while clock.now < end:
        clock.now += step
        if throttle.should_sample():
            cost = next(costs)
            clock.now += cost
            if throttle.is_due():
                throttle.record_message(cost)
                sent.append(clock.now)
    return sent


def rate_of(sent):
    """Return how many messages there were in a second."""
    return (len(sent) - 1) / (sent[-1] - sent[0])


def test_long_steps_cost_no_messages():
    """Each message is late by a step or more; the next one waits for what is left then."""
    for step, cost in ((0.024, 0.006), (0.004, 0.003), (0.03, 0.03), (0.02, 0.004)):
        sent = watch(step, cost)[FIRST:]
        assert 0.9 * SHARE < rate_of(sent) * cost <= 1.01 * SHARE


def test_a_picture_that_goes_ahead_of_its_numbers_counts_as_a_message():
    clock = Clock()
    throttle = Throttle(clock)
    throttle.delay_after_next()
    assert throttle.is_due()  # the numbers follow at once
    gaps = []
    for _ in range(3):
        sent = clock.now
        throttle.record_message(0.0)
        while not throttle.is_due():
            clock.now += 1e-4
        gaps.append(clock.now - sent)
    assert gaps == pytest.approx([2 / 30, 1 / 30, 1 / 30], abs=2e-4)


def test_a_late_message_is_followed_by_no_crowd():
    sent = watch(0.001, 0.0001)[FIRST:]
    assert 29.5 < rate_of(sent) < 30.1
    for first, after in zip(sent, sent[31:], strict=False):
        assert after - first > 0.999


def test_what_a_cheap_message_saves_a_dear_one_may_take():
    cheap, dear = 0.7 * SHARE / 30, 1.25 * SHARE / 30
    assert rate_of(watch(0.001, dear)) < 24.5
    assert rate_of(watch(0.001, cheap, dear)) > 29.5
    sent = watch(0.001, *[cheap] * 1000, 0.1)
    longest = max(after - first for first, after in pairwise(sent))
    assert 0.1 / SHARE - MOST_SAVED - 0.1 < longest < 0.1 / SHARE  # but not all of them together


def test_the_first_second_is_sampled_whole():
    clock = Clock()
    throttle = Throttle(clock)
    throttle.record_message(1.0)
    clock.now += EARLY / 2
    assert throttle.should_sample()
    assert not throttle.is_due()
    clock.now += EARLY
    assert not throttle.should_sample()


def test_an_open_gate_does_not_wait():
    waits = []
    gate = Gate()
    gate.rest = waits.append
    assert gate.wait()
    assert waits == []


def later(action, seconds=0.15):
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


def test_resume_from_another_thread():
    gate = Gate()
    gate.command({"type": "pause"})
    timer = later(lambda: gate.command({"type": "resume"}))
    start = time.monotonic()
    assert gate.wait()
    assert time.monotonic() - start > 0.1
    timer.join()


def test_step_lets_one_step_through_and_holds_again():
    gate = Gate()
    gate.command({"type": "pause"})
    gate.command({"type": "step"})
    assert gate.wait()
    assert gate.paused
    timer = later(lambda: gate.command({"type": "resume"}))
    assert gate.wait()
    assert not gate.paused
    timer.join()


def test_resume_forgets_steps_that_were_asked_for():
    gate = Gate()
    gate.command({"type": "step"})
    gate.command({"type": "resume"})
    assert gate.wait()
    gate.command({"type": "pause"})
    timer = later(gate.resume)
    start = time.monotonic()
    assert gate.wait()
    assert time.monotonic() - start > 0.1
    timer.join()


def test_a_pause_that_no_page_answers_ends():
    gate = Gate()
    gate.pause()
    assert gate.wait(limit=0.2) is False
    assert not gate.paused


def test_a_page_that_answers_keeps_the_pause():
    gate = Gate()
    gate.pause()
    later(lambda: gate.command({"type": "ready"}), 0.05)
    timer = later(lambda: gate.command({"type": "resume"}), 0.5)
    start = time.monotonic()
    assert gate.wait(limit=0.2)
    assert time.monotonic() - start > 0.4
    timer.join()


def test_an_unknown_command_does_nothing():
    gate = Gate()
    gate.command({"type": "format the disk"})
    assert not gate.paused


def test_an_interrupt_ends_the_wait():
    gate = Gate()
    gate.command({"type": "pause"})
    later(lambda: signal.raise_signal(signal.SIGINT), 0.1)
    with pytest.raises(KeyboardInterrupt):
        gate.wait()


def test_a_short_curve_is_sent_as_it_is():
    curve = Curve()
    for step in range(5):
        curve.add(step, step / 2)
    assert curve.points() == [(step, step / 2) for step in range(5)]


def test_a_long_curve_is_thinned_and_keeps_its_mean():
    curve = Curve()
    for step in range(1, 10_001):
        curve.add(step, float(step))
    points = curve.points()
    assert MOST_POINTS / 2 <= len(points) <= MOST_POINTS
    assert points[-1][0] == 10_000
    assert points[0][1] == pytest.approx(points[0][0] / 2, abs=1)
    assert [step for step, _ in points] == sorted(step for step, _ in points)


def test_many_steps_at_once_are_the_same_curve():
    chance = random.Random(0)
    one, other, step = Curve(), Curve(), 1
    while step < 3000:
        values = [chance.random() for _ in range(chance.randrange(1, 60))]
        one.extend(step, values)
        for value in values:
            other.add(step, value)
            step += 1
        assert [at for at, _ in one.points()] == [at for at, _ in other.points()]
        assert [mean for _, mean in one.points()] == pytest.approx([y for _, y in other.points()])
        assert one.latest == pytest.approx(other.latest)


def test_what_json_cannot_hold_becomes_null():
    curve = Curve()
    curve.add(1, float("nan"))
    curve.add(2, float("inf"))
    assert curve.points() == [(1, None), (2, None)]


def test_the_first_messages_may_come_sooner():
    clock = Clock()
    throttle = Throttle(clock)
    throttle.record_message(1.0)
    clock.now += 5
    assert throttle.is_due()


def test_early_looks_have_a_budget():
    throttle = Throttle(Clock())
    throttle.record_message(1.0)
    assert throttle.should_sample()
    throttle.record_look(1.0)
    assert not throttle.should_sample()


def test_looks_far_apart_meet_every_one_of_those_who_take_turns():
    clock = Clock()
    throttle = Throttle(clock)
    clock.now += EARLY
    looked = set()
    for step in range(600):
        clock.now += 0.05
        if throttle.should_sample():
            looked.add(step % 6)  # six networks; a look is due after each 12 steps
            throttle.record_message(0.03)
    assert len(looked) > 2
