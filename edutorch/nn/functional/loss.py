"""How wrong a prediction is, as one number to make small."""

from __future__ import annotations

from typing import Any

from ...backends.numpy import Array
from ...core.tensor import Tensor
from ...errors import DTypeError, ShapeError, ValueRangeError, warn
from ...ops import abs as abs_
from ...ops import exp, log, log_softmax, mean, reshape, sigmoid, sign, sum, where
from .layer import layer
from .nll import REDUCTIONS, nll_loss, no_such_reduction

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "huber_loss",
    "kl_div", "l1_loss", "mse_loss", "nll_loss", "smooth_l1_loss",
]  # fmt: skip


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """Combine the losses of all elements.

    Raises: SettingError (a ValueError): `reduction` is not "mean", "sum" or "none".
    """
    if reduction == "mean":
        return mean(losses)
    if reduction == "sum":
        return sum(losses)
    if reduction != "none":
        raise no_such_reduction("loss", reduction)
    return losses


# Classes -------------------------------------------------------------------------------------


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """How surprised the scores are by the right class: -log softmax(input)[target].

    Args:
        input: scores (logits) of each class along axis 1, not yet through a softmax.
        target: the right classes as int64, or the probability of each class (input's shape).
        weight: how much each class counts.
        ignore_index: a target that does not count.
        reduction: "mean", "sum" or "none".
        label_smoothing: the part of each target that is spread over all classes.

    Raises: ShapeError, DTypeError: the target does not fit. DimError: there is no such class.

    >>> nn.functional.cross_entropy(tensor([[0.0, 0.0]]), tensor([1]))
    tensor(0.6931)
    """
    shape = input._array.shape
    if not shape:
        raise ShapeError("cross_entropy", "`input` has no axis of classes", {"input": shape})
    axis = 0 if len(shape) == 1 else 1
    if target._array.dtype.kind == "f":
        if target._array.shape != shape:
            raise float_classes(input, target)
        scores = log_softmax(input, axis)
        return soft_cross_entropy(scores, target, weight, axis, reduction, label_smoothing)
    scores = log_softmax(input, axis)
    if target._array.dtype != "int64" and target._array.dtype.kind in "iu":
        raise DTypeError(
            "cross_entropy", "expected scalar type Long for the target's classes",
            {"input": input.dtype, "target": target.dtype}, "use target.long()",
        )  # fmt: skip
    loss = nll_loss(scores, target, weight, ignore_index=ignore_index, reduction=reduction)
    if not label_smoothing:
        return loss
    smooth = smooth_loss(scores, target, weight, ignore_index, reduction, axis)
    return (1 - label_smoothing) * loss + (label_smoothing / shape[axis]) * smooth


def float_classes(input: Tensor, target: Tensor) -> DTypeError:
    return DTypeError(
        "cross_entropy",
        "expected scalar type Long: floating targets are probabilities, of the input's shape",
        {"input": f"{tuple(input.shape)} {input.dtype}",
         "target": f"{tuple(target.shape)} {target.dtype}"},
        "class numbers must be integers: target.long()",
    )  # fmt: skip


def class_weights(weight: Tensor | None, ndim: int, axis: int) -> Any:
    """Shape the weights so that they broadcast along the axis of classes."""
    if weight is None:
        return 1.0
    return reshape(weight, (-1,) + (1,) * (ndim - axis - 1))


def smooth_loss(
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    axis: int,
) -> Tensor:
    """The loss if every class were equally right, over the samples that count."""
    losses = -sum(scores * class_weights(weight, scores.ndim, axis), axis)
    counts = target != ignore_index
    losses = where(counts, losses, 0.0)
    if reduction != "mean":
        return reduced(losses, reduction)
    if weight is None:
        return sum(losses) / sum(counts)
    inside = where(counts, target, 0)
    return sum(losses) / sum(where(counts, weight[inside], 0.0))


def soft_cross_entropy(
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None,
    axis: int,
    reduction: str,
    smoothing: float,
) -> Tensor:
    """Targets are probabilities: -Σ p · log q, averaged over the samples."""
    classes = scores._array.shape[axis]
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    losses = -sum(scores * target * class_weights(weight, scores.ndim, axis), axis)
    return reduced(losses, reduction)


# Numbers -------------------------------------------------------------------------------------


def same_shape(op: str, input: Array, target: Array, stretch: bool = True) -> None:
    """Warn of shapes that only broadcast: then each sample is compared with each other one."""
    if input.shape == target.shape:
        return
    shapes = {"input": input.shape, "target": target.shape}
    one_axis = len(input.shape) != len(target.shape) and input.size == target.size
    hint = "target.reshape_as(input)" if one_axis else "give both the same shape"
    if not stretch:
        raise ShapeError(op, "input and target must have the same shape", shapes, hint)
    warn(
        f"{op}: Using a target size ({tuple(target.shape)}) that is different to the input size "
        f"({tuple(input.shape)}). Broadcasting them compares more pairs than meant; {hint}."
    )


@layer(promotion="promote")
def mse_loss(xp: Any, input: Array, target: Array, *, reduction: str = "mean") -> Array:
    """The squared difference: y = (x - t)², averaged.

    >>> nn.functional.mse_loss(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(2.)
    """
    same_shape("mse_loss", input, target)
    difference = input - target
    return combined(xp, difference * difference, reduction)


mse_loss.vjp(
    input=lambda g, input, target, reduction: squares(g, input, target, reduction),
    target=lambda g, input, target, reduction: -squares(g, input, target, reduction),
    latex={"input": r"\tfrac{2}{n}\,g\,(x-t)", "target": r"-\tfrac{2}{n}\,g\,(x-t)"},
)


