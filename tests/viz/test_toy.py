"""A toy's numbers: its points, its loss, the surface, and what can be taken back."""

import sys

import numpy as np
import pytest

import edutorch
from edutorch import optim
from edutorch.viz import toy
from edutorch.viz.explore.playground import (
    BANDS,
    GRID,
    REACH,
    contour_bands,
    line_points,
    moon_points,
    noise_of,
)
from edutorch.viz.live.messages import patch_of
from tests.viz.test_live import FakePage

GENERIC = [[-1.5, 0.25, 0.0], [0.5, 2.0, 1.0], [3.0, -0.75, 1.0]]
"""No two numbers of them can be exchanged without a change of the loss."""

LOST = {
    "flat": ("moons", [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
    "flat beside its height": ("line", [[0.0, 1e8], [1.0, 1e8]]),
    "nowhere finite": ("line", [[0.0, 1e25], [1.0, 1e25]]),
}
"""Points whose surface has no heights that could be told apart."""


def loss_by_hand(task, points, first, second):
    x, y, side = np.array(points).T
    if task == "line":
        return np.mean((first * x + second - y) ** 2)
    score = first * x + second * y
    return np.mean(np.log1p(np.exp(score)) - side * score)


@pytest.mark.parametrize("task", ["line", "moons"])
def test_the_loss_and_its_gradient_are_those_of_the_formula(task):
    rows = [row[:2] for row in GENERIC] if task == "line" else GENERIC
    play = toy(task, points=rows).move(0.75, -0.5)
    assert play.loss == pytest.approx(loss_by_hand(task, GENERIC, 0.75, -0.5), rel=1e-5)
    step = 1e-5
    slopes = [
        (loss_by_hand(task, GENERIC, 0.75 + step * (axis == 0), -0.5 + step * (axis == 1))
         - loss_by_hand(task, GENERIC, 0.75, -0.5)) / step
        for axis in (0, 1)
    ]  # fmt: skip
    grads = [parameter.grad.item() for parameter in play.parameters]
    assert grads == pytest.approx(slopes, rel=1e-3)
    assert play.next_step() == pytest.approx((0.75 - 0.1 * grads[0], -0.5 - 0.1 * grads[1]))


def test_the_surface_is_the_loss_everywhere():
    play = toy("line", points=[row[:2] for row in GENERIC]).move(4.0, -6.0)
    box, heights = play.surface()
    ends = np.array([(0.0, 0.0), *play.path, play.next_step()])
    low, high = ends.min(axis=0), ends.max(axis=0)
    wanted = np.stack([np.minimum(-REACH, 1.1 * low), np.maximum(REACH, 1.1 * high)], 1).ravel()
    assert box == pytest.approx(wanted)
    assert heights.shape == (GRID, GRID)
    for row, column in ((0, 0), (5, 40), (40, 7)):
        first = box[0] + (box[1] - box[0]) * column / (GRID - 1)
        second = box[2] + (box[3] - box[2]) * row / (GRID - 1)
        by_hand = loss_by_hand("line", GENERIC, first, second)
        assert heights[row, column] == pytest.approx(by_hand, rel=1e-4)


def test_a_path_that_leads_far_away_does_not_stretch_the_surface():
    play = toy("line").move(40.0, 0.0)
    assert play.surface()[0][1] < 40


def test_the_bands_cover_the_box_and_each_holds_its_heights():
    box = (-1.0, 1.0, 0.0, 2.0)
    heights = np.add.outer(np.linspace(0, 3, GRID), np.linspace(0, 1, GRID))
    levels = heights.min() + np.ptp(heights) * np.linspace(0, 1, BANDS + 1) ** 2.5
    drawn = contour_bands(box, heights)
    assert len(drawn) == BANDS
    area = 0.0
    for rings, low, high in zip(drawn, levels, levels[1:], strict=False):
        for ring in rings:
            x, y = np.array(ring).reshape(-1, 2).T
            height = (y - box[2]) / 2 * 3 + (x - box[0]) / 2
            assert low - 5e-3 <= height.min() and height.max() <= high + 5e-3
            area += abs(np.dot(x[:-1], y[1:]) - np.dot(x[1:], y[:-1])) / 2
    assert area == pytest.approx(4, abs=0.02)


@pytest.mark.parametrize("name", LOST)
def test_a_surface_without_heights_is_drawn_too(name):
    task, points = LOST[name]
    play = toy(task, points=points)
    assert len(contour_bands(*play.surface())) == BANDS
    pytest.importorskip("matplotlib", reason="needs the extra `lab`")
    hills = play.picture().figure.axes[1]
    assert hills.collections and np.isfinite(hills.get_xlim()).all()


def test_the_line_between_two_classes_where_there_is_none():
    pytest.importorskip("matplotlib", reason="needs the extra `lab`")
    plane = toy("moons").move(0.0, 0.0).picture().figure.axes[0]
    assert np.isfinite(plane.lines[-1].get_xydata()).all()


# Made points --------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [4, 5])
def test_made_points_are_curves_with_noise(count, monkeypatch):
    module = sys.modules["edutorch.viz.explore.playground"]  # the name is the function's in `viz`
    noise = np.arange(1.0, 2 * count + 1) / 8
    monkeypatch.setattr(module, "noise_of", lambda size, generator: noise[:size])
    x, y = line_points(count, None).T
    np.testing.assert_allclose(x, np.linspace(-2, 2, count))
    np.testing.assert_allclose(y, 0.8 * x + 0.5 + 0.25 * noise[:count])
    x, y, side = moon_points(count, None).T
    x, y = (x - 0.08 * noise[:count]) / 1.4, (y - 0.08 * noise[count:]) / 1.4
    upper = np.arange(count) < count // 2
    assert side.tolist() == (~upper).tolist()
    np.testing.assert_allclose(np.hypot(x[upper] + 0.5, y[upper] + 0.25), 1)
    np.testing.assert_allclose(np.hypot(x[~upper] - 0.5, y[~upper] - 0.25), 1)
    assert (y[upper] >= -0.25 - 1e-9).all() and (y[~upper] <= 0.25 + 1e-9).all()


def test_a_seed_makes_the_same_points_and_another_one_others():
    generator = edutorch.Generator().manual_seed(3)
    noise = noise_of(1000, generator)
    assert noise.dtype == np.float64
    assert abs(noise.mean()) < 0.1 and noise.std() == pytest.approx(1, abs=0.1)
    for task in ("line", "moons"):
        first, again, other = (toy(task, seed=seed).points for seed in (0, 0, 1))
        assert (first == again).all() and (first != other).any()
        assert (first == toy(task).points).all()  # the default
        assert len(first) == 16


@pytest.mark.parametrize("count", [2, 200])
def test_as_many_points_as_it_may_be(count):
    assert len(toy(count=count).points) == count
    assert len(toy(points=[[0.0, 1.0]] * count).points) == count


@pytest.mark.parametrize("count", [1, 201])
def test_too_few_or_too_many_points(count):
    from edutorch.viz.explore.playground import ToyError

    with pytest.raises(ToyError, match=f"from 2 to 200, got {count}"):
        toy(count=count)
    with pytest.raises(ToyError, match="2 to 200 rows of 2 finite numbers"):
        toy(points=[[0.0, 1.0]] * count)


def test_points_may_be_a_tensor_and_are_copied():
    original = edutorch.tensor([[0.0, 1.0], [2.0, 3.0]])
    array = np.array([[0.0, 1.0], [2.0, 3.0]])
    for points in (original, array):
        play = toy(points=points)
        play.points[0, 0] = 9.0
        assert points[0, 0] == 0.0
        play.reset()
        assert play.points[0, 0] == 0.0  # also where somebody wrote into them


# What can be done ---------------------------------------------------------------------------


@pytest.mark.parametrize("index", [-1, 3])
def test_a_point_that_is_not_there_cannot_be_dragged(index):
    from edutorch.viz.explore.playground import ToyError

    play = toy(points=[[0, 0], [1, 1], [2, 2]])
    with pytest.raises(ToyError, match=f"cannot move point {index} to"):
        play.drag(index, 0.0, 0.0)
    with pytest.raises(ToyError, match=r"there are points 0 to 2"):
        play.drag(0, float("nan"), 0.0)
    with pytest.raises(ToyError, match="have to be finite"):
        play.move(0.0, float("inf"))
    assert not play.past
    play.drag(2, 5.0, 6.0).drag(0, 7.0, 8.0)
    assert play.points.tolist() == [[7, 8], [1, 1], [5, 6]]


def test_a_dragged_point_keeps_its_class():
    play = toy("moons", points=[[0, 0, 0], [1, 1, 1]]).drag(1, 2.0, 3.0)
    assert play.points.tolist() == [[0, 0, 0], [2, 3, 1]]


def test_what_is_dragged_at_once_is_undone_at_once():
    play = toy(points=[[0, 0], [1, 1]])
    play.drag(0, 1.0, 1.0).drag(0, 2.0, 2.0)  # two moves
    play.drag(0, 3.0, 3.0, drag=1).drag(0, 4.0, 4.0, drag=1)
    play.drag(0, 5.0, 5.0, drag=2)
    seen = [play.points[0, 0]]
    while play.undo():
        seen.append(play.points[0, 0])
    assert seen == [5, 4, 2, 1, 0]
    assert not play.undo() and play.redo() is True
    play.drag(1, 9.0, 9.0)  # another way: what was taken back is gone
    assert play.redo() is False


def test_a_move_begins_a_new_path():
    play = toy(optimizer=lambda parameters: optim.SGD(parameters, lr=0.01, momentum=0.9))
    play.step(3).move(1.0, 2.0)
    assert play.path == [(1.0, 2.0)] and play.at == (1.0, 2.0)
    fresh = toy(optimizer=lambda parameters: optim.SGD(parameters, lr=0.01)).move(1.0, 2.0)
    assert play.step().at == pytest.approx(fresh.step().at)  # no momentum of the way before
    assert play.undo() and play.undo() and len(play.path) == 4


def test_looking_changes_nothing():
    play = toy(optimizer=lambda parameters: optim.Adam(parameters, lr=0.1))
    plain = toy(optimizer=lambda parameters: optim.Adam(parameters, lr=0.1))
    for _ in range(3):
        play.next_step()
        play.surface()
        patch_of(play.steps, "still", {}, [play.part])
        play.step()
    assert play.at == pytest.approx(plain.step(3).at)


# The page -----------------------------------------------------------------------------------


def told(play):
    return play.page_state.page.patches[-1]["parts"]["toy"]


@pytest.mark.parametrize("task", ["line", "moons"])
def test_a_page_is_told_all_of_it(task):
    play = toy(task, count=4)
    play.page_state.page = FakePage()
    play.step(2)
    play.undo()
    seen = told(play)
    names = {"line": ["w", "b"], "moons": ["w1", "w2"]}[task]
    assert (seen["kind"], seen["names"], seen["steps"]) == (task, names, 1)
    assert (seen["undo"], seen["redo"], seen["error"]) == (1, 1, "")
    np.testing.assert_allclose(seen["points"], play.points, atol=1e-4)
    np.testing.assert_allclose(seen["at"], play.at, atol=1e-5)
    np.testing.assert_allclose(seen["next"], play.next_step(), atol=1e-5)
    np.testing.assert_allclose(seen["path"], play.path, atol=1e-5)
    assert seen["box"] == list(play.surface()[0]) and seen["loss"] == pytest.approx(play.loss)


def test_an_error_is_said_until_something_else_is_done():
    play = toy(points=[[0, 0], [1, 1]])
    play.page_state.page = FakePage()
    for content in ({}, {"place": [1.0]}, {"place": ["a", 2.0]}, {"index": 0}):
        play.command({"type": "toy", "act": "drag", **content})
        assert told(play)["error"]
    play.command({"type": "toy", "act": "drag", "index": 1, "place": ["2.5", 3]})
    assert told(play)["error"] == "" and play.points[1].tolist() == [2.5, 3.0]
    play.command({"type": "toy", "act": "drag", "place": [1.0, 2.0]})
    assert "cannot move point -1" in told(play)["error"]
    play.command({"type": "toy", "act": "undo"})
    assert told(play)["error"] == ""
    for count in (1, 2):
        play.command({"type": "toy", "act": "drag", "index": 0, "place": [count, 0], "drag": 7})
    play.command({"type": "toy", "act": "undo"})
    assert play.points[0].tolist() == [0.0, 0.0]
