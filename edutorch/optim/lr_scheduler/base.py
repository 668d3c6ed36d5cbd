"""The base class of learning rate schedulers, those that combine others, and the one that watches.

`get_lr` computes the next learning rates. Most schedulers compute them from the current ones
(the chainable form), so that several can share an optimizer.
"""

from __future__ import annotations

import functools
import math
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, SupportsFloat

from ...core.argument_checks import check_settings
from ...core.tensor import Tensor
from ...errors import refuse_unknown_keywords, warn
from ...modes import no_grad
from ..optimizer import Optimizer

__all__ = ["ChainedScheduler", "LRScheduler", "ReduceLROnPlateau", "SequentialLR"]

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. With an epoch the closed form "
    "is used instead of the chainable form, where there is one."
)


def accept_verbose(init: Callable[..., None]) -> Callable[..., None]:
    """Wrap a constructor: `verbose`, which PyTorch has removed, is accepted with a warning.

    Unknown settings, and settings of a wrong type, raise an error.
    """

    @functools.wraps(init)
    def wrapped(self: LRScheduler, *args: Any, **named: Any) -> None:
        if named.pop("verbose", None) not in (None, False, "deprecated"):
            warn("`verbose` does nothing any more: print scheduler.get_last_lr() where you want it")
        refuse_unknown_keywords(init, type(self).__name__, named)
        check_settings(type(self).__name__, init, args, named)
        init(self, *args, **named)

    return wrapped


class LRScheduler:
    """Base class of all schedulers: call `step()` after each epoch (or each batch).

    A subclass overrides `get_lr`, which finds the number of the step in `self.last_epoch` and the
    initial rates in `self.base_lrs`.

    Args:
        optimizer: the optimizer whose learning rates are changed.
        last_epoch: the number of steps made before; -1 for a new schedule.

    Raises: TypeError: not an Optimizer. KeyError: resuming without initial rates.

    >>> class Halves(optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base / 2**self.last_epoch for base in self.base_lrs]
    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = Halves(optimizer)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.5]
    """

    def __init_subclass__(cls, **named: Any) -> None:
        """Let edutorch's own schedulers accept the `verbose` of older programs."""
        super().__init_subclass__(**named)
        if "__init__" in vars(cls) and cls.__module__.startswith("edutorch."):
            cls.__init__ = accept_verbose(cls.__init__)  # type: ignore[method-assign]

    _get_lr_called_within_step = False
    _is_initial = False
    _step_count = 0
    last_epoch: int

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = check_optimizer(optimizer)
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copy_value(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming "
                    "scheduler with last_epoch >= 0: load the optimizer's state_dict before "
                    "making a scheduler that continues"
                )
        self.base_lrs: list[Any] = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        if not hasattr(optimizer, "_opt_called"):
            optimizer._opt_called = False  # type: ignore[attr-defined]
            optimizer.register_step_pre_hook(mark_step)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[Any]:
        """Return the rate of each group at step `last_epoch`. Every scheduler overrides it."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Advance by one step and set the new learning rates.

        Args:
            epoch: go to this step instead (deprecated).
        """
        if self._step_count == 1:
            warn_order(self.optimizer)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        with enable_get_lr_call(self):
            closed_form = getattr(self, "_get_closed_form_lr", None)
            rates = closed_form() if closed_form and epoch is not None else self.get_lr()
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            set_group_value(group, "lr", lr)
        self._last_lr: list[Any] = self.rates()

    def rates(self) -> list[Any]:
        """Return the current rate of each group."""
        return group_values(self.optimizer, "lr")

    def scaled_rates(self, factor: float) -> list[Any]:
        """Return the current rates times a factor."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[Any]:
        """Return the rates set by the last step."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Return the state, without the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.__dict__.update(state_dict)


_LRScheduler = LRScheduler  # its name before PyTorch 2.0


# Order of calls ------------------------------------------------------------------------


def mark_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Record, as a step pre-hook, that the optimizer has made a step."""
    optimizer._opt_called = True


def warn_order(optimizer: Any) -> None:
    """Warn at a scheduler's first step if the optimizer has not made a step yet."""
    if "step" in vars(optimizer):
        text = (
            "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
            "initialization. Please, make sure to call `optimizer.step()` before "
            "`lr_scheduler.step()`."
        )
    elif not getattr(optimizer, "_opt_called", True):
        text = (
            "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should call "
            "them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`. "
            "Failure to do this will result in skipping the first value of the learning rate "
            "schedule."
        )
    else:
        return
    warn(text)


@contextmanager
def enable_get_lr_call(scheduler: LRScheduler) -> Iterator[None]:
    """Suppress the warning of `get_lr` while a step calls it."""
    scheduler._get_lr_called_within_step = True
    try:
        yield
    finally:
        scheduler._get_lr_called_within_step = False


def warn_outside_step(scheduler: LRScheduler) -> None:
    """Warn a user who calls `get_lr`: it computes the next rates, not the current ones."""
    if not scheduler._get_lr_called_within_step:
        warnings.warn(
            "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
            UserWarning,
            stacklevel=3,
        )


# Groups and their settings ---------------------------------------------------------------


def check_optimizer(optimizer: Any) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def copy_value(value: Any) -> Any:
    """Return a copy of a tensor, as a learning rate is written in place; else the value."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def group_values(optimizer: Optimizer, key: str) -> list[Any]:
    """Return copies of one setting of all groups."""
    return [copy_value(group[key]) for group in optimizer.param_groups]


def set_group_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set a setting of a group; a tensor is written in place."""
    if isinstance(group[key], Tensor):
        with no_grad():
            # A tensor stays on its device: reading it would wait for a GPU.
            group[key].copy_(value) if isinstance(value, Tensor) else group[key].fill_(float(value))
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """Return one value per group: the given ones, or a single one repeated."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [copy_value(value) for _ in range(groups)]
    if len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {groups}."
        )
    return [copy_value(group_value) for group_value in value]


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
