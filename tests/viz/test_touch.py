"""Changing numbers by hand: in a function, in a paused loop, in a toy."""

import threading

import numpy as np
import pytest

import edutorch
from edutorch import nn, optim
from edutorch.viz import live, touch, toy
from edutorch.viz.explore.playground import ToyError
from edutorch.viz.explore.tensor_editor import TensorEditor, TouchError, index_of, sensible_range
from tests.viz.test_live import FakePage


class Page(FakePage):
    """A page that keeps what the panel was told."""

    @property
    def told(self):
        return self.patches[-1]["parts"]["touch"]


def area(a, b):
    return a * b + b


def shown(play):
    page = play.page_state.page = Page()
    play.show()
    return page


# A function --------------------------------------------------------------------------


def test_a_change_is_computed_again_with_gradients():
    play = touch(area, a=2.0, b=-3.0)
    assert (play.result.item(), play.gradient("a"), play.gradient("b")) == (-9.0, -3.0, 3.0)
    play.set("a", 5)
    assert (play.result.item(), play.gradient("a"), play.gradient("b")) == (-18.0, -3.0, 6.0)
    labels = [node.label for node in play.snapshot.graph.nodes]
    assert labels == ["a", "b", "mul", "add"]
    assert [stats.mean for stats in play.snapshot.values] == [5.0, -3.0, -15.0, -18.0]
    assert [stats.mean for stats in play.snapshot.grads] == [-3.0, 6.0, 1.0, 1.0]


def test_everything_can_be_undone_and_done_again():
    play = touch(area, a=2.0, b=[1.0, 2.0])
    values = [play.set("a", value).result.tolist() for value in (3.0, -1.0)]
    play.set("b", 7.0, 1)
    assert play.value("b") == [1.0, 7.0]
    assert play.undo() and play.result.tolist() == values[1]
    assert play.undo() and play.result.tolist() == values[0]
    assert play.redo() and play.result.tolist() == values[1]
    play.set("a", 0.0)  # from here another way is gone
    assert not play.redo()
    while play.undo():
        pass
    assert (play.value("a"), play.value("b")) == (2.0, [1.0, 2.0])


def test_tensors_numbers_and_labels():
    original = edutorch.tensor([1.0, 2.0])
    play = touch(
        lambda x, target: nn.functional.cross_entropy(x, target),
        x=original,
        target=edutorch.tensor(1),
    )
    play.set("x", [0.0, 3.0])
    assert original.tolist() == [1.0, 2.0]  # the caller's tensor is the caller's
    assert play.gradient("target") is None
    play.set("target", 0)
    expected = nn.functional.cross_entropy(edutorch.tensor([0.0, 3.0]), edutorch.tensor(0))
    assert play.result.item() == pytest.approx(expected.item())


def test_the_parameters_of_a_module_can_be_changed():
    model = nn.Linear(2, 1)
    play = touch(model, input=[[1.0, 2.0]])
    play.set("weight", [[3.0, 4.0]]).set("bias", 0.5, 0)
    assert play.result.tolist() == [[11.5]]
    assert model.weight.tolist() == [[3.0, 4.0]]
    assert model.weight.requires_grad and model.weight.is_leaf
    play.undo()
    play.undo()
    assert model.weight.tolist() != [[3.0, 4.0]]


def test_the_function_that_fails():
    def root(a):
        if a < 0:
            raise ValueError("no root of <b>a negative</b>")
        return a.sqrt()

    play = touch(root, a=4.0)
    page = shown(play)
    before = play.snapshot
    with pytest.raises(ValueError, match="no root"):
        play.set("a", -1.0)
    assert play.snapshot is before
    assert page.told["error"] == "ValueError: no root of <b>a negative</b>"
    assert play.undo()
    assert play.value("a") == 4.0 and page.told["error"] == ""
    play.command({"type": "touch", "act": "set", "name": "a", "index": 0, "to": -2})
    assert "no root" in page.told["error"]  # from a page, nothing is raised
    play.command({"type": "touch", "act": "undo"})
    assert page.told["error"] == "" and page.told["undo"] == 0


def test_a_page_sets_drags_and_undoes():
    play = touch(area, a=2.0, b=[[1.0, 2.0], [3.0, 4.0]])
    page = shown(play)
    a, b = page.told["fields"]
    assert (a["values"], a["range"], a["shape"]) == ([2.0], [-5.0, 5.0], [])
    assert (b["values"], b["gradients"]) == ([1.0, 2.0, 3.0, 4.0], [3.0] * 4)
    play.command({"type": "touch", "act": "set", "name": "b", "index": 2, "to": "−2,5", "drag": 0})
    assert play.value("b") == [[1.0, 2.0], [-2.5, 4.0]]
    for to in (2.5, 3.0, 3.5):
        play.command({"type": "touch", "act": "set", "name": "a", "index": 0, "to": to, "drag": 7})
        assert page.told["still"]
    assert page.told["undo"] == 2
    play.command({"type": "touch", "act": "undo"})
    assert play.value("a") == 2.0
    play.command({"type": "touch", "act": "redo"})
    assert play.value("a") == 3.5
    play.command({"type": "touch", "act": "set", "name": "a", "index": 0, "to": "much"})
    assert "cannot write 'much' into 'a'" in page.told["error"]
    assert play.value("a") == 3.5


