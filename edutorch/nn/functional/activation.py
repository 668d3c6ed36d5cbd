"""Activation functions, and their in-place forms."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ... import ops
from ...backends.numpy import Array, Namespace
from ...core.composed import as_method, composed_in_float32, recorded_as, takes_out
from ...core.tensor import Tensor
from ...core.tensor_methods import overwrite, refuse_leaf
from ...errors import InvalidValueError, ShapeError, ZeroDivisorError, warn
from ...modes import no_grad
from ...ops import (
    argmax,
    chunk,
    clamp,
    exp,
    expm1,
    rand_like,
    reshape,
    scatter,
    sigmoid,
    softplus,
    tanh,
    where,
    zeros_like,
)  # fmt: skip
from ...ops import relu as relu_of
from ...ops.special import (
    LARGE,
    SMALL,
    power_series,
    scale_argument,
    series_coefficients,
    tail_coefficients,
)
from ..common_types import DTypeLike
from .op_decorators import ArrayOrTensor, SettingError, activation, compute_in_float32, shape_of

__all__ = [
    "celu", "celu_", "elu", "elu_", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid",
    "hardswish", "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_", "log_softmax", "logsigmoid",
    "mish", "prelu", "relu", "relu6", "relu_", "rrelu", "rrelu_", "selu", "selu_", "sigmoid",
    "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink",
    "threshold", "threshold_",
]  # fmt: skip


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """The positive part: y = max(x, 0).

    >>> nn.functional.relu(tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return input.relu_() if inplace else relu_of(input)


@activation(public="leaky_relu")
def leaky_relu_forward(xp: Namespace, input: Array, negative_slope: float = 0.01) -> Array:
    """y = x where x > 0, else slope · x."""
    return xp.where(input > 0, input, negative_slope * input)


leaky_relu_forward.vjp(
    input=lambda g, input, negative_slope: where(input > 0, g, negative_slope * g),
    latex=r"g\ \text{or}\ a\,g",
)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Leaky ReLU: x where x > 0, else slope · x, so that the gradient is nowhere 0.

    >>> nn.functional.leaky_relu(tensor([-1.0, 2.0]))
    tensor([-0.0100,  2.0000])
    """
    return (leaky_relu_forward.in_place if inplace else leaky_relu_forward)(input, negative_slope)


@activation(public="elu selu celu", node="EluBackward0")
def elu_forward(xp: Namespace, input: Array, alpha: float = 1.0) -> Array:
    """y = x where x > 0, else α · (eˣ - 1)."""
    return xp.where(input > 0, input, alpha * xp.expm1(xp.minimum(input, 0)))


# At 0 the slope is that from the left, α, and the curvature 0, as in PyTorch.
elu_forward.vjp(
    input=lambda g, input, alpha: where(
        input > 0, g, g * (alpha * exp(where(input >= 0, 0.0, input)))
    ),
    latex=r"g\ \text{or}\ g\,\alpha\,e^x",
)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Exponential linear unit: x where x > 0, else α · (eˣ - 1).

    >>> nn.functional.elu(tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return (elu_forward.in_place if inplace else elu_forward)(input, alpha)


SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805


@activation(public="selu", node="EluBackward0")
def selu_forward(xp: Namespace, input: Array) -> Array:
    """y = λ · x where x > 0, else λ · α · (eˣ - 1)."""
    return xp.where(
        input > 0, SELU_SCALE * input, SELU_SCALE * SELU_ALPHA * xp.expm1(xp.minimum(input, 0))
    )


# At 0 as that of `elu_forward`.
selu_forward.vjp(
    input=lambda g, input: where(
        input > 0,
        SELU_SCALE * g,
        g * (SELU_SCALE * SELU_ALPHA * exp(where(input >= 0, 0.0, input))),
    ),
    latex=r"1.0507\,g\ \text{or}\ 1.7581\,g\,e^x",  # λ, and λ · α
)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Scaled ELU, whose constants keep mean 0 and variance 1 through many layers.

    >>> nn.functional.selu(tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return (selu_forward.in_place if inplace else selu_forward)(input)


@activation(dtypes="fc", public="silu")
def silu_forward(xp: Namespace, input: Array) -> Array:
    """y = x · σ(x)."""
    return input / (1 + xp.exp(-input))


def silu_derivative(input: ArrayOrTensor) -> Any:
    s = sigmoid(input)
    return s * (1 + input * (1 - s))


silu_forward.vjp(
    input=lambda g, input: g * silu_derivative(input), latex=r"g\,\sigma(x)(1+x(1-\sigma(x)))"
)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Sigmoid linear unit (swish): y = x · σ(x).

    >>> nn.functional.silu(tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """
    return (silu_forward.in_place if inplace else silu_forward)(input)


@activation(public="gelu", torch_name="special.ndtr")
def normal_cdf(xp: Namespace, input: Array) -> Array:
    """Φ(x), the normal distribution function, at the cost of one erf.

    Below 0 the tail is computed directly, without cancellation; from |x| = 8.5 on Φ is 0 or 1.
    """
    exact = input.dtype.itemsize >= 8
    z = input * math.sqrt(0.5)
    magnitude = xp.minimum(xp.abs(z), LARGE)
    tail = power_series(scale_argument(magnitude), tail_coefficients(26 if exact else 10)) * xp.exp(
        -magnitude * magnitude
    )
    half = 0.5 * tail * (magnitude < LARGE)
    middle = 0.5 + 0.5 * z * power_series(
        magnitude * magnitude, series_coefficients(12 if exact else 6)
    )
    return xp.where(magnitude < SMALL, middle, xp.where(z > 0, 1 - half, half))


def normal_density(x: ArrayOrTensor) -> Any:
    return (1 / math.sqrt(2 * math.pi)) * exp(-0.5 * (x * x))


normal_cdf.vjp(input=lambda g, input: g * normal_density(input), latex=r"g\,\varphi(x)")


@activation
def gelu(xp: Namespace, input: Array, approximate: str = "none") -> Array:
    """Gaussian error linear unit: y = x · Φ(x), with Φ the normal distribution function.

    `approximate="tanh"` computes Φ by a formula with tanh.

    >>> nn.functional.gelu(tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """
    if approximate not in ("none", "tanh"):
        raise SettingError("gelu", "approximate argument must be either none or tanh.")
    if input.itemsize == 2:  # Φ of -3 is a small difference; rounded once
        return compute_in_float32(gelu.op.forward, xp, input, approximate)
    if approximate == "tanh":
        return input * (0.5 + 0.5 * xp.tanh(gelu_inner(input)))
    return input * normal_cdf(input)


def gelu_inner(x: ArrayOrTensor) -> Any:
    return math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))


