"""Features of all optimizers: hooks, names, groups added later, states from PyTorch."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle

import pytest

import edutorch
from edutorch import nn, optim
from tests.optim.problems import STATEFUL, label

ALL = [name for name in optim.__all__ if name[0].isupper() and name not in ("Optimizer", "LBFGS")]
STEPPING = [name for name in ALL if name != "SparseAdam"]


def matrix():
    return edutorch.ones(2, 2, requires_grad=True)


def with_gradient(x):
    x.grad = edutorch.full_like(x.detach(), 0.5)
    return x


def test_hooks_around_states(torch):
    def run(library):
        optimizer = library.optim.SGD([library.ones(1, requires_grad=True)], lr=1.0)
        said = []
        optimizer.register_state_dict_pre_hook(lambda o: said.append("save"))
        optimizer.register_state_dict_pre_hook(lambda o: said.append("first"), prepend=True)
        optimizer.register_state_dict_post_hook(lambda o, state: said.append(sorted(state)))
        optimizer.register_state_dict_post_hook(lambda o, state: {**state, "epoch": 3})
        state = optimizer.state_dict()
        assert state["epoch"] == 3

        def faster(optimizer, state):
            group = {**state["param_groups"][0], "lr": 7.0}
            return {**state, "param_groups": [group]}

        optimizer.register_load_state_dict_pre_hook(faster)
        optimizer.register_load_state_dict_post_hook(lambda o: said.append("loaded"))
        handle = optimizer.register_load_state_dict_post_hook(
            lambda o: said.append("soon loaded"), prepend=True
        )
        optimizer.load_state_dict(state)
        handle.remove()
        optimizer.load_state_dict(state)
        return said, optimizer.param_groups[0]["lr"]

    assert run(edutorch) == run(torch)


def test_hooks_of_all_optimizers(torch):
    def run(library):
        said = []
        module = importlib.import_module(f"{library.__name__}.optim.optimizer")
        optimizer = library.optim.SGD([library.ones(1, requires_grad=True)], lr=1.0)
        optimizer.register_step_pre_hook(lambda o, args, kwargs: said.append("own before"))
        optimizer.register_step_post_hook(lambda o, args, kwargs: said.append("own after"))
        handles = [
            module.register_optimizer_step_pre_hook(lambda o, args, kwargs: said.append("before")),
            module.register_optimizer_step_post_hook(lambda o, args, kwargs: said.append("after")),
        ]
        optimizer.step()
        for handle in handles:
            handle.remove()
        optimizer.step()
        return said

    assert run(edutorch) == run(torch)


def test_names_of_parameters_are_kept(torch):
    def run(library):
        model = library.nn.Linear(2, 1)
        optimizer = library.optim.Adamax(model.named_parameters(), lr=0.1)
        state = optimizer.state_dict()
        assert state["param_groups"][0]["param_names"] == ["weight", "bias"]
        other = library.optim.Adamax([("a", model.weight), ("b", model.bias)])
        del state["param_groups"][0]["param_names"]
        other.load_state_dict(state)
        with pytest.raises(ValueError, match="Some param names are missing"):
            library.optim.SGD([("a", model.weight), model.bias], lr=1.0)
        extra = library.ones(1, requires_grad=True)
        with pytest.raises(ValueError, match="cannot add param group without names"):
            other.add_param_group({"params": [extra]})
        return repr(optimizer), repr(other)

    assert run(edutorch) == run(torch)


@pytest.mark.parametrize("name", STEPPING)
def test_a_group_can_be_added_and_settings_differ(name):
    x, y = with_gradient(matrix()), with_gradient(matrix())
    optimizer = getattr(optim, name)([x], lr=0.1)
    optimizer.add_param_group({"params": y, "lr": 0.0})
    optimizer.step()
    assert x.tolist() != [[1, 1], [1, 1]]
    assert y[0, 0].item() == pytest.approx(1, abs=2e-6)  # Rprop has a shortest step
    assert len(optimizer.state_dict()["state"]) == (0 if name == "SGD" else 2)


@pytest.mark.parametrize("name", STEPPING)
def test_no_gradient_no_step(name):
    x = matrix()
    optimizer = getattr(optim, name)([x])
    optimizer.step()
    assert x.tolist() == [[1, 1], [1, 1]]
    assert not x._version


@pytest.mark.parametrize("name", STEPPING)
def test_a_step_is_seen_by_backward(name):
    x = edutorch.ones(2, 2, requires_grad=True)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    getattr(optim, name)([x]).step()
    with pytest.raises(RuntimeError, match="inplace"):
        loss.backward()


@pytest.mark.parametrize("name", STEPPING)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("differentiable", [False, True], ids=["fast", "recorded"])
def test_a_gradient_of_zero_makes_no_step(name, dtype, differentiable):
    cls = getattr(optim, name)
    leaf = edutorch.ones(2, 2, dtype=getattr(edutorch, dtype), requires_grad=True)
    if differentiable and "differentiable" not in inspect.signature(cls).parameters:
        pytest.skip("its steps cannot be recorded")
    settings = {"weight_decay": 0.0} if "W" in name or name == "Muon" else {}
    x = leaf * 1 if differentiable else leaf
    if differentiable:
        x.retain_grad()
        settings["differentiable"] = True
    optimizer = cls([x], **settings)
    before = x.detach().clone()
    for _ in range(3):
        x.grad = edutorch.zeros_like(before)
        optimizer.step()
    if name == "ASGD":  # it pulls by itself, though by less than half a step of these numbers
        assert edutorch.allclose(x.detach(), before, rtol=1e-2)
    else:
        assert edutorch.equal(x.detach(), before)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adamax"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_small_gradient_makes_a_bounded_step(name, dtype):
    x = edutorch.ones(2, dtype=getattr(edutorch, dtype), requires_grad=True)
    optimizer = getattr(optim, name)([x], lr=1e-3)
    for _ in range(5):
        x.grad = edutorch.full_like(x.detach(), 1e-5)  # its square is no float16
        optimizer.step()
    assert 0.5 < x[0].item() <= 1


@pytest.mark.parametrize("name", STEPPING)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_short_numbers_stay_short(name, dtype):
    dtype = getattr(edutorch, dtype)
    x = edutorch.ones(2, 2, dtype=dtype, requires_grad=True)
    optimizer = getattr(optim, name)([x], lr=10.0 if name == "Adadelta" else 0.1)
    for _ in range(2):
        with_gradient(x)
        optimizer.step()
    assert x.dtype is dtype
    assert x[0, 0].item() < 1
    for key, value in optimizer.state[x].items():
        if key not in ("step", "eta", "mu", "mu_product"):
            assert value.dtype is dtype


@pytest.mark.parametrize("name", STEPPING)
def test_gradients_of_any_layout(name):
    results = []
    for flipped in (False, True):
        x = edutorch.arange(6.0).reshape(2, 3).requires_grad_()
        grad = edutorch.arange(6.0).reshape(2, 3) - 2.5
        x.grad = grad.T.contiguous().T if flipped else grad
        getattr(optim, name)([x], lr=0.1).step()
        results.append(x.tolist())
    assert results[0] == results[1]


@pytest.mark.parametrize("name", ALL)
def test_copies_step_on_their_own(name):
    x = with_gradient(matrix())
    optimizer = getattr(optim, name)([x])
    optim.lr_scheduler.StepLR(optimizer, 1)
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert repr(other) == repr(optimizer)
        own = other.param_groups[0]["params"][0]
        assert own is not x
        own.grad = edutorch.ones_like(own)
        if name != "SparseAdam":
            other.step()
            assert own.tolist() != x.tolist()


def test_an_older_state_lacks_settings():
    optimizer = optim.NAdam([with_gradient(matrix())])
    state = optimizer.state_dict()
    for key in ("decoupled_weight_decay", "capturable", "maximize"):
        del state["param_groups"][0][key]
    optimizer.load_state_dict(state)
    optimizer.step()
    assert optimizer.param_groups[0]["maximize"] is False


def test_a_loaded_count_of_steps_keeps_its_type(torch):
    """In bfloat16 the count would stay at 256."""
    counts = []
    for library in (edutorch, torch):
        x = library.ones(2, dtype=library.bfloat16, requires_grad=True)
        optimizer = library.optim.Adam([x])
        for _ in range(2):
            x.grad = library.ones_like(x)
            optimizer.step()
            state = optimizer.state_dict()
            state["state"][0]["step"] = library.tensor(1001.0)
            optimizer.load_state_dict(state)
        counts.append([f"{value.dtype}" for value in optimizer.state[x].values()])
        assert optimizer.state[x]["step"].item() == 1001
    assert counts[0] == counts[1]


def test_states_go_through_a_file(tmp_path):
    model = nn.Linear(3, 2)
    for name in ("NAdam", "ASGD", "Adafactor", "Rprop"):
        optimizer = getattr(optim, name)(model.parameters())
        model(edutorch.ones(1, 3)).sum().backward()
        optimizer.step()
        edutorch.save(optimizer.state_dict(), tmp_path / "state")
        other = getattr(optim, name)(model.parameters())
        other.load_state_dict(edutorch.load(tmp_path / "state"))
        for param in model.parameters():
            for key, value in optimizer.state[param].items():
                assert other.state[param][key].tolist() == value.tolist()


def test_other_parameters_for_a_while(torch):
    def run(library):
        x = library.tensor([1.0, -2.0], requires_grad=True)
        optimizer = library.optim.Adam([x], lr=0.1)
        swap = library.optim.swap_in_optimizer_params_and_state
        with pytest.raises(RuntimeError, match="requires initialized optimizer state"):
            swap(optimizer, {"x": x}, optimizer.state_dict()).__enter__()
        x.grad = library.tensor([0.5, 0.1])
        optimizer.step()
        other = library.tensor([3.0, 4.0], requires_grad=True)
        other.grad = library.tensor([1.0, -1.0])
        state = copy.deepcopy(optimizer.state_dict())
        state["param_groups"][0]["lr"] = 0.5
        with swap(optimizer, {"x": other}, state):
            optimizer.step()
        del state["param_groups"][0]["eps"]
        with pytest.raises(RuntimeError, match="optimizer"):
            swap(optimizer, {"x": other}, state).__enter__()
        assert optimizer.param_groups[0]["lr"] == 0.1
        assert list(optimizer.state) == [x] or library is torch
        return x.tolist() + other.tolist() + state["state"][0]["exp_avg"].tolist()

    assert run(edutorch) == pytest.approx(run(torch), rel=1e-5)


def another(name, key, default):
    """Return a valid value for a setting that is not its default."""
    special = {
        ("LBFGS", "max_eval"): 7, ("LBFGS", "line_search_fn"): "strong_wolfe",
        ("Adafactor", "d"): 2.0, ("Muon", "adjust_lr_fn"): "match_rms_adamw",
        ("Rprop", "etas"): (0.25, 1.5),
    }  # fmt: skip
    if (name, key) in special or isinstance(default, bool | None):
        return special.get((name, key), not default)
    if isinstance(default, tuple):
        return tuple(value and value / 2 for value in default)
    return default + 1 if isinstance(default, int) else default / 2 or 0.25


@pytest.mark.parametrize("name", [*ALL, "LBFGS"])
def test_every_setting_is_kept(name):
    for key, parameter in inspect.signature(getattr(optim, name)).parameters.items():
        if key != "params":
            value = another(name, key, parameter.default)
            more = {"momentum": 0.9} if key == "nesterov" and name == "SGD" else {}
            optimizer = getattr(optim, name)([matrix()], **{key: value}, **more)
            assert optimizer.defaults[key] == optimizer.param_groups[0][key] == value, key


@pytest.mark.parametrize("name", [*ALL, "LBFGS"])
def test_a_rate_may_be_a_tensor_of_one_element(name):
    for lr in (edutorch.tensor(0.05), edutorch.tensor([0.05])):
        assert getattr(optim, name)([matrix()], lr=lr).param_groups[0]["lr"] is lr


@pytest.mark.parametrize(("name", "settings"), STATEFUL, ids=label)
def test_a_loaded_state_is_a_copy(name, settings):
    def made():
        return getattr(optim, name)([with_gradient(matrix())], **settings)

    first, second = made(), made()
    first.step(lambda: matrix().sum())
    state = first.state_dict()
    before = copy.deepcopy(state)
    second.load_state_dict(state)
    second.step(lambda: matrix().sum())
    assert repr(state) == repr(before), "the step has changed the state that was loaded"


def test_a_state_with_keys_of_several_types_names_those_that_do_not_fit():
    from edutorch.optim import optimizer as module

    parameter = nn.Parameter(edutorch.ones(2))
    optimizer = optim.Adam([parameter])
    parameter.grad = edutorch.ones(2)
    optimizer.step()
    state = optimizer.state_dict()
    state["state"] |= {"x": {}, 7: {}, None: {}}
    with pytest.raises(RuntimeError, match=r"numbers of parameters, got \[7, None, 'x'\]"):
        module.check_fits(optimizer, {"w": parameter}, state)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Rprop", "ASGD"])
def test_the_count_of_steps_is_on_the_cpu_whatever_the_default_device_is(name):
    parameter = nn.Parameter(edutorch.ones(2))
    optimizer = getattr(optim, name)([parameter])
    parameter.grad = edutorch.ones(2)
    with edutorch.device("strict"):
        optimizer.step()
    assert optimizer.state[parameter]["step"].device.type == "cpu"
