"""The elementwise functions of kernels, with their source code.

Names are those of NumPy. `vector=False`: the function is not vectorized in a kernel, so that NumPy
is faster for large arrays; in a kernel of scalars it may be used.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FUNCTIONS", "REDUCTIONS", "Function"]


class Function(NamedTuple):
    """The code of a function: `{0}` and `{1}` are the operands. `needs`: the name it imports."""

    kernel: str
    needs: str = ""
    vector: bool = True
    costs: int = 1


FUNCTIONS: dict[str, Function] = {
    "add": Function("{0} + {1}"),
    "subtract": Function("{0} - {1}"),
    "multiply": Function("{0} * {1}"),
    "divide": Function("{0} / {1}", costs=4),
    "negative": Function("-{0}"),
    "positive": Function("{0}"),
    "absolute": Function("abs({0})"),
    "fabs": Function("abs({0})"),
    "square": Function("{0} * {0}"),
    "sqrt": Function("np.sqrt({0})", costs=4),
    "reciprocal": Function("one / {0}", "one", costs=4),
    "maximum": Function("maximum({0}, {1})", "maximum"),
    "minimum": Function("minimum({0}, {1})", "minimum"),
    "sign": Function("sign({0})", "sign"),
    "copysign": Function("copysign({0}, {1})", "copysign"),
    "floor": Function("np.floor({0})"),
    "ceil": Function("np.ceil({0})"),
    "trunc": Function("np.trunc({0})"),
    "rint": Function("np.rint({0})"),
    "isnan": Function("{0} != {0}"),
    "isfinite": Function("abs({0}) < inf", "inf"),
    "isinf": Function("abs({0}) == inf", "inf"),
    "less": Function("{0} < {1}"),
    "less_equal": Function("{0} <= {1}"),
    "greater": Function("{0} > {1}"),
    "greater_equal": Function("{0} >= {1}"),
    "equal": Function("{0} == {1}"),
    "not_equal": Function("{0} != {1}"),
    "logical_and": Function("{0} and {1}"),
    "logical_or": Function("{0} or {1}"),
    "logical_not": Function("not {0}"),
    "bitwise_and": Function("{0} & {1}"),
    "bitwise_or": Function("{0} | {1}"),
    "bitwise_xor": Function("{0} ^ {1}"),
    "invert": Function("not {0}"),
    "where": Function("{1} if {0} else {2}"),
    "cast": Function("{0}"),
    "fill": Function("{0}"),
    "exp": Function("exp({0})", "exp", costs=10),
    "log": Function("log({0})", "log", costs=10),
    "erf": Function("erf({0})", "erf", costs=15),
    "tanh": Function("tanh({0})", "tanh", costs=10),
    "gelu": Function("gelu({0})", "gelu", costs=20),
    "gelu_slope": Function("gelu_slope({0})", "gelu_slope", costs=20),
    "gelu_tanh": Function("gelu_tanh({0})", "gelu_tanh", costs=12),
    "gelu_tanh_slope": Function("gelu_tanh_slope({0})", "gelu_tanh_slope", costs=12),
    "power": Function("power({0}, {1})", "power", vector=False, costs=40),
    "exp2": Function("math.exp2({0})", "math", vector=False, costs=20),
    "expm1": Function("math.expm1({0})", "math", vector=False, costs=20),
    "log1p": Function("math.log1p({0})", "math", vector=False, costs=20),
    "log2": Function("np.log2({0})", vector=False, costs=20),
    "log10": Function("math.log10({0})", "math", vector=False, costs=20),
    "sin": Function("math.sin({0})", "math", vector=False, costs=20),
    "cos": Function("math.cos({0})", "math", vector=False, costs=20),
    "tan": Function("math.tan({0})", "math", vector=False, costs=20),
    "arctan": Function("math.atan({0})", "math", vector=False, costs=20),
    "sinh": Function("math.sinh({0})", "math", vector=False, costs=20),
    "cosh": Function("math.cosh({0})", "math", vector=False, costs=20),
    "logaddexp": Function("logaddexp({0}, {1})", "logaddexp", costs=25),
}

REDUCTIONS = {"sum": "total", "max": "largest", "min": "smallest"}
"""By reduction, the function of `row_reduce.py` or `select.py` in `kernels/cpu` that does it."""

POWERS = {2: "{0} * {0}", 3: "{0} * {0} * {0}", 0.5: "np.sqrt({0})", 1: "{0}", -1: "one / {0}"}
"""Exponents for which NumPy, too, does not call `pow`."""
