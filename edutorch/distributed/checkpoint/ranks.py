"""The ranks that save or load together, also from a thread beside the program."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..object_collectives import all_gather_object
from ..process_group import ProcessGroup, group_of, is_initialized, world
from .errors import CheckpointException, failure_of_ranks

__all__ = ["Ranks"]

T = TypeVar("T")
TEXT = 2000
POLL = 0.003


class Ranks:
    """The ranks of a process group, or this process alone.

    Args:
        group: a process group; None: that of all ranks.
        alone: this process, whatever groups there are.
    """

    def __init__(self, group: Any = None, alone: bool = False) -> None:
        self.group: ProcessGroup | None = None
        if not alone and is_initialized():
            self.group = group_of(group, "checkpoint")
        self.rank = 0 if self.group is None else self.group.rank()
        self.size = 1 if self.group is None else self.group.size()

    def global_rank(self, rank: int) -> int:
        """Return the number of a rank in the whole job."""
        return rank if self.group is None else self.group.ranks[rank]

    def gather(self, value: Any) -> list[Any]:
        """Return the objects of all ranks."""
        if self.group is None:
            return [value]
        values: list[Any] = [None] * self.size
        all_gather_object(values, value, self.group)
        return values

    def together(self, what: str, call: Callable[[], T]) -> list[T]:
        """Call a function on all ranks, and return what it has returned on each.

        Raises: CheckpointException: it has failed on one of them; all ranks raise it.
        """
        error: Exception | None = None
        result: Any = None
        try:
            result = call()
        except Exception as caught:
            if self.group is None:
                raise
            error = caught
        told = self.gather((None if error is None else describe(error), result))
        self.check(what, [text for text, _ in told], error)
        return [value for _, value in told]

    def check(self, what: str, texts: list[str | None], mine: Exception | None) -> None:
        """Raise CheckpointException if a rank has failed."""
        failures = {self.global_rank(r): text for r, text in enumerate(texts) if text is not None}
        if not failures:
            return
        if isinstance(mine, CheckpointException) and len(failures) == self.size:
            raise mine
        raise failure_of_ranks(what, failures) from mine

    # Beside the program -------------------------------------------------------------------------

    def twin(self) -> Ranks:
        """Return the same ranks with messages of their own, which do not meet the program's.

        All ranks call it. It is made once per group.
        """
        made = Ranks(alone=True)
        made.rank, made.size = self.rank, self.size
        if self.group is None:
            return made
        known = getattr(self.group, "checkpoint_twin", None)
        if known is None:
            group = self.group
            engine = group.engine.subgroup(range(group.size()))
            assert engine is not None
            # The number is one that no other group has: new_group counts from 0.
            known = ProcessGroup(engine, group.ranks, group.backend, group.number + 1_000_000)
            group.checkpoint_twin = known  # type: ignore[attr-defined]
            world.groups.append(known)
        made.group = known
        return made

    def exchange(self, what: str, call: Callable[[], int]) -> list[int]:
        """Do as `together` for a function that returns an int, in any thread.

        It neither records the call nor keeps the processor busy while it waits.
        """
        error: Exception | None = None
        number = 0
        try:
            number = call()
        except Exception as caught:
            if self.group is None:
                raise
            error = caught
        if self.group is None:
            return [number]
        message = b"" if error is None else describe(error).encode()[:TEXT] or b"?"
        mine = np.zeros(8 + TEXT, np.uint8)
        mine[:8] = np.array([number], np.int64).view(np.uint8)
        mine[8 : 8 + len(message)] = np.frombuffer(message, np.uint8)
        told = np.zeros((self.size, 8 + TEXT), np.uint8)
        request = self.group.engine.all_gather(told.reshape(-1), mine, is_async=True)
        while not request.Test():
            time.sleep(POLL)
        texts = [row[8:].tobytes().rstrip(b"\0").decode(errors="replace") for row in told]
        self.check(what, [text or None for text in texts], error)
        return [int(row[:8].view(np.int64)[0]) for row in told]


def describe(error: Exception) -> str:
    """Return an error as a text for other ranks."""
    text = str(error)
    return text if isinstance(error, CheckpointException) else f"{type(error).__name__}: {text}"
