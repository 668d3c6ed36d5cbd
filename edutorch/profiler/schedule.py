"""Schedules: which steps of a training loop are recorded."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from ..errors import EdutorchError, warn


class ProfilerActivity(Enum):
    """The devices whose time is measured."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """The action of a profile in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ScheduleError(EdutorchError, AssertionError, ValueError):
    """The arguments of a schedule, or the activities of a profile, are invalid."""


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Return a schedule: skip some steps, then repeatedly wait, warm up and record.

    Args:
        wait: steps of each cycle without profiling.
        warmup: steps in which the profile runs and its results are discarded.
        active: steps that are recorded; after the last one the trace is ready.
        repeat: the number of cycles; 0 for no limit.
        skip_first: steps before the first cycle.
        skip_first_wait: if not 0, the first cycle does not wait.

    Raises: AssertionError (a ValueError too): an argument is negative, or `active` is 0.

    >>> plan = profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise ScheduleError(
            "schedule",
            "active must be at least 1 and the other numbers at least 0",
            {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat,
             "skip_first": skip_first},
            "schedule(wait=1, warmup=1, active=3) records three steps out of five",
        )  # fmt: skip
    if warmup == 0:
        warn("schedule: without a warmup, the first recorded step is slower than the others")
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise ScheduleError("schedule", "a step cannot be negative", {"step": step})
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if repeat and step >= repeat * length:
            return ProfilerAction.NONE
        position = step % length
        if position < wait:
            return ProfilerAction.NONE
        if position < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if position == length - 1 else ProfilerAction.RECORD

    return action


def always(step: int) -> ProfilerAction:
    """Record every step: the default schedule."""
    return ProfilerAction.RECORD
