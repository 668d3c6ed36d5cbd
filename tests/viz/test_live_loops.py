"""Every kind of loop: with an optimizer or without, asynchronous, in a thread, the Trainer's."""

import asyncio
import contextvars
import math
import sys
import threading
import time

import pytest

import edutorch
from edutorch import nn, optim
from edutorch.events import _STEP_LISTENERS
from edutorch.modes import current, listening
from edutorch.viz import live
from edutorch.viz.live import throttle
from tests.simulation import simulated
from tests.viz.test_live import descend, press, run, start, watched


def loop_without_optimizer(w, seconds):
    end, losses = time.monotonic() + seconds, []
    while time.monotonic() < end:
        losses.append(descend(w).item())
    return losses


@pytest.mark.parametrize("shown", [True, False])
def test_between_two_looks_ops_are_as_fast_as_ever(shown):
    """Nobody listens to them, and still each step is counted and its loss known."""
    w = start()
    view, _ = watched(live()) if shown else (live(), None)
    heard = []
    with view:
        descend(w)
        view._sampler.throttle._early = 0.0  # as after the first second
        deaf = 0
        losses, end = [], time.monotonic() + 1.0
        while time.monotonic() < end:
            losses.append(descend(w).item())
            deaf += not current().listeners
            heard.append(view.step)
    assert deaf > len(losses) / 2
    assert view.step in (len(losses), len(losses) + 1)
    assert heard == sorted(heard)
    assert view.loss == losses[-1]


def test_steps_of_an_optimizer_are_counted_between_looks():
    w = start()
    optimizer = optim.SGD([w], lr=0.01)
    view, _ = watched(live())
    with view:
        for step in range(300):
            optimizer.zero_grad()
            for _ in range(2):  # gradient accumulation
                loss = ((w - 1) ** 2).sum()
                loss.backward()
            optimizer.step()
            assert view.step == step + 1
            if step == 20:
                view._sampler.throttle._early = 0.0
    assert view.loss == loss.item()


def test_two_backwards_through_one_graph_are_one_step():
    w = start()
    view, _ = watched(live())
    with view:
        for _ in range(200):
            view._sampler.throttle._early = 0.0
            w.grad = None
            first, second = (w * 2).sum(), (w * 3).sum()
            first.backward()
            second.backward()
            with edutorch.no_grad():
                w.sub_(w.grad * 0.01)
    assert view.step == 200


def test_a_listener_of_the_users_own_stays():
    heard = []
    view, _ = watched(live())
    with listening(heard.append):
        run(view, 50, between=lambda: setattr(view._sampler.throttle, "_early", 0.0))
        assert current().listeners == (heard.append,)
    assert len(heard) > 500


def test_a_slow_page_makes_looks_rarer_and_not_the_loop_slower():
    """What a message costs the loop, a slow link included, is at most a small part of its time."""
    view, page = watched(live())
    show = page.show

    def slowly(*message):
        time.sleep(0.05)
        show(*message)

    page.show = slowly
    w = start()
    with view:
        descend(w)
        view._sampler.throttle._early = 0.0
        begin = time.monotonic()
        loop_without_optimizer(w, 2.0)
        sent = len(page.patches) - 1
    assert sent <= 6
    assert time.monotonic() - begin < 10


def test_the_speed_is_set_by_the_page_and_told_to_it():
    view, page = watched(live())
    view._command({"type": "speed", "value": 30})
    for nonsense in (0, -1, "fast", math.nan, math.inf, True):
        view._command({"type": "speed", "value": nonsense})
    assert view.steps_per_second == 30
    begin = time.monotonic()
    run(view, 7)
    assert time.monotonic() - begin > 0.2
    assert {patch["speed"] for patch in page.patches} == {30}
    view._command({"type": "speed", "value": None})
    assert view.steps_per_second is None


def test_the_page_is_told_that_cards_are_simulated():
    view, page = watched(live())
    run(view, 1)
    assert not any("note" in patch for patch in page.patches)
    with simulated(1):
        run(view, 1)
        assert page.patches[-1]["note"] == "cuda is simulated, on the CPU"


def test_after_an_asynchronous_loop_an_ordinary_one_can_be_paused():
    view, _ = watched(live())

    async def main():
        async with view:
            descend(start())
            await view.tick()

    asyncio.run(main())
    w = start()
    with view:
        descend(w)
        view.pause()
        press(view, "resume", 0.3)
        begin = time.monotonic()
        for _ in range(3):
            descend(w)
    assert time.monotonic() - begin > 0.2


def test_an_asynchronous_loop_lets_others_run_while_it_is_paused():
    view, page = watched(live())

    async def main():
        beats, w = 0, start()

        async def beat():
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0.01)

        other = asyncio.create_task(beat())
        async with view:
            descend(w)
            await view.tick()
            view._command({"type": "pause"})
            press(view, "resume", 0.5)
            before, begin = beats, time.monotonic()
            while time.monotonic() < begin + 0.4 or view._gate.paused:
                descend(w)
                await view.tick()
            during = beats - before
        other.cancel()
        return during

    assert asyncio.run(main()) > 5
    assert "paused" in {patch["state"] for patch in page.patches}
    assert page.patches[-1]["state"] == "finished"


