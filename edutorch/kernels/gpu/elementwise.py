"""Elementwise functions and their derivatives, each one kernel that goes once through the memory.

No formula stands here: a kernel is written from the op's definition, or from its derivative rule
(`../formulas.py`), when an array of a new dtype or layout comes. A kernel for one more op is one
more line above `formula_kernel`. What is a single call of CuPy already (x + y, exp) is left to it.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import backends, ops
from ...backends.numpy import Array
from ...core.registry import REGISTRY
from ...nn import functional
from ...nn.functional import activation
from ..formulas import Formula, formula_of, write_formula
from .c_expressions import EXPRESSIONS, literal, value_type
from .elementwise_codegen import (
    BLOCK,
    Access,
    Element,
    Layout,
    Plan,
    Variable,
    make_plan,
    write_kernel,
)
from .module import CudaModule, launch

__all__ = ["element_of", "kernel_name", "module_of"]

FLOATS = ("float16", "bfloat16", "float32", "float64")

CHOICES = {"approximate"}
"""Settings that choose a formula: each of their values has a text of its own."""

MAX_COMMENT_LINES = 12


# From a formula to a kernel ----------------------------------------------------------------------


@functools.cache
def element_of(key: str, dtype: np.dtype[Any], fixed: tuple[tuple[str, Any], ...]) -> Element:
    """Return what the kernel of a definition (`gelu`) or a rule (`gelu/input`) does.

    Args:
        dtype: of all arrays.
        fixed: the settings that choose a formula, and their values.
    """
    formula = formula_of(key)
    scalars = tuple(name for name in formula.settings if name not in dict(fixed))
    code = write_formula(formula, scalars, dict(fixed), EXPRESSIONS)
    real = value_type(dtype)
    computed_in = np.dtype("float64" if real == "double" else "float32")
    constants = [
        f"const {real} c{index} = {literal(value, computed_in)};"
        for index, value in enumerate(code.constants)
    ]
    lines = [f"const auto {line};" for line in code.lines]
    return Element(
        tuple(Variable(name, dtype) for name in formula.arrays),
        (Variable("result", dtype),),
        tuple(Variable(name, computed_in) for name in scalars),
        (*constants, *lines, f"result = {code.result};"),
        comment_of(key, formula),
    )


def comment_of(key: str, formula: Formula) -> str:
    """Return the text of the definition or rule that a kernel computes, and where it is."""
    name, _, rule = key.partition("/")
    function = inspect.unwrap(formula.compute if rule else REGISTRY[name].forward)
    module = f"{function.__module__.replace('.', '/')}.py"
    title = f"The derivative of {name} by {rule}" if rule else name
    try:
        lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    except (OSError, TypeError):  # written by a program
        lines = []
    doc = (function.__doc__ or "").strip().splitlines()
    if doc:  # what it is for is said there
        start = next((n for n, line in enumerate(lines) if '"""' in line), 0)
        ends = [n for n in range(start, len(lines)) if lines[n].rstrip().endswith('"""')]
        end = next((n for n in ends if n > start or lines[n].count('"""') == 2), start)
        lines = lines[:start] + lines[end + 1 :]
    lines = [line for line in lines if line.strip() and not line.startswith("@")]
    shown = [f"    {line}" for line in lines[:MAX_COMMENT_LINES]]
    return "\n".join([f"{title}, as in {module}:", *shown])


def kernel_name(key: str) -> str:
    """Return the name of the kernel: `gelu_elements`, `gelu_wrt_input_elements`."""
    # Not `erf` alone, which is a function of C.
    return f"{key.replace('/', '_wrt_')}_elements"


@functools.cache
def module_of(
    key: str, dtype: np.dtype[Any], fixed: tuple[tuple[str, Any], ...], layout: Layout
) -> CudaModule:
    """Return the text of a definition's or rule's kernel for arrays of a dtype and a layout."""
    return write_kernel(kernel_name(key), element_of(key, dtype, fixed), layout)


# The call ----------------------------------------------------------------------------------------


