"""Each of several processes that train together sees its own part of the samples."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sized

from ...ops import Generator, randperm
from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """Gives process number `rank` every `num_replicas`-th sample, all processes as many.

    So that all get as many, some samples are given twice, or left out with `drop_last`.
    Call `set_epoch` before each epoch: the order is made of `seed` and the epoch alone, the
    same in all processes.

    Args:
        dataset: something with a length.
        num_replicas: the number of processes; by default the environment's WORLD_SIZE.
        rank: the number of this one; by default the environment's RANK.
        shuffle: a new random order in each epoch.
        seed: the same in all processes.
        drop_last: leave samples out instead of giving some twice.

    Raises: ValueError: no such rank, or nothing says how many processes there are.

    >>> sampler = DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
    >>> list(sampler)
    [1, 3, 0]
    """

    def __init__(
        self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None,
        shuffle: bool = True, seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        replicas = told("num_replicas", "WORLD_SIZE") if num_replicas is None else num_replicas
        rank = told("rank", "RANK") if rank is None else rank
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
        if total and self.total_size > total:  # again from the start, until all have as many
            order *= math.ceil(self.total_size / total)
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch begins: each has an order of its own."""
        self.epoch = epoch


def told(argument: str, variable: str) -> int:
    """Return what the environment says of the processes that train together."""
    text = os.environ.get(variable, "")
    if not text.isdigit():
        raise ValueError(
            f"DistributedSampler: {argument} is not given, and the environment has no {variable}. "
            f"Give {argument}=..., or start the program by something that sets {variable}"
        )
    return int(text)
