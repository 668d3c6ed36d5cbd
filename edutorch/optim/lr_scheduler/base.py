"""`LRScheduler`, the base class of learning rate schedulers.

`get_lr` computes the next learning rates. Most schedulers compute them from the current ones
(the chainable form), so that several can share an optimizer.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...core.argument_checks import check_settings
from ...core.tensor import Tensor
from ...errors import refuse_unknown_keywords, warn
from ...modes import no_grad
from ..optimizer import Optimizer

__all__ = ["LRScheduler"]

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
            group[key].fill_(float(value))
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
