"""In-place forms of activations that are composed of several ops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...core.tensor import Tensor
from ...core.tensor_methods import overwrite, refuse_leaf

__all__: list[str] = []


def replace(input: Tensor, name: str, function: Callable[..., Tensor], *settings: Any) -> Tensor:
    """Write `function(input, *settings)` into the memory of `input`.

    The function sees a copy wherever its ops may save it: backward needs the old numbers.

    Raises: GradientError: `input` is a leaf that wants a gradient.
    """
    refuse_leaf(input, name)
    before = input.clone() if input.requires_grad else input
    overwrite(input, function(before, *settings), before, name)
    return input


def twin_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Make the form with an underscore of an activation: `celu_` from `celu`."""
    name = f"{function.__name__}_"

    def twin(input: Tensor, *settings: Any, **named: Any) -> Tensor:
        return replace(input, name, functools.partial(function, **named), *settings)

    twin.__name__ = twin.__qualname__ = name
    twin.__module__ = function.__module__
    twin.__doc__ = (
        f"The in-place form of `{function.__name__}`: the result replaces the tensor's numbers."
    )
    return twin
