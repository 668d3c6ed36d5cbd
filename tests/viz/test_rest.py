"""Between two samples the steps of a loop are only counted (see `viz/live/sampler.py`)."""

import edutorch as torch
from edutorch.events import BackwardEnded, Stepped, listen_steps, step_event
from edutorch.modes import current
from edutorch.viz import live
from edutorch.viz.live import sampler as sampler_module
from edutorch.viz.live.sampler import IdleSteps

FAR = float("inf")


def resting() -> tuple[IdleSteps, list[type]]:
    heard: list[type] = []
    rest = IdleSteps(
        lambda: False, lambda event_type, subject, accumulated: heard.append(event_type)
    )
    return rest, heard


def test_each_step_is_counted_with_its_loss_and_nobody_is_woken():
    rest, heard = resting()
    rest.until = FAR
    with listen_steps(rest.step_event):
        for loss in (3.0, 2.0, 1.0):
            step_event(BackwardEnded, (torch.tensor(loss),), True)
            step_event(Stepped, None)
    assert (rest.losses, len(rest.ends), rest.counted, heard) == ([3.0, 2.0, 1.0], 3, 3, [])
    rest.clear()
    assert (rest.losses, rest.ends, rest.counted) == ([], [], 3)


def test_what_is_no_real_scalar_is_looked_at_more_closely():
    rest, heard = resting()
    rest.until = FAR
    for root in (torch.ones(2), torch.tensor(1j)):
        rest.step_event(BackwardEnded, (root,))
    assert heard == [BackwardEnded, BackwardEnded]


def test_when_it_is_over_some_more_steps_may_pass_and_then_one_is_glanced_at():
    rest, heard = resting()
    followed: list[int] = []
    rest.until, rest.skip = 1e-9, 2
    rest.on_due = lambda: followed.append(rest.counted) is None
    for _ in range(3):
        rest.step_event(Stepped, None)
    assert (rest.counted, rest.skip, followed, heard) == (3, 0, [2], [])
    rest.on_due = lambda: False
    rest.step_event(Stepped, None)
    assert (rest.counted, heard) == (3, [Stepped])


def test_the_step_after_which_it_begins_is_counted_once(monkeypatch):
    monkeypatch.setattr(sampler_module, "FIRST_STEPS", 0)
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    with live() as view:
        for step in range(1, 5):
            (w * w).sum().backward()
            optimizer.step()
            assert view.step == step
            view._sampler.throttle._early = 0.0  # the second step is the last that is looked at
        assert view._recorder.idle.until > 0 and not current().listeners
