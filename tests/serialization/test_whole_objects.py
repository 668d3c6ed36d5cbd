"""Whole objects: modules, optimizers and schedulers, pickled by the names of their classes."""

from __future__ import annotations

import collections
import functools
import io
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
import safetensors.numpy

import edutorch
from edutorch import nn, optim
from edutorch.serialization import CheckpointError, RefusedError, safetensors_file
from tests.module_cases import every_case
from tests.serialization.test_states import OPTIMIZERS, SCHEDULES, train
from tests.test_every_module import make


def written(obj):
    file = io.BytesIO()
    edutorch.save(obj, file)
    return file.getvalue()


def loaded(data, **settings):
    return edutorch.load(io.BytesIO(data), **settings)


def round_trip(obj):
    return loaded(written(obj), weights_only=False)


def noted(module, args, output):
    """A hook that can be saved: it has a name."""
    module.calls = getattr(module, "calls", 0) + 1


class Net(nn.Module):
    """A model with all that a user's model has: ties, buffers, settings, functions."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 3)
        self.again = self.first
        self.second.bias = self.first.bias
        self.register_buffer("scale", edutorch.ones(3))
        self.register_buffer("passing", edutorch.zeros(2), persistent=False)
        self.activation = nn.functional.relu
        self.dtype, self.sizes, self.table = edutorch.float32, edutorch.Size([2]), np.arange(3)

    def forward(self, x):
        return self.activation(self.second(self.first(x))) * self.scale


class OwnTensor(edutorch.Tensor):
    """A tensor of a user's class."""


def test_a_model_an_optimizer_and_a_scheduler_stay_together():
    model = Net()
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1)
    train(model, optimizer, 2, scheduler)
    twins = round_trip({"model": model, "rest": [optimizer, scheduler], "epoch": 2})
    twin, (other, schedule) = twins["model"], twins["rest"]
    assert twins["epoch"] == 2 and type(twin) is Net
    assert twin.again is twin.first and twin.second.bias is twin.first.bias
    assert other.param_groups[0]["params"][0] is twin.first.weight
    assert schedule.optimizer is other
    assert twin.table.tolist() == [0, 1, 2] and twin.dtype is edutorch.float32
    assert "passing" not in twin.state_dict() and twin.passing.tolist() == [0, 0]
    train(model, optimizer, 2, scheduler)
    train(twin, other, 2, schedule)
    for mine, loaded_one in zip(model.parameters(), twin.parameters(), strict=True):
        assert mine.tolist() == loaded_one.tolist()


def test_as_old_tutorials_do(tmp_path, device):
    path = tmp_path / "model.pt"
    model = nn.Sequential(nn.Linear(2, 3), nn.Dropout(), nn.BatchNorm1d(3))
    edutorch.save(model, path)
    twin = edutorch.load(path, weights_only=False)
    twin.eval()
    x = edutorch.randn(4, 2)
    assert twin(x).tolist() == model.eval()(x).tolist()
    assert str(twin[0].weight.device) == device
    moved = edutorch.load(path, "cpu", weights_only=False)
    assert {str(tensor.device) for tensor in moved.state_dict().values()} == {"cpu"}
    assert set(safetensors.numpy.load_file(path)) == {*model.state_dict(), "pickle"}


def test_by_default_it_is_refused_and_the_classes_are_named():
    data = written({"model": Net(), "x": edutorch.ones(1)})
    for settings in ({}, {"weights_only": None}, {"weights_only": True}):
        with pytest.raises(RefusedError, match="a whole module was saved") as refused:
            loaded(data, **settings)
        for said in (f"{Net.__module__}.Net, edutorch.nn.modules.linear.Linear", "state_dict()",
                     "load(path, weights_only=False), which can run any code"):  # fmt: skip
            assert said in str(refused.value)
    names = edutorch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data))
    assert names[:2] == [f"{Net.__module__}.Net", "edutorch.nn.modules.linear.Linear"]


def test_classes_that_are_listed_need_no_trust():
    data = written(nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 1)))
    with edutorch.serialization.safe_globals([nn.Sequential, nn.Linear]):
        assert [type(layer) for layer in loaded(data)] == [nn.Linear, nn.Linear]
    with pytest.raises(RefusedError):
        loaded(data)


