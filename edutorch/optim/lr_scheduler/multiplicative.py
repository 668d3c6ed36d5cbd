"""Schedulers that multiply the learning rate by a factor."""

from __future__ import annotations

import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, warn_outside_step

__all__ = [
    "ConstantLR", "ExponentialLR", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR",
    "PolynomialLR", "StepLR",
]  # fmt: skip

Lambda = Callable[[int], float]


class LambdaLR(LRScheduler):
    """Multiply the initial rate by a function of the step: lr = lr₀ · f(step).

    Args:
        optimizer: the optimizer whose learning rates are changed.
        lr_lambda: the function, or one per group.
        last_epoch: the number of steps made before; -1 for a new schedule.

    Raises: ValueError: the number of functions is not that of the groups.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Lambda | Sequence[Lambda], last_epoch: int = -1
    ) -> None:
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        functions = list(lr_lambda) if isinstance(lr_lambda, list | tuple) else [lr_lambda] * groups
        if len(functions) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(functions)}")
        self.lr_lambdas: list[Any] = functions
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Evaluate the function of each group."""
        warn_outside_step(self)
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * function(self.last_epoch) for base, function in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Return the state. Functions are not saved, callable objects are."""
        saved = [
            None if isinstance(lr_lambda_, types.FunctionType) else lr_lambda_.__dict__.copy()
            for lr_lambda_ in self.lr_lambdas
        ]
        return {**super().state_dict(), "lr_lambdas": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned, with the functions of this scheduler."""
        super().load_state_dict({**state_dict, "lr_lambdas": self.lr_lambdas})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=False):
            if saved is not None:
                function.__dict__.update(saved)


class MultiplicativeLR(LambdaLR):
    """Multiply the current rate by a function of the step: lr ← lr · f(step).

    Args: as for `LambdaLR`.

    Raises: ValueError, TypeError: not one callable per group.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.5)
    >>> for epoch in range(3):
    ...     optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.125]
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Lambda | Sequence[Lambda], last_epoch: int = -1
    ) -> None:
        for function in lr_lambda if isinstance(lr_lambda, list | tuple) else [lr_lambda]:
            if not callable(function):
                raise TypeError(
                    f"lr_lambda should be a function, but got {type(function).__name__}"
                )
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        """Evaluate the function of each group, except at the initial step."""
        warn_outside_step(self)
        if self._is_initial:
            return self.rates()
        pairs = zip(self.optimizer.param_groups, self.lr_lambdas, strict=True)
        return [group["lr"] * function(self.last_epoch) for group, function in pairs]


class StepLR(LRScheduler):
    """Multiply the rate by gamma every `step_size` steps: lr = lr₀ · γ^⌊step / step_size⌋.

    Args:
        optimizer: the optimizer whose learning rates are changed.
        step_size: the number of steps between changes.
        gamma: the factor γ.
        last_epoch: the number of steps made before; -1 for a new schedule.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates += scheduler.get_last_lr(); optimizer.step(); scheduler.step()
    >>> rates
    [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Multiply after every `step_size` steps."""
        warn_outside_step(self)
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self.rates()
        return self.scaled_rates(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiply the rate by gamma at each milestone.

    Args:
        optimizer: the optimizer whose learning rates are changed.
        milestones: the steps; a repeated one multiplies repeatedly.
        gamma: the factor.
        last_epoch: the number of steps made before; -1 for a new schedule.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates += scheduler.get_last_lr(); optimizer.step(); scheduler.step()
    >>> rates
    [1.0, 0.5, 0.5, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Multiply once per occurrence of this step among the milestones."""
        warn_outside_step(self)
        if self.last_epoch not in self.milestones:
            return self.rates()
        return self.scaled_rates(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiply the rate by gamma after every step: lr = lr₀ · γ^step.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Multiply, except at the initial step."""
        warn_outside_step(self)
        return self.rates() if self._is_initial else self.scaled_rates(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiply the rate by a constant factor for the first steps.

    Args:
        optimizer: the optimizer whose learning rates are changed.
        factor: the factor.
        total_iters: the number of steps with the factor.
        last_epoch: the number of steps made before; -1 for a new schedule.

    Raises: ValueError: the factor is not between 0 and 1.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.ConstantLR(optimizer, factor=0.25, total_iters=2)
    >>> rates = []
    >>> for epoch in range(3):
    ...     rates += scheduler.get_last_lr(); optimizer.step(); scheduler.step()
    >>> rates
    [0.25, 0.25, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Multiply at the initial step, and divide after `total_iters` steps."""
        warn_outside_step(self)
        if self.last_epoch == 0:
            return self.scaled_rates(self.factor)
        return (
            self.scaled_rates(1 / self.factor)
            if self.last_epoch == self.total_iters
            else self.rates()
        )

    def _get_closed_form_lr(self) -> list[Any]:
        factor = 1 if self.last_epoch >= self.total_iters else self.factor
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Change the factor of the rate linearly over some steps, for example as a warm-up.

    Args:
        optimizer: the optimizer whose learning rates are changed.
        start_factor: the initial factor.
        end_factor: the final factor.
        total_iters: the number of steps between them.
        last_epoch: the number of steps made before; -1 for a new schedule.

    Raises: ValueError: a factor is not between 0 and 1.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=2)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.75]
    """

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0,
        total_iters: int = 5, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not 0 < start_factor <= 1:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 "
                "and less or equal to 1."
            )
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the next rates, computed from the current ones."""
        warn_outside_step(self)
        if self.last_epoch == 0:
            return self.scaled_rates(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self.rates()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return self.scaled_rates(1 + rise / before)

    def _get_closed_form_lr(self) -> list[Any]:
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * part
        return [base * factor for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Polynomial decay to zero: lr = lr₀ · (1 - step / total_iters)^power.

    Args:
        optimizer: the optimizer whose learning rates are changed.
        total_iters: the number of steps until it is zero.
        power: the exponent; 1 is linear.
        last_epoch: the number of steps made before; -1 for a new schedule.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.PolynomialLR(optimizer, total_iters=2, power=2)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the next rates, computed from the current ones."""
        warn_outside_step(self)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self.rates()
        now = 1 - self.last_epoch / self.total_iters
        before = 1 - (self.last_epoch - 1) / self.total_iters
        return self.scaled_rates((now / before) ** self.power)

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]
