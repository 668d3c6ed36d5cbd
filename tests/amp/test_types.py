"""The result dtypes under autocast are PyTorch's, for each op and for composed functions.

On the CPU PyTorch computes them. For a GPU its fake tensors say the type without one, and
our `strict` device stands in for ours.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import edutorch
from edutorch.amp.lists import DEPENDENT_POLICIES, POLICIES
from edutorch.core.op import REGISTRY
from edutorch.core.tensor import Tensor
from tests.amp.calls import EXPRESSIONS, tensors, types_of
from tests.op_calls import arguments, call, ops, oracle
from tests.op_cases import CASES, INTERNAL
from tests.trials import tried

HALF_DTYPES = ("bfloat16", "float16")
DTYPES = ("float32", *HALF_DTYPES)
ARGUMENT_DTYPES = {"bfloat16": DTYPES, "float16": ("float32", "float16")}
"""The types of arguments that are tried, for each type that autocast is set to."""

INSIDE = {
    "bce_forward": "a part of binary_cross_entropy, which is converted as a whole",
    "bce_with_logits_forward": "a part of binary_cross_entropy_with_logits, converted as a whole",
    "max_pool": "a part of max_pool3d, which is converted as a whole",
    "avg_pool": "a part of avg_pool3d, which is converted as a whole",
    "ctc_loss_forward": "a part of ctc_loss, which is converted as a whole",
}
"""Ops that are parts of functions: PyTorch's answer is that of the function."""

DIFFERENT = {
    "t.linalg.pinv(q)": "stays float32 here: PyTorch multiplies its factors in 16 bits",
    "t.lstm(c, (h0, h0), [w12, w12, v12, v12], True, 1, 0.0, False, False, True)": "PyTorch "
    "gives tensors of the other 16-bit type to another kernel",
}
"""Calls for the CPU that differ."""

DIFFERENT_ON_A_GPU = {
    "F.affine_grid(th, (1, 2, 2, 2))": "a fake tensor computes it without the product",
    "t.linalg.cross(a, a)": "refused with a tensor of the other 16-bit type, like t.cross",
}


def attempt(function: Callable[[], Any]) -> Any:
    """Return the dtypes of a result, or None if the call fails."""
    try:
        return types_of(function())
    except (RuntimeError, TypeError, ValueError, AssertionError, NotImplementedError):
        return None


def test_what_differs_has_a_reason():
    reasons = {**INSIDE, **DIFFERENT, **DIFFERENT_ON_A_GPU}
    assert all(len(reason.split()) > 4 for reason in reasons.values())
    assert set(INSIDE) <= set(REGISTRY)
    assert (set(DIFFERENT) | set(DIFFERENT_ON_A_GPU)) <= set(EXPRESSIONS)


def test_every_listed_name_is_a_function_here():
    known = {*REGISTRY, "run_recurrent"}
    namespaces = (edutorch, edutorch.nn.functional, edutorch.linalg, edutorch.fft, Tensor)
    for name in {name for policies in POLICIES.values() for name in policies} | {
        name for _, name in DEPENDENT_POLICIES
    }:
        assert name in known or any(hasattr(place, name) for place in namespaces), name


@pytest.mark.oracle
@tried("lower", HALF_DTYPES)
@ops(lambda op: op.name not in INTERNAL and op.name not in INSIDE)
def test_every_op(op, lower, torch):
    for dtype in ARGUMENT_DTYPES[lower]:
        for case in CASES[op.name]:
            with torch.autocast("cpu", getattr(torch, lower)):
                expected = attempt(lambda c=case, k=dtype: oracle(op, c, k))
            if expected is None or "complex32" in expected:  # a type that is not here
                continue
            with edutorch.autocast("cpu", getattr(edutorch, lower)):
                result = types_of(call(op, arguments(op, case, dtype=dtype)))
            assert result == expected, (dtype, case)


def answer(library: Any, expression: str, dtype: str) -> Any:
    return attempt(lambda: eval(expression, dict(tensors(library, dtype))))


