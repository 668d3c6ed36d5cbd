"""Writes the kernel of a group for an NVIDIA GPU: the CUDA twin of `kernel_codegen.py`.

A group is the same as for numba (`fusion.py`), and so are its expressions by name; here each value
is one line of C. A kernel finds its arrays by their strides when it is called, so views are read
where they are, and equal layers share a text: names are canonical.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import backends
from ..backends.numpy import Array
from ..kernels.formulas import formula_of, write_formula
from ..kernels.gpu.c_expressions import EXPRESSIONS, POWERS, literal, memory_type, value_type
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
from .kernel_cache import FORMULAS
from .values import Value, operands_of

__all__ = ["FusedKernel", "cuda_obstacle", "write_fused"]

DTYPES = ("float16", "bfloat16", "float32", "float64", "bool", "int64", "int32")
NUMBER = np.dtype("float64")
UNIFORM = "uniform"
"""The function whose values are random: of seed and offset of a draw, and of the position."""

MAX_ARRAYS = 100
"""The arguments of a kernel have 4 KB: with strides, so many arrays always fit."""

FUNCTION = """\
template <typename T>
__device__ inline T {name}(T input) {{
    {lines}
    return {result};
}}
"""


def cuda_obstacle(value: Value) -> str | None:
    """Return why a value cannot be part of a kernel here, or None if it can."""
    if value.kind != "element":
        return f"a {value.kind}"
    if value.function == UNIFORM:
        return None
    dtypes = [operand.dtype for operand in operands_of(value)] + [value.dtype]
    unknown = [dtype for dtype in dtypes if dtype is not None and dtype.name not in DTYPES]
    if unknown:
        return f"the dtype {unknown[0]} is left to CuPy"
    if value.function not in EXPRESSIONS and value.function not in FORMULAS:
        return f"{value.function} is left to CuPy"
    return None if value.size else "no elements"


class FusedKernel(NamedTuple):
    """The kernel of a group. Called with its external operands, it returns its results.

    Attributes:
        element: what it does with one element.
        domain: the shape that it goes over.
        draws: which operands are the places of draws, of which it computes random numbers.
    """

    element: Element
    domain: tuple[int, ...]
    draws: tuple[int, ...] = ()

    def __call__(self, *arrays: Array, out: Sequence[Array | None] = ()) -> tuple[Array, ...]:
        """Launch the kernel.

        Args:
            arrays: of the device, in the order of `Group.external_operands()`; a number is an
                array without axes, of float64.
            out: for each result, the array that it is written into, or None for a new one.

        Returns: the results, in the order of `results`.
        """
        backend, outputs = backends.of(arrays[0]), self.element.outputs
        draws = [arrays[index] for index in self.draws]
        if draws:
            arrays = tuple(x for index, x in enumerate(arrays) if index not in self.draws)
        results = tuple(
            backend.xp.empty(self.domain, variable.dtype) if target is None else target
            for variable, target in zip(outputs, out or (None,) * len(outputs), strict=True)
        )
        everything = (*arrays, *results)
        accesses = tuple(access(backend, array, self.domain) for array in everything)
        plan = cached_plan(self.domain, accesses)
        arguments = (*everything, *plan.geometry, *draws)
        launch(self.module(plan.layout), "fused", plan.blocks, BLOCK, arguments)
        return results

    def module(self, layout: Layout) -> CudaModule:
        """Return the text for arrays of this layout."""
        return module_of(self.element, layout)


cached_plan = functools.lru_cache(4096)(make_plan)


@functools.lru_cache(4096)
def module_of(element: Element, layout: Layout) -> CudaModule:
    """Return the text of a kernel: the same one for equal kernels."""
    return write_kernel("fused", element, layout)


def access(backend: backends.Backend, array: Array, domain: tuple[int, ...]) -> Access:
    """Return how an array is found along the domain, to which it broadcasts."""
    missing = len(domain) - array.ndim
    own = zip(array.shape, array.strides, strict=True)
    steps = (0,) * missing + tuple(
        0 if size == 1 else stride // array.itemsize for size, stride in own
    )
    return Access(steps, backend.address(array) % 16, array.itemsize)


def write_fused(group: Group, results: list[Value]) -> FusedKernel | None:
    """Write the kernel of a group, or return None: one that reduces, or has too many arrays.

    Args:
        results: the values that are read outside.
    """
    operands = group.external_operands()
    if len(operands) + len(results) > MAX_ARRAYS or not results:
        return None
    if any(cuda_obstacle(value) is not None for value in group.values):
        return None
    if any(group.level[value] != "full" for value in group.values) or not operands:
        return None
    draws = tuple(index for index, operand in enumerate(operands) if is_place(operand))
    return FusedKernel(GroupWriter(group, operands, results).write(), group.domain, draws)


def is_place(operand: Value) -> bool:
    """Whether an operand is the place of a draw, no array with an element for each position."""
    return operand.dtype == np.uint64  # which `cuda_obstacle` lets pass for nothing else


class GroupWriter:
    """Writes what the kernel of a group does with one element."""

    def __init__(self, group: Group, operands: Sequence[Value], results: Sequence[Value]) -> None:
        self.group, self.operands, self.results = group, operands, results
        self.names = {operand: f"a{index}" for index, operand in enumerate(operands)}
        self.formulas: dict[str, str] = {}

    def write(self) -> Element:
        """Return the element of the kernel."""
        lines = []
        inside = {value: f"x{index}" for index, value in enumerate(self.group.values)}
        for value in self.group.values:
            for operand in operands_of(value):
                if operand.base in inside:  # a view of a value inside is aligned with it
                    self.names.setdefault(operand, inside[operand.base])
            text = self.expression(value)
            self.names[value] = name = inside[value]
            comment = f"  // {origin(value)}" if origin(value) else ""
            lines.append(f"const {value_type(self.dtype(value))} {name} = {text};{comment}")
        outputs = tuple(
            Variable(f"y{index}", self.dtype(value)) for index, value in enumerate(self.results)
        )
        lines += [
            f"{output.name} = {self.names[value]};"
            for output, value in zip(outputs, self.results, strict=True)
        ]
        inputs = tuple(
            Variable(self.names[operand], dtype_of(operand))
            for operand in self.operands
            if not is_place(operand)
        )
        draws = tuple(self.names[operand] for operand in self.operands if is_place(operand))
        headers = ['#include "philox.cuh"'] if draws else []
        return Element(
            inputs, outputs, (), tuple(lines), f"{len(self.group.values)} operations in one pass.",
            "\n".join([*headers, *self.formulas.values()]), draws,
        )  # fmt: skip

    def dtype(self, value: Value) -> np.dtype[Any]:
        """The dtype of a value inside."""
        assert value.dtype is not None
        return value.dtype

    def expression(self, value: Value) -> str:
        """Return the C code of a value, from the names of its operands."""
        if value.function == UNIFORM:
            return f"uniform_float({self.names[value.operands[0]]})"
        dtypes = [x.dtype for x in value.operands if getattr(x, "dtype", None) is not None]
        # A comparison computes in the dtype of its operands.
        dtype = value.dtype if value.dtype != bool or not dtypes else dtypes[0]
        assert dtype is not None
        texts = [self.operand(x, dtype) for x in value.operands]
        if value.function == "cast":
            return cast(texts[0], self.dtype(value))
        text = EXPRESSIONS.get(value.function, f"{value.function}({{0}})")
        if value.function in FORMULAS:
            self.formulas.setdefault(value.function, formula_function(value.function))
        if value.function == "power" and not isinstance(value.operands[1], Value):
            text = POWERS.get(float(value.operands[1]), text)
        return text.format(*texts)

    def operand(self, operand: Any, dtype: np.dtype[Any]) -> str:
        """Return the code of an operand: a name, a number cast to the dtype, or a literal."""
        if not isinstance(operand, Value):
            return literal(operand, getattr(operand, "dtype", dtype))
        name = self.names[operand]
        # A number of Python promotes weakly: float32 + number is float32.
        return f"({value_type(dtype)}){name}" if operand.dtype is None else name


def dtype_of(operand: Value) -> np.dtype[Any]:
    """Return the dtype of an operand in memory; numbers are float64."""
    return NUMBER if operand.dtype is None else operand.dtype


def origin(value: Value) -> str:
    """Return the name of the op that a value belongs to."""
    target = getattr(value.node, "target", None)
    return getattr(getattr(target, "op", None), "public_name", "") or getattr(target, "rule", "")


def cast(text: str, dtype: np.dtype[Any]) -> str:
    """Return the code that casts a value."""
    if dtype.kind == "b":  # all but 0 is true, NaN as well
        return f"{text} != 0"
    if dtype.name in ("float16", "bfloat16"):  # rounded, as a cast in the program says
        return f"widen(narrow<{memory_type(dtype)}>((float){text}))"
    return f"({value_type(dtype)}){text}"


@functools.cache
def formula_function(name: str) -> str:
    """Return a definition that is one value of the program, such as gelu, as a function of C."""
    key, approximate = FORMULAS[name]
    fixed = {"g": 1.0, "approximate": approximate} if "/" in key else {"approximate": approximate}
    code = write_formula(formula_of(key), (), fixed, EXPRESSIONS)
    constants = [f"const T c{index} = (T){value!r};" for index, value in enumerate(code.constants)]
    lines = [f"const auto {line};" for line in code.lines]
    return FUNCTION.format(name=name, lines="\n    ".join([*constants, *lines]), result=code.result)
