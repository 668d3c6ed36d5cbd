"""DDP on ranks with different numbers of batches, see `algorithms/join.py`."""

from __future__ import annotations

from typing import Any

from ...ops import tensor
from ..algorithms.join import JoinHook
from ..collectives import all_gather_into_tensor, broadcast

DDP = Any  # `DistributedDataParallel`, which imports this file

__all__ = ["DDPJoinHook", "agree", "first_with"]


def first_with(model: DDP, *facts: bool) -> list[int]:
    """Ask all ranks, and return for each fact on how many it is true, and as the last number the
    first rank of the group with `facts[0]`, or -1.
    """
    group, device = model.process_group, model.join_device
    mine = tensor([float(fact) for fact in facts], device=device)
    everyone = tensor([[0.0] * len(facts)] * group.size(), device=device)
    all_gather_into_tensor(everyone, mine, group=group)
    columns = list(zip(*everyone.tolist(), strict=True))
    first = columns[0].index(1.0) if 1.0 in columns[0] else -1
    return [*(int(sum(column)) for column in columns), first]


def agree(model: DDP, has_batch: bool, averages: bool) -> bool:
    """Begin an iteration inside of `Join`, on all ranks: buffers are copied from one with a batch.

    Returns: whether gradients are averaged.
    """
    copies = has_batch and model.copies_buffers
    active, averaged, copied, first = first_with(model, has_batch, averages, copies)
    if not model.divide_by_initial_world_size:
        model.reducer.divisor = active
    if copied:
        model.copy_buffers(first)
    return averaged > 0


class DDPJoinHook(JoinHook):
    """What a rank does for a model once it has no more batches.

    Args:
        model: takes part with gradients of zeros.
        divide_by_initial_world_size: averages are over all ranks; else over those with a batch.
    """

    def __init__(self, model: DDP, divide_by_initial_world_size: bool) -> None:
        self.model = model
        model.divide_by_initial_world_size = divide_by_initial_world_size

    def main_hook(self) -> None:
        """Take part in one iteration of the others."""
        if agree(self.model, has_batch=False, averages=False):
            self.model.reducer.pass_without_batch()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Copy parameters and buffers from a rank that had the last batch."""
        model = self.model
        _, source = first_with(model, is_last_joiner)
        for value in [*model.module.parameters(), *model.module.buffers()]:
            broadcast(value.detach(), group=model.process_group, group_src=source)
        model.reducer.divisor = model.process_group.size()
