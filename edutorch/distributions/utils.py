"""Helper functions, with the names of `torch.distributions.utils`, and the types of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

from ..core.tensor import Tensor
from ..dtypes import finfo, get_default_dtype
from ..modes import enable_grad
from ..ops import broadcast_tensors, rand, randn, tensor

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"]

TensorLike = Tensor | float
"""A parameter of a distribution: a tensor, or a number that is broadcast with the others."""

Shape = Sequence[int]
"""A shape: a `Size`, a tuple or a list."""


class lazy_property:
    """A property that is computed at the first access and then stored."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.__name__, value)
        return value


def broadcast_all(*values: Any) -> list[Any]:
    """Convert scalars and tensors to tensors of one shape.

    Raises: ValueError: a value is neither a scalar nor a tensor.

    >>> edutorch.distributions.utils.broadcast_all(1.0, tensor([2.0, 3.0]))[0]
    tensor([1., 1.])
    """
    if not all(isinstance(value, Tensor | Number) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects "
            "implementing __torch_function__."
        )
    like = next((value for value in values if isinstance(value, Tensor)), None)
    dtype = get_default_dtype() if like is None else like.dtype
    device = None if like is None else like.device
    tensors = [
        value if isinstance(value, Tensor) else tensor(value, dtype=dtype, device=device)
        for value in values
    ]
    return list(broadcast_tensors(*tensors))


def uniform_like(like: Tensor, shape: Sequence[int], open_at_0: bool = True) -> Tensor:
    """Draw uniform values with the dtype and device of a parameter; never 0 if `open_at_0`."""
    u = rand(size=tuple(shape), dtype=like.dtype, device=like.device)
    return u.clamp(min=finfo(like.dtype).tiny) if open_at_0 else u


def normal_like(like: Tensor, shape: Sequence[int]) -> Tensor:
    """Draw standard normal values with the dtype and device of a parameter."""
    return randn(size=tuple(shape), dtype=like.dtype, device=like.device)


def sum_rightmost(value: Tensor, count: int) -> Tensor:
    """Σ over the last `count` dimensions."""
    return value.reshape((*value.shape[: value.dim() - count], -1)).sum(-1) if count else value


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamp probabilities to [eps, 1 - eps], with the eps of their dtype."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return log p, or log p - log(1 - p) for binary probabilities."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return the softmax over the last dimension, or the sigmoid for binary probabilities."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def all_over_event(mask: Tensor, event_dim: int) -> Any:
    """Reduce a mask over the event dimensions."""
    return mask.flatten(-event_dim).all(-1) if event_dim else mask


def not_implemented(self: Any) -> Any:
    raise NotImplementedError


_sum_rightmost = sum_rightmost  # PyTorch's private name, which Pyro imports
