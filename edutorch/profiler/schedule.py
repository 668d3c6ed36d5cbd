"""Which steps of a training loop are recorded."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from ..errors import EdutorchError, warn


class ProfilerActivity(Enum):
    """Whose time is measured: the host's, a GPU's."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What a profile does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ScheduleError(EdutorchError, AssertionError, ValueError):
    """The numbers of a schedule, or of a profile's activities, make no sense."""


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Make a schedule: skip some steps, then in turn wait, warm up, record.

    Args:
        wait: steps of each cycle in which nothing listens.
        warmup: steps in which the profile listens and forgets.
        active: steps that are recorded; after the last one the trace is ready.
        repeat: how many cycles there are; 0 for no end.
        skip_first: steps before the first cycle.
        skip_first_wait: not 0: the first cycle does not wait.

    Raises: AssertionError (a ValueError too): a number is negative, or nothing is active.

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
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD

    return action


def always(step: int) -> ProfilerAction:
    """Record every step: what a profile without a schedule does."""
    return ProfilerAction.RECORD
