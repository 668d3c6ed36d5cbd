"""Functions of one number, and their derivatives, in one pass over the memory.

A definition like that of gelu goes through the memory once for each of its operations, with an
array for each in between. Here all of them are done to a number while it is in a register, and
the exponentials in them are computed for several numbers at a time (`vector_math.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import scalar_functions, vector_math
from .implicit_gemm import BYTES
from .jit import NUMBER, ROW, alike, compiled, filled, joined, wide
from .parallel import in_parts
from .work_queue import share_out

Run = Callable[..., Any]

AVX512 = 64
"""Bytes of its registers."""


def curve_of(formula: Callable[..., Any]) -> Run:
    """Make y = f(x)."""

    def curve(start, stop, x, y):
        start, stop = share_out(start, stop)
        wide()
        for i in range(start, stop):
            y[i] = formula(x[i])

    kernel = compiled(curve, ROW, ROW)

    def run(input: Any) -> np.ndarray | None:
        x = joined(input)
        if not alike((x,)):
            return None
        y = np.empty_like(x)  # not x itself: numbers are computed several at a time then
        in_parts(kernel, y.size, x.reshape(-1), y.reshape(-1))
        return y

    return run


def slope_of(formula: Callable[..., Any]) -> Run:
    """Make g · f'(x), with f' by the input or by the result of f."""

    def slope(start, stop, g, x, y):
        start, stop = share_out(start, stop)
        wide()
        for i in range(start, stop):
            y[i] = g[i] * formula(x[i])

    kernel = compiled(slope, ROW, ROW, ROW)

    def run(g: Any, x: Any) -> np.ndarray | None:
        if not alike((x, g := filled(g, x))):
            return None
        y = np.empty_like(x)
        in_parts(kernel, y.size, g.reshape(-1), x.reshape(-1), y.reshape(-1))
        return y

    return run


def curve_with(formula: Callable[..., Any]) -> Run:
    """Make y = f(x, a, b), of two settings."""

    def curve(start, stop, x, y, a, b):
        start, stop = share_out(start, stop)
        wide()
        for i in range(start, stop):
            y[i] = formula(x[i], a, b)

    kernel = compiled(curve, ROW, ROW, NUMBER, NUMBER)

    def run(input: Any, a: float, b: float = 0.0) -> np.ndarray | None:
        x = joined(input)
        if not alike((x,)):
            return None
        y = np.empty_like(x)
        in_parts(kernel, y.size, x.reshape(-1), y.reshape(-1), float(a), float(b))
        return y

    return run


def gradient_with(formula: Callable[..., Any]) -> Run:
    """Make f(g, x, a, b): what comes back of a gradient."""

    def curve(start, stop, g, x, y, a, b):
        start, stop = share_out(start, stop)
        wide()
        for i in range(start, stop):
            y[i] = formula(g[i], x[i], a, b)

    kernel = compiled(curve, ROW, ROW, ROW, NUMBER, NUMBER)

    def run(g: Any, x: Any, a: float, b: float = 0.0) -> np.ndarray | None:
        if not alike((x, g := filled(g, x))):
            return None
        y = np.empty_like(x)
        arrays = (g.reshape(-1), x.reshape(-1), y.reshape(-1))
        in_parts(kernel, y.size, *arrays, float(a), float(b))
        return y

    return run


def from_size(least: int, run: Run) -> Run:
    """Leave smaller arrays to NumPy, which is as quick with them where it has AVX-512."""
    if BYTES < AVX512:
        return run
    return lambda input: run(input) if input.size >= least else None


def exp() -> Run:
    """Make the forward of `exp`."""
    return from_size(32_768, curve_of(vector_math.exp))


def exp_input() -> Run:
    """Make g · y."""
    return slope_of(scalar_functions.itself)


def log() -> Run:
    """Make the forward of `log`."""
    return from_size(131_072, curve_of(vector_math.log))


def erf() -> Run:
    """Make the forward of `erf`."""
    return curve_of(vector_math.erf)


def tanh() -> Run:
    """Make the forward of `tanh`."""
    return from_size(65_536, curve_of(vector_math.tanh))


def tanh_input() -> Run:
    """Make g · (1 - y²)."""
    return slope_of(scalar_functions.tanh_slope)


def sigmoid() -> Run:
    """Make the forward of `sigmoid`."""
    return curve_of(scalar_functions.sigmoid)


def sigmoid_input() -> Run:
    """Make g · (y - y²)."""
    return slope_of(scalar_functions.sigmoid_slope)


def relu() -> Run:
    """Make the forward of `relu`."""
    return curve_of(scalar_functions.relu)


def relu_input() -> Run:
    """Make g where y is not 0, else 0."""
    through = gradient_with(scalar_functions.through_relu)
    return lambda g, y: through(g, y, 0.0)


def silu_of() -> Run:
    """Make the forward of `silu`."""
    return curve_of(scalar_functions.silu)


def silu_of_input() -> Run:
    """Make the derivative of `silu`."""
    return slope_of(scalar_functions.silu_slope)


def softplus() -> Run:
    """Make the forward of `softplus` with its usual settings."""
    usual = curve_of(scalar_functions.softplus)
    return lambda input, beta, threshold: usual(input) if beta == 1 and threshold >= 20 else None


def softplus_input() -> Run:
    """Make the derivative of `softplus` with its usual settings."""
    usual = slope_of(scalar_functions.sigmoid)

    def run(g: Any, input: Any, beta: float, threshold: float) -> np.ndarray | None:
        return usual(g, input) if beta == 1 and threshold >= 20 else None

    return run


def gelu() -> Run:
    """Make the forward of `gelu`, in both forms."""
    forms = {"none": curve_of(scalar_functions.gelu), "tanh": curve_of(scalar_functions.gelu_tanh)}
    return lambda input, approximate: forms[approximate](input) if approximate in forms else None


def gelu_input() -> Run:
    """Make the derivative of `gelu`, in both forms."""
    forms = {
        "none": slope_of(scalar_functions.gelu_slope),
        "tanh": slope_of(scalar_functions.gelu_tanh_slope),
    }
    return lambda g, input, approximate: forms[approximate](g, input)


def leaky() -> Run:
    """Make the forward of `leaky_relu`."""
    return curve_with(scalar_functions.leaky)


def leaky_input() -> Run:
    """Make the derivative of `leaky_relu`."""
    return gradient_with(scalar_functions.through_leaky)


def exponential_linear() -> Run:
    """Make the forward of `elu`."""
    return curve_with(scalar_functions.elu)


def exponential_linear_input() -> Run:
    """Make the derivative of `elu`."""
    return gradient_with(scalar_functions.through_elu)


def between() -> Run:
    """Make the forward of `hardtanh`."""
    return curve_with(scalar_functions.between)


def between_input() -> Run:
    """Make the derivative of `hardtanh`."""
    return gradient_with(scalar_functions.inside)
