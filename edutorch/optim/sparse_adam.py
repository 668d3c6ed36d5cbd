"""SparseAdam: Adam for sparse gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from .optimizer import Optimizer
from .update_rule import Group, State, check, check_betas

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    r"""Adam that updates only the rows of a sparse gradient; the averages of the others stay.

    The settings are checked and stored as in PyTorch. Gradients are always dense here, however,
    and like PyTorch's this optimizer refuses them: use `Adam` instead.

    Args:
        params: the parameters to train, or groups of them.
        lr: the learning rate, about the largest change of an element per step.
        betas: the decay rates of the two averages.
        eps: added to the denominator, for a finite division.
        maximize: whether to maximize the objective instead of minimizing it.

    Raises: ValueError: a setting is invalid, or a parameter is complex.
        RuntimeError: on `step()`, where a gradient is dense.

    >>> x = tensor(1.0, requires_grad=True)
    >>> optim.SparseAdam([x]).defaults["lr"]
    0.001
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, maximize: bool = False,
    ) -> None:  # fmt: skip
        check(not isinstance(lr, Tensor) or lr.numel() == 1, "Tensor lr must be 1-element")
        check(float(lr) > 0, f"Invalid learning rate: {lr}")
        check(eps > 0, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        wrong = [
            [index, number]
            for index, group in enumerate(self.param_groups)
            for number, param in enumerate(group["params"])
            if param.is_complex()
        ]
        check(
            not wrong,
            f"Complex params at indices {wrong}: SparseAdam does not support complex parameters",
        )

    def init_state(self, group: Group, param: Tensor) -> State:
        """Raise RuntimeError: the gradient is dense."""
        raise RuntimeError(
            "SparseAdam does not support dense gradients, please consider Adam instead"
        )
