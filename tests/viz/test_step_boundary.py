"""Where a step ends, by where the updates stand. Nothing is trained here."""

import sys

import pytest

from edutorch.viz.live.step_boundary import StepBoundary, loop_ranges, path_to


class Loops:
    """Counts steps as a recorder does."""

    def __init__(self):
        self.boundary, self.steps, self.worked = StepBoundary(), 0, False

    def backward(self):
        self._look(sys._getframe(1))
        self.worked = True

    def _look(self, frame):
        if self.boundary.open is not None and self.boundary.has_turned(path_to(frame, FRAME)):
            self.boundary.record_late_end()
            self.steps += 1

    def update(self, name):
        path = path_to(sys._getframe(1), FRAME)
        verdict = self.boundary.update(path, hash(name), self.steps, self.worked)
        if verdict.recount is not None:
            self.steps = verdict.recount
        self.steps += verdict.late + verdict.over
        self.worked = False


FRAME = None


def gan(loops, rounds):
    for _ in range(rounds):
        loops.backward()
        loops.backward()
        loops.update("D")
        loops.backward()
        loops.update("G")


def epochs(loops, rounds):
    for _ in range(rounds // 5):
        for _ in range(5):
            loops.backward()
            loops.update("D")
            loops.backward()
            loops.update("G")


def critic(loops, rounds):
    for _ in range(rounds):
        for _ in range(5):
            loops.backward()
            loops.update("D")
        loops.backward()
        loops.update("G")


def generator_twice(loops, rounds):
    for _ in range(rounds):
        loops.backward()
        loops.update("D")
        for _ in range(2):
            loops.backward()
            loops.update("G")
    loops.backward()


def now_and_then(loops, rounds):
    for number in range(rounds):
        loops.backward()
        loops.update("D")
        if number % 5 == 4:
            loops.backward()
            loops.update("G")


def one_round(loops):
    loops.backward()
    loops.update("D")
    loops.backward()
    loops.update("G")


def in_a_function(loops, rounds):
    for _ in range(rounds):
        one_round(loops)


def in_functions(loops, rounds):
    def step(name):
        loops.backward()
        loops.update(name)

    number = 0
    while number < rounds:
        step("D")
        step("G")
        number += 1


def one_optimizer(loops, rounds):
    for _ in range(rounds):
        loops.backward()
        loops.update("A")


def twice(loops, rounds):
    for _ in range(rounds):
        loops.backward()
        loops.update("A")
        loops.backward()
        loops.update("A")


def many_optimizers(loops, rounds):
    for _ in range(rounds):
        loops.backward()
        for name in "ABC":
            loops.update(name)


def one_after_another(loops, rounds):
    for _ in range(rounds // 2):
        loops.backward()
        loops.update("A")
    for _ in range(rounds // 2):
        loops.backward()
        loops.update("B")


def with_handlers(loops, rounds):
    number = 0
    while True:
        try:
            number += 1
            if number > rounds:
                break
            loops.backward()
            loops.update("D")
            with pytest.raises(ZeroDivisionError):
                _ = 1 / 0
            loops.backward()
            loops.update("G")
        except KeyError:
            continue


LOOPS = [gan, epochs, critic, generator_twice, now_and_then, in_a_function, in_functions,
         one_optimizer, twice, many_optimizers, one_after_another, with_handlers]  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
@pytest.mark.parametrize("rounds", [20, 40])
def test_a_round_is_a_step(loop, rounds):
    loops = Loops()
    loop(loops, rounds)
    assert loops.steps + loops.boundary.is_over_at_end == rounds


def test_first_rounds_are_recounted_at_once():
    for loop in (gan, critic, in_a_function, in_functions, twice):
        loops = Loops()
        loop(loops, 1)
        assert loops.steps == 1, loop.__name__


def test_who_always_ends_a_step():
    loops = Loops()
    critic(loops, 2)
    assert loops.boundary.always_ends(hash("G"))
    assert not loops.boundary.always_ends(hash("D"))


def test_without_any_loop_each_update_ends_a_step():
    global FRAME
    FRAME = sys._getframe()
    try:
        loops = Loops()
        one_round(loops)
        assert loops.steps == 2
    finally:
        FRAME = None


def test_with_and_await_are_no_loops():
    def managed():
        with open("x") as file:
            file.read()
        return 1

    async def waiting(task):
        await task
        await task

    async def over(items):
        async for item in items:
            await item

    assert loop_ranges(managed.__code__) == ()
    assert loop_ranges(waiting.__code__) == ()
    assert len(loop_ranges(over.__code__)) == 1
    assert len(loop_ranges(epochs.__code__)) == 2
