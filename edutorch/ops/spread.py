"""How far numbers spread around their mean, with all of PyTorch's ways to ask."""

from __future__ import annotations

from typing import Any

from ..core.methods import as_method, with_aliases
from ..core.out import takes_out
from ..core.tensor import Tensor
from . import statistics
from .reduction import Dims


@as_method
@takes_out
def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """The variance: the mean squared distance from the mean, over n - correction.

    Args:
        correction: 1 unless said otherwise, for numbers that are a sample.
        unbiased: the older way to say so: False is correction 0. It may stand alone in
            the place of `dim`.

    >>> var(tensor([1.0, 2.0, 3.0])), var(tensor([1.0, 3.0]), unbiased=False)
    (tensor(1.), tensor(1.))
    """
    dim, correction = one_way("var", dim, unbiased, correction)
    return statistics.var(input, dim, keepdim, correction=correction)


@as_method
@takes_out
def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """The standard deviation: the square root of the variance (see `var`).

    Where it is 0 it has a corner, and the gradient 0 is taken.

    >>> std(tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    dim, correction = one_way("std", dim, unbiased, correction)
    squared = statistics.var(widened(input), dim, keepdim, correction=correction)
    if squared._node is None:
        return narrowed(sqrt(squared), input)
    spread = squared != 0
    return narrowed(where(spread, sqrt(where(spread, squared, 1.0)), 0.0), input)


def narrowed(y: Tensor, like: Tensor) -> Tensor:
    """Undo `widened`; the spread of complex numbers stays real."""
    return y.to(like.dtype) if like.dtype.itemsize == 2 else y


@with_aliases
@takes_out
def var_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The variance (see `var`) and the mean.

    >>> var_mean(tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    dim, correction = one_way("var_mean", dim, unbiased, correction)
    return var(input, dim, keepdim=keepdim, correction=correction), mean(input, dim, keepdim)


@with_aliases
@takes_out
def std_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The standard deviation (see `var`) and the mean.

    >>> std_mean(tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    dim, correction = one_way("std_mean", dim, unbiased, correction)
    return std(input, dim, keepdim=keepdim, correction=correction), mean(input, dim, keepdim)


def one_way(
    name: str, dim: Any, unbiased: bool | None, correction: float | None
) -> tuple[Dims, float]:
    """Read the older and the newer way to ask into `dim` and `correction`."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{name}: give `correction` or `unbiased`, not both")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    return tuple(dim) if isinstance(dim, list) else dim, correction


from .comparison import where  # noqa: E402
from .conversion import widened  # noqa: E402
from .elementwise import sqrt  # noqa: E402
from .reduction import mean  # noqa: E402
