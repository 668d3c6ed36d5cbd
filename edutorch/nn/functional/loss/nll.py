"""The negative log-likelihood loss as an op, and its gradient as another one.

Gathering the target classes and scattering a gradient to them are transposes of each other,
so each op is the derivative of the other.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from .... import backends
from ....backends.numpy import Array, Namespace
from ....core.fast.lazy_gradients import OneHotGradient
from ....core.tensor import Tensor
from ....errors import DimError, DTypeError, ShapeError, running_function
from ....modes import current
from ..op_decorators import layer
from .pointwise import TargetShapeError
from .reduction import LOSSES, REDUCTIONS, reduction_error

__all__: list[str] = []


@layer(dtypes="f", accumulates=True)
def nll_loss(
    xp: Namespace,
    input: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Array:
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
    mean = total if reduction == "sum" else total / mean_divisor(factor, target)
    return mean.astype(input.dtype)


@layer(dtypes="f", public="nll_loss", accumulates=True, node="NllLossBackwardBackward0")
def nll_grad(
    xp: Namespace,
    input: Array,
    target: Any,
    weight: Any,
    shape: tuple[int, ...],
    ignore_index: int,
    reduction: str,
) -> Array:
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
    target, factor = resolve_classes(xp, shape, target, weight, ignore_index)
    values = -g if reduction != "mean" else -g / mean_divisor(factor, target)
    if factor is not None:  # ignored samples get 0, also if all are ignored: 0 / 0
        values = xp.where(factor == 0, xp.zeros_like(values), values * factor.astype(g.dtype))
    return target, values


ONE_HOT_MIN_SIZE = 256
"""For smaller gradients, dense zeros are as fast as a one-hot gradient."""


def nll_backward(
    g: Any, shape: tuple[int, ...], target: Any, weight: Any, ignore_index: int, reduction: str
) -> Any:
    """`nll_grad`; for 2-d inputs as a one-hot gradient, which `log_softmax` can use directly."""
    small = len(shape) != 2 or shape[0] * shape[1] < ONE_HOT_MIN_SIZE
    if small or g.__class__ is not ndarray or current().op_recorder is not None:
        return nll_grad(g, target, weight, shape, ignore_index, reduction)
    xp, target_and_weight = backends.CPU.xp, (unwrap(target), unwrap(weight))
    classes, values = gradient_at_targets(xp, g, shape, *target_and_weight, ignore_index, reduction)
    return OneHotGradient(shape, classes, values, g.dtype)


nll_loss.vjp(
    input=lambda g, input_shape, target, weight, ignore_index, reduction: nll_backward(
        g, input_shape, target, weight, ignore_index, reduction
    ),
    latex=r"-g\,w_t / \textstyle\sum w_t \text{ at the right class}",
)
nll_grad.vjp(
    input=lambda g, target, weight, ignore_index, reduction: nll_loss(
        g, unwrap(target), unwrap(weight), ignore_index=ignore_index, reduction=reduction
    ),
    latex=r"-w_t\,g_t",
)


def unwrap(value: Any) -> Any:
    return value._array if isinstance(value, Tensor) else value


def resolve_classes(
    xp: Namespace, shape: tuple[int, ...], target: Array, weight: Array | None, ignore_index: int
) -> tuple[Array, Array | None]:
    """Return each sample's class and weight (None: all weights are 1).

    Ignored samples get the weight 0 and a valid class.
    """
    classes = shape[0] if len(shape) == 1 else shape[1]
    on_host = xp is backends.CPU.xp
    if on_host and not (0 <= ignore_index < classes) and are_classes(target, classes):
        return target, None if weight is None else weight[target]
    ignored = target == ignore_index
    outside = ((target < 0) | (target >= classes)) & ~ignored
    if on_host and outside.any():
        raise class_error(target[outside].reshape(-1)[0], shape, classes)
    valid = xp.where(ignored | outside, 0, target)
    factor = xp.ones(target.shape, "float32") if weight is None else weight[valid]
    return valid, xp.where(outside, float("nan"), xp.where(ignored, 0, factor))


def are_classes(target: Array, classes: int) -> bool:
    """Return True if all targets are classes.

    One comparison checks both ends: a negative integer, viewed as unsigned, is huge.
    """
    return not target.size or target.view("uint64").max() < classes


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


def mean_divisor(factor: Array | None, target: Array) -> Any:
    """Return the divisor of a mean."""
    if factor is not None:
        return factor.sum()
    return target.size or float("nan")


# Checks -------------------------------------------------------------------------------------


def check_target(input: Array, target: Array, weight: Array | None, reduction: str) -> None:
    """Raise ShapeError, DTypeError or SettingError unless the arguments fit together."""
    if reduction not in REDUCTIONS:
        raise reduction_error(reduction)
    shape = input.shape
    expected = (shape[0], *shape[2:]) if len(shape) > 1 else ()
    if target.shape != expected:
        raise target_shape_error(shape, target.shape, expected)
    if target.dtype != "int64":
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


def target_shape_error(shape: Any, target: Any, expected: Any) -> TargetShapeError:
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


def class_error(target: Any, shape: Any, classes: int) -> DimError:
    hint = f"the classes are 0 to {classes - 1}, one for each column of the input"
    if int(target) == classes:
        hint += "; if yours begin at 1, use target - 1"
    return DimError(
        running_function(LOSSES), f"Target {int(target)} is out of bounds.", {"input": shape}, hint
    )
