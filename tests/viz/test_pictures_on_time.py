"""A picture comes as soon as it is laid out: before the step is over, and beside a slow loop."""

from __future__ import annotations

import re
import threading
import time
from xml.etree import ElementTree

import numpy as np
import pytest

import edutorch
from edutorch.viz import live
from edutorch.viz.graph.model import Vertex, arrange
from edutorch.viz.live import page as page_module
from edutorch.viz.live.page import LayoutQueue, blank_snapshot, strip_style, write_labels
from edutorch.viz.render.dot import dot_text, node_lines
from edutorch.viz.render.graphviz import engines, render
from tests.viz.golden import NASTY, example, floats_in, nasty

SVG = "{http://www.w3.org/2000/svg}"
ENGINES = [engine.name for engine in engines() if engine.available and engine.formats]


class Page:
    """A page that can be waited for."""

    def __init__(self):
        self.shown = []
        self.pictures = []
        self.came = threading.Condition()

    def show(self, picture, patch, numbers, curves):
        with self.came:
            self.pictures += [picture] if picture else []
            self.shown.append((patch, floats_in(numbers, self.pictures)))
            self.came.notify_all()

    def waits_for(self, pictures, seconds=20):
        """Wait, on the loop's thread, until so many pictures are there."""
        with self.came:
            return self.came.wait_for(lambda: len(self.pictures) >= pictures, seconds)


def watched():
    view = live()
    view._page_state.page = Page()
    return view, view._page_state.page


def render_after(monkeypatch, wait):
    """Have Graphviz begin later."""
    usual = page_module.render

    def render(dot, **options):
        wait()
        return usual(dot, **options)

    monkeypatch.setattr(page_module, "render", render)


def test_the_first_picture_comes_while_backward_still_runs():
    w = edutorch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    view, page = watched()
    early = []
    w.register_hook(lambda gradient: early.append((page.waits_for(1), view.step)))
    with view:
        w.sin().sum().backward()
    assert early == [(True, 0)]
    assert np.isnan(page.shown[0][1]).all()  # its numbers come at the end of the step
    assert not np.isnan(page.shown[-1][1]).all()
    assert view.layouts == len(page.pictures) == 1
    assert [node["label"] for node in page.pictures[0]["nodes"]] == ["w", "sin", "sum"]


def test_a_loop_goes_on_as_soon_as_graphviz_has_its_first_picture(monkeypatch):
    let_go = threading.Event()

    def render(dot, timeout, handed_over):
        handed_over()
        let_go.wait(60)
        return b"<svg/>"

    monkeypatch.setattr(page_module, "render", render)
    start = time.monotonic()
    asked = LayoutQueue()
    asked.hand_over(example().graph, patience=60)
    assert time.monotonic() < start + 30
    assert not asked.is_ready
    let_go.set()


def test_until_graphviz_has_it_a_loop_waits_a_moment_which_is_no_cost_of_watching(monkeypatch):
    let_go = threading.Event()
    render_after(monkeypatch, lambda: let_go.wait(60))
    w = edutorch.ones(5, requires_grad=True)
    view, _ = watched()
    waits, prepare = [], view._page_state.prepare
    monkeypatch.setattr(
        view._page_state, "prepare", lambda *asked: waits.append(prepare(*asked)) or waits[-1]
    )
    with view._sampler:
        w.sin().sum().backward()
    let_go.set()
    (waited,) = waits
    assert view._recorder.end_seconds >= waited >= page_module.PATIENCE


@pytest.mark.parametrize("most", [2, 3])
def test_a_large_picture_is_not_waited_for_at_the_end_of_a_step(monkeypatch, most):
    monkeypatch.setattr(page_module, "MAX_AWAITED_NODES", most)
    let_go = threading.Event()
    render_after(monkeypatch, lambda: let_go.wait(60))
    w = edutorch.ones(5, requires_grad=True)
    view, _ = watched()
    asked, svg = [], view._page_state.layouts.svg
    monkeypatch.setattr(
        view._page_state.layouts,
        "svg",
        lambda graph, patience: asked.append(patience) or svg(graph, 0),
    )
    with view._sampler:
        w.sin().sum().backward()  # three nodes
        view._recorder.finish_step()
    let_go.set()
    assert (page_module.PATIENCE in asked) == (most == 3)