@pytest.mark.filterwarnings("ignore")
def test_every_module_comes_back():
    for case in {case.name: case for case in every_case()}.values():
        try:
            module = make(edutorch, case)
        except RuntimeError:  # needs several processes
            continue
        twin = round_trip(module)
        assert (type(twin), repr(twin)) == (type(module), repr(module))
        for (name, mine), value in zip(module.state_dict().items(), twin.state_dict().values(),
                                       strict=True):  # fmt: skip
            if not nn.parameter.is_lazy(mine):
                assert mine.tolist() == value.tolist(), (case.name, name)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_comes_back(name):
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.Linear(3, 1, bias=False))
    optimizer = getattr(optim, name)(model.parameters(), lr=0.05)
    train(model, optimizer, 2)
    twin, other = round_trip([model, optimizer])
    train(model, optimizer, 2)
    train(twin, other, 2)
    assert [p.tolist() for p in twin.parameters()] == [p.tolist() for p in model.parameters()]


def falling(step):
    """A schedule that has a name."""
    return 0.9**step


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_scheduler_comes_back(name):
    model = nn.Linear(2, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    named = {"lr_lambda": falling} if "lr_lambda" in SCHEDULES[name] else SCHEDULES[name]
    scheduler = getattr(optim.lr_scheduler, name)(optimizer, **named)
    train(model, optimizer, 2, scheduler)
    twin, other, schedule = round_trip([model, optimizer, scheduler])
    train(model, optimizer, 4, scheduler)
    train(twin, other, 4, schedule)
    assert schedule.get_last_lr() == scheduler.get_last_lr()


def test_tensors_of_a_class_of_their_own_share_memory_too():
    layer = nn.Linear(2, 2)
    layer.own = edutorch.arange(4.0).as_subclass(OwnTensor)
    layer.own.note = "mine"
    layer.part = layer.own.as_subclass(edutorch.Tensor)[:2]
    layer.weight.note = 3
    twin = round_trip(layer)
    twin.part.zero_()
    assert type(twin.own) is OwnTensor and twin.own.note == "mine"
    assert twin.own.tolist() == [0, 0, 2, 3] and twin.weight.note == 3


def test_hooks_that_have_a_name_come_back():
    model = nn.Linear(2, 2)
    model.register_forward_hook(noted)
    twin = round_trip(model)
    twin.register_forward_hook(noted)  # does not take the other's number
    twin(edutorch.ones(2))
    assert twin.calls == 2


# What cannot be saved -----------------------------------------------------------------------


def in_a_function():
    """Return a model whose class has no name outside."""

    class Local(nn.Module):
        pass

    def act(x):
        return x

    local, model, linear = Local(), Net(), nn.Linear(1, 1)
    model.activation = act
    linear.register_forward_hook(lambda *args: None)
    return local, model, linear


def with_attribute(name, value):
    model = Net()
    setattr(model.second, name, value)
    return model


def parametrized():
    layer = nn.Linear(2, 2)
    nn.utils.parametrizations.weight_norm(layer)
    return layer


UNNAMED = {
    "a lambda": (lambda: with_attribute("act", lambda x: x),
                 "`act` of Linear (at 'second.act'): it is a lambda"),
    "in a dict": (lambda: {"m": with_attribute("act", lambda x: x)},
                  "`act` of Linear (at \"['m'].second.act\"): it is a lambda"),
    "in a list of it": (lambda: with_attribute("acts", [abs, lambda x: x]),
                        "`acts[1]` of Linear (at 'second.acts[1]')"),
    "a hook": (lambda: nn.Sequential(in_a_function()[2]), "`_forward_hooks["),
    "a local function": (lambda: in_a_function()[1], "`activation` of Net: the function "
                         "in_a_function.<locals>.act is defined inside another one"),
    "a local class": (lambda: in_a_function()[0], "an in_a_function.<locals>.Local: the class"),
    "one inside": (lambda: nn.Sequential(in_a_function()[0]), "`0` of Sequential: the class "
                   "in_a_function.<locals>.Local is defined inside a function"),
    "a lock": (lambda: with_attribute("lock", threading.Lock()), "`lock` of Linear"),
    "a partial": (lambda: with_attribute("act", functools.partial(lambda x: x)), "`act` of Linear"),
    "a schedule": (lambda: optim.lr_scheduler.LambdaLR(optim.SGD(Net().parameters()),
                   lambda step: 1.0), "`lr_lambdas[0]` of LambdaLR: it is a lambda"),
    "an optimizer's hook": (lambda: hooked(optim.SGD(Net().parameters())),
                            "`_hooks['step_post']["),
    "a parametrized one": (parametrized, "a ParametrizedLinear: Serialization of"),
    "a function alone": (lambda: [lambda: 1], "`[0]` of list: it is a lambda"),
}  # fmt: skip


def hooked(optimizer):
    optimizer.register_step_post_hook(lambda *args: None)
    return optimizer


@pytest.mark.parametrize("name", UNNAMED)
def test_what_has_no_name_is_said_and_the_old_file_stays(name, tmp_path):
    make_one, said = UNNAMED[name]
    path = tmp_path / "model.pt"
    edutorch.save({"x": 1}, path)
    before = path.read_bytes()
    with pytest.raises(CheckpointError) as refused:
        edutorch.save(make_one(), path)
    assert f"cannot save {said}" in str(refused.value)
    assert "state_dict()" in str(refused.value)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["model.pt"]


def test_where_only_data_may_be_saved_the_hint_is_about_the_object():
    """A Trainer's checkpoints are such files."""
    for value, hint in (
        (nn.Linear(1, 1), "save its state_dict(), and load it into a new Linear"),
        (optim.SGD(Net().parameters()), "save its state_dict(), and load it into a new SGD"),
        (threading.Lock(), "a checkpoint holds data: tensors, numbers, texts"),
        (np.datetime64(0, "s"), "a checkpoint holds data: tensors, numbers, texts"),
    ):
        with pytest.raises(CheckpointError, match=r"cannot save a \w+ \(at 'a.0'\)") as refused:
            safetensors_file.encode_file({"a": [value]}, only_data=True)
        assert f"hint: {hint}" in str(refused.value)


def test_a_class_that_was_defined_again(monkeypatch):
    model = Net()
    monkeypatch.setattr(sys.modules[__name__], "Net", type("Net", (nn.Module,), {}))
    with pytest.raises(CheckpointError, match="Net was defined again since this object was made"):
        written(model)


def test_a_class_that_is_not_there(monkeypatch):
    data = written(Net())
    monkeypatch.delattr(sys.modules[__name__], "Net")
    with pytest.raises(CheckpointError, match=r"class .*Net, which is not defined here") as failed:
        loaded(data, weights_only=False)
    assert "has no Net any more" in str(failed.value)


def test_a_class_that_has_changed(monkeypatch):
    data = written(Net())

    def refuse(self, state):
        raise KeyError("width")

    monkeypatch.setattr(Net, "__setstate__", refuse)
    with pytest.raises(CheckpointError, match=r"cannot be made again \(KeyError: 'width'\)"):
        loaded(data, weights_only=False)


PROGRAM = """
import sys, edutorch as torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def forward(self, x):
        return self.layer(x)
if sys.argv[1] == "save":
    torch.save(Net(), sys.argv[2])
elif sys.argv[1] == "without":
    del Net
    torch.load(sys.argv[2], weights_only=False)
else:
    print(torch.load(sys.argv[2], weights_only=False)(torch.ones(3, 2)).shape)
"""


def test_classes_of_a_program_and_of_a_notebook(tmp_path):
    def run(what):
        root = pathlib.Path(edutorch.__file__).parents[1]
        return subprocess.run([sys.executable, "-c", PROGRAM, what, str(tmp_path / "net.pt")],
                              capture_output=True, text=True, cwd=root)  # fmt: skip

    assert run("save").returncode == 0
    assert "torch.Size([3, 1])" in run("load").stdout
    assert "hint: define or import Net in this program or notebook" in run("without").stderr


def test_what_no_honest_file_calls_is_refused_all_the_same(tmp_path):
    class Harm:
        def __reduce__(self):
            return eval, (f"open({str(tmp_path / 'harm')!r}, 'w')",)

    data = written([Harm(), nn.Linear(1, 1)])
    with pytest.raises(RefusedError, match=r"builtins\.eval"):
        loaded(data, weights_only=False)
    assert list(tmp_path.iterdir()) == []


def test_a_trainers_checkpoint_stays_data(tmp_path):
    from edutorch.serialization.safetensors_file import encode_file as bytes_of

    with pytest.raises(CheckpointError, match=r"cannot save a Linear \(at 'model'\)"):
        bytes_of({"model": nn.Linear(1, 1)}, only_data=True)


# PyTorch's files ----------------------------------------------------------------------------


def of_torch(torch, obj, **settings):
    file = io.BytesIO()
    torch.save(obj, file, **settings)
    return file.getvalue()


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_every_module_of_pytorchs_files_becomes_ours(torch):
    refused = set()
    for case in {case.name: case for case in every_case()}.values():
        module = make(torch, case)
        try:
            twin = loaded(of_torch(torch, module), weights_only=False)
        except CheckpointError:
            refused.add(case.name.removesuffix("d")[:12])
            continue
        ours = make(edutorch, case)
        assert type(twin) is type(ours) and repr(twin) == repr(ours)
        assert set(vars(ours)) <= set(vars(twin))
        for (name, mine), value in zip(module.state_dict().items(), twin.state_dict().values(),
                                       strict=True):  # fmt: skip
            assert mine.tolist() == value.tolist(), (case.name, name)
    assert all(name.startswith(("Lazy", "DataParallel")) for name in refused)


FORMATS = {
    "zip": {}, "protocol 4": {"pickle_protocol": 4},
    "older": {"_use_new_zipfile_serialization": False},
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("settings", FORMATS.values(), ids=FORMATS)
def test_a_training_of_pytorchs_goes_on(torch, settings):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)).double()
    model[0].act = torch.tanh  # functions of all homes
    model[1].act = [torch.nn.functional.gelu, torch.nn.functional.relu, torch.Tensor.exp]
    model.counts = collections.defaultdict(list, {1: [2]})
    model.array, model.tags = np.array(["a"]), {"a", "b"}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)

    def steps(library, model, optimizer, scheduler):
        for _ in range(3):
            optimizer.zero_grad()
            model(library.ones(4, 2, dtype=library.float64)).square().sum().backward()
            optimizer.step()
            scheduler.step()

    steps(torch, model, optimizer, scheduler)
    parts = [model, optimizer, scheduler]
    twins = loaded(of_torch(torch, parts, **settings), weights_only=False)
    assert twins[0][0].act is edutorch.tanh
    assert twins[0][1].act == [nn.functional.gelu, nn.functional.relu, edutorch.Tensor.exp]
    assert twins[0].counts == {1: [2]} and twins[0].array.tolist() == ["a"]
    assert twins[0].tags == {"a", "b"}
    steps(torch, *parts)
    steps(edutorch, *twins)
    assert twins[0][0].weight.tolist() == pytest.approx(np.array(model[0].weight.tolist()))
    assert twins[2].get_last_lr() == scheduler.get_last_lr()


