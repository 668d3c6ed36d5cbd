"""`ReduceLROnPlateau`: reduce the learning rate when a metric stops improving."""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal, SupportsFloat

from ..optimizer import Optimizer
from .base import EPOCH_DEPRECATION_WARNING, LRScheduler, check_optimizer, set_group_value

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rate by a factor when a metric has stopped improving.

    Unlike other schedulers it needs the metric: `scheduler.step(loss)`.

    Args:
        optimizer: the optimizer whose learning rates are changed.
        mode: "min": lower is better; "max": higher is better.
        factor: the factor of the rate.
        patience: the number of epochs without improvement that are tolerated.
        threshold: the smallest change that counts as an improvement.
        threshold_mode: "rel": relative to the best value so far; "abs": absolute.
        cooldown: the number of epochs after a reduction in which nothing is counted.
        min_lr: the lower bound of the rate, or one per group.
        eps: smaller changes of the rate are not made.

    Raises: ValueError: a setting is invalid. TypeError: not an Optimizer.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> rates = []
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     scheduler.step(loss); rates += scheduler.get_last_lr()
    >>> rates
    [1.0, 1.0, 1.0, 0.1]
    """

    def __init__(
        self, optimizer: Optimizer, mode: Literal["min", "max"] = "min", factor: float = 0.1,
        patience: int = 10, threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel", cooldown: int = 0,
        min_lr: list[float] | float = 0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.factor = factor
        self.optimizer = check_optimizer(optimizer)
        groups = len(optimizer.param_groups)
        self.default_min_lr: float | None
        if isinstance(min_lr, list | tuple):
            if len(min_lr) != groups:
                raise ValueError(f"expected {groups} min_lrs, got {len(min_lr)}")
            self.default_min_lr, self.min_lrs = None, list(min_lr)
        else:
            self.default_min_lr, self.min_lrs = min_lr, [min_lr] * groups
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.last_epoch = 0
        self._last_lr = self.rates()
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = self.num_bad_epochs = 0

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        """Report the metric of an epoch.

        Args:
            metrics: the metric, such as a loss or an accuracy.
            epoch: the number of the epoch (deprecated).
        """
        current = float(metrics)
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self.rates()

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from "
                    f"when `ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due "
                    "to a new param group being added to the optimizer. Please modify the "
                    "`min_lrs` field to match the length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, min_lr in zip(groups, self.min_lrs, strict=True):
            old_lr = float(group["lr"])
            new_lr = max(old_lr * self.factor, min_lr)
            if old_lr - new_lr > self.eps:
                set_group_value(group, "lr", new_lr)

    @property
    def in_cooldown(self) -> bool:
        """Whether bad epochs are currently not counted."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        change = self.threshold if self.mode == "max" else -self.threshold
        goal = best * (1 + change) if self.threshold_mode == "rel" else best + change
        return a > goal if self.mode == "max" else a < goal

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
