"""Whether all ranks have the same model: checked once, before the first message of its data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.tensor import Tensor
from ..errors import DistBackendError
from ..process_group import ProcessGroup

__all__ = ["check_same_model"]


def check_same_model(group: ProcessGroup, named: Sequence[tuple[str, Tensor]]) -> None:
    """Compare the parameters and buffers of all ranks.

    Raises: DistBackendError: a rank has another number of them, or one differs in shape or dtype.
    """
    mine = [(name, tuple(tensor.shape), str(tensor.dtype)) for name, tensor in named]
    everyone = group.engine.all_gather_object(mine)
    for rank, theirs in enumerate(everyone):
        if theirs == everyone[0]:
            continue
        other = group.ranks[rank]
        if len(theirs) != len(everyone[0]):
            raise DistBackendError(
                "DistributedDataParallel",
                "the ranks have different numbers of parameters and buffers",
                {f"rank {group.ranks[0]}": len(everyone[0]), f"rank {other}": len(theirs)},
                "build the same model on all ranks",
            )
        first, second = next(
            pair for pair in zip(everyone[0], theirs, strict=True) if pair[0] != pair[1]
        )
        raise DistBackendError(
            "DistributedDataParallel", f"parameter {first[0]!r} differs between the ranks",
            {f"rank {group.ranks[0]}": describe(first), f"rank {other}": describe(second)},
            "build the same model on all ranks",
        )  # fmt: skip


def describe(entry: tuple[str, Any, str]) -> str:
    """Return name, shape and dtype as text."""
    name, shape, dtype = entry
    return f"{name} {shape} {dtype}"
