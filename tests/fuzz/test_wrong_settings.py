"""A setting of a wrong type is refused by the name of the function and of the argument.

The calls are the fuzzer's: each layer function and optimizer in a form that it takes, with one
number replaced by None, text or any object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import edutorch
from edutorch.errors import EdutorchError
from tests.fuzz.arguments import Drawer
from tests.fuzz.calls import Call, run_call
from tests.fuzz.targets import Parameter, Target, all_targets
from tests.oracle import require_torch

pytestmark = pytest.mark.oracle

WRONG = {"None": None, "text": "abc", "an object": object()}
NO_NUMBERS = re.compile("Tensor|Array|bool|Any|^str|Iterable|Literal|Callable")
WORDS = {"line_search_fn", "adjust_lr_fn"}
"""Settings that are one of some words; an unknown one is named itself."""


def valid_call(target: Target) -> Call | None:
    """Return a call of the fuzzer's that edutorch takes."""
    for seed in range(30):
        call = replace(Drawer(Random(seed), target).draw(), mode="forward")
        if run_call(call, edutorch).error is None:
            return call
    return None


def with_argument(call: Call, target: Target, parameter: Parameter, value: Any) -> Call | None:
    """Return the call with another value for a parameter; None: it is not passed in this call."""
    name = parameter.name
    if not parameter.required:
        return replace(call, settings={**call.settings, name: value})
    required = [other.name for other in target.parameters if other.required and not other.variadic]
    if name not in required[: len(call.args)]:
        return None
    index = required.index(name)
    return replace(call, args=(*call.args[:index], value, *call.args[index + 1 :]))


def spoil(call: Call, target: Target) -> Iterator[tuple[Parameter, str, Call]]:
    """Yield the call with each setting that is a number replaced."""
    for parameter in target.parameters:
        name, is_number = parameter.name, not NO_NUMBERS.search(parameter.annotation)
        if (not is_number and name != "lr") or name in WORDS or name.startswith("_"):
            continue
        for title, value in WRONG.items():
            if value is None and ("None" in parameter.annotation or parameter.default is None):
                continue
            wrong = with_argument(call, target, parameter, value)
            if wrong is not None:
                yield parameter, title, wrong


def is_named(error: Any, target: Target, parameter: Parameter) -> bool:
    """Whether an error is edutorch's own and names function and argument."""
    says = str(error)
    return (
        isinstance(error, EdutorchError)
        and target.leaf.lower() in says.lower()
        and re.search(rf"\b{parameter.name}\b", says) is not None
    )


@pytest.mark.parametrize("pattern", [r"nn\.functional\..*", r"optim\..*"])
def test_a_setting_of_a_wrong_type_is_named(torch, pattern):
    unclear, tried = [], 0
    for target in all_targets(torch):
        call = valid_call(target) if re.fullmatch(pattern, target.path) else None
        for parameter, title, wrong in spoil(call, target) if call else ():
            error = run_call(wrong, edutorch).error
            tried += 1
            if error is not None and not is_named(error, target, parameter):
                unclear.append(f"{target.path}({parameter.name}={title}): {error!r}"[:200])
    assert tried > 150
    assert not unclear


def test_schedulers_name_a_setting_of_a_wrong_type():
    optimizer = edutorch.optim.SGD([edutorch.zeros(1, requires_grad=True)])
    for name, settings in {
        "StepLR": {"step_size": "abc"}, "ExponentialLR": {"gamma": None},
        "CosineAnnealingLR": {"T_max": None}, "MultiStepLR": {"milestones": [1], "gamma": "abc"},
    }.items():  # fmt: skip
        with pytest.raises(EdutorchError, match=rf"{name}: argument `{[*settings][-1]}` must be"):
            getattr(edutorch.optim.lr_scheduler, name)(optimizer, **settings)


require_torch()