def squares(g: Any, input: Any, target: Any, reduction: str) -> Any:
    difference = input - target
    return g * (difference * (2 / count(difference, reduction)))


@layer(promotion="promote")
def l1_loss(xp: Any, input: Array, target: Array, *, reduction: str = "mean") -> Array:
    """The distance: y = |x - t|, averaged.

    >>> nn.functional.l1_loss(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(1.)
    """
    same_shape("l1_loss", input, target)
    return combined(xp, xp.abs(input - target), reduction)


l1_loss.vjp(
    input=lambda g, input, target, reduction: signs(g, input, target, reduction),
    target=lambda g, input, target, reduction: -signs(g, input, target, reduction),
    latex={
        "input": r"\tfrac{g}{n}\,\mathrm{sign}(x-t)",
        "target": r"-\tfrac{g}{n}\,\mathrm{sign}(x-t)",
    },
)


def signs(g: Any, input: Any, target: Any, reduction: str) -> Any:
    difference = sign(input - target)
    return g * (difference * (1 / count(difference, reduction)))


def combined(xp: Any, losses: Array, reduction: str) -> Array:
    """The same as `reduced`, on arrays."""
    if reduction == "none":
        return losses
    if reduction not in REDUCTIONS:
        raise no_such_reduction("loss", reduction)
    total = xp.sum(losses)
    return total if reduction == "sum" else total / (losses.size or float("nan"))


def count(losses: Any, reduction: str) -> int:
    """Return what a mean divides by, 1 for the others."""
    total = 1
    for size in losses.shape if reduction == "mean" else ():
        total *= size
    return total or 1


def smooth_l1_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """Squared for small differences d, straight for large ones: ½d²/β, or |d| - ½β.

    >>> nn.functional.smooth_l1_loss(tensor([0.0, 0.0]), tensor([1.0, 3.0]))
    tensor(1.5000)
    """
    if beta < 0:
        raise ValueError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    return huber_loss(input, target, reduction=reduction, delta=beta) / beta


def huber_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", delta: float = 1.0
) -> Tensor:
    """Squared for small differences d, straight for large ones: ½d², or δ·(|d| - ½δ).

    >>> nn.functional.huber_loss(tensor([0.0, 0.0]), tensor([1.0, 3.0]))
    tensor(1.5000)
    """
    if delta <= 0:
        raise ValueError("huber_loss does not support non-positive values for delta.")
    same_shape("huber_loss", input._array, target._array)
    distance = abs_(input - target)
    losses = where(distance < delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta))
    return reduced(losses, reduction)


def kl_div(
    input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """How far probabilities are from others: Σ t · (log t - x), x being logarithms already.

    "batchmean" divides by the number of samples, which is the mathematical definition.

    >>> nn.functional.kl_div(log(tensor([[0.5, 0.5]])), tensor([[1.0, 0.0]]), reduction="sum")
    tensor(0.6931)
    """
    if log_target:
        losses = exp(target) * (target - input)
    else:
        zero = target == 0
        losses = where(zero, 0.0, target * (log(where(zero, 1.0, target)) - input))
    if reduction == "batchmean":
        return sum(losses) / input.shape[0]
    return reduced(losses, reduction)


# Yes or no -----------------------------------------------------------------------------------


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """For probabilities x of "yes": -t · log x - (1 - t) · log(1 - x), each log at least -100.

    Raises: ShapeError: different shapes. ValueRangeError: on the CPU, not probabilities.

    >>> nn.functional.binary_cross_entropy(tensor([0.5]), tensor([1.0]))
    tensor(0.6931)
    """
    same_shape("binary_cross_entropy", input._array, target._array, stretch=False)
    if input.device.type == "cpu" and input.numel():  # looking would make a GPU wait
        low, high = input._array.min(), input._array.max()
        if low < 0 or high > 1:
            raise ValueRangeError(
                "binary_cross_entropy",
                "all elements of input should be between 0 and 1",
                {"input": f"from {low:g} to {high:g}"},
                "for scores (logits) use binary_cross_entropy_with_logits, "
                "or take torch.sigmoid(input) first",
            )
    losses = -(target * log(input).clamp(min=-100) + (1 - target) * log(1 - input).clamp(min=-100))
    return reduced(losses if weight is None else losses * weight, reduction)


@layer(promotion="promote")
def logits_loss(xp: Any, input: Array, target: Array) -> Array:
    """-t · log σ(x) - (1 - t) · log σ(-x), written as max(x, 0) - x·t + log(1 + e^-|x|)."""
    return xp.maximum(input, 0) - input * target + xp.log1p(xp.exp(-xp.abs(input)))


logits_loss.vjp(
    input=lambda g, input, target: g * (sigmoid(input) - target),
    target=lambda g, input: -g * input,
    latex={"input": r"g\,(\sigma(x)-t)", "target": r"-g\,x"},
)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """The same for scores (logits): the sigmoid is part of the loss, which keeps it exact.

    `pos_weight` is how much more a "yes" counts.

    Raises: ShapeError: different shapes.

    >>> nn.functional.binary_cross_entropy_with_logits(tensor([0.0]), tensor([1.0]))
    tensor(0.6931)
    """
    same_shape("binary_cross_entropy_with_logits", input._array, target._array, stretch=False)
    losses = logits_loss(input, target)
    if pos_weight is not None:
        # A "yes" has the loss -log σ(x), which is the loss of the target 1.
        yes = logits_loss(input, target * 0 + 1)
        losses = losses + (pos_weight - 1) * target * yes
    return reduced(losses if weight is None else losses * weight, reduction)
