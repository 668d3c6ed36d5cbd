"""state_dict and load_state_dict; the error report is PyTorch's."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import nn


def make(library):
    return library.Sequential(library.Linear(2, 3), library.BatchNorm1d(3), library.Linear(3, 1))


def test_a_round_trip(device):
    one, two = make(nn), make(nn)
    assert repr(two.load_state_dict(one.state_dict())) == "<All keys matched successfully>"
    for name, value in one.state_dict().items():
        assert two.state_dict()[name].tolist() == value.tolist()
    assert two[0].weight is not one[0].weight
    assert two[0].weight.requires_grad


def test_state_shows_the_memory_itself(device):
    model = make(nn)
    state = model.state_dict()
    assert not state["0.weight"].requires_grad
    state["0.weight"][0, 0] = 9
    assert model[0].weight[0, 0].item() == 9
    assert model.state_dict(keep_vars=True)["0.weight"] is model[0].weight


def damaged(state):
    state = dict(state)
    state["0.weight"] = state["0.weight"][:1]
    del state["0.bias"]
    state["extra.thing"] = state["2.bias"]
    state["2.more"] = state["2.bias"]
    state["2.weight"] = "a text"
    return state


def test_the_report_is_pytorchs(torch):
    ours, theirs = make(nn), make(torch.nn)
    with pytest.raises(RuntimeError) as error:
        ours.load_state_dict(damaged(ours.state_dict()))
    with pytest.raises(RuntimeError) as expected:
        theirs.load_state_dict(damaged(theirs.state_dict()))
    report = str(error.value)
    assert report.split("\n  hint:")[0] == str(expected.value)
    assert "strict=False" in report


def test_not_strict_says_what_was_left_out(torch):
    ours, theirs = make(nn), make(torch.nn)

    def partly(state):
        state = dict(state)
        del state["0.bias"]
        return {**state, "extra": state["2.bias"]}

    keys = ours.load_state_dict(partly(ours.state_dict()), strict=False)
    expected = theirs.load_state_dict(partly(theirs.state_dict()), strict=False)
    assert tuple(keys) == tuple(expected)
    assert repr(keys) == repr(expected)


def test_a_prefix_is_recognised():
    model = make(nn)
    state = {f"module.{key}": value for key, value in model.state_dict().items()}
    with pytest.raises(RuntimeError, match=r"every key begins with 'module\.'"):
        model.load_state_dict(state)


def test_the_nearest_key_is_named():
    model = make(nn)
    state = dict(model.state_dict())
    state["0.weigth"] = state.pop("0.weight")
    state["classifier"] = state.pop("2.bias")
    with pytest.raises(RuntimeError, match=r'missing "0\.weight" is "0\.weigth"'):
        model.load_state_dict(state)


def test_assign_holds_the_given_tensors(device):
    model = make(nn)
    state = {key: value.clone() for key, value in make(nn).double().state_dict().items()}
    model.load_state_dict(state, assign=True)
    assert model[0].weight.dtype is edutorch.float64
    assert isinstance(model[0].weight, nn.Parameter)
    state["0.weight"][0, 0] = 9
    assert model[0].weight[0, 0].item() == 9


def test_loading_converts_type_and_device(device):
    model = nn.Linear(2, 1)
    model.load_state_dict(
        {"weight": edutorch.ones(1, 2, dtype=edutorch.float64, device="cpu"),
         "bias": edutorch.zeros(1, device="cpu")}
    )  # fmt: skip
    assert model.weight.dtype is edutorch.float32
    assert model.weight.device.type == device
    assert model.weight.tolist() == [[1, 1]]


def test_loading_is_noticed_by_a_graph(device):
    model = nn.Linear(2, 1)
    x = edutorch.ones(1, 2, requires_grad=True)
    y = model(x)
    model.load_state_dict(model.state_dict())
    with pytest.raises(RuntimeError, match="inplace"):
        y.sum().backward()


def test_tied_weights_load_once_for_all_places(device):
    def tied():
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        model[1].weight = model[0].weight
        return model

    one, two = tied(), tied()
    assert list(one.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    two.load_state_dict(one.state_dict())
    assert two[1].weight is two[0].weight
    assert two[1].weight.tolist() == one[0].weight.tolist()


def test_a_subclass_may_translate_old_names(device):
    class Renamed(nn.Linear):
        def _load_from_state_dict(self, state_dict, prefix, *rest):
            if prefix + "kernel" in state_dict:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "kernel")
            super()._load_from_state_dict(state_dict, prefix, *rest)

    model = nn.Sequential(Renamed(2, 1))
    result = model.load_state_dict(
        {"0.kernel": edutorch.ones(1, 2), "0.bias": edutorch.zeros(1)}, strict=False
    )
    assert model[0].weight.tolist() == [[1, 1]]
    assert result.missing_keys == []


def test_only_a_mapping_loads():
    with pytest.raises(TypeError, match="dict-like"):
        nn.Linear(1, 1).load_state_dict([1])


def test_assigned_tensors_stay_tied():
    class Tied(edutorch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = edutorch.nn.Embedding(3, 2)
            self.head = edutorch.nn.Linear(2, 3, bias=False)
            self.head.weight = self.embed.weight

    model, trained = Tied(), Tied()
    state = {name: value.clone() for name, value in trained.state_dict().items()}
    model.load_state_dict(state, assign=True)
    assert model.head.weight is model.embed.weight
    assert bool((model.head.weight == trained.head.weight).all())
    model.load_state_dict({"embed.weight": edutorch.ones(3, 2)}, strict=False, assign=True)
    assert model.head.weight is model.embed.weight
    assert bool((model.head.weight == 1).all())
