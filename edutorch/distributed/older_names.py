"""Modules under the names that they had in earlier versions of PyTorch, and inside of it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["register"]

OLDER = {
    "_tensor": "tensor",
    "_tensor.api": "tensor",
    "_tensor.device_mesh": "device_mesh",
    "_tensor.placement_types": "tensor.placement_types",
    "_composable": "fsdp",
    "_composable.fsdp": "fsdp",
    "_shard": "checkpoint",
    "_shard.checkpoint": "checkpoint",
    "distributed_c10d": "",
    "constants": "availability",
}
"""By the older name, where its functions and classes are now."""


def register(package: str) -> None:
    """Make the older names importable below a package.

    Args:
        package: "edutorch.distributed".
    """
    for older, newer in OLDER.items():
        full = f"{package}.{older}"
        module = ModuleType(full, f"`{older}`: the older name of `{newer or 'distributed'}`.")
        module.__spec__ = ModuleSpec(full, None, is_package=True)
        module.__path__ = []
        target = f"{package}.{newer}" if newer else package

        def load(name: str, target: str = target, full: str = full) -> Any:
            if not name.startswith("__"):
                return getattr(import_module(target), name)
            raise AttributeError(f"module {full!r} has no attribute {name!r}", name=name)

        vars(module)["__getattr__"] = load
        sys.modules[full] = module
        parent, _, leaf = full.rpartition(".")
        setattr(sys.modules[parent], leaf, module)
