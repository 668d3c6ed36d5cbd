"""Every op of the registry: values, dtypes, in-place and out forms, devices, errors.

The sample arguments are in the ops' blocks and in `op_cases.py`; an op without any fails the first
test.
"""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch.core.op import REGISTRY
from edutorch.core.tensor import Tensor
from tests.devices import IS_EXACT, OTHER
from tests.exclusions import exclusions, listing
from tests.op_calls import (
    TOLERANCE,
    TYPES,
    answer,
    arguments,
    call,
    devices,
    every,
    fit_to_dtype,
    is_compared,
    ops,
    same,
)  # fmt: skip
from tests.op_cases import CASES, EXCLUDED, INTERNAL, WIDER
from tests.op_oracles import by_reference
from tests.trials import tried

pytestmark = pytest.mark.usefixtures("warnings_are_errors")

# The registry ------------------------------------------------------------------------------


def test_every_op_has_cases():
    missing = [name for name in REGISTRY if name not in CASES and name not in EXCLUDED]
    assert not missing, "write `sample=` in their blocks, or special arguments in op_cases.py"
    assert not [name for name in CASES if name not in REGISTRY], "no such ops"


def test_what_is_left_out_has_a_reason():
    """The list is printed: `pytest -s`, or `python -m tests.exclusions`."""
    print(listing())
    assert all(len(reason.split()) > 1 for _, _, reason in exclusions())


@tried("op", [op for name, op in REGISTRY.items() if name in CASES], ids=lambda op: op.name)
def test_documentation(op):
    if op.name in edutorch.ops.__all__:
        assert ">>>" in op.doc
    assert op.doc
    assert set(op.formulas) == set(op.rules), "each rule has a formula for the pictures"


WITHOUT_A_DERIVATIVE = set(
    """
    all any argmax argmin count_nonzero max_pool_indices
    eq ge gt isclose isfinite isinf isnan isneginf isposinf le lt ne signbit
    logical_and logical_not logical_or logical_xor
    bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor
    floor_divide gcd lcm matrix_rank_forward view_dtype ldl_factor_forward ldl_solve_forward
    svdvals_forward eigvalsh_forward
    apply_householder airy_ai
    chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
    shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
    shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he
    laguerre_polynomial_l legendre_polynomial_p
    """.split()
)


def test_every_other_op_has_a_derivative():
    """The tests of derivatives walk over the ops that have rules, and would not miss one."""
    assert {op.name for op in REGISTRY.values() if not op.rules} == WITHOUT_A_DERIVATIVE


# Values --------------------------------------------------------------------------------------


@pytest.mark.oracle
@devices
@ops(lambda op: op.name not in INTERNAL)
def test_values(op, device):
    for number, case in enumerate(CASES[op.name]):
        expected = answer(op.name, number, "float64")
        if expected == "no twin":
            continue  # its reference does not say either: of another case it does
        same(call(op, arguments(op, case, device)), expected, TOLERANCE["float64"])


@ops(lambda op: op.options.reference is not None)
def test_values_by_the_reference_of_the_block(op):
    expected = [by_reference(op, case) for case in CASES[op.name]]
    assert any(values is not None for values in expected), "it takes none of the cases"
    for case, values in zip(CASES[op.name], expected, strict=True):
        if values is not None:
            result = call(op, arguments(op, case)).double()
            np.testing.assert_allclose(result.numpy(), values, rtol=1e-12, atol=1e-12)


@pytest.mark.oracle
@tried("dtype", TYPES)
@devices
@ops(lambda op: op.name not in INTERNAL)
def test_types(op, device, dtype):
    """The result has PyTorch's dtype and values, for each dtype that PyTorch accepts."""
    for number, case in enumerate(CASES[op.name]):
        if not is_compared(op, case, dtype):
            continue  # see OTHER_TYPES
        expected = answer(op.name, number, dtype)
        if isinstance(expected, str):
            continue  # PyTorch has no such op for this type
        tolerance = max(TOLERANCE.get(str(tensor.dtype)[6:], 0) for tensor in every(expected))
        same(call(op, arguments(op, fit_to_dtype(case, dtype), device, dtype)), expected, tolerance)


@pytest.mark.oracle
@tried("dtype", TYPES)
@ops(lambda op: op.name not in INTERNAL)
def test_refusals(op, dtype):
    """What PyTorch refuses for its type, we refuse in words that name the op."""
    if (op.name, dtype) in WIDER:
        return  # with its reason in the list of exclusions
    for number, case in enumerate(CASES[op.name]):
        if answer(op.name, number, dtype) == "not implemented":
            with pytest.raises((TypeError, RuntimeError), match="|".join((op.name, *op.public))):
                call(op, arguments(op, fit_to_dtype(case, dtype), dtype=dtype))


IN_ANOTHER_ORDER = {
    "einsum_forward", "inv", "lstm_cell_forward", "lu_factor_forward", "solve_forward",
    "solve_triangular_forward",
}  # fmt: skip


@ops()
def test_the_devices_agree(op):
    for case in CASES[op.name]:
        results = [call(op, arguments(op, case, device)) for device in ("cpu", OTHER)]
        if op.name != "to_device":  # it leads away
            assert {tensor.device.type for tensor in every(results[1])} == {OTHER}
        # Products of matrices and LAPACK make sums in another order.
        exact = 1e-15 if op.name in IN_ANOTHER_ORDER else 0
        same(*results, exact if IS_EXACT else TOLERANCE["float64"])


# Other forms ---------------------------------------------------------------------------------


@devices
@ops(lambda op: hasattr(op.function, "in_place"))
def test_the_in_place_twin(op, device):
    name = op.inputs[0]
    for case in CASES[op.name]:
        bound = arguments(op, case, device, grad=True)
        x = bound.pop(name)
        if not isinstance(x, Tensor):
            continue
        expected = op.function(**{name: x}, **bound)
        if expected.shape != x.shape:
            continue
        y = x * 1 if x.requires_grad else x.clone()
        twin = op.function.in_place
        assert twin(y, **bound) is y
        assert getattr(Tensor, f"{op.name}_", twin) is twin
        same(y, expected.to(x.dtype), 0)
        if expected.requires_grad:
            operands = [
                argument
                for argument in (x, *bound.values())
                if isinstance(argument, Tensor) and argument.requires_grad
            ]
            weights = edutorch.ones_like(y)
            with np.errstate(all="ignore"):  # at a pole it is infinite, and no warning is wanted
                same(
                    edutorch.autograd.grad(y, operands, weights),
                    edutorch.autograd.grad(expected, operands, weights),
                    TOLERANCE["float64"],
                )


@devices
@ops(lambda op: op.has_out)
def test_the_out_form(op, device):
    for case in CASES[op.name]:
        bound = arguments(op, case, device)
        expected = call(op, bound)
        out = edutorch.zeros_like(expected)
        assert call(op, bound | {"out": out}) is out
        same(out, expected, 0)
        empty = edutorch.empty(0, dtype=expected.dtype, device=device)
        same(call(op, bound | {"out": empty}), expected, 0)
