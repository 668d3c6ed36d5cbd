"""Batch norm and group norm, and their derivatives, on a GPU (`channel_norms.cu`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import backends
from ...backends.numpy import Array
from ...nn.functional import normalization
from . import cudnn_norms
from .module import blocks_for, launch
from .row_launch import MAX_ROWS, is_supported, module_for, row_threads, wide_type

Run = Callable[..., Any]
THREADS = 256


class Sets(NamedTuple):
    """Which elements of (n, channels, spatial) share a mean: x[:, set] of (samples, sets, inner).

    >>> Sets.of((2, 6, 5), 3)
    Sets(samples=1, sets=6, inner=10, n=2, channels=6, spatial=5)
    """

    samples: int
    sets: int
    inner: int
    n: int
    channels: int
    spatial: int

    @classmethod
    def of(cls, shape: tuple[int, ...], groups: int | None) -> Sets:
        """Return the sets of group norm, or of batch norm (groups = None)."""
        n, channels, spatial = shape[0], shape[1], math.prod(shape[2:])
        if groups is None:
            return cls(n, channels, spatial, n, channels, spatial)
        return cls(1, n * groups, channels // groups * spatial, n, channels, spatial)

    def as_integers(self, *names: str) -> list[np.int64]:
        """Return some of the sizes as a kernel takes them."""
        return [np.int64(getattr(self, name)) for name in names]


def moments_of(x: Array, sets: Sets, eps: float) -> Array:
    """Return mean, variance and deviation of each set: (sets, 3), in the type of the arithmetic."""
    number = wide_type(x.dtype)
    moments = backends.of(x).xp.empty((sets.sets, 3), number)
    arguments = x, moments, *sets.as_integers("samples", "sets", "inner"), number(eps)
    threads = row_threads(sets.samples * sets.inner)
    launch(module_for("channel_norms", x.dtype.name), "set_moments", sets.sets, threads, arguments)
    return moments


def fits(input: Array, groups: int | None, *arrays: Array | None) -> bool:
    """Whether the kernels take an array (n, channels, …) and others of its dtype."""
    if input.ndim < 2 or not is_supported(input, *arrays):
        return False
    return blocks_for(input.size, THREADS) <= MAX_ROWS and (groups is None or groups > 0)


def normalize(
    input: Array, weight: Array | None, bias: Array | None, groups: int | None, eps: float
) -> tuple[Array, Array] | None:
    """Return the normalized array and the moments of its sets."""
    if not fits(input, groups, weight, bias):
        return None
    xp, sets = backends.of(input).xp, Sets.of(input.shape, groups)
    x = xp.ascontiguousarray(input)
    y, moments = xp.empty(x.shape, x.dtype), moments_of(x, sets, eps)
    # A kernel takes an array for each pointer: one that is not there is not read.
    parameters = [x if array is None else xp.ascontiguousarray(array) for array in (weight, bias)]
    sizes = np.int64(x.size), *sets.as_integers("sets", "inner", "channels", "spatial")
    flags = np.int32(weight is not None), np.int32(bias is not None)
    arguments = x, moments, *parameters, y, *sizes, *flags
    module = module_for("channel_norms", x.dtype.name)
    launch(module, "normalize_sets", blocks_for(x.size, THREADS), THREADS, arguments)
    return y, moments


def normalize_backward(
    g: Array, input: Array, weight: Array | None, bias: Array | None, groups: int | None,
    eps: float, moments: Array | None = None,
) -> tuple[Any, Any, Any] | None:  # fmt: skip
    """Compute the gradients of input, weight and bias; the moments are computed again if needed."""
    if g.__class__ is not input.__class__ or not fits(input, groups, g, weight, bias):
        return None
    xp, sets, number = backends.of(input).xp, Sets.of(input.shape, groups), wide_type(input.dtype)
    x, gradient = xp.ascontiguousarray(input), xp.ascontiguousarray(g)
    moments = moments_of(x, sets, eps) if moments is None else moments
    means = xp.empty((sets.sets, 2), number)
    grad_input, module = xp.empty(x.shape, x.dtype), module_for("channel_norms", x.dtype.name)
    arrays = gradient, x, moments, x if weight is None else xp.ascontiguousarray(weight), means
    sizes = sets.as_integers("samples", "sets", "inner", "channels", "spatial")
    flag, threads = np.int32(weight is not None), row_threads(sets.samples * sets.inner)
    launch(module, "set_gradients", sets.sets, threads, (*arrays, *sizes, flag))
    arguments = *arrays, grad_input, np.int64(x.size), *sizes[1:], flag
    launch(module, "normalize_sets_backward", blocks_for(x.size, THREADS), THREADS, arguments)
    if weight is None and bias is None:
        return grad_input, None, None
    grad_weight, grad_bias = xp.empty(sets.channels, x.dtype), xp.empty(sets.channels, x.dtype)
    sizes = sets.as_integers("n", "sets", "inner", "channels", "spatial")
    arguments = gradient, x, moments, grad_weight, grad_bias, *sizes
    threads = row_threads(sets.n * sets.spatial)
    launch(module, "channel_gradients", sets.channels, threads, arguments)
    absent = weight is None, bias is None
    return grad_input, None if absent[0] else grad_weight, None if absent[1] else grad_bias


def image_gradients(
    g: Array, input: Array, weight: Array | None, bias: Array | None, moments: Array
) -> tuple[Any, Any, Any] | None:
    """Compute the gradients of batch norm of images by cuDNN, or return None.

    Those of the parameters are of float32, as the rule's own are.
    """
    made = cudnn_norms.batch_norm_backward(g, input, weight, moments)
    if made is None:
        return None
    return made[0], None if weight is None else made[1], None if bias is None else made[2]


@normalization.native_batch_norm.kernel("cuda", min_size=0)
def native_batch_norm() -> Run:
    """Make batch norm, with the mean and the variance of each channel: cuDNN's for images."""

    def run(input: Array, weight: Array | None, bias: Array | None, eps: float) -> Any:
        made = cudnn_norms.batch_norm(input, weight, bias, eps)
        if made is not None:
            return made[0], *(array.astype(input.dtype, copy=False) for array in made[1:])
        result = normalize(input, weight, bias, None, eps)
        if result is None:
            return None
        y, moments = result
        return y, moments[:, 0].astype(input.dtype), moments[:, 1].astype(input.dtype)

    return run


