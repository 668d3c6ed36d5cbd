"""Access to loaders, and what resumes an epoch: random states, and the batches that are left."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .. import backends
from ..backends.device import backend_for
from ..core.tensor import Tensor
from ..ops import Generator
from ..ops.random import default_generator
from ..utils._pytree import tree_leaves, tree_map
from ..utils.data import DataLoader, RandomSampler
from .errors import SettingError, TrainError

__all__ = ["RandomState", "batch_size_of", "limited_length", "map_tensors"]


def map_tensors(batch: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return a batch with `change` applied to each of its tensors, in any nested containers."""
    return tree_map(lambda part: change(part) if isinstance(part, Tensor) else part, batch)


def batch_size_of(batch: Any) -> int:
    """Return the number of samples in a batch: the first axis of its first tensor.

    >>> batch_size_of((zeros(8, 3), zeros(8)))
    8
    """
    for part in tree_leaves(batch):
        if isinstance(part, Tensor) and part.ndim:
            return int(part.shape[0])
    return 1


def length_of(loader: Any) -> int | None:
    """Return the number of batches, or None if the loader has no length."""
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None


def limited_length(loader: Any, limit: int | float | None, name: str) -> int | None:
    """Return the number of batches to use; `limit` is a number, or a share between 0 and 1."""
    length = length_of(loader)
    if limit is None or (isinstance(limit, float) and limit == 1.0):
        return length
    if isinstance(limit, int):
        return limit if length is None else min(limit, length)
    if length is None:
        raise SettingError(
            "Trainer", f"{name}={limit} is a part of a loader whose length is not known",
            hint="give a whole number of batches",
        )  # fmt: skip
    return int(length * limit)


def check_loader(loader: Any, name: str) -> None:
    """Raise TrainError if the loader does not yield batches."""
    if isinstance(loader, Tensor | str) or not isinstance(loader, Iterable):
        raise TrainError(
            "Trainer", f"{name} must be a loader that gives batches, not {type(loader).__name__}",
            hint="DataLoader(TensorDataset(inputs, targets), batch_size=32)",
        )  # fmt: skip


def single_loader(loader: Any) -> Any:
    """Return the loader, or the only one in a list: training uses a single loader."""
    if isinstance(loader, list | tuple) and any(isinstance(entry, DataLoader) for entry in loader):
        if len(loader) > 1:
            raise TrainError(
                "fit", f"training takes batches from one loader, got {len(loader)}",
                hint="ConcatDataset puts datasets behind each other, StackDataset side by side",
            )  # fmt: skip
        return next(iter(loader))
    return loader


def as_loader_list(loaders: Any) -> list[Any]:
    """Return loaders as a list. A list of batches is one loader."""
    if loaders is None:
        return []
    if isinstance(loaders, list | tuple) and loaders and isinstance(loaders[0], DataLoader):
        return list(loaders)
    return [loaders]


def without_shuffling(loader: Any) -> Any:
    """Return a loader of the same data in order, if this one shuffles."""
    if not isinstance(loader, DataLoader) or not isinstance(loader.sampler, RandomSampler):
        return loader
    return DataLoader(
        loader.dataset, batch_size=loader.batch_size, drop_last=loader.drop_last,
        collate_fn=loader.collate_fn, num_workers=loader.num_workers,
    )  # fmt: skip


class Replay:
    """The batches of one epoch, which can be resumed in its middle.

    Only the random state at the beginning of the epoch is kept. To resume, it is restored, the
    batches that were used are drawn again and dropped, and the generators are set to their state
    at the interruption.

    Args:
        loader: yields the batches.
        length: the number of batches to use; None for all.
        device: the device whose generator belongs to the random state.
    """

    def __init__(self, loader: Any, length: int | None, device: str) -> None:
        self.loader, self.length, self.device = loader, length, device
        self.start: RandomState | None = None

    def batches(self, epoch: int) -> Iterator[Any]:
        """Return all batches of a new epoch."""
        announce_epoch(self.loader, epoch)
        self.start = RandomState.now(self.loader, self.device)
        return itertools.islice(iter(self.loader), self.length)

    def batches_after(
        self, done: int, epoch: int, start: RandomState, now: RandomState
    ) -> Iterator[Any]:
        """Return the batches after the first `done` of the epoch that began at `start`.

        The generators then go on from `now`.
        """
        announce_epoch(self.loader, epoch)
        self.start = start
        start.restore(self.loader, self.device)
        batches = itertools.islice(iter(self.loader), self.length)
        dropped = sum(1 for _ in itertools.islice(batches, done))
        if dropped < done:
            raise TrainError(
                "fit", f"the checkpoint was made after {done} batches of an epoch, but the loader "
                f"has only {dropped}", hint="resume with the data that it was trained on",
            )  # fmt: skip
        now.restore(self.loader, self.device)
        return batches


def announce_epoch(loader: Any, epoch: int) -> None:
    """Set the epoch of samplers whose order depends on it."""
    sampler = getattr(loader, "sampler", None)
    for holder in (sampler, getattr(loader, "batch_sampler", None)):
        set_epoch = getattr(holder, "set_epoch", None)
        if callable(set_epoch):
            set_epoch(epoch)


class RandomState:
    """The state of every random generator that a training may use.

    These are edutorch's generators, NumPy's global one, Python's, and those of a loader.

    >>> moment = RandomState.now(); first = rand(2)
    >>> moment.restore(); equal(first, rand(2))
    True
    """

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts

    @classmethod
    def now(cls, loader: Any = None, device: str = "cpu") -> RandomState:
        """Return the current state, which can be saved."""
        version, words, gauss = random.getstate()
        algorithm, keys, position, has_gauss, cached = np.random.get_state()
        parts: dict[str, Any] = {
            "edutorch": default_generator(backends.CPU).get_state(),
            "python": [version, np.array(words, np.uint32), gauss],
            "numpy": [algorithm, np.array(keys), int(position), int(has_gauss), float(cached)],
            "loader": [generator.get_state() for generator in generators_of(loader)],
        }  # fmt: skip
        if device != "cpu":
            parts["device"] = default_generator(backend_for(device)).get_state()
        return cls(parts)

    def restore(self, loader: Any = None, device: str = "cpu") -> None:
        """Set every generator to this state."""
        parts = self.parts
        default_generator(backends.CPU).set_state(parts["edutorch"])
        version, words, gauss = parts["python"]
        random.setstate((version, tuple(words.tolist()), gauss))
        np.random.set_state(tuple(parts["numpy"]))
        for generator, state in zip(generators_of(loader), parts["loader"], strict=False):
            generator.set_state(state)
        if device != "cpu" and "device" in parts:
            default_generator(backend_for(device)).set_state(parts["device"])


def generators_of(loader: Any) -> list[Generator]:
    """Return the generators of a loader and its samplers, without duplicates."""
    sampler = getattr(loader, "sampler", None)
    batch_sampler = getattr(loader, "batch_sampler", None)
    holders = (loader, sampler, batch_sampler, getattr(batch_sampler, "sampler", None))
    generators: list[Generator] = []
    for holder in holders:
        generator = getattr(holder, "generator", None)
        if isinstance(generator, Generator) and all(generator is not known for known in generators):
            generators.append(generator)
    return generators