def test_a_loop_in_another_thread():
    w = start()
    view, _ = watched(live())

    def loop():
        for _ in range(30):
            descend(w)

    with view:
        thread = threading.Thread(target=contextvars.copy_context().run, args=(loop,))
        thread.start()
        thread.join()
    assert view.step == 30


def test_the_trainer_is_watched():
    from edutorch import train, utils

    class Line(train.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 1)

        def training_step(self, batch, index):
            return (self.layer(batch[0]) - batch[1]).pow(2).mean()

        def configure_optimizers(self):
            return optim.SGD(self.parameters(), lr=0.1)

    data = utils.data.TensorDataset(edutorch.randn(20, 2), edutorch.randn(20, 1))
    model = Line()
    view, page = watched(live(model))
    trainer = train.Trainer(max_epochs=2, logger=False, enable_checkpointing=False,
                            enable_progress_bar=False)  # fmt: skip
    with view:
        trainer.fit(model, utils.data.DataLoader(data, batch_size=5))
    assert view.step == 8
    assert {"weight", "bias"} <= {node["label"] for node in page.pictures[0]["nodes"]}


def test_two_networks_that_take_turns():
    """A generator and a discriminator: each has its picture, laid out once."""
    makers = [nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Tanh())]
    optimizers = [optim.SGD(model.parameters(), lr=0.1) for model in makers]
    view, page = watched(live(*makers))
    step, end = 0, time.monotonic() + 30
    with view:
        while len(page.pictures) <= 2 and time.monotonic() < end:
            optimizers[step % 2].zero_grad()
            makers[step % 2](edutorch.ones(3, 2)).mean().backward()
            optimizers[step % 2].step()
            step += 1
            time.sleep(0.02)
    assert view.step == step
    assert view.layouts == 2
    assert len(page.pictures) > 2


def test_a_pace_that_nobody_sees_is_not_held_for_ever(monkeypatch):
    monkeypatch.setattr(throttle, "ANSWER_LIMIT", 0.1)
    w = start()
    for answers in (False, True):
        view, _ = watched(live(steps_per_second=4))
        begin = time.monotonic()
        with view:
            for _ in range(8):
                descend(w)
                if answers:
                    view._command({"type": "ready"})
        assert (time.monotonic() - begin > 1.5) == answers


def test_looking_back_does_not_hide_the_pace():
    w = start()
    view, page = watched(live(steps_per_second=1000))
    with view:
        for _ in range(6):
            descend(w)
    view._command({"type": "goto", "step": 2})
    assert page.patches[-1]["parts"]["history"]["at"] == 2
    assert page.patches[-1]["speed"] == 1000


def test_python_hands_its_lock_over_soon_while_any_loop_is_watched():
    usual = sys.getswitchinterval()
    first, second = live(), live()
    first.__enter__()
    second.__enter__()
    assert sys.getswitchinterval() <= 0.001
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() <= 0.001
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(usual)


def test_loops_that_end_in_another_order_than_they_began_leave_nothing_behind():
    first, second = live(), live()
    w = start()
    first.__enter__()
    second.__enter__()
    descend(w)
    first.__exit__(None, None, None)
    descend(w)
    second.__exit__(None, None, None)
    descend(w)
    assert (first.step, second.step) == (1, 2)
    assert _STEP_LISTENERS.get() == ()


def test_backward_on_a_leaf_alone_does_not_break_the_loop():
    w = edutorch.tensor(2.0, requires_grad=True)
    with live() as view:
        view._sampler.throttle._early, view._sampler.throttle._next = (
            0.0,
            math.inf,
        )  # between two samples
        for _ in range(3):
            descend(w)
            w.backward()
    assert w.grad is not None


def test_a_glance_needs_no_end_of_the_step_before():
    """Between two messages a step pays for its milestones, and for nothing else."""
    w = start()
    optimizer = optim.SGD([w], lr=0.01)
    view, page = watched(live())
    ends, told = [], view._recorder.on_step

    def ended(recorder):
        ends.append(recorder.step_values is not None)
        told(recorder)

    def steps(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            optimizer.zero_grad()
            ((w - 1) ** 2).sum().backward()
            optimizer.step()

    view._recorder.on_step = ended
    with view:
        view._sampler.throttle._early = 0.0
        while not page.pictures:
            steps(0.05)
        steps(0.5)
        ends.clear()
        begin, counted = len(page.patches), view.step
        while view.step - counted <= 100 or len(page.patches) - begin <= 5:
            steps(0.5)
        sent = len(page.patches) - begin
    assert ends.count(True) >= sent - 2
    assert ends.count(False) < 0.3 * len(ends)
