"""Negative log-likelihood losses of distributions with predicted parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....core.precision import composed_in_float32
from ....core.tensor import Tensor
from ....errors import EdutorchError
from ....ops import any as any_
from ....ops import clamp, exp, full_like, log, unsqueeze, where
from .reduction import reduce_losses, resolve_reduction

__all__ = ["gaussian_nll_loss", "poisson_nll_loss"]


class VarianceError(EdutorchError, ValueError):
    """A variance is negative, or has a shape that does not fit."""


@composed_in_float32
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
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
    clamped = var + (clamp(var, min=eps) - var).detach()  # with the gradient of var
    losses = 0.5 * (log(clamped) + (input - target) ** 2 / clamped)
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
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
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
