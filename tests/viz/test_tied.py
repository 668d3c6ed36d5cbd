"""A parameter that several modules share says all its names, and lies in the frame of none."""

import gc

import pytest

import edutorch
from edutorch import nn, viz
from edutorch.nn import functional
from edutorch.viz.graph.model import GraphNode
from edutorch.viz.graph.names import Names
from edutorch.viz.render.dot import name_text

TIED = "embed.weight = head.weight"


class LanguageModel(nn.Module):
    def __init__(self, bias=True):
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.body = nn.Linear(3, 3)
        self.head = nn.Linear(3, 5, bias=bias)
        self.head.weight = self.embed.weight

    def forward(self, words):
        return self.head(edutorch.tanh(self.body(self.embed(words))))


class Wrapped(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.net = LanguageModel(bias)

    def forward(self, words):
        return self.net(words)


def loss_of(model):
    words = edutorch.tensor([1, 2, 3])
    return functional.cross_entropy(model(words), words)


def watched(model):
    with viz.live(model) as view:
        loss_of(model).backward()
    return view.drawing()


WAYS = {
    "live": watched,
    "draw a tensor": lambda model: viz.draw(loss_of(model), model),
    "draw a function": lambda model: viz.draw(lambda: loss_of(model), model=model),
    "backward": lambda model: viz.draw(loss_of(model), model, graph="both"),
    "walk": lambda model: viz.walk(loss_of(model), model=model).drawing(),
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_it_has_both_names_outside_of_both_frames(way, bias):
    snapshot = WAYS[way](LanguageModel(bias)).snapshot
    [tied] = (node for node in snapshot.graph.nodes if node.kind == "parameter"
              and "embed" in node.label)  # fmt: skip
    assert (tied.module, tied.label, tied.frame) == ("", TIED, "")
    assert name_text(tied) == TIED
    linear = [node.frame for node in snapshot.graph.nodes if node.label == "linear"]
    assert set(linear) <= {"body", "head"}
    opened = WAYS[way](LanguageModel(bias)).open("embed").snapshot.graph
    frames = {node.frame for node in opened.nodes if node.label in ("index_select", "embedding")}
    assert frames == {"embed"}
    assert [node.frame for node in opened.nodes if node.label == TIED] == [""]


@pytest.mark.parametrize("way", WAYS)
def test_inside_a_module_it_is_named_there(way):
    graph = WAYS[way](Wrapped(bias=True)).whole.graph
    [tied] = (node for node in graph.nodes if node.kind == "parameter" and "embed" in node.label)
    assert (tied.module, tied.label) == ("net", TIED)


def test_a_module_in_two_places_is_no_tie():
    layer = nn.Linear(2, 2)
    model = nn.ModuleDict({"one": layer, "two": layer})
    assert Names([model]).of(layer.weight) == ("parameter", "one", "weight")


def test_three_names_and_two_in_one_module():
    layers = nn.ModuleList([nn.Linear(2, 2, bias=False) for _ in range(3)])
    for layer in layers:
        layer.weight = layers[0].weight
    names = Names([layers])
    assert names.path_of_leaf(layers[0].weight) == "0.weight = 1.weight = 2.weight"
    assert names.homes_of(layers[0].weight) == ("0", "1", "2")
    one = nn.ParameterDict({"a": nn.Parameter(edutorch.ones(1))})
    one["b"] = one["a"]
    assert Names([one]).of(one["a"]) == ("parameter", "", "a = b")
    box = GraphNode("n0", "parameter", "0.weight = 1.weight = 2.weight")
    assert name_text(box) == "0.weight = 1.weight = …"


def test_what_is_said_of_it_has_all_names():
    model = Wrapped(bias=False)
    walk = viz.walk(loss_of(model), model=model)
    whole = "net.embed.weight = net.head.weight"
    station = walk.run_to("net.head.weight")
    assert station.name == whole
    assert "net.embed.weight.grad = net.head.weight.grad = " in str(station)
    assert walk.run_to("embed.weight").name == whole
    names = Names([model])
    assert names.path_of_leaf(model.net.embed.weight) == whole


def test_a_model_that_is_gone_leaves_no_homes():
    names = Names()
    model = LanguageModel()
    names.path_of(model)
    assert names.homes_of(model.embed.weight) == ("embed", "head")
    del model
    gc.collect()
    assert names._homes == {}
