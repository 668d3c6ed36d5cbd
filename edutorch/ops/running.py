"""Totals on the way along an axis. They keep the shape, so they are no reductions."""

from __future__ import annotations

from typing import Any

from numpy import finfo, ndarray, sqrt

from ..backends.numpy import Array
from ..core.op import op
from ..core.shapes import normal_dim
from .reduction import sum_type


@op(linear=True, out=True)
def cumsum(xp: Any, input: Array, dim: int, *, dtype: Any = None) -> Array:
    """The running sum along `dim`.

    >>> cumsum(tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    """
    kind = sum_type(input, dtype)
    if dtype is None and input.itemsize == 2 and input.dtype.kind not in "iu":
        input = input.astype("float32")  # rounded once, at the end
    y = xp.cumsum(input, axis=normal_dim("cumsum", dim, input.ndim), dtype=sum_type(input, dtype))
    return y.reshape(input.shape).astype(kind, copy=False)


# A number is part of its own total and of all later ones.
cumsum.vjp(
    input=lambda g, dim: flip(cumsum(flip(g, (dim,)), dim), (dim,)) if g.shape else g,
    latex=r"\sum_{j \ge i} g_j",
)


@op(out=True)
def cumprod(xp: Any, input: Array, dim: int, *, dtype: Any = None) -> Array:
    """The running product along `dim`.

    >>> cumprod(tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """
    y = xp.cumprod(input, axis=normal_dim("cumprod", dim, input.ndim), dtype=sum_type(input, dtype))
    return y.reshape(input.shape)


cumprod.vjp(
    input=lambda g, input, dim: cumprod_gradient(g, input, dim),
    latex=r"\sum_{j \ge i} g_j \prod_{k \le j, k \ne i} x_k",
)


def cumprod_gradient(g: Any, input: Any, dim: int) -> Any:
    """For each input i: Σ over j ≥ i of g_j times the product of the others up to j.

    Where none of them is 0 the others are y_j / x_i, for all i at once. Else it is one product per
    i, which takes as many times as long, and is right for zeros too.
    """
    if not input.shape:
        return g
    if input.__class__ is ndarray and input.itemsize >= 4:
        y = cumprod(input, dim)
        if within_range(y):
            return flip(cumsum(flip(g * y, (dim,)), dim), (dim,)) / input
    n = input.shape[dim]
    parts = []
    for i in range(n):
        others = cat([narrow(input, dim, 0, i), ones_like(narrow(input, dim, i, 1)),
                      narrow(input, dim, i + 1, n - i - 1)], dim)  # fmt: skip
        products = narrow(cumprod(others, dim), dim, i, n - i)
        parts.append(sum(narrow(g, dim, i, n - i) * products, dim, True))
    return cat(parts, dim) if parts else g * input


def within_range(y: Any) -> bool:
    """Say whether all numbers can be multiplied and divided without a loss: none is 0 or NaN."""
    sizes, limits = abs(y), finfo(y.dtype)
    return bool(((sizes >= sqrt(limits.tiny)) & (sizes <= sqrt(limits.max))).all())


@op(takes="fc", out=True)
def logcumsumexp(xp: Any, input: Array, dim: int) -> Array:
    """log of the running sum of exp(x) along `dim`, safe for large x.

    >>> logcumsumexp(tensor([100.0, 100.0]), 0)
    tensor([100.0000, 100.6931])
    """
    dim = normal_dim("logcumsumexp", dim, input.ndim)
    if not input.size:
        return input.copy()
    steps = [xp.take(input, [0], axis=dim)] if input.ndim else [input]
    for place in range(1, input.shape[dim] if input.ndim else 1):
        steps.append(logaddexp(steps[-1], xp.take(input, [place], axis=dim)))
    return xp.concatenate(steps, axis=dim) if input.ndim else input.copy()


# exp(xᵢ - yⱼ) is the share of number i in the total up to j.
logcumsumexp.vjp(
    input=lambda g, y, input, dim: later_shares(g, y, input, dim) if input.shape else g,
    latex=r"\sum_{j \ge i} g_j\,e^{x_i-y_j}",
)


def later_shares(g: Any, y: Any, input: Any, dim: int) -> Any:
    """Σ over j ≥ i of g_j · exp(x_i - y_j), one i after the other."""
    n = input.shape[dim]
    parts = [
        sum(
            narrow(g, dim, i, n - i) * exp(narrow(input, dim, i, 1) - narrow(y, dim, i, n - i)),
            dim,
            True,
        )
        for i in range(n)
    ]
    return cat(parts, dim) if parts else g * input


from .arrange import flip  # noqa: E402  (rules may use any op)
from .elementwise import exp  # noqa: E402
from .joining import cat  # noqa: E402
from .like import ones_like  # noqa: E402
from .more_arithmetic import logaddexp  # noqa: E402
from .movement import narrow  # noqa: E402
from .reduction import sum  # noqa: E402
