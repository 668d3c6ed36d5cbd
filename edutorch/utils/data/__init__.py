"""Datasets, samplers and data loaders (see README.md)."""

from __future__ import annotations

from typing import Any

from . import _utils
from .collate import default_collate, default_convert
from .dataloader import DataLoader
from .dataset import (
    ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset,
    random_split,
)  # fmt: skip
from .distributed import DistributedSampler
from .fetch import get_worker_info
from .sampler import (
    BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler,
    WeightedRandomSampler,
)  # fmt: skip

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset",
    "DistributedSampler", "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler",
    "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler",
    "default_collate", "default_convert", "get_worker_info", "random_split",
]  # fmt: skip

DATA_PIPES = {
    "DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "argument_validation",
    "datapipes", "functional_datapipe", "guaranteed_datapipes_determinism", "non_deterministic",
    "runtime_validation", "runtime_validation_disabled",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in DATA_PIPES:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}: data pipes are deprecated in PyTorch "
            "and not offered here; write a Dataset or an IterableDataset"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
