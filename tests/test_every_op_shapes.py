"""Each op on tensors of various shapes: broadcast, 0-d, empty, strided.

Arbitrary shapes are in test_every_op_any_shape.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.core.op import Op
from edutorch.core.tensor import Tensor
from tests.op_calls import (
    TOLERANCE,
    arguments,
    call,
    devices,
    differentiable,
    differentiable_call,
    every,
    ops,
    oracle,
    same,
)  # fmt: skip
from tests.op_cases import CASES, INTERNAL, LAYOUT_MATTERS, ODD_SHAPES, Case
from tests.trials import tried

pytestmark = pytest.mark.usefixtures("warnings_are_errors")


def cut(case: Case, parts: Callable[[int, np.ndarray], np.ndarray]) -> Case:
    """Replace each array of a case by a part of it, so that it stays in the op's domain."""
    arrays = [key for key, value in case.items() if isinstance(value, np.ndarray)]
    return case | {key: parts(number, case[key]) for number, key in enumerate(arrays)}


STRETCHES = {
    "a row": (np.s_[:], np.s_[0], np.s_[:1]),
    "both ways": (np.s_[:, :1], np.s_[:1], np.s_[0]),
    "0-d": (np.s_[:], np.s_[0, 0], np.s_[1, 1]),
    "0-d first": (np.s_[0, 0], np.s_[:], np.s_[:1]),
}


def gradients(op: Op, case: Case) -> list[Tensor]:
    """Return the gradients of all tensors of a case, with a weight for each result."""
    names = differentiable(op, case)
    function, operands = differentiable_call(op, arguments(op, case, grad=True), names)
    output = function(*operands)
    if not names or not output.requires_grad:
        return []
    weights = edutorch.arange(output.numel()).reshape(output.shape).to(output.dtype).cos()
    return list(edutorch.autograd.grad(output, operands, weights, materialize_grads=True))


def gradients_of_stretched_operands_are_sums(op: Op, small: Case, whole: Case) -> None:
    """Hold them to those of operands that had the whole shape, which differences have checked."""
    for small_gradient, gradient in zip(gradients(op, small), gradients(op, whole), strict=True):
        added = gradient.sum_to_size(small_gradient.shape)
        same(small_gradient, added, TOLERANCE["float64"])


def grids(op: Op) -> list[Case]:
    """Return the cases whose arrays are all matrices."""
    arrays = [[v for v in case.values() if isinstance(v, np.ndarray)] for case in CASES[op.name]]
    return [
        case
        for case, case_arrays in zip(CASES[op.name], arrays, strict=True)
        if case_arrays and all(array.ndim == 2 for array in case_arrays)
    ]


@devices
@tried("stretch", STRETCHES)
@ops(lambda op: op.family.broadcasts and len(op.inputs) > 1)
def test_operands_broadcast(op, stretch, device):
    for case in grids(op):
        small = cut(case, lambda number, value: np.asarray(value[STRETCHES[stretch][number]]))
        arrays = [key for key, value in small.items() if isinstance(value, np.ndarray)]
        full = np.broadcast_arrays(*(small[key] for key in arrays))
        whole = small | {key: array.copy() for key, array in zip(arrays, full, strict=True)}
        same(call(op, arguments(op, small, device)), call(op, arguments(op, whole, device)), 0)
        if device == "cpu":
            gradients_of_stretched_operands_are_sums(op, small, whole)


SMALL = {"0-d": np.s_[0, 0], "0x3": np.s_[:0], "2x0": np.s_[:, :0]}


@pytest.mark.oracle
@devices
@tried("size", SMALL)
@ops(lambda op: op.family.broadcasts)
def test_zero_dims_and_empty(op, size, device):
    for case in grids(op):
        small = cut(case, lambda number, value: np.asarray(value[SMALL[size]]))
        same(call(op, arguments(op, small, device)), oracle(op, small), TOLERANCE["float64"])
        names = differentiable(op, small)
        if names:
            function, operands = differentiable_call(
                op, arguments(op, small, device, grad=True), names
            )
            output = function(*operands)
            output.backward(edutorch.ones_like(output))
            assert all(number.grad.shape == number.shape for number in operands)


PARTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "0-d": lambda x: np.asarray(x.flat[0]) if x.size else x,
    "no rows": lambda x: x[:0] if x.ndim else x,
    "no columns": lambda x: x[..., :0] if x.ndim else x,
}
REFUSALS = (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError)


def with_parts(case: Case, part: Callable[[np.ndarray], np.ndarray]) -> Case:
    """Replace each array of a case, of any dtype, by a part of it."""

    def of(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return np.ascontiguousarray(part(value)).reshape(part(value).shape)
        if isinstance(value, (list, tuple)) and any(isinstance(v, np.ndarray) for v in value):
            return type(value)(of(item) for item in value)
        return value

    return {key: of(value) for key, value in case.items()}


def answers_alike(op: Op, case: Case) -> str:
    """Return how an op and PyTorch differ: "" or which of them alone raises an error."""
    try:
        expected = oracle(op, case)
    except REFUSALS:
        expected = None
    try:
        result = call(op, arguments(op, case))
    except REFUSALS as error:
        return "" if expected is None else f"we refuse: {error}"
    if expected is None:
        return "PyTorch refuses"
    same(result, expected, TOLERANCE["float64"])
    return ""


@pytest.mark.oracle
@tried("part", PARTS)
@ops(lambda op: not op.family.broadcasts and op.name not in INTERNAL)
def test_odd_shapes(op, part):
    """Without dimensions and empty: PyTorch's result, or a refusal where it refuses."""
    for case in CASES[op.name]:
        small = with_parts(case, PARTS[part])
        difference = answers_alike(op, small)
        assert not difference or op.name in ODD_SHAPES, (difference, small)


def other_layout(x: Tensor) -> Tensor:
    """The same elements with gaps between them and reversed memory order."""
    backwards = tuple(reversed(range(x.ndim)))
    if not x.ndim:
        return x
    y = edutorch.stack([x.permute(backwards)] * 2, -1)
    return y[..., 0].permute(backwards)


@devices
@ops(lambda op: op.name not in LAYOUT_MATTERS)
def test_the_layout_in_memory_does_not_matter(op, device):
    for case in CASES[op.name]:
        bound = arguments(op, case, device)
        moved = {
            key: [other_layout(tensor) for tensor in value]
            if isinstance(value, list) and op.variadic
            else other_layout(value)
            if isinstance(value, Tensor)
            else value
            for key, value in bound.items()
        }
        same(call(op, moved), call(op, bound), TOLERANCE["float64"])
        names = differentiable(op, case)
        results = []
        for call_arguments in (bound, moved):
            for name in names:
                [tensor.requires_grad_() for tensor in every(call_arguments[name])]
            function, operands = differentiable_call(op, call_arguments, names)
            output = function(*operands) if names else None
            if output is not None and output.requires_grad:
                results.append(edutorch.autograd.grad(output, operands, edutorch.ones_like(output)))
        if results:
            same(results[1], results[0], TOLERANCE["float64"])
