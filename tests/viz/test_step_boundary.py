"""Where a step ends: plain loops, without any training."""

import gc
import sys

import pytest

from edutorch.viz.step_boundary import StepBoundary, common_loop, innermost_loop, loops_of, trail


class Optimizer:
    """Counts, through a boundary, the steps of the loop it is in."""

    def __init__(self, boundary, ends):
        self.boundary, self.ends = boundary, ends

    def step(self):
        if self.boundary.has_turned():
            self.ends.append("turn")
        self.ends.append(self.boundary.ends_with(self))


@pytest.fixture
def gan():
    boundary, ends = StepBoundary(), []
    return Optimizer(boundary, ends), Optimizer(boundary, ends), boundary, ends


def counted(ends):
    return sum(end is not False for end in ends)


def test_one_optimizer_ends_each_step():
    boundary, ends = StepBoundary(), []
    optimizer = Optimizer(boundary, ends)
    for _ in range(5):
        optimizer.step()
    assert ends == [True] * 5
    assert not boundary.several


def test_two_optimizers_in_a_loop_are_one_step(gan):
    critic, generator, boundary, ends = gan
    for _ in range(4):
        critic.step()
        generator.step()
    # The first step of the first optimizer could not know of the second.
    assert ends == [True, True, False, True, False, True, False, True]
    assert not boundary.pending


def test_a_critic_that_steps_five_times(gan):
    critic, generator, _, ends = gan
    for _ in range(3):
        for _ in range(5):
            critic.step()
        generator.step()
    assert ends[6:] == ([False] * 5 + [True]) * 2


def test_the_inner_loop_comes_last(gan):
    critic, generator, boundary, ends = gan
    for _ in range(5):
        generator.step()
        for _ in range(3):
            critic.step()
    # At the turn at first, then as expected; the very first could not know of the critic.
    assert counted(ends[1:]) == 5
    assert ends[-1] is True


def test_steps_in_functions_that_the_loop_calls(gan):
    critic, generator, _, ends = gan

    def train(optimizer):
        optimizer.step()

    for _ in range(3):
        train(critic)
        train(generator)
    assert ends[2:] == [False, True] * 2


def test_a_generator_that_steps_every_third_time(gan):
    critic, generator, boundary, ends = gan
    for number in range(9):
        critic.step()
        if number % 3 == 2:
            generator.step()
    # The first three turns, and the step that could not know of the generator.
    assert counted(ends[:4]) == 4
    assert counted(ends[4:]) + boundary.pending == 6


def test_epochs_are_not_steps(gan):
    critic, generator, _, ends = gan
    for _ in range(2):
        for _ in range(3):
            critic.step()
            generator.step()
    assert ends[2:] == [False, True] * 5


def test_another_loop_afterwards(gan):
    critic, generator, _, ends = gan
    for _ in range(2):
        critic.step()
        generator.step()
    del ends[:]
    for _ in range(3):
        generator.step()
    assert ends == [True] * 3


def test_optimizers_that_are_gone_do_not_count():
    boundary, ends = StepBoundary(), []
    for _ in range(3):
        Optimizer(boundary, ends).step()  # an inner optimizer, made anew in each step
        gc.collect()
    last = Optimizer(boundary, ends)
    last.step()
    assert ends[-1] is True


def test_loops_are_read_off_the_bytecode():
    def both():
        for _ in range(2):
            while True:
                yield trail(sys._getframe())
                break
            yield trail(sys._getframe())

    trails = both()
    inner, outer = next(trails), next(trails)
    assert len(loops_of(both.__code__)) >= 1
    loop = innermost_loop(outer)
    assert loop is not None
    assert common_loop([inner, outer]) == loop
    assert common_loop([inner[:1], (outer[0]._replace(frame=0),)]) is None
