"""Losses as ops: the formulas, and their derivatives.

The public functions are in `classification.py` and `regression.py`, which also handle PyTorch's
deprecated arguments. In the negative log-likelihood, gathering the target classes and scattering
a gradient to them are transposes of each other, so each op is the derivative of the other.
"""

from __future__ import annotations

import functools
from typing import Any

from numpy import ndarray, vdot

from .... import backends, dtypes
from ....backends.numpy import Array, Namespace
from ....backends.pending_checks import check_later
from ....core.fast.lazy_gradients import OneHotGradient
from ....core.precision import to_float32
from ....core.tensor import Tensor
from ....errors import DimError, DTypeError, ShapeError, running_function
from ....modes import current
from ....ops import clamp, conj_physical, exp, log, log_softmax, sgn, sigmoid, sign, where
from ....ops import sum as total
from ....ops.complex import has_complex_dtype
from ....ops.gather_scatter import is_below
from ..activation import hardtanh_forward
from ..op_decorators import ArrayOrTensor, Shape, activation, compute_in_float32, layer
from .reduction import (
    LOSSES,
    REDUCTIONS,
    TargetShapeError,
    mean_divisor,
    reduce_array,
    reduction_error,
)


@layer(dtypes="f", accumulates=True)
def nll_loss(
    xp: Namespace, input: Array, target: Array, weight: Array | None = None, *,
    ignore_index: int = -100, reduction: str = "mean",
) -> Array:  # fmt: skip
    """Negative log-likelihood: see `classification.nll_loss`."""
    check_target(input, target, weight, reduction)
    target, factor = resolve_classes(xp, input.shape, target, weight, ignore_index)
    picked = input[target_index(xp, input.shape, target)]
    losses = -picked if factor is None else -picked * factor.astype(picked.dtype)
    if factor is not None:
        losses = xp.where(factor == 0, 0, losses)  # an ignored -inf counts 0, not NaN
    if reduction == "none":
        return losses
    total = losses.sum()
    mean = total if reduction == "sum" else total / total_weight(factor, target)
    return mean if mean.dtype == input.dtype else mean.astype(input.dtype)


@layer(dtypes="f", public="nll_loss", accumulates=True, node="NllLossBackwardBackward0")
def nll_grad(
    xp: Namespace, input: Array, target: ArrayOrTensor, weight: ArrayOrTensor | None,
    shape: tuple[int, ...], ignore_index: int, reduction: str,
) -> Array:  # fmt: skip
    """Zeros of `shape` with minus the (weighted, averaged) gradients at the target classes."""
    y = xp.zeros(shape, input.dtype)
    target_and_weight = unwrap(target), unwrap(weight)
    target, values = gradient_at_targets(
        xp, input, shape, *target_and_weight, ignore_index, reduction
    )
    y[target_index(xp, shape, target)] = values
    return y


def gradient_at_targets(
    xp: Namespace, g: Array, shape: tuple[int, ...], target: Array, weight: Array | None,
    ignore_index: int, reduction: str,
) -> tuple[Array, Array]:  # fmt: skip
    """Return the class of each sample, and the value of the gradient there."""
    target, factor = resolve_classes(xp, shape, target, weight, ignore_index, reports=False)
    values = -g if reduction != "mean" else -g / total_weight(factor, target)
    if factor is not None:  # ignored samples get 0, also if all are ignored: 0 / 0
        values = xp.where(factor == 0, xp.zeros_like(values), values * factor.astype(g.dtype))
    return target, values


ONE_HOT_MIN_SIZE = 256
"""For smaller gradients, dense zeros are as fast as a one-hot gradient."""


def nll_backward(
    g: ArrayOrTensor, input_shape: Shape, target: ArrayOrTensor, weight: ArrayOrTensor | None,
    ignore_index: int, reduction: str,
) -> Any:  # fmt: skip
    """`nll_grad`; for 2-d inputs as a one-hot gradient, which `log_softmax` can use directly."""
    small = len(input_shape) != 2 or input_shape[0] * input_shape[1] < ONE_HOT_MIN_SIZE
    if small or g.__class__ is not ndarray or current().op_recorder is not None:
        return nll_grad(g, target, weight, input_shape, ignore_index, reduction)
    xp, target_and_weight = backends.CPU.xp, (unwrap(target), unwrap(weight))
    classes, values = gradient_at_targets(
        xp, g, input_shape, *target_and_weight, ignore_index, reduction
    )
    return OneHotGradient(input_shape, classes, values, g.dtype)


nll_loss.vjp(
    input=nll_backward,
    latex=r"-g\,w_t / \textstyle\sum w_t \text{ at the right class}",
)


nll_grad.vjp(
    input=lambda g, target, weight, ignore_index, reduction: nll_loss(
        g, unwrap(target), unwrap(weight), ignore_index=ignore_index, reduction=reduction
    ),
    latex=r"-w_t\,g_t",
)


