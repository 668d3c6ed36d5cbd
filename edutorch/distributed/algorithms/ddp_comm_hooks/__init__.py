"""`torch.distributed.algorithms.ddp_comm_hooks`: other messages for the gradients of DDP."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any

from . import debugging_hooks, default_hooks, powerSGD_hook

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


def register(hook: Any, model: Any, state: Any) -> None:
    """Register a hook whose state is a process group."""
    model.register_comm_hook(state, hook)


def register_power_sgd(hook: Any, rank: int, model: Any, state: Any) -> None:
    """Register a hook of PowerSGD; `state` is a process group."""
    model.register_comm_hook(powerSGD_hook.PowerSGDState(state, rank), hook)


class DDPCommHookType(Enum):
    """The hooks by name.

    >>> from edutorch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType
    >>> DDPCommHookType.FP16_COMPRESS.name
    'FP16_COMPRESS'
    """

    ALLREDUCE = (partial(register, default_hooks.allreduce_hook),)
    FP16_COMPRESS = (partial(register, default_hooks.fp16_compress_hook),)
    BF16_COMPRESS = (partial(register, default_hooks.bf16_compress_hook),)
    POWER_SGD = (partial(register_power_sgd, powerSGD_hook.powerSGD_hook, 1),)
    POWER_SGD_RANK2 = (partial(register_power_sgd, powerSGD_hook.powerSGD_hook, 2),)
    BATCHED_POWER_SGD = (partial(register_power_sgd, powerSGD_hook.batched_powerSGD_hook, 1),)
    BATCHED_POWER_SGD_RANK2 = (partial(register_power_sgd, powerSGD_hook.batched_powerSGD_hook, 2),)
    NOOP = (partial(register, debugging_hooks.noop_hook),)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Register a hook by its name on a `DistributedDataParallel`."""
    comm_hook_type.value[0](model=model, state=state)
