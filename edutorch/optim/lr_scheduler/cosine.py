"""Cosine annealing schedulers."""

from __future__ import annotations

import math
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, enable_get_lr_call, set_group_value, warn_outside_step

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts"]


class CosineAnnealingLR(LRScheduler):
    """Cosine annealing from the initial rate down to eta_min (and up again).

    lr = eta_min + (lr₀ - eta_min) · (1 + cos(π · step / T_max)) / 2

    Args:
        optimizer: the optimizer whose learning rates are changed.
        T_max: the number of steps to the lowest rate.
        eta_min: the lowest rate.
        last_epoch: the number of steps made before; -1 for a new schedule.

    Paper: Loshchilov and Hutter, SGDR: stochastic gradient descent with warm restarts, 2017.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the next rates, computed from the current ones."""
        warn_outside_step(self)
        if self._is_initial:
            return self.rates()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        groups, step = self.optimizer.param_groups, self.last_epoch
        if (step - 1 - self.T_max) % (2 * self.T_max) == 0:
            # At the minimum the ratio below is 0/0: use the difference of the first step instead.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                group["lr"] + (base - self.eta_min) * rise
                for group, base in zip(groups, self.base_lrs, strict=True)
            ]
        now = 1 + math.cos(math.pi * step / self.T_max)
        before = 1 + math.cos(math.pi * (step - 1) / self.T_max)
        return [now / before * (group["lr"] - self.eta_min) + self.eta_min for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        return cosine_values(self.base_lrs, self.eta_min, self.last_epoch / self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing from the initial rate down to eta_min, with warm restarts.

    lr = eta_min + (lr₀ - eta_min) · (1 + cos(π · T_cur / T_i)) / 2, where T_cur counts the steps
    since the last restart and T_i is the length of the current cycle.

    Args:
        optimizer: the optimizer whose learning rates are changed.
        T_0: the length of the first cycle.
        T_mult: the ratio of the lengths of successive cycles.
        eta_min: the lowest rate.
        last_epoch: the number of steps made before; -1 for a new schedule.

    Paper: Loshchilov and Hutter, SGDR: stochastic gradient descent with warm restarts, 2017.

    Raises: ValueError: a setting is invalid.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates += scheduler.get_last_lr(); optimizer.step(); scheduler.step()
    >>> rates
    [1.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: Any = 0.0,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0, self.T_i, self.T_mult = T_0, T_0, T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates at the current position in the cycle."""
        warn_outside_step(self)
        return cosine_values(self.base_lrs, self.eta_min, self.T_cur / self.T_i)

    def step(self, epoch: float | None = None) -> None:
        """Advance by one step, or go to an epoch, which may be fractional: 3.5.

        Raises: ValueError: a negative epoch.
        """
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self.find_wave(epoch)
        self.last_epoch = math.floor(epoch)
        with enable_get_lr_call(self):
            for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
                set_group_value(group, "lr", lr)
        self._last_lr = self.rates()

    def find_wave(self, epoch: float) -> None:
        """Set the cycle in which an epoch lies, and the position in it."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n


def cosine_values(tops: list[Any], bottom: float, part: float) -> list[Any]:
    """Return points on half cosine waves from each top (part 0) to the bottom (part 1)."""
    height = (1 + math.cos(math.pi * part)) / 2
    return [bottom + (top - bottom) * height for top in tops]
