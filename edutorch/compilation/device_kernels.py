"""The kernel of a fused group on a GPU: its values as one element function of CUDA text.

A group of elementwise values reads each of its arrays once and writes only what is read outside.
How a kernel goes over its arrays is `kernels/gpu/elementwise_codegen.py`'s matter; a group adds the
lines of its values. A number that differs from step to step is an array without axes, which the
kernel reads: an argument would be fixed in a captured graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backends
from ..backends.numpy import Array
from ..kernels.gpu.c_expressions import EXPRESSIONS, POWERS, literal, value_type
from ..kernels.gpu.elementwise_codegen import (
    BLOCK,
    Access,
    Element,
    Layout,
    Variable,
    make_plan,
    write_kernel,
)
from ..kernels.gpu.module import CudaModule, launch
from .fusion_groups import Group
from .values import Value

__all__ = ["GroupKernel", "group_kernel"]

DOUBLE = np.dtype("float64")


def group_kernel(group: Group, results: list[Value]) -> GroupKernel | None:
    """Return the kernel of a group, or None where it is computed value by value.

    Args:
        results: the values that are read outside.
    """
    if any(value.kind != "element" or value.shape != group.domain for value in group.values):
        return None  # reductions are left to the kernels of rows
    if not all(is_known(value) for value in group.values) or not group.domain:
        return None
    return GroupKernel(group, results)


def is_known(value: Value) -> bool:
    """Whether there is an expression of C for a value."""
    if value.function == "power":
        exponent = value.operands[1]
        return not isinstance(exponent, Value) and float(exponent) in POWERS
    return value.function in EXPRESSIONS


class GroupKernel:
    """Launches the kernel of a group: `results = kernel(*operands)`, arrays of the device.

    `out` has, for each result, the array that it is written into, or None for a new one.
    """

    def __init__(self, group: Group, results: list[Value]) -> None:
        self.domain, self.operands = group.domain, group.external_operands()
        self.dtypes = [value.dtype for value in results]
        self.names = {value: f"x{index}" for index, value in enumerate(self.operands)}
        inputs = tuple(
            Variable(self.names[value], DOUBLE if value.dtype is None else value.dtype)
            for value in self.operands
        )
        lines = []
        for index, value in enumerate(group.values):
            self.names[value] = f"v{index}"
            c_type = value_type(value.dtype)  # type: ignore[arg-type]
            lines.append(f"const {c_type} v{index} = ({c_type})({self.expression(value)});")
        outputs = tuple(
            Variable(f"y{index}", value.dtype)  # type: ignore[arg-type]
            for index, value in enumerate(results)
        )
        lines += [f"y{index} = {self.names[value]};" for index, value in enumerate(results)]
        ops = dict.fromkeys(value.node.name for value in group.values if value.node is not None)
        self.element = Element(inputs, outputs, (), tuple(lines), ", ".join(list(ops)[:8]))

    def expression(self, value: Value) -> str:
        """Return the value's expression in C."""
        if value.function == "power":
            text = POWERS[float(value.operands[1])]  # type: ignore[index,arg-type]
            return text.format(self.operand(value.operands[0], value))
        operands = [f"({self.operand(operand, value)})" for operand in value.operands]
        return EXPRESSIONS[value.function].format(*operands)

    def operand(self, operand: Any, value: Value) -> str:
        """Return an operand in C; a number gets the type of what it is computed with."""
        dtypes = [other.dtype for other in value.operands if isinstance(other, Value)]
        other = next((dtype for dtype in dtypes if dtype is not None), value.dtype)
        dtype = value.dtype if value.dtype is not None and value.dtype.kind == "f" else other
        if isinstance(operand, Value):
            name = self.names[operand if operand in self.names else operand.base]
            return f"({value_type(dtype)}){name}" if operand.dtype is None else name
        return literal(operand, getattr(operand, "dtype", dtype))

    def __call__(self, *arrays: Array, out: Sequence[Array | None] = ()) -> list[Array]:
        """Compute the results on the current stream."""
        backend = backends.of(arrays[0])
        made = [
            backend.xp.empty(self.domain, dtype) if target is None else target
            for dtype, target in zip(self.dtypes, out or [None] * len(self.dtypes), strict=True)
        ]
        accesses = tuple(self.access(array, backend.address(array)) for array in (*arrays, *made))
        plan = cached_plan(self.domain, accesses)
        module = module_of(self.element, plan.layout)
        launch(module, "fused", plan.blocks, BLOCK, (*arrays, *made, *plan.numbers))
        return made

    def access(self, array: Array, address: int) -> Access:
        """Return how an array is found at a position of the domain."""
        item = array.dtype.itemsize
        missing = len(self.domain) - array.ndim
        own = zip(array.shape, array.strides, strict=True)
        steps = tuple(0 if size == 1 else stride // item for size, stride in own)
        return Access((0,) * missing + steps, address % 16, item)


@functools.lru_cache(maxsize=4096)
def module_of(element: Element, layout: Layout) -> CudaModule:
    """Return the text of a group's kernel for a layout; equal groups have one."""
    return write_kernel("fused", element, layout)


cached_plan: Callable[..., Any] = functools.lru_cache(4096)(make_plan)
