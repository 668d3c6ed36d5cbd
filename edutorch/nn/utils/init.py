"""Constructing a module without initializing its parameters."""

from __future__ import annotations

import inspect
from typing import Any

from ..modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Any], *args: Any, **kwargs: Any) -> Any:
    """Construct a module whose parameters will be set later, for instance by `load_state_dict`.

    (PyTorch skips the initialization to save time; here it runs, and the result is as valid.)

    Raises: RuntimeError: not a module class, or one without the argument `device`.

    >>> nn.utils.skip_init(nn.Linear, 3, 2).weight.shape
    torch.Size([2, 3])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    return module_cls(*args, **kwargs)