@pytest.mark.oracle
def test_a_users_class_in_pytorchs_file(torch, monkeypatch):
    here = sys.modules[__name__]
    theirs = type("Theirs", (torch.nn.Module,), {"__module__": __name__})
    monkeypatch.setattr(here, "Theirs", theirs, raising=False)
    model = theirs()
    model.layer = torch.nn.Linear(2, 1)
    model.register_forward_hook(noted)
    data = of_torch(torch, model)
    with pytest.raises(CheckpointError, match="PyTorch's here as well") as refused:
        loaded(data, weights_only=False)
    assert "import edutorch as torch" in str(refused.value)
    ours = type("Theirs", (nn.Module,), {"forward": lambda self, x: self.layer(x)})
    monkeypatch.setattr(here, "Theirs", ours)
    twin = loaded(data, weights_only=False)
    assert type(twin) is ours and twin(edutorch.ones(2)).shape == (1,) and twin.calls == 1
    monkeypatch.delattr(here, "Theirs")
    with pytest.raises(CheckpointError, match="Theirs, which is not defined here"):
        loaded(data, weights_only=False)
    with pytest.raises(RefusedError, match=r"Theirs, .*torch\.nn\.modules\.linear\.Linear"):
        loaded(data)


@pytest.mark.oracle
def test_what_edutorch_has_not_in_pytorchs_file(torch):
    model = torch.nn.Linear(1, 1)
    model.register_state_dict_post_hook(noted)
    for obj, said in (
        (model, "`_state_dict_hooks`"), (torch.nn.LazyLinear(2), "cannot be made again"),
    ):  # fmt: skip
        with pytest.raises(CheckpointError, match=said) as refused:
            loaded(of_torch(torch, obj), weights_only=False)
        assert "state_dict()" in str(refused.value)


@pytest.mark.parametrize("persistent", [True, False])
def test_a_buffer_keeps_whether_it_is_saved(persistent):
    model = nn.Linear(1, 1)
    model.count = nn.Buffer(edutorch.ones(2), persistent=persistent)
    twin = round_trip(model)
    assert ("count" in twin.state_dict()) is persistent
    assert dict(twin.named_buffers())["count"].tolist() == [1, 1]
    alone = round_trip(nn.Buffer(edutorch.ones(2), persistent=persistent))
    assert alone.persistent is persistent
