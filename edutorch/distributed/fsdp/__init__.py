"""`torch.distributed.fsdp`: the parameters of a model divided among the ranks."""

from __future__ import annotations

from .fully_shard import FSDPModule, UnshardHandle, fully_shard, register_fsdp_forward_method
from .fully_sharded_data_parallel import FullyShardedDataParallel
from .policies import (
    BackwardPrefetch, CPUOffload, CPUOffloadPolicy, FullStateDictConfig, LocalStateDictConfig,
    MixedPrecision, MixedPrecisionPolicy, OffloadPolicy, ShardedStateDictConfig, ShardingStrategy,
    StateDictConfig, StateDictSettings, StateDictType,
)  # fmt: skip

__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FSDPModule", "FullStateDictConfig",
    "FullyShardedDataParallel", "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy",
    "OffloadPolicy", "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig",
    "StateDictSettings", "StateDictType", "UnshardHandle", "fully_shard",
    "register_fsdp_forward_method",
]  # fmt: skip
