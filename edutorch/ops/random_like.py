"""Random tensors with the shape, dtype and device of another one."""

from __future__ import annotations

from typing import Any

from .. import backends
from ..core.tensor import Tensor
from .like import empty_like
from .random import Generator, rand, randint, randn


def rand_like(
    input: Tensor, *, generator: Generator | None = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Uniform samples on [0, 1) in the shape of another tensor.

    >>> rand_like(zeros(2)).shape
    torch.Size([2])
    """
    samples = rand(
        size=tuple(input.shape), dtype=dtype or input.dtype, device=device or input.device,
        generator=generator, layout=layout,
    )  # fmt: skip
    return lay_out_like(input, samples, requires_grad, memory_format)


def randn_like(
    input: Tensor, *, generator: Generator | None = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Standard normal samples in the shape of another tensor.

    >>> randn_like(zeros(2)).shape
    torch.Size([2])
    """
    samples = randn(
        size=tuple(input.shape), dtype=dtype or input.dtype, device=device or input.device,
        generator=generator, layout=layout,
    )  # fmt: skip
    return lay_out_like(input, samples, requires_grad, memory_format)


def randint_like(
    input: Tensor, low: Any = 0, high: Any = None, *, generator: Generator | None = None,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Random integers from [low, high), or [0, low), in the shape and dtype of another tensor.

    >>> (randint_like(zeros(4), 2, 3) == 2).all()
    tensor(True)
    """
    low, high = (0, low) if high is None else (low, high)
    samples = randint(
        low, high, tuple(input.shape), dtype=dtype or input.dtype,
        device=device or input.device, generator=generator, layout=layout,
    )  # fmt: skip
    return lay_out_like(input, samples, requires_grad, memory_format)


def lay_out_like(input: Tensor, samples: Tensor, requires_grad: bool, memory_format: Any) -> Tensor:
    """Return the samples in the memory order of `empty_like`."""
    if backends.of(samples._array).level:
        return samples.requires_grad_(requires_grad)  # inside vmap the memory order is irrelevant
    y = empty_like(
        input, dtype=samples.dtype, device=samples.device, requires_grad=False,
        memory_format=memory_format,
    )  # fmt: skip
    y._array[...] = samples._array
    return y.requires_grad_() if requires_grad else y
