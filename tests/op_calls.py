"""Calls of ops with the sample arguments of `op_cases.py`, here and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.core.op import REGISTRY, Op
from edutorch.core.tensor import Tensor
from tests.devices import DEVICES
from tests.op_cases import CASES, OTHER_TYPES, Case
from tests.op_oracles import OURS, NoTwinError, by_reference, theirs
from tests.oracle import require_torch
from tests.trials import tried

for _file in sorted(Path(__file__).parent.glob("op_cases_*.py")):
    import_module(f"tests.{_file.stem}")  # each adds the cases of its family

TYPES = (
    "float32", "float16", "bfloat16", "complex64", "complex128", "int64", "int32", "uint8", "bool",
)  # fmt: skip
TOLERANCE = {
    "float64": 1e-10, "float32": 1e-5, "float16": 4e-3, "bfloat16": 4e-2,
    "complex128": 1e-10, "complex64": 1e-5,
}  # fmt: skip


def ops(wanted: Callable[[Op], Any] = lambda op: True) -> pytest.MarkDecorator:
    """Parametrize a test over the ops that have cases and for which `wanted` is true."""
    chosen = [op for name, op in REGISTRY.items() if name in CASES and wanted(op)]
    return pytest.mark.parametrize("op", chosen, ids=lambda op: op.name)


devices = tried("device", DEVICES)


def convert(value: Any, make: Callable[[np.ndarray], Any]) -> Any:
    """Convert the arrays in an argument, at any depth, to tensors."""
    if isinstance(value, np.ndarray):
        return make(value)
    if isinstance(value, (tuple, list)) and any(isinstance(v, np.ndarray) for v in value):
        return type(value)(convert(item, make) for item in value)
    return value


def with_imaginary_part(array: np.ndarray) -> np.ndarray:
    """Return a complex array with these real parts and shifted ones as imaginary parts."""
    imaginary = np.where(np.isfinite(array), np.roll(array, 1), 0)
    made = np.array(array, np.complex128)
    made.imag = 0.5 * np.where(np.isfinite(imaginary), imaginary, 0)
    return made


def arguments(
    op: Op, case: Case, device: str = "cpu", dtype: str = "float64", grad: bool = False
) -> dict[str, Any]:
    """Return the arguments of a case as edutorch tensors."""

    def make(array: np.ndarray) -> Tensor:
        if array.dtype == np.complex128:
            tensor_dtype = edutorch.complex64 if dtype == "float32" else edutorch.complex128
            return edutorch.tensor(array, dtype=tensor_dtype, device=device, requires_grad=grad)
        if array.dtype != np.float64:
            return edutorch.tensor(array, device=device)
        tensor_dtype = getattr(edutorch, dtype)
        array = with_imaginary_part(array) if tensor_dtype.is_complex else array
        return edutorch.tensor(array, dtype=tensor_dtype, device=device, requires_grad=grad)

    bound = {key: convert(value, make) for key, value in case.items() if key != "only_values"}
    if "dtype" in bound:
        bound["dtype"] = getattr(edutorch, bound["dtype"])
    for name in op.rules:
        if grad and refuses(op, name) and isinstance(bound.get(name), Tensor):
            bound[name] = bound[name].detach()
    return bound


def refuses(op: Op, name: str) -> bool:
    """Return True if the rule of an input raises an error: there is no derivative."""
    return hasattr(op.rules[name].function, "refuses")


def call(op: Op, bound: dict[str, Any]) -> Any:
    return OURS.get(op.name, op.function)(**bound)


def has_twin(op: Op) -> bool:
    """Return True if PyTorch has the op; without PyTorch the calling test is skipped."""
    try:
        theirs(require_torch(), op.name)
    except NoTwinError:
        return False
    return True


def oracle(op: Op, case: Case, dtype: str = "float64", call_with: Any = None) -> Any:
    """Return PyTorch's result for a case, or that of the op's reference where it has no such op."""
    torch = require_torch()
    try:
        call_with = call_with or theirs(torch, op.name)
    except NoTwinError:
        values = by_reference(op, case)
        if values is None or dtype != "float64":
            raise
        return torch.from_numpy(np.array(values))

    def make(array: np.ndarray) -> Any:
        is_floating = array.dtype == np.float64
        made = torch.from_numpy(
            with_imaginary_part(array) if is_floating and "complex" in dtype else array.copy()
        )
        if array.dtype == np.complex128 and dtype == "float32":
            return made.to(torch.complex64)
        return made.to(getattr(torch, dtype)) if is_floating else made

    bound = {key: convert(value, make) for key, value in case.items() if key != "only_values"}
    if "dtype" in bound:
        bound["dtype"] = getattr(torch, bound["dtype"])
    return call_with(**bound)


def fit_to_dtype(case: Case, dtype: str) -> Case:
    """Return a case with values that a dtype can represent: uint8 is never negative."""

    def not_negative(value: Any) -> Any:
        is_numbers = isinstance(value, np.ndarray) and value.dtype == np.float64
        return np.asarray(np.abs(value)) if is_numbers else value

    return (
        {key: not_negative(argument) for key, argument in case.items()}
        if dtype == "uint8"
        else case
    )


def is_compared(op: Op, case: Case, dtype: str) -> bool:
    """Return True if a case is compared with PyTorch for a dtype."""
    floating = "float" in dtype
    skipped = (op.name, dtype) in OTHER_TYPES or ((op.name, "int") in OTHER_TYPES and not floating)
    return not skipped and (floating or "only_values" not in case)  # integers have no infinity


@cache
def answer(name: str, number: int, dtype: str) -> Any:
    """Return PyTorch's result for a case, or a word for its error: see `oracle`."""
    op = REGISTRY[name]
    try:
        return oracle(op, fit_to_dtype(CASES[name][number], dtype), dtype)
    except NoTwinError:
        return "no twin"
    except (RuntimeError, NotImplementedError, TypeError) as error:
        refused = "not implemented for" in str(error) or "does not support" in str(error)
        return "not implemented" if refused else "refused"