@ops.reciprocal.kernel("cuda", "input", min_size=0)
@ops.square.kernel("cuda", "input", min_size=0)
@ops.sqrt.kernel("cuda", "input", min_size=0)
@ops.rsqrt.kernel("cuda", min_size=0)
@ops.rsqrt.kernel("cuda", "input", min_size=0)
@ops.exp2.kernel("cuda", "input", min_size=0)
@ops.expm1.kernel("cuda", "input", min_size=0)
@ops.log2.kernel("cuda", "input", min_size=0)
@ops.log10.kernel("cuda", "input", min_size=0)
@ops.log1p.kernel("cuda", "input", min_size=0)
@ops.sigmoid.kernel("cuda", min_size=0)
@ops.sigmoid.kernel("cuda", "input", min_size=0)
@ops.relu.kernel("cuda", "input", min_size=0)
@ops.softplus.kernel("cuda", min_size=0)
@ops.softplus.kernel("cuda", "input", min_size=0)
@ops.tan.kernel("cuda", "input", min_size=0)
@ops.asin.kernel("cuda", "input", min_size=0)
@ops.acos.kernel("cuda", "input", min_size=0)
@ops.atan.kernel("cuda", "input", min_size=0)
@ops.tanh.kernel("cuda", "input", min_size=0)
@ops.asinh.kernel("cuda", "input", min_size=0)
@ops.acosh.kernel("cuda", "input", min_size=0)
@ops.atanh.kernel("cuda", "input", min_size=0)
@ops.erf.kernel("cuda", min_size=0)
@ops.erf.kernel("cuda", "input", min_size=0)
@ops.div.kernel("cuda", "other", min_size=0)
@activation.leaky_relu_forward.kernel("cuda", min_size=0)
@activation.leaky_relu_forward.kernel("cuda", "input", min_size=0)
@activation.elu_forward.kernel("cuda", min_size=0)
@activation.elu_forward.kernel("cuda", "input", min_size=0)
@activation.selu_forward.kernel("cuda", min_size=0)
@activation.selu_forward.kernel("cuda", "input", min_size=0)
@activation.logsigmoid_forward.kernel("cuda", min_size=0)
@activation.logsigmoid_forward.kernel("cuda", "input", min_size=0)
@activation.silu_forward.kernel("cuda", min_size=0)
@activation.silu_forward.kernel("cuda", "input", min_size=0)
@activation.mish_forward.kernel("cuda", min_size=0)
@activation.hardswish_forward.kernel("cuda", min_size=0)
@activation.hardswish_forward.kernel("cuda", "input", min_size=0)
@activation.hardtanh_forward.kernel("cuda", min_size=0)
@activation.hardtanh_forward.kernel("cuda", "input", min_size=0)
@functional.gelu.kernel("cuda", min_size=0)
@functional.gelu.kernel("cuda", "input", min_size=0)
def formula_kernel(key: str) -> Callable[..., Any]:
    """Make the kernel of a definition y = f(x, …), or of a rule f(g, x, …)."""
    formula = formula_of(key)
    count = len(formula.arrays)
    name = kernel_name(key)
    # With beta as an argument, the usual softplus would cost a division, and 20 a comparison.
    choices = CHOICES | ({"beta", "threshold"} if key.startswith("softplus") else set())

    def run(*values: Any) -> Array | None:
        arrays, settings = values[:count], dict(zip(formula.settings, values[count:], strict=True))
        call = prepare(arrays)
        if call is None:
            return None
        dtype, plan, result, out = call
        # A setting that is None, such as `rounding_mode`, is left out of the formula.
        chosen = {name for name in settings if name in choices or settings[name] is None}
        fixed = tuple((name, settings[name]) for name in settings if name in chosen)
        scalars = [settings[name] for name in settings if name not in chosen]
        if not all(isinstance(number, (int, float)) for number in scalars):
            return None
        if "softplus" in name and dict(fixed) != {"beta": 1.0, "threshold": 20.0}:
            return None
        module = module_of(key, dtype, fixed, plan.layout)
        number_type = np.float64 if dtype == np.float64 else np.float32
        arguments = (*arrays, out, *map(number_type, scalars), *plan.geometry)
        launch(module, name, plan.blocks, BLOCK, arguments)
        return result

    return run


def prepare(arrays: Sequence[Array]) -> tuple[np.dtype[Any], Plan, Array, Array] | None:
    """Return the dtype of a call, its plan, the result, and the result with the domain's axes.

    None: other arrays than floats of one dtype, or none at all.
    """
    first = arrays[0]
    dtype = getattr(first, "dtype", None)
    if dtype is None or not is_float(dtype):
        return None
    if not all(getattr(array, "dtype", None) == dtype for array in arrays):
        return None
    backend = backends.of(first)
    domain = first.shape
    if any(array.shape != domain for array in arrays):
        domain = np.broadcast_shapes(*(array.shape for array in arrays))
    if 0 in domain:
        return None
    itemsize = dtype.itemsize
    if all(array.shape == domain and array.flags.c_contiguous for array in arrays):
        result = backend.xp.empty(domain, dtype)
        addresses = tuple([backend.address(array) % 16 for array in (*arrays, result)])
        return dtype, flat_plan(first.size, addresses, itemsize), result, result
    strides = [broadcast_strides(array, domain) for array in arrays]
    if any(stride % itemsize for array in strides for stride in array):
        return None
    order = memory_order(domain, strides)
    out = backend.xp.empty(tuple(domain[axis] for axis in order), dtype)
    result = out if order == sorted(order) else out.transpose(inverse(order))
    strides.append(tuple(result.strides))
    accesses = tuple(
        Access(
            tuple(own[axis] // itemsize for axis in order), backend.address(array) % 16, itemsize
        )
        for array, own in zip((*arrays, out), strides, strict=True)
    )
    return dtype, cached_plan(out.shape, accesses), result, out


cached_plan = functools.lru_cache(4096)(make_plan)


@functools.lru_cache(4096)
def flat_plan(size: int, addresses: tuple[int, ...], itemsize: int) -> Plan:
    """Return the plan for contiguous arrays of one shape: the everyday case, found sooner."""
    return make_plan((size,), [Access((1,), address, itemsize) for address in addresses])


@functools.cache
def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether kernels compute with a dtype. (A dtype's name takes some microseconds.)"""
    return dtype.name in FLOATS


def broadcast_strides(array: Array, domain: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an array along a domain to which it broadcasts, in bytes."""
    missing = len(domain) - array.ndim
    own = zip(array.shape, array.strides, strict=True)
    return (0,) * missing + tuple(0 if size == 1 else stride for size, stride in own)


def memory_order(domain: tuple[int, ...], strides: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the axes in the order of the largest array's memory, which the result keeps."""
    axes = range(len(domain))
    fullest = max(strides, key=lambda own: sum(map(bool, own)))
    # An axis of size 1 stays where it is.
    if all(
        domain[a] == 1 or domain[b] == 1 or fullest[a] >= fullest[b]
        for a, b in itertools.pairwise(axes)
    ):
        return list(axes)
    return sorted(axes, key=lambda axis: -abs(fullest[axis]))


def inverse(order: Sequence[int]) -> list[int]:
    """Return the order that undoes this one."""
    return sorted(range(len(order)), key=lambda axis: order[axis])
