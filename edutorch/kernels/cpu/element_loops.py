"""The loops of elementwise kernels, written from definitions and rules, and loops that convert.

A loop computes with contiguous arrays of one dtype; `array_blocks.py` calls it by its address. It
gets the addresses of its inputs, then that of the result, then its scalars, as words of memory.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding, ir
from numba import cfunc, njit, types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from ...backends.element_trace import EXPRESSIONS
from ..disk_cache import import_source, source_stamp
from ..formulas import Code
from . import array_blocks, jit, memory_access, scalar_functions
from .array_blocks import (
    CASTS,
    CONSTANTS,
    INPUTS,
    IS_SUM,
    IS_UFUNC,
    ITEMSIZE,
    LOOP,
    MAX_INPUTS,
    PLAN_WORDS,
    STEPS,
    UFUNC_DATA,
)

__all__ = [
    "Plan", "bfloat16_to_float", "compile_loop", "conversion_plan", "float16_to_float",
    "float_to_bfloat16", "float_to_float16", "is_nonzero", "make_plan",
]  # fmt: skip

HEAD = '''\
"""Loops that edutorch has written: see `edutorch/kernels/cpu/element_loops.py`."""

import math
from math import inf, nan

import numpy as np
from numba import carray

from edutorch.kernels.cpu.element_loops import *
from edutorch.kernels.cpu.jit import use_wide_vectors
from edutorch.kernels.cpu.memory_access import load, load_scalar, pointer
from edutorch.kernels.cpu.scalar_functions import *
from edutorch.kernels.cpu.vector_math import *
'''

LOOP_TEXT = """

@compile_loop
def loop(count, operands):
    use_wide_vectors()
    {constants}
    for i in range(count):
        {lines}
"""

CONSTANT_TEXT = """
    if {test}:
        {constants}
        for i in range(count):
            {lines}
        return
"""
"""In a loop before the general case: some operands are one element throughout the block."""

MAX_STREAMED = 3
"""With more operations than this, copying an operand into a buffer takes no time beside them."""

ALL_FORMS = (1 << (1 << (MAX_INPUTS + 1))) - 1

RESULT = re.compile(r"(?<=    )result_elements = .*")

REPAIRED = re.compile(r"\b(fmod|remainder)\((\w+), (\w+)\)")
"""Functions that are exact for nearly all arguments, and for which others do the rest."""

REPAIR_TEXT = """
    unusual = False
    for i in range(count):
        {lines}
        unusual |= {test}
    if unusual:
        for i in range(count):
            {exact_lines}
"""

CONVERSION_TEXT = """

@compile_loop
def loop(count, operands):
    use_wide_vectors()
    source, step, target = load(operands), load(operands + 8), load(operands + 16)
    results = carray(pointer(target, np.{target}), (count,))
    if step == 0:
        value = np.{target}({convert}(carray(pointer(source, np.{source}), (1,))[0]))
        for i in range(count):
            results[i] = value
    elif step == {size}:
        elements = carray(pointer(source, np.{source}), (count,))
        for i in range(count):
            results[i] = np.{target}({convert}(elements[i]))
    else:
        for i in range(count):
            element = carray(pointer(source + np.int64(i) * step, np.{source}), (1,))[0]
            results[i] = np.{target}({convert}(element))
