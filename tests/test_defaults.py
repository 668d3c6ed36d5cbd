"""Default values: each argument that has PyTorch's name has PyTorch's default."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import pytest

import edutorch

NAMESPACES = [
    "", "amp", "autograd", "autograd.forward_ad", "autograd.functional", "autograd.graph",
    "autograd.profiler", "distributions", "fft", "func", "linalg", "nn",
    "nn.functional", "nn.init", "nn.utils", "nn.utils.parametrizations", "nn.utils.parametrize",
    "nn.utils.prune", "nn.utils.rnn", "optim", "optim.lr_scheduler", "optim.swa_utils", "special",
    "utils.data",
]  # fmt: skip

OTHER = {
    "device.index": "None stands for the current device",
    "compile.backend": "there is one way to compile",
    "save.pickle_module": "None stands for the module pickle",
    "save.pickle_protocol": "None stands for PyTorch's",
    "batch_norm.cudnn_enabled": "may be left out",
    "instance_norm.cudnn_enabled": "may be left out",
    "embedding_bag.padding_idx": "may be left out",
    "bernoulli.p": "None stands for the probabilities in the tensor",
    "cumulative_trapezoid.dx": "None stands for 1, where x is not given either",
    "trapezoid.dx": "None stands for 1, where x is not given either",
    "trapz.dx": "None stands for 1, where x is not given either",
    "meshgrid.indexing": "'ij' is what None stands for, without the warning",
    "split.split_size_or_sections": "has two names there",
    "Tensor.split.split_size": "has two names there",
    **dict.fromkeys(
        ["std.unbiased", "std_mean.unbiased", "var.unbiased", "var_mean.unbiased"],
        "None stands for correction=1, which is the same",
    ),
    "HingeEmbeddingLoss.margin": "None stands for the class's own, which is PyTorch's",
    "MarginRankingLoss.margin": "None stands for the class's own, which is PyTorch's",
    "CosineEmbeddingLoss.margin": "None stands for the class's own, which is PyTorch's",
    "SequentialSampler.data_source": "may be left out, as in a Sampler",
    "random_split.generator": "None stands for the default generator",
}
"""Where a signature differs from PyTorch's, and why."""


def namespace(library: Any, path: str) -> Any:
    if not path:
        return library
    try:
        return importlib.import_module(f"{library.__name__}.{path}")
    except ModuleNotFoundError:
        return reduce(getattr, path.split("."), library)


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return each argument's default by its name; Parameter.empty where it is required."""
    parameters = inspect.signature(function).parameters.values()
    return {
        p.name: p.default for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }


def expected_defaults(torch: Any, space: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield PyTorch's defaults: one dict per overload, from the signature or the C++ schema."""
    # `max_pool2d` picks one of two functions by `return_indices`; both have the same arguments.
    function = getattr(space, f"_{name}", None) if "functional" in space.__name__ else None
    try:
        yield defaults_of(function or getattr(space, name))
    except ValueError:  # written in C++: None there stands for "left out", as does an overload
        package = space.__name__.removeprefix("torch").strip(".").replace(".", "_")
        prefix = f"{package}_" if package in ("special", "linalg", "fft") else ""
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{prefix}{name}"):
            yield {
                argument.name: argument.default_value
                for argument in schema.arguments
                if argument.default_value is not None and argument.name != "dtype"
            }


def comparable(value: Any) -> Any:
    """Write functions by name; schemas have `[1, 1]` for 1, and `[]` for None."""
    if isinstance(value, list | tuple):
        values = [*dict.fromkeys(value)]
        value = values if len(values) > 1 else values[0] if values else None
    return getattr(value, "__name__", repr(value)) if not isinstance(value, int | float) else value


def differences(torch: Any, path: str) -> tuple[dict[str, Any], int]:
    """Compare all signatures of a namespace; return what differs, and how many were compared."""
    ours, theirs = namespace(edutorch, path), namespace(torch, path)
    different, count = {}, 0
    for name, function in vars(ours).items():
        is_ours = str(getattr(function, "__module__", "")).startswith("edutorch")
        if name.startswith("_") or not callable(function) or not is_ours:
            continue
        if name == "Tensor" or not hasattr(theirs, name):
            continue
        overloads = list(expected_defaults(torch, theirs, name))
        for argument, default in defaults_of(function).items():
            expected = [overload[argument] for overload in overloads if argument in overload]
            count += bool(expected)
            if expected and comparable(default) not in map(comparable, expected):
                different[f"{name}.{argument}"] = (default, expected)
    return different, count


@pytest.mark.parametrize("path", NAMESPACES)
def test_defaults_equal_pytorchs(path, torch):
    different, count = differences(torch, path)
    assert count
    assert {name: pair for name, pair in different.items() if name not in OTHER} == {}


def method_differences(torch: Any, path: str) -> tuple[dict[str, Any], int]:
    """Compare the methods of all classes of a namespace as `differences` compares functions."""
    ours, theirs = namespace(edutorch, path), namespace(torch, path)
    different, count = {}, 0
    for name, cls in vars(ours).items():
        other = getattr(theirs, name, None)
        is_ours = str(getattr(cls, "__module__", "")).startswith("edutorch")
        if name.startswith("_") or not (
            inspect.isclass(cls) and inspect.isclass(other) and is_ours
        ):
            continue
        for method in [key for key in vars(cls) if not key.startswith("_")]:
            functions = getattr(cls, method), getattr(other, method, None)
            try:
                our_defaults, their_defaults = map(defaults_of, map(inspect.unwrap, functions))
            except (TypeError, ValueError):  # no method, or written in C++
                continue
            for argument in our_defaults.keys() & their_defaults:
                pair = our_defaults[argument], their_defaults[argument]
                count += 1
                if comparable(pair[0]) != comparable(pair[1]):
                    different[f"{name}.{method}.{argument}"] = pair
    return different, count


def test_defaults_of_methods_equal_pytorchs(torch):
    compared = [method_differences(torch, path) for path in NAMESPACES]
    assert sum(count for _, count in compared) > 1000
    different = {name: pair for part, _ in compared for name, pair in part.items()}
    assert {name: pair for name, pair in different.items() if name not in OTHER} == {}


def test_margins_left_out_are_pytorchs(torch):
    for name in ("HingeEmbeddingLoss", "MarginRankingLoss", "CosineEmbeddingLoss"):
        assert getattr(edutorch.nn, name)().margin == getattr(torch.nn, name)().margin


def test_most_defaults_are_compared(torch):
    assert sum(differences(torch, path)[1] for path in NAMESPACES) > 2400
