"""A tensor overwritten with random numbers, each a function of uniform or normal ones."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..core.methods import as_method, refuse_leaf, write
from ..core.tensor import Tensor
from .random import Generator, rand, randint, randn


def _fill(input: Tensor, name: str, values: Tensor) -> Tensor:
    refuse_leaf(input, name)
    write(input, name, values._array)
    return input


@as_method
def uniform_(
    input: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite with uniform numbers on [from, to).

    >>> (uniform_(zeros(4), 2, 3) >= 2).all()
    tensor(True)
    """
    drawn = rand(*input.shape, dtype=input.dtype, device=input.device, generator=generator)
    return _fill(input, "uniform_", drawn * (to - from_) + from_)


@as_method
def normal_(
    input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite with normal numbers.

    >>> math.isfinite(normal_(zeros(4)).sum())
    True
    """
    drawn = randn(*input.shape, dtype=input.dtype, device=input.device, generator=generator)
    return _fill(input, "normal_", drawn * std + mean)


@as_method
def bernoulli_(input: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with 1 (probability p) or 0.

    >>> bernoulli_(zeros(2), 1.0)
    tensor([1., 1.])
    """
    drawn = rand(*input.shape, device=input.device, generator=generator)
    return _fill(input, "bernoulli_", (drawn < p).to(input.dtype))


@as_method
def random_(
    input: Tensor, from_: int = 0, to: int | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite with integers from [from, to); one bound alone is the upper one.

    Without any bound up to the largest that the type counts to without a gap.

    >>> (random_(zeros(4), 2, 3) == 2).all()
    tensor(True)
    """
    low, high = from_, to
    if high is None:
        low, high = (0, from_) if from_ else (0, LARGEST.get(input.dtype.name, 2**31))
    drawn = randint(low, high, tuple(input.shape), device=input.device, generator=generator)
    return _fill(input, "random_", drawn.to(input.dtype))


LARGEST = {
    "bool": 2, "uint8": 2**8, "int8": 2**7, "int16": 2**15, "int64": 2**63 - 1,
    "float16": 2**11 + 1, "bfloat16": 2**8 + 1, "float32": 2**24 + 1, "float64": 2**53 + 1,
}  # fmt: skip


# Waiting times, tails and products ---------------------------------------------------------------


def _uniform(input: Tensor, generator: Generator | None) -> Tensor:
    """Numbers in (0, 1], whose logarithm is finite; in float32 at least, for their tails."""
    kind = dtypes.float64 if input.dtype is dtypes.float64 else dtypes.float32
    return 1 - rand(*input.shape, dtype=kind, device=input.device, generator=generator)


def _positive(name: str, what: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"{name}: {what} must be greater than 0, got {value}")


@as_method
def exponential_(input: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with waiting times, exponentially distributed: p(x) = λ exp(-λx).

    Raises: ValueError: lambd is not positive.

    >>> (exponential_(zeros(4)) >= 0).all()
    tensor(True)
    """
    _positive("exponential_", "lambd", lambd)
    return _fill(input, "exponential_", -_uniform(input, generator).log() / lambd)


@as_method
def geometric_(input: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with how many tries the first success takes, each with probability p.

    Raises: ValueError: p is not in (0, 1).

    >>> (geometric_(zeros(4), 0.5) >= 1).all()
    tensor(True)
    """
    if not 0 < p < 1:
        raise ValueError(f"geometric_: p must be between 0 and 1, got {p}")
    tries = (_uniform(input, generator).log() / math.log1p(-p)).ceil().clamp(min=1)
    return _fill(input, "geometric_", tries)


@as_method
def cauchy_(
    input: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite with Cauchy numbers: so wide that they have no mean.

    Raises: ValueError: sigma is not positive.

    >>> cauchy_(zeros(4)).shape
    torch.Size([4])
    """
    _positive("cauchy_", "sigma", sigma)
    angle = math.pi * (_uniform(input, generator) - 0.5)
    return _fill(input, "cauchy_", median + sigma * angle.tan())


@as_method
def log_normal_(
    input: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite with numbers whose logarithm is normal, of this mean and deviation.

    Raises: ValueError: std is not positive.

    >>> (log_normal_(zeros(4)) > 0).all()
    tensor(True)
    """
    _positive("log_normal_", "std", std)
    drawn = randn(*input.shape, dtype=input.dtype, device=input.device, generator=generator)
    return _fill(input, "log_normal_", (drawn * std + mean).exp())