"""

HAS_HALF = bool(binding.get_host_cpu_features().get("f16c"))
"""Whether the CPU converts float16; LLVM would call a library else, which may not be there."""


def compile_loop(function: Any) -> Any:
    """Compile a loop: a C function of the number of elements and the address of its operands."""
    # FMA only, as in `jit.compile_kernel`.
    options: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy"}
    return cfunc(types.void(types.uint64, types.int64), cache=True, **options)(function)


def import_loop(text: str) -> Any:
    """Return the loop with this text, which is kept on disk."""
    files = (array_blocks, memory_access, jit, scalar_functions)  # and what they import
    stamp = "".join(source_stamp(str(file.__file__)) for file in (*files, sys.modules[__name__]))
    return import_source(HEAD + text, stamp.encode()).loop


class Plan(NamedTuple):
    """How a kernel is called for operands of some dtypes.

    Attributes:
        address: of the words that `run_blocks` reads.
        dtype: of the result.
        kept: what has to stay alive: the words and the loops.
    """

    address: int
    dtype: np.dtype[Any]
    kept: tuple[Any, ...]


def make_plan(
    code: Code, names: Sequence[str], scalars: Sequence[str], computed_in: np.dtype[Any],
    dtypes: Sequence[np.dtype[Any]], is_sum: bool = False, in_place: bool = False,
) -> Plan | None:  # fmt: skip
    """Compile the loop of a formula, and what its operands need. None: a conversion is missing.

    Args:
        names: the arrays that the formula names.
        scalars: its other parameters.
        computed_in: float32 or float64.
        dtypes: those of the arrays, and then that of the result.
        is_sum: whether the results are added up.
        in_place: whether the result takes the place of the first array.
    """
    if in_place and REPAIRED.search("\n".join(code.lines)):
        return None  # its second pass reads the array again
    casts: list[Any] = []
    in_loop = []  # conditions are bool there, too
    for index, dtype in enumerate(dtypes):
        is_own = dtype in (computed_in, np.bool_)
        ends = (computed_in, dtype) if index == len(names) else (dtype, computed_in)
        casts.append(None if is_own else conversion(*ends))
        in_loop.append(dtype if is_own else computed_in)
        if not is_own and casts[-1] is None:
            return None
    words = np.zeros(PLAN_WORDS, np.int64)
    loop = numpy_loop(code, names, in_loop)
    if loop is None:
        text = loop_text(code, names, scalars, computed_in, in_loop)
        if in_place:  # said in the loop, which is vectorized only where nothing may overlap
            text = RESULT.sub(f"result_elements = {names[0]}_elements", text)
        loop = import_loop(text)
    else:
        words[[IS_UFUNC, UFUNC_DATA]] = 1, loop.data
    words[IS_SUM] = is_sum
    forms = constant_forms(code, names)
    words[CONSTANTS] = ALL_FORMS if words[IS_UFUNC] else sum(1 << (form << 1) for form in forms)
    words[[LOOP, ITEMSIZE, INPUTS]] = loop.address, computed_in.itemsize, len(names)
    for index, (dtype, cast) in enumerate(zip(dtypes, casts, strict=True)):
        position = CASTS + 2 * ((index + 1) % len(dtypes))  # the result comes first there
        words[position : position + 2] = dtype.itemsize, 0 if cast is None else cast.address
    return Plan(words.ctypes.data, dtypes[-1], (words, loop, *casts))


def constant_forms(code: Code, names: Sequence[str]) -> list[int]:
    """Return for which operands, as bits, a loop has a form where they are one element in a block.

    With three operands the first one is a condition or an array that two numbers belong to. In a
    long formula of three, but not in a rule, the last one may be a number that much depends on: the
    weight of `lerp`.
    """
    if REPAIRED.search("\n".join(code.lines)):
        return []
    if len(code.lines) > MAX_STREAMED:
        return [4] if len(names) == 3 and names[0] != "g" else []
    forms = {2: [1, 2], 3: [6, 2, 4]}
    return forms.get(len(names), [])


def constant_form(form: int, names: Sequence[str], lines: Sequence[str]) -> str:
    """Return the part of a loop for operands that are one element in a block.

    Args:
        lines: the computation with one element.
    """
    is_one = [bool(form >> index & 1) for index in range(len(names))]
    reads = [
        f"{name} = {name}_elements[i]" for name, one in zip(names, is_one, strict=True) if not one
    ]
    return CONSTANT_TEXT.format(
        test=" and ".join(
            f"load(operands + {8 * (STEPS + index)}) == 0"
            for index, one in enumerate(is_one) if one
        ),
        constants="\n        ".join(
            f"{name} = {name}_elements[0]" for name, one in zip(names, is_one, strict=True) if one
        ),
        lines="\n            ".join([*reads, *lines]),
    )  # fmt: skip


def loop_text(
    code: Code, names: Sequence[str], scalars: Sequence[str], computed_in: np.dtype[Any],
    dtypes: Sequence[np.dtype[Any]],
) -> str:  # fmt: skip
    """Return the text of a formula's loop on arrays of these dtypes, the result last."""
    arrays = [*(f"{name}_elements" for name in names), "result_elements"]
    stored = ["uint8" if dtype == np.bool_ else dtype.name for dtype in dtypes]
    constants = [
        *(
            f"{array} = carray(pointer(load(operands + {8 * index}), np.{dtype}), (count,))"
            for index, (array, dtype) in enumerate(zip(arrays, stored, strict=True))
        ),
        *(
            f"{name} = np.{computed_in}(load_scalar(operands + {8 * (len(arrays) + index)}))"
            for index, name in enumerate(scalars)
        ),
        *code.constant_lines(f"np.{computed_in}"),
    ]
    reads = [f"{name} = {name}_elements[i]" for name in names]
    rest = [*code.lines, f"result_elements[i] = {code.result}"]
    lines = [*reads, *rest]
    text = "\n".join(lines)
    uses = REPAIRED.findall(text)
    if not uses or computed_in != np.float32:
        head = "\n    ".join(constants)
        head += "".join(constant_form(form, names, rest) for form in constant_forms(code, names))
        return LOOP_TEXT.format(constants=head, lines="\n        ".join(lines))
    tests = [f"quotient_is_long({a}, {b})" for _, a, b in uses]
    exact = REPAIRED.sub(r"exact_\1(\2, \3)", text).splitlines()
    loop = REPAIR_TEXT.format(
        lines="\n        ".join(lines), test=" | ".join(tests),
        exact_lines="\n            ".join(exact),
    )  # fmt: skip
    return LOOP_TEXT.partition("    for i")[0].format(constants="\n    ".join(constants)) + loop


