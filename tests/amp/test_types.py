"""The result dtypes under autocast are PyTorch's, for each op and for composed functions.

They are written in `golden/autocast.json`: on the CPU PyTorch computes them; for a GPU its fake
tensors say the type without one, and our `strict` device stands in for ours.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

import edutorch
from edutorch.amp.lists import DEPENDENT_POLICIES, POLICIES
from edutorch.core.op import REGISTRY
from edutorch.core.tensor import Tensor
from tests import golden_autocast
from tests.amp.calls import EXPRESSIONS, tensors, types_of
from tests.golden_autocast import ARGUMENT_DTYPES, HALF_DTYPES, INSIDE, attempt, golden
from tests.op_calls import arguments, call, ops
from tests.op_cases import CASES, INTERNAL
from tests.trials import tried

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


@tried("lower", HALF_DTYPES)
@ops(lambda op: op.name not in INTERNAL and op.name not in INSIDE)
def test_every_op(op, lower):
    for dtype in ARGUMENT_DTYPES[lower]:
        answers = golden("ops", op.name, dtype, lower)
        for case, expected in zip(CASES[op.name], answers, strict=True):
            if expected is not None:
                with edutorch.autocast("cpu", getattr(edutorch, lower)):
                    result = types_of(call(op, arguments(op, case, dtype=dtype)))
                assert result == expected, (dtype, case)


@cache
def answer(expression: str, dtype: str) -> Any:
    """Return the types without autocast, which are the same for each type that it is set to."""
    return evaluate(expression, dtype)


def evaluate(expression: str, dtype: str) -> Any:
    return attempt(lambda: eval(expression, dict(tensors(edutorch, dtype))))


@pytest.mark.filterwarnings("ignore")
@tried("lower", HALF_DTYPES)
@pytest.mark.parametrize(
    "expression", [expression for expression in EXPRESSIONS if expression not in DIFFERENT]
)
def test_functions(expression, lower):
    compared = 0
    for dtype in ARGUMENT_DTYPES[lower]:
        plain, expected = golden("cpu", expression, dtype, lower)
        if plain is not None and plain != answer(expression, dtype):
            continue  # without autocast, too
        with edutorch.autocast("cpu", getattr(edutorch, lower)):
            result = evaluate(expression, dtype)
        if expected is not None:
            assert result == expected, dtype
            compared += 1
    assert compared


@cache
def moved_tensors(dtype: str) -> dict[str, Any]:
    values = tensors(edutorch, dtype)
    return {k: v.to("strict") if isinstance(v, Tensor) else v for k, v in values.items()}


def strict(expression: str, dtype: str, lower: str, enabled: bool) -> Any:
    moved = moved_tensors(dtype)
    with edutorch.autocast("strict", getattr(edutorch, lower), enabled=enabled):
        return attempt(lambda: eval(expression, dict(moved)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "expression", [expression for expression in EXPRESSIONS if expression not in DIFFERENT_ON_A_GPU]
)
def test_functions_on_a_gpu(expression):
    for dtype in ARGUMENT_DTYPES["float16"]:
        plain, expected = golden("gpu", expression, dtype, "float16")
        if expected is None or plain != strict(expression, dtype, "float16", False):
            continue  # see the test of the CPU; and not all can be asked without a GPU
        assert strict(expression, dtype, "float16", True) == expected, dtype


@pytest.mark.oracle
def test_what_is_written_is_pytorchs(torch):
    differ = []
    for place, answers in golden_autocast.all_types(torch).items():
        assert answers.keys() == golden_autocast.written()[place].keys()
        for name, text in answers.items():
            known = golden_autocast.written()[place][name]
            parts = zip(re.split("; | \\| ", text), re.split("; | \\| ", known), strict=True)
            # A processor may lack a kernel that another has.
            differ += [name for one, other in parts if one != other and "-" not in (one, other)]
    assert not differ, "write them again: python -m tests.golden_autocast"


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
