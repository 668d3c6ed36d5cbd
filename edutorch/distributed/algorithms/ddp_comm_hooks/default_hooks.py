"""Hooks that average gradients by one `all_reduce` per bucket, in some precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.tensor import Tensor
from ....dtypes import bfloat16, dtype, float16
from ...collectives import all_reduce
from ...data_parallel.buckets import GradBucket
from ...errors import DistError
from ...process_group import ProcessGroup, group_of
from ...work import Future

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook",
    "fp16_compress_wrapper",
]  # fmt: skip

Hook = Callable[[Any, GradBucket], Future]


def group_of_hook(group: ProcessGroup | None) -> ProcessGroup:
    """Return the ranks of a hook; None: all.

    Raises: RuntimeError: this rank is not among them.
    """
    chosen = group_of(group, "communication hook")
    if chosen is None:
        raise DistError("communication hook", "this rank is not in the process group of the hook")
    return chosen


def average(group: ProcessGroup, tensor: Tensor) -> Future:
    """Average a tensor over all ranks, in place.

    It is divided before the sum, which else could be too large for float16.
    """
    tensor.div_(group.size())
    work = all_reduce(tensor, group=group, async_op=True)
    assert work is not None
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Average a bucket as it is: what happens without a hook.

    >>> from edutorch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    >>> distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    >>> model.register_comm_hook(None, allreduce_hook)
    >>> model(ones(3, 2)).sum().backward()
    >>> model.module.bias.grad
    tensor([3.])
    >>> distributed.destroy_process_group()
    """
    return average(group_of_hook(process_group), bucket.buffer())


def compress(wanted: dtype, process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Average a bucket in another dtype, and write the average into it."""
    buffer = bucket.buffer()
    compressed = average(group_of_hook(process_group), buffer.to(wanted))
    return compressed.then(lambda future: buffer.copy_(future.value()))


def fp16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Average a bucket in float16: half the bytes, 11 bits of each number."""
    return compress(float16, process_group, bucket)


def bf16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Average a bucket in bfloat16: half the bytes, 8 bits of each number, the range of float32."""
    return compress(bfloat16, process_group, bucket)


def wrap(wanted: dtype, hook: Hook) -> Hook:
    """Return a hook that calls another one with a bucket of the dtype `wanted`."""

    def wrapped(state: Any, bucket: GradBucket) -> Future:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(wanted))
        return hook(state, bucket).then(lambda future: buffer.copy_(future.value()))

    return wrapped


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that gives `hook` its buckets in float16."""
    return wrap(float16, hook)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that gives `hook` its buckets in bfloat16."""
    return wrap(bfloat16, hook)
