"""Adafactor: Adam for large matrices, with little memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import dtypes
from ..core.tensor import Tensor
from ..ops import zeros, zeros_like
from .differentiable import (
    DifferentiableOptimizer,
    apply_weight_decay,
    check_lr,
    host_scalar,
    learning_rate,
)
from .optimizer import check

__all__ = ["Adafactor"]


class Adafactor(DifferentiableOptimizer):
    r"""Remember of g² only the averages of rows and of columns: n + m numbers, not n · m.

    With β = t^beta2_decay: R ← R + β · (mean of g² along rows - R), C likewise along columns,
    v = R · C / mean(R); a vector has a v of its own. u = g / √max(v, ε₁²) is held back where
    it is large, and steps are relative to the size of the parameter:

    θ ← θ - min(lr, 1/√t) · max(ε₂, rms(θ)) · u / max(1, rms(u) / d)

    Args:
        params: what to train: parameters, or groups of them.
        lr: the largest relative step.
        beta2_decay: the power with which old squares are forgotten.
        eps: (ε₁, ε₂): ε₁ = None stands for the accuracy of the dtype.
        d: above which size an update is held back.
        weight_decay: pull towards zero: θ ← θ - lr · weight_decay · θ.
        maximize: walk uphill.

    Paper: Shazeer and Stern, Adafactor: adaptive learning rates with sublinear memory
    cost, 2018.

    Raises: ValueError: a setting makes no sense. RuntimeError: a complex parameter.

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

    def init_state(self, group: dict[str, Any], param: Tensor) -> dict[str, Any]:
        """Return zeros: a column and a row for a matrix, else one number for each."""
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
        self, xp: Any, group: dict[str, Any], param: Any, grad: Any, state: dict[str, Any]
    ) -> None:
        """Take one step."""
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
            mean = xp.mean(rows, axis=-2, keepdims=True)
            v = rows * columns / xp.maximum(mean, eps1)
        else:
            v = state["variance"]
            v += one_minus_beta2 * (squares - v)
        change = grad / xp.sqrt(xp.maximum(v, eps1 * eps1))
        param -= alpha / max(1.0, rms(xp, change) / group["d"]) * change


def rms(xp: Any, values: Any) -> float:
    """Return the root of the mean square: the usual size of a number in an array."""
    return float(xp.sqrt(xp.mean(values * values)))
