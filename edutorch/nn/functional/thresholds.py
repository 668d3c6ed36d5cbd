"""More activations: with corners, with thresholds, with random slopes; and in-place forms."""

from __future__ import annotations

from ...core.autograd.node_names import recorded_as
from ...core.out_variants import takes_out
from ...core.precision import composed_in_float32
from ...core.tensor import Tensor
from ...core.tensor_methods import as_method
from ...errors import InvalidValueError, ZeroDivisorError
from ...modes import no_grad
from ...ops import clamp, expm1, rand_like, relu, tanh, where
from .activation import elu, hardtanh, leaky_relu, selu
from .inplace_activation import replace, twin_of

__all__ = [
    "celu", "celu_", "elu_", "hardshrink", "hardsigmoid", "hardtanh_", "leaky_relu_", "relu_",
    "rrelu", "rrelu_", "selu_", "softshrink", "tanhshrink", "threshold", "threshold_",
]  # fmt: skip


@recorded_as("CeluBackward0")
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """ELU without a corner for any α: y = x where x > 0, else α · (exp(x / α) - 1).

    Raises: ZeroDivisionError: alpha is 0.

    Paper: Barron, Continuously differentiable exponential linear units, 2017.

    >>> nn.functional.celu(tensor([-1.0, 2.0]), alpha=2.0)
    tensor([-0.7869,  2.0000])
    """
    if alpha == 0:
        raise ZeroDivisorError("celu", "alpha cannot be 0 for CELU")
    if inplace:
        return replace(input, "celu_", celu, alpha)
    return celu_of(input, alpha)


@composed_in_float32
def celu_of(input: Tensor, alpha: float) -> Tensor:
    return where(input >= 0, input, alpha * expm1(clamp(input, max=0) / alpha))


@recorded_as("HardsigmoidBackward0")
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """A sigmoid made of straight lines: y = min(max(x + 3, 0), 6) / 6.

    >>> nn.functional.hardsigmoid(tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if inplace:
        return replace(input, "hardsigmoid_", hardsigmoid)
    return hardsigmoid_of(input)


@composed_in_float32
def hardsigmoid_of(input: Tensor) -> Tensor:
    return hardtanh(input + 3, 0, 6) / 6


@recorded_as("ThresholdBackward0")
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Keep what is above a threshold, put `value` in the place of all else.

    >>> nn.functional.threshold(tensor([0.5, 2.0]), 1.0, -7.0)
    tensor([-7.,  2.])
    """
    if inplace:
        return replace(input, "threshold_", _threshold, threshold, value)
    if not input.is_floating_point():
        value = int(value)  # as PyTorch: integers stay what they are
    return where(input <= threshold, value, input)


_threshold = threshold  # within the function its name is that of a setting


@as_method
@takes_out
@recorded_as("HardshrinkBackward0")
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Set small numbers to 0: y = x where |x| > λ, else 0.

    >>> hardshrink(tensor([-2.0, 0.3, 1.0]))
    tensor([-2.,  0.,  1.])
    """
    return where((input >= -lambd) & (input <= lambd), 0.0, input)


@takes_out
@recorded_as("SoftshrinkBackward0")
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Pull all numbers towards 0 by λ, where smaller ones stay: y = x ∓ λ, or 0.

    Raises: RuntimeError: lambd is negative.

    >>> nn.functional.softshrink(tensor([-2.0, 0.3, 1.0]))
    tensor([-1.5000,  0.0000,  0.5000])
    """
    if lambd < 0:
        raise InvalidValueError("softshrink", f"`lambd` must not be negative, got {lambd}")
    flat = (input * 0).detach()  # NaN stays NaN; nothing comes back, not even of ∞
    return where(input > lambd, input - lambd, where(input < -lambd, input + lambd, flat))


@composed_in_float32
def tanhshrink(input: Tensor) -> Tensor:
    """What tanh takes away: y = x - tanh(x).

    >>> nn.functional.tanhshrink(tensor([1.0]))
    tensor([0.2384])
    """
    return input - tanh(input)


@recorded_as("RreluWithNoiseBackward0")
def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
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
        return replace(input, "rrelu_", rrelu, lower, upper, training)
    if not training:
        return leaky_relu(input, (lower + upper) / 2)
    with no_grad():
        slopes = lower + (upper - lower) * rand_like(input)
    return where(input > 0, input, slopes * input)


celu_, elu_, selu_ = twin_of(celu), twin_of(elu), twin_of(selu)
hardtanh_, leaky_relu_, rrelu_ = twin_of(hardtanh), twin_of(leaky_relu), twin_of(rrelu)
relu_, threshold_ = twin_of(relu), twin_of(threshold)
