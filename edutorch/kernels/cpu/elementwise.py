"""Elementwise functions and their derivatives, in one pass over the memory.

A definition like that of gelu reads and writes memory once for each of its operations, with a
temporary array in between. Here all operations are applied to an element while it is in a
register, and the exponentials are vectorized (`vector_math.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from ... import ops
from ...backends.numpy import Array
from ...core.fast import lazy_gradients
from ...nn import functional
from ...nn.functional import activation
from . import scalar_functions, vector_math
from .implicit_gemm import BYTES
from .jit import (
    ARRAY_1D,
    FLOATS,
    SCALAR,
    are_contiguous_floats,
    compile_kernel,
    contiguous_gradient,
    contiguous_rows,
    use_wide_vectors,
)
from .parallel import parallel_for
from .work_queue import claim_range

Run = Callable[..., Any]

AVX512 = 64
"""The size of an AVX-512 register in bytes."""


def elementwise_kernel(formula: Callable[..., Any]) -> Run:
    """Make y = f(x)."""

    def apply(start, stop, x, y):
        start, stop = claim_range(start, stop)
        use_wide_vectors()
        for i in range(start, stop):
            y[i] = formula(x[i])

    kernel = compile_kernel(apply, ARRAY_1D, ARRAY_1D)

    def run(input: Array) -> np.ndarray | None:
        x = contiguous_rows(input)
        if not are_contiguous_floats((x,)):
            return None
        y = np.empty_like(x)  # not x itself: only without aliasing is the loop vectorized
        parallel_for(kernel, y.size, x.reshape(-1), y.reshape(-1))
        return y

    return run


def gradient_kernel(formula: Callable[..., Any]) -> Run:
    """Make g · f'(x), with f' as a function of the input or of the result of f."""

    def apply(start, stop, g, x, y):
        start, stop = claim_range(start, stop)
        use_wide_vectors()
        for i in range(start, stop):
            y[i] = g[i] * formula(x[i])

    kernel = compile_kernel(apply, ARRAY_1D, ARRAY_1D, ARRAY_1D)

    def run(g: Array, x: Array) -> np.ndarray | None:
        if not are_contiguous_floats((x, g := contiguous_gradient(g, x))):
            return None
        y = np.empty_like(x)
        parallel_for(kernel, y.size, g.reshape(-1), x.reshape(-1), y.reshape(-1))
        return y

    return run


def parametric_kernel(formula: Callable[..., Any]) -> Run:
    """Make y = f(x, a, b), with two parameters."""

    def apply(start, stop, x, y, a, b):
        start, stop = claim_range(start, stop)
        use_wide_vectors()
        for i in range(start, stop):
            y[i] = formula(x[i], a, b)

    kernel = compile_kernel(apply, ARRAY_1D, ARRAY_1D, SCALAR, SCALAR)

    def run(input: Array, a: float, b: float = 0.0) -> np.ndarray | None:
        x = contiguous_rows(input)
        if not are_contiguous_floats((x,)):
            return None
        y = np.empty_like(x)
        # Settings may be integers, as in `hardtanh(x, 0, 6)`; the kernel takes floats.
        parallel_for(kernel, y.size, x.reshape(-1), y.reshape(-1), float(a), float(b))
        return y

    return run


def parametric_gradient_kernel(formula: Callable[..., Any]) -> Run:
    """Make f(g, x, a, b), the gradient with respect to x."""

    def apply(start, stop, g, x, y, a, b):
        start, stop = claim_range(start, stop)
        use_wide_vectors()
        for i in range(start, stop):
            y[i] = formula(g[i], x[i], a, b)

    kernel = compile_kernel(apply, ARRAY_1D, ARRAY_1D, ARRAY_1D, SCALAR, SCALAR)

    def run(g: Array, x: Array, a: float, b: float = 0.0) -> np.ndarray | None:
        if not are_contiguous_floats((x, g := contiguous_gradient(g, x))):
            return None
        y = np.empty_like(x)
        arrays = (g.reshape(-1), x.reshape(-1), y.reshape(-1))
        parallel_for(kernel, y.size, *arrays, float(a), float(b))
        return y

    return run


def skip_small_inputs(min_size: int, run: Run) -> Run:
    """Leave small inputs to NumPy, which is as fast for them where it has AVX-512."""
    if BYTES < AVX512:
        return run
    return lambda input: run(input) if input.size >= min_size else None


@ops.exp.kernel("cpu", min_size=2048)
def exp() -> Run:
    """Make the forward of `exp`."""
    return skip_small_inputs(32_768, elementwise_kernel(vector_math.exp))


@ops.exp.kernel("cpu", "input", min_size=32_768)
def exp_input() -> Run:
    """Make g · y."""
    # exp is its own derivative, so its saved result serves, and the input can be freed.
    return gradient_kernel(scalar_functions.exp_slope)


@ops.log.kernel("cpu", min_size=2048)
def log() -> Run:
    """Make the forward of `log`."""
    return skip_small_inputs(131_072, elementwise_kernel(vector_math.log))


@ops.erf.kernel("cpu", min_size=256)
def erf() -> Run:
    """Make the forward of `erf`."""
    return elementwise_kernel(vector_math.erf)


@ops.tanh.kernel("cpu", min_size=1024)
def tanh() -> Run:
    """Make the forward of `tanh`."""
    return skip_small_inputs(65_536, elementwise_kernel(vector_math.tanh))


@ops.tanh.kernel("cpu", "input", min_size=4096)
def tanh_input() -> Run:
    """Make g · (1 - y²)."""
    # From the result: without a second exponential.
    return gradient_kernel(scalar_functions.tanh_slope)


@ops.sigmoid.kernel("cpu", min_size=1024)
def sigmoid() -> Run:
    """Make the forward of `sigmoid`."""
    # For small inputs, too: NumPy has no sigmoid, and the definition is four passes.
    return elementwise_kernel(scalar_functions.sigmoid)


@ops.sigmoid.kernel("cpu", "input", min_size=4096)
def sigmoid_input() -> Run:
    """Make g · (y - y²)."""
    return gradient_kernel(scalar_functions.sigmoid_slope)


@ops.relu.kernel("cpu", min_size=16_384)
def relu() -> Run:
    """Make the forward of `relu`."""
    return elementwise_kernel(scalar_functions.relu)


@ops.relu.kernel("cpu", "input", min_size=8192)
def relu_input() -> Run:
    """Make g where y is not 0, else 0."""
    # By the result, not by the input: it is saved anyway, and so the input can be freed.
    kernel = parametric_gradient_kernel(scalar_functions.relu_gradient)
    return lambda g, y: kernel(g, y, 0.0)


@activation.silu_forward.kernel("cpu", min_size=1024)
def silu_forward() -> Run:
    """Make the forward of `silu`."""
    return elementwise_kernel(scalar_functions.silu)


@activation.silu_forward.kernel("cpu", "input", min_size=256)
def silu_forward_input() -> Run:
    """Make the derivative of `silu`."""
    # From the input: silu is not monotonic, so its result does not determine the slope.
    return gradient_kernel(scalar_functions.silu_slope)


@ops.softplus.kernel("cpu", min_size=256)
def softplus() -> Run:
    """Make the forward of `softplus` with its default settings."""
    kernel = elementwise_kernel(scalar_functions.softplus)
    # Beyond its threshold the definition returns x; here less than 3·10⁻⁹ is added to it.
    return lambda input, beta, threshold: kernel(input) if beta == 1 and threshold >= 20 else None


@ops.softplus.kernel("cpu", "input", min_size=1024)
def softplus_input() -> Run:
    """Make the derivative of `softplus` with its default settings."""
    kernel = gradient_kernel(scalar_functions.sigmoid)

    def run(g: Array, input: Array, beta: float, threshold: float) -> np.ndarray | None:
        return kernel(g, input) if beta == 1 and threshold >= 20 else None

    return run


@functional.gelu.kernel("cpu", min_size=256)
def gelu() -> Run:
    """Make the forward of `gelu`, in both forms."""
    forms = {
        "none": elementwise_kernel(scalar_functions.gelu),
        "tanh": elementwise_kernel(scalar_functions.gelu_tanh),
    }
    # An unknown word is left to the definition, which raises the error.
    return lambda input, approximate: forms[approximate](input) if approximate in forms else None


@functional.gelu.kernel("cpu", "input", min_size=256)
def gelu_input() -> Run:
    """Make the derivative of `gelu`, in both forms."""
    forms = {
        "none": gradient_kernel(scalar_functions.gelu_slope),
        "tanh": gradient_kernel(scalar_functions.gelu_tanh_slope),
    }
    return lambda g, input, approximate: forms[approximate](g, input)


@activation.leaky_relu_forward.kernel("cpu", min_size=16_384)
def leaky_relu_forward() -> Run:
    """Make the forward of `leaky_relu`."""
    return parametric_kernel(scalar_functions.leaky_relu)


@activation.leaky_relu_forward.kernel("cpu", "input", min_size=16_384)
def leaky_relu_forward_input() -> Run:
    """Make the derivative of `leaky_relu`."""
    # By the input: with a slope below 0, the sign of the result is not that of the input.
    return parametric_gradient_kernel(scalar_functions.leaky_relu_gradient)


@activation.elu_forward.kernel("cpu", min_size=4096)
def elu_forward() -> Run:
    """Make the forward of `elu`."""
    return parametric_kernel(scalar_functions.elu)


@activation.elu_forward.kernel("cpu", "input", min_size=4096)
def elu_forward_input() -> Run:
    """Make the derivative of `elu`."""
    return parametric_gradient_kernel(scalar_functions.elu_gradient)


@activation.hardtanh_forward.kernel("cpu", min_size=16_384)
def hardtanh_forward() -> Run:
    """Make the forward of `hardtanh`."""
    return parametric_kernel(scalar_functions.hardtanh)


@activation.hardtanh_forward.kernel("cpu", "input", min_size=16_384)
def hardtanh_forward_input() -> Run:
    """Make the derivative of `hardtanh`."""
    # 0 at the limits, as in PyTorch; the gradient of `clamp` is g there.
    return parametric_gradient_kernel(scalar_functions.hardtanh_gradient)


# Not `njit`: a kernel that holds a compiled function has another name in the next process, which
# would not recognize its copy on disk.
@register_jitable
def plus(a: float, b: float) -> Any:
    return a + b


@register_jitable
def minus(a: float, b: float) -> Any:
    return a - b


@register_jitable
def times(a: float, b: float) -> Any:
    return a * b


@register_jitable
def divide(a: float, b: float) -> Any:
    return a / b


def binary_kernel(operation: Callable[..., Any], *default_settings: object) -> Run:
    """Make z = x ∘ y, of two arrays of one shape, or of an array and a scalar.

    Args:
        default_settings: the op's settings under which it is just this operation.
    """

    def array_array(start, stop, x, y, z):
        start, stop = claim_range(start, stop)
        use_wide_vectors()
        for i in range(start, stop):
            z[i] = operation(x[i], y[i])

    # By value the scalar stays in a register; the element of an array could be changed by z.
    def array_scalar(start, stop, x, scalar, z):
        start, stop = claim_range(start, stop)
        use_wide_vectors()
        for i in range(start, stop):
            z[i] = operation(x[i], scalar)

    array_kernel, scalar_kernel = (
        compile_kernel(array_array, ARRAY_1D, ARRAY_1D, ARRAY_1D),
        compile_kernel(array_scalar, ARRAY_1D, SCALAR, ARRAY_1D),
    )

    def run(x: Array, y: Array, *settings: object) -> np.ndarray | None:
        if settings != default_settings or y.__class__ is not np.ndarray or x.dtype not in FLOATS:
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
        parallel_for(scalar_kernel, z.size, x.reshape(-1), y[()], z.reshape(-1))
        return z

    return run


@ops.add.kernel("cpu", min_size=131_072)
def add() -> Run:
    """Make the forward of `add`."""
    # NumPy's loop is as fast, but runs on one core: so only from a size on where threads pay.
    return binary_kernel(plus, 1)


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


@ops.sub.kernel("cpu", min_size=131_072)
def sub() -> Run:
    """Make the forward of `sub`."""
    return binary_kernel(minus, 1)


@ops.mul.kernel("cpu", min_size=131_072)
def mul() -> Run:
    """Make the forward of `mul`."""
    return binary_kernel(times)


@ops.mul.kernel("cpu", "input", min_size=131_072)
def mul_input() -> Run:
    """Make g · b."""
    return binary_kernel(times)


@ops.mul.kernel("cpu", "other", min_size=131_072)
def mul_other() -> Run:
    """Make g · a."""
    return binary_kernel(times)


@ops.div.kernel("cpu", min_size=131_072)
def div() -> Run:
    """Make the forward of `div`."""
    # Kernels have NumPy's error model, so x / 0 is infinite or NaN and raises nothing.
    return binary_kernel(divide, None)


@ops.div.kernel("cpu", "input", min_size=131_072)
def div_input() -> Run:
    """Make g / b."""
    return binary_kernel(divide, None)
