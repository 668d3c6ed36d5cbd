"""Regression losses, KL divergence, binary cross entropy and likelihoods.

`size_average` and `reduce` are deprecated forms of `reduction`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....core.composed import composed_in_float32, recorded_as
from ....core.tensor import Tensor
from ....dtypes import int64, result_type
from ....errors import (
    DTypeError,
    EdutorchError,
    InvalidValueError,
    ValueRangeError,
    refuse_complex,
    warn,
)
from ....ops import abs as abs_
from ....ops import any as any_
from ....ops import (
    broadcast_tensors,
    clamp,
    exp,
    full_like,
    log,
    ones_like,
    sum,
    unsqueeze,
    where,
    zeros_like,
)
from ....ops.products import subtract_widened
from . import definitions, reduction
from .classification import PROBABILITY_NODES, warn_of_probabilities
from .definitions import bce_forward, bce_with_logits_forward, kl_div_forward
from .reduction import check_same_shape, reduce_losses, resolve_reduction

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "gaussian_nll_loss", "huber_loss",
    "kl_div", "l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss",
]  # fmt: skip


# Regression ----------------------------------------------------------------------------------


def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Mean squared error: y = (x - t)², averaged.

    Args:
        weight: the weight of each element; a mean is divided by their sum.

    >>> nn.functional.mse_loss(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(2.)
    """
    input, target = broadcast_pair("mse_loss", input, target)
    if reduction != "mean" or size_average is not None or reduce is not None:
        reduction = resolve_reduction(size_average, reduce, reduction)
    if weight is None:
        return definitions.mse_loss(input, target, reduction=reduction)
    return reduce_weighted(
        "mse_loss", definitions.mse_loss(input, target, reduction="none"), weight, reduction
    )


