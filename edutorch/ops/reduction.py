"""Many numbers become one: sums, means, extremes, along `dim` or over everything.

In a rule, `g` and `y` still have the reduced dims, as size 1: they broadcast
against the input, and no rule has to think of `keepdim`.
"""

from __future__ import annotations

from typing import Any

from ..backends.numpy import Array
from ..core.op import op, reduction
from ..core.shapes import kept_shape
from ..errors import DTypeError

Dims = int | tuple[int, ...] | None


def count(shape: tuple[int, ...], dim: Dims) -> int:
    """Return how many numbers go into each result."""
    dims = range(len(shape)) if dim is None else (dim,) if isinstance(dim, int) else dim
    total = 1
    for axis in dims:
        total *= shape[axis]
    return total


def need_floating(name: str, input: Array) -> None:
    """Raise DTypeError for integers, which have no mean."""
    if input.dtype.kind in "iub":
        raise DTypeError(
            name,
            f"expected a floating point or complex dtype, got {input.dtype}",
            hint="convert the numbers first: x.float()",
        )


def sum_type(input: Array, dtype: Any) -> Any:
    """Sums of bools and integers are int64, so that they do not overflow."""
    if dtype is not None:
        return dtype.numpy
    return "int64" if input.dtype.kind in "iub" else input.dtype


