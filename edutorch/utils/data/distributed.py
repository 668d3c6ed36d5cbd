"""A sampler for distributed training: each process sees its own part of the samples."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sized

from ...ops import Generator, randperm
from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """Yields every `num_replicas`-th index, starting at `rank`; equally many in all processes.

    To make the parts equal, some samples are repeated, or left out with `drop_last`. Call
    `set_epoch` before each epoch: the order depends on `seed` and the epoch alone, so it is the
    same in all processes.

    Args:
        dataset: something with a length.
        num_replicas: the number of processes; by default that of the process group, else the
            environment's WORLD_SIZE.
        rank: the index of this one; by default that in the process group, else RANK.
        shuffle: use a new random order in each epoch.
        seed: the same in all processes.
        drop_last: drop samples instead of repeating some.

    Raises: ValueError: an invalid rank, or neither argument nor environment variable is set.

    >>> sampler = DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
    >>> list(sampler)
    [1, 3, 0]
    """

    def __init__(
        self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None,
        shuffle: bool = True, seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        replicas = own_place("num_replicas") if num_replicas is None else num_replicas
        rank = own_place("rank") if rank is None else rank
        if not 0 <= rank < replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {replicas - 1}]"
            )
        self.dataset, self.num_replicas, self.rank = dataset, replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        share = len(dataset) / replicas
        self.num_samples = math.floor(share) if drop_last else math.ceil(share)
        self.total_size = self.num_samples * replicas

    def __iter__(self) -> Iterator[int]:
        total = len(self.dataset)
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            order = randperm(total, generator=generator, device="cpu").tolist()
        else:
            order = list(range(total))
        if total and self.total_size > total:  # repeat samples, until all parts are equal
            order *= math.ceil(self.total_size / total)
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order."""
        self.epoch = epoch


def own_place(argument: str) -> int:
    """Return the number of processes, or the rank of this one: the group's, or the environment's.

    Raises: ValueError: there is no group, and the variable is not set, or not a number.
    """
    distributed = sys.modules.get("edutorch.distributed")  # else there is no group
    if distributed is not None and distributed.is_initialized():
        return distributed.get_rank() if argument == "rank" else distributed.get_world_size()
    variable = "RANK" if argument == "rank" else "WORLD_SIZE"
    text = os.environ.get(variable, "")
    if not text.isdigit():
        raise ValueError(
            f"DistributedSampler: {argument} is not given, and the environment has no {variable}. "
            f"Give {argument}=..., or start the program by something that sets {variable}"
        )
    return int(text)
