"""One sample of each op and module on the strict device, in a GPU's dtypes: computed, or refused.

What is computed is the CPU's result, as both round the same sums. What is refused is what PyTorch
refuses, but for the exceptions below. (`tests/test_every_op.py` compares the values of all cases
with PyTorch's on both devices, in these and other dtypes.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.core.op import REGISTRY, Op
from tests.nn.compare import assert_close
from tests.op_calls import TOLERANCE, answer, arguments, call, every, fit_to_dtype, is_compared
from tests.op_calls import same as assert_same
from tests.op_cases import CASES, EXCLUDED, INTERNAL, WIDER
from tests.test_every_module import FIRST, LOOSE, called, start

TYPES = ("float32", "float16", "bfloat16")
REFUSALS = (TypeError, RuntimeError, NotImplementedError)

REFUSED: dict[tuple[str, str], str] = {}
"""Ops that refuse a dtype which PyTorch computes with, with the reason."""

NOT_HALF = dict.fromkeys(
    ("lstm_sequence", "gru_sequence", "rnn_sequence"),
    "never called in 16 bits: there the loops round after each op (`can_use_sequence_op`)",
)
"""Ops that are not tried in 16 bits, with the reason."""


def outcome(op: Op, number: int, device: str, dtype: str) -> Any:
    """Return the result of a case, or the class of the error that refuses its dtype."""
    bound = arguments(op, fit_to_dtype(CASES[op.name][number], dtype), device, dtype)
    try:
        result = call(op, bound)
    except REFUSALS as error:
        return type(error)
    edutorch.backends.get("strict").synchronize()  # no check of an index may be left
    return result


def sample(op: Op, dtype: str) -> int | None:
    """Return the number of the first case that a dtype can have."""
    cases = enumerate(CASES[op.name])
    return next((number for number, case in cases if is_compared(op, case, dtype)), None)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", [name for name in REGISTRY if name in CASES])
def test_a_sample(name, dtype):
    op = REGISTRY[name]
    number = sample(op, dtype)
    if number is None or (name in NOT_HALF and dtype != "float32"):
        assert name in NOT_HALF or name in EXCLUDED or dtype != "float32"
        return
    with np.errstate(all="ignore"):
        ours, cpus = (outcome(op, number, device, dtype) for device in ("strict", "cpu"))
    if isinstance(ours, type) or isinstance(cpus, type):
        assert ours is cpus, "the devices refuse other dtypes"
    else:
        if name != "to_device":
            assert {result.device.type for result in every(ours)} == {"strict"}
        assert_same(ours, cpus, TOLERANCE[dtype] / 4)
    if name in INTERNAL:
        return
    theirs = answer(name, number, dtype)
    if isinstance(theirs, str) and theirs == "not implemented":
        assert isinstance(ours, type) or (name, dtype) in WIDER, "PyTorch refuses it"
    elif not isinstance(theirs, str):
        is_refused = isinstance(ours, type)
        assert is_refused == ((name, dtype) in REFUSED), "PyTorch computes it"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", [case for case in FIRST if case.x is not None], ids=str)
def test_a_module(case, dtype):
    """Outputs, gradients and buffers are those of the CPU."""
    try:
        ours, cpus = start(edutorch, case, dtype, "strict")
        expected = called(edutorch, cpus, case, dtype, "cpu")
    except REFUSALS as error:
        with pytest.raises(type(error)):
            called(edutorch, start(edutorch, case, dtype, "strict")[0], case, dtype, "strict")
        return
    results = called(edutorch, ours, case, dtype, "strict")
    assert list(results) == list(expected)
    near = LOOSE if dtype == "float32" else {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    for what, value in expected.items():
        assert_close(results[what], value, what, **near)
