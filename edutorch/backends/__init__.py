"""Backends: one file per device; everything else is written once for all of them.

Generic code receives `xp`, the device's NumPy-like module, and calls its
`Backend` for the few operations in which array libraries differ.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..errors import DeviceError

# PyTorch's switches: `torch.backends.cuda` is in `compat/backends/`.
__path__.append(__path__[0].removesuffix("backends") + "compat/backends")

from . import cuda  # switches that scripts set, kept
from . import numpy as _numpy
from .numpy import Backend
from .kernel_registry import reference_only

__all__ = ["ACCELERATOR", "DEVICES", "Backend", "get", "of", "reference_only", "register"]

# Made by `compat/small_modules.py`: libraries that PyTorch has and scripts ask for.
cudnn: ModuleType
mkl: ModuleType
mkldnn: ModuleType
mps: ModuleType
openmp: ModuleType


class DeviceType(NamedTuple):
    """A type of device: what is known of it before its array library is imported.

    Attributes:
        module, backend: the file here and its class.
        is_accelerator: whether it computes beside the CPU, with memory of its own.
        has_gpu_rules: whether autocast treats it as a GPU (`strict` replaces one in the tests).
        dlpack: its number in the DLPack standard.
    """

    module: str
    backend: str
    is_accelerator: bool = False
    has_gpu_rules: bool = False
    dlpack: int = 1


DEVICES = {
    "cpu": DeviceType("numpy", "NumpyBackend"),
    "cuda": DeviceType("cupy", "CupyBackend", is_accelerator=True, has_gpu_rules=True, dlpack=2),
    "meta": DeviceType("meta", "MetaBackend"),
    "strict": DeviceType("strict", "StrictBackend", has_gpu_rules=True),
}
"""All devices. A new one is a line here, and a file with its `Backend`."""

ACCELERATOR = next(name for name, device in DEVICES.items() if device.is_accelerator)
"""The device that `tensor.cuda()` and an index alone refer to."""

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
for _shared in (_numpy.Shared, _numpy.Exported, _numpy.Stored):
    _shared.backend = CPU
    register_type(_shared)


def get(name: str) -> Backend:
    """Return the backend of a type of device, loading it at first use.

    Raises: DeviceError: there is no such device, or it cannot be used here.
    """
    backend = _BY_NAME.get(name)
    if backend is not None:
        return backend
    device = DEVICES.get(name)
    if device is None:
        raise DeviceError(
            "device",
            f"there is no device {name!r}",
            hint="the devices are 'cpu', 'cuda' and 'meta'",
        )  # fmt: skip
    module = import_module(f".{device.module}", __name__)
    return register(getattr(module, device.backend)())


def from_dlpack_type(number: int) -> Backend:
    """Return the backend of the device with this number in the DLPack standard; else the CPU's."""
    names = (name for name, device in DEVICES.items() if device.dlpack == number)
    return get(next(names, CPU.name))


def is_unavailable(name: str) -> bool:
    """Whether a device is an accelerator that does not work here."""
    from .cupy import problems

    return DEVICES[name].is_accelerator and bool(problems())


def of(array: Any) -> Backend:
    """Return the backend that owns `array`."""
    return _BY_ARRAY[type(array)] or array.backend


def backend_of_type(array_type: type) -> Backend | None:
    """Return the backend that has arrays of this class, or None: no array's, or one of several."""
    return _BY_ARRAY.get(array_type)


def has_elements(array: Any) -> bool:
    """Return True if `array` has elements to look at: one of the device `meta` has none."""
    return isinstance(array, np.generic) or of(array).has_elements


def is_array(value: Any) -> bool:
    """Return True if `value` is an array of a backend that is loaded."""
    return type(value) in _BY_ARRAY
