"""Each op of the registry, in every way the house promises.

The sample arguments are in `op_cases.py`; an op without any fails the first test.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.core.op import REGISTRY, Op
from edutorch.core.tensor import Tensor
from edutorch.ops.indexing import as_index
from tests.op_calls import (
    DEVICES,
    TOLERANCE,
    TYPES,
    arguments,
    array,
    call,
    cases_with_numbers,
    devices,
    differentiable,
    every,
    of_numbers,
    ops,
    oracle,
    refuses,
    same,
)  # fmt: skip
from tests.op_cases import (
    CASES, EXCLUDED, INTERNAL, LAYOUT_MATTERS, OTHER_TYPES, WIDER, Case, some,
)  # fmt: skip
from tests.op_oracles import NUMBERS


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    """1/0 is inf and no warning, in every op."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"edutorch\.")
        for said_by_pytorch in ("var.*degrees of freedom", "Casting complex", "ComplexHalf"):
            warnings.filterwarnings("ignore", said_by_pytorch)
        yield


FINE = (edutorch.float64, edutorch.complex128)
"""The types in which differences are a good derivative."""

# The registry ------------------------------------------------------------------------------


def test_every_op_has_cases():
    missing = [name for name in REGISTRY if name not in CASES and name not in EXCLUDED]
    assert not missing, "write sample arguments for these in op_cases.py"
    assert not [name for name in CASES if name not in REGISTRY], "no such ops"
    for name, reason in EXCLUDED.items():
        print(f"excluded: {name}: {reason}")


@ops(lambda op: op.rules)
def test_every_rule_is_differentiated(op):
    """A rule for an input that no case gives as numbers would never be checked."""
    given = {name for case in CASES[op.name] for name in differentiable(op, case)}
    assert {name for name in op.rules if not refuses(op, name)} <= given


@ops()
def test_documentation(op):
    if op.name in edutorch.ops.__all__:
        assert ">>>" in op.doc
    assert op.doc
    assert set(op.formulas) == set(op.rules), "each rule has a formula for the pictures"


# Values --------------------------------------------------------------------------------------


@pytest.mark.oracle
@devices
@ops(lambda op: op.name not in INTERNAL)
def test_values(op, device):
    for case in CASES[op.name]:
        same(call(op, arguments(op, case, device)), oracle(op, case), TOLERANCE["float64"])


@ops(lambda op: op.name in NUMBERS)
def test_values_by_pythons_float64(op):
    function = NUMBERS[op.name]
    for case in CASES[op.name]:
        if set(case) <= set(op.inputs):
            operands = np.broadcast_arrays(*case.values())
            rows = zip(*(each.flat for each in operands), strict=True)
            expected = [float(function(*map(float, numbers))) for numbers in rows]
            found = call(op, arguments(op, case)).double().flatten().tolist()
            assert found == pytest.approx(expected, rel=1e-12, nan_ok=True)


def not_negative(value: Any) -> Any:
    is_numbers = isinstance(value, np.ndarray) and value.dtype == np.float64
    return np.asarray(np.abs(value)) if is_numbers else value


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", TYPES)
@devices
@ops(lambda op: op.name not in INTERNAL)
def test_types(op, device, dtype):
    """The result has PyTorch's type and numbers, for each type that PyTorch takes."""
    if (op.name, dtype) in OTHER_TYPES:
        pytest.skip(OTHER_TYPES[op.name, dtype])
    if (op.name, "int") in OTHER_TYPES and "float" not in dtype:
        pytest.skip(OTHER_TYPES[op.name, "int"])
    for case in CASES[op.name]:
        if case.get("checks") == "forward" and "float" not in dtype:
            continue  # infinity is no integer
        if dtype == "uint8":
            case = {key: not_negative(value) for key, value in case.items()}
        try:
            expected = oracle(op, case, dtype)
        except (RuntimeError, NotImplementedError, TypeError):
            continue  # PyTorch has no such op for this type
        tolerance = max(TOLERANCE.get(str(each.dtype)[6:], 0) for each in every(expected))
        same(call(op, arguments(op, case, device, dtype)), expected, tolerance)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", TYPES)
@ops(lambda op: op.name not in INTERNAL)
def test_refusals(op, dtype):
    """What PyTorch refuses for its type, we refuse in words that name the op."""
    if (op.name, dtype) in WIDER:
        pytest.skip(WIDER[op.name, dtype])
    for case in CASES[op.name]:
        try:
            oracle(op, case, dtype)
        except (RuntimeError, NotImplementedError, TypeError) as error:
            if "not implemented for" in str(error) or "does not support" in str(error):
                with pytest.raises((TypeError, RuntimeError), match=rf"{op.name}"):
                    call(op, arguments(op, case, dtype=dtype))


