"""`Module`: registration, names and iteration."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict

import pytest

import edutorch
from edutorch import nn
from edutorch.events import ModuleEntered, ModuleLeft, listening


def make(library, tensor_of):
    """A module of one library with each type of member."""

    class Inner(library.Module):
        def __init__(self):
            super().__init__()
            self.scale = library.Parameter(tensor_of([2.0]))
            self.register_buffer("count", tensor_of([1.0]))
            self.register_buffer("scratch", tensor_of([0.0]), persistent=False)
            self.register_parameter("missing", None)

        def forward(self, x):
            return x * self.scale

        def extra_repr(self):
            return "kind=inner"

    class Outer(library.Module):
        def __init__(self):
            super().__init__()
            self.first = library.Linear(3, 2)
            self.inner = Inner()
            self.again = self.inner
            self.layers = library.ModuleList([library.ReLU(), library.ReLU(), library.Linear(2, 2)])
            self.named = library.ModuleDict({"a": library.Tanh(), "b": library.Sequential()})
            self.kept = library.Buffer(tensor_of([3.0]))
            self.loose = tensor_of([4.0])
            self.nothing = None

        def forward(self, x):
            return self.layers[2](self.layers[0](self.inner(self.first(x))))

    return Outer()


@pytest.fixture
def ours(device):
    return make(nn, edutorch.tensor)


@pytest.fixture
def theirs(torch):
    return make(torch.nn, torch.tensor)


def test_everything_has_pytorchs_name(ours, theirs):
    for listing in ("parameters", "buffers", "modules", "children"):
        names = [name for name, _ in getattr(ours, f"named_{listing}")()]
        assert names == [name for name, _ in getattr(theirs, f"named_{listing}")()], listing
        assert len(list(getattr(ours, listing)())) == len(names)
    every = {"remove_duplicate": False}
    for listing in ("parameters", "buffers", "modules"):
        names = [name for name, _ in getattr(ours, f"named_{listing}")(**every)]
        assert names == [name for name, _ in getattr(theirs, f"named_{listing}")(**every)], listing
    assert [n for n, _ in ours.named_parameters("x", recurse=False)] == []
    assert [n for n, _ in ours.first.named_parameters("x")] == ["x.weight", "x.bias"]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert list(ours.state_dict(prefix="p.")) == list(theirs.state_dict(prefix="p."))


def test_text_equals_pytorchs(ours, theirs):
    assert repr(ours) == repr(theirs)


def test_the_containers_read_like_pytorchs(torch):
    for make_one in (
        lambda n: n.Sequential(OrderedDict(one=n.Linear(2, 2), two=n.ReLU())),
        lambda n: n.Sequential(n.Sequential(n.ReLU(), n.ReLU()), n.Linear(1, 1)),
        lambda n: n.ModuleList([n.Linear(1, 1), n.Linear(1, 1), n.Linear(1, 2)]),
        lambda n: n.ModuleList([n.Sequential(n.ReLU()), n.Sequential(n.ReLU())]),
        lambda n: n.ModuleList(),
        lambda n: n.Sequential(),
        lambda n: n.ModuleDict({"x": n.ReLU()}),
    ):
        assert repr(make_one(nn)) == repr(make_one(torch.nn))


def test_a_parameter_says_what_it_is(torch):
    ours, theirs = nn.Parameter(edutorch.ones(2)), torch.nn.Parameter(torch.ones(2))
    assert repr(ours) == repr(theirs)
    frozen = nn.Parameter(edutorch.ones(2), requires_grad=False)
    assert repr(frozen) == repr(torch.nn.Parameter(torch.ones(2), requires_grad=False))
    assert isinstance(ours, edutorch.Tensor)
    assert type(ours * 2) is edutorch.Tensor
    assert ours.is_leaf


def test_a_parameter_shares_the_memory_of_its_data(device):
    data = edutorch.ones(2)
    parameter = nn.Parameter(data)
    y = (parameter * parameter).sum()
    data[0] = 5
    assert parameter.tolist() == [5, 1]
    with pytest.raises(RuntimeError, match="inplace"):
        y.backward()


def test_assigning_registers_and_reassigning_moves(device):
    module = nn.Module()
    module.x = nn.Parameter(edutorch.ones(1))
    module.x = nn.Linear(1, 1)
    assert [name for name, _ in module.named_parameters()] == ["x.weight", "x.bias"]
    module.x = None
    assert module.x is None
    assert list(module.parameters()) == []
    module.y = nn.Parameter(edutorch.ones(1))
    del module.y
    assert not hasattr(module, "y")
    module.z = 3
    del module.z
    with pytest.raises(AttributeError, match="has no attribute 'z'"):
        _ = module.z


def test_what_cannot_be_assigned():
    module = nn.Linear(1, 1)
    with pytest.raises(TypeError, match=r"as parameter 'weight' \(torch.nn.Parameter or None"):
        module.weight = edutorch.ones(1, 1)
    with pytest.raises(KeyError, match="dot"):
        module.register_parameter("a.b", None)
    with pytest.raises(KeyError, match="already exists"):
        module.register_buffer("forward", None)
    with pytest.raises(TypeError, match="not a Module"):
        module.add_module("x", 3)
    with pytest.raises(TypeError, match="buffer"):
        module.register_buffer("x", 3)
    with pytest.raises(ValueError, match="leaf"):
        module.register_parameter("x", _not_a_leaf())


def _not_a_leaf():
    parameter = nn.Parameter(edutorch.ones(1))
    parameter._node = (parameter * 2)._node
    return parameter


def test_a_forgotten_super_init_is_explained():
    class Forgetful(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Forgetful()

    class Later(nn.Module):
        def __init__(self):
            self.size = 3

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        _ = Later().layer


def test_a_module_without_forward_says_so():
    with pytest.raises(NotImplementedError, match="missing the required"):
        nn.Module()(1)


def test_train_and_eval_reach_everything(ours):
    assert ours.eval() is ours
    assert not any(module.training for module in ours.modules())
    assert ours.train() is ours
    assert all(module.training for module in ours.modules())


def test_zero_grad_and_requires_grad(ours):
    ours(edutorch.ones(1, 3)).sum().backward()
    assert ours.first.weight.grad is not None
    ours.zero_grad(set_to_none=False)
    assert not ours.first.weight.grad.any()
    ours.zero_grad()
    assert ours.first.weight.grad is None
    ours.requires_grad_(False)
    assert not any(parameter.requires_grad for parameter in ours.parameters())


def test_apply_goes_from_the_leaves_to_the_root(ours, theirs):
    order, expected = [], []
    assert ours.apply(lambda module: order.append(type(module).__name__)) is ours
    theirs.apply(lambda module: expected.append(type(module).__name__))
    assert order == expected


def test_to_converts_what_is_floating(device):
    module = nn.BatchNorm1d(2)
    weight = module.weight
    module(edutorch.ones(2, 2)).sum().backward()
    module.double()
    assert module.weight is weight
    assert weight.dtype is weight.grad.dtype is module.running_mean.dtype is edutorch.float64
    assert module.num_batches_tracked.dtype is edutorch.int64
    assert module.half().weight.dtype is edutorch.float16
    assert module.to(edutorch.zeros(1)).weight.dtype is edutorch.float32
    assert module.bfloat16().weight.dtype is edutorch.bfloat16
    assert module.float().weight.dtype is edutorch.float32
    with pytest.raises(TypeError, match="floating point"):
        module.to(edutorch.int64)


def test_to_moves_between_devices():
    module = nn.Linear(2, 1)
    expected = module.weight.tolist()
    module.to("strict")
    assert str(module.weight.device) == "strict"
    assert module.weight.requires_grad
    assert module.cpu().weight.tolist() == expected
    if edutorch.cuda.is_available():
        assert module.cuda().weight.is_cuda
    else:
        with pytest.raises(RuntimeError, match="cuda"):
            module.cuda()


def test_finding_by_path(ours):
    assert ours.get_submodule("layers.2") is ours.layers[2]
    assert ours.get_submodule("") is ours
    assert ours.get_parameter("first.weight") is ours.first.weight
    assert ours.get_buffer("inner.count") is ours.inner.count
    for path, find in (("layers.9", ours.get_submodule), ("inner.count", ours.get_parameter)):
        with pytest.raises(AttributeError, match=r"has no attribute|is not an nn\.Parameter"):
            find(path)


def test_a_copy_is_a_module_of_its_own(ours):
    twin = copy.deepcopy(ours)
    assert twin.again is twin.inner
    assert [type(parameter) for parameter in twin.parameters()] == [
        type(parameter) for parameter in ours.parameters()
    ]
    assert twin.first.weight.requires_grad
    assert twin.kept.tolist() == [3]
    twin.first.weight.data.fill_(7)
    assert ours.first.weight.tolist() != twin.first.weight.tolist()
    x = edutorch.ones(1, 3)
    twin(x).sum().backward()
    assert ours.first.weight.grad is None


def test_a_module_can_be_pickled(device):
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    twin = pickle.loads(pickle.dumps(module))
    assert repr(twin) == repr(module)
    assert twin[0].weight.tolist() == module[0].weight.tolist()
    assert twin[0].weight.requires_grad


def test_sequential_is_a_list(device):
    layers = [nn.ReLU(), nn.Tanh(), nn.Sigmoid()]
    model = nn.Sequential(*layers)
    assert len(model) == 3
    assert model[1] is model[-2] is layers[1]
    assert [type(module) for module in model[1:]] == [nn.Tanh, nn.Sigmoid]
    del model[0]
    assert list(model._modules) == ["0", "1"]
    model.append(nn.ReLU()).insert(0, nn.Identity()).extend([nn.GELU()])
    types = [type(module) for module in model]
    assert types == [nn.Identity, nn.Tanh, nn.Sigmoid, nn.ReLU, nn.GELU]
    assert type(model.pop(0)) is nn.Identity
    model[0] = nn.SiLU()
    assert type(model[0]) is nn.SiLU
    assert len(model + nn.Sequential(nn.ReLU())) == 5
    with pytest.raises(IndexError, match="out of range"):
        _ = model[9]


def test_module_list_and_dict(device):
    layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    layers += [nn.Sigmoid()]
    assert [type(layer) for layer in layers[1:]] == [nn.Tanh, nn.Sigmoid]
    assert type((layers + [nn.GELU()])[-1]) is nn.GELU
    named = nn.ModuleDict([("a", nn.ReLU())])
    named["b"] = nn.Tanh()
    assert list(named.keys()) == ["a", "b"]
    assert [type(module) for module in named.values()] == [nn.ReLU, nn.Tanh]
    assert "a" in named and len(named) == 2
    assert type(named.pop("a")) is nn.ReLU
    named.clear()
    assert not named


def test_parameter_list_and_dict(device):
    weights = nn.ParameterList([edutorch.ones(2), nn.Parameter(edutorch.zeros(3))])
    assert [tuple(weight.shape) for weight in weights] == [(2,), (3,)]
    assert weights[-1].requires_grad
    named = nn.ParameterDict({"a": edutorch.ones(2)})
    named["b"] = edutorch.zeros(1)
    assert list(named.state_dict()) == ["a", "b"]


def test_listeners_hear_modules_come_and_go(device):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    heard = []
    with listening(heard.append):
        y = model(edutorch.ones(1, 2))
    told = [(type(event), event.module) for event in heard if hasattr(event, "module")]
    assert told == [
        (ModuleEntered, model), (ModuleEntered, model[0]), (ModuleLeft, model[0]),
        (ModuleEntered, model[1]), (ModuleLeft, model[1]), (ModuleLeft, model),
    ]  # fmt: skip
    assert [event.output for event in heard if isinstance(event, ModuleLeft)][-1] is y
    entered = [event for event in heard if isinstance(event, ModuleEntered)]
    assert entered[0].inputs[0].tolist() == [[1, 1]]


def test_a_listener_hears_of_a_module_that_raised():
    heard = []
    with listening(heard.append), pytest.raises(RuntimeError):
        nn.Linear(2, 2)(edutorch.ones(3))
    assert [event.output for event in heard if isinstance(event, ModuleLeft)] == [None]


@pytest.mark.parametrize("name", ["ModuleList", "ModuleDict", "ParameterList", "ParameterDict"])
def test_an_empty_container_fills_itself_only_when_asked(name, torch):
    for library in (edutorch, torch):

        class Derived(getattr(library.nn, name)):
            def __init__(self):
                super().__init__()
                self.limit = 3

            def extend(self, values):  # as torchmetrics' MetricCollection.update does
                assert self.limit
                return super().extend(values)

            def update(self, values):
                assert self.limit
                return super().update(values)

        assert len(Derived()) == 0
