"""A hook that sends nothing: it shows how long a step takes without its messages."""

from __future__ import annotations

from typing import Any

from ...data_parallel.buckets import GradBucket
from ...work import Future

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: GradBucket) -> Future:
    """Return the gradients of this rank as they are.

    >>> from edutorch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    >>> model.register_comm_hook(None, noop_hook)
    >>> model(ones(3, 2)).sum().backward()
    >>> model.module.bias.grad
    tensor([3.])
    >>> distributed.destroy_process_group()
    """
    future = Future()
    future.set_result(bucket.buffer())
    return future