def test_the_structure_may_follow_the_numbers():
    play = touch(lambda a: a * 2 if a > 0 else a.exp(), a=1.0)
    page = shown(play)
    first = page.pictures[-1]["structure"]
    play.set("a", -1.0)
    assert page.pictures[-1]["structure"] != first
    assert [node["label"] for node in page.pictures[-1]["nodes"]] == ["a", "exp"]


def test_many_numbers_have_no_sliders():
    play = touch(lambda x: (x * x).sum(), x=edutorch.ones(5, 5))
    assert shown(play).told["fields"][0]["values"] == []
    play.set("x", 3.0, (4, 4))
    assert play.result.item() == 33.0


def test_many_numbers_have_a_histogram():
    play = touch(lambda x: x * x, x=edutorch.linspace(-1, 1, 100))
    assert [bool(value.bars) for value in play.snapshot.values] == [True, True]


def test_what_cannot_be_touched():
    with pytest.raises(TouchError, match=r"expected a function, got int"):
        touch(3, a=1.0)
    with pytest.raises(TouchError, match=r"nothing to be changed(.|\n)*name the arguments"):
        touch(lambda: 3)
    with pytest.raises(TouchError, match="has to return a tensor with a graph; got float"):
        touch(lambda a: a.item(), a=1.0)
    with pytest.raises(TouchError, match="does not depend on the numbers"):
        touch(lambda a: a.detach(), a=1.0)
    with pytest.raises(TouchError, match=r"ranges: 'a' = \(3, 1\) is not a range"):
        touch(area, ranges={"a": (3, 1)}, a=1.0, b=2.0)
    with pytest.raises(TouchError, match="cannot make a tensor of a = 'x'"):
        touch(area, a="x", b=2.0)
    play = touch(area, a=1.0, b=2.0)
    with pytest.raises(TouchError, match=r"there is no 'c'\n  hint: one can change a, b"):
        play.set("c", 1.0)
    with pytest.raises(TouchError, match=r"cannot write \[1, 2\] into 'a'"):
        play.set("a", [1, 2])
    assert isinstance(TouchError("x", "y"), ValueError)


def test_the_editor_forgets_old_changes(monkeypatch):
    monkeypatch.setattr("edutorch.viz.explore.tensor_editor.MOST_CHANGES", 3)
    editor = TensorEditor({"a": edutorch.tensor(0.0)})
    for value in range(1, 6):
        editor.set("a", value)
    while editor.undo():
        pass
    assert editor.array("a") == 2.0


def test_ranges_are_round_and_hold_the_value():
    for value in (0.0, 1e-6, 0.3, 7.0, -123.0, 1e20, float("nan")):
        low, high = sensible_range(np.array(value))
        assert not value < low and not value > high
    assert sensible_range(np.array(3), integers=True) == (-10, 10)


def test_places():
    assert index_of(5, (2, 3)) == (1, 2)
    assert index_of("1, 2", (2, 3)) == (1, 2)
    assert index_of("[-1]", (4,)) == (-1,)
    assert index_of(0, ()) == ()
    for asked in (6, "3, 0", "x", None):
        with pytest.raises(TouchError, match=r"there is no place(.|\n)*write 2 indices, as 0, 0"):
            index_of(asked, (2, 3))


# A paused loop -----------------------------------------------------------------------


def train(view, model, optimizer, steps, ask=None):
    """Run a loop; `ask` is called on another thread, as a page's messages are, while it is held."""
    threads = []
    with view:
        for step in range(steps):
            if step == 1 and ask is not None:
                view.pause()
                threads.append(threading.Timer(0.3, ask))
                threads[0].start()
            loss = (model(edutorch.ones(1, 2)) ** 2).sum()
            if optimizer is not None:
                optimizer.zero_grad()
            loss.backward()
            if optimizer is not None:
                optimizer.step()
    for thread in threads:
        thread.join()


def wait_for(condition):
    for _ in range(400):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it never came")


@pytest.mark.parametrize("with_optimizer", [True, False])
def test_a_paused_model_is_changed_between_its_steps(with_optimizer):
    model = nn.Linear(2, 1)
    with edutorch.no_grad():
        model.weight.copy_(edutorch.zeros(1, 2))
        model.bias.copy_(edutorch.zeros(1))
    optimizer = optim.SGD(model.parameters(), lr=0.0) if with_optimizer else None
    view = live(model)
    page = view._page_state.page = Page()
    seen = []

    def use_panel():
        view._command({"type": "ready"})
        wait_for(lambda: page.patches and page.patches[-1]["state"] == "paused")
        told = page.told
        seen.append([field["name"] for field in told["fields"]])
        change = {"type": "touch", "act": "set", "name": "weight", "index": "0, 1", "to": "2.5"}
        view._command(change)
        if with_optimizer:
            wait_for(lambda: page.told["undo"] == 1)
            seen.append(model.weight.tolist())
        view._command({"type": "resume"})

    train(view, model, optimizer, 6, use_panel)
    assert seen[0] == ["weight", "bias"]
    assert model.weight.tolist() == [[0.0, 2.5]]
    if with_optimizer:
        assert seen[1] == [[0.0, 2.5]]
    losses = [value for _, value in view._curves["loss"].points()]
    assert losses[0] == 0.0 and losses[-1] == 6.25


