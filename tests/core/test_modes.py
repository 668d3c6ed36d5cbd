"""`no_grad` and the other modes: as blocks, decorators, in generators and threads."""

from __future__ import annotations

import asyncio
import threading

import pytest

import edutorch
from edutorch import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
    tensor,
)
from edutorch.errors import GradientError, StaleValueError


@pytest.fixture
def x():
    return tensor([1.0, 2.0], requires_grad=True)


def test_nothing_is_recorded_inside(x):
    with no_grad():
        y = x * 2
        assert not is_grad_enabled()
    assert (y.requires_grad, y.is_leaf, y.grad_fn) == (False, True, None)
    assert (x * 2).requires_grad


def test_blocks_nest_and_survive_errors(x):
    with no_grad():
        with enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
        with pytest.raises(ZeroDivisionError), enable_grad():
            raise ZeroDivisionError
        assert not is_grad_enabled()
    assert is_grad_enabled()


def test_one_object_entered_within_itself():
    off = no_grad()
    with off, off:
        assert not is_grad_enabled()
    assert is_grad_enabled()


def test_leaves_made_inside_may_want_gradients():
    with no_grad():
        x = tensor([1.0], requires_grad=True)
    assert x.requires_grad
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2]


@pytest.mark.parametrize("decorator", [no_grad(), no_grad, inference_mode(), inference_mode])
def test_decorators(x, decorator):
    @decorator
    def double(x):
        """Twice as much."""
        return (x * 2).requires_grad, is_grad_enabled()

    assert double(x) == (False, False)
    assert double.__doc__ == "Twice as much."
    assert is_grad_enabled()


def test_a_decorated_function_that_calls_itself(x):
    @no_grad()
    def down(n):
        return [is_grad_enabled()] + (down(n - 1) if n else [])

    assert down(3) == [False] * 4
    assert is_grad_enabled()


def test_a_decorated_generator_is_in_the_mode_only_while_it_runs():
    @no_grad()
    def numbers():
        received = None
        while True:
            received = yield is_grad_enabled(), received

    running = numbers()
    assert next(running) == (False, None)
    assert is_grad_enabled(), "between its steps the caller's mode holds"
    assert running.send("hello") == (False, "hello")
    with enable_grad():
        assert next(running) == (False, None)
    running.close()
    assert is_grad_enabled()


def test_errors_reach_a_decorated_generator():
    @no_grad()
    def patient():
        try:
            yield 1
        except ValueError:
            yield is_grad_enabled()

    running = patient()
    next(running)
    assert running.throw(ValueError()) is False


def test_set_grad_enabled(x):
    with set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert is_grad_enabled()
    set_grad_enabled(False)
    try:
        assert not (x * 2).requires_grad
    finally:
        set_grad_enabled(True)
    assert (x * 2).requires_grad

    @set_grad_enabled(False)
    def inside():
        return is_grad_enabled()

    assert is_grad_enabled(), "the decorator itself switches nothing"
    assert inside() is False


def test_threads_have_modes_of_their_own():
    seen = []
    inside, done = threading.Event(), threading.Event()

    def other():
        seen.append(is_grad_enabled())
        with no_grad():
            inside.set()
            done.wait(10)
            seen.append(is_grad_enabled())

    thread = threading.Thread(target=other)
    with no_grad():
        thread.start()
        inside.wait(10)
    assert is_grad_enabled(), "the other thread is inside its own block"
    done.set()
    thread.join(10)
    assert seen == [True, False], "a new thread starts by recording"


def test_tasks_have_modes_of_their_own():
    async def quiet():
        with no_grad():
            await asyncio.sleep(0)
            return is_grad_enabled()

    async def loud():
        await asyncio.sleep(0)
        return is_grad_enabled()

    async def both():
        return await asyncio.gather(quiet(), loud(), quiet())

    assert asyncio.run(both()) == [False, True, False]


# Inference mode --------------------------------------------------------------------------------


def test_inference_tensors_stay_out_of_graphs(x):
    with inference_mode():
        assert is_inference_mode_enabled()
        assert not is_grad_enabled()
        y = x * 2
        made = edutorch.ones(2)
    assert not is_inference_mode_enabled()
    assert y.is_inference()
    assert made.is_inference()
    assert not x.is_inference()
    assert (y + 1).tolist() == [3, 5]
    with pytest.raises(StaleValueError, match="is an inference tensor and cannot be saved"):
        (x * y).sum().backward()
    (x * y.clone()).sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_inference_mode_can_be_off():
    with inference_mode(False):
        assert is_grad_enabled()
        assert not edutorch.ones(2).is_inference()


def test_enable_grad_does_not_undo_inference_mode(x):
    with inference_mode(), enable_grad():
        assert not is_grad_enabled()
        assert (x * 2).is_inference()


def test_backward_needs_something_recorded(x):
    with no_grad():
        y = x.sum()
    with pytest.raises(GradientError, match="does not require grad and does not have a grad_fn"):
        y.backward()
