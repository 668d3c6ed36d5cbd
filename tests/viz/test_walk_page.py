"""A walk in a page: what is sent, and what the buttons do."""

# ruff: noqa: RUF059  (the picture calls things as the variables here that hold them)

from __future__ import annotations

import json

import pytest

from edutorch import viz
from edutorch.viz.live.panel import Panel
from tests.viz.golden import FOLDER
from tests.viz.walks import Failing, cnn, leaf, simple


class Page:
    """What the widget is told."""

    def __init__(self):
        self.sent = []

    def show(self, picture, patch, numbers, curves=None):
        self.sent.append(json.loads(json.dumps((picture, patch))))

    def close(self):
        self.sent.append("closed")

    @property
    def data(self):
        return self.sent[-1][1]["parts"]["walk"]


def opened(loss, **options):
    walk = viz.walk(loss, **options)
    view, page = walk._view, Page()
    view.page_state.page = page
    view.show()
    return walk, view, page


def test_the_page_gets_what_the_protocol_says():
    text = (FOLDER.parents[1] / "widgets" / "protocol.d.ts").read_text(encoding="utf-8")

    def fields(name):
        body = text.split(f"interface {name} {{")[1].split("\n}")[0]
        return {line.split(":")[0].strip(" ?") for line in body.splitlines()
                if line.startswith("  ") and not line.strip().startswith(("/", "*"))}  # fmt: skip

    x, w, y, loss = simple()
    walk, view, page = opened(loss)
    assert page.data["station"] is None and set(page.data["marks"].values()) == {"waiting"}
    view.answer({"type": "walk", "go": "next"})
    assert set(page.data) == fields("WalkData")
    assert set(page.data["station"]) == fields("WalkStation")
    assert set(page.data["station"]["flows"][0]) == fields("WalkFlow")
    assert set(page.data["station"]["incoming"]) == fields("WalkAmount")
    assert sorted(page.data["marks"].values()) == ["here", "waiting", "waiting"]
    assert len(page.data["to"]) == 2
    assert isinstance(view, Panel) and walk.position == 1


def test_the_buttons():
    x, w, y, loss = simple()
    walk, view, page = opened(loss)
    id = f"n{walk.chart.box_of[y._node._order]}"
    view.answer({"type": "walk", "go": "to", "node": id})
    assert page.data["station"]["name"] == "mul"
    view.answer({"type": "walk", "go": "back"})
    assert page.data["position"] == 2
    view.answer({"type": "walk", "go": "end"})
    assert page.data["upcoming"] == "" and x.grad.item() == 4
    constant = next(node.id for node in walk.whole.graph.nodes if node.kind == "constant")
    view.answer({"type": "walk", "go": "to", "node": constant})
    assert "the gradient does not go" in page.data["message"]
    walk.finish()
    assert page.sent[-1] == "closed"


def test_an_error_is_shown_where_the_button_was_pressed():
    _, view, page = opened(Failing.apply(leaf(1.0)))
    view.answer({"type": "walk", "go": "next"})
    assert page.data["message"] == "ValueError: this one cannot"


def test_groups_are_marked_as_a_whole():
    model, loss = cnn()
    walk, view, page = opened(loss, model=model)
    view.answer({"type": "close", "group": "4"})
    closed = next(node["id"] for node in page.sent[-1][0]["nodes"] if node["group"] == "4")
    walk.run_to("linear")
    assert page.data["marks"][closed] == "here"
    view.answer({"type": "walk", "go": "to", "node": closed})
    assert page.data["marks"][closed] == "here"
    assert viz.walk(loss, model=model, open="4").position == 0


def test_a_terminal_reads_text(capsys):
    pytest.importorskip("IPython")
    x, w, y, loss = simple()
    viz.walk(loss)._ipython_display_()
    assert capsys.readouterr().out.startswith("walk through backward, 0 of 5")
