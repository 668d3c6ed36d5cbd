"""Names of models that are met while they run: slices, shared parts, one per step."""

import gc

import edutorch
from edutorch import nn
from edutorch.events import listening
from edutorch.viz import draw
from edutorch.viz.graph.names import Names
from edutorch.viz.live.recorder import Recorder


def parameters(snapshot):
    return {(node.module, node.label) for node in snapshot.graph.nodes if node.kind == "parameter"}


def recorded(names, function):
    recorder = Recorder(names)
    with listening(recorder):
        function()
        recorder.finish()
    return recorder.snapshot


def test_a_slice_is_named_by_its_parts():
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    names, x = Names([net]), edutorch.ones(2, 3)
    snapshot = recorded(names, lambda: [net[:2](x).sum() for _ in range(3)][-1].backward())
    assert parameters(snapshot) == {("0", "weight"), ("0", "bias")}
    assert names.models == [net]


def test_a_slice_that_is_drawn_is_named_like_its_model():
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    x = edutorch.ones(2, 3)
    assert parameters(draw(net[:2], x).whole) == {("0", "weight"), ("0", "bias")}
    assert parameters(draw(net, x).whole) >= {("0", "weight"), ("2", "bias")}


def test_a_slice_inside_a_model_is_named_by_what_holds_the_parts():
    net = nn.ModuleDict({"body": nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Tanh())})
    names = Names([net])
    assert names.path_of(net["body"][:2]) == "body"
    assert names.path_of(net["body"][:1]) == "body"


def test_models_that_are_made_in_each_step_are_not_kept():
    net, x = nn.Linear(3, 3), edutorch.ones(2, 3)
    names = Names([net])
    known = len(names.modules), len(names._leaves)
    for _ in range(5):
        snapshot = recorded(names, lambda: nn.Linear(3, 1)(net(x)).sum().backward())
        assert parameters(snapshot) == {(module, label) for module in ("", "Linear")
                                        for label in ("weight", "bias")}  # fmt: skip
        gc.collect()
    assert names.models == [net]
    assert (len(names.modules), len(names._leaves)) == known


def test_two_models_of_a_class_have_two_names():
    layers, x = [nn.Linear(3, 3) for _ in range(3)], edutorch.ones(2, 3)

    def forward(x):
        for layer in layers:
            x = layer(x)
        return x.sum()

    paths = {module for module, _ in parameters(draw(forward, x).whole)}
    assert len(paths) == 3


def test_a_model_with_a_shared_parameter_renames_nothing():
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight
    names = Names([first])
    assert names.path_of(second) == "Linear"
    assert names.of(first.weight) == ("parameter", "", "weight")
    assert names.of(second.bias) == ("parameter", "Linear", "bias")
