"""Elementwise functions and their derivatives, in one pass over the memory.

A definition like that of gelu reads and writes memory once for each of its operations, with a
temporary array in between. Here all operations are applied to an element while it is in a
register, and the exponentials are vectorized (`vector_math.py`).

No formula stands here: a kernel is written from the op's definition, or from its derivative rule
(`../formulas.py`). A kernel for one more op is one more line above `formula_kernel`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...backends.numpy import Array
from ...core.fast import lazy_gradients
from ...core.registry import REGISTRY
from ...nn import functional
from ...nn.functional import activation
from ..disk_cache import import_source, source_stamp
from ..formulas import Formula, formula_of, write_formula
from . import jit, scalar_functions, work_queue
from .implicit_gemm import BYTES
from .jit import (
    ARRAY_1D,
    FLOATS,
    are_contiguous_floats,
    compile_kernel,
    use_wide_vectors,
)
from .parallel import parallel_for
from .work_queue import claim_range

Run = Callable[..., Any]

FIXED_SETTINGS = {
    "gelu": [("none",), ("tanh",)],  # they choose the formula
    "softplus": [(1.0, 20.0)],  # with beta as an argument, the usual one would cost a division
}
"""Settings for which there are kernels. Those of ops not listed are arguments of the kernel."""

AVX512 = 64
"""The size of an AVX-512 register in bytes."""

AVX512_SIZES = {"exp": 32_768, "log": 131_072, "tanh": 65_536}
"""Where there is AVX-512, NumPy is as fast for fewer elements than this."""

HEAD = '''\
"""Kernels that edutorch has written: see `edutorch/kernels/cpu/elementwise.py`."""

import math

import numpy as np

from edutorch.kernels.cpu.jit import *
from edutorch.kernels.cpu.parallel import parallel_for
from edutorch.kernels.cpu.scalar_functions import *
from edutorch.kernels.cpu.vector_math import *
from edutorch.kernels.cpu.work_queue import claim_range
'''

KERNEL = """

def {name}(start, stop, {parameters}):
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    {constants}
    for i in range(start, stop):
        {lines}
        results[i] = {result}


{name} = compile_kernel({name}, {types})
"""

DEFINITION_RUN = """

def run({parameters}):
    {choice}
    x = contiguous_rows({x})
    if not are_contiguous_floats((x,)):
        return None
    y = np.empty_like(x)  # not x itself: only without aliasing is the loop vectorized
    parallel_for(kernel, y.size, x.reshape(-1), y.reshape(-1){numbers})
    return y
"""

RULE_RUN = """

def run({parameters}):
    {choice}
    x, g = {x}, contiguous_gradient(g, {x})
    if not are_contiguous_floats((x, g)):
        return None
    y = np.empty_like(x)
    parallel_for(kernel, y.size, g.reshape(-1), x.reshape(-1), y.reshape(-1){numbers})
    return y
