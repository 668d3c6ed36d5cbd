"""The operations of formulas and of fused programs as expressions of C, and their types.

What `backends/element_trace.py` and `compilation/values.py` have for Python and numba, by the same
names: so a formula is written down once, and only its last step differs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["EXPRESSIONS", "POWERS", "literal", "memory_type", "value_type"]

MEMORY_TYPES = {
    "float16": "float16", "bfloat16": "bfloat16", "float32": "float", "float64": "double",
    "bool": "bool", "int64": "int64", "int32": "int", "int16": "short", "int8": "signed char",
    "uint8": "unsigned char",
}  # fmt: skip
"""The types of elements in memory, by dtype: those of `common.cuh`."""

UNARY = {
    "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p", "tanh": "tanh", "erf": "erf",
    "exp2": "exp2", "log2": "log2", "log10": "log10", "sin": "sin", "cos": "cos", "tan": "tan",
    "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "sqrt": "sqrt", "floor": "floor",
    "ceil": "ceil", "trunc": "trunc", "rint": "rint", "abs": "absolute", "absolute": "absolute",
    "fabs": "absolute", "sign": "sign_of", "normal_cdf": "normal_cdf",
    # Only on a CPU are there quicker ones for part of the range.
    "exp_nonpositive": "exp", "expm1_nonpositive": "expm1", "log1p_small": "log1p",
}  # fmt: skip

BINARY = {
    "add": "+", "subtract": "-", "sub": "-", "multiply": "*", "mul": "*", "divide": "/",
    "div": "/", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
    "equal": "==", "not_equal": "!=", "logical_and": "&&", "and": "&&", "logical_or": "||",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}  # fmt: skip

EXPRESSIONS = {
    **{name: f"{function}({{0}})" for name, function in UNARY.items()},
    **{name: f"{{0}} {sign} {{1}}" for name, sign in BINARY.items()},
    "negative": "-{0}", "neg": "-{0}", "positive": "{0}", "square": "{0} * {0}",
    "reciprocal": "1 / {0}", "logical_not": "!{0}", "invert": "!{0}", "fill": "{0}", "cast": "{0}",
    "isnan": "{0} != {0}", "isfinite": "absolute({0}) < INF", "isinf": "absolute({0}) == INF",
    "where": "{0} ? {1} : {2}", "copysign": "copysign({0}, {1})", "power": "pow({0}, {1})",
    "logaddexp": "logaddexp({0}, {1})",
    # A NaN is kept, as by NumPy: it is not equal to itself, and no comparison with it holds.
    "maximum": "{0} >= {1} || {0} != {0} ? {0} : {1}",
    "minimum": "{0} <= {1} || {0} != {0} ? {0} : {1}",
    "clip": "{0} < {1} ? {1} : {0} > {2} ? {2} : {0}",
    # With a number, which is not NaN. (<= makes relu(-0.0) 0.0.)
    "maximum_number": "{0} <= {1} ? {1} : {0}", "minimum_number": "{0} > {1} ? {1} : {0}",
}  # fmt: skip
"""The operations as expressions, in which {0}, {1} … are the names of operands, or literals."""

POWERS = {2: "{0} * {0}", 3: "{0} * {0} * {0}", 0.5: "sqrt({0})", 1: "{0}", -1: "1 / {0}"}
"""Exponents for which `pow` is not called."""


def memory_type(dtype: np.dtype[Any]) -> str:
    """Return the C type of elements in memory.

    Raises: KeyError: kernels do not have this dtype.

    >>> memory_type(np.dtype("float32"))
    'float'
    """
    return MEMORY_TYPES[dtype.name]


def value_type(dtype: np.dtype[Any]) -> str:
    """Return the C type that a kernel computes with: 16-bit floats are computed in float32.

    >>> value_type(np.dtype("float16"))
    'float'
    """
    return "float" if dtype.name in ("float16", "bfloat16") else MEMORY_TYPES[dtype.name]


def literal(number: Any, dtype: np.dtype[Any]) -> str:
    """Return a number as a literal of the type that a kernel computes with.

    >>> literal(0.1, np.dtype("float32")), literal(2, np.dtype("int64")), literal(-1, np.dtype("d"))
    ('0.1f', '2LL', '(-1.0)')
    """
    c_type = value_type(dtype)
    if c_type == "bool":
        return "true" if number else "false"
    if c_type not in ("float", "double"):
        text = f"{int(number)}{'LL' if c_type == 'int64' else ''}"
        if int(number) == -(2**63):
            text = "-9223372036854775807LL - 1"  # C has no literal for it
        return f"({text})" if text.startswith("-") else text
    value = float(number)
    if math.isnan(value):
        return "NOT_A_NUMBER" if c_type == "float" else "(double)NOT_A_NUMBER"
    if c_type == "float":
        with np.errstate(over="ignore"):
            value = float(str(np.float32(value)))  # the shortest digits that mean this float32
    if math.isinf(value):
        text = "INF" if c_type == "float" else "(double)INF"
        return f"(-{text})" if value < 0 else text
    text = repr(value) + ("f" if c_type == "float" else "")
    return f"({text})" if text.startswith("-") else text
