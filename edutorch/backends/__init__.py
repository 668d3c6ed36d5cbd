"""Backends: one file per device; everything else is written once for all of them.

Generic code receives `xp`, the device's NumPy-like module, and calls its
`Backend` for the few operations in which array libraries differ.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..errors import DeviceError

# PyTorch's switches: `torch.backends.cuda` is in `compat/backends/`.
__path__.append(__path__[0].removesuffix("backends") + "compat/backends")

from . import cuda  # switches that scripts set, kept
from . import numpy as _numpy
from .numpy import Backend
from .kernel_registry import reference_only

__all__ = ["Backend", "get", "of", "reference_only", "register"]

# Made by `compat/small_modules.py`: libraries that PyTorch has and scripts ask for.
cudnn: ModuleType
mkl: ModuleType
mkldnn: ModuleType
mps: ModuleType
openmp: ModuleType

_BY_NAME: dict[str, Backend] = {}
_BY_ARRAY: dict[type, Backend | None] = {}


def register(backend: Backend) -> Backend:
    """Register `backend` by its name and by the class of its arrays."""
    _BY_NAME[backend.name] = backend
    _BY_ARRAY[backend.array_type] = backend
    return backend


def register_type(array_type: type) -> None:
    """Register a class of arrays that have a `backend` attribute (see `batching.py`)."""
    _BY_ARRAY[array_type] = None


CPU = register(_numpy.NumpyBackend())


def get(name: str) -> Backend:
    """Return the backend called 'cpu', 'cuda' or 'strict', loading it at first use.

    Raises: DeviceError: there is no such device, or it cannot be used here.
    """
    backend = _BY_NAME.get(name)
    if backend is not None:
        return backend
    if name == "cuda":
        from .cupy import CupyBackend

        return register(CupyBackend())
    if name == "strict":
        from .strict import StrictBackend

        return register(StrictBackend())
    raise DeviceError(
        "device", f"there is no device {name!r}", hint="the devices are 'cpu' and 'cuda'"
    )


def of(array: Any) -> Backend:
    """Return the backend that owns `array`."""
    return _BY_ARRAY[type(array)] or array.backend


def is_array(value: Any) -> bool:
    """Return True if `value` is an array of a backend that is loaded."""
    return type(value) in _BY_ARRAY
