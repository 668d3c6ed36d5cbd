"""Gradient descent by a sparse gradient, which changes only the rows that were used."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from .update_rule import Group, learning_rate


def update_rows_by_sgd(self: Any, group: Group, param: Tensor, grad: Any) -> None:
    """Apply the formula of `SGD` to the rows of a sparse gradient; the momentum is sparse, too.

    Args: self: the optimizer; the function is its method `update_sparse`.

    Raises: RuntimeError: weight decay, which would change every row.
    """
    if group["weight_decay"] or group["differentiable"]:
        raise RuntimeError(
            "SGD: weight_decay and differentiable are not supported with sparse gradients"
        )
    if group["momentum"]:
        state = self.state[param]
        buffer = state.get("momentum_buffer")
        if buffer is None:
            state["momentum_buffer"] = buffer = grad.clone()
        else:
            scaled = grad * (1 - group["dampening"])
            state["momentum_buffer"] = buffer = buffer * group["momentum"] + scaled
        grad = grad + buffer * group["momentum"] if group["nesterov"] else buffer
    rows = grad.coalesce()
    param._array[tuple(rows.pattern.indices)] -= learning_rate(group) * rows.entries._array
