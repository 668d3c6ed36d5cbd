"""A toy leaves a picture: of its points and its surface, where its buttons were."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest

from edutorch import optim
from edutorch.viz import toy


class Handle:
    """A cell's output: keeps what it is updated to."""

    def __init__(self, shown: Any) -> None:
        self.shown = shown

    def update(self, shown: Any, raw: bool = False) -> None:
        assert raw
        self.shown = shown


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> list[Handle]:
    """Return what is displayed, as in a notebook."""
    display = pytest.importorskip("IPython.display", reason="needs the extra `lab`")
    pytest.importorskip("anywidget", reason="needs the extra `lab`")
    shown: list[Handle] = []

    def keep(what: Any, **options: Any) -> Handle:
        shown.append(Handle(what))
        return shown[-1]

    monkeypatch.setattr(display, "display", keep)
    module = sys.modules["edutorch.viz.explore.playground"]  # the name is the function's in `viz`
    monkeypatch.setattr(module, "in_notebook", lambda: True)
    return shown


def image(picture: Any) -> np.ndarray:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs the extra `lab`")
    return pyplot.imread(io.BytesIO(picture.png()))


@pytest.mark.parametrize("task", ["line", "moons"])
def test_the_picture_shows_the_points_the_fit_and_the_path(task: Any) -> None:
    play = toy(task, count=10)
    before = image(play.picture())
    play.step(5)
    picture = play.picture()
    assert picture.alt.startswith(f"toy {task}: step 5, ") and picture.figure is not None
    plane, hills = picture.figure.axes[:2]
    drawn = sum(len(line.get_xdata()) for line in plane.lines if line.get_linestyle() == "None")
    assert drawn == 10
    path = hills.lines[0]
    np.testing.assert_allclose(np.array(path.get_xydata()), np.array(play.path))
    fit = next(line for line in plane.lines if line.get_linestyle() == "-")
    (first, second), (x, y) = play.at, np.array(fit.get_xydata()).T
    if task == "line":
        np.testing.assert_allclose(y, first * x + second, rtol=1e-5)
    else:
        np.testing.assert_allclose(first * x + second * y, 0, atol=1e-5)
    assert before.shape == image(picture).shape and (before != image(picture)).any()


@pytest.mark.parametrize("task", ["line", "moons"])
def test_the_picture_names_its_axes_and_tells_its_parts_apart(task: Any) -> None:
    play = toy(task, count=10).step(2)
    figure = play.picture().figure
    plane, hills, bar = figure.axes
    assert (plane.get_xlabel(), plane.get_ylabel()) == ("x", "y")
    assert (hills.get_xlabel(), hills.get_ylabel()) == play.names
    assert bar.get_ylabel() == "loss"
    assert plane.get_xlim() == plane.get_ylim() == (-3, 3)
    (left, right, low, high), _ = play.surface()
    assert hills.get_xlim() == pytest.approx((left, right))
    assert hills.get_ylim() == pytest.approx((low, high))
    *points, fit = plane.lines
    assert fit.get_color() == "black" and tuple(fit.get_xdata()) != (0, 0)
    legend = plane.get_legend()
    if task == "line":
        assert [point.get_marker() for point in points] == ["o"] and legend is None
    else:
        assert [point.get_marker() for point in points] == ["o", "s"]
        assert [text.get_text() for text in legend.get_texts()] == ["class 0", "class 1"]
        assert len({point.get_color() for point in points}) == 2
        for side, drawn in enumerate(points):
            of_class = play.points[play.points[:, 2] == side]
            np.testing.assert_allclose(drawn.get_xydata(), of_class[:, :2])
        ends = np.hypot(*np.array(fit.get_xydata()).T)
        np.testing.assert_allclose(ends, 6)  # it reaches beyond the points
    path, here = hills.lines
    assert (path.get_color(), path.get_markerfacecolor()) == ("black", "white")
    assert (here.get_color(), here.get_markeredgecolor(), here.get_marker()) == (
        "white", "black", "*",
    )  # fmt: skip
    assert tuple(np.ravel(here.get_xydata())) == pytest.approx(play.at)


def test_a_picture_of_what_exploded() -> None:
    play = toy("line", optimizer=lambda parameters: optim.SGD(parameters, lr=1e20))
    play.step(3)
    assert image(play.picture()).size


def test_finish_puts_the_picture_where_the_buttons_were(outputs: list[Handle]) -> None:
    play = toy("line")
    play._ipython_display_()
    play._ipython_display_()
    views, below = outputs[::2], outputs[1::2]
    one, other = (view.shown["application/vnd.jupyter.widget-view+json"] for view in views)
    assert one["model_id"] == other["model_id"], "one widget, however often it is shown"
    assert all("run it again" in shown_output.shown["text/plain"] for shown_output in below)
    assert play.step(2).finish() is play and play.page_state.page is None
    for shown_output in views:
        assert {"image/png", "text/html", "text/plain"} <= set(shown_output.shown)
    for output in outputs:
        assert "step 2" in output.shown["text/plain"]
    play._ipython_display_()
    assert "image/png" in outputs[-1].shown, "a finished toy shows its picture"


def test_outside_a_notebook_it_says_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("IPython.display", reason="needs the extra `lab`")
    toy("line").step(1)._ipython_display_()
    assert capsys.readouterr().out.startswith("<toy line: step 1, ")
