"""Lazy layers become the same ordinary layers as in PyTorch."""

from __future__ import annotations

import copy
import pickle

import pytest

import edutorch
from edutorch import nn
from edutorch.nn.modules.lazy import LazyModuleMixin
from edutorch.nn.parameter import is_lazy
from tests.nn.compare import compare_modules

SHAPES = {1: (2, 4, 6), 2: (2, 4, 5, 6), 3: (2, 4, 3, 4, 5)}
CASES = [
    ("LazyLinear", (3,), {}, (2, 5)), ("LazyLinear", (3,), {"bias": False}, (2, 1, 5)),
    *((f"LazyConv{n}d", (6, 2), {"padding": 1, "groups": 2}, SHAPES[n]) for n in SHAPES),
    *((f"LazyConv{n}d", (3, 2), {"bias": False, "stride": 2}, SHAPES[n][1:]) for n in SHAPES),
    *((f"LazyConvTranspose{n}d", (6, 2), {"groups": 2}, SHAPES[n]) for n in SHAPES),
    *((f"LazyConvTranspose{n}d", (3, 2), {"stride": 2, "output_padding": 1}, SHAPES[n])
      for n in SHAPES),
    *((f"LazyBatchNorm{n}d", (), {}, SHAPES[n]) for n in SHAPES),
    *((f"LazyBatchNorm{n}d", (1e-3, None), {"bias": False}, SHAPES[n]) for n in SHAPES),
    *((f"LazyInstanceNorm{n}d", (), {}, SHAPES[n]) for n in SHAPES),
    *((f"LazyInstanceNorm{n}d", (), {"affine": False, "track_running_stats": False}, SHAPES[n])
      for n in SHAPES),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}{case[1]}{case[2]}")
def test_they_become_ordinary_layers(case, device, torch):
    name, args, settings, shape = case
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*args, **settings)
    ours = getattr(nn, name)(*args, **settings)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    learns = "affine" not in settings
    assert ours.has_uninitialized_params() is theirs.has_uninitialized_params() is learns
    x = torch.randn(shape)
    theirs(x)
    ours(edutorch.zeros(shape, device=device))
    assert type(ours) is getattr(nn, name.removeprefix("Lazy"))
    if learns:  # PyTorch's goes on with 0 features, and warns in each call
        assert repr(ours) == repr(theirs)
    assert not any(map(is_lazy, ours.parameters()))
    compare_modules(ours.double(), theirs.double(), [x.double()], device)


def test_the_start_is_that_of_the_ordinary_layer():
    edutorch.manual_seed(3)
    lazy = nn.LazyLinear(4)
    lazy(edutorch.ones(1, 9))
    edutorch.manual_seed(3)
    plain = nn.Linear(9, 4)
    assert edutorch.equal(lazy.weight, plain.weight) and edutorch.equal(lazy.bias, plain.bias)
    edutorch.manual_seed(3)
    lazy = nn.LazyConv2d(4, 3)
    lazy(edutorch.ones(1, 2, 5, 5))
    edutorch.manual_seed(3)
    assert edutorch.equal(lazy.weight, nn.Conv2d(2, 4, 3).weight)


def test_parameters_are_the_same_objects_before_and_after(device):
    net = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2)).to(device).double()
    before = list(net.parameters())
    assert str(net) == (
        "Sequential(\n  (0): LazyLinear(in_features=0, out_features=4, bias=True)\n  (1): ReLU()\n"
        "  (2): LazyLinear(in_features=0, out_features=2, bias=True)\n)"
    )
    y = net(edutorch.ones(1, 3, device=device, dtype=edutorch.float64))
    assert all(a is b for a, b in zip(before, net.parameters(), strict=True))
    assert all(type(parameter) is nn.Parameter and parameter.is_leaf for parameter in before)
    assert before[0].dtype is edutorch.float64 and before[0].requires_grad
    y.sum().backward()
    optimizer = edutorch.optim.SGD(before, lr=0.1)
    optimizer.step()
    assert before[0].grad.shape == (4, 3)


def test_frozen_parameters_stay_frozen():
    layer = nn.LazyLinear(2).requires_grad_(False)
    layer(edutorch.ones(1, 3))
    assert not layer.weight.requires_grad