def every(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def array(result: Any) -> np.ndarray:
    """Return the elements of a tensor of either library, in a dtype that NumPy has."""
    result = result.detach().to_dense()
    dtype = str(result.dtype)
    values = result.double() if "float" in dtype and "64" not in dtype else result
    return values.numpy(force=True)


def same(result: Any, expected: Any, tolerance: float) -> None:
    """Assert that results agree in number, dtype, shape and values."""
    pairs = list(zip(every(result), every(expected), strict=True))
    for ours, wanted in pairs:
        assert str(ours.dtype) == str(wanted.dtype)
        assert tuple(ours.shape) == tuple(wanted.shape)
        np.testing.assert_allclose(array(ours), array(wanted), rtol=tolerance, atol=tolerance)


# As functions of their tensors --------------------------------------------------------------


def differentiable(op: Op, case: Case) -> list[str]:
    """Return the arguments of a case that gradients are checked for."""
    if "only_values" in case:
        return []
    return [
        name
        for name in op.rules
        if not refuses(op, name)
        for value in [case.get(name)]
        for first in [value[0] if isinstance(value, list) else value]
        if isinstance(first, np.ndarray) and first.dtype in (np.float64, np.complex128)
    ]


def differentiable_cases(op: Op) -> list[Case]:
    return [case for case in CASES[op.name] if differentiable(op, case)]


def differentiable_call(
    op: Op, bound: dict[str, Any], names: list[str]
) -> tuple[Any, list[Tensor]]:
    """Return a call as a function of its differentiable tensors only, and those tensors."""
    operands = [tensor for name in names for tensor in every(bound[name])]

    def function(*tensors: Tensor) -> Any:
        left = iter(tensors)
        filled = {
            name: [next(left) for _ in bound[name]] if isinstance(bound[name], list) else next(left)
            for name in names
        }
        result = call(op, {**bound, **filled})
        return result[0] if isinstance(result, tuple) else result

    return function, operands