@layer(
    dtypes="f", public="cross_entropy", node="NllLossBackward0",
    outputs=("loss", "statistics", "divisor"),
)  # fmt: skip
def fused_cross_entropy(
    xp: Namespace, input: Array, target: Array, weight: Array | None = None, *,
    ignore_index: int = -100, reduction: str = "mean",
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Cross entropy of (n, classes) in one op, for devices with a kernel that keeps no softmax.

    Also returns each row's maximum and the logarithm of its sum, and the divisor of the mean.
    """
    scores = log_softmax.op.forward(xp, input, 1)
    loss = nll_loss.op.forward(
        xp, scores, target, weight, ignore_index=ignore_index, reduction=reduction
    )
    wide = to_float32(input)
    peak = xp.max(wide, axis=1, keepdims=True)
    logs = xp.log(xp.sum(xp.exp(wide - peak), axis=1, keepdims=True))
    target, factor = resolve_classes(xp, input.shape, target, weight, ignore_index)
    divisor = xp.ones((), wide.dtype)
    if reduction == "mean":
        divisor = divisor * total_weight(factor, target)
    return loss, xp.concatenate([peak, logs], 1), divisor.astype(wide.dtype)


def fused_cross_entropy_backward(
    g: ArrayOrTensor, input: ArrayOrTensor, target: ArrayOrTensor, weight: ArrayOrTensor | None,
    ignore_index: int, reduction: str,
) -> Any:  # fmt: skip
    """The rules of `nll_loss` and `log_softmax`, one after the other."""
    scores = log_softmax(input, 1)
    spread = nll_grad(g, target, weight, input.shape, ignore_index, reduction)
    return spread - exp(scores) * total(spread, 1, True)


fused_cross_entropy.vjp(
    input=lambda g, input, target, weight, statistics, divisor, ignore_index, reduction: (
        fused_cross_entropy_backward(g, input, target, weight, ignore_index, reduction)
    ),
    latex=r"\tfrac{g\,w_t}{\sum w_t}\,(\operatorname{softmax}(x) - 1_t)",
)


def unwrap(value: ArrayOrTensor) -> Any:
    return value._array if isinstance(value, Tensor) else value


def resolve_classes(
    xp: Namespace, shape: tuple[int, ...], target: Array, weight: Array | None, ignore_index: int,
    reports: bool = True,
) -> tuple[Array, Array | None]:  # fmt: skip
    """Return each sample's class and weight (None: all weights are 1).

    Ignored samples get the weight 0 and a valid class.

    Args:
        reports: whether a device reports a class that does not exist; it was, in the forward.
    """
    classes = shape[0] if len(shape) == 1 else shape[1]
    on_host = xp is backends.CPU.xp
    if on_host and not (0 <= ignore_index < classes) and is_below(target, classes):
        return target, None if weight is None else weight[target]
    ignored = target == ignore_index
    outside = ((target < 0) | (target >= classes)) & ~ignored
    if on_host and outside.any():
        raise class_error(target[outside].reshape(-1)[0], shape, classes)
    if reports:
        check_classes(xp, shape, target, ignored)
    valid = xp.where(ignored | outside, 0, target)
    factor = xp.ones(target.shape, "float32") if weight is None else weight[valid]
    return valid, xp.where(outside, float("nan"), xp.where(ignored, 0, factor))


def check_classes(xp: Namespace, shape: tuple[int, ...], target: Array, ignored: Array) -> None:
    """Let a device that works beside the host check that all targets are classes, or ignored."""
    backend, classes = backends.of(target), shape[0] if len(shape) == 1 else shape[1]
    if backend.checks_later and target.size and classes:
        inside = xp.where(ignored, 0, target)
        name = running_function(LOSSES)
        error = functools.partial(class_error, shape=shape, classes=classes, op=name)
        check_later(backend, name, inside, 0, classes - 1, error)


def target_index(xp: Namespace, shape: tuple[int, ...], target: Array) -> tuple[Any, ...]:
    """Return the index of the target class of each sample."""
    if len(shape) == 1:
        return (target,)
    if len(shape) == 2:
        return xp.arange(shape[0]), target
    grid = [
        xp.arange(size).reshape((-1,) + (1,) * (target.ndim - axis - 1))
        for axis, size in enumerate(target.shape)
    ]
    return (grid[0], target, *grid[1:])


def total_weight(factor: Array | None, target: Array) -> Any:
    """Return the divisor of a mean."""
    if factor is not None:
        return factor.sum()
    return target.size or float("nan")


# Checks ---------------------------------------------------------------------------------------


def check_target(input: Array, target: Array, weight: Array | None, reduction: str) -> None:
    """Raise ShapeError, DTypeError or SettingError unless the arguments fit together."""
    if reduction not in REDUCTIONS:
        raise reduction_error(reduction)
    shape = input.shape
    expected = (shape[0], *shape[2:]) if len(shape) > 1 else ()
    if target.shape != expected:
        raise target_shape_error(shape, target.shape, expected)
    if target.dtype != dtypes.int64.numpy:
        hint = "classes are integers: use target.long()"
        raise DTypeError(
            running_function(LOSSES), "expected the target's classes as int64",
            {"input": input.dtype, "target": target.dtype}, hint,
        )  # fmt: skip
    if weight is not None and weight.dtype != input.dtype:
        raise DTypeError(
            running_function(LOSSES), "`weight` needs the dtype of the input",
            {"input": input.dtype, "weight": weight.dtype}, "weight.to(input.dtype)",
        )  # fmt: skip
    if weight is not None and weight.shape != shape[min(1, len(shape) - 1) :][:1]:
        raise ShapeError(
            running_function(LOSSES), "`weight` needs one number for each class",
            {"input": shape, "weight": weight.shape},
        )  # fmt: skip


def target_shape_error(shape: Shape, target: Shape, expected: Shape) -> TargetShapeError:
    hint = None
    if target == (*expected, 1):
        hint = "the target has an axis too many: target.squeeze(-1)"
    elif target == tuple(shape):
        hint = "a row of numbers for each sample: target.argmax(1) gives the classes"
    elif target[:1] == shape[1:2] == expected[:1]:
        hint = "the classes come along axis 1 of the input"
    elif len(shape) > 2 and shape[-1:] and target == shape[:-1]:
        hint = "the classes come along axis 1 of the input: input.permute(0, -1, …)"
    elif shape and target and shape[0] != target[0]:
        hint = "input and target must have the same number of samples"
    return TargetShapeError(
        running_function(LOSSES),
        f"expected a target of shape {tuple(expected)}, one class for each sample",
        {"input": shape, "target": target},
        hint,
    )


def class_error(target: int, shape: Shape, classes: int, op: str | None = None) -> DimError:
    hint = f"the classes are 0 to {classes - 1}, one for each column of the input"
    if int(target) == classes:
        hint += "; if yours begin at 1, use target - 1"
    return DimError(
        op or running_function(LOSSES),
        f"Target {int(target)} is out of bounds.",
        {"input": shape},
        hint,
    )


# Pointwise losses -----------------------------------------------------------------------------


@layer(promotion="promote", dtypes="f")
def mse_loss(xp: Namespace, input: Array, target: Array, *, reduction: str = "mean") -> Array:
    """Mean squared error: y = (x - t)², averaged."""
    difference = input - target
    return reduce_array(xp, difference * difference, reduction)


def mse_backward(
    g: ArrayOrTensor, input: ArrayOrTensor, target: ArrayOrTensor, reduction: str
) -> Any:
    difference = input - target
    return g * (difference * (2 / mean_divisor(difference, reduction)))


mse_loss.vjp(
    input=mse_backward,
    target=lambda g, input, target, reduction: -mse_backward(g, input, target, reduction),
    latex={"input": r"\tfrac{2}{n}\,g\,(x-t)", "target": r"-\tfrac{2}{n}\,g\,(x-t)"},
)


@layer(promotion="promote", dtypes="fc")
def l1_loss(xp: Namespace, input: Array, target: Array, *, reduction: str = "mean") -> Array:
    """Mean absolute error: y = |x - t|, averaged."""
    return reduce_array(xp, xp.abs(input - target), reduction)


def l1_backward(
    g: ArrayOrTensor, input: ArrayOrTensor, target: ArrayOrTensor, reduction: str
) -> Any:
    difference = input - target
    difference = (
        conj_physical(sgn(difference)) if has_complex_dtype(difference) else sign(difference)
    )
    return g * (difference * (1 / mean_divisor(difference, reduction)))


l1_loss.vjp(
    input=l1_backward,
    target=lambda g, input, target, reduction: -l1_backward(g, input, target, reduction),
    latex={
        "input": r"\tfrac{g}{n}\,\mathrm{sign}(x-t)",
        "target": r"-\tfrac{g}{n}\,\mathrm{sign}(x-t)",
    },
)


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


def huber_backward(
    g: ArrayOrTensor, input: ArrayOrTensor, target: ArrayOrTensor, reduction: str, limit: float
) -> Any:
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


# Kullback–Leibler divergence ------------------------------------------------------------------


@activation(scalars="", public="kl_div", node="SubBackward0", out=False)
def kl_div_forward(xp: Namespace, input: Array, target: Array) -> Array:
    """t · (log t - x), and 0 for t = 0: 0 · log 0 is 0."""
    some = target != 0
    return xp.where(some, target * (xp.log(xp.where(some, target, 1)) - input), 0)


kl_div_forward.vjp(
    input=lambda g, target: where(target != 0, -(g * target), 0.0),
    target=lambda g, input, target: where(
        target != 0, g * (log(where(target != 0, target, 1.0)) + 1 - input), 0.0
    ),
    latex={"input": r"-g\,t", "target": r"g\,(\log t + 1 - x)"},
)


# Binary cross entropy -------------------------------------------------------------------------


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


@activation(
    promotion="promote", scalars="", public="binary_cross_entropy_with_logits", accumulates=True,
    out=False,
)  # fmt: skip
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


@activation(
    promotion="promote", scalars="", public="binary_cross_entropy_with_logits", accumulates=True,
    out=False,
)  # fmt: skip
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
