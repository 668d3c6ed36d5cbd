"""What describes many numbers: spread, size, middle. Composed functions return tensors
of their own; `var` and `vector_norm` are blocks, because their derivatives are short."""

from __future__ import annotations

import math
from typing import Any

from .. import return_types
from ..backends.numpy import Array
from ..core.methods import as_method
from ..core.op import reduction
from ..core.tensor import Tensor
from ..errors import ShapeError
from .reduction import Dims, add_up, count, even_share, mean_of, need_floating


@reduction
def var(
    xp: Any, input: Array, dim: Dims = None, keepdim: bool = False, *, correction: float = 1
) -> Array:
    """The variance: the mean squared distance from the mean, over n - correction.

    >>> var(tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    need_floating("var", input)
    kind = input.dtype
    input = input.astype("float32") if kind.itemsize == 2 else input
    n = count(input.shape, dim)
    centre = mean_of(xp, input, dim, True)
    squares = add_up(xp, (input - centre) ** 2, dim, keepdim)
    return (squares / max(n - correction, 0)).astype(kind)


var.vjp(
    input=lambda g, input, dim, correction: (
        g * (2 / (count(input.shape, dim) - correction)) * (input - mean(input, dim, True))
    ),
    latex=r"g\,\frac{2\,(x-\bar x)}{n-1}",
)


@as_method
def std(input: Tensor, dim: Dims = None, keepdim: bool = False, *, correction: float = 1) -> Tensor:
    """The standard deviation: the square root of the variance.

    >>> std(tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return sqrt(var(input, dim, keepdim, correction=correction))


def var_mean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, correction: float = 1
) -> tuple[Tensor, Tensor]:
    """The variance and the mean.

    >>> var_mean(tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    return var(input, dim, keepdim, correction=correction), mean(input, dim, keepdim)


def std_mean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, correction: float = 1
) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean.

    >>> std_mean(tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    return std(input, dim, keepdim, correction=correction), mean(input, dim, keepdim)


# The length of a vector ------------------------------------------------------------------------


@reduction(promotion="float", method=False)
def vector_norm(
    xp: Any, input: Array, ord: float = 2, dim: Dims = None, keepdim: bool = False
) -> Array:
    """The length of vectors: y = (Σ |x|ᵖ)^(1/p) with p = ord; ∞: the largest |x|, 0: how many ≠ 0.

    >>> vector_norm(tensor([3.0, -4.0])), vector_norm(tensor([3.0, -4.0]), math.inf)
    (tensor(5.), tensor(4.))
    """
    if input.dtype.itemsize == 2:
        wide = vector_norm.op.forward(xp, input.astype("float32"), ord, dim, keepdim)
        return wide.astype(input.dtype)
    size = xp.abs(input)
    if ord == math.inf:
        return xp.max(size, axis=dim, keepdims=keepdim)
    if ord == -math.inf:
        return xp.min(size, axis=dim, keepdims=keepdim)
    if ord == 0:
        return xp.sum((size != 0).astype(size.dtype), axis=dim, keepdims=keepdim)
    if ord == 1:
        return xp.sum(size, axis=dim, keepdims=keepdim)
    return xp.sum(size**ord, axis=dim, keepdims=keepdim) ** (1 / ord)


vector_norm.vjp(
    input=lambda g, y, input, ord, dim: g * norm_slope(input, y, ord, dim),
    latex=r"g\,\mathrm{sign}(x)\,\left(\tfrac{|x|}{y}\right)^{p-1}",
)


def norm_slope(input: Any, y: Any, ord: float, dim: Dims) -> Any:
    """dy/dx. Where the length is 0 it has a corner: 0 is taken."""
    if math.isinf(ord):
        return sign(input) * even_share(abs(input) == y, dim, input)
    if ord == 0:
        return input * 0
    if ord == 1:
        return sign(input)
    length = where(y == 0, 1.0, y)
    return sign(input) * (abs(input) / length) ** (ord - 1)


@as_method
def norm(input: Tensor, p: Any = "fro", dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The length of a tensor's numbers as one vector, or of vectors along `dim`.

    >>> norm(tensor([[3.0], [4.0]])), norm(tensor([3.0, -4.0]), 1)
    (tensor(5.), tensor(7.))
    """
    if p not in ("fro", None) and not isinstance(p, int | float):
        raise ValueError(f"norm: p must be 'fro' or a number, got {p!r}")
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim)


