"""Classification losses: cross entropy and negative log-likelihood."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import ndarray

from .... import backends
from ....core.composed import composed_in_float32
from ....core.tensor import Tensor
from ....errors import (
    DTypeError,
    EdutorchError,
    InvalidValueError,
    NotForTypesError,
    ShapeError,
    warn,
)
from ....ops import log_softmax, reshape, sigmoid, softmax, sum, where
from ..linear import linear
from . import definitions
from .reduction import TargetShapeError, reduce_losses, resolve_reduction

__all__ = ["cross_entropy", "linear_cross_entropy", "nll_loss"]


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Negative log-likelihood: y = -wₜ · x[t], averaged over Σ wₜ.

    Args:
        input: log-probabilities, classes along axis 1: (n, c) or (n, c, d1, …), or just (c).
        target: the class indices, from 0 to c-1: (n) or (n, d1, …).
        weight: the weight of each class, (c).
        size_average, reduce: deprecated forms of `reduction`.
        ignore_index: a target value that is left out.
        reduction: "mean", "sum" or "none".

    Raises: ShapeError, DTypeError: target does not fit. DimError: a class is out of range (on a
        GPU its loss is NaN, and the error is raised where the program next waits).

    >>> nn.functional.nll_loss(log(tensor([[0.5, 0.5], [0.1, 0.9]])), tensor([0, 1]))
    tensor(0.3993)
    """
    if reduction != "mean" or size_average is not None or reduce is not None:
        reduction = resolve_reduction(size_average, reduce, reduction)
    if input._node.__class__ in PROBABILITY_NODES:
        warn_of_probabilities("nll_loss", PROBABILITY_NODES[input._node.__class__])
    return definitions.nll_loss(
        input, target, weight, ignore_index=ignore_index, reduction=reduction
    )


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Cross entropy of logits and targets: -log softmax(input)[target].

    Args:
        input: the logits of each class along axis 1, before any softmax.
        target: the class indices as int64, or the probability of each class (input's shape).
        weight: the weight of each class.
        size_average, reduce: deprecated forms of `reduction`.
        ignore_index: a target value that is left out.
        reduction: "mean", "sum" or "none".
        label_smoothing: the part of each target that is spread over all classes.

    Raises: ShapeError, DTypeError: the target does not fit. DimError: a class is out of range.

    >>> nn.functional.cross_entropy(tensor([[0.0, 0.0]]), tensor([1]))
    tensor(0.6931)
    """
    if reduction != "mean" or size_average is not None or reduce is not None:
        reduction = resolve_reduction(size_average, reduce, reduction)
    if input._node.__class__ in PROBABILITY_NODES:
        warn_of_probabilities("cross_entropy", PROBABILITY_NODES[input._node.__class__])
    shape = input._array.shape
    if not shape:
        raise ShapeError("cross_entropy", "`input` has no axis of classes", {"input": shape})
    axis = 0 if len(shape) == 1 else 1
    if not 0 <= label_smoothing <= 1:
        text = f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
        raise InvalidValueError("cross_entropy", text)
    if target._array.dtype.kind in "fV":  # V: bfloat16
        if target._array.shape != shape:
            raise float_target_error(input, target)
        if ignore_index >= 0:
            text = "ignore_index is not supported for floating point target"
            raise InvalidValueError("cross_entropy", text, {"ignore_index": ignore_index})
        return soft_cross_entropy(input, target, weight, axis, reduction, label_smoothing)
    if input._array.__class__ is not ndarray and has_fused_kernel(input, label_smoothing):
        return definitions.fused_cross_entropy(
            input, target, weight, ignore_index=ignore_index, reduction=reduction
        )[0]
    scores = log_softmax(input, axis)
    dtype = target._array.dtype
    if dtype is not INT64 and dtype != INT64 and dtype.kind in "iu":
        raise DTypeError(
            "cross_entropy", "expected scalar type Long for the target's classes",
            {"input": input.dtype, "target": target.dtype}, "use target.long()",
        )  # fmt: skip
    loss = definitions.nll_loss(
        scores, target, weight, ignore_index=ignore_index, reduction=reduction
    )
    if not label_smoothing:
        return loss
    smooth = uniform_loss(scores, target, weight, ignore_index, reduction, axis)
    return (1 - label_smoothing) * loss + (label_smoothing / max(shape[axis], 1)) * smooth


INT64 = np.dtype(np.int64)


def has_fused_kernel(input: Tensor, label_smoothing: float) -> bool:
    """Whether a kernel of another device computes the loss of (n, classes) without a softmax."""
    array = input._array
    if array.ndim != 2 or label_smoothing:
        return False
    return bool(backends.of(array).kernels)


PROBABILITY_NODES = {softmax.op.node_type: "softmax", sigmoid.op.node_type: "sigmoid"}
"""The activations that turn logits into probabilities, by their autograd node."""


def warn_of_probabilities(loss: str, source: str) -> None:
    """Warn that a loss got probabilities instead of logits: it runs, but learns badly."""
    expectation = {
        "nll_loss": "expects log-probabilities: use log_softmax, or cross_entropy of the scores",
    }.get(loss, "expects scores (logits), as they leave the last layer: leave that out")
    warn(f"{loss}: `input` comes from {source}, but {loss} {expectation}")


def float_target_error(input: Tensor, target: Tensor) -> EdutorchError:
    if input.ndim > 1 and target.shape[:1] not in ((), input.shape[:1]):
        return TargetShapeError(
            "cross_entropy", f"Expected input batch_size ({input.shape[0]}) to match target "
            f"batch_size ({target.shape[0]}).",
            {"input": tuple(input.shape), "target": tuple(target.shape)},
        )  # fmt: skip
    hint = "class numbers must be integers: target.long()"
    error_class: type[EdutorchError] = DTypeError
    if not input.is_floating_point():
        error_class, hint = NotForTypesError, "the scores come first: cross_entropy(scores, target)"
    return error_class(
        "cross_entropy",
        "expected scalar type Long: floating targets are probabilities, of the input's shape",
        {"input": f"{tuple(input.shape)} {input.dtype}",
         "target": f"{tuple(target.shape)} {target.dtype}"},
        hint,
    )  # fmt: skip


def class_weights(weight: Tensor | None, ndim: int, axis: int) -> Any:
    """Shape the weights so that they broadcast along the axis of classes."""
    if weight is None:
        return 1.0
    return reshape(weight, (-1,) + (1,) * (ndim - axis - 1))


@composed_in_float32
def uniform_loss(
    scores: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str,
    axis: int,
) -> Tensor:  # fmt: skip
    """The cross entropy with a uniform target, over the samples that are not ignored."""
    losses = -sum(scores * class_weights(weight, scores.ndim, axis), axis)
    counts = target != ignore_index
    losses = where(counts, losses, 0.0)
    if reduction != "mean":
        return reduce_losses(losses, reduction)
    if weight is None:
        return sum(losses) / sum(counts)
    inside = where(counts, target, 0)
    return sum(losses) / sum(where(counts, weight[inside], 0.0))


@composed_in_float32
def soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, axis: int, reduction: str,
    smoothing: float,
) -> Tensor:  # fmt: skip
    """Cross entropy with probabilities as targets: -Σ p · log q, averaged over the samples."""
    scores = log_softmax(input, axis)
    classes = scores._array.shape[axis]
    if smoothing:
        target = target * (1 - smoothing) + smoothing / max(classes, 1)
    losses = -sum(scores * target * class_weights(weight, scores.ndim, axis), axis)
    return reduce_losses(losses, reduction)


@composed_in_float32
def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: object = None,
) -> Tensor:  # fmt: skip
    """The cross entropy of a linear layer's outputs: cross_entropy(x Wᵀ + b, target).

    Args:
        input: features, (n, k) or (k).
        linear_weight: (c, k), or (c, d1, …, k) for scores (n, c, d1, …).
        linear_bias: (c), or (c, d1, …).
        options: PyTorch's memory options, which have no effect here.

    Raises: ShapeError: the shapes do not fit, or `ignore_index` with probabilities.

    >>> x, weight = tensor([[1.0, 2.0]]), zeros(2, 2)
    >>> nn.functional.linear_cross_entropy(x, weight, tensor([1]))
    tensor(0.6931)
    """
    shapes = {"input": tuple(input.shape), "linear_weight": tuple(linear_weight.shape)}
    if input.ndim not in (1, 2) or linear_weight.ndim < 2:
        raise ShapeError(
            "linear_cross_entropy", "expected features (n, k) or (k) and a weight (c, …, k)", shapes
        )
    classes, *trailing, features = linear_weight.shape
    if trailing and input.ndim == 1:
        raise ShapeError("linear_cross_entropy", "such a weight needs a batch (n, k)", shapes)
    if linear_bias is not None and tuple(linear_bias.shape) != (classes, *trailing):
        shapes["linear_bias"] = tuple(linear_bias.shape)
        raise ShapeError("linear_cross_entropy", "the bias has not the weight's shape", shapes)
    if options is not None:
        warn("linear_cross_entropy: `options` ignored: the scores are computed at once")
    rows = reshape(linear_weight, (math.prod(trailing, start=classes), features))
    bias = None if linear_bias is None else reshape(linear_bias, (-1,))
    shape = (*input.shape[:-1], classes, *trailing)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise ShapeError(
            "linear_cross_entropy",
            "ignore_index cannot be specified when target contains probabilities",
        )
    return cross_entropy(
        reshape(linear(input, rows, bias), shape), target, weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction, label_smoothing=label_smoothing,
    )  # fmt: skip
