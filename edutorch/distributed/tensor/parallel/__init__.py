"""`torch.distributed.tensor.parallel`: layers that are divided among several ranks."""

from __future__ import annotations

from .api import parallelize_module
from .loss import loss_parallel
from .style import (
    ColwiseParallel, ParallelStyle, PrepareModuleInput, PrepareModuleInputOutput,
    PrepareModuleOutput, RowwiseParallel, SequenceParallel,
)  # fmt: skip

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel", "loss_parallel",
    "parallelize_module",
]  # fmt: skip
