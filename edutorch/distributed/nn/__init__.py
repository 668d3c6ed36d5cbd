"""`torch.distributed.nn`: collectives through which gradients flow."""

from .functional import (
    all_gather, all_reduce, all_to_all, all_to_all_single, broadcast, reduce, reduce_scatter,
)  # fmt: skip

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "reduce",
    "reduce_scatter",
]  # fmt: skip
