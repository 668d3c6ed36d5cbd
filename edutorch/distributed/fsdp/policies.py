"""The options of FSDP."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FullStateDictConfig",
    "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy", "OffloadPolicy",
    "FullOptimStateDictConfig", "LocalOptimStateDictConfig", "OptimStateDictConfig",
    "OptimStateKeyType", "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings",
    "StateDictType",
]  # fmt: skip


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes a module computes; its parameters stay in theirs.

    Args:
        param_dtype: of the gathered parameters, and so of the computation.
        reduce_dtype: in which gradients are added up; by default as they come.
        output_dtype: of the module's outputs.
        cast_forward_inputs: bring floating inputs to `param_dtype`.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Parameters stay on the device."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters, gradients and the optimizer's state are in the memory of the host."""

    pin_memory: bool = True


# Of the older `FullyShardedDataParallel` -------------------------------------------------------


class ShardingStrategy(Enum):
    """What is divided among the ranks.

    FULL_SHARD: parameters, gradients and optimizer state. SHARD_GRAD_OP: the same, but parameters
    stay gathered from forward to backward. NO_SHARD: nothing, as DDP. HYBRID_SHARD: divided inside
    of each computer, the same on all of them.
    """

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the next parameters are gathered: accepted."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


@dataclass
class MixedPrecision:
    """As `MixedPrecisionPolicy`, of `FullyShardedDataParallel`."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True


@dataclass
class CPUOffload:
    """Whether parameters are in the memory of the host."""

    offload_params: bool = False


class StateDictType(Enum):
    """What `state_dict()` returns: whole tensors, DTensors, or the parts of this rank."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass
class StateDictConfig:
    """Options of `state_dict()`."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Options of whole tensors. Args: rank0_only: the dict is empty on all other ranks."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Options of local tensors."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Options of DTensors."""


@dataclass
class OptimStateDictConfig:
    """Options of `optim_state_dict()`."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Options of whole tensors. Args: rank0_only: the dict is empty on all other ranks."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Options of local tensors."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Options of DTensors."""


class OptimStateKeyType(Enum):
    """What the keys of an optimizer's state are: names of parameters, or their numbers."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class StateDictSettings:
    """What `set_state_dict_type` has set."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: Any = None
