"""A small problem for all optimizers, and the settings to test each of them with."""

from __future__ import annotations

import re

import numpy as np

import edutorch
from edutorch import optim

START = {"a": [[1.0, -2.0, 0.5], [0.1, 3.0, -0.7]], "b": [0.3, -0.2], "unused": [1.0]}

OPTIONS = {
    "SGD": [
        {"lr": 0.05}, {"lr": 0.05, "momentum": 0.9}, {},
        {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
        {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        {"maximize": True, "momentum": 0.5, "weight_decay": 0.1}, {"fused": None},
    ],
    "Adam": [
        {}, {"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-3}, {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "amsgrad": True}, {"lr": 0.01, "maximize": True, "weight_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
        {"lr": 0.1, "fused": None, "capturable": False},
    ],
    "AdamW": [
        {}, {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True}, {"lr": 0.1, "betas": (0.5, 0.9)},
    ],
    "Muon": [
        {}, {"lr": 0.05, "weight_decay": 0.0}, {"lr": 0.05, "nesterov": False, "momentum": 0.5},
        {"lr": 0.05, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3},
    ],
    "NAdam": [
        {}, {"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-3}, {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}, {"momentum_decay": 0.5},
    ],
    "RAdam": [
        {}, {"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-3}, {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ],
    "Adamax": [{}, {"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-3}, {"weight_decay": 0.3}],
    "Adagrad": [
        {}, {"lr": 0.1, "lr_decay": 0.1, "eps": 1e-3}, {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "initial_accumulator_value": 0.5}, {"lr": 0.1, "fused": None},
    ],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.5, "eps": 1e-3}, {"weight_decay": 0.1}, {"rho": 1.0}],
    "RMSprop": [
        {}, {"lr": 0.05, "alpha": 0.5, "eps": 1e-3}, {"lr": 0.05, "momentum": 0.9},
        {"lr": 0.05, "centered": True}, {"centered": True, "momentum": 0.5, "weight_decay": 0.1},
    ],
    "Rprop": [
        {}, {"lr": 0.3}, {"lr": 0.3, "etas": (0.3, 1.5)}, {"lr": 0.3, "step_sizes": (0.1, 0.4)},
    ],
    "ASGD": [
        {}, {"lr": 0.05, "t0": 5}, {"lr": 0.05, "lambd": 0.1, "alpha": 0.5, "t0": 0},
        {"lr": 0.05, "weight_decay": 0.1},
    ],
    "Adafactor": [
        {}, {"lr": 0.3, "d": 2.0}, {"lr": 0.1, "eps": (1e-3, 1e-2), "beta2_decay": -0.5},
        {"lr": 0.1, "weight_decay": 0.1},
    ],
    "LBFGS": [
        {"max_iter": 4}, {"lr": 0.1, "max_iter": 3, "history_size": 2},
        {"line_search_fn": "strong_wolfe", "max_iter": 3},
        {"lr": 0.5, "line_search_fn": "strong_wolfe", "max_iter": 4, "max_eval": 3},
    ],
}  # fmt: skip

SHARED = [{"maximize": True, "lr": 1e-3}, {"foreach": False}, {"foreach": True}]

SETTINGS = [
    (name, settings)
    for name, option in OPTIONS.items()
    for settings in (*option, *(SHARED if name not in ("LBFGS", "Muon") else ()))
]
"""(optimizer, settings): each option."""

STATEFUL = [
    (name, settings)
    for name, option in OPTIONS.items()
    if name != "Muon"
    for settings in option[1:3]
]
"""(optimizer, settings): two of each optimizer for parameters of all shapes."""

COMPLEX = [setting for setting in SETTINGS if setting[0] not in ("Adafactor", "Muon")]


def label(value):
    """Name a case by its settings, without addresses of functions."""
    return re.sub(r"<function (\S+) at \w+>", r"\1", str(value))


def parameters(library, dtype):
    """Return parameters by name, of either library."""
    dtype = getattr(library, dtype)
    tensors = {}
    for name, values in START.items():
        value = library.tensor(values, dtype=dtype)
        if value.is_complex():
            value = value + 0.5j * value.flip(-1) - 0.2j
        tensors[name] = value.detach().requires_grad_()
    return tensors


def both(torch, name, settings, dtype="float64"):
    """Yield (library, parameters, optimizer) of edutorch and of PyTorch."""
    for library in (edutorch, torch):
        p = parameters(library, dtype)
        trained = [p["a"]] if name == "Muon" else list(p.values())  # only matrices
        yield library, p, getattr(library.optim, name)(trained, **settings)


def loss_of(p):
    """Return a loss of the parameters with a valley, which is real for complex ones too."""
    a, b = p["a"], p["b"]
    if a.is_complex():
        return (a.abs() ** 2).sum() + ((b - a[:, 0]).abs() ** 4).sum()
    return ((a**2).sum(1) * b.exp()).sum() + (b**4).sum()


def train(optimizer, p, steps):
    """Take some steps; "unused" never gets a gradient."""

    def closure():
        optimizer.zero_grad()
        loss = loss_of(p)
        loss.backward()
        return loss

    if type(optimizer).__name__ == "LBFGS":  # many moves in each step: soon all is rounding
        for _ in range(steps // 5):
            optimizer.step(closure)
        return
    for _ in range(steps):
        closure()
        optimizer.step()


def all_close(ours, theirs, small):
    """Compare parameters by name."""
    for key, value in theirs.items():
        np.testing.assert_allclose(
            ours[key].tolist(), value.tolist(), rtol=small, atol=small, err_msg=key
        )


def compare_states(ours, theirs, small):
    """Compare two state_dicts: the same keys, dtypes and values."""
    assert ours["param_groups"] == theirs["param_groups"]
    assert list(ours["state"]) == list(theirs["state"])
    for number, state in theirs["state"].items():
        assert set(ours["state"][number]) == set(state)
        for key, value in state.items():
            our_value = ours["state"][number][key]
            np.testing.assert_allclose(
                elements(our_value), elements(value), rtol=max(small, 1e-6), atol=1e-9, err_msg=key
            )
            if hasattr(value, "dtype") and optim_dtype_matters(key):
                assert str(our_value.dtype) == str(value.dtype)


def optim_dtype_matters(key):
    """Whether both hold a tensor: for the step length PyTorch does so only sometimes."""
    return key != "t"


def elements(value):
    """Return the elements of a value of the state as a list."""
    if isinstance(value, list):
        return [number for item in value if item is not None for number in flat(item)]
    return flat(value)


def flat(value):
    return value.reshape(-1).tolist() if hasattr(value, "reshape") else [value]


def to_edutorch(value):
    """Convert a state_dict of PyTorch to edutorch."""
    return converted(value, lambda tensor: edutorch.tensor(tensor.detach().numpy()))


def to_torch(torch, value):
    """Convert a state_dict of edutorch to PyTorch."""
    return converted(value, lambda tensor: torch.tensor(tensor.detach().numpy()))


def converted(value, one):
    if isinstance(value, dict):
        return {key: converted(item, one) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(converted(item, one) for item in value)
    return one(value) if hasattr(value, "detach") else value


assert set(OPTIONS) < set(optim.__all__)
