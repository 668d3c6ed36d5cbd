"""`torch.distributed.tensor`: tensors whose parts lie on several ranks."""

from __future__ import annotations

from ..device_mesh import DeviceMesh
from . import special as special  # attaches the ops that are computed in another way
from .api import (
    distribute_module, distribute_tensor, empty, full, ones, rand, randn, zeros,
)  # fmt: skip
from .dtensor import DTensor
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "empty", "full", "ones", "rand", "randn", "zeros",
]  # fmt: skip
