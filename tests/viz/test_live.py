"""`live` around a loop: what reaches the page, how often, and how the loop is held."""

import json
import math
import sys
import threading
import time

import numpy as np
import pytest

import edutorch
from edutorch import nn, optim
from edutorch.modes import current
from edutorch.viz import live
from edutorch.viz.live.throttle import PaceError
from edutorch.viz.live.view import NothingRecordedError, View
from edutorch.viz.render.graphviz import LayoutTimeout
from tests.viz.golden import floats_in


class FakePage:
    """Keeps what it is shown, with the time."""

    def __init__(self):
        self.pictures, self.patches, self.numbers, self.times = [], [], [], []
        self.curves = {}

    def show(self, picture, patch, values, curves):
        json.dumps([picture, patch, curves], allow_nan=False)
        self.curves = curves or self.curves
        self.pictures += [picture] if picture else []
        self.patches.append(patch)
        self.numbers.append(floats_in(values, self.pictures))
        self.times.append(time.monotonic())


def watched(view):
    view._page_state.page = FakePage()
    return view, view._page_state.page


def descend(w):
    """One step of gradient descent without an optimizer."""
    w.grad = None
    loss = ((w - 1) ** 2).sum()
    loss.backward()
    with edutorch.no_grad():
        w.sub_(w.grad * 0.1)
    return loss


def start():
    return edutorch.tensor([5.0, -3.0], requires_grad=True)


def run(view, steps, between=lambda: None):
    """A whole loop inside the view; `between` happens after each step."""
    w = start()
    with view:
        for _ in range(steps):
            descend(w)
            between()


def test_a_short_loop_shows_its_first_and_last_step():
    w = start()
    view, page = watched(live())
    losses = []
    with view:
        for _ in range(20):
            losses.append(descend(w).item())
            while not page.pictures:  # a Graphviz that only starts takes longer than the loop
                time.sleep(0.001)
            with view._page_state._lock:
                pass  # it has been noted too
    assert view.step == 20
    # The first picture may be there while its numbers are still computed.
    assert next(patch["step"] for patch in page.patches if patch["step"]) == 1
    last = page.patches[-1]
    assert (last["step"], last["state"]) == (20, "finished")
    assert [value for _, value in page.curves["loss"]] == pytest.approx(losses)
    assert not np.array_equal(page.numbers[-1], page.numbers[0])


def test_the_last_numbers_are_those_of_the_last_step():
    w = start()
    view, page = watched(live())
    with view:
        for _ in range(7):
            before = w.tolist()
            descend(w)
    values = dict(
        zip(
            [node["label"] for node in page.pictures[0]["nodes"]],
            page.numbers[-1][: 2 * len(page.pictures[0]["nodes"])].reshape(-1, 2),
            strict=True,
        )
    )
    gradient = [2 * (x - 1) for x in before]
    assert values["w"] == pytest.approx([sum(before) / 2, math.hypot(*gradient)])


def test_one_layout_for_a_graph_that_stays_the_same():
    w = start()
    view, page = watched(live())
    with view:
        for _ in range(50):
            descend(w)
    assert view.layouts == 1
    assert len(page.pictures) == 1
    known = {patch["structure"] for patch in page.patches} - {""}  # "": it was not laid out yet
    assert known == {page.pictures[0]["structure"]}
    assert page.patches[-1]["layouts"] == 1


def test_a_graph_that_changes_is_laid_out_once_per_structure():
    w = start()
    view, page = watched(live())
    with view:
        step, end = 0, time.monotonic() + 30
        while (step < 6 or len(page.pictures) < 2) and time.monotonic() < end:
            x = w.exp() if step % 2 else w
            w.grad = None
            x.sum().backward()
            step += 1
            time.sleep(0.05)
    assert view.layouts == 2
    assert len(page.pictures) >= 2
    for patch in page.patches:  # "": its picture was not ready yet
        assert patch["structure"] in {"", *(picture["structure"] for picture in page.pictures)}


def test_numbers_fit_the_picture():
    w = start()
    view, page = watched(live())
    with view:
        descend(w)
    picture = page.pictures[0]
    few = sum(node["shape"] == [2] for node in picture["nodes"])
    expected = 2 * len(picture["nodes"]) + len(picture["edges"]) + 4 * few
    assert {len(values) for values in page.numbers} - {0} == {expected}  # 0: no picture yet