# Gradients -----------------------------------------------------------------------------------


@devices
@ops(lambda op: op.rules)
def test_gradients(op, device):
    for case in cases_with_numbers(op):
        given = arguments(op, case, device, grad=True)
        function, numbers = of_numbers(op, given, differentiable(op, case))
        output = function(*numbers)
        if output.dtype.category < 2:
            assert not output.requires_grad
            continue
        if output.dtype not in FINE:
            continue  # differences of float32 are too coarse
        assert edutorch.autograd.gradcheck(function, numbers)
        output.backward(edutorch.ones_like(output))
        for each in numbers:
            assert each.grad.shape == each.shape
            assert isinstance(each.grad._array, type(each._array)), "0-d, not a NumPy scalar"


@devices
@ops(lambda op: op.rules)
def test_second_derivatives(op, device):
    for case in cases_with_numbers(op):
        given = arguments(op, case, device, grad=True)
        function, numbers = of_numbers(op, given, differentiable(op, case))
        if function(*numbers).dtype in FINE:
            assert edutorch.autograd.gradgradcheck(function, numbers)


@pytest.mark.oracle
@ops(lambda op: op.rules)
def test_complex_gradients(op):
    """Where PyTorch takes complex numbers, their gradients agree with differences, too."""
    for case in cases_with_numbers(op):
        try:
            if op.name not in INTERNAL:
                oracle(op, case, "complex128")
            given = arguments(op, case, dtype="complex128", grad=True)
            function, numbers = of_numbers(op, given, differentiable(op, case))
            output = function(*numbers)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            continue  # PyTorch refuses, and so do we: see `test_refusals`
        if output.dtype in FINE:
            assert edutorch.autograd.gradcheck(function, numbers)
            assert edutorch.autograd.gradgradcheck(function, numbers)


@ops(lambda op: op.rules and (op.linear or op.family == "elementwise"))
def test_forward_mode(op):
    """It agrees with differences of the values, and with backward: ⟨w, J v⟩ = ⟨Jᵀ w, v⟩."""
    for case in cases_with_numbers(op):
        given = arguments(op, case, grad=True)
        function, numbers = of_numbers(op, given, differentiable(op, case))
        tangents = [direction(each, seed=9) for each in numbers]
        if function(*numbers).dtype not in FINE:
            continue
        pushed = forward_mode(op, given, differentiable(op, case), tangents)
        with edutorch.no_grad():
            step = 1e-6
            ahead = function(*(x + step * v for x, v in zip(numbers, tangents, strict=True)))
            behind = function(*(x - step * v for x, v in zip(numbers, tangents, strict=True)))
        np.testing.assert_allclose(array(pushed), array((ahead - behind) / (2 * step)), 1e-5, 1e-7)
        output = function(*numbers)
        weights = direction(output, seed=8)
        pulled = edutorch.autograd.grad(output, numbers, weights)
        there = (weights.conj() * pushed).real.sum().item()
        pairs = zip(pulled, tangents, strict=True)
        back = sum((g.conj() * v).real.sum().item() for g, v in pairs)
        assert there == pytest.approx(back, rel=1e-9, abs=1e-12)


def direction(like: Tensor, seed: int) -> Tensor:
    """Some numbers of the shape and the kind of a tensor's."""
    values = some(*like.shape, seed=seed)
    turned = values * (1 - 0.5j) if like.is_complex() else values
    return edutorch.tensor(np.asarray(turned))


def forward_mode(op: Op, given: dict[str, Any], names: list[str], tangents: list[Tensor]) -> Any:
    left = iter(tangents)
    moved = {
        name: [next(left) for _ in given[name]] if op.variadic else next(left) for name in names
    }
    settings = {name: value for name, value in given.items() if name in op.settings}
    if op.name == "getitem":
        settings = {"index": as_index(given["index"])}
    if op.name == "to_device":
        settings = {"device": edutorch.device("cpu"), "source": edutorch.device("cpu")}
    inputs = tuple(given.get(name) for name in op.inputs)
    return op.jvp(inputs, tuple(moved.get(name) for name in op.inputs), **settings)


# Shapes --------------------------------------------------------------------------------------


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


def grids(op: Op) -> list[Case]:
    """Return the cases whose arrays are all matrices."""
    arrays = [[v for v in case.values() if isinstance(v, np.ndarray)] for case in CASES[op.name]]
    return [
        case
        for case, found in zip(CASES[op.name], arrays, strict=True)
        if found and all(each.ndim == 2 for each in found)
    ]