def gelu_derivative(x: ArrayOrTensor, approximate: str) -> Any:
    """The derivative of x · Φ(x), by the product rule: Φ(x) + x · φ(x)."""
    if approximate == "tanh":
        t = tanh(gelu_inner(x))
        inner = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * (x * x))
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner
    return normal_cdf(x) + x * normal_density(x)


gelu.vjp(
    input=lambda g, input, approximate: g * gelu_derivative(input, approximate),
    latex=r"g\,(\Phi(x)+x\,\varphi(x))",
)


@activation(public="hardtanh relu6", node="HardtanhBackward0")
def hardtanh_forward(xp: Namespace, input: Array, min_val: float, max_val: float) -> Array:
    """y = min(max(x, a), b)."""
    return xp.minimum(xp.maximum(input, min_val), max_val)


# At a limit the gradient is 0, as in PyTorch; the gradient of `clamp` would still be g there.
hardtanh_forward.vjp(
    input=lambda g, input, min_val, max_val: where((input > min_val) & (input < max_val), g, 0.0),
    latex=r"g\ \text{between the limits}",
)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Clamp to the interval from min_val to max_val.

    >>> nn.functional.hardtanh(tensor([-3.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    if min_val > max_val:
        raise InvalidValueError(
            "hardtanh", f"min_val cannot be greater than max_val: {min_val} > {max_val}"
        )
    if not input.is_floating_point():
        limits = int(min_val), int(max_val)  # truncated, as in PyTorch
        return input.clamp_(*limits) if inplace else clamp(input, *limits)
    return (hardtanh_forward.in_place if inplace else hardtanh_forward)(input, min_val, max_val)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """ReLU clamped at 6: y = min(max(x, 0), 6).

    >>> nn.functional.relu6(tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """
    return hardtanh(input, 0, 6, inplace)


@composed_in_float32
def softsign(input: Tensor) -> Tensor:
    """Softsign: y = x / (1 + |x|), between -1 and 1.

    >>> nn.functional.softsign(tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    return input / (1 + input.abs())


@activation(public="logsigmoid", node="LogSigmoidBackward0", out=False)
def logsigmoid_forward(xp: Namespace, input: Array) -> Array:
    """y = log σ(x) = -log(1 + e^-x)."""
    return -xp.logaddexp(xp.zeros_like(input), -input)


logsigmoid_forward.vjp(input=lambda g, input: g * sigmoid(-input), latex=r"g\,\sigma(-x)")


@takes_out
def logsigmoid(input: Tensor) -> Tensor:
    """The logarithm of the sigmoid, accurate where the sigmoid itself would round to 0.

    >>> nn.functional.logsigmoid(tensor([0.0]))
    tensor([-0.6931])
    """
    return logsigmoid_forward(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Mish: y = x · tanh(log(1 + eˣ)).

    >>> nn.functional.mish(tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """
    return apply_in_place(input, "mish_", mish) if inplace else mish_forward(input)


@activation(public="mish")
def mish_forward(xp: Namespace, input: Array) -> Array:
    """y = x · tanh(log(1 + eˣ))."""
    if input.itemsize == 2:  # rounded once
        return compute_in_float32(mish_forward.op.forward, xp, input)
    return input * xp.tanh(xp.logaddexp(xp.zeros_like(input), input))


def mish_derivative(x: ArrayOrTensor) -> Any:
    """The derivative t + x · (1 - t²) · σ(x), with t = tanh(log(1 + eˣ))."""
    x = clamp(x, -1000, 30)  # beyond, the derivative is 0 or 1; avoids 0 · ∞
    t = tanh(softplus(x))
    return t + x * ((1 - t * t) * sigmoid(x))


mish_forward.vjp(
    input=lambda g, input: g * mish_derivative(input),
    latex=r"g\,(\tanh(\ln(1+e^x))+x\,\sigma(x)\,(1-\tanh(\ln(1+e^x))^2))",
)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Piecewise approximation of SiLU: y = x · min(max(x + 3, 0), 6) / 6.

    >>> nn.functional.hardswish(tensor([-4.0, 0.0, 4.0]))
    tensor([-0., 0., 4.])
    """
    if inplace:
        return apply_in_place(input, "hardswish_", hardswish)
    return hardswish_forward(input)


@activation(public="hardswish")
def hardswish_forward(xp: Namespace, input: Array) -> Array:
    """y = x · min(max(x + 3, 0), 6) / 6."""
    if input.itemsize == 2:  # rounded once
        return compute_in_float32(hardswish_forward.op.forward, xp, input)
    return input * (xp.minimum(xp.maximum(input + 3, 0), 6) / 6)


def hardswish_derivative(x: ArrayOrTensor) -> Any:
    """The derivative: x / 3 + ½ for |x| < 3, else 0 or 1."""
    return where(x < 3, where(x > -3, x / 3 + 0.5, 0.0), 1.0)


hardswish_forward.vjp(
    input=lambda g, input: g * hardswish_derivative(input), latex=r"g\,(\tfrac{x}{3}+\tfrac12)"
)


@activation(public="prelu", promotion="promote", scalars="", node="PreluKernelBackward0", out=False)
def prelu_forward(xp: Namespace, input: Array, weight: Array) -> Array:
    """y = x where x > 0, else slope · x."""
    return xp.where(input > 0, input, weight * input)


prelu_forward.vjp(
    input=lambda g, input, weight: where(input > 0, g, weight * g),
    weight=lambda g, input: where(input > 0, 0.0, input * g),
    latex={"input": r"g\ \text{or}\ a\,g", "weight": r"g\,\min(x, 0)"},
)


@as_method
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Leaky ReLU with learned slopes: a single one, or one for each channel (axis 1).

    Raises: ShapeError: the number of slopes is neither 1 nor that of the channels.

    >>> nn.functional.prelu(tensor([-2.0, 2.0]), tensor([0.25]))
    tensor([-0.5000,  2.0000])
    """
    shape, slopes = shape_of(input), shape_of(weight)
    ndim, count = len(shape), 1 if len(shape) < 2 else shape[1]
    if len(slopes) > 1 or (slopes and slopes[0] != 1 and slopes[0] != count):
        raise ShapeError(
            "prelu", f"expected 1 slope or {count}, one for each channel",
            {"input": tuple(input.shape), "weight": tuple(weight.shape)},
        )  # fmt: skip
    if not slopes or 0 < ndim < 3:
        return prelu_forward(input, weight)  # it broadcasts as it is
    y = prelu_forward(input, reshape(weight, (-1,) + (1,) * max(ndim - 2, 0)))
    return reshape(y, input.shape)


@composed_in_float32
@recorded_as("GluBackward0")
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Gated linear unit: y = a · σ(b), with a and b the two halves of x along `dim`.

    Raises: ShapeError: the axis has an odd size.

    >>> nn.functional.glu(tensor([3.0, 0.0]))
    tensor([1.5000])
    """
    if input.shape[dim] % 2:
        raise ShapeError(
            "glu", f"Halving dimension must be even, but dimension {dim} is size "
            f"{input.shape[dim]}", {"input": tuple(input.shape)},
        )  # fmt: skip
    a, b = chunk(input, 2, dim)
    return a * sigmoid(b)


# In place, and piecewise functions ------------------------------------------------------------


def apply_in_place(
    input: Tensor, name: str, function: Callable[..., Tensor], *settings: Any
) -> Tensor:
    """Write `function(input, *settings)` into the memory of `input`.

    If gradients are needed, the function gets a copy: backward uses the old values.

    Raises: GradientError: `input` is a leaf that requires a gradient.
    """
    refuse_leaf(input, name)
    saved = input.clone() if input.requires_grad else input
    overwrite(input, function(saved, *settings), saved, name)
    return input


def make_in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Make the in-place form of an activation: `celu_` from `celu`."""
    name = f"{function.__name__}_"

    def in_place(input: Tensor, *settings: Any, **named: Any) -> Tensor:
        return apply_in_place(input, name, functools.partial(function, **named), *settings)

    in_place.__name__ = in_place.__qualname__ = name
    in_place.__module__ = function.__module__
    in_place.__doc__ = (
        f"The in-place form of `{function.__name__}`: the result replaces the tensor's elements."
    )
    return in_place


@recorded_as("CeluBackward0")
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Continuously differentiable ELU: y = x where x > 0, else α · (exp(x / α) - 1).

    Raises: ZeroDivisionError: alpha is 0.

    Paper: Barron, Continuously differentiable exponential linear units, 2017.

    >>> nn.functional.celu(tensor([-1.0, 2.0]), alpha=2.0)
    tensor([-0.7869,  2.0000])
    """
    if alpha == 0:
        raise ZeroDivisorError("celu", "alpha cannot be 0 for CELU")
    if inplace:
        return apply_in_place(input, "celu_", celu, alpha)
    return compute_celu(input, alpha)


@composed_in_float32
def compute_celu(input: Tensor, alpha: float) -> Tensor:
    return where(input >= 0, input, alpha * expm1(clamp(input, max=0) / alpha))


@recorded_as("HardsigmoidBackward0")
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Piecewise linear approximation of the sigmoid: y = min(max(x + 3, 0), 6) / 6.

    >>> nn.functional.hardsigmoid(tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if inplace:
        return apply_in_place(input, "hardsigmoid_", hardsigmoid)
    return compute_hardsigmoid(input)


@composed_in_float32
def compute_hardsigmoid(input: Tensor) -> Tensor:
    return hardtanh(input + 3, 0, 6) / 6


@recorded_as("ThresholdBackward0")
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Replace the elements that are not above a threshold by `value`.

    >>> nn.functional.threshold(tensor([0.5, 2.0]), 1.0, -7.0)
    tensor([-7.,  2.])
    """
    if inplace:
        return apply_in_place(input, "threshold_", _threshold, threshold, value)
    if not input.is_floating_point():
        value = int(value)  # as in PyTorch, integer tensors keep their dtype
    return where(input <= threshold, value, input)


_threshold = threshold  # inside the function this name is a parameter


@as_method
@takes_out
@recorded_as("HardshrinkBackward0")
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Hard shrinkage: y = x where |x| > λ, else 0.

    >>> hardshrink(tensor([-2.0, 0.3, 1.0]))
    tensor([-2.,  0.,  1.])
    """
    return where((input >= -lambd) & (input <= lambd), 0.0, input)


@takes_out
@recorded_as("SoftshrinkBackward0")
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Soft shrinkage: y = x ∓ λ where |x| > λ, else 0.

    Raises: RuntimeError: lambd is negative.

    >>> nn.functional.softshrink(tensor([-2.0, 0.3, 1.0]))
    tensor([-1.5000,  0.0000,  0.5000])
    """
    if lambd < 0:
        raise InvalidValueError("softshrink", f"`lambd` must not be negative, got {lambd}")
    flat = (input * 0).detach()  # NaN stays NaN; no gradient, not even for ∞
    return where(input > lambd, input - lambd, where(input < -lambd, input + lambd, flat))


@composed_in_float32
def tanhshrink(input: Tensor) -> Tensor:
    """Tanh shrinkage: y = x - tanh(x).

    >>> nn.functional.tanhshrink(tensor([1.0]))
    tensor([0.2384])
    """
    return input - tanh(input)


@recorded_as("RreluWithNoiseBackward0")
def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    inplace: bool = False,
) -> Tensor:  # fmt: skip
    """Leaky ReLU whose slopes are drawn between two limits while training, else their middle.

    Raises: RuntimeError: lower is above upper.

    Paper: Xu et al., Empirical evaluation of rectified activations, 2015.

    >>> nn.functional.rrelu(tensor([-24.0, 2.0]))
    tensor([-5.5000,  2.0000])
    """
    if lower > upper:
        raise InvalidValueError(
            "rrelu",
            f"Lower bound should be less than or equal to the upper bound: {lower} > {upper}",
        )
    if inplace:
        return apply_in_place(input, "rrelu_", rrelu, lower, upper, training)
    if not training:
        return leaky_relu(input, (lower + upper) / 2)
    with no_grad():
        slopes = lower + (upper - lower) * rand_like(input)
    return where(input > 0, input, slopes * input)


celu_, elu_, selu_, hardtanh_, leaky_relu_, relu_, rrelu_, threshold_ = map(
    make_in_place, (celu, elu, selu, hardtanh, leaky_relu, relu, rrelu, threshold)
)


# Softmaxes ------------------------------------------------------------------------------------


def implicit_dim(name: str, ndim: int) -> int:
    """Return the axis that PyTorch uses when `dim` is missing, and warn as it does."""
    warn(
        f"Implicit dimension choice for {name} has been deprecated. "
        "Change the call to include dim=X as an argument."
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike = None
) -> Tensor:
    """Softmax along `dim`: y = exp(x) / Σ exp(x).

    >>> nn.functional.softmax(tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    dim = implicit_dim("softmax", input.ndim) if dim is None else dim
    return ops.softmax(input, dim, dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike = None
) -> Tensor:
    """The softmax of -x: the smallest element gets the largest probability.

    >>> nn.functional.softmin(tensor([0.0, 1.0]), dim=0)
    tensor([0.7311, 0.2689])
    """
    dim = implicit_dim("softmin", input.ndim) if dim is None else dim
    return ops.softmax(-input, dim, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike = None
) -> Tensor:
    """The logarithm of the softmax: y = x - log Σ exp(x).

    >>> nn.functional.log_softmax(tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    dim = implicit_dim("log_softmax", input.ndim) if dim is None else dim
    return ops.log_softmax(input, dim, dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Draw a differentiable sample of a categorical distribution: softmax((x + noise) / τ).

    With Gumbel noise the largest score is that of class c with the probability
    softmax(x)[c]; a low temperature τ makes the softmax nearly one-hot.

    Args:
        hard: return one-hot rows with the gradient of the soft ones (straight-through).
        eps: has no effect; kept for compatibility.

    Paper: Jang et al., Categorical reparameterization with Gumbel-softmax, 2017.

    >>> nn.functional.gumbel_softmax(tensor([[0.0, 50.0]]), hard=True)
    tensor([[0., 1.]])
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    with no_grad():
        waiting_times = -(1 - rand_like(logits)).log()  # exponentially distributed
        noise = -waiting_times.clamp(min=1e-30 if logits.element_size() > 2 else 1e-7).log()
    soft = ops.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    winners = argmax(soft, dim, True)
    one_hot = scatter(zeros_like(logits), dim, winners, 1.0)
    return one_hot - soft.detach() + soft
