"""Distributions with 16-bit parameters compute in float32 and round their result once.

A formula has many steps, and bfloat16 would round in each. So a method of a distribution whose
parameters all have one 16-bit dtype is called on a copy with float32 parameters, which are
computed from the 16-bit ones: gradients reach those.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.precision import is_half, widen
from ..core.tensor import Tensor
from ..modes import current

__all__: list[str] = []

METHODS = ("log_prob", "cdf", "icdf", "entropy", "mean", "mode", "variance", "stddev")


def wrap_methods(cls: type) -> None:
    """Wrap the methods that a class of distributions defines itself."""
    for name in METHODS:
        method = vars(cls).get(name)
        if isinstance(method, property):
            assert method.fget is not None
            setattr(cls, name, property(compute_in_float32(method.fget), doc=method.__doc__))
        elif callable(method):
            setattr(cls, name, compute_in_float32(method))


def compute_in_float32(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of a distribution: with 16-bit floats it computes in float32."""

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any) -> Any:
        dtype = first_dtype(self)
        if dtype is None or not is_half(dtype) or current().autocast is not None:
            return method(self, *args)
        copy = WideCopy()
        wide_self, args_in_32 = copy.convert(self), tuple(copy.convert(value) for value in args)
        if copy.dtypes != {dtype} or copy.has_cache:
            return method(self, *args)
        y = method(wide_self, *args_in_32)
        return y.to(dtype) if isinstance(y, Tensor) and y.is_floating_point() else y

    return wrapper


def first_dtype(distribution: Any) -> Any:
    """Return the dtype of the first tensor of a distribution or of its inner distributions."""
    for value in vars(distribution).values():
        if isinstance(value, Tensor):
            return value.dtype
        if is_distribution_object(value):
            return first_dtype(value)
    return None


def is_distribution_object(value: Any) -> bool:
    """Whether a value is a distribution, a transform or a constraint of this package."""
    return type(value).__module__.startswith("edutorch.distributions.")


class WideCopy:
    """Copies distributions, converting 16-bit tensors to float32.

    Attributes:
        dtypes: the dtypes of all floating tensors.
        has_cache: whether there is a transform with a cache, which compares tensors by identity.
    """

    def __init__(self) -> None:
        self.dtypes: set[Any] = set()
        self.has_cache = False
        self.copies: dict[int, Any] = {}  # by identity: a shared tensor is converted once

    def convert(self, value: Any) -> Any:
        """Return a value with all its tensors in float32."""
        if isinstance(value, list):
            return [self.convert(item) for item in value]
        if not isinstance(value, Tensor) and not is_distribution_object(value):
            return value
        if id(value) not in self.copies:
            self.copies[id(value)] = self.convert_object(value)
        return self.copies[id(value)]

    def convert_object(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            if value.is_floating_point():
                self.dtypes.add(value.dtype)
            return widen(value)
        attributes = vars(value)
        if "probs" in attributes and "logits" not in attributes and hasattr(value, "logits"):
            materialize_logits(value)
        self.has_cache |= bool(attributes.get("_cache_size"))
        copy = object.__new__(type(value))
        vars(copy).update({name: self.convert(item) for name, item in attributes.items()})
        return copy


def materialize_logits(distribution: Any) -> None:
    """Compute logits in the 16-bit dtype if its eps clamps the probabilities, as in PyTorch."""
    from .distribution import clamp_probs

    probs = vars(distribution)["probs"]
    if bool((clamp_probs(probs) != probs).any()):
        _ = distribution.logits  # a lazy property, stored at the first access
