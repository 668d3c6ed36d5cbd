"""The barrier that says who is missing: each rank reports to the first one, by messages."""

from __future__ import annotations

import time
from datetime import timedelta

import numpy as np

from .errors import DistBackendError
from .process_group import ProcessGroup

ARRIVED, RELEASED = 32_001, 32_002  # tags of messages that nobody else uses


def wait_for_all(group: ProcessGroup, timeout: timedelta, wait_all_ranks: bool) -> None:
    """Wait until all ranks are here.

    Raises: DistBackendError: after `timeout`; on the first rank it names those that are missing.
    """
    token = np.zeros(1, np.uint8)
    if group.rank():
        group.engine.send(token, 0, ARRIVED, is_async=False)
        request, _ = group.engine.receive(token, 0, RELEASED, is_async=True)
        if not poll(request, time.monotonic() + timeout.total_seconds()):
            request.Cancel()
            raise DistBackendError(
                "monitored_barrier", "rank 0 did not release this rank in time",
                {"rank": group.ranks[group.rank()], "timeout": timeout},
                "the error of rank 0 says which rank is missing",
            )  # fmt: skip
        return
    limit = time.monotonic() + timeout.total_seconds()
    waiting = {
        rank: group.engine.receive(token.copy(), rank, ARRIVED, is_async=True)[0]
        for rank in range(1, group.size())
    }
    missing = []
    for rank, request in waiting.items():
        if not poll(request, limit):
            request.Cancel()
            missing.append(group.ranks[rank])
            if not wait_all_ranks:
                break
    if missing:
        raise DistBackendError(
            "monitored_barrier", f"ranks {', '.join(map(str, missing))} did not come in time",
            {"timeout": timeout},
            "a rank that hangs, or that has called another collective, does not come",
        )  # fmt: skip
    for rank in waiting:
        group.engine.send(token, rank, RELEASED, is_async=False)


def poll(request: object, limit: float) -> bool:
    """Test a request until it is complete or the time is over. Returns whether it is complete."""
    while not request.Test():  # type: ignore[attr-defined]
        if time.monotonic() > limit:
            return False
        time.sleep(0.001)
    return True
