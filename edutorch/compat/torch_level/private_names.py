"""Functions with PyTorch's private names, which libraries use all the same."""

from __future__ import annotations

from edutorch.core.tensor import Tensor
from edutorch.dtypes import int64
from edutorch.errors import NotHereError
from edutorch.ops import tensor
from edutorch.ops.random import Generator

__all__ = ["_sample_dirichlet", "_shape_as_tensor"]


def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw from the Dirichlet distribution with these concentrations, (… n).

    Args:
        generator: only the default one is supported: None.

    >>> edutorch._sample_dirichlet(ones(2, 3)).sum(1).round(decimals=4)
    tensor([1., 1.])
    """
    from edutorch.distributions import Dirichlet

    if generator is not None:
        raise NotHereError("_sample_dirichlet", "it draws from the default generator only")
    return Dirichlet(input, validate_args=False).sample()


def _shape_as_tensor(input: Tensor) -> Tensor:
    """Return the shape as a tensor of int64.

    >>> edutorch._shape_as_tensor(ones(2, 3))
    tensor([2, 3])
    """
    return tensor(list(input.shape), dtype=int64)
