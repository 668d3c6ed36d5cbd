"""Learning rates that change while training: large steps first, small ones later.

Each scheduler says in `get_lr` how the present rate becomes the next one. Because it
starts from the present rate, several schedulers can share an optimizer.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from typing import Any

from .optimizer import Optimizer

__all__ = [
    "ConstantLR", "CosineAnnealingLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR",
    "MultiStepLR", "StepLR",
]  # fmt: skip


class LRScheduler:
    """The base of all schedulers: call `step()` after each epoch (or each batch).

    Args:
        optimizer: whose groups get new learning rates.
        last_epoch: how many steps were made before; -1 begins.

    Raises: TypeError: not an Optimizer. KeyError: continuing without a beginning.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    "param 'initial_lr' is not specified in the param_groups: "
                    "load the optimizer's state_dict before making a scheduler that continues"
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self._last_lr: list[float] = []
        self._first = True
        self.step()
        self._first = False

    def get_lr(self) -> list[float]:
        """Return the rate of each group at step `last_epoch`. Every scheduler writes its own."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Go one step further and give the groups their new rates."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = lr
        self._last_lr = self.rates

    @property
    def rates(self) -> list[float]:
        """The groups' present rates."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def scaled(self, factor: float) -> list[float]:
        """Return the present rates times a factor."""
        return [lr * factor for lr in self.rates]

    def get_last_lr(self) -> list[float]:
        """Return the rates that the last step has set."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Return what is needed to continue, without the optimizer."""
        kept = ("optimizer", "_first", "lr_lambdas")
        return {key: value for key, value in self.__dict__.items() if key not in kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """The first rate times what a function says: lr = lr₀ · f(step).

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Any],
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        groups = len(optimizer.param_groups)
        given = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
        if len(given) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(given)}")
        self.lr_lambdas = given
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Ask the function of each group."""
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * function(self.last_epoch) for base, function in pairs]


class StepLR(LRScheduler):
    """The rate times gamma after every `step_size` steps.

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

    def get_lr(self) -> list[float]:
        """Multiply when a stretch is over."""
        over = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return self.scaled(self.gamma if over else 1)


class MultiStepLR(LRScheduler):
    """The rate times gamma at each of the given steps."""

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Multiply once for each milestone that has just been reached."""
        passed = bisect.bisect_right(self.milestones, self.last_epoch)
        before = bisect.bisect_right(self.milestones, self.last_epoch - 1)
        return self.scaled(self.gamma ** (passed - before))


class ExponentialLR(LRScheduler):
    """The rate times gamma after every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Multiply, except at the beginning."""
        return self.scaled(self.gamma if self.last_epoch > 0 and not self._first else 1)


class ConstantLR(LRScheduler):
    """A part of the rate for the first steps, then all of it."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Multiply at the beginning, and undo it at the end."""
        if self.last_epoch == 0:
            return self.scaled(self.factor)
        return self.scaled(1 / self.factor if self.last_epoch == self.total_iters else 1)


class LinearLR(LRScheduler):
    """The rate grows (or falls) in a straight line for some steps: a warm-up.

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
            raise ValueError("Starting multiplicative factor must be in (0, 1]")
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor must be in [0, 1]")
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def factor_at(self, step: int) -> float:
        """Return the factor of the first rate at a step."""
        part = min(step, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * part

    def get_lr(self) -> list[float]:
        """Go from the last factor to this one."""
        if self.last_epoch == 0:
            return self.scaled(self.start_factor)
        return self.scaled(self.factor_at(self.last_epoch) / self.factor_at(self.last_epoch - 1))


class CosineAnnealingLR(LRScheduler):
    """The rate follows half a cosine wave from the first one down to eta_min.

    lr = eta_min + (lr₀ - eta_min) · (1 + cos(π · step / T_max)) / 2

    Paper: Loshchilov and Hutter, SGDR, 2017.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_max: float, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def height(self, step: int) -> float:
        """Return how high above eta_min the wave is at a step, from 0 to 1."""
        return (1 + math.cos(math.pi * step / self.T_max)) / 2

    def get_lr(self) -> list[float]:
        """Go from the last height to this one; from the bottom there is only the wave itself."""
        if self.last_epoch == 0:
            return self.rates
        now, before = self.height(self.last_epoch), self.height(self.last_epoch - 1)
        if self._first or (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            return [
                (self.eta_min if self._first else lr) + (base - self.eta_min) * now
                for lr, base in zip(self.rates, self.base_lrs, strict=True)
            ]
        return [(lr - self.eta_min) * now / before + self.eta_min for lr in self.rates]