as_it_is = cache(answer)
"""The types without autocast, which are the same for each type that it is set to."""


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@tried("lower", HALF_DTYPES)
@pytest.mark.parametrize(
    "expression", [expression for expression in EXPRESSIONS if expression not in DIFFERENT]
)
def test_functions(expression, lower, torch):
    compared = 0
    for dtype in ARGUMENT_DTYPES[lower]:
        plain = as_it_is(torch, expression, dtype)
        if plain is not None and plain != as_it_is(edutorch, expression, dtype):
            continue  # without autocast, too
        with torch.autocast("cpu", getattr(torch, lower)):
            expected = answer(torch, expression, dtype)
        with edutorch.autocast("cpu", getattr(edutorch, lower)):
            result = answer(edutorch, expression, dtype)
        if expected is not None:
            assert result == expected, dtype
            compared += 1
    assert compared


@pytest.fixture
def fake(torch, monkeypatch):
    """PyTorch's fake tensors, which have a dtype and shape, but no data."""
    fakes = pytest.importorskip("torch._subclasses.fake_tensor")
    monkeypatch.setattr(logging.getLogger(fakes.__name__), "disabled", True)

    def on_a_gpu(expression: str, dtype: str, lower: str, enabled: bool) -> Any:
        arguments_ = tensors(torch, dtype)
        names = set(re.findall(r"\b[a-z]\w*\b", expression)) & set(arguments_)
        with fakes.FakeTensorMode(allow_non_fake_inputs=True):
            moved = {
                name: torch.empty_strided(
                    value.shape, value.stride(), dtype=value.dtype, device="cuda"
                )
                for name, value in ((name, arguments_[name]) for name in names)
                if isinstance(value, torch.Tensor)
            }
            torch.set_autocast_dtype("cuda", getattr(torch, lower))
            torch.set_autocast_enabled("cuda", enabled)
            try:
                return types_of(eval(expression, {**arguments_, **moved}))
            except Exception:  # noqa: BLE001  (whatever a fake tensor cannot do)
                return None
            finally:
                torch.set_autocast_enabled("cuda", False)

    return on_a_gpu


@cache
def moved_tensors(dtype: str) -> dict[str, Any]:
    values = tensors(edutorch, dtype)
    return {k: v.to("strict") if isinstance(v, Tensor) else v for k, v in values.items()}


def strict(expression: str, dtype: str, lower: str, enabled: bool) -> Any:
    moved = moved_tensors(dtype)
    with edutorch.autocast("strict", getattr(edutorch, lower), enabled=enabled):
        return attempt(lambda: eval(expression, dict(moved)))


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "expression", [expression for expression in EXPRESSIONS if expression not in DIFFERENT_ON_A_GPU]
)
def test_functions_on_a_gpu(expression, fake):
    for dtype in ARGUMENT_DTYPES["float16"]:
        call = expression, dtype, "float16"
        expected = fake(*call, True)
        if expected is None or fake(*call, False) != strict(*call, False):
            continue  # see the test of the CPU; and not all can be asked without a GPU
        assert strict(*call, True) == expected, dtype


@pytest.mark.parametrize(
    ("expression", "dtype", "expected"),
    [
        ("F.grid_sample(x, g)", "float32", "float32"),
        ("F.grid_sample(x, g)", "float16", "float16"),
        ("t.scatter_add(a, 0, k[None, :1], a.float())", "float32", "float32"),
        ("t.gru_cell(a, a, w9, w9, v9, v9)", "float32", "float16"),
        ("F.linear(a, a, v[:2])", "float32", "float16"),
        ("F.hinge_embedding_loss(a, k[0] * 2 - 1)", "float16", "float32"),
        ("t.conv_tbc(c, d[:1], v)", "float32", "float16"),
    ],
)
def test_gpu_functions_that_fake_tensors_cannot_do(expression, dtype, expected):
    """By PyTorch's documented lists."""
    assert strict(expression, dtype, "float16", True) == [expected]
