"""Adafactor: adaptive learning rates with a memory sublinear in the size of a matrix."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import dtypes
from ..backends.numpy import Namespace
from ..core.tensor import Tensor
from ..ops import zeros, zeros_like
from .optimizer import Optimizer
from .update_rule import (
    Group,
    State,
    Values,
    apply_weight_decay,
    check,
    check_lr,
    host_scalar,
    learning_rate,
)

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    r"""Keep only row and column averages of g²: n + m elements instead of n · m.

    With β = t^beta2_decay: R ← R + β · (mean of g² along rows - R), C likewise along columns,
    v = R · C / mean(R); a vector keeps its full v. u = g / √max(v, ε₁²) is clipped by its RMS,
    and steps are relative to the RMS of the parameter:

    θ ← θ - min(lr, 1/√t) · max(ε₂, rms(θ)) · u / max(1, rms(u) / d)

    Args:
        params: the parameters to train, or groups of them.
        lr: the upper bound of the relative step.
        beta2_decay: the exponent of the decay rate of the averages.
        eps: (ε₁, ε₂): ε₁ = None is the machine epsilon of the dtype.
        d: the clipping threshold of the RMS of an update.
        weight_decay: decoupled decay: θ ← θ - lr · weight_decay · θ.
        maximize: whether to maximize the objective instead of minimizing it.

    Paper: Shazeer and Stern, Adafactor: adaptive learning rates with sublinear memory
    cost, 2018.

    Raises: ValueError: a setting is invalid. RuntimeError: a complex parameter.

    >>> x = tensor(1.0, requires_grad=True)
    >>> x.square().backward()
    >>> optim.Adafactor([x], lr=0.1).step()
    >>> x
    tensor(0.9000, requires_grad=True)
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0,
        weight_decay: float = 0.0, *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr, "Learning rate should be >= 0 but is: {}")
        check(beta2_decay <= 0, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        check(eps[0] is None or eps[0] >= 0, f"epsilon1 should be >= 0 but is: {eps[0]}")
        check(eps[1] >= 0, f"epsilon2 should be >= 0 but is: {eps[1]}")
        check(d >= 1, f"Clipping threshold d should be >= 1 but is: {d}")
        check(weight_decay >= 0, f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
            "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
        })  # fmt: skip

    def init_state(self, group: Group, param: Tensor) -> State:
        """Return zeros: a row and a column for a matrix, else one element per element."""
        if param.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        if param.ndim < 2:
            return {"step": host_scalar(0), "variance": zeros_like(param)}
        *rest, rows, columns = param.shape
        factory_kwargs = {"dtype": param.dtype, "device": param.device}
        return {
            "step": host_scalar(0), "row_var": zeros(*rest, rows, 1, **factory_kwargs),
            "col_var": zeros(*rest, 1, columns, **factory_kwargs),
        }  # fmt: skip

    def update(
        self, xp: Namespace, group: Group, param: Values, grad: Values, state: State
    ) -> None:
        step, lr, (eps1, eps2) = state["step"], learning_rate(group), group["eps"]
        if eps1 is None:
            eps1 = dtypes.finfo(dtypes.of(group.get("rounded_to", param.dtype))).eps
        one_minus_beta2 = step ** group["beta2_decay"]
        alpha = max(eps2, rms(xp, param)) * min(lr, step**-0.5)
        apply_weight_decay({**group, "decoupled_weight_decay": True}, lr, param, grad)

        squares = grad * grad
        if grad.ndim > 1:
            rows, columns = state["row_var"], state["col_var"]
            rows += one_minus_beta2 * (xp.mean(squares, axis=-1, keepdims=True) - rows)
            columns += one_minus_beta2 * (xp.mean(squares, axis=-2, keepdims=True) - columns)
            # A rank-1 estimate of v; without the division it would count the mean of v twice.
            mean = xp.mean(rows, axis=-2, keepdims=True)
            v = rows * columns / xp.maximum(mean, eps1)
        else:
            v = state["variance"]
            v += one_minus_beta2 * (squares - v)
        change = grad / xp.sqrt(xp.maximum(v, eps1 * eps1))
        param -= alpha / max(1.0, rms(xp, change) / group["d"]) * change


def rms(xp: Namespace, values: Any) -> float:
    """Return the root mean square of an array."""
    return float(xp.sqrt(xp.mean(values * values)))
