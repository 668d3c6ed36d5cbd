"""The order in which a rank computes: forward and backward of micro-batches, stage by stage.

An order only lists what a rank computes. What it needs it waits for, so ranks wait for each other
where the lists say so, and nobody keeps a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...errors import InvalidValueError

__all__ = ["Action", "draw", "gpipe", "interleaved_1f1b", "one_forward_one_backward"]


class Action(NamedTuple):
    """Forward ("F") or backward ("B") of one micro-batch in one stage."""

    stage: int
    direction: str
    microbatch: int


Order = list[Action]


def gpipe(rank: int, stages: Sequence[int], microbatches: int, ranks: int) -> Order:
    """Return all micro-batches forward, then all of them backward.

    Args:
        rank: of the group.
        stages: those of this rank, in order.
        microbatches: how many.
        ranks: how many.

    >>> from edutorch.distributed.pipelining.orders import gpipe
    >>> "".join(a.direction for a in gpipe(0, [0], 3, 2))
    'FFFBBB'
    """
    numbers_of = range(microbatches)
    forward = [Action(stage, "F", number) for stage in stages for number in numbers_of]
    return forward + [Action(s, "B", number) for s in reversed(stages) for number in numbers_of]


def one_forward_one_backward(
    rank: int, stages: Sequence[int], microbatches: int, ranks: int
) -> Order:
    """Return an order in which a rank keeps few micro-batches: never more than stages follow.

    Args:
        rank, stages, microbatches, ranks: as for `gpipe`; one stage.

    >>> from edutorch.distributed.pipelining.orders import one_forward_one_backward
    >>> "".join(a.direction for a in one_forward_one_backward(0, [0], 4, 2))
    'FFBFBFBB'
    """
    (stage,) = stages
    ahead = min(microbatches, ranks - rank)
    order = [Action(stage, "F", number) for number in range(ahead)]
    for number in range(microbatches):
        order.append(Action(stage, "B", number))
        if ahead + number < microbatches:
            order.append(Action(stage, "F", ahead + number))
    return order


def interleaved_1f1b(rank: int, stages: Sequence[int], microbatches: int, ranks: int) -> Order:
    """Return the order for several stages per rank: micro-batches go round by round.

    Args:
        rank, stages, microbatches, ranks: as for `gpipe`.

    Raises: ValueError: the micro-batches cannot be divided into rounds.

    >>> from edutorch.distributed.pipelining.orders import interleaved_1f1b
    >>> [f"{a.direction}{a.stage}" for a in interleaved_1f1b(1, [1, 3], 2, 2)]
    ['F1', 'F1', 'F3', 'B3', 'F3', 'B3', 'B1', 'B1']
    """
    rounds = max(1, microbatches // ranks)
    if microbatches % rounds:
        raise InvalidValueError(
            "ScheduleInterleaved1F1B",
            f"{microbatches} micro-batches cannot be divided into {rounds} rounds",
            hint=f"take a multiple of {ranks}",
        )  # fmt: skip
    size, local, total = microbatches // rounds, len(stages), microbatches * len(stages)
    ahead = min(total, (local - 1) * size + 2 * (ranks - 1 - rank))
    forward, backward = ([0] * local for _ in range(2))
    order: Order = []

    def add(direction: str, step: int) -> None:
        at = step // size % local
        if direction == "B":
            at = local - 1 - at
        counts = forward if direction == "F" else backward
        order.append(Action(stages[at], direction, counts[at]))
        counts[at] += 1

    for step in range(ahead):
        add("F", step)
    for step in range(total):
        if ahead + step < total:
            add("F", ahead + step)
        add("B", step)
    return order


Maker = Callable[[int, Sequence[int], int, int], Order]


def draw(maker: Maker, ranks: int, microbatches: int, stages_per_rank: int = 1) -> str:
    """Return a schedule as text: a row per rank, a column per moment, "." where it waits.

    Capitals are backward.

    Args:
        maker: an order of this file.
        ranks, microbatches, stages_per_rank: how many.

    Raises: ValueError: the ranks wait for each other for ever.

    >>> from edutorch.distributed.pipelining.orders import draw, gpipe
    >>> print(draw(gpipe, 2, 3))
    rank 0 | f0 f1 f2  .  . B0 B1 B2
    rank 1 |  . f0 f1 f2 B0 B1 B2  .
    """
    total = ranks * stages_per_rank
    left = [maker(rank, range(rank, total, ranks), microbatches, ranks) for rank in range(ranks)]
    done: set[Action] = set()
    rows: list[list[str]] = [[] for _ in range(ranks)]
    while any(left):
        ready = [order[0] if order and is_ready(order[0], done, total) else None for order in left]
        if not any(ready):
            raise InvalidValueError("pipelining", "the ranks wait for each other for ever")
        for rank, action in enumerate(ready):
            rows[rank].append("." if action is None else label(action, ranks, stages_per_rank))
            if action is not None:
                left[rank].pop(0)
                done.add(action)
    width = max(len(text) for row in rows for text in row)
    return "\n".join(
        f"rank {rank} | " + " ".join(f"{text:>{width}}" for text in row)
        for rank, row in enumerate(rows)
    )


def label(action: Action, ranks: int, stages_per_rank: int) -> str:
    """Return an action as two letters; with several stages per rank the stage is behind a colon."""
    letter = "f" if action.direction == "F" else "B"
    suffix = f":{action.stage}" if stages_per_rank > 1 else ""
    return f"{letter}{action.microbatch}{suffix}"


def is_ready(action: Action, done: set[Action], stages: int) -> bool:
    """Whether everything that an action needs has been computed."""
    stage, direction, number = action
    if direction == "F":
        return stage == 0 or Action(stage - 1, "F", number) in done
    if Action(stage, "F", number) not in done:
        return False
    return stage == stages - 1 or Action(stage + 1, "B", number) in done