# NumPy's own loops -------------------------------------------------------------------------------

IN_NUMPY = {
    "sin": np.sin, "cos": np.cos, "exp2": np.exp2, "log2": np.log2, "log10": np.log10,
    "expm1": np.expm1, "log1p": np.log1p, "arctan2": np.arctan2, "power": np.power,
    "tan": np.tan, "arcsin": np.arcsin, "arccos": np.arccos, "arctan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "arcsinh": np.arcsinh, "arccosh": np.arccosh,
    "arctanh": np.arctanh, "logaddexp2": np.logaddexp2,
}  # fmt: skip
"""Functions that `vector_math.py` lacks and NumPy has vectorized: all threads call its loop."""


class NumpyLoop(NamedTuple):
    """An inner loop of a ufunc: its address, and that of what it gets as its last argument."""

    address: int
    data: int


def numpy_loop(
    code: Code, names: Sequence[str], dtypes: Sequence[np.dtype[Any]]
) -> NumpyLoop | None:
    """Return NumPy's loop for a formula that is one of its functions; None if it is another."""
    function = IN_NUMPY.get(code.operations[0]) if len(code.operations) == 1 else None
    line = f"x0 = {EXPRESSIONS[code.operations[0]].format(*names, *names)}"
    if function is None or code.lines != [line]:
        return None
    chars = [dtype.char for dtype in dtypes]
    signature = f"{''.join(chars[:-1])}->{chars[-1]}"
    if signature not in function.types:
        return None
    index = function.types.index(signature)
    # The fields of a PyUFuncObject, which are part of NumPy's C interface.
    fields = (ctypes.c_int64 * 6).from_address(id(function))
    loops, data = (
        (ctypes.c_int64 * len(function.types)).from_address(field) for field in fields[4:6]
    )
    return NumpyLoop(loops[index], data[index])


# Conversions -------------------------------------------------------------------------------------

SOURCES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")
TARGETS = ("float32", "float64", "bool", "int32", "int64")


def conversion(source: np.dtype[Any], target: np.dtype[Any]) -> Any:
    """Return the loop that converts elements as `astype` does; None: there is none."""
    names = (source.name, target.name)
    halves = {"float16", "bfloat16"}
    convert, stored = "", list(names)
    if names[0] in halves and names[1] == "float32":
        convert, stored[0] = f"{names[0]}_to_float", "uint16"
    elif names[1] in halves and names[0] == "float32":
        convert, stored[1] = f"float_to_{names[1]}", "uint16"
    elif names[0] not in SOURCES or names[1] not in TARGETS:
        return None
    elif names[1] == "bool":
        convert = "is_nonzero"
    if "float16" in names and not HAS_HALF:
        return None
    stored = ["uint8" if name == "bool" else name for name in stored]
    text = CONVERSION_TEXT.format(
        source=stored[0], target=stored[1], convert=convert, size=source.itemsize
    )
    return import_loop(text)


def type_half_to_float(typing: Any, bits: types.Type) -> Any:
    """Type `float16_to_float(bits)`: a float16 as a float32."""

    def lower(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Sequence[Any]
    ) -> Any:
        return builder.fpext(builder.bitcast(values[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), lower


def type_float_to_half(typing: Any, value: types.Type) -> Any:
    """Type `float_to_float16(value)`: a float32, rounded, as the bits of a float16."""

    def lower(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Sequence[Any]
    ) -> Any:
        return builder.bitcast(builder.fptrunc(values[0], ir.HalfType()), ir.IntType(16))

    return types.uint16(types.float32), lower


float16_to_float: Any = intrinsic(type_half_to_float)
float_to_float16: Any = intrinsic(type_float_to_half)


@njit
def bfloat16_to_float(bits):
    """The float32 whose upper half is a bfloat16."""
    return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)


@njit
def float_to_bfloat16(value):
    """The bits of a float32, rounded to a bfloat16: halves to even."""
    bits = np.float32(value).view(np.uint32)
    odd = np.uint32((bits >> np.uint32(16)) & np.uint32(1))
    rounded = np.uint32(bits + np.uint32(0x7FFF) + odd)
    nan = np.uint32(bits | np.uint32(0x400000))
    # The choice before the shift: of 16 bits, it would not be vectorized.
    return np.uint16(np.uint32(rounded if value == value else nan) >> np.uint32(16))


@njit
def is_nonzero(value):
    """Whether an element is not 0."""
    return value != 0


def conversion_plan(source: np.dtype[Any], target: np.dtype[Any]) -> Plan | None:
    """Compile the loop that converts arrays of one dtype to another. None: there is none."""
    loop = conversion(source, target)
    if loop is None:
        return None
    # As a conversion of the input on its way to a loop that is not there.
    words = np.zeros(PLAN_WORDS, np.int64)
    words[[ITEMSIZE, INPUTS]] = target.itemsize, 1
    words[CASTS : CASTS + 4] = target.itemsize, 0, source.itemsize, loop.address
    return Plan(words.ctypes.data, target, (words, loop))
