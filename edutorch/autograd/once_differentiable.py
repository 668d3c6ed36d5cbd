"""`once_differentiable`: a backward that computes outside the graph."""

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
    """The gradient of a backward that cannot be differentiated: an error, once it is needed."""

    @staticmethod
    def forward(ctx: Any, *gradients: Tensor) -> Any:
        """Return the gradients as they are."""
        return gradients

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Refuse."""
        raise GradientError(
            "once_differentiable",
            "trying to differentiate twice a function that was marked with @once_differentiable",
            hint="write its backward with differentiable ops and drop the decorator",
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `Function.backward` that computes outside the graph, in NumPy for example.

    A second derivative through it is then an error and never a wrong number.
    """

    @functools.wraps(backward)
    def once(ctx: Any, *gradients: Any) -> Any:
        with no_grad():
            returned = backward(ctx, *gradients)
        if not is_grad_enabled():
            return returned
        results = list(returned) if isinstance(returned, tuple | list) else [returned]
        given = [*gradients, *ctx.saved_tensors]
        if not any(isinstance(each, Tensor) and each._node is not None for each in given):
            return returned
        places = [i for i, result in enumerate(results) if isinstance(result, Tensor)]
        leaves = [results[i].detach() for i in places]
        for leaf in leaves:
            leaf._node = LEAF
        for i, each in zip(places, DelayedError.apply(*leaves), strict=True):
            results[i] = each
        return tuple(results)

    return once
