"""Random numbers. They come from the generator of torch.manual_seed, not from an attribute."""

from __future__ import annotations

from collections.abc import Sequence

from ...dtypes import from_onnx
from ..table import onnx_op
from ..values import Value, dtype_of, refuse, torch


def wanted_dtype(number: int | None, default: object) -> object:
    """Return the dtype of a number in the file, or the default."""
    dtype = default if number is None else from_onnx(number)
    if dtype is None:
        refuse("a dtype that does not exist here")
    return dtype


@onnx_op("RandomNormal")
def random_normal(
    *, shape: Sequence[int], dtype: int = 1, mean: float = 0.0, scale: float = 1.0,
    seed: float | None = None,
) -> Value:  # fmt: skip
    """Normally distributed numbers."""
    own = wanted_dtype(dtype, None)
    return (torch.randn(list(shape)) * scale + mean).to(own)


@onnx_op("RandomUniform")
def random_uniform(
    *, shape: Sequence[int], dtype: int = 1, high: float = 1.0, low: float = 0.0,
    seed: float | None = None,
) -> Value:  # fmt: skip
    """Uniformly distributed numbers."""
    own = wanted_dtype(dtype, None)
    return (torch.rand(list(shape)) * (high - low) + low).to(own)


@onnx_op("RandomNormalLike")
def random_normal_like(
    input: Value, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0,
    seed: float | None = None,
) -> Value:  # fmt: skip
    """Normally distributed numbers in the shape of a tensor."""
    own = wanted_dtype(dtype, dtype_of(input))
    return (torch.randn(input.shape) * scale + mean).to(own)


@onnx_op("RandomUniformLike")
def random_uniform_like(
    input: Value, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0,
    seed: float | None = None,
) -> Value:  # fmt: skip
    """Uniformly distributed numbers in the shape of a tensor."""
    own = wanted_dtype(dtype, dtype_of(input))
    return (torch.rand(input.shape) * (high - low) + low).to(own)


@onnx_op("Bernoulli")
def bernoulli(input: Value, *, dtype: int | None = None, seed: float | None = None) -> Value:
    """1 with the probability that the input says, else 0."""
    return torch.bernoulli(input).to(wanted_dtype(dtype, dtype_of(input)))


@onnx_op("Multinomial")
def multinomial(
    input: Value, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Value:
    """Classes, drawn with the probabilities of unnormalized logarithms."""
    drawn = torch.multinomial(torch.softmax(input, -1), sample_size, True)
    return drawn.to(wanted_dtype(dtype, None))