"""


# From a formula to a kernel ----------------------------------------------------------------------


def kernel_text(
    formula: Formula, name: str, numbers: tuple[str, ...], fixed: tuple[object, ...] = ()
) -> str:
    """Return the text of a kernel: `name(start, stop, *arrays, results, *numbers)`.

    Args:
        numbers: the parameters that are one number for all elements.
        fixed: the values of the settings, unless they are among the numbers.
    """
    settings = dict(zip(formula.settings, fixed, strict=True)) if fixed else {}
    code = write_formula(formula, numbers, settings)
    arrays = [array for array in formula.arrays if array not in numbers]
    return KERNEL.format(
        name=name,
        parameters=", ".join([*(f"{array}s" for array in arrays), "results", *numbers]),
        constants="\n    ".join(code.constant_lines("results.dtype.type")),
        lines="\n        ".join([*(f"{array} = {array}s[i]" for array in arrays), *code.lines]),
        result=code.result,
        types=", ".join(["ARRAY_1D"] * (len(arrays) + 1) + ["SCALAR"] * len(numbers)),
    )


def import_kernels(*texts: str) -> Any:
    """Return the module with these texts, which is kept on disk."""
    # Not by a stamp of this file: one more kernel here leaves the others as they are.
    files = (scalar_functions, work_queue, jit)  # and what they import
    stamp = "".join(source_stamp(str(file.__file__)) for file in files)
    return import_source(HEAD + "".join(texts), stamp.encode())


@ops.exp.kernel("cpu", min_size=2048)
@ops.exp.kernel("cpu", "input", min_size=32_768)
@ops.log.kernel("cpu", min_size=2048)
@ops.erf.kernel("cpu", min_size=256)
@ops.tanh.kernel("cpu", min_size=1024)
@ops.tanh.kernel("cpu", "input", min_size=4096)
@ops.sigmoid.kernel("cpu", min_size=1024)
@ops.sigmoid.kernel("cpu", "input", min_size=4096)
@ops.relu.kernel("cpu", min_size=16_384)
@ops.relu.kernel("cpu", "input", min_size=8192)
@ops.softplus.kernel("cpu", min_size=256)
@ops.softplus.kernel("cpu", "input", min_size=1024)
@activation.silu_forward.kernel("cpu", min_size=1024)
@activation.silu_forward.kernel("cpu", "input", min_size=256)
@functional.gelu.kernel("cpu", min_size=256)
@functional.gelu.kernel("cpu", "input", min_size=256)
@activation.leaky_relu_forward.kernel("cpu", min_size=16_384)
@activation.leaky_relu_forward.kernel("cpu", "input", min_size=16_384)
@activation.elu_forward.kernel("cpu", min_size=4096)
@activation.elu_forward.kernel("cpu", "input", min_size=4096)
@activation.hardtanh_forward.kernel("cpu", min_size=16_384)
@activation.hardtanh_forward.kernel("cpu", "input", min_size=16_384)
def formula_kernel(key: str) -> Run:
    """Make the kernel of a definition y = f(x, …), or of a rule f(g, x, …)."""
    formula, choice = formula_of(key), ""
    cases = FIXED_SETTINGS.get(key.partition("/")[0], [()])
    numbers = () if cases[0] else formula.settings
    texts = [
        kernel_text(formula, f"kernel{index}" if case else "kernel", numbers, case)
        for index, case in enumerate(cases)
    ]
    if cases[0]:
        table = ", ".join(f"{case}: kernel{index}" for index, case in enumerate(cases))
        texts.append(f"\nkernels = {{{table}}}\n")
        choice = f"kernel = kernels.get(({', '.join(formula.settings)},))"
        choice += "\n    if kernel is None:  # left to the definition\n        return None"
    text = DEFINITION_RUN if len(formula.arrays) == 1 else RULE_RUN
    run = text.format(
        parameters=", ".join((*formula.arrays, *formula.settings)),
        choice=choice,
        x=formula.arrays[-1],
        # They may be integers, as in `hardtanh(x, 0, 6)`; the kernel takes floats.
        numbers="".join(f", float({name})" for name in numbers),
    )
    return skip_small_inputs(AVX512_SIZES.get(key, 0), import_kernels(*texts, run).run)


def skip_small_inputs(min_size: int, run: Run) -> Run:
    """Leave small inputs to NumPy, which is as fast for them where it has AVX-512."""
    if BYTES < AVX512 or not min_size:
        return run
    return lambda input: run(input) if input.size >= min_size else None


# Sums, products and quotients: NumPy's loop is as fast, but runs on one core. So they have kernels
# only from a size on where threads pay. (By NumPy's error model, x / 0 raises nothing.)
@ops.add.kernel("cpu", min_size=131_072)
@ops.sub.kernel("cpu", min_size=131_072)
@ops.mul.kernel("cpu", min_size=131_072)
@ops.mul.kernel("cpu", "input", min_size=131_072)
@ops.mul.kernel("cpu", "other", min_size=131_072)
@ops.div.kernel("cpu", min_size=131_072)
@ops.div.kernel("cpu", "input", min_size=131_072)
def binary_kernel(key: str) -> Run:
    """Make z = f(x, y) of two arrays of one shape, or of an array and a number."""
    formula = formula_of(key)
    parameters = REGISTRY[key.partition("/")[0]].signature.parameters
    defaults = tuple(parameters[name].default for name in formula.settings)
    made = import_kernels(
        kernel_text(formula, "array_kernel", (), defaults),
        # By value the number stays in a register; the element of an array could be changed by z.
        kernel_text(formula, "scalar_kernel", formula.arrays[1:], defaults),
    )
    array_kernel, scalar_kernel = made.array_kernel, made.scalar_kernel

    def run(x: Array, y: Array, *settings: object) -> np.ndarray | None:
        if settings != defaults or y.__class__ is not np.ndarray or x.dtype not in FLOATS:
            return None
        if x.shape == y.shape:
            if not are_contiguous_floats((x, y)):
                return None
            z = np.empty_like(x)
            parallel_for(array_kernel, z.size, x.reshape(-1), y.reshape(-1), z.reshape(-1))
            return z
        # Other shapes broadcast: that is left to NumPy.
        if y.ndim or y.dtype != x.dtype or not are_contiguous_floats((x,)):
            return None
        z = np.empty_like(x)
        # [()] makes a 0-d array a scalar of its own dtype; float() would make it a float64.
        parallel_for(scalar_kernel, z.size, x.reshape(-1), z.reshape(-1), y[()])
        return z

    return run


@lazy_gradients.ADD_ONTO.kernel("cpu", min_size=131_072)
def add_onto() -> Run:
    """Make x += y."""

    def add_in_place(start, stop, x, y):
        start, stop = claim_range(start, stop)
        use_wide_vectors()
        for i in range(start, stop):
            x[i] += y[i]

    kernel = compile_kernel(add_in_place, ARRAY_1D, ARRAY_1D)

    def run(x: Array, y: Array) -> np.ndarray | None:
        if x.shape != y.shape or not are_contiguous_floats((x, y)):
            return None
        parallel_for(kernel, x.size, x.reshape(-1), y.reshape(-1))
        # Not None, which would mean that the kernel has not run.
        return x

    return run
