"""SparseAdam: Adam for sparse gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..backends.numpy import Namespace
from ..core.tensor import Tensor
from ..errors import CodeLocation
from ..ops import zeros_like
from .optimizer import Optimizer
from .update_rule import (
    Group,
    State,
    Values,
    check,
    check_betas,
    host_scalar,
    learning_rate,
    update_rows,
)

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    r"""Adam that updates only the rows of a sparse gradient; the averages of the others stay.

    The formula is that of `Adam`, applied to the elements that the gradient stores:

        m ← m + (1 - β₁)(g - m),  v ← v + (1 - β₂)(g² - v)
        θ ← θ - lr · √(1 - β₂ᵗ) / (1 - β₁ᵗ) · m / (√v + ε)

    Gradients are sparse after `nn.Embedding(…, sparse=True)`.

    Args:
        params: the parameters to train, or groups of them.
        lr: the learning rate, about the largest change of an element per step.
        betas: the decay rates of the two averages.
        eps: added to the denominator, for a finite division.
        maximize: whether to maximize the objective instead of minimizing it.

    Raises: ValueError: a setting is invalid, or a parameter is complex.
        RuntimeError: on `step()`, where a gradient is dense.

    >>> words = nn.Embedding.from_pretrained(ones(3, 1), freeze=False, sparse=True)
    >>> words(tensor([1])).sum().backward()
    >>> optim.SparseAdam(words.parameters(), lr=0.1).step()
    >>> words.weight.tolist() == [[1.0], [words.weight[1].item()], [1.0]]
    True
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
        """Return zeros for both averages."""
        return {"step": 0, "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}

    def step_params(self, group: Group, params: list[Tensor], location: CodeLocation) -> None:
        """Raise RuntimeError for a gradient that is dense."""
        if params:
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )

    def update_sparse(self, group: Group, param: Tensor, grad: Any) -> None:
        """Update the rows of a sparse gradient."""
        state = self.state[param] = self.state.get(param) or self.init_state(group, param)
        update_rows(self.update, group, param, grad, {**state, "step": host_scalar(state["step"])})
        state["step"] += 1

    def update(
        self, xp: Namespace, group: Group, param: Values, grad: Values, state: State
    ) -> None:
        (beta1, beta2), step = group["betas"], state["step"]
        m, v = state["exp_avg"], state["exp_avg_sq"]
        m += (1 - beta1) * (grad - m)
        v += (1 - beta2) * (grad * grad - v)
        correction = math.sqrt(1 - beta2**step) / (1 - beta1**step)
        param -= learning_rate(group) * correction * m / (xp.sqrt(v) + group["eps"])
