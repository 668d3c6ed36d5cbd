"""Pointwise losses as ops: each element is compared with its own target.

The public functions are in `regression.py`, which also handles PyTorch's deprecated arguments.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray, vdot

from ....backends.numpy import Array, Namespace
from ....core.shapes import Size
from ....errors import ShapeError, warn
from ....ops import clamp, conj_physical, log, sgn, sigmoid, sign
from ....ops.complex import has_complex_dtype
from ..activation import hardtanh_forward
from ..linear import compute_in_float32
from ..op_decorators import layer
from .reduction import REDUCTIONS, reduction_error

__all__: list[str] = []


class TargetShapeError(ShapeError, ValueError):
    """A target does not have the shape of the input. PyTorch raises a ValueError here."""


def check_same_shape(op: str, input: Array, target: Array, stretch: bool = True) -> None:
    """Warn if the shapes differ and broadcast: samples would be compared with other samples."""
    if input.shape == target.shape:
        return
    shapes = {"input": tuple(input.shape), "target": tuple(target.shape)}
    one_axis = len(input.shape) != len(target.shape) and input.size == target.size
    hint = "target.reshape_as(input)" if one_axis else "give both the same shape"
    if not stretch:
        raise TargetShapeError(op, "input and target must have the same shape", shapes, hint)
    warn(
        f"{op}: Using a target size ({Size(target.shape)}) that is different to the input size "
        f"({Size(input.shape)}). This will likely lead to incorrect results due to broadcasting. "
        f"Please ensure they have the same size. It compares more pairs than meant; {hint}."
    )


@layer(promotion="promote", dtypes="f")
def mse_loss(xp: Namespace, input: Array, target: Array, *, reduction: str = "mean") -> Array:
    """Mean squared error: y = (x - t)², averaged."""
    difference = input - target
    return reduce_array(xp, difference * difference, reduction)


mse_loss.vjp(
    input=lambda g, input, target, reduction: mse_backward(g, input, target, reduction),
    target=lambda g, input, target, reduction: -mse_backward(g, input, target, reduction),
    latex={"input": r"\tfrac{2}{n}\,g\,(x-t)", "target": r"-\tfrac{2}{n}\,g\,(x-t)"},
)


def mse_backward(g: Any, input: Any, target: Any, reduction: str) -> Any:
    difference = input - target
    return g * (difference * (2 / mean_divisor(difference, reduction)))


@layer(promotion="promote", dtypes="fc")
def l1_loss(xp: Namespace, input: Array, target: Array, *, reduction: str = "mean") -> Array:
    """Mean absolute error: y = |x - t|, averaged."""
    return reduce_array(xp, xp.abs(input - target), reduction)


l1_loss.vjp(
    input=lambda g, input, target, reduction: l1_backward(g, input, target, reduction),
    target=lambda g, input, target, reduction: -l1_backward(g, input, target, reduction),
    latex={
        "input": r"\tfrac{g}{n}\,\mathrm{sign}(x-t)",
        "target": r"-\tfrac{g}{n}\,\mathrm{sign}(x-t)",
    },
)


def l1_backward(g: Any, input: Any, target: Any, reduction: str) -> Any:
    difference = input - target
    difference = (
        conj_physical(sgn(difference)) if has_complex_dtype(difference) else sign(difference)
    )
    return g * (difference * (1 / mean_divisor(difference, reduction)))


@layer(promotion="promote", dtypes="f", accumulates=True)
def huber_loss(
    xp: Namespace, input: Array, target: Array, *, reduction: str = "mean", delta: float = 1.0
) -> Array:
    """Huber loss: quadratic up to |d| = δ, then linear: ½d², or δ · (|d| - ½δ)."""
    distance = xp.abs(input - target)
    near = xp.minimum(distance, delta)  # beyond δ the loss is linear in the distance
    return reduce_array(xp, near * (distance - 0.5 * near), reduction)


@layer(promotion="promote", dtypes="f", accumulates=True)
def smooth_l1_loss(
    xp: Namespace, input: Array, target: Array, *, reduction: str = "mean", beta: float = 1.0
) -> Array:
    """Smooth L1 loss: quadratic up to |d| = β, then linear: ½d²/β, or |d| - ½β."""
    distance = xp.abs(input - target)
    near = xp.minimum(distance, beta)
    return reduce_array(xp, near / beta * (distance - 0.5 * near), reduction)


def huber_backward(g: Any, input: Any, target: Any, reduction: str, limit: float) -> Any:
    """The gradient of the Huber loss: the difference, clamped to ±limit."""
    difference = hardtanh_forward(input - target, -limit, limit)
    return g * (difference * (1 / mean_divisor(difference, reduction)))


HUBER_LATEX = r"\tfrac{g}{n}\,\min(\max(x-t,-\delta),\delta)"
huber_loss.vjp(
    input=lambda g, input, target, reduction, delta: huber_backward(
        g, input, target, reduction, delta
    ),
    target=lambda g, input, target, reduction, delta: huber_backward(
        g, target, input, reduction, delta
    ),
    latex={"input": HUBER_LATEX, "target": f"-{HUBER_LATEX}"},
)
SMOOTH_L1_LATEX = r"\tfrac{g}{n\,\beta}\,\min(\max(x-t,-\beta),\beta)"
smooth_l1_loss.vjp(
    input=lambda g, input, target, reduction, beta: (
        huber_backward(g, input, target, reduction, beta) / beta
    ),
    target=lambda g, input, target, reduction, beta: (
        huber_backward(g, target, input, reduction, beta) / beta
    ),
    latex={"input": SMOOTH_L1_LATEX, "target": f"-{SMOOTH_L1_LATEX}"},
)


def reduce_array(xp: Namespace, losses: Array, reduction: str) -> Array:
    """Reduce losses as `reduce_losses` does, on arrays."""
    if reduction == "none":
        return losses
    if reduction not in REDUCTIONS:
        raise reduction_error(reduction)
    is_half = losses.itemsize == 2  # 16-bit floats are accumulated in float32
    total = xp.sum(losses, dtype="float32") if is_half else xp.sum(losses)
    total = total if reduction == "sum" else total / (losses.size or float("nan"))
    return total.astype(losses.dtype) if is_half else total


def mean_divisor(losses: Any, reduction: str) -> int:
    """Return the divisor of a mean, 1 for other reductions."""
    total = 1
    for size in losses.shape if reduction == "mean" else ():
        total *= size
    return total or 1


# Binary cross entropy ------------------------------------------------------------------------


@layer(promotion="same", dtypes="f", public="binary_cross_entropy")
def bce_forward(xp: Namespace, input: Array, target: Array) -> Array:
    """-t · log x - (1 - t) · log(1 - x), each log at least -100."""
    no = (target - 1) * xp.maximum(xp.log1p(-input), -100)
    return no - target * xp.maximum(xp.log(input), -100)


# Where the probability is exactly 0 or 1 the derivative is infinite; the clamp keeps it finite.
bce_forward.vjp(
    input=lambda g, input, target: g * ((input - target) / clamp(input * (1 - input), min=1e-12)),
    target=lambda g, input: g * (clamp(log(1 - input), min=-100) - clamp(log(input), min=-100)),
    latex={"input": r"g\,\tfrac{x-t}{x(1-x)}", "target": r"g\,\log\tfrac{1-x}{x}"},
)


@layer(promotion="promote", dtypes="f", public="binary_cross_entropy_with_logits", accumulates=True)
def bce_with_logits_forward(xp: Namespace, input: Array, target: Array) -> Array:
    """-t · log σ(x) - (1 - t) · log σ(-x) = (1 - t) · x + max(-x, 0) + log(1 + e^-|x|).

    An infinite logit of the right sign has the loss 0: 0 · ∞ is taken as 0.
    """
    if input.itemsize == 2 and target.dtype == input.dtype:
        return compute_in_float32(bce_with_logits_forward.op.forward, xp, input, target)
    far = xp.log1p(xp.exp(-xp.abs(input)))
    y = (1 - target) * input + xp.maximum(-input, 0) + far
    if y.__class__ is ndarray:
        length = vdot(y, y)  # the fastest check for NaN
        if length == length:
            return y

    def straight(weight: Array, x: Array) -> Array:
        is_free = (weight == 0) | ((x <= 0) & (weight == weight))
        return xp.where(is_free, xp.zeros_like(y), weight * x)

    return xp.where(y == y, y, straight(1 - target, input) + straight(target, -input) + far)


@layer(promotion="promote", dtypes="f", public="binary_cross_entropy_with_logits", accumulates=True)
def bce_with_logits_grad(xp: Namespace, input: Array, target: Array) -> Array:
    """(1 - t) · σ(x) - t · σ(-x): the derivative of `bce_with_logits_forward`.

    σ(x) - t would round to 0 for a large x and t = 1, where the derivative is -e^-x.
    """
    if input.itemsize == 2 and target.dtype == input.dtype:
        return compute_in_float32(bce_with_logits_grad.op.forward, xp, input, target)
    small = xp.exp(-xp.abs(input))
    large = 1 / (1 + small)
    small = small * large  # σ(-|x|), beside σ(|x|)
    is_positive = input > 0
    yes, no = xp.where(is_positive, large, small), xp.where(is_positive, small, large)
    return (1 - target) * yes - target * no


bce_with_logits_forward.vjp(
    input=lambda g, input, target: g * bce_with_logits_grad(input, target),
    target=lambda g, input: -g * input,
    latex={"input": r"g\,(\sigma(x)-t)", "target": r"-g\,x"},
)
bce_with_logits_grad.vjp(
    input=lambda g, input: g * (sigmoid(input) * sigmoid(-input)),
    target=lambda g: -g,
    latex={"input": r"g\,\sigma(x)\,\sigma(-x)", "target": "-g"},
)
