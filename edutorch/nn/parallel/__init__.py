"""Data parallelism: `torch.nn.parallel`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .data_parallel import DataParallel, data_parallel
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]


def __getattr__(name: str) -> Any:
    """Load `DistributedDataParallel`, which is built on layers above this one."""
    if name == "DistributedDataParallel":
        return getattr(import_module("edutorch.distributed.data_parallel"), name)
    raise AttributeError(f"module 'edutorch.nn.parallel' has no attribute {name!r}", name=name)
