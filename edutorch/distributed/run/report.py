"""The one message about a job that has failed."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from .monitor import Fault, shorten

__all__ = ["format_fault"]


def format_fault(fault: Fault, world_size: int) -> str:
    """Return the message: which rank, why, and what the others were doing. At most 40 lines."""
    who = "the job" if fault.rank is None else f"rank {fault.rank} of {world_size}"
    host = fault.host or socket.gethostname()
    lines = [f"edutorch.distributed.run: {who} on {host} {fault.cause}"]
    lines += [f"  {line}" for line in fault.details]
    lines += [f"  {line}" for line in others(fault.waiting)]
    return "\n".join(lines)


def others(waiting: Sequence[str]) -> list[str]:
    """Return at most ten lines about the other ranks."""
    return shorten(waiting, 10)
