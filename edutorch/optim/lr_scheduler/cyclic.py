"""Learning rates that follow a cosine or a cycle, some with an inverse cycle of the momentum."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any, Literal

from ..optimizer import Optimizer
from .base import (
    LRScheduler,
    check_optimizer,
    enable_get_lr_call,
    per_group,
    set_group_value,
    warn_outside_step,
)

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


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


class CyclicLR(LRScheduler):
    """Cyclical rates, linear between two bounds: call `step` after each batch.

    At a height h between 0 and 1 of a cycle, lr = base + (max - base) · h · scale; the
    momentum is lowest where the rate is highest.

    Args:
        optimizer: the optimizer whose learning rates are changed.
        base_lr: the lowest rate, or one per group.
        max_lr: the highest rate, or one per group.
        step_size_up: the number of steps up.
        step_size_down: the number of steps down; the same by default.
        mode: the scale of the cycles: "triangular": constant; "triangular2": halved after
            each cycle; "exp_range": gamma^step.
        gamma: see mode.
        scale_fn: a function that replaces mode.
        scale_mode: the argument of `scale_fn`: the number of the "cycle", or of the step
            ("iterations").
        cycle_momentum: whether to cycle the momentum (or β₁) too.
        base_momentum: the lowest momentum, or one per group.
        max_momentum: the highest one, or one per group.
        last_epoch: the number of steps made before; -1 for a new schedule.

    Paper: Smith, Cyclical learning rates for training neural networks, 2017.

    Raises: ValueError: a setting is invalid, or the optimizer has no momentum.
        TypeError: not an Optimizer.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = optim.lr_scheduler.CyclicLR(optimizer, 0.0, 1.0, step_size_up=2)
    >>> rates = []
    >>> for batch in range(5):
    ...     rates += scheduler.get_last_lr(); optimizer.step(); scheduler.step()
    >>> rates
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: float | list[float], max_lr: float | list[float],
        step_size_up: int = 2000, step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0, scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle", cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8, max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.optimizer = check_optimizer(optimizer)
        lowest = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, lowest, strict=True):
                set_group_value(group, "lr", lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom: Any = scale_fn
        self.scale_mode: str = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = uses_beta1(optimizer)
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                init_momentum(self, self.base_momentums, self.max_momentums)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lowest

    def scale_fn(self, x: float) -> float:
        """Return the scale of a cycle (or at a step: see scale_mode)."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Any]:
        """Return the rates at the current step, and set the momentum."""
        warn_outside_step(self)
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rising = x <= self.step_ratio
        height = x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, bounds, strict=True):
                set_momentum(group, self.use_beta1, high - (high - low) * height)
        bounds = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height for low, high in bounds]

    def state_dict(self) -> dict[str, Any]:
        """Return the state. A function is not saved, a callable object is."""
        custom = self._scale_fn_custom
        plain = custom is None or isinstance(custom, types.FunctionType)
        saved = None if plain else custom.__dict__.copy()
        return {**super().state_dict(), "_scale_fn_custom": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned, with the function of this scheduler."""
        custom, saved = self._scale_fn_custom, state_dict["_scale_fn_custom"]
        super().load_state_dict({**state_dict, "_scale_fn_custom": custom})
        if saved is not None:
            custom.__dict__.update(saved)


class OneCycleLR(LRScheduler):
    """The 1cycle policy: from a small rate up to a high one, then down to almost zero.

    Each phase follows half a cosine wave or a straight line; the momentum moves inversely. Call
    `step` after each batch.

    Args:
        optimizer: the optimizer whose learning rates are changed.
        max_lr: the highest rate, or one per group.
        total_steps: the total number of steps; or
        epochs: the number of epochs, and
        steps_per_epoch: the number of steps per epoch.
        pct_start: the fraction of the steps in which the rate increases.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: whether to cycle the momentum (or β₁) too.
        base_momentum: the lowest momentum, or one per group.
        max_momentum: the highest one, or one per group.
        div_factor: the initial rate is max_lr / div_factor.
        final_div_factor: the final rate is the initial one / final_div_factor.
        three_phase: whether to return to the initial rate first, and then go to the final one.
        last_epoch: the number of steps made before; -1 for a new schedule.

    Paper: Smith and Topin, Super-convergence: very fast training of neural networks using
    large learning rates, 2018.

    Raises: ValueError: a setting is invalid, or more than total_steps steps.
        TypeError: not an Optimizer.

    >>> optimizer = optim.SGD([tensor(0.0, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = optim.lr_scheduler.OneCycleLR(
    ...     optimizer, max_lr=1.0, total_steps=5, pct_start=0.6, div_factor=10.0
    ... )
    >>> rates = []
    >>> for batch in range(4):
    ...     rates += scheduler.get_last_lr(); optimizer.step(); scheduler.step()
    >>> tensor(rates)
    tensor([0.1000, 0.5500, 1.0000, 0.5000])
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: float | list[float], total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos", cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85, max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0, final_div_factor: float = 1e4, three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.optimizer = check_optimizer(optimizer)
        self.total_steps = count_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        self._schedule_phases = one_cycle_phases(self.total_steps, pct_start, three_phase)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "anneal_strategy must be one of 'cos' or 'linear', "
                f"instead got {anneal_strategy}"
            )  # fmt: skip
        self._anneal_func_type = anneal_strategy
        highest = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, highest, strict=True):
                first = top / div_factor
                group.update(initial_lr=first, max_lr=top, min_lr=first / final_div_factor)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = uses_beta1(optimizer)
            high = per_group("max_momentum", optimizer, max_momentum)
            low = per_group("base_momentum", optimizer, base_momentum)
            if last_epoch == -1:
                init_momentum(self, low, high)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates at the current step, and set the momentum.

        Raises: ValueError: more than total_steps steps.
        """
        warn_outside_step(self)
        step, begin = self.last_epoch, 0.0
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. "
                f"The specified number of total steps is {self.total_steps}"
            )
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            begin = phase["end_step"]
        part = (step - begin) / (phase["end_step"] - begin)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self.anneal(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                set_momentum(group, self.use_beta1, self.anneal(*ends, part))
        return rates

    def anneal(self, start: Any, end: Any, part: float) -> Any:
        """Interpolate from start to end."""
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


def count_steps(total_steps: Any, epochs: Any, steps_per_epoch: Any) -> int:
    """Return the total number of steps."""
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    settings: dict[str, Any] = {"total_steps": total_steps}
    if total_steps is None:
        settings = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    for name, value in settings.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return math.prod(settings.values())


def one_cycle_phases(total: int, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
    """Return the phases: the last step of each, and the settings to interpolate between."""
    rates = ["initial_lr", "max_lr", *(["initial_lr"] if three_phase else []), "min_lr"]
    momentums = ["max_momentum", "base_momentum", *["max_momentum"] * (2 if three_phase else 1)]
    ends = [pct_start * total - 1, *([2 * pct_start * total - 2] if three_phase else []), total - 1]
    return [
        {
            "end_step": end, "start_lr": rates[i], "end_lr": rates[i + 1],
            "start_momentum": momentums[i], "end_momentum": momentums[i + 1],
        }
        for i, end in enumerate(ends)
    ]  # fmt: skip


def uses_beta1(optimizer: Optimizer) -> bool:
    """Whether the optimizer's momentum is its β₁."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    return "betas" in optimizer.defaults


def init_momentum(scheduler: Any, low: list[float], high: list[float]) -> None:
    """Set the bounds of the momentum of each group; it starts at the highest one."""
    for group, lowest, highest in zip(scheduler.optimizer.param_groups, low, high, strict=True):
        set_momentum(group, scheduler.use_beta1, highest)
        group["max_momentum"], group["base_momentum"] = highest, lowest


def set_momentum(group: dict[str, Any], use_beta1: bool, value: float) -> None:
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value
