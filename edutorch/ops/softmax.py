"""Softmax and log-softmax along one axis."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ..backends.numpy import Array, Namespace
from ..backends.reference_mode import slot
from ..core.fast.lazy_gradients import OneHotGradient
from ..core.op import op
from ..core.shapes import normal_dim

LOG_SOFTMAX_KERNEL = slot("softmax.log_softmax_spots", min_size=256)


@op(promotion="float", dtypes="f", out=True)
def softmax(xp: Namespace, input: Array, dim: int, dtype: Any = None) -> Array:
    """Softmax: positive values that sum to 1 along `dim`: y = exp(x) / Σ exp(x).

    The maximum is subtracted first, which keeps exp from overflowing.

    >>> softmax(tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    input = input if dtype is None else input.astype(dtypes.array_type(dtype))
    if input.itemsize == 2:  # accumulated in float32, rounded once
        return softmax.op.forward(xp, input.astype("float32"), dim).astype(input.dtype)
    dim = normal_dim("softmax", dim, input.ndim)
    if not input.size or not input.ndim:
        return xp.asarray(input - input + 1)  # NaN for non-finite elements
    y = xp.exp(input - xp.max(input, axis=dim, keepdims=True))
    y /= xp.sum(y, axis=dim, keepdims=True)
    return y


# The Jacobian is diag(y) - y yᵀ.
softmax.vjp(
    input=lambda g, y, dim: y * (g - sum(g * y, dim, True)),
    latex=r"y\,\left(g - \textstyle\sum g\,y\right)",
)


@op(promotion="float", dtypes="f", out=True)
def log_softmax(xp: Namespace, input: Array, dim: int, dtype: Any = None) -> Array:
    """The logarithm of softmax, accurate where softmax itself would round to 0.

    y = x - log Σ exp(x)

    >>> log_softmax(tensor([0.0, 0.0]), 0)
    tensor([-0.6931, -0.6931])
    """
    input = input if dtype is None else input.astype(dtypes.array_type(dtype))
    if input.itemsize == 2:  # accumulated in float32, rounded once
        return log_softmax.op.forward(xp, input.astype("float32"), dim).astype(input.dtype)
    dim = normal_dim("log_softmax", dim, input.ndim)
    if not input.size or not input.ndim:
        return xp.asarray(input - input)
    shifted = input - xp.max(input, axis=dim, keepdims=True)
    shifted -= xp.log(xp.sum(xp.exp(shifted), axis=dim, keepdims=True))
    return shifted


def log_softmax_gradient(g: Any, y: Any, dim: int) -> Any:
    """g - eʸ Σ g; for a one-hot gradient per row no sum is needed."""
    if g.__class__ is not OneHotGradient:
        return g - exp(y) * sum(g, dim, True)
    if dim not in (1, -1):
        return log_softmax_gradient(g.materialize(), y, dim)
    gradient = LOG_SOFTMAX_KERNEL(g, y) if y.size >= LOG_SOFTMAX_KERNEL.min_size else None
    if gradient is None:
        gradient = exp(y) * -g.values[:, None]
        g.add_to(gradient)
    return gradient


log_softmax.vjp(input=log_softmax_gradient, latex=r"g - e^{y} \textstyle\sum g")
log_softmax.op.takes_one_hot = True

from .elementwise import exp  # noqa: E402  (rules may use any op)
from .reduction import sum  # noqa: E402