# NaN left out ------------------------------------------------------------------------------------


@as_method
def nansum(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The sum of all that is not NaN.

    >>> nansum(tensor([1.0, math.nan, 2.0]))
    tensor(3.)
    """
    return sum(where(isnan(input), 0, input), dim, keepdim)


@as_method
def nanmean(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The average of all that is not NaN.

    >>> nanmean(tensor([1.0, math.nan, 3.0]))
    tensor(2.)
    """
    return nansum(input, dim, keepdim) / sum(~isnan(input), dim, keepdim)


# The middle --------------------------------------------------------------------------------------


@as_method
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The number in the middle (the lower of two); with `dim`, also where it is.

    >>> median(tensor([3.0, 1.0, 2.0, 9.0]))
    tensor(2.)
    """
    if dim is None:
        row = input.reshape(-1)
        return kthvalue(row, (row.shape[0] + 1) // 2).values if row.shape[0] else row.sum() / 0
    middle = ((input.shape[dim] if input.ndim else 1) + 1) // 2
    return return_types.median(*kthvalue(input, middle, dim, keepdim))


@as_method
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Tensor:  # fmt: skip
    """The number below which a share q of the numbers lies, between two if need be.

    With a vector of shares there is a result for each, along a new first axis.

    >>> quantile(tensor([1.0, 2.0, 4.0]), 0.75)
    tensor(3.)
    """
    need_floating("quantile", input._array)
    several = isinstance(q, Tensor) and q.ndim > 0
    shares = q.tolist() if several else [q.item() if isinstance(q, Tensor) else q]
    if not all(0 <= share <= 1 for share in shares):
        raise ValueError(f"quantile: q must be between 0 and 1, got {q}")
    if dim is None:  # all numbers as one row; the axes come back at the end
        row, axis = input.reshape(-1), 0
    else:
        row, axis = input, dim
    ordered = row.sort(axis).values
    results = [_between(ordered, share, axis, interpolation) for share in shares]
    if keepdim:
        kept = (1,) * input.ndim if dim is None else None
        results = [
            each.reshape(kept) if kept is not None else each.unsqueeze(axis) for each in results
        ]
    return stack(results) if several else results[0]


def _between(ordered: Tensor, share: float, dim: int, how: str) -> Tensor:
    """The number at `share` of the way along an ordered axis."""
    if how not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise ValueError(f"quantile: unknown interpolation {how!r}")
    last = (ordered.shape[dim] if ordered.ndim else 1) - 1
    if last < 0:
        raise ShapeError("quantile", "an empty axis has none", {"input": tuple(ordered.shape)})
    position = share * last
    low, high = math.floor(position), math.ceil(position)
    if how == "nearest":
        low = high = round(position)
    below, above = (ordered.select(dim, each) if ordered.ndim else ordered for each in (low, high))
    weight = {"lower": 0.0, "higher": 1.0, "midpoint": 0.5}.get(how, position - low)
    return below + (above - below) * weight


@as_method
def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False
) -> return_types.aminmax:
    """The smallest and the largest number.

    >>> aminmax(tensor([3, 1, 2])).max
    tensor(3)
    """
    dims = () if dim is None else dim
    return return_types.aminmax(amin(input, dims, keepdim), amax(input, dims, keepdim))


from .comparison import isnan, where  # noqa: E402  (rules may use any op)
from .elementwise import abs, sqrt  # noqa: E402
from .joining import stack  # noqa: E402
from .reduction import amax, amin, mean, sum  # noqa: E402
from .rounding import sign  # noqa: E402
from .sorting import kthvalue  # noqa: E402
