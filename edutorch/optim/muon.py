"""Muon: momentum with orthogonalized updates of matrices."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..backends.numpy import Namespace
from ..core.tensor import Tensor, wrap
from ..dtypes import AbsentDtype, bfloat16
from ..ops import zeros_like
from .optimizer import Optimizer
from .update_rule import Group, State, Values, check, check_lr, learning_rate

__all__ = ["Muon"]


class Muon(Optimizer):
    r"""Replace the average gradient of a matrix by the nearest orthogonal one.

    b ← μ · b + (1 - μ) · g; u = g + μ · (b - g) (Nesterov, else b); if u = U Σ Vᵀ then
    θ ← (1 - lr · weight_decay) · θ - lr' · U Vᵀ.

    A gradient is usually dominated by a few singular vectors; with all singular values about 1,
    the others contribute as well. U Vᵀ comes from a few steps of the Newton-Schulz
    iteration X ← a · X + (b · A + c · A²) · X with A = X Xᵀ, in bfloat16, as accuracy
    matters little here. It is for the weight matrices of hidden layers; the first and
    last layers and all vectors are left to AdamW.

    Args:
        params: the matrices to train, or groups of them.
        lr: the learning rate.
        weight_decay: the decoupled weight decay.
        momentum: the decay rate of the average gradient.
        nesterov: whether to use Nesterov's momentum.
        ns_coefficients: a, b and c of the iteration.
        eps: the lower bound of the norm that is divided by.
        ns_steps: the number of iterations.
        adjust_lr_fn: how lr' follows the shape (n, m): "original" (the default) is
            lr · √max(1, n/m); "match_rms_adamw" is lr · 0.2 · √max(n, m), with which the
            settings of AdamW can be kept.

    Paper: Jordan et al., Muon: an optimizer for hidden layers in neural networks, 2024; Liu
    et al., Muon is scalable for LLM training, 2025.

    Raises: ValueError: a setting is invalid, or a parameter is not a matrix.
        RuntimeError: a complex parameter.

    >>> x = tensor([[2.0, 0.0], [0.0, 0.1]], requires_grad=True)
    >>> x.square().sum().backward()
    >>> optim.Muon([x], lr=0.1).step()
    >>> x
    tensor([[1.9112, 0.0000],
            [0.0000, 0.0240]], requires_grad=True)
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3, weight_decay: float = 0.1,
        momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        check_lr(lr, "Learning rate should be >= 0 but is: {}")
        check(momentum >= 0, f"momentum should be >= 0 but is: {momentum}")
        check(weight_decay >= 0, f"weight decay should be >= 0 but is: {weight_decay}")
        check(
            adjust_lr_fn in (None, "original", "match_rms_adamw"),
            f"Adjust learning rate function {adjust_lr_fn} is not supported",
        )
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        })  # fmt: skip
        for group in self.param_groups:
            for param in group["params"]:
                check(
                    param.ndim == 2,
                    "Muon only supports 2D parameters whereas we found a parameter with size: "
                    f"{param.size()}",
                )

    def init_state(self, group: Group, param: Tensor) -> State:
        """Return zeros for the average gradient."""
        if param.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        return {"momentum_buffer": zeros_like(param)}

    def update(
        self, xp: Namespace, group: Group, param: Values, grad: Values, state: State
    ) -> None:
        check(grad.ndim == 2, "Param gradient must be a 2D matrix")
        lr, momentum, average = learning_rate(group), group["momentum"], state["momentum_buffer"]
        average += (1 - momentum) * (grad - average)
        momentum_grad = grad + momentum * (average - grad) if group["nesterov"] else average
        direction = orthogonalize(
            wrap(momentum_grad), group["ns_coefficients"], group["ns_steps"], group["eps"]
        )
        # Decoupled, and before the step: the orthogonal direction has a fixed size.
        param *= 1 - lr * group["weight_decay"]
        param -= (
            adjust_lr(lr, group["adjust_lr_fn"], param.shape) * direction.to(wrap(param))._array
        )


def orthogonalize(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Return approximately U Vᵀ of a matrix U Σ Vᵀ: singular values between 0.5 and 1.5."""
    check(steps < 100, "Number of steps must be less than 100 for computational efficiency")
    check(len(coefficients) == 3, "Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = round_to_bfloat16(matrix.T if is_tall else matrix)
    # The norm bounds the largest singular value: with values up to 1 the iteration converges.
    norm = round_to_bfloat16(x.norm()).clamp(min=eps)
    x = round_to_bfloat16(x / norm)
    for _ in range(steps):
        gram = round_to_bfloat16(x @ x.T)
        x = round_to_bfloat16(a * x + round_to_bfloat16(b * gram + c * (gram @ gram)) @ x)
    return x.T if is_tall else x


def round_to_bfloat16(values: Tensor) -> Tensor:
    """Return values rounded to bfloat16, but stored as float32, which is faster on a CPU."""
    if isinstance(bfloat16, AbsentDtype):
        return values  # more accurate than is needed
    return values.bfloat16().float()


def adjust_lr(lr: float, adjust_lr_fn: str | None, shape: tuple[int, ...]) -> float:
    """Return the learning rate for a matrix of this shape."""
    if adjust_lr_fn == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(shape))
    return lr * math.sqrt(max(1, shape[0] / shape[1]))
