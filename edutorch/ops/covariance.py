"""Covariance and correlation."""

from __future__ import annotations

from .. import dtypes
from ..core.composed import as_method, composed_in_float32
from ..core.error_messages import is_any_true
from ..core.tensor import Tensor
from ..errors import DTypeError, ShapeError, ValueRangeError, warn
from .complex import complex, conj, has_complex_dtype
from .elementwise import sqrt
from .linalg import matmul
from .linalg_common import real_part
from .minmax import clamp
from .views import diagonal, unsqueeze

__all__ = ["corrcoef", "cov"]


def check_weights(name: str, weights: Tensor, count: int, floating: bool) -> None:
    """Raise ShapeError, DTypeError or ValueRangeError unless `weights` has one valid weight per
    observation."""
    rows = {name: f"{tuple(weights.shape)} {weights.dtype}", "observations": count}
    if weights.ndim > 1 or weights.numel() != count:
        raise ShapeError("cov", f"expected `{name}` to have one number per observation", rows)
    if (weights.dtype.category == 2) is not floating:
        category = "floating" if floating else "integer"
        raise DTypeError("cov", f"expected `{name}` to have an {category} dtype", rows)
    if is_any_true(weights < 0):
        raise ValueRangeError("cov", f"`{name}` cannot be negative", rows)


@as_method
@composed_in_float32
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The covariance matrix: C[i, j] = Σ (xᵢ - x̄ᵢ) (xⱼ - x̄ⱼ)* / (n - correction).

    Args:
        input: one variable per row, one observation per column; or a vector.
        fweights: the integer frequency of each observation.
        aweights: the weight of each observation.

    >>> cov(tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2:
        raise ShapeError("cov", "expected at most two axes", {"input": tuple(input.shape)})
    if input.dtype is dtypes.bool:
        raise DTypeError("cov", "bool dtype is not supported for input")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    x = x if x.dtype.category >= 2 else x.to(dtypes.get_default_dtype())
    count = x.shape[1]
    weights = None
    if fweights is not None:
        check_weights("fweights", fweights, count, False)
        weights = fweights.reshape(-1)
    if aweights is not None:
        check_weights("aweights", aweights, count, True)
        column = aweights.reshape(-1)
        weights = column if weights is None else weights * column
    total = count if weights is None else weights.sum()
    if weights is None:
        centre = x.mean(1, keepdim=True) if count else x.sum(1, keepdim=True)
    elif count == 1:
        centre = x  # x · w / w would be rounded
    else:
        centre = (x * weights).sum(1, keepdim=True) / total
    if weights is None or aweights is None or not correction:
        norm = total - correction
    else:
        share = weights / total  # exactly 1 for a single observation, whose norm is 0
        norm = total - correction * (share * aweights.reshape(-1)).sum()
    if is_any_true(norm <= 0):
        warn("cov(): degrees of freedom is <= 0")
        norm = norm * 0
    centered = x - centre
    weighted = centered if weights is None else centered * weights
    y = matmul(weighted, conj(centered.T)) / norm
    return y.squeeze()  # 0-d for a single variable


@as_method
@composed_in_float32
def corrcoef(input: Tensor) -> Tensor:
    """The correlation matrix: the covariances over the standard deviations of both variables.

    >>> corrcoef(tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2:
        raise ShapeError("corrcoef", "expected at most two axes", {"input": tuple(input.shape)})
    c = cov(input)
    if not c.ndim:
        return c / c
    deviation = sqrt(real_part(diagonal(c)))
    y = c / unsqueeze(deviation, -1) / deviation
    if has_complex_dtype(y):
        return complex(clamp(y.real, -1, 1), clamp(y.imag, -1, 1))
    return clamp(y, -1, 1)
