"""Results against the golden files in golden/ops: values and dtypes without PyTorch."""

from __future__ import annotations

import pytest

from tests.golden_ops import agrees, dtypes_of, file_of, golden, golden_names
from tests.op_calls import answer, arguments, call, every, fit_to_dtype, has_twin, ops
from tests.op_cases import CASES, INTERNAL, WIDER

pytestmark = pytest.mark.usefixtures("warnings_are_errors")

HINT = "write them again where PyTorch is: python -m tests.golden_ops"


@ops(lambda op: op.name not in INTERNAL)
def test_results_are_as_written(op):
    for number, case in enumerate(CASES[op.name]):
        for dtype in dtypes_of(op, number):
            texts = golden(op, number, dtype)
            if texts is None and op.options.reference is not None:
                continue  # PyTorch has no such op: the reference is tested in test_every_op.py
            assert texts is not None, f"{op.name} has no answer for its case {number}: {HINT}"
            bound = arguments(op, fit_to_dtype(case, dtype), dtype=dtype)
            if isinstance(texts, list):
                for result, text in zip(every(call(op, bound)), texts, strict=True):
                    assert agrees(result, text), (number, dtype, text, result)
            elif texts == "not implemented" and (op.name, dtype) not in WIDER:
                with pytest.raises((TypeError, RuntimeError)):
                    call(op, bound)


@pytest.mark.oracle
@ops(lambda op: op.name not in INTERNAL)
def test_what_is_written_is_pytorchs(op):
    for number in range(len(CASES[op.name])):
        for dtype in dtypes_of(op, number):
            texts, expected = golden(op, number, dtype), answer(op.name, number, dtype)
            if not has_twin(op):
                continue
            if isinstance(expected, str):
                assert texts == expected, HINT
            else:
                pairs = zip(every(expected), texts, strict=True)
                assert all(agrees(tensor, text) for tensor, text in pairs), HINT


def test_nothing_else_is_written():
    written_ops = [op for op in map(_op, golden_names()) if golden(op, 0, "float64") is not None]
    files = {file_of(op) for op in written_ops}
    folder = next(iter(files)).parent
    assert set(folder.glob("*.json")) == files
    assert sum(path.stat().st_size for path in files) < 1_500_000


def _op(name):
    from edutorch.core.op import REGISTRY

    return REGISTRY[name]
