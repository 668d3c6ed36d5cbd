"""Data parallel training: each rank has the whole model, and its own part of the batch."""

from __future__ import annotations

from .buckets import GradBucket
from .distributed_data_parallel import DistributedDataParallel

__all__ = ["DistributedDataParallel", "GradBucket"]
