"""Hooks around state_dict and load_state_dict, extra state, and reports of faulty files."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict

import pytest

import edutorch
from edutorch import nn


def net(library):
    return library.nn.Sequential(
        library.nn.Linear(2, 3), library.nn.Sequential(library.nn.BatchNorm1d(3))
    )


def both(run, torch):
    """Run with both libraries and compare the errors."""
    assert run(edutorch) == run(torch)


def test_hooks_around_saving(torch):
    def run(library):
        said, model = [], net(library)
        for name, module in model.named_modules():
            module.register_state_dict_pre_hook(
                lambda m, prefix, keep, name=name: said.append((name, prefix, keep))
            )
            module.register_state_dict_post_hook(
                lambda m, state, prefix, meta, name=name: said.append(
                    (name, list(state), prefix, meta)
                )
            )
        handle = model._register_state_dict_hook(
            lambda m, state, prefix, meta: OrderedDict(only=state["0.bias"])
        )
        first = list(model.state_dict(prefix="p.", keep_vars=True) if False else model.state_dict())
        handle.remove()
        second = model.state_dict(keep_vars=True)
        return said, first, list(second), second["0.weight"] is model[0].weight

    both(run, torch)


def test_a_post_hook_returns_nothing(torch):
    for library in (edutorch, torch):
        model = net(library)
        model.register_state_dict_post_hook(lambda *_: {})
        with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
            model.state_dict()


def test_hooks_before_loading_may_rename(torch):
    def run(library):
        said, model = [], net(library)

        def rename(module, state, prefix, meta, strict, missing, unexpected, errors):
            said.append((type(module).__name__, prefix, sorted(state), meta, strict))
            if f"{prefix}old" in state:
                state[f"{prefix}weight"] = state.pop(f"{prefix}old")

        def plain(state, prefix, *others):
            said.append(("plain", prefix, len(others)))

        model[0].register_load_state_dict_pre_hook(rename)
        model[0]._register_load_state_dict_pre_hook(plain)
        model._register_load_state_dict_pre_hook(rename, with_module=True)
        state = model.state_dict()
        state["0.old"] = state.pop("0.weight")
        twin = copy.deepcopy(model)
        return repr(model.load_state_dict(state)), said, repr(twin.load_state_dict(state)), said

    both(run, torch)


def test_hooks_after_loading_see_the_keys(torch):
    def run(library):
        model, said = net(library), []
        state = model.state_dict()
        del state["0.bias"]
        state["more"] = state["0.weight"]

        def forgive(module, keys):
            said.append((type(module).__name__, list(keys.missing_keys)))
            keys.missing_keys.clear()
            keys.unexpected_keys.clear()

        handle = model.register_load_state_dict_post_hook(forgive)
        model[0].register_load_state_dict_post_hook(
            lambda m, keys: said.append(list(keys.unexpected_keys))
        )
        result = repr(model.load_state_dict(state))
        handle.remove()
        with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "0.bias"'):
            model.load_state_dict(state)
        return result, said

    both(run, torch)


def test_a_hook_after_loading_returns_nothing(torch):
    for library in (edutorch, torch):
        model = net(library)
        model.register_load_state_dict_post_hook(lambda m, keys: keys)
        with pytest.raises(AssertionError, match="are not expected to return new values"):
            model.load_state_dict(model.state_dict())


def counting(library, version=1):
    class Counting(library.nn.Module):
        _version = version

        def __init__(self):
            super().__init__()
            self.calls, self.seen = 0, None
            self.inner = library.nn.Linear(1, 1)

        def get_extra_state(self):
            return {"calls": self.calls}

        def set_extra_state(self, state):
            self.calls = state["calls"]

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *others):
            self.seen = dict(local_metadata)
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    return Counting()


def test_extra_state(torch):
    def run(library):
        one, other = counting(library), counting(library)
        one.calls = 7
        state = one.state_dict()
        result = repr(other.load_state_dict(state))
        del state["_extra_state"]
        missing = repr(other.load_state_dict(state, strict=False))
        plain = repr(library.nn.Linear(1, 1).load_state_dict({"_extra_state": 3}, strict=False))
        return list(one.state_dict()), result, other.calls, missing, plain

    both(run, torch)
    with pytest.raises(RuntimeError, match="define get_extra_state"):
        nn.Linear(1, 1).get_extra_state()
    with pytest.raises(RuntimeError, match="define set_extra_state"):
        nn.Linear(1, 1).set_extra_state(1)


def test_versions_come_with_the_state(torch):
    def run(library):
        model = library.nn.Sequential(counting(library, 3), library.nn.BatchNorm1d(1))
        state = model.state_dict()
        model.load_state_dict(state)
        first = model[0].seen
        model.load_state_dict(dict(state))  # a plain dict has no versions
        model.load_state_dict(copy.deepcopy(state), assign=True)
        return dict(state._metadata), first, model[0].seen

    both(run, torch)


def test_batch_norm_of_version_one_counts_no_batches(torch):
    def run(library):
        norm = library.nn.BatchNorm1d(2)
        state = norm.state_dict()
        del state["num_batches_tracked"]
        plain = repr(norm.load_state_dict(dict(state)))
        return plain, repr(norm.load_state_dict(state, strict=False))

    both(run, torch)
    for library in (edutorch, torch):
        with pytest.raises(RuntimeError, match="Unexpected running stats buffer"):
            library.nn.InstanceNorm1d(2).load_state_dict(
                dict(library.nn.InstanceNorm1d(2, track_running_stats=True).state_dict())
            )


FAULTS = {
    "one missing": lambda state: state.pop("0.bias"),
    "one too many": lambda state: state.update(more=state["0.bias"]),
    "of a module that is not there": lambda state: state.update({"7.weight": state["0.bias"]}),
    "below a tensor": lambda state: state.update({"0.weight.x": state["0.bias"]}),
    "another shape": lambda state: state.update({"0.bias": state["0.weight"]}),
    "another number of axes": lambda state: state.update({"0.bias": state["0.bias"][0]}),
    "no tensor": lambda state: state.update({"0.bias": [1, 2, 3]}),
    "a number": lambda state: state.update({"0.bias": 3}),
    "all at once": lambda state: (
        state.update({"0.bias": state["0.weight"], "more": 3}), state.pop("1.0.weight")
    ),
    "everything missing": lambda state: state.clear(),
    "another prefix": lambda state: [
        state.__setitem__(f"module.{key}", state.pop(key)) for key in list(state)
    ],
    "a buffer of one more": lambda state: state.update(
        {"1.0.running_mean": state["1.0.running_mean"][:2]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_reports_are_pytorchs(fault, torch):
    reports = []
    for library in (edutorch, torch):
        model = net(library)
        state = model.state_dict()
        FAULTS[fault](state)
        with pytest.raises(RuntimeError) as caught:
            model.load_state_dict(state)
        text = str(caught.value).partition("\n  hint:")[0]
        try:
            loose = repr(model.load_state_dict(state, strict=False))
        except RuntimeError as error:
            loose = str(error).partition("\n  hint:")[0]
        reports.append((text, loose))
    assert reports[0] == reports[1]


def test_a_number_in_a_row_of_one_is_taken(torch):
    def run(library):
        class One(library.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = library.nn.Parameter(library.tensor(1.0))

        model = One()
        model.load_state_dict({"scale": library.tensor([5.0])})
        return model.scale.item(), tuple(model.scale.shape)

    both(run, torch)


def test_assigned_parameters_keep_their_wish_for_gradients(torch):
    def run(library):
        model = library.nn.Linear(2, 1)
        model.bias.requires_grad_(False)
        state = {
            "weight": library.ones(1, 2),
            "bias": library.nn.Parameter(library.ones(1)),
        }
        model.load_state_dict(state, assign=True)
        return model.weight.requires_grad, model.bias.requires_grad, model.bias is state["bias"]

    both(run, torch)


def test_positional_arguments_warn(torch):
    for library in (edutorch, torch):
        with pytest.warns(FutureWarning, match="Positional args are being deprecated"):
            assert list(library.nn.Linear(1, 1).state_dict(OrderedDict(), "p.")) == [
                "p.weight", "p.bias",
            ]  # fmt: skip


def test_hooks_survive_copies_and_older_pickles():
    model = nn.Linear(1, 1)
    model.register_state_dict_post_hook(add_key)
    assert "added" in copy.deepcopy(model).state_dict()
    assert "added" in pickle.loads(pickle.dumps(model)).state_dict()
    old = dict(nn.Linear(1, 1).__dict__)
    for name in ("_state_dict_hooks", "_load_state_dict_post_hooks", "_is_full_backward_hook"):
        del old[name]
    twin = nn.Linear.__new__(nn.Linear)
    twin.__setstate__(old)
    assert list(twin.state_dict()) == ["weight", "bias"]


def add_key(module, state, prefix, metadata):
    state["added"] = 1
