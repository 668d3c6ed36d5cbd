"""Groups of `compile` as CUDA text, against the same functions on the CPU, on fibers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import edutorch
from edutorch import fx
from edutorch.backends.strict_array import StrictArray
from edutorch.compilation.cuda_codegen import cuda_obstacle, write_fused
from edutorch.compilation.fusion import group_values
from edutorch.compilation.fusion_groups import Group
from edutorch.compilation.lowering import build_program
from edutorch.compilation.values import operands_of
from edutorch.kernels.gpu.module import CudaModule, use_launcher
from tests.gpu.fibers import FiberLauncher, has_compiler

pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")

F = edutorch.nn.functional


def only_group(function: Callable[..., Any], *arrays: np.ndarray) -> tuple[Group, list[Any]]:
    """Return the only group of a function's program, and its results."""
    captured = fx.capture(function, *map(edutorch.tensor, arrays))
    program = build_program(captured.graph)
    units, _ = group_values(program, obstacle=cuda_obstacle)
    (group,) = [unit for unit in units if isinstance(unit, Group)]
    outputs = {output.base for output in operands_of(program.outputs)}
    return group, group.results(outputs)


def run_group(function: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
    """Run a function's only group on fibers; return its results."""
    group, results = only_group(function, *arrays)
    kernel = write_fused(group, results)
    assert kernel is not None
    by_name = dict(zip(NAMES, arrays, strict=False))
    operands = [by_name[str(value.base.name)] for value in group.external_operands()]
    with use_launcher(FiberLauncher(orders=(0, 2))):
        outputs = kernel(*map(StrictArray, operands))
    return [output.get() for output in outputs]


NAMES = ("x", "y", "z")
RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    """Return random numbers in float32."""
    return RANDOM.standard_normal(shape).astype(np.float32)


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "bias and gelu": (lambda x, y: F.gelu(x * 2 + y), ((33, 32), (32,))),
    "a column, a row": (lambda x, y, z: (x - y) * z + x, ((5, 7, 4), (5, 7, 1), (4,))),
    "a mask": (lambda x, y: edutorch.where(x > 0.5, x.exp(), y.tanh() - 1), ((1023,), (1023,))),
    "several results": (lambda x, y: (x + y, (x + y).relu() * 3), ((8, 129), (8, 129))),
    "powers and roots": (lambda x: (x**2 + 1).sqrt() / (x.abs() + 1) ** 3, ((31, 3),)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_group_computes_what_the_function_does(name: str) -> None:
    function, shapes = CASES[name]
    arrays = [floats(*shape) for shape in shapes]
    outputs = run_group(function, *arrays)
    exact = function(*(edutorch.tensor(array.astype(np.float64)) for array in arrays))
    exact = exact if isinstance(exact, tuple) else (exact,)
    assert len(outputs) == len(exact)
    for output, expected in zip(outputs, exact, strict=True):
        np.testing.assert_allclose(output, expected.numpy(), rtol=2e-6, atol=1e-6)


def test_a_transposed_operand_is_read_where_it_is() -> None:
    group, results = only_group(lambda x, y: (x + y).exp(), floats(6, 5), floats(6, 5))
    kernel = write_fused(group, results)
    assert kernel is not None
    x, y = floats(6, 5), floats(5, 6).T
    with use_launcher(FiberLauncher(orders=(0, 2))):
        (output,) = kernel(StrictArray(x), StrictArray(y))
    np.testing.assert_allclose(output.get(), np.exp(x + y), rtol=2e-6)


def test_equal_layers_share_a_text() -> None:
    modules: dict[CudaModule, None] = {}

    def note(module: CudaModule, *rest: object) -> None:
        modules[module] = None

    for function in (lambda x, y: F.silu(x + y), lambda x, bias: F.silu(x + bias)):
        group, results = only_group(function, floats(8, 4), floats(4))
        kernel = write_fused(group, results)
        assert kernel is not None
        with use_launcher(note):
            kernel(StrictArray(floats(8, 4)), StrictArray(floats(4)))
    assert len(modules) == 1


def test_bfloat16_is_computed_in_float32() -> None:
    group, results = only_group(lambda x, y: F.gelu(x * y + x), floats(64, 8), floats(8))
    kernel = write_fused(group, results)
    assert kernel is not None
    short = np.dtype(ml_dtypes.bfloat16)
    element = kernel.element._replace(
        inputs=tuple(x._replace(dtype=short) for x in kernel.element.inputs),
        outputs=tuple(x._replace(dtype=short) for x in kernel.element.outputs),
    )
    x, y = floats(64, 8).astype(short), floats(8).astype(short)
    with use_launcher(FiberLauncher(orders=(0, 2))):
        (output,) = kernel._replace(element=element)(StrictArray(x), StrictArray(y))
    wide = edutorch.tensor(x.astype(np.float64)), edutorch.tensor(y.astype(np.float64))
    exact = F.gelu(wide[0] * wide[1] + wide[0]).numpy()
    error = np.abs(output.get().astype(np.float64) - exact)
    assert (error <= 2.0**-8 * np.abs(exact) + 1e-6).all()


def test_a_reduction_is_no_part_of_such_a_kernel() -> None:
    captured = fx.capture(lambda x: x.sum(0), edutorch.tensor(floats(4, 4)))
    (value,) = [v for v in build_program(captured.graph).values if v.kind == "reduce"]
    assert cuda_obstacle(value) == "a reduce"
