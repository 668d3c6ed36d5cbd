"""What all losses share: the reduction to one value, and the check of shapes."""

from __future__ import annotations

from ....backends.numpy import Array, Namespace
from ....core.shapes import Size
from ....core.tensor import Tensor
from ....errors import ShapeError, running_function, warn
from ....ops import mean, sum
from ..op_decorators import ArrayOrTensor, SettingError

__all__: list[str] = []

REDUCTIONS = ("mean", "sum", "none")

LOSSES = (
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss",
    "cross_entropy", "ctc_loss", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss",
    "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
)  # fmt: skip


def reduction_error(reduction: str) -> SettingError:
    return SettingError(
        running_function(LOSSES),
        f"{reduction} is not a valid value for reduction",
        hint=f"use one of {REDUCTIONS}",
    )


def resolve_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Translate PyTorch's deprecated `size_average` and `reduce` into `reduction`, and warn."""
    if size_average is None and reduce is None:
        return (
            translate_elementwise_mean(reduction) if reduction == "elementwise_mean" else reduction
        )
    name = "none" if reduce is False else "sum" if size_average is False else "mean"
    warn(f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.")
    return name


def translate_elementwise_mean(reduction: str) -> str:
    """Translate "elementwise_mean", a former name of "mean", and warn."""
    warn(f"reduction='{reduction}' is deprecated. Please use reduction='mean' instead.")
    return "mean"


def reduce_losses(losses: Tensor, reduction: str) -> Tensor:
    """Reduce the losses of all elements.

    Raises: SettingError (a ValueError): `reduction` is not "mean", "sum" or "none".
    """
    if reduction == "mean":
        return mean(losses)
    if reduction == "sum":
        return sum(losses)
    if reduction != "none":
        raise reduction_error(reduction)
    return losses


class TargetShapeError(ShapeError, ValueError):
    """A target does not have the shape of the input. PyTorch raises a ValueError here."""


def check_same_shape(op: str, input: Tensor, target: Tensor, stretch: bool = True) -> None:
    """Warn if the shapes differ and broadcast: samples would be compared with other samples."""
    if input._array.shape == target._array.shape or input.shape == target.shape:
        return  # (of a DTensor, the array is only a part)
    shapes = {"input": tuple(input.shape), "target": tuple(target.shape)}
    one_axis = len(input.shape) != len(target.shape) and input.numel() == target.numel()
    hint = "target.reshape_as(input)" if one_axis else "give both the same shape"
    if not stretch:
        raise TargetShapeError(op, "input and target must have the same shape", shapes, hint)
    warn(
        f"{op}: Using a target size ({Size(target.shape)}) that is different to the input size "
        f"({Size(input.shape)}). This will likely lead to incorrect results due to broadcasting. "
        f"Please ensure they have the same size. It compares more pairs than meant; {hint}."
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


def mean_divisor(losses: ArrayOrTensor, reduction: str) -> int:
    """Return the divisor of a mean, 1 for other reductions."""
    total = 1
    for size in losses.shape if reduction == "mean" else ():
        total *= size
    return total or 1
