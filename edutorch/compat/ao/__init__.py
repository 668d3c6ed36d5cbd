"""`torch.ao`: quantization, which stores and multiplies small integers instead of floats."""

from __future__ import annotations

from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    """Import `quantization` or `nn` when it is first asked for."""
    if name in ("nn", "quantization"):
        from importlib import import_module

        return import_module(f".{name}", __name__)
    raise AttributeError(f"module 'edutorch.ao' has no attribute {name!r}", name=name)
