"""Pictures: models, data sets, transforms and drawing, with torchvision's names.

    from edutorch.vision import datasets, models, transforms

Each submodule is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["datasets", "io", "models", "ops", "transforms", "utils"]


def __getattr__(name: str) -> ModuleType:
    """Load a submodule: `edutorch.vision.models`."""
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