def test_messages_are_small():
    w = edutorch.zeros(1000, 1000, requires_grad=True)
    view, page = watched(live())
    with view:
        for _ in range(3):
            w.grad = None
            (w * 2 + 1).sum().backward()
    for patch, values in zip(page.patches, page.numbers, strict=True):
        assert len(json.dumps(patch)) + values.nbytes < 2000


def test_never_more_than_thirty_messages_a_second():
    w = start()
    view, page = watched(live())
    end = time.monotonic() + 1.5
    with view:
        while time.monotonic() < end:
            descend(w)
    assert view.step > 100
    assert 2 < len(page.patches) <= 48
    # A picture goes ahead of the first numbers, or follows them; the final state is sent at once.
    gaps = np.diff(page.times[1:-1])
    assert gaps.min() > 0.015  # one that was late does not hold up the next one…
    tens = page.times[10:-1] - np.array(page.times[:-11])
    assert tens.min(initial=1.0) > 0.3  # …but they do not crowd


def test_watching_a_long_run_takes_little_of_its_time():
    w = start()
    view, _ = watched(live())
    with view:
        descend(w)
        view._sampler.throttle._start -= 10  # the first second is over
        costs, begin = [], time.perf_counter()
        while time.perf_counter() < begin + 1:
            descend(w)
            if view._recorder.sampled:
                costs.append(view._recorder.cost)
    assert sum(costs) < 0.1


def test_logged_scalars_have_curves():
    w = start()
    view, page = watched(live())
    with view:
        for step in range(3):
            descend(w)
            view.log(accuracy=step / 10, norm=(w * w).sum())
    assert [value for _, value in page.curves["accuracy"]] == [0.0, 0.1, 0.2]
    assert set(page.curves) == set(page.patches[-1]["latest"]) == {"loss", "accuracy", "norm"}


def test_a_loss_that_is_logged_is_not_drawn_twice():
    w = start()
    view, page = watched(live())
    with view:
        for _ in range(4):
            view.log(loss=7.0)
            descend(w)
    assert [value for _, value in page.curves["loss"]] == [7.0] * 4


def press(view, message_type, after):
    timer = threading.Timer(after, view._gate.command, [{"type": message_type}])
    timer.start()
    return timer


def test_pause_step_and_resume_from_another_thread():
    w = start()
    view, page = watched(live())
    with view:
        descend(w)
        view._gate.command({"type": "pause"})
        timers = [press(view, "step", 0.2), press(view, "step", 0.4), press(view, "resume", 0.6)]
        begin = time.monotonic()
        for _ in range(10):
            descend(w)
        assert time.monotonic() - begin > 0.5
    for timer in timers:
        timer.join()
    paused = [patch["step"] for patch in page.patches if patch["state"] == "paused"]
    assert len(paused) == 3
    assert paused == list(range(paused[0], paused[0] + 3))
    assert view.step == 11
    states = [patch["state"] for patch in page.patches]
    assert states[states.index("paused") + 3] == "running"


def test_after_a_pause_the_numbers_go_on_at_once():
    w = start()
    view, page = watched(live())
    with view:
        descend(w)
        view._gate.command({"type": "pause"})
        press(view, "resume", 0.5)
        begin = time.monotonic()
        while time.monotonic() < begin + 1:
            descend(w)
    running = [at - begin for at, patch in zip(page.times, page.patches, strict=True)
               if patch["state"] == "running" and at > begin + 0.5]  # fmt: skip
    assert len(running) >= 2


def test_a_pause_without_any_page_ends_with_a_warning(monkeypatch):
    view, _ = watched(live())
    wait = view._gate.wait
    monkeypatch.setattr(view._gate, "wait", lambda **options: wait(limit=0.2))
    begin = time.monotonic()
    with pytest.warns(UserWarning, match="no page answered"):
        run(view, 3, between=view.pause)
    assert time.monotonic() - begin > 0.2
    assert view.step == 3


def test_without_a_notebook_a_pause_does_nothing():
    view = live()
    run(view, 3, between=view.pause)
    assert view.step == 3


def test_an_interrupt_ends_a_paused_loop():
    view, page = watched(live())
    view._gate.command({"type": "pause"})
    wait = view._gate.rest

    def interrupted(seconds):
        wait(seconds)
        raise KeyboardInterrupt

    view._gate.rest = interrupted
    with pytest.raises(KeyboardInterrupt):
        run(view, 3)
    assert page.patches[-1]["state"] == "interrupted"
    assert not current().listeners


