"""`once_differentiable`: a decorator for a backward that is not recorded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.autograd.graph import LEAF
from ..core.tensor import Tensor
from ..errors import GradientError
from ..modes import is_grad_enabled, no_grad
from .function import Function

__all__ = ["once_differentiable"]


class DelayedError(Function):
    """A function whose backward raises an error: for gradients that cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, *gradients: Tensor) -> Any:
        """Return the gradients unchanged."""
        return gradients

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Raise GradientError."""
        raise GradientError(
            "once_differentiable",
            "trying to differentiate twice a function that was marked with @once_differentiable",
            hint="write its backward with differentiable ops and drop the decorator",
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `Function.backward` that is not recorded, for example because it uses NumPy.

    A second derivative through it is then an error instead of a wrong value.
    """

    @functools.wraps(backward)
    def wrapped(ctx: Any, *gradients: Any) -> Any:
        with no_grad():
            returned = backward(ctx, *gradients)
        if not is_grad_enabled():
            return returned
        results = list(returned) if isinstance(returned, tuple | list) else [returned]
        dependencies = [*gradients, *ctx.saved_tensors]
        if not any(isinstance(value, Tensor) and value._node is not None for value in dependencies):
            return returned
        positions = [i for i, result in enumerate(results) if isinstance(result, Tensor)]
        leaves = [results[i].detach() for i in positions]
        for leaf in leaves:
            leaf._node = LEAF
        for i, gradient in zip(positions, DelayedError.apply(*leaves), strict=True):
            results[i] = gradient
        return tuple(results)

    return wrapped