def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Mean absolute error: y = |x - t|, averaged.

    Args: as for `mse_loss`.

    >>> nn.functional.l1_loss(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(1.)
    """
    input, target = broadcast_pair("l1_loss", input, target)
    if reduction != "mean" or size_average is not None or reduce is not None:
        reduction = resolve_reduction(size_average, reduce, reduction)
    if input.dtype.category < 2 and target.dtype.category < 2:  # integer tensors keep their dtype
        losses = abs_(input - target)
        if weight is None:
            return reduce_losses(losses, reduction)
    elif weight is None:
        return definitions.l1_loss(input, target, reduction=reduction)
    else:
        losses = definitions.l1_loss(input, target, reduction="none")
    return reduce_weighted("l1_loss", losses, weight, reduction)


def broadcast_pair(op: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return both in one shape, with a warning if the shapes differ.

    A 0-d tensor is expanded, so that it takes part in type promotion.
    """
    if input._array.shape == target._array.shape:
        return input, target
    if input.shape != target.shape:  # (of a DTensor, the arrays are only parts)
        check_same_shape(op, input, target)
    if min(input.ndim, target.ndim):
        return input, target
    input, target = broadcast_tensors(input, target)
    return input, target


def reduce_weighted(op: str, losses: Tensor, weight: Tensor, reduction: str) -> Tensor:
    """Reduce weighted losses; their mean is Σ w·y / Σ w."""
    check_weight(op, losses, weight)
    return (
        weighted_mean(losses, weight)
        if reduction == "mean"
        else reduce_losses(losses * weight, reduction)
    )


@composed_in_float32
def weighted_mean(losses: Tensor, weight: Tensor) -> Tensor:
    """Σ w·y / Σ w, in float32 for float16, where the sums may overflow."""
    return sum(losses * weight) / sum(weight)


def check_weight(op: str, losses: Tensor, weight: Tensor) -> None:
    if weight.shape != losses.shape:
        shapes = {"input": tuple(losses.shape), "weight": tuple(weight.shape)}
        raise reduction.TargetShapeError(op, "Weights and input must have the same size.", shapes)


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """Smooth L1 loss of the difference d: ½d²/β for |d| < β, else |d| - ½β.

    The second derivative is 1/β at d = 0, and 0 from |d| = β on.

    >>> nn.functional.smooth_l1_loss(tensor([0.0, 0.0]), tensor([1.0, 3.0]))
    tensor(1.5000)
    """
    reduction = resolve_reduction(size_average, reduce, reduction)
    if beta < 0:
        raise InvalidValueError("smooth_l1_loss", f"`beta` must not be negative, got {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    input, target = broadcast_pair("smooth_l1_loss", input, target)
    return definitions.smooth_l1_loss(input, target, reduction=reduction, beta=beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Huber loss of the difference d: ½d² for |d| < δ, else δ · (|d| - ½δ).

    The second derivative is 1 at d = 0, and 0 from |d| = δ on.

    Args:
        weight: the weight of each element.

    >>> nn.functional.huber_loss(tensor([0.0, 0.0]), tensor([1.0, 3.0]))
    tensor(1.5000)
    """
    if delta <= 0:
        raise InvalidValueError("huber_loss", f"`delta` must be positive, got {delta}")
    input, target = broadcast_pair("huber_loss", input, target)
    if weight is None:
        loss = definitions.huber_loss(input, target, reduction=reduction, delta=delta)
    else:
        losses = definitions.huber_loss(input, target, reduction="none", delta=delta)
        check_weight("huber_loss", losses, weight)
        loss = reduce_losses(losses * weight, reduction)
    if loss._array.dtype is input._array.dtype or not input.is_floating_point():
        return loss
    return loss.to(input.dtype)  # a float64 target does not widen it, as in PyTorch


KL_MEAN = (
    "reduction: 'mean' divides the total loss by both the batch size and the support size."
    "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
)


def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """Kullback–Leibler divergence: Σ t · (log t - x), with x already logarithms.

    "batchmean" divides by the number of samples, which is the mathematical definition.

    >>> nn.functional.kl_div(log(tensor([[0.5, 0.5]])), tensor([[1.0, 0.0]]), reduction="sum")
    tensor(0.6931)
    """
    if size_average is None and reduce is None and reduction == "mean":
        warn(KL_MEAN)
    reduction = resolve_reduction(size_average, reduce, reduction)
    refuse_complex("kl_div", input=input, target=target)
    losses = pointwise_kl_div(input, target, log_target)
    if reduction == "batchmean":
        return batch_mean(losses)
    return reduce_losses(losses, reduction)


@composed_in_float32
def batch_mean(losses: Tensor) -> Tensor:
    """Σ y over the number of samples, in float32 for float16, where the sum may overflow."""
    return sum(losses) / (losses.shape[0] if losses.ndim else 1)


def pointwise_kl_div(input: Tensor, target: Tensor, log_target: bool) -> Tensor:
    """t · (log t - x) of each element; 0 · log 0 is 0."""
    if log_target:
        return exp(target) * (target - input)
    return kl_div_forward(input, target)


# Binary cross entropy ------------------------------------------------------------------------


@recorded_as("BinaryCrossEntropyBackward0")
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Binary cross entropy of probabilities: -t · log x - (1 - t) · log(1 - x), logs ≥ -100.

    Raises: ShapeError: different shapes. ValueRangeError: on the CPU, not probabilities.

    >>> nn.functional.binary_cross_entropy(tensor([0.5]), tensor([1.0]))
    tensor(0.6931)
    """
    reduction = resolve_reduction(size_average, reduce, reduction)
    check_same_shape("binary_cross_entropy", input, target, stretch=False)
    if input.device.type == "cpu" and input.numel():  # the check would synchronise a GPU
        hint = (
            "for scores (logits) use binary_cross_entropy_with_logits, "
            "or take torch.sigmoid(input) first"
        )
        check_probabilities("input", input, hint)
        check_probabilities("target", target, "a target is how likely a yes is: 0, 1 or between")
    losses = bce_forward(input, target)
    if weight is None:
        return reduce_losses(losses, reduction)
    wider = result_type(losses, weight) is not losses.dtype and weight.is_floating_point()
    loss = reduce_losses(losses * weight, reduction)
    return (
        loss.to(losses.dtype) if wider else loss
    )  # in the dtype of the input, as without a weight


def check_probabilities(name: str, tensor: Tensor, hint: str) -> None:
    """Raise ValueRangeError unless all elements are between 0 and 1."""
    low, high = tensor._array.min(), tensor._array.max()
    if not (low >= 0 and high <= 1):
        raise ValueRangeError(
            "binary_cross_entropy", f"all elements of {name} should be between 0 and 1",
            {name: f"from {low:g} to {high:g}"}, hint,
        )  # fmt: skip


@recorded_as("BinaryCrossEntropyWithLogitsBackward0")
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Binary cross entropy of logits: the sigmoid is part of the loss, for accuracy.

    `pos_weight` is the weight of positive targets. A logit of ∞ for the target 1 and of -∞ for 0
    has the loss 0 (NaN in PyTorch), and the derivative stays accurate where PyTorch's rounds to 0:
    -exp(-40) at the logit 40 for the target 1.

    Raises: ShapeError: different shapes.

    >>> nn.functional.binary_cross_entropy_with_logits(tensor([0.0]), tensor([1.0]))
    tensor(0.6931)
    """
    reduction = resolve_reduction(size_average, reduce, reduction)
    check_same_shape("binary_cross_entropy_with_logits", input, target, stretch=False)
    if input._node.__class__ in PROBABILITY_NODES:
        warn_of_probabilities(
            "binary_cross_entropy_with_logits", PROBABILITY_NODES[input._node.__class__]
        )
    if not target.is_floating_point():
        raise DTypeError(
            "binary_cross_entropy_with_logits", "the target must be of floating numbers, 0 to 1",
            {"input": input.dtype, "target": target.dtype}, "use target.float()",
        )  # fmt: skip
    if pos_weight is None:
        losses = bce_with_logits_forward(input, target)
    else:
        losses = weighted_logits_loss(input, target, pos_weight)
    return reduce_losses(losses if weight is None else losses * weight, reduction)


@composed_in_float32
def weighted_logits_loss(input: Tensor, target: Tensor, pos_weight: Tensor) -> Tensor:
    """(1 - t) · the loss for the target 0 + w · t · that for the target 1.

    An infinite loss with the factor 0 is left out.
    """
    no, yes = (
        bce_with_logits_forward(input, zeros_like(target)),
        bce_with_logits_forward(input, ones_like(target)),
    )
    no = where((target == 1) & (no == math.inf), 0.0, no)
    yes = where((target == 0) & (yes == math.inf), 0.0, yes)
    return (1 - target) * no + pos_weight * target * yes


# Likelihoods of predicted distributions -------------------------------------------------------


class VarianceError(EdutorchError, ValueError):
    """A variance is negative, or has a shape that does not fit."""


@composed_in_float32
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Gaussian negative log-likelihood: y = ½ · (log σ² + (x - t)² / σ²), averaged.

    Args:
        input: the means.
        var: the variances σ²: one for each mean, for each row, or a single number.
        full: add the constant ½ · log 2π too.
        eps: the minimum of the variance, for stability; the clamp does not affect gradients.

    Raises: VarianceError (a ValueError): a variance is negative, or has another shape.

    Paper: Nix and Weigend, Estimating the mean and variance of the target probability
    distribution, 1994.

    >>> nn.functional.gaussian_nll_loss(tensor([1.0]), tensor([3.0]), tensor([4.0]))
    tensor(1.1931)
    """
    if not isinstance(var, Tensor):
        var = full_like(input, var)
    if var.device.type == "cpu" and any_(var < 0):  # the check would synchronise a GPU
        raise VarianceError("gaussian_nll_loss", "var has negative entry/entries")
    var = align_variance(input, var)
    clamped = var + clamp(eps - var.detach(), min=0)  # with the gradient of var; ∞ stays ∞
    error = subtract_widened(input, target)
    if error.dtype is int64:  # its square may leave the range, too
        error = error.to(clamped.dtype)
    losses = 0.5 * (log(clamped) + error**2 / clamped)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduce_losses(losses, reduction)


def align_variance(input: Tensor, var: Tensor) -> Tensor:
    """Return the variances in a shape that broadcasts with the means."""
    if var.shape == input.shape:
        return var
    if var.shape == input.shape[:-1]:
        return unsqueeze(var, -1)
    if input.ndim == var.ndim and differs_in_one_axis(input.shape, var.shape):
        return var
    raise VarianceError(
        "gaussian_nll_loss", "var is of incorrect size",
        {"input": tuple(input.shape), "var": tuple(var.shape)},
    )  # fmt: skip


def differs_in_one_axis(shape: Sequence[int], other: Sequence[int]) -> bool:
    different = [b for a, b in zip(shape, other, strict=True) if a != b]
    return different == [1]


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
    size_average: bool | None = None, eps: float = 1e-8, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Poisson negative log-likelihood: exp(x) - t · x, or x - t · log(x + ε).

    Args:
        input: the logarithms of the expected counts; the counts if `log_input=False`.
        full: add log t! too, by Stirling's formula, for t > 1.
        size_average, reduce: deprecated forms of `reduction`.
        eps: keeps the logarithm of 0 finite.

    Raises: ShapeError: different shapes that do not broadcast.

    >>> nn.functional.poisson_nll_loss(tensor([0.0]), tensor([3.0]))
    tensor(1.)
    """
    reduction = resolve_reduction(size_average, reduce, reduction)
    losses = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        large_target = where(target > 1, target, 1.0)
        stirling = (
            large_target * log(large_target) - large_target + 0.5 * log(2 * math.pi * large_target)
        )
        losses = losses + where(target > 1, stirling, 0.0).to(losses.dtype)
    return reduce_losses(losses, reduction)