def test_an_error_in_the_loop_is_shown_and_goes_on_its_way():
    view, page = watched(live())
    with pytest.raises(ZeroDivisionError):
        run(view, 3, between=lambda: 1 / 0)
    assert page.patches[-1]["state"] == "failed"
    assert page.patches[-1]["step"] == 1
    assert not current().listeners


def test_the_pace_is_held():
    w = start()
    view, _ = watched(live(steps_per_second=20))
    begin = time.monotonic()
    with view:
        for _ in range(11):
            descend(w)
    assert time.monotonic() - begin > 0.4


def test_the_pace_can_be_changed_and_pauses_stay_quick():
    view, _ = watched(live(steps_per_second=0.1))
    press(view, "pause", 0.2)
    timer = threading.Timer(0.4, lambda: setattr(view, "steps_per_second", None))
    timer.start()
    press(view, "resume", 0.6)
    begin = time.monotonic()
    run(view, 4)
    assert time.monotonic() - begin < 20  # three steps of ten seconds each are not waited for
    assert view.steps_per_second is None
    timer.join()


@pytest.mark.parametrize("pace", [0, -1, math.nan])
def test_a_pace_at_which_nothing_happens(pace):
    with pytest.raises(PaceError, match="steps_per_second must be positive"):
        live(steps_per_second=pace)


def test_nothing_recorded():
    with live() as view:
        edutorch.ones(3)
    with pytest.raises(NothingRecordedError, match="requires_grad=True"):
        view.drawing()
    assert "step 0" in repr(view)


def test_a_layout_that_fails_does_not_stop_the_training(monkeypatch):
    def fail(*arguments, **options):
        raise LayoutTimeout("viz", "the layout took more than 30 s", hint="fold")

    monkeypatch.setattr(sys.modules["edutorch.viz.live.page"], "render", fail)
    view, page = watched(live())
    with pytest.warns(UserWarning, match="took more than 30 s"):
        run(view, 3)
    assert view.step == 3
    assert "took more than 30 s; the graph has" in page.pictures[0]["svg"]


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def test_a_network_is_drawn_with_the_names_of_its_modules():
    model, criterion = network(), nn.MSELoss()
    batch, target = edutorch.ones(5, 4), edutorch.zeros(5, 3)
    view, page = watched(live(model))
    with view:
        criterion(model(batch), target).backward()
    nodes = {(node["module"], node["label"]): node for node in page.pictures[0]["nodes"]}
    assert {("0", "weight"), ("0", "bias"), ("0", "linear"), ("1", "relu"), ("2", "weight")} <= set(
        nodes
    )
    assert nodes["0", "weight"]["kind"] == "parameter"
    assert nodes["", "batch"]["kind"] == nodes["", "target"]["kind"] == "leaf"
    assert not nodes["", "batch"]["differentiable"]


def test_without_a_model_the_one_that_runs_is_found():
    model = network()
    with live() as view:
        model(edutorch.ones(5, 4)).sum().backward()
    modules = {node.module for node in view.drawing().snapshot.graph.nodes}
    assert modules >= {"0", "1", "2"}


def test_two_models_have_paths_of_their_own():
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    with live(first, second) as view:
        second(first(edutorch.ones(1, 2))).sum().backward()
    labels = {node.module for node in view.drawing().snapshot.graph.nodes}
    assert labels == {"first", "second", ""}


def test_an_update_of_an_optimizer_ends_a_step():
    """Several backwards before one update (gradient accumulation) are one step."""
    w = start()
    optimizer = optim.SGD([w], lr=0.1)
    view, page = watched(live())
    with view:
        for _ in range(3):
            optimizer.zero_grad()
            for _ in range(4):
                (w * w).sum().backward()
            optimizer.step()
    assert view.step == 3
    assert [step for step, _ in page.curves["loss"]][-1] == 3
    assert [step for step, _ in view.curves["loss"].points()] == [1, 2, 3]  # none is there twice


def test_the_view_can_be_used_again():
    w = start()
    view, page = watched(live())
    for _ in range(2):
        with view:
            descend(w)
    assert isinstance(view, View)
    assert view.step == 2
    assert page.patches[-1]["state"] == "finished"
