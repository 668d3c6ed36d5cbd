"""`torch.jit.freeze`: a module in eval mode whose attributes are constants of its class."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """Return the module unchanged; it must be in eval mode."""
    if mod.training:
        raise RuntimeError("freeze: the module is in training mode; call module.eval() first")
    return mod


def optimize_for_inference(mod: T, other_methods: Any = None) -> T:
    """Return the module unchanged."""
    return mod