def test_copies_and_pickles():
    for twin in (
        copy.deepcopy(nn.LazyConv1d(3, 2)),
        pickle.loads(pickle.dumps(nn.LazyConv1d(3, 2))),
    ):
        assert is_lazy(twin.weight) and twin.weight.requires_grad
        assert twin(edutorch.ones(1, 2, 5)).shape == (1, 3, 4)
    assert is_lazy(copy.deepcopy(nn.LazyBatchNorm1d()).running_mean)
    assert is_lazy(pickle.loads(pickle.dumps(nn.UninitializedBuffer())))


def test_loading():
    plain, lazy = nn.Linear(3, 2), nn.LazyLinear(2)
    assert not lazy.load_state_dict(plain.state_dict()).missing_keys
    assert type(lazy.weight) is nn.Parameter and isinstance(lazy, nn.LazyLinear)
    x = edutorch.ones(1, 3)
    assert edutorch.equal(lazy(x), plain(x))
    assert str(lazy) == str(plain)
    norm = nn.LazyBatchNorm1d()
    norm.load_state_dict(nn.BatchNorm1d(4).state_dict())
    assert norm(edutorch.ones(2, 4)).shape == (2, 4) and norm.num_features == 4
    conv = nn.LazyConv1d(4, 2, groups=2)
    conv.load_state_dict(nn.Conv1d(6, 4, 2, groups=2).state_dict())
    conv(edutorch.ones(1, 6, 3))
    assert conv.in_channels == 6
    nn.LazyLinear(2).load_state_dict(nn.LazyLinear(2).state_dict())  # nothing to copy
    with pytest.raises(RuntimeError, match="Can't access the shape"):
        plain.load_state_dict(nn.LazyLinear(2).state_dict())
    lazy = nn.LazyLinear(2)
    lazy.load_state_dict(plain.state_dict())
    with pytest.raises(AssertionError, match=r"from input: 4 is not equal .* self\.weight: 3"):
        lazy(edutorch.ones(1, 4))


def test_what_cannot_be_done_before_the_first_call():
    weight = nn.LazyLinear(2).weight
    assert repr(weight) == "<UninitializedParameter>"
    assert str(weight.device) and weight.dtype is edutorch.float32
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
        weight.shape  # noqa: B018
    for use in (
        lambda: weight + 1, lambda: weight.sum(), lambda: edutorch.exp(weight),
        lambda: weight.numel(), lambda: len(weight), lambda: weight.ndim,
        lambda: weight.size(), lambda: weight.dim(),
        lambda: weight * edutorch.ones(2),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
            use()


def test_mistakes():
    with pytest.raises(RuntimeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\)"):
        nn.LazyConv2d(3, 2)(edutorch.ones(2, 2))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.LazyConv2d(4, 2, groups=2)(edutorch.ones(1, 3, 4, 4))

    class Forgotten(LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.UninitializedParameter()

    with pytest.raises(NotImplementedError, match="not implemented for Forgotten"):
        Forgotten()(edutorch.ones(1))

    class Half(Forgotten):
        def initialize_parameters(self, x):
            pass

    with pytest.raises(RuntimeError, match="module Half has not been fully initialized"):
        Half()(edutorch.ones(1))


def test_a_lazy_module_of_ones_own():
    class Scale(LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.UninitializedParameter()

        def initialize_parameters(self, x):
            self.scale.materialize(x.shape[-1:])
            nn.init.ones_(self.scale)

        def forward(self, x):
            return x * self.scale

    layer = Scale()
    assert layer(edutorch.ones(2, 3)).shape == layer(edutorch.ones(2, 3)).shape == (2, 3)
    assert type(layer) is Scale


def test_factory_kwargs(torch):
    for kwargs in ({}, {"device": "cpu"}, {"factory_kwargs": {"dtype": 1}, "device": 2}, None):
        assert nn.factory_kwargs(kwargs) == torch.nn.factory_kwargs(kwargs)
    with pytest.raises(TypeError, match="unexpected kwargs"):
        nn.factory_kwargs({"size": 1})
    with pytest.raises(TypeError, match="device specified twice"):
        nn.factory_kwargs({"device": 1, "factory_kwargs": {"device": 1}})


def test_filling_what_has_no_shape_yet():
    """Old code fills `.data` of all layers before the first batch; lazy ones have none yet."""

    def fill(module):
        if isinstance(module, nn.Linear):
            module.weight.data.normal_(0.0, 0.02)
            module.bias.data.zero_()

    model = nn.Sequential(nn.LazyLinear(2)).apply(fill)
    assert nn.parameter.is_lazy(model[0].weight) and model[0].weight.data.numel() == 0
    assert model.to(edutorch.float64)(edutorch.ones(1, 3).double()).shape == (1, 2)
