"""Boxes are found by name, also in groups that are closed."""

from __future__ import annotations

from typing import Any

import pytest

import edutorch
from edutorch import nn
from edutorch.viz import draw
from edutorch.viz.explore.touch import Explorer
from edutorch.viz.graph.fold import Choice, make_plan
from edutorch.viz.graph.model import Graph, Snapshot, Tab
from edutorch.viz.graph.search import LONGEST_QUERY, MOST_HITS, search, search_data
from tests.viz.networks import ResNet


@pytest.fixture(scope="module")
def resnet() -> Snapshot:
    return draw(ResNet((2, 2, 2, 2)), edutorch.randn(2, 3, 32, 32)).whole


def names(whole: Snapshot, text: str, choice: Choice | None = None) -> list[str]:
    return [hit.name for hit in search(whole.graph, text, choice or Choice())]


def test_a_module_is_found_by_its_title(resnet):
    assert names(resnet, "layer3 ·") == ["layer3 · Sequential"]
    assert len(names(resnet, "BATCHNORM2D")) == 20
    assert names(resnet, "layer3.1") == ["layer3.1 · BasicBlock"]  # and not all that lies in it


def test_a_parameter_is_found_by_its_path_an_op_by_its_word(resnet):
    assert names(resnet, "layer4.1.conv2.weight") == ["layer4.1.conv2.weight"]
    assert "flatten" in names(resnet, "flatten")
    assert len([name for name in names(resnet, "fc.") if name.startswith("fc.")]) >= 2


def test_a_variable_is_found():
    model = nn.Linear(2, 1)
    hidden = model(edutorch.ones(3, 2))
    loss = hidden.square().mean()
    whole = draw(loss, model).whole
    assert names(whole, "hidden") == ["hidden = linear"]


@pytest.mark.parametrize("text", ["", "   ", "no such thing"])
def test_nothing_is_found(resnet, text):
    assert names(resnet, text) == []


def test_hits_come_in_the_order_of_computation(resnet):
    hits = search(resnet.graph, "weight", Choice())
    assert [hit.number for hit in hits] == sorted(hit.number for hit in hits)
    assert len(hits) > 40


def test_a_group_comes_before_what_it_begins_with():
    class Sin(nn.Module):
        def forward(self, x):
            return x.sin().cos()

    x = edutorch.ones(2, requires_grad=True)
    whole = draw(nn.Sequential(Sin(), nn.Tanh()), x).whole
    hits = search(whole.graph, "sin", Choice())
    assert [hit.name for hit in hits] == ["0 · Sin", "0.sin"]
    assert hits[0].number == hits[1].number and [bool(hit.key) for hit in hits] == [True, False]


def test_what_is_hidden_has_a_group_that_shows_it(resnet):
    whole, choice = resnet, Choice()
    seen = 0
    for text in ("downsample.1.bias", "conv2 ·", "relu", "layer2.0.conv1.weight"):
        for index in range(len(search(whole.graph, text, choice))):
            for _ in range(3):
                message = search_data(whole.graph, make_plan(whole.graph, choice), text, choice)
                name, box, group = message["hits"][index]
                if not group:
                    break
                choice = choice.open(group)
            assert group == "", (text, name)
            plan = make_plan(whole.graph, choice)
            shown = plan.graph.nodes[int(box[1:])]
            assert shown.group == "" or name.startswith(shown.group.rpartition(".")[2]), name
            seen += 1
    assert seen > 10


def test_a_page_is_told_of_so_many_and_how_many_more():
    x = edutorch.ones(2, requires_grad=True)
    result = x
    for _ in range(MOST_HITS + 20):
        result = result.tanh()
    whole = draw(result).whole
    choice = Choice()
    message = search_data(whole.graph, make_plan(whole.graph, choice), "tanh", choice)
    assert len(message["hits"]) == MOST_HITS and message["more"] >= 20


def test_in_a_tab_only_what_is_in_it_is_found():
    w = edutorch.ones(2, requires_grad=True)
    whole = draw(w.sin().sum() + w.cos().sum()).whole
    graph = whole.graph
    sine = [at for at, node in enumerate(graph.nodes) if node.label != "cos"]
    tabbed = Graph(graph.nodes, graph.edges, graph.modules,
                   tabs=(Tab("loss", tuple(sine)),))  # fmt: skip
    for tab, count in ((None, 1), (0, 0)):
        choice = Choice().show_tab(tab)
        message = search_data(tabbed, make_plan(tabbed, choice), "cos", choice)
        assert len(message["hits"]) == count
    choice = Choice().show_tab(0)
    [(_, box, _)] = search_data(tabbed, make_plan(tabbed, choice), "sin", choice)["hits"]
    assert make_plan(tabbed, choice).graph.nodes[int(box[1:])].label == "sin"


class Page:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.patches: list[dict[str, Any]] = []

    def show(self, picture: Any, patch: dict[str, Any], numbers: bytes, curves: Any = None) -> None:
        self.patches.append(patch)


def explored(whole: Snapshot) -> tuple[Explorer, Page]:
    explorer, page = Explorer(whole), Page()
    explorer.page_state.page = page
    explorer.show()
    return explorer, page


def test_a_page_that_asks_is_answered_and_told_again_with_each_picture(resnet):
    explorer, page = explored(resnet)
    assert "search" not in page.patches[-1]["parts"]
    explorer.command({"type": "find", "text": "layer4.0.conv1.weight"})
    [(name, _, group)] = page.patches[-1]["parts"]["search"]["hits"]
    assert name == "layer4.0.conv1.weight" and group
    explorer.command({"type": "open", "group": group})
    [(_, _, group)] = page.patches[-1]["parts"]["search"]["hits"]
    assert group == ""
    explorer.command({"type": "find", "text": ""})
    assert "search" not in page.patches[-1]["parts"]


@pytest.mark.parametrize("text", [None, 3, ["a"], "x" * 10 * LONGEST_QUERY, "\ud800"])
def test_a_strange_question_does_no_harm(resnet, text):
    explorer, page = explored(resnet)
    assert explorer.command({"type": "find", "text": text}) is None
    assert page.patches[-1]["parts"].get("search", {"more": 0})["more"] == 0


def test_a_page_is_told_which_tab_it_shows(resnet):
    explorer, page = explored(resnet)
    assert page.patches[-1]["tab"] is None
    explorer.command({"type": "tab", "tab": 2})
    assert page.patches[-1]["tab"] == 2
    explorer.command({"type": "tab", "tab": "all"})
    assert page.patches[-1]["tab"] is None