@normalization.BATCH_NORM_BY_STATISTICS.kernel("cuda", min_size=0)
def batch_norm_by_statistics() -> Run:
    """Make batch norm by running statistics: cuDNN's for images."""
    return cudnn_norms.batch_norm_by_statistics


@normalization.native_batch_norm.kernel("cuda", "joint_vjp", min_size=0)
def native_batch_norm_joint_vjp() -> Run:
    """Make the gradients of batch norm: cuDNN's for images."""

    def run(g: Array, input: Array, weight: Array | None, bias: Array | None, eps: float) -> Any:
        if g.__class__ is not input.__class__ or not fits(input, None, g):
            return None
        x = backends.of(input).xp.ascontiguousarray(input)
        moments = moments_of(x, Sets.of(x.shape, None), eps)
        return image_gradients(g, x, weight, bias, moments) or normalize_backward(
            g, x, weight, bias, None, eps, moments
        )

    return run


@normalization.native_group_norm.kernel("cuda", min_size=0)
def native_group_norm() -> Run:
    """Make the forward of group norm."""

    def run(
        input: Array, weight: Array | None, bias: Array | None, num_groups: int, eps: float
    ) -> Any:
        result = normalize(input, weight, bias, num_groups, eps)
        return None if result is None else result[0]

    return run


@normalization.native_group_norm.kernel("cuda", "joint_vjp", min_size=0)
def native_group_norm_joint_vjp() -> Run:
    """Make the gradients of group norm."""
    return lambda g, input, weight, bias, num_groups, eps: normalize_backward(
        g, input, weight, bias, num_groups, eps
    )