@devices
@pytest.mark.parametrize("stretch", STRETCHES)
@ops(lambda op: op.family == "elementwise" and len(op.inputs) > 1)
def test_operands_broadcast(op, stretch, device):
    for case in grids(op):
        small = cut(case, lambda number, value: np.asarray(value[STRETCHES[stretch][number]]))
        arrays = [key for key, value in small.items() if isinstance(value, np.ndarray)]
        full = np.broadcast_arrays(*(small[key] for key in arrays))
        whole = small | {key: each.copy() for key, each in zip(arrays, full, strict=True)}
        same(call(op, arguments(op, small, device)), call(op, arguments(op, whole, device)), 0)
        names = differentiable(op, small)
        if names:
            function, numbers = of_numbers(op, arguments(op, small, device, grad=True), names)
            assert edutorch.autograd.gradcheck(function, numbers)


@pytest.mark.oracle
@devices
@pytest.mark.parametrize("part", [np.s_[0, 0], np.s_[:0], np.s_[:, :0]], ids=["0-d", "0x3", "2x0"])
@ops(lambda op: op.family == "elementwise")
def test_zero_dims_and_empty(op, part, device):
    for case in grids(op):
        small = cut(case, lambda number, value: np.asarray(value[part]))
        same(call(op, arguments(op, small, device)), oracle(op, small), TOLERANCE["float64"])
        names = differentiable(op, small)
        if names:
            function, numbers = of_numbers(op, arguments(op, small, device, grad=True), names)
            output = function(*numbers)
            output.backward(edutorch.ones_like(output))
            assert all(each.grad.shape == each.shape for each in numbers)


def other_layout(x: Tensor) -> Tensor:
    """The same numbers with gaps between them, axes in the other order in memory."""
    backwards = tuple(reversed(range(x.ndim)))
    if not x.ndim:
        return x
    y = edutorch.stack([x.permute(backwards)] * 2, -1)
    return y[..., 0].permute(backwards)


@devices
@ops(lambda op: op.name not in LAYOUT_MATTERS)
def test_the_layout_in_memory_does_not_matter(op, device):
    for case in CASES[op.name]:
        given = arguments(op, case, device)
        moved = {
            key: [other_layout(each) for each in value]
            if isinstance(value, list) and op.variadic
            else other_layout(value)
            if isinstance(value, Tensor)
            else value
            for key, value in given.items()
        }
        same(call(op, moved), call(op, given), TOLERANCE["float64"])
        names = differentiable(op, case)
        results = []
        for each in (given, moved):
            for name in names:
                [tensor.requires_grad_() for tensor in every(each[name])]
            function, numbers = of_numbers(op, each, names)
            output = function(*numbers) if names else None
            if output is not None and output.requires_grad:
                results.append(edutorch.autograd.grad(output, numbers, edutorch.ones_like(output)))
        if results:
            same(results[1], results[0], TOLERANCE["float64"])


@ops()
def test_the_strict_device_agrees(op):
    for case in CASES[op.name]:
        results = [call(op, arguments(op, case, device)) for device in DEVICES]
        if op.name != "to_device":  # it leads away
            assert {str(each.device) for each in every(results[1])} == {"strict"}
        same(*results, 0)


# Other forms ---------------------------------------------------------------------------------


@devices
@ops(lambda op: hasattr(op.function, "in_place"))
def test_the_in_place_twin(op, device):
    name = op.inputs[0]
    for case in CASES[op.name]:
        given = arguments(op, case, device, grad=True)
        x = given.pop(name)
        if not isinstance(x, Tensor):
            continue
        expected = op.function(**{name: x}, **given)
        if expected.shape != x.shape:
            continue
        y = x * 1 if x.requires_grad else x.clone()
        twin = op.function.in_place
        assert twin(y, **given) is y
        assert getattr(Tensor, f"{op.name}_", twin) is twin
        same(y, expected.to(x.dtype), 0)
        if expected.requires_grad:
            numbers = [
                each
                for each in (x, *given.values())
                if isinstance(each, Tensor) and each.requires_grad
            ]
            weights = edutorch.ones_like(y)
            same(
                edutorch.autograd.grad(y, numbers, weights),
                edutorch.autograd.grad(expected, numbers, weights),
                TOLERANCE["float64"],
            )


@devices
@ops(lambda op: op.has_out)
def test_the_out_form(op, device):
    for case in CASES[op.name]:
        given = arguments(op, case, device)
        expected = call(op, given)
        out = edutorch.zeros_like(expected)
        assert call(op, given | {"out": out}) is out
        same(out, expected, 0)
        empty = edutorch.empty(0, dtype=expected.dtype, device=device)
        same(call(op, given | {"out": empty}), expected, 0)
