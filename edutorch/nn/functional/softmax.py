"""Scores turned into probabilities: softmax with PyTorch's defaults, and samples from it."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core.tensor import Tensor
from ...errors import warn
from ...modes import no_grad
from ...ops import argmax, rand_like, scatter, zeros_like

__all__ = ["gumbel_softmax", "log_softmax", "softmax", "softmin"]


def usual_dim(name: str, ndim: int) -> int:
    """Return the axis that PyTorch takes when none is named, with its warning."""
    warn(
        f"Implicit dimension choice for {name} has been deprecated. "
        "Change the call to include dim=X as an argument."
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Positive numbers that sum to 1 along `dim`: y = exp(x) / Σ exp(x).

    >>> nn.functional.softmax(tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    dim = usual_dim("softmax", input.ndim) if dim is None else dim
    return ops.softmax(input, dim, dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """The softmax of the numbers turned round: the smallest gets most.

    >>> nn.functional.softmin(tensor([0.0, 1.0]), dim=0)
    tensor([0.7311, 0.2689])
    """
    dim = usual_dim("softmin", input.ndim) if dim is None else dim
    return ops.softmax(-input, dim, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """The logarithm of softmax: y = x - log Σ exp(x).

    >>> nn.functional.log_softmax(tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    dim = usual_dim("log_softmax", input.ndim) if dim is None else dim
    return ops.log_softmax(input, dim, dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Draw from the classes in a way that lets gradients through: softmax((x + noise) / τ).

    With Gumbel noise the largest score is that of class c with the probability
    softmax(x)[c]; a low temperature τ makes the softmax nearly one-hot.

    Args:
        hard: return rows that are one-hot, with the gradient of the soft ones.
        eps: has no effect any more.

    Paper: Jang et al., Categorical reparameterization with Gumbel-softmax, 2017.

    >>> nn.functional.gumbel_softmax(tensor([[0.0, 50.0]]), hard=True)
    tensor([[0., 1.]])
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    with no_grad():
        waits = -(1 - rand_like(logits)).log()  # waiting times, exponentially distributed
        noise = -waits.clamp(min=1e-30 if logits.element_size() > 2 else 1e-7).log()
    soft = ops.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    winners = argmax(soft, dim, True)
    one_hot = scatter(zeros_like(logits), dim, winners, 1.0)
    return one_hot - soft.detach() + soft
