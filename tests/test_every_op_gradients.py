"""The derivatives of each op: against finite differences, and the modes against each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.core.op import REGISTRY, Op
from edutorch.core.tensor import Tensor
from tests.devices import OTHER
from tests.op_calls import (
    TOLERANCE,
    arguments,
    array,
    differentiable,
    differentiable_call,
    differentiable_cases,
    ops,
    oracle,
    refuses,
    same,
)  # fmt: skip
from tests.op_cases import CASES, INTERNAL, some
from tests.slopes import second_derivatives_agree
from tests.trials import tried

pytestmark = pytest.mark.usefixtures("warnings_are_errors")

FINE = (edutorch.float64, edutorch.complex128)
"""The dtypes in which finite differences are accurate."""

Call = tuple[Any, list[Tensor]]


every_op_with_rules = tried(
    "op",
    [op for name, op in REGISTRY.items() if name in CASES and op.rules],
    ids=lambda op: op.name,
)


IN_OTHER_FILES = {"ctc_loss_forward"}
"""Ops whose rules are right only behind another op, and are tested there."""


@every_op_with_rules
def test_every_rule_is_differentiated(op):
    """A rule for an input that no case gives as numbers would never be checked."""
    differentiated = {name for case in CASES[op.name] for name in differentiable(op, case)}
    if op.name not in IN_OTHER_FILES:
        assert {name for name in op.rules if not refuses(op, name)} <= differentiated
    else:  # a case says where, and that file knows the function
        reasons = [str(case.get("only_values")) for case in CASES[op.name]]
        path = next(reason.partition("tests/")[2] for reason in reasons if "tests/" in reason)
        assert op.public[0] in (Path(__file__).parent / path).read_text()


def calls(op: Op) -> Iterator[Call]:
    """Yield each case as a function of its tensors, where finite differences are accurate."""
    for case in differentiable_cases(op):
        bound = arguments(op, case, grad=True)
        function, operands = differentiable_call(op, bound, differentiable(op, case))
        if function(*operands).dtype in FINE:
            yield function, operands


def complex_calls(op: Op) -> Iterator[Call]:
    """Yield each case with complex tensors, where PyTorch accepts them."""
    for case in differentiable_cases(op):
        try:
            if op.name not in INTERNAL:
                oracle(op, case, "complex128")
            bound = arguments(op, case, dtype="complex128", grad=True)
            function, operands = differentiable_call(op, bound, differentiable(op, case))
            output = function(*operands)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            continue  # PyTorch refuses, and so do we: see `test_refusals`
        if output.dtype in FINE:
            yield function, operands


@ops(lambda op: op.rules)
def test_gradients(op):
    for function, operands in calls(op):
        assert edutorch.autograd.gradcheck(function, operands)


LONG = {"gru_sequence", "lstm_sequence"}
"""Ops with so many inputs that their second derivatives belong to the slow suite."""


@ops(lambda op: op.rules and op.name not in LONG)
def test_second_derivatives(op):
    for function, operands in calls(op):
        assert edutorch.autograd.gradgradcheck(function, operands)


@pytest.mark.slow
@ops(lambda op: op.name in LONG)
def test_second_derivatives_of_sequences(op):
    for function, operands in calls(op):
        assert edutorch.autograd.gradgradcheck(function, operands)


@ops(lambda op: op.rules)
def test_forward_mode(op):
    """J v agrees with finite differences and with backward."""
    for function, operands in calls(op):
        forward_agrees_with_backward(function, operands)


@pytest.mark.oracle
@ops(lambda op: op.rules)
def test_complex_derivatives(op):
    """Where PyTorch accepts complex tensors, the derivatives agree with differences too."""
    for function, operands in complex_calls(op):
        assert edutorch.autograd.gradcheck(function, operands)
        assert second_derivatives_agree(function, operands)
        forward_agrees_with_backward(function, operands)


@pytest.mark.slow
@pytest.mark.oracle
@ops(lambda op: op.rules)
def test_complex_second_derivatives_number_by_number(op):
    for function, operands in complex_calls(op):
        assert edutorch.autograd.gradgradcheck(function, operands)


@every_op_with_rules
def test_results_without_a_derivative(op):
    """Integers and bools ask for no gradient."""
    for case in differentiable_cases(op):
        bound = arguments(op, case, grad=True)
        function, operands = differentiable_call(op, bound, differentiable(op, case))
        output = function(*operands)
        assert output.requires_grad == (output.dtype.category >= 2)


# Forward mode --------------------------------------------------------------------------------


def direction(like: Tensor, seed: int) -> Tensor:
    """Return values of the shape, dtype category and device of a tensor."""
    values = some(*like.shape, seed=seed)
    turned = values * (1 - 0.5j) if like.is_complex() else values
    return edutorch.tensor(np.asarray(turned), device=like.device)


def forward_agrees_with_backward(function: Any, operands: list[Tensor]) -> None:
    """Check J v against differences, and ⟨w, J v⟩ = ⟨Jᵀ w, v⟩."""
    tangents = [direction(number, seed=9) for number in operands]
    still = tuple(number.detach() for number in operands)
    value, pushed = edutorch.func.jvp(function, still, tuple(tangents))
    assert (pushed.shape, pushed.dtype) == (value.shape, value.dtype)
    step = 1e-6
    ahead = function(*(x + step * v for x, v in zip(still, tangents, strict=True)))
    behind = function(*(x - step * v for x, v in zip(still, tangents, strict=True)))
    wanted = array((ahead - behind) / (2 * step))
    np.testing.assert_allclose(array(pushed), wanted, rtol=1e-4, atol=1e-6)
    output = function(*operands)
    if not all(tensor.numel() for tensor in (output, *operands)):
        return  # the mean of nothing is NaN, the sum over its gradient 0
    weights = direction(output, seed=8)
    pulled = edutorch.autograd.grad(output, operands, weights)
    there = (weights.conj() * pushed).real.sum().item()
    dense = [g if g.layout is edutorch.strided else g.to_dense() for g in pulled]
    pairs = zip(dense, tangents, strict=True)
    back = sum((g.conj() * v).real.sum().item() for g, v in pairs)
    assert there == pytest.approx(back, rel=1e-8, abs=1e-11)


# On the other device -------------------------------------------------------------------------


def twice_differentiated(op: Op, case: Any, device: str) -> list[Tensor]:
    """Return the first and the second gradients of a case along some direction."""
    bound = arguments(op, case, device, grad=True)
    function, operands = differentiable_call(op, bound, differentiable(op, case))
    output = function(*operands)
    if output.dtype.category < 2:
        return []
    weights = direction(output, seed=8).to(output.dtype)
    first = edutorch.autograd.grad(output, operands, weights, create_graph=True)
    for g, x in zip(first, operands, strict=True):
        assert g.shape == x.shape
        assert isinstance(g._array, type(x._array)), "0-d, not a NumPy scalar"
    moving = [g for g in first if g.requires_grad]
    if not moving:
        return list(first)
    ones = [edutorch.ones_like(g) for g in moving]
    return [*first, *edutorch.autograd.grad(moving, operands, ones, materialize_grads=True)]


@ops(lambda op: op.rules)
def test_the_devices_have_the_same_derivatives(op):
    """What differences say of one device then holds on the other one, too."""
    for case in differentiable_cases(op):
        results = [twice_differentiated(op, case, device) for device in ("cpu", OTHER)]
        same(*results, TOLERANCE["float64"])
