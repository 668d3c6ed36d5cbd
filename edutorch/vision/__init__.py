"""Pictures: models, data sets, transforms and drawing, with torchvision's names.

    from edutorch.vision import datasets, models, transforms

Each submodule is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_SUBMODULES = ("datasets", "io", "models", "ops", "transforms", "utils")


def __getattr__(name: str) -> ModuleType:
    """Load a submodule: `edutorch.vision.models`."""
    if name in _SUBMODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