def test_a_late_picture_is_sent_beside_a_loop_that_takes_its_time(monkeypatch):
    render_after(monkeypatch, lambda: time.sleep(0.2))
    w = edutorch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    optimizer = edutorch.optim.SGD([w], lr=0.0)
    view, page = watched()
    with view:
        for step, op in enumerate(("sin", "cos")):
            time.sleep(0.05)  # messages do not come at once after each other
            optimizer.zero_grad()
            getattr(w, op)().sum().backward()
            optimizer.step()
            assert len(page.pictures) == step  # Graphviz is still at work
            assert page.waits_for(step + 1)  # and the loop does nothing
            patch, values = page.shown[-1]
            assert patch["step"] == step + 1
            expected = getattr(np, op)(np.arange(1.0, 6.0)).mean()
            assert values[2] == pytest.approx(expected, rel=1e-6)
    assert view.layouts == len(page.pictures) == 2
    steps = [patch["step"] for patch, _ in page.shown]
    assert steps == sorted(steps)


def test_two_pictures_do_not_wait_for_each_other(monkeypatch):
    """One is laid out after the other; the first is to be sent while the second is waited for."""
    render_after(monkeypatch, lambda: time.sleep(0.3))
    w = edutorch.ones(5, requires_grad=True)
    view, page = watched()
    start = time.monotonic()
    with view:
        w.sin().sum().backward()
        w.cos().exp().sum().backward()
    assert time.monotonic() < start + page_module.LIMIT / 2
    assert page.pictures[-1]["nodes"][1]["label"] == "cos"


def test_a_picture_that_comes_after_the_page_has_gone_is_dropped(monkeypatch):
    let_go = threading.Event()
    render_after(monkeypatch, lambda: let_go.wait(20))
    w = edutorch.ones(5, requires_grad=True)
    view, page = watched()
    with view._sampler:
        w.sin().sum().backward()
        view._page_state.page = None
        let_go.set()
        whole = view._recorder.graph.arrange().graph
        assert view._page_state.layouts.wait(view._page_state.plan(whole).graph)
    assert not page.pictures


# What stands in the boxes -------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("snapshot", [example(), nasty()], ids=["example", "nasty"])
def test_words_are_written_where_graphviz_would_have_put_them(snapshot, engine):
    graph = snapshot.graph
    text = dot_text(blank_snapshot(graph), reserve=True, bare=True, words=False)
    result = boxes(write_labels(strip_style(render(text, engine=engine).decode()), graph))
    text = dot_text(blank_snapshot(graph), reserve=True, bare=True)
    usual = boxes(strip_style(render(text, engine=engine).decode()))
    assert result.keys() == usual.keys() == {node.id for node in graph.nodes}
    for node in graph.nodes:
        (low, high), texts = result[node.id]
        assert [words for words, _ in texts] == node_lines(node, None, None, reserve=True)
        assert all(low < y < high for _, y in texts)
        for (_, y), (_, by_graphviz) in zip(texts, usual[node.id][1], strict=True):
            assert abs(y - by_graphviz) < 5


def boxes(svg):
    """Return the top and bottom of each box, and its lines with their places."""
    result = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        if group.get("class") == "node":
            (shape,) = group.findall(f"{SVG}polygon")
            ys = [float(part.split(",")[1]) for part in shape.get("points").split()]
            texts = [(item.text, float(item.get("y"))) for item in group.findall(f"{SVG}text")]
            result[group.get("id")] = (min(ys), max(ys)), texts
    return result


def test_no_name_gets_out_of_its_box():
    svg = LayoutQueue().svg(nasty().graph, patience=None)
    assert svg is not None
    assert not re.search(r"<(script|img|b)\b", svg)
    names = "".join(ElementTree.fromstring(svg).itertext())
    assert "<script>alert(1)" in names
    assert len(NASTY[-2]) > len(names)  # the longest is cut


def test_a_large_graph_is_laid_out_with_less_effort_and_looks_the_same_in_two_runs():
    vertices = {0: Vertex("leaf", "x", shape=(2,))}
    for number in range(1, 400):
        vertices[number] = Vertex("op", "sin", shape=(2,), sources=(("input", number - 1),))
    graph = arrange(vertices, [399]).graph
    text = dot_text(blank_snapshot(graph), bare=True)
    assert "nslimit" in text and "nslimit" not in dot_text(example())
    assert render(text) == render(text)


def test_a_view_that_waits_has_no_thread():
    """A widget is kept for as long as its notebook runs, and its thread would be, too."""
    asked = [LayoutQueue() for _ in range(3)]
    for layouts in asked:
        assert "<svg" in layouts.svg(nasty().graph, patience=None)
    end = time.monotonic() + 5
    while any(thread.name == "edutorch-layout" for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert "<svg" in asked[0].svg(nasty().graph, patience=None)
