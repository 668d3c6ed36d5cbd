"""Functions composed of ops: each names the argument that should have been a tensor."""

from __future__ import annotations

import inspect
from functools import cache
from types import FunctionType
from typing import Any

import pytest

import edutorch
from tests.trials import tried

ASK_NOTHING = {"is_conj", "is_neg", "resolve_conj", "resolve_neg"}
"""They answer without a look at the tensor: nothing is ever conjugated or negated later."""

FACES = (edutorch, edutorch.linalg, edutorch.fft, edutorch.special, edutorch.nn.functional)


@cache
def composed() -> dict[str, Any]:
    """Return the functions without a block of their own whose first argument is a tensor."""
    functions = {}
    for face in FACES:
        for name, value in vars(face).items():
            if (
                name.startswith("_")
                or name in ASK_NOTHING
                or value.__class__ is not FunctionType
                or hasattr(value, "op")
            ):
                continue
            first = next(iter(inspect.signature(value).parameters.values()), None)
            several = first is not None and first.kind is first.VAR_POSITIONAL
            if first is not None and not several and str(first.annotation) == "Tensor":
                functions[f"{face.__name__}.{name}"] = value
    return functions


@tried("wrong", [None, "text"], ids=repr)
@tried("name", composed())
def test_it_is_named(name, wrong):
    with pytest.raises((TypeError, RuntimeError)) as caught:
        composed()[name](wrong)
    assert not isinstance(caught.value, AttributeError)
    assert type(wrong).__name__ in str(caught.value) or "removed" in str(caught.value)
