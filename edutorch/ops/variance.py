"""Variance and standard deviation, with PyTorch's signatures."""

from __future__ import annotations

import math
from typing import Any

import numpy

from .. import dtypes
from ..backends.numpy import Array
from ..core.composed import as_method, recorded_as, takes_out, with_aliases
from ..core.precision import is_half, widen
from ..core.tensor import Tensor
from ..errors import ArgumentError
from . import statistics
from .elementwise import safe_sqrt
from .reduction import Dims, mean

__all__ = ["std", "std_mean", "var", "var_mean"]


@as_method
@takes_out
def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """The variance: the mean squared distance from the mean, over n - correction.

    Args:
        correction: subtracted from n; by default 1, Bessel's correction.
        unbiased: the older form: False means correction 0. It may be given in place of `dim`.

    >>> var(tensor([1.0, 2.0, 3.0])), var(tensor([1.0, 3.0]), unbiased=False)
    (tensor(1.), tensor(1.))
    """
    dim, correction = read_correction("var", dim, unbiased, correction)
    return statistics.var(input, dim, keepdim, correction=correction)


@as_method
@takes_out
@recorded_as("StdBackward0")
def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """The standard deviation: the square root of the variance (see `var`).

    Where it is 0, a kink, the gradient is taken as 0.

    >>> std(tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    dim, correction = read_correction("std", dim, unbiased, correction)
    statistics.check_inexact("std", input._array)
    squared = statistics.var(widen(input), dim, keepdim, correction=correction)
    if is_extreme(squared._array):
        dtype, wide_dtype = squared.dtype, dtypes.promote_types(input.dtype, dtypes.float64)
        squared = statistics.var(input.to(wide_dtype), dim, keepdim, correction=correction)
        return safe_sqrt(squared).to(input.dtype if is_half(input.dtype) else dtype)
    return safe_sqrt(squared).to(input.dtype) if is_half(input._array.dtype) else safe_sqrt(squared)


def is_extreme(variance: Array) -> bool:
    """Return True if a float32 variance has under- or overflowed where its root need not."""
    if variance.__class__ is not numpy.ndarray or variance.itemsize != 4 or not variance.size:
        return False
    if variance.size == 1:
        return not SMALLEST < variance.item() < math.inf
    lowest, highest = numpy.minimum.reduce(variance, None), numpy.maximum.reduce(variance, None)
    return not (lowest > SMALLEST and highest < math.inf)


SMALLEST = 1e-30
"""The variance below which squares in float32 lose digits, or are 0."""


@with_aliases
@takes_out
@recorded_as("VarMeanBackward0")
def var_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The variance (see `var`) and the mean.

    >>> var_mean(tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    dim, correction = read_correction("var_mean", dim, unbiased, correction)
    return var(input, dim, keepdim=keepdim, correction=correction), mean(input, dim, keepdim)


@with_aliases
@takes_out
@recorded_as("StdMeanBackward0")
def std_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The standard deviation (see `var`) and the mean.

    >>> std_mean(tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    dim, correction = read_correction("std_mean", dim, unbiased, correction)
    return std(input, dim, keepdim=keepdim, correction=correction), mean(input, dim, keepdim)


def read_correction(
    name: str, dim: Any, unbiased: bool | None, correction: float | None
) -> tuple[Dims, float]:
    """Return `dim` and `correction` from PyTorch's older and newer signatures."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise ArgumentError(name, "give `correction` or `unbiased`, not both")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    return tuple(dim) if isinstance(dim, list) else dim, correction