@reduction
def sum(
    xp: Any, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Array:
    """The sum over `dim`: y = Σ x.

    >>> sum(tensor([[1.0, 2.0], [3.0, 4.0]]), 0)
    tensor([4., 6.])
    """
    if dtype is None and input.dtype.kind == "f":
        return xp.add.reduce(input, axis=dim, keepdims=keepdim)
    return xp.sum(input, axis=dim, keepdims=keepdim, dtype=sum_type(input, dtype))


sum.vjp(input=lambda g, input_shape: expand(g, input_shape), latex=r"g\ \text{to each}")


@reduction
def mean(
    xp: Any, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Array:
    """The average over `dim`: y = Σ x / n.

    >>> mean(tensor([1.0, 2.0, 6.0]))
    tensor(3.)
    """
    if dtype is not None:
        input = input.astype(dtype.numpy)
    need_floating("mean", input)
    total = xp.add.reduce(input, axis=dim, keepdims=keepdim)
    n = count(input.shape, dim)
    return total / n if n else total * float("nan")


mean.vjp(
    input=lambda g, input_shape, dim: expand(g / count(input_shape, dim), input_shape),
    latex=r"\frac{g}{n}\ \text{to each}",
)


@reduction
def prod(
    xp: Any, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Array:
    """The product over `dim`: y = Π x.

    >>> prod(tensor([2.0, 3.0, 4.0]))
    tensor(24.)
    """
    return xp.prod(input, axis=dim, keepdims=keepdim, dtype=sum_type(input, dtype))


prod.vjp(input=lambda g, input, dim: g * product_of_others(input, dim), latex=r"g \prod_{j \ne i} x_j")


def product_of_others(input: Any, dim: Dims) -> Any:
    """For each number, the product of all the others along `dim`, zeros included.

    Dividing the whole product by the number fails at 0, so the products of those
    before and of those behind it are taken instead.
    """
    flat = reshape(input, (-1,)) if dim is None else input
    axis = 0 if dim is None else dim if isinstance(dim, int) else dim[0]
    n = flat.shape[axis]
    before = cumprod(cat([ones_like(narrow(flat, axis, 0, 1)), narrow(flat, axis, 0, n - 1)], axis), axis)
    turned = flip(flat, (axis,))
    behind = cumprod(
        cat([ones_like(narrow(turned, axis, 0, 1)), narrow(turned, axis, 0, n - 1)], axis), axis
    )
    return reshape(before * flip(behind, (axis,)), input.shape)


@reduction
def amax(xp: Any, input: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    """The largest number over `dim`; equal ones share the gradient evenly.

    >>> amax(tensor([[1.0, 5.0], [3.0, 2.0]]), 1)
    tensor([5., 3.])
    """
    return xp.max(input, axis=dim, keepdims=keepdim)


amax.vjp(input=lambda g, y, input, dim: g * even_share(input == y, dim, g), latex=r"g\,[x = y]")


@reduction
def amin(xp: Any, input: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    """The smallest number over `dim`; equal ones share the gradient evenly.

    >>> amin(tensor([[1.0, 5.0], [3.0, 2.0]]), 1)
    tensor([1., 2.])
    """
    return xp.min(input, axis=dim, keepdims=keepdim)


amin.vjp(input=lambda g, y, input, dim: g * even_share(input == y, dim, g), latex=r"g\,[x = y]")


def even_share(hits: Any, dim: Dims, like: Any) -> Any:
    """1/k at each of k hits along `dim`, 0 elsewhere, in the type of `like`."""
    hits = where(hits, ones_like(like), zeros_like(like))
    return hits / sum(hits, dim, True)


@reduction
def var(
    xp: Any, input: Array, dim: Dims = None, keepdim: bool = False, *, correction: float = 1
) -> Array:
    """The variance: the mean squared distance from the mean, over n - correction.

    >>> var(tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    need_floating("var", input)
    n = count(input.shape, dim)
    centre = xp.add.reduce(input, axis=dim, keepdims=True) / n
    total = xp.add.reduce((input - centre) ** 2, axis=dim, keepdims=keepdim)
    return total / max_(n - correction, 0) if n > correction else total * float("nan")


def max_(a: float, b: float) -> float:
    return a if a > b else b


var.vjp(
    input=lambda g, input, dim, correction: (
        g * (2 / (count(input.shape, dim) - correction)) * (input - mean(input, dim, True))
    ),
    latex=r"g\,\frac{2\,(x-\bar x)}{n-1}",
)


@reduction
def logsumexp(xp: Any, input: Array, dim: Dims, keepdim: bool = False) -> Array:
    """log Σ exp(x) over `dim`, safe for large x: the peak is subtracted first.

    >>> logsumexp(tensor([1000.0, 1000.0]), 0)
    tensor(1000.6931)
    """
    peak = xp.max(input, axis=dim, keepdims=True)
    peak = xp.where(xp.isfinite(peak), peak, xp.zeros_like(peak))
    y = xp.log(xp.sum(xp.exp(input - peak), axis=dim, keepdims=True)) + peak
    return y if keepdim else xp.squeeze(y, axis=dim)


# exp(x - y) is the softmax of x: each input gets its share of the gradient.
logsumexp.vjp(input=lambda g, y, input: g * exp(input - y), latex=r"g\,e^{x-y}")


@reduction
def all(xp: Any, input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    """Is every number true (nonzero)?

    >>> all(tensor([True, False]))
    tensor(False)
    """
    return xp.all(input, axis=dim, keepdims=keepdim)


@reduction
def any(xp: Any, input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    """Is at least one number true (nonzero)?

    >>> any(tensor([True, False]))
    tensor(True)
    """
    return xp.any(input, axis=dim, keepdims=keepdim)


@reduction
def argmax(xp: Any, input: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """Where the largest number is: its index along `dim`, or in the flattened tensor.

    >>> argmax(tensor([1.0, 5.0, 3.0]))
    tensor(1)
    """
    return xp.argmax(input, axis=dim, keepdims=keepdim)


@reduction
def argmin(xp: Any, input: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """Where the smallest number is: its index along `dim`, or in the flattened tensor.

    >>> argmin(tensor([1.0, 5.0, 0.0]))
    tensor(2)
    """
    return xp.argmin(input, axis=dim, keepdims=keepdim)


@reduction
def count_nonzero(xp: Any, input: Array, dim: Dims = None) -> Array:
    """How many numbers are not zero.

    >>> count_nonzero(tensor([1, 0, 2]))
    tensor(2)
    """
    return xp.count_nonzero(input, axis=dim)


# Running totals keep their shape, so they are not of the reduction family.


@op(linear=True)
def cumsum(xp: Any, input: Array, dim: int, *, dtype: Any = None) -> Array:
    """The running sum along `dim`.

    >>> cumsum(tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    """
    return xp.cumsum(input, axis=dim, dtype=sum_type(input, dtype))


# A number is part of its own total and of all later ones.
cumsum.vjp(
    input=lambda g, dim: flip(cumsum(flip(g, (dim,)), dim), (dim,)),
    latex=r"\sum_{j \ge i} g_j",
)


@op()
def cumprod(xp: Any, input: Array, dim: int, *, dtype: Any = None) -> Array:
    """The running product along `dim`.

    >>> cumprod(tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """
    return xp.cumprod(input, axis=dim, dtype=sum_type(input, dtype))


cumprod.vjp(
    input=lambda g, input, dim: cumprod_gradient(g, input, dim),
    latex=r"\sum_{j \ge i} g_j \prod_{k \le j, k \ne i} x_k",
)


def cumprod_gradient(g: Any, input: Any, dim: int) -> Any:
    """For each input i: Σ over j ≥ i of g_j times the product of the others up to j.

    Written as one product per i, so that zeros need no special case.
    """
    n = input.shape[dim]
    parts = []
    for i in range(n):
        others = cat([narrow(input, dim, 0, i), ones_like(narrow(input, dim, i, 1)),
                      narrow(input, dim, i + 1, n - i - 1)], dim)  # fmt: skip
        products = narrow(cumprod(others, dim), dim, i, n - i)
        parts.append(sum(narrow(g, dim, i, n - i) * products, dim, True))
    return cat(parts, dim) if parts else g * input


from .comparison import where  # noqa: E402  (rules may use any op)
from .creation import ones_like, zeros_like  # noqa: E402
from .elementwise import exp  # noqa: E402
from .movement import cat, expand, flip, narrow, reshape  # noqa: E402

__all__ = ["kept_shape"]