def test_while_the_loop_runs_the_panel_costs_nothing():
    model = nn.Linear(2, 1)
    view = live(model)
    page = view._page_state.page = Page()
    train(view, model, optim.SGD(model.parameters(), lr=0.1), 5)
    assert all("touch" not in patch["parts"] for patch in page.patches)


# A toy -------------------------------------------------------------------------------


def test_the_optimizer_walks_down():
    play = toy("line")
    before, there = play.loss, play.next_step()
    assert play.at == (-1.5, 1.5)  # looking does not go there
    play.step()
    assert play.at == pytest.approx(there)
    assert play.step(50).loss < before / 10
    assert len(play.path) == 52 and play.steps == 51


def test_the_surface_is_the_loss():
    play = toy("moons", optimizer=lambda parameters: optim.Adam(parameters, lr=0.3))
    (left, right, low, high), heights = play.surface()
    row, column = 7, 30
    first = np.linspace(left, right, heights.shape[1])[column]
    second = np.linspace(low, high, heights.shape[0])[row]
    assert heights[row, column] == pytest.approx(play.move(first, second).loss, rel=1e-4)


def test_a_point_is_dragged_and_taken_back():
    play = toy("line", points=[[-1, -1], [0, 0], [1, 1]])
    loss = play.loss
    for x in (1.1, 1.2, 1.3):
        play.drag(2, x, 3.0, drag=4)
    assert play.points[2].tolist() == [1.3, 3.0]
    assert play.loss != loss
    assert play.undo() and play.points[2].tolist() == [1.0, 1.0]
    assert play.loss == loss
    assert play.redo() and play.points[2].tolist() == [1.3, 3.0]
    assert play.undo() and not play.undo()


def test_undo_takes_the_optimizer_back_too():
    def momentum(parameters):
        return optim.SGD(parameters, lr=0.05, momentum=0.9)

    straight, undone = toy(optimizer=momentum), toy(optimizer=momentum)
    straight.step(6)
    undone.step(4)
    undone.undo()
    undone.undo()
    undone.step(2)
    undone.redo()
    undone.step(2)
    assert undone.at == pytest.approx(straight.at)
    undone.reset()
    assert (undone.steps, undone.at) == (0, (-1.5, 1.5))
    undone.undo()
    assert undone.at == pytest.approx(straight.at)


def test_a_page_plays():
    play = toy("moons", count=10)
    page = play.page_state.page = FakePage()
    play.command({"type": "toy", "act": "step"})
    told = page.patches[-1]["parts"]["toy"]
    assert (told["steps"], told["undo"], len(told["points"])) == (1, 1, 10)
    assert len(told["bands"]) == 10 and all(len(ring) % 2 == 0 for ring in told["bands"][0])
    labels = {node["label"] for node in page.pictures[-1]["nodes"]}
    assert {"w1", "w2", "x", "y", "side", "softplus"} <= labels
    play.command({"type": "toy", "act": "drag", "index": 3, "place": [0.5, -0.5], "drag": 1})
    assert page.patches[-1]["parts"]["toy"]["points"][3][:2] == [0.5, -0.5]
    play.command({"type": "toy", "act": "drag", "index": 99, "place": [0.5, -0.5]})
    assert "cannot move point 99" in page.patches[-1]["parts"]["toy"]["error"]
    play.command({"type": "toy", "act": "move", "place": [1.0, float("nan")]})
    assert "have to be finite" in page.patches[-1]["parts"]["toy"]["error"]
    play.command({"type": "toy", "act": "undo"})
    play.command({"type": "toy", "act": "reset"})
    assert play.steps == 0


def test_a_step_that_explodes_is_still_a_picture():
    play = toy("line", optimizer=lambda parameters: optim.SGD(parameters, lr=1e30))
    page = play.page_state.page = FakePage()
    play.step(3)
    assert page.patches[-1]["parts"]["toy"]["loss"] in ("nan", "inf")
    assert play.undo()


def test_toys_that_cannot_be():
    with pytest.raises(ToyError, match=r"unknown kind 'circle'\n  hint: use 'line' or 'moons'"):
        toy("circle")
    with pytest.raises(ToyError, match=r"rows of 3 finite numbers, got the shape \(2, 2\)"):
        toy("moons", points=[[0, 0], [1, 1]])
    with pytest.raises(ToyError, match="count must be from 2 to 200, got 1000"):
        toy(count=1000)
    with pytest.raises(ToyError, match="finite numbers"):
        toy(points=[[0, 0], [1, float("inf")]])
