"""Schedulers that combine others, all at once or in sequence."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, group_values, set_group_value
from .plateau import ReduceLROnPlateau

__all__ = ["ChainedScheduler", "SequentialLR"]


class MultiScheduler(LRScheduler):
    """Base of schedulers that combine others."""

    _schedulers: Sequence[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """Return the state, with the states of all schedulers."""
        saved = [scheduler.state_dict() for scheduler in self._schedulers]
        return {**super().state_dict(), "_schedulers": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict({**state_dict, "_schedulers": self._schedulers})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)

    def check(self, schedulers: Sequence[Any], optimizer: Any) -> None:
        """Check that schedulers can be combined.

        Raises: TypeError, ValueError: not schedulers, or not of this optimizer.
        """
        name = type(self).__name__
        for index, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"{name} at index {index} should have `optimizer` as its attribute."
                )
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires "
                    "additional kwargs to be specified when calling `step`, but got one at index "
                    f"{index} in the given schedulers sequence."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got "
                    f"scheduler {type(scheduler).__name__} at index {index} has "
                    f"{scheduler.optimizer}, which is different from {type(optimizer).__name__}."
                )


class ChainedScheduler(MultiScheduler):
    """Apply several schedulers at once: their factors multiply.

    Args:
        schedulers: of one optimizer.
        optimizer: the optimizer to check the schedulers against.

    Raises: TypeError, ValueError: no schedulers, or of different optimizers.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> schedulers = optim.lr_scheduler
    >>> decay = schedulers.ExponentialLR(optimizer, 0.5)
    >>> warm_up = schedulers.ConstantLR(optimizer, 0.5, total_iters=9)
    >>> scheduler = schedulers.ChainedScheduler([decay, warm_up])
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, "
                "but got no scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        self.check(schedulers, optimizer)
        self._schedulers, self.optimizer = schedulers, optimizer
        self._last_lr = group_values(optimizer, "lr")

    def _update_lr(self, epoch: int | None = None) -> None:
        """Restart; called by a `SequentialLR` at the milestone of this scheduler."""
        for group in self.optimizer.param_groups:
            set_group_value(group, "lr", group["initial_lr"])
        for scheduler in self._schedulers:
            scheduler.last_epoch = -1
            scheduler._initial_step()
        self._last_lr = self.rates()

    def step(self) -> None:  # type: ignore[override]
        """Make a step of every scheduler."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self.rates()


class SequentialLR(MultiScheduler):
    """Apply several schedulers in sequence: at each milestone the next one starts.

    One of the schedulers may be a SequentialLR or a ChainedScheduler itself. (In PyTorch an inner
    SequentialLR is one step ahead, and one that starts at a milestone fails.)

    Args:
        optimizer: the optimizer whose learning rates are changed.
        schedulers: of this optimizer, in their order.
        milestones: the steps at which the next one starts: one fewer than schedulers.
        last_epoch: the number of steps made before; -1 for a new schedule.

    Raises: TypeError, ValueError: no schedulers, of different optimizers, or not one
        milestone between two.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> schedulers = optim.lr_scheduler
    >>> warm_up = schedulers.ConstantLR(optimizer, 0.25, total_iters=9)
    >>> scheduler = schedulers.SequentialLR(
    ...     optimizer, [warm_up, schedulers.ExponentialLR(optimizer, 0.5)], milestones=[2]
    ... )
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates += scheduler.get_last_lr(); optimizer.step(); scheduler.step()
    >>> rates
    [0.25, 0.25, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int],
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler, but got no scheduler."
            )
        self.check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                "the number of milestone points, but got number of schedulers "
                f"{len(schedulers)} and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers: list[Any] = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:  # each scheduler has changed it when it was made
            set_group_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        self._initial_step()

    def _initial_step(self) -> None:
        """Make the initial step of the first scheduler only."""
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def _update_lr(self, epoch: int | None = None) -> None:
        """Restart at a step; called by an outer `SequentialLR` at its milestone."""
        self.last_epoch = epoch or 0
        index = bisect_right(self._milestones, self.last_epoch)
        self._schedulers[index]._update_lr(0)
        self._last_lr = self._schedulers[index].get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Undo the initial step of each scheduler."""
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for inner in scheduler._schedulers:
                self.recursive_undo(inner)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Make a step of the active scheduler."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()
